//! Edges: the effect of a settled node on the nodes that need it. Rule 1 of the graph, and nothing
//! else.

use std::sync::Arc;

use crate::path::At;
use crate::plan::{Condition, OnError, Plan, PlanNode};
use crate::planted::{Bug, is_planted};
use crate::state::{NodeState, State};
use crate::status::NodeStatus;

/// The end of a condition whose source has settled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EdgeEnd {
    Taken,
    Dead,
    Neutral,
}

pub(super) fn count(node: &mut NodeState, edge: EdgeEnd) {
    // Saturating: a source that a repair runs again settles a second time, and may then meet a
    // node that was not reset because it had completed through another source.
    node.open = node.open.saturating_sub(1);
    match edge {
        EdgeEnd::Taken => node.taken += 1 + u32::from(is_planted(Bug::JoinCountedTwice)),
        EdgeEnd::Dead => node.dead += 1,
        EdgeEnd::Neutral => {}
    }
}

/// The effect of a settled source on a condition: rule 1 of the graph.
pub(super) fn edge_end(source: &PlanNode, state: &NodeState, condition: &Condition) -> EdgeEnd {
    let selected = |branch: Option<&Arc<str>>| {
        branch.is_some_and(|branch| condition.branches.contains(branch))
    };
    let taken = match state.status {
        NodeStatus::Completed => {
            // The branch of a timeout or a rejection is taken instead of edges without one, as that of
            // a failure is.
            let branch = state.branch.as_ref();
            let aside = branch.is_some_and(|branch| source.behaviour.is_aside(branch));
            (condition.unlabelled && !aside) || selected(branch)
        }
        NodeStatus::Failed | NodeStatus::TimedOut => {
            match source.error_handling(state.failure.as_deref()) {
                OnError::Fail => false,
                OnError::Continue => condition.unlabelled,
                OnError::Branch(branch) => selected(Some(branch)),
            }
        }
        NodeStatus::Skipped | NodeStatus::Cancelled => return EdgeEnd::Neutral,
        NodeStatus::Pending | NodeStatus::Queued | NodeStatus::Running | NodeStatus::Waiting => {
            unreachable!("edges end when their source settles")
        }
    };
    match taken {
        true => EdgeEnd::Taken,
        false if is_planted(Bug::BranchNeutral) => EdgeEnd::Neutral,
        false => EdgeEnd::Dead,
    }
}

/// Was this condition met by its source? Used when a node's input is assembled.
pub(crate) fn is_taken(plan: &Plan, state: &State, source: At, condition: &Condition) -> bool {
    let node = state.node(source);
    node.status.is_settled() && edge_end(plan.node(source.node), node, condition) == EdgeEnd::Taken
}
