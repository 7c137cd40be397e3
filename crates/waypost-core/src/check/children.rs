//! Executions that nodes start: each begins once, and its end is taken once.

use super::attempts::{Phase, Seen};
use super::invariant::Invariant::{ChildrenOnce, Justified};
use super::nodes::Nodes;
use super::{BrokenRule, Verdict, broken, require, require_with};
use crate::event::{NodeEvent, Wait};
use crate::id::ExecutionNo;
use crate::kind::Behaviour;
use crate::path::At;

impl Nodes {
    /// May it happen between this execution and another one? Other events may.
    pub(super) fn judge_call(&self, event: &NodeEvent, (at, seen): (Option<At>, &Seen)) -> Verdict {
        if let NodeEvent::ChildStarted { attempt, execution, .. } = event {
            self.may_have_child(at, seen, *attempt, *execution)?;
        }
        if let NodeEvent::ChildReopened { attempt, execution, .. } = event {
            seen.may_wait_again(*attempt, *execution)?;
        }
        if let NodeEvent::ChildEnded { attempt, execution, generation, .. } = event {
            seen.may_take_end(*attempt, *execution, *generation)?;
        }
        if let NodeEvent::SignalSent { attempt, .. } = event {
            self.may_send(at, seen, *attempt)?;
        }
        Ok(())
    }

    /// May a node start this execution?
    fn may_have_child(
        &self,
        at: Option<At>,
        seen: &Seen,
        attempt: u32,
        execution: ExecutionNo,
    ) -> Verdict {
        seen.is_running(attempt)?;
        if let (Some(plan), Some(at)) = (&self.plan, at) {
            let starts = matches!(plan.node(at.node).behaviour, Behaviour::Workflow(_));
            require(starts, Justified, "the node starts no executions")?;
        }
        let again = seen.child.is_some_and(|(child, _)| child == execution);
        require(!again, ChildrenOnce, "its child had begun before")
    }

    /// May a node send a signal?
    fn may_send(&self, at: Option<At>, seen: &Seen, attempt: u32) -> Verdict {
        seen.is_running(attempt)?;
        if let (Some(plan), Some(at)) = (&self.plan, at) {
            let sends = matches!(plan.node(at.node).behaviour, Behaviour::Emit(_));
            require(sends, Justified, "the node sends no signals")?;
        }
        Ok(())
    }
}

impl Seen {
    /// The last generation of this child whose end was taken.
    fn ended_of(&self, execution: ExecutionNo) -> Result<u32, BrokenRule> {
        match self.child {
            Some((child, ended)) if child == execution => Ok(ended),
            _ => broken(ChildrenOnce, "it has another child, or none"),
        }
    }

    fn may_wait_again(&self, attempt: u32, execution: ExecutionNo) -> Verdict {
        self.is_running(attempt)?;
        self.ended_of(execution).map(|_| ())
    }

    fn may_take_end(&self, attempt: u32, execution: ExecutionNo, generation: u32) -> Verdict {
        self.is_at(attempt)?;
        let waits = matches!(self.phase, Phase::Waiting { wait: Wait::Child { .. }, .. });
        require(waits, ChildrenOnce, "it does not wait for a child")?;
        let ended = self.ended_of(execution)?;
        require_with(generation > ended, ChildrenOnce, || {
            format!("generation {generation} of its child ended before")
        })
    }
}
