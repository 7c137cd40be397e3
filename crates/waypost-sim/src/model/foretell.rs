//! The possible outcomes of a program, computed over sets of outcomes, source by source.

mod containers;

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};
use waypost_core::failure::kind;
use waypost_core::kind::{APPROVED, EXPIRED, REJECTED};
use waypost_core::status::Status;

use super::graph::{Edge, Siblings, conditions, edge, handling};
use super::values::{Facts, choose, is_unsound, n_of, unknown_tests};
use super::{Outcome, SLACK_MS};
use crate::program::graph::{leads_only_to, settled_before};
use crate::program::{
    Approval, ChildCall, FailurePolicy, Join, Kind, LATE, Node, OnError, Program, RetryOn,
    RetryRule, Script, Signals, Test, Tie, span_of,
};
use containers::container_outcomes;
pub(super) use containers::go_on_test;

/// The possible outcomes of a program in a prompt world without disturbances.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forecast {
    /// How each node may end, by position.
    pub nodes: Vec<BTreeSet<Outcome>>,
    /// How the execution may end.
    pub ends: BTreeSet<Status>,
    /// How unhandled failures may end.
    fails: BTreeSet<Outcome>,
    /// May it wait for a signal for ever?
    pub waits: bool,
}

/// Foretells what may come of a program with this input.
pub fn foretell(program: &Program, input: &Json) -> Forecast {
    let scope = Siblings { nodes: &program.nodes, policy: program.failure_policy };
    let mut forecast = foretell_scope(scope, Facts { n: n_of(input), ..Facts::default() });
    forecast.time_out(program);
    forecast
}

/// Foretells what may come of the nodes of a scope.
pub(super) fn foretell_scope(scope: Siblings<'_>, facts: Facts) -> Forecast {
    let count = scope.nodes.len();
    let mut nodes: Vec<BTreeSet<Outcome>> = Vec::with_capacity(count);
    let mut runs = BTreeSet::new();
    let mut waits = false;
    for (at, node) in scope.nodes.iter().enumerate() {
        let turns = possible_turns(scope, at, &nodes);
        let mut outcomes = BTreeSet::new();
        if turns.run {
            runs.insert(at);
            let own = own_outcomes((scope.nodes, node), facts, &nodes);
            outcomes.extend(own.outcomes);
            waits |= own.waits && node.deadline_ms.is_none();
        }
        if turns.skip {
            outcomes.insert(Outcome::Skipped);
        }
        if turns.fail {
            outcomes.insert(Outcome::Failed);
        }
        nodes.push(outcomes);
    }
    let (ends, fails) = (BTreeSet::new(), BTreeSet::new());
    let mut forecast = Forecast { nodes, ends, fails, waits };
    forecast.cancel_losers(scope, &runs);
    forecast.end(scope);
    forecast
}

impl Forecast {
    /// Joins that fire may cancel what leads only to them and need not have settled.
    fn cancel_losers(&mut self, scope: Siblings<'_>, runs: &BTreeSet<usize>) {
        let settled = settled_before(scope.nodes);
        for join in runs {
            if matches!(scope.nodes[*join].join, Join::Count { cancel_rest: true, .. }) {
                for loser in leads_only_to(scope.nodes, *join).difference(&settled[*join]) {
                    self.nodes[*loser].insert(Outcome::Cancelled);
                }
            }
        }
    }

    /// How failures end the scope, and whom that stops.
    fn end(&mut self, scope: Siblings<'_>) {
        let unhandled = |at: usize, end: &Outcome| {
            end.is_failure() && *handling(&scope.nodes[at], end) == OnError::Fail
        };
        for (at, ends) in self.nodes.iter().enumerate() {
            self.fails.extend(ends.iter().filter(|end| unhandled(at, end)).cloned());
        }
        let failing: Vec<usize> = (0..self.nodes.len())
            .filter(|at| self.nodes[*at].iter().any(|end| unhandled(*at, end)))
            .collect();
        let surely = failing.iter().any(|at| self.nodes[*at].iter().all(|end| unhandled(*at, end)));
        if !failing.is_empty() {
            self.ends.insert(Status::Failed);
        }
        if !surely {
            self.ends.insert(Status::Completed);
        }
        if failing.is_empty() || scope.policy == FailurePolicy::Partial {
            return;
        }
        // Nodes that have settled before any possible failure are safe.
        let before = settled_before(scope.nodes);
        let safe = |at: &usize| failing.iter().all(|of| at == of || before[*of].contains(at));
        let unsafe_ones: Vec<usize> = (0..self.nodes.len()).filter(|at| !safe(at)).collect();
        for at in unsafe_ones {
            self.cut_short(scope.nodes, at);
        }
    }

