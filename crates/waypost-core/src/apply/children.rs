//! Executions that nodes start.

use super::node::move_to;
use super::waits::open_wait;
use super::{Step, refuse};
use crate::child::ChildState;
use crate::event::{NodeEvent, Wait};
use crate::id::ExecutionNo;
use crate::path::At;
use crate::planted::{Bug, is_planted};
use crate::state::State;
use crate::status::NodeStatus;

/// Folds an event about a child. Other events change nothing here.
pub(super) fn apply(state: &mut State, at: At, event: &NodeEvent) -> Step {
    if let NodeEvent::ChildStarted { execution, child, detached: false, leave, .. } = event {
        let (execution, key) = (*execution, child.clone());
        let child = ChildState { execution, key, ended: 0, leave: *leave };
        state.node_mut(at).details_mut().child = Some(Box::new(child));
        await_child(state, at)?;
    }
    if let NodeEvent::ChildReopened { execution, .. } = event {
        expect_child(state, at, *execution)?;
        await_child(state, at)?;
    }
    if let NodeEvent::ChildEnded { execution, generation, .. } = event {
        expect_child(state, at, *execution)?;
        ended(state, at, *generation)?;
    }
    Ok(())
}

fn expect_child(state: &State, at: At, execution: ExecutionNo) -> Step {
    let known = state.node(at).child.as_ref().map(|child| child.execution);
    if known == Some(execution) { Ok(()) } else { refuse("the node has another child, or none") }
}

fn await_child(state: &mut State, at: At) -> Step {
    let child = state.node(at).child.as_ref().ok_or("the node has no child")?.key.clone();
    move_to(state, at, NodeStatus::Waiting);
    open_wait(state, at, Wait::Child { child });
    state.children_open += 1;
    Ok(())
}

fn ended(state: &mut State, at: At, generation: u32) -> Step {
    if let Some(child) = &mut state.node_mut(at).details_mut().child {
        if generation <= child.ended && !is_planted(Bug::EndTakenTwice) {
            return Err(format!("the end of its generation {} was taken", child.ended));
        }
        child.ended = generation;
    }
    move_to(state, at, NodeStatus::Running);
    Ok(())
}
