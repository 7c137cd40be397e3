//! The judge: do the rules allow what happened?
//!
//! ```text
//!   turns     each node ran, was skipped or stopped when the graph required it
//!   outcomes  and then ended as its kind, its script and its limits require
//!   outputs   with the output that follows from its inputs
//!   ends      the execution ended as its nodes and its cause require
//!   sink      and the outside world saw the calls that follow from all this, and no others
//! ```
//!
//! Each check is about one node or about the whole, given what actually happened around it, so that
//! one fault gives one complaint and not a chain of them.

mod ends;
mod outcomes;
mod outputs;
mod sink;
mod turns;

use serde_json::Value as Json;
use waypost_core::failure::kind;
use waypost_core::status::NodeStatus;

use super::values::n_of;
use super::{End, NodeRan, Outcome, Ran, foretell};
use crate::program::{Node, Program};

/// Judges an execution of a program: complaints, none if all is well. Of an execution that a repair
/// reopened only what concerns the sink is judged.
pub fn judge(program: &Program, input: &Json, ran: &Ran) -> Vec<String> {
    let nodes = program.nodes.iter().map(|node| ran.node(&node.id)).collect();
    let mut judge = Judge { program, n: n_of(input), ran, nodes, complaints: Vec::new() };
    for id in ran.nodes.keys().chain(ran.sink.keys()) {
        judge.expect(program.find(id).is_some(), || format!("there is no node {id}"));
    }
    judge.sink();
    if ran.generation > 1 {
        return judge.complaints;
    }
    for at in 0..program.nodes.len() {
        judge.turn(at);
        judge.outcome(at);
        judge.output(at);
    }
    judge.signals();
    judge.end();
    judge.forecast(input);
    judge.complaints
}

struct Judge<'a> {
    program: &'a Program,
    n: u64,
    ran: &'a Ran,
    /// By position.
    nodes: Vec<NodeRan>,
    complaints: Vec<String>,
}

impl<'a> Judge<'a> {
    fn expect(&mut self, holds: bool, complaint: impl FnOnce() -> String) {
        if !holds {
            self.complaints.push(complaint());
        }
    }

    fn node(&self, at: usize) -> (&'a Node, NodeRan) {
        (&self.program.nodes[at], self.nodes[at].clone())
    }

    /// The event that fixed the end, if one did.
    fn ending(&self) -> Option<u64> {
        self.ran.cause.as_ref().map(|(seq, _)| *seq)
    }

    /// Did a node settle only after the end was fixed?
    fn is_cut_short(&self, node: &NodeRan) -> bool {
        self.ending().is_some_and(|ending| node.settled.is_none_or(|settled| settled > ending))
    }

    /// Did a node settle before an event?
    fn settled_by(&self, at: usize, seq: u64) -> bool {
        self.nodes[at].settled.is_some_and(|settled| settled < seq)
    }

    fn outcome_of(&self, at: usize) -> Option<Outcome> {
        let node = &self.nodes[at];
        Outcome::of(node.status, node.branch.as_deref(), node.failure.as_deref())
    }

    /// In an execution without disturbances, the outcome must be one of the foretold ones.
    fn forecast(&mut self, input: &Json) {
        // Completing a wait by hand changes the order, and what is late.
        let by_hand = self.nodes.iter().any(|node| !node.resumed.is_empty());
        if self.ran.world.is_disturbed() || by_hand {
            return;
        }
        let forecast = foretell(self.program, input);
        for (at, allowed) in forecast.nodes.iter().enumerate() {
            let id = &self.program.nodes[at].id;
            let Some(outcome) = self.outcome_of(at) else { continue };
            self.expect(allowed.contains(&outcome), || {
                let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
                format!("{id}: {outcome} was not foretold, only {}", allowed.join(", "))
            });
        }
        let foretold = match self.ran.end {
            End::Ended(status) => forecast.ends.contains(&status),
            End::Waiting => forecast.waits,
            End::Held => false,
        };
        let end = self.ran.end;
        self.expect(foretold, || format!("the execution: {end:?} was not foretold"));
    }
}

/// A node that was scheduled only to fail, since its join could not be met.
fn is_unmet(node: &NodeRan) -> bool {
    node.failure.as_deref() == Some(kind::JOIN_UNSATISFIABLE)
}

/// Did a node fail?
fn has_failed(node: &NodeRan) -> bool {
    matches!(node.status, NodeStatus::Failed | NodeStatus::TimedOut)
}