    /// The execution's own timeout may strike unless it is ample.
    fn time_out(&mut self, program: &Program) {
        let Some(timeout) = program.timeout_ms else { return };
        let spans = span_of(&program.nodes);
        if spans.is_some_and(|spans| spans + SLACK_MS <= timeout) {
            return;
        }
        self.ends.insert(Status::TimedOut);
        for at in 0..self.nodes.len() {
            self.cut_short(&program.nodes, at);
        }
    }

    /// A node may be stopped; and an attempt that fails meanwhile is not tried again.
    fn cut_short(&mut self, nodes: &[Node], at: usize) {
        self.nodes[at].insert(Outcome::Cancelled);
        if let Kind::Task(Script::Flaky(_) | Script::Poll { .. }) = nodes[at].kind {
            self.nodes[at].insert(Outcome::Failed);
        }
    }
}

/// Which turns a node may get.
#[derive(Default)]
struct Turns {
    run: bool,
    skip: bool,
    fail: bool,
}

fn possible_turns(scope: Siblings<'_>, at: usize, known: &[BTreeSet<Outcome>]) -> Turns {
    let node = &scope.nodes[at];
    let edges: Vec<BTreeSet<Edge>> = conditions(node)
        .iter()
        .map(|condition| {
            let ends = &known[condition.source];
            let edges = ends.iter().map(|end| edge(scope, condition, end));
            // A source that never settles is behind a failure that ends everything.
            if ends.is_empty() { BTreeSet::from([Edge::Open]) } else { edges.collect() }
        })
        .collect();
    if edges.is_empty() {
        return Turns { run: true, ..Turns::default() };
    }
    let may = |wanted: Edge| edges.iter().filter(|edges| edges.contains(&wanted)).count();
    let settles_untaken =
        |edges: &&BTreeSet<Edge>| edges.contains(&Edge::Dead) || edges.contains(&Edge::Neutral);
    match node.join {
        Join::All => {
            let passes = |edges: &BTreeSet<Edge>| {
                edges.contains(&Edge::Taken) || edges.contains(&Edge::Neutral)
            };
            let settles = |edges: &BTreeSet<Edge>| edges.iter().any(|edge| *edge != Edge::Open);
            Turns {
                run: edges.iter().all(passes) && may(Edge::Taken) > 0,
                skip: edges.iter().all(settles)
                    && (may(Edge::Dead) > 0 || may(Edge::Neutral) == edges.len()),
                fail: false,
            }
        }
        Join::Count { count, .. } => {
            let unmet = edges.iter().filter(settles_untaken).count() > edges.len() - count;
            Turns {
                run: may(Edge::Taken) >= count,
                skip: unmet,
                // Whether something was taken by the time it cannot be met is a race.
                fail: unmet && count > 1 && may(Edge::Taken) > 0,
            }
        }
    }
}

/// What may come of a node that gets to run.
struct Own {
    outcomes: BTreeSet<Outcome>,
    /// May it wait for ever, but for its deadline?
    waits: bool,
}

fn own_outcomes(
    (siblings, node): (&[Node], &Node),
    facts: Facts,
    known: &[BTreeSet<Outcome>],
) -> Own {
    let completed = Outcome::Completed(None);
    let mut waits = false;
    let all: Vec<Outcome> = match &node.kind {
        Kind::Noop | Kind::Join => vec![completed],
        kind if is_unsound(kind) => vec![Outcome::Mistaken],
        Kind::Transform(_) | Kind::Output(_) => vec![completed],
        Kind::Notify(notify) if notify.wait && node.span_ms_max().is_some() => {
            vec![completed, Outcome::TimedOut]
        }
        Kind::Notify(_) | Kind::Emit(_) => vec![completed],
        Kind::Fail => vec![Outcome::Failed],
        Kind::Condition(_) | Kind::Switch { .. } => choices(&node.kind, facts, known),
        Kind::Delay(span) => match node.deadline_ms {
            Some(deadline) if span.ms(facts.n) > deadline => vec![Outcome::TimedOut],
            Some(deadline) if span.ms(facts.n) + SLACK_MS > deadline => {
                vec![completed, Outcome::TimedOut]
            }
            _ => vec![completed],
        },
        Kind::Signals(Signals { late: true, .. }) => {
            let late = Outcome::Completed(Some(LATE.into()));
            let deadline = node.deadline_ms.map(|_| Outcome::TimedOut);
            [completed, late].into_iter().chain(deadline).collect()
        }
        Kind::Wait { .. } | Kind::Signals(_) if node.span_ms_max().is_some() => {
            vec![completed, Outcome::TimedOut]
        }
        Kind::Wait { .. } | Kind::Signals(_) => {
            waits = true;
            vec![completed]
        }
        Kind::Approval(approval) => {
            waits = node.span_ms_max().is_none();
            approval_outcomes(node, *approval)
        }
        Kind::Task(script) => task_outcomes(node, *script),
        Kind::Child(call) => {
            let own = child_outcomes(node, *call, facts);
            waits = own.waits;
            own.outcomes.into_iter().collect()
        }
        Kind::Group(_) | Kind::Loop(_) | Kind::Map(_) | Kind::Operation(_) => {
            let own = container_outcomes((siblings, node), facts, known);
            waits = own.waits;
            own.outcomes.into_iter().collect()
        }
    };
    Own { outcomes: all.into_iter().collect(), waits }
}

