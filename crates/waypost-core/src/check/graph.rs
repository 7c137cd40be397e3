//! The graph's rules 1 to 3, read a second time: what a node's sources allow it to do.
//!
//! Computed when a node has its turn, from its own edges alone: nothing is counted along the way,
//! so that nothing can be counted wrongly.

use super::Invariant;
use super::attempts::{End, Phase};
use super::nodes::Nodes;
use crate::kind::{APPROVED, Behaviour};
use crate::path::At;
use crate::plan::{Condition, Join, OnError, Plan, PlanNode};

/// The verdict of the rules on a node that has not had its turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    NotYet,
    Run,
    Skip,
    /// Too few of a join's sources can be taken, and some were.
    Fail,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Edge {
    Open,
    Taken,
    Dead,
    Neutral,
}

impl Turn {
    /// The rule that acting against this breaks.
    pub(super) fn breaks(self, node: &PlanNode) -> Invariant {
        let joins = node.needs.len() > 1;
        if self == Self::NotYet && joins { Invariant::JoinsInTime } else { Invariant::Justified }
    }

    pub(super) fn describe(self) -> &'static str {
        match self {
            Self::NotYet => "its turn has not come: sources are still open",
            Self::Run => "its conditions are met: it has to run",
            Self::Skip => "its conditions cannot be met: it has to be skipped",
            Self::Fail => "its join cannot be met: it has to fail",
        }
    }
}

/// What the sources of a node allow.
pub(super) fn turn(plan: &Plan, nodes: &Nodes, at: At) -> Turn {
    let node = plan.node(at.node);
    let (mut open, mut taken, mut dead) = (0u32, 0u32, 0u32);
    for condition in &node.needs {
        match edge(plan, nodes, at, condition) {
            Edge::Open => open += 1,
            Edge::Taken => taken += 1,
            Edge::Dead => dead += 1,
            Edge::Neutral => {}
        }
    }
    match node.join {
        _ if nodes.has_no_part(plan, at) => Turn::Skip,
        _ if node.needs.is_empty() => Turn::Run,
        Join::All if open > 0 => Turn::NotYet,
        Join::All if taken > 0 && dead == 0 => Turn::Run,
        Join::All => Turn::Skip,
        Join::Count { count, .. } if taken >= count => Turn::Run,
        Join::Count { count, .. } if taken.saturating_add(open) >= count => Turn::NotYet,
        Join::Count { .. } if taken == 0 => Turn::Skip,
        Join::Count { .. } => Turn::Fail,
    }
}

/// Are these the events that settled the node's sources so far, in the order of its conditions?
pub(super) fn are_causes(plan: &Plan, nodes: &Nodes, at: At, causes: &[u64]) -> bool {
    let sources = plan.node(at.node).needs.iter();
    let sources = sources.filter_map(|condition| nodes.seen(at.sibling(condition.source)));
    let settled = sources.map(|seen| seen.settled_seq).filter(|seq| *seq > 0);
    settled.eq(causes.iter().copied())
}

fn edge(plan: &Plan, nodes: &Nodes, at: At, condition: &Condition) -> Edge {
    let Some(source) = nodes.seen(at.sibling(condition.source)) else { return Edge::Open };
    let on = |name: &str| condition.branches.iter().any(|branch| **branch == *name);
    let taken = match &source.phase {
        Phase::Settled(End::Completed { branch }) => {
            let source = &plan.node(condition.source).behaviour;
            let aside = branch.as_deref().is_some_and(|branch| {
                if matches!(source, Behaviour::Approval(_)) {
                    branch != APPROVED
                } else {
                    source.on_timeout() == Some(branch)
                }
            });
            condition.unlabelled && !aside || branch.as_deref().is_some_and(on)
        }
        Phase::Settled(End::Failed { past_on_error: true }) => false,
        Phase::Settled(End::Failed { past_on_error: false }) => {
            match &plan.node(condition.source).on_error {
                OnError::Fail => false,
                OnError::Continue => condition.unlabelled,
                OnError::Branch(branch) => on(branch),
            }
        }
        Phase::Settled(End::Skipped | End::Cancelled) => return Edge::Neutral,
        Phase::Pending | Phase::Queued | Phase::Running | Phase::Waiting { .. } => {
            return Edge::Open;
        }
    };
    if taken { Edge::Taken } else { Edge::Dead }
}
