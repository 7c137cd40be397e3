//! The judge: do the rules allow what happened?
//!
//! ```text
//!   turns     each node ran, was skipped or stopped when the graph required it
//!   outcomes  and then ended as its kind, its script and its limits require
//!   outputs   with the output that follows from its inputs
//!   approvals and one that asks people as one of them decided
//!   bodies    and a container as the scopes that it opened, which are judged in the same way
//!   children  and one that starts an execution as that execution
//!   operations and one that a service does as that calls back
//!   maps      with the items that it found, in order, a few at a time
//!   variables what the variable was, and when
//!   ends      the execution ended as its nodes and its cause require
//!   signals   signals ended the waits that they had to, once
//!   sink      and the outside world saw the calls that follow from all this, and no others
//! ```
//!
//! Each check is about one node or about the whole, given what actually happened around it, so that
//! one fault gives one complaint and not a chain of them.

mod approvals;
mod bodies;
mod children;
mod ends;
mod maps;
mod operations;
mod outcomes;
mod outputs;
mod signals;
mod sink;
mod turns;
mod variables;

use std::rc::Rc;

use serde_json::Value as Json;
use waypost_core::event::CancelReason;
use waypost_core::failure::kind;
use waypost_core::status::NodeStatus;

use super::foretell::foretell_scope;
use super::graph::{Siblings, handling};
use super::ran::node_in;
use super::values::{Facts, n_of};
use super::{BodyRan, End, NodeRan, Outcome, Ran, foretell};
use crate::program::{Node, OnError, Program, Test};

/// Judges an execution of a program: complaints, none if all is well. Of an execution that a repair
/// reopened only what concerns the sink is judged.
pub fn judge(program: &Program, input: &Json, ran: &Ran) -> Vec<String> {
    let mut judge = Judge {
        scope: Siblings { nodes: &program.nodes, policy: program.failure_policy },
        facts: Facts { n: n_of(input), ..Facts::default() },
        previous: Json::Null,
        item: Json::Null,
        ran,
        nodes: program.nodes.iter().map(|node| ran.node(&node.id)).collect(),
        outer: None,
        body: None,
        dropped: false,
        prefixes: Prefixes::default(),
        settings: variables::settings(&program.nodes, &ran.nodes, 0),
        complaints: Vec::new(),
    };
    for id in ran.nodes.keys().chain(ran.sink.keys()) {
        judge.expect(program.locate(id).is_some(), || format!("there is no node {id}"));
    }
    for path in &ran.strays {
        judge.complaints.push(format!("{path}: its body is not open"));
    }
    judge.sink(program);
    if ran.generation > 1 {
        return judge.complaints;
    }
    judge.nodes();
    judge.signals(program);
    judge.end(program);
    judge.forecast(program, input);
    judge.complaints
}

/// The judge of one scope.
struct Judge<'a> {
    scope: Siblings<'a>,
    facts: Facts,
    /// The output of the iteration before, in a loop.
    previous: Json,
    /// The item of the nearest map.
    item: Json,
    ran: &'a Ran,
    /// By position.
    nodes: Vec<NodeRan>,
    /// The scope around, and the position of the container in it.
    outer: Option<(&'a Self, usize)>,
    body: Option<&'a BodyRan>,
    /// Was it forgotten with its container, for which a join did not wait?
    dropped: bool,
    prefixes: Prefixes,
    /// When the variable was set, and to what.
    settings: Rc<[(u64, u64)]>,
    complaints: Vec<String>,
}

/// What comes before the ids of a scope's nodes: in their paths, and in their idempotency keys.
#[derive(Clone, Default)]
struct Prefixes {
    path: String,
    key: String,
}

impl Prefixes {
    fn of_body(&self, container: &str, body: &BodyRan) -> Self {
        let index = body.index.map_or(String::new(), |index| format!("[{index}]"));
        // A body that is run again makes other calls.
        let again = if body.attempt > 1 { format!("@{}", body.attempt) } else { String::new() };
        Self {
            path: format!("{}{container}{index}/", self.path),
            key: format!("{}{container}{index}{again}/", self.key),
        }
    }
}

impl<'a> Judge<'a> {
    fn nodes(&mut self) {
        for at in 0..self.nodes.len() {
            self.turn(at);
            self.outcome(at);
            self.output(at);
            self.bodies(at);
        }
    }

    fn expect(&mut self, holds: bool, complaint: impl FnOnce() -> String) {
        if !holds {
            self.complaints.push(complaint());
        }
    }

    fn node(&self, at: usize) -> (&'a Node, NodeRan) {
        (&self.scope.nodes[at], self.nodes[at].clone())
    }

    /// The path of a node.
    fn path(&self, at: usize) -> String {
        format!("{}{}", self.prefixes.path, self.scope.nodes[at].id)
    }