/// People decide either way, or too late.
fn approval_outcomes(node: &Node, approval: Approval) -> Vec<Outcome> {
    let expired = approval.timeout_ms.map(|_| EXPIRED);
    let branches = [APPROVED, REJECTED].into_iter().chain(expired);
    let ends = branches.map(|branch| Outcome::Completed(Some(branch.into())));
    ends.chain(node.deadline_ms.map(|_| Outcome::TimedOut)).collect()
}

/// A node that starts an execution ends as that does; one that does not wait for it completes.
fn child_outcomes(node: &Node, call: ChildCall, facts: Facts) -> Own {
    let completed = Outcome::Completed(None);
    let limited = (!has_ample_time(node)).then_some(Outcome::TimedOut);
    if call.tie == Tie::Detached {
        return Own { outcomes: [completed].into_iter().chain(limited).collect(), waits: false };
    }
    let inside = foretell(&call.of.program(), &json!({ "n": facts.n }));
    let ends = inside.ends.iter().map(|end| match end {
        Status::Completed => Outcome::Completed(None),
        Status::TimedOut => Outcome::TimedOut,
        _ => Outcome::Failed,
    });
    Own { outcomes: ends.chain(limited).collect(), waits: inside.waits }
}

/// What a condition or switch may select, for each possible result of the tests that depend on what
/// happens.
fn choices(choice: &Kind, facts: Facts, known: &[BTreeSet<Outcome>]) -> Vec<Outcome> {
    let unknown = unknown_tests(choice);
    let is_completed = |end: &Outcome| matches!(end, Outcome::Completed(_));
    let fits = |test: Test, holds: bool| match test {
        Test::Completed(at) => known[at].iter().any(|end| is_completed(end) == holds),
        _ => true,
    };
    let ways = 0..1_u32 << unknown.len();
    ways.filter_map(|way| {
        let assumed = |test: Test| {
            unknown.iter().position(|of| *of == test).is_some_and(|bit| way & (1 << bit) != 0)
        };
        let holds = |test: Test| facts.holds(test, &assumed);
        unknown.iter().all(|test| fits(*test, assumed(*test))).then(|| {
            match choose(choice, &holds) {
                Ok(branch) => Outcome::Completed(Some(branch)),
                Err(failure) if failure == kind::EXPRESSION => Outcome::Mistaken,
                Err(_) => Outcome::Failed,
            }
        })
    })
    .collect()
}

fn task_outcomes(node: &Node, script: Script) -> Vec<Outcome> {
    let overcomes = |refusals: u32| {
        refusals == 0 || (refusals < node.tries_max() && retries(node, Fault::Status(503)))
    };
    let mut outcomes = match script {
        Script::Good => return vec![Outcome::Completed(None)],
        Script::Storm | Script::Model => vec![Outcome::Completed(None), Outcome::Failed],
        Script::Flaky(refusals) | Script::Poll { refusals, .. } if overcomes(refusals) => {
            vec![Outcome::Completed(None)]
        }
        Script::Flaky(_) | Script::Poll { .. } | Script::Bad | Script::Down => {
            vec![Outcome::Failed]
        }
        // It is unknown whether a call that was never answered had its effect.
        Script::Hang if node.at_most_once => vec![Outcome::Failed],
        Script::Hang => vec![Outcome::TimedOut],
    };
    if !has_ample_time(node) {
        outcomes.push(Outcome::TimedOut);
        if script != Script::Hang {
            outcomes.push(Outcome::Failed);
        }
    }
    outcomes
}

/// Is a node's deadline, if it has one, sure not to strike in a prompt world?
pub(super) fn has_ample_time(node: &Node) -> bool {
    let unlimited = Node { deadline_ms: None, ..node.clone() };
    match (node.deadline_ms, unlimited.span_ms_max()) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(deadline), Some(span)) => span + SLACK_MS <= deadline,
    }
}

/// Why an attempt failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    Status(u16),
    Timeout,
}

/// Does a node's policy cover this fault?
pub(super) fn retries(node: &Node, fault: Fault) -> bool {
    let covers = |retry: RetryRule| match (retry.on, fault) {
        (RetryOn::Transient | RetryOn::ServerErrors, Fault::Status(status)) => status >= 500,
        (RetryOn::ClientErrors, Fault::Status(status)) => (400..500).contains(&status),
        (RetryOn::Transient | RetryOn::Timeouts, Fault::Timeout) => true,
        (RetryOn::ServerErrors | RetryOn::ClientErrors, Fault::Timeout)
        | (RetryOn::Timeouts, Fault::Status(_)) => false,
    };
    node.retry.is_some_and(covers)
}
