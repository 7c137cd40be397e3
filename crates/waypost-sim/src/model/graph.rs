//! Edges, joins and turns: rules 1 to 3 of the graph.

use std::collections::BTreeSet;

use waypost_core::kind::APPROVED;

use super::Outcome;
use crate::program::{FailurePolicy, Join, Kind, Node, OnError};

/// All edges from one source: met when any of them is taken.
pub(super) struct Condition<'p> {
    pub(super) source: usize,
    unlabelled: bool,
    branches: BTreeSet<&'p str>,
}

/// The state of a condition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Edge {
    Open,
    Taken,
    Dead,
    Neutral,
}

/// The verdict of a node's conditions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    NotYet,
    Run,
    Skip,
    Unsatisfiable,
}

/// A node's conditions, one for each source.
pub(super) fn conditions(node: &Node) -> Vec<Condition<'_>> {
    let of = |source: usize| {
        let edges = node.needs.iter().filter(move |need| need.source == source);
        Condition {
            source,
            unlabelled: edges.clone().any(|need| need.branch.is_none()),
            branches: edges.filter_map(|need| need.branch.as_deref()).collect(),
        }
    };
    node.sources().into_iter().map(of).collect()
}

/// Nodes that see each other: those of a program, or of a body.
#[derive(Clone, Copy)]
pub(super) struct Siblings<'p> {
    pub(super) nodes: &'p [Node],
    /// Always `FailFast` in a body.
    pub(super) policy: FailurePolicy,
}

impl<'p> Siblings<'p> {
    pub(super) fn of_body(nodes: &'p [Node]) -> Self {
        Self { nodes, policy: FailurePolicy::FailFast }
    }
}

/// What a source's end makes of a condition. An unhandled failure that ends the execution, or the
/// body, has no effect on other nodes: those that need it stay as they were.
pub(super) fn edge(scope: Siblings<'_>, condition: &Condition<'_>, end: &Outcome) -> Edge {
    let source = &scope.nodes[condition.source];
    let selected = |branch: &str| condition.branches.contains(branch);
    let taken = match end {
        Outcome::Skipped | Outcome::Cancelled => return Edge::Neutral,
        Outcome::Completed(branch) => {
            let plain = !is_aside(&source.kind, branch.as_deref());
            condition.unlabelled && plain || branch.as_deref().is_some_and(selected)
        }
        Outcome::Failed | Outcome::TimedOut | Outcome::Mistaken => match handling(source, end) {
            OnError::Fail if scope.policy == FailurePolicy::FailFast => {
                return Edge::Open;
            }
            OnError::Fail => false,
            OnError::Continue => condition.unlabelled,
            OnError::Branch(branch) => selected(branch),
        },
    };
    if taken { Edge::Taken } else { Edge::Dead }
}

/// Is this branch taken instead of edges without one? So is that of a timeout, and of a rejection.
fn is_aside(kind: &Kind, branch: Option<&str>) -> bool {
    match kind {
        Kind::Signals(signals) => signals.late && branch.is_some(),
        Kind::Operation(operation) => operation.late && branch.is_some(),
        Kind::Approval(_) => branch != Some(APPROVED),
        _ => false,
    }
}

/// The handling of a failure. A mistake in the definition is handled if the node says so.
pub(super) fn handling<'n>(node: &'n Node, end: &Outcome) -> &'n OnError {
    match end {
        Outcome::Mistaken if !node.definition_errors => &OnError::Fail,
        _ => &node.on_error,
    }
}

/// The turn of a node, for the states of its conditions.
pub(super) fn turn(join: Join, edges: &[Edge]) -> Turn {
    let count = |wanted: Edge| edges.iter().filter(|edge| **edge == wanted).count();
    let (open, taken, dead) = (count(Edge::Open), count(Edge::Taken), count(Edge::Dead));
    match join {
        _ if edges.is_empty() => Turn::Run,
        Join::All if open > 0 => Turn::NotYet,
        Join::All if dead > 0 || taken == 0 => Turn::Skip,
        Join::All => Turn::Run,
        Join::Count { count, .. } if taken >= count => Turn::Run,
        Join::Count { count, .. } if taken + open >= count => Turn::NotYet,
        Join::Count { .. } if taken == 0 => Turn::Skip,
        Join::Count { .. } => Turn::Unsatisfiable,
    }
}