    /// The judge of a scope that a container of this one opened.
    fn inside<'b>(&'b self, at: usize, body: &'b BodyRan, nodes: &'b [Node]) -> Judge<'b> {
        let container = &self.nodes[at];
        let facts = match (body.index, &container.items) {
            (Some(index), Some(_)) => Facts { index, ..self.facts },
            (Some(iteration), None) => Facts { iteration, ..self.facts },
            (None, _) => self.facts,
        };
        let item = body.index.zip(container.items.as_ref());
        let settings = match item {
            // It has a variable of its own.
            Some(_) => variables::settings(nodes, &body.nodes, self.variable(body.opened)),
            None => Rc::clone(&self.settings),
        };
        let mut inside = Judge {
            scope: Siblings::of_body(nodes),
            facts,
            previous: self.previous.clone(),
            item: item.map_or_else(|| self.item.clone(), |(index, items)| items.item(index)),
            ran: self.ran,
            nodes: Vec::new(),
            outer: Some((self, at)),
            body: Some(body),
            dropped: self.dropped || container.cancelled == Some(CancelReason::Join),
            prefixes: self.prefixes.of_body(&self.scope.nodes[at].id, body),
            settings,
            complaints: Vec::new(),
        };
        let ending = inside.first_ending().filter(|(seq, _)| {
            container.settled.is_none_or(|settled| *seq <= settled) || !inside.dropped
        });
        inside.nodes = nodes.iter().map(|node| node_in(&body.nodes, &node.id, ending)).collect();
        inside
    }

    /// The first event that fixed the end of this scope, or of one around it.
    fn first_ending(&self) -> Option<(u64, CancelReason)> {
        let run = self.ran.cause.as_ref().map(|(seq, _)| (*seq, CancelReason::Ending));
        let own = self.body.and_then(|body| body.ending).map(|seq| (seq, CancelReason::Body));
        let outer = self.outer.and_then(|(outer, _)| outer.first_ending());
        // One that came after the scope had closed is of no consequence to it.
        [run, own, outer].into_iter().flatten().min_by_key(|(seq, _)| *seq)
    }

    /// The event that fixed the end, if one did.
    fn ending(&self) -> Option<u64> {
        self.first_ending().map(|(seq, _)| seq)
    }

    /// The event that fixed the end of a body, this one or one around it.
    fn body_ending(&self) -> Option<u64> {
        let own = self.body.and_then(|body| body.ending);
        let outer = self.outer.and_then(|(outer, _)| outer.body_ending());
        own.into_iter().chain(outer).min()
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

    /// Did a node fail without a handler for the failure?
    fn is_unhandled(&self, at: usize) -> bool {
        let unhandled = |end| *handling(&self.scope.nodes[at], &end) == OnError::Fail;
        has_failed(&self.nodes[at]) && self.outcome_of(at).is_some_and(unhandled)
    }

    /// Does a test that depends on what happened hold, as of an event?
    fn held(&self, test: Test, seq: u64) -> bool {
        match test {
            Test::Completed(of) => {
                self.settled_by(of, seq) && self.nodes[of].status == NodeStatus::Completed
            }
            Test::Previous => !self.previous.is_null(),
            Test::Variable(least) => self.variable(seq) >= least,
            _ => false,
        }
    }

    /// In an execution without disturbances, the outcome must be one of the foretold ones.
    fn forecast(&mut self, program: &Program, input: &Json) {
        if self.is_disturbed() {
            return;
        }
        let forecast = foretell(program, input);
        self.foretold(&forecast.nodes);
        let foretold = match self.ran.end {
            End::Ended(status) => forecast.ends.contains(&status),
            End::Waiting => forecast.waits,
            End::Held => false,
        };
        let end = self.ran.end;
        self.expect(foretold, || format!("the execution: {end:?} was not foretold"));
    }

    /// As `forecast`, for a body whose end only its own nodes have fixed.
    fn forecast_body(&mut self) {
        let own = self.body.and_then(|body| body.ending);
        if self.is_disturbed() || self.dropped || self.ending() != own {
            return;
        }
        // A deadline of the container may have ended it.
        if self.outer.is_some_and(|(outer, at)| outer.scope.nodes[at].deadline_ms.is_some()) {
            return;
        }
        // The failures of other items, too.
        if self.outer.is_some_and(|(outer, at)| outer.scope.nodes[at].is_stoppable()) {
            return;
        }
        let forecast = foretell_scope(self.scope, self.facts);
        self.foretold(&forecast.nodes);
    }

    fn foretold(&mut self, forecast: &[std::collections::BTreeSet<Outcome>]) {
        for (at, allowed) in forecast.iter().enumerate() {
            let path = self.path(at);
            let Some(outcome) = self.outcome_of(at) else { continue };
            self.expect(allowed.contains(&outcome), || {
                let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
                format!("{path}: {outcome} was not foretold, only {}", allowed.join(", "))
            });
        }
    }

    /// Did anything happen that the program does not foretell? Completing a wait by hand changes the
    /// order, and what is late.
    fn is_disturbed(&self) -> bool {
        let outer = self.outer.is_some_and(|(outer, _)| outer.is_disturbed());
        let by_hand = self.nodes.iter().any(was_resumed);
        self.ran.world.is_disturbed() || outer || by_hand
    }
}

/// Was a wait of it, or in its bodies, completed by hand?
fn was_resumed(node: &NodeRan) -> bool {
    let mut inside = node.bodies.iter().flat_map(|body| body.nodes.values());
    !node.resumed.is_empty() || inside.any(was_resumed)
}

/// All nodes with what happened to them, in every scope that was opened.
fn each_node<'p, 'r>(
    nodes: &'p [Node],
    ran: &'r std::collections::BTreeMap<String, NodeRan>,
    prefix: &Prefixes,
    visit: &mut dyn FnMut(&'p Node, &'r NodeRan, &Prefixes),
) {
    for node in nodes {
        let Some(found) = ran.get(&node.id) else { continue };
        visit(node, found, prefix);
        for body in &found.bodies {
            let inside = node.body().unwrap_or_default();
            each_node(inside, &body.nodes, &prefix.of_body(&node.id, body), visit);
        }
    }
}

/// A node that was scheduled only to fail, since its join could not be met.
fn is_unmet(node: &NodeRan) -> bool {
    node.failure.as_deref() == Some(kind::JOIN_UNSATISFIABLE) && node.starts == 0
}

/// Did a node fail?
fn has_failed(node: &NodeRan) -> bool {
    matches!(node.status, NodeStatus::Failed | NodeStatus::TimedOut)
}
