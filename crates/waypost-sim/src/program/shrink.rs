//! Smaller programs, for shrinking a program that has shown a bug.

use super::graph::{ancestors, settled_before};
use super::{
    Approval, ChildCall, ChildProgram, Each, Ends, FailurePolicy, ItemSource, Join, Kind, Loop,
    Node, OnError, Operation, Program, Script, Test, Tie, Tolerated, Value,
};

impl Program {
    /// The program without a node, and without what only made sense with it.
    #[must_use]
    pub fn without(&self, gone: usize) -> Self {
        let mut smaller = self.clone();
        smaller.nodes.remove(gone);
        let moved = |at: usize| if at > gone { at - 1 } else { at };
        for node in &mut smaller.nodes {
            node.needs.retain(|need| need.source != gone);
            node.needs.iter_mut().for_each(|need| need.source = moved(need.source));
            node.kind.each_mention(&mut |mention| match mention {
                Mention::Value(value, at) if at == gone => *value = Value::Constant(0),
                Mention::Test(test, at) if at == gone => *test = Test::AtLeast(5),
                Mention::Value(value, at) => match value {
                    Value::StatusOf(_) => *value = Value::StatusOf(moved(at)),
                    Value::ResultsOf(_) => *value = Value::ResultsOf(moved(at)),
                    _ => *value = Value::OutputOf(moved(at)),
                },
                Mention::Test(test, at) => *test = Test::Completed(moved(at)),
            });
        }
        smaller.make_valid();
        smaller
    }

    /// Programs that are a little smaller than this one, the smallest first. Each is valid.
    pub fn shrink_candidates(&self) -> Vec<Self> {
        let mut candidates = Vec::new();
        if self.nodes.len() > 1 {
            candidates.extend((0..self.nodes.len()).rev().map(|at| self.without(at)));
        }
        let mut attempt = |change: &dyn Fn(&mut Self)| {
            let mut candidate = self.clone();
            change(&mut candidate);
            candidate.make_valid();
            if candidate != *self {
                candidates.push(candidate);
            }
        };
        attempt(&|program| program.timeout_ms = None);
        attempt(&|program| program.keyed = None);
        attempt(&|program| program.budget = None);
        attempt(&|program| program.failure_policy = FailurePolicy::FailFast);
        for (at, node) in self.nodes.iter().enumerate() {
            for edge in 0..node.needs.len() {
                attempt(&|program| drop(program.nodes[at].needs.remove(edge)));
            }
            if let Some(kind) = simpler(&node.kind) {
                attempt(&|program| program.nodes[at].kind = kind.clone());
            }
            attempt(&|program| program.nodes[at].join = Join::All);
            attempt(&|program| program.nodes[at].retry = None);
            attempt(&|program| program.nodes[at].deadline_ms = None);
            attempt(&|program| {
                program.nodes[at].on_error = OnError::Fail;
                program.nodes[at].definition_errors = false;
            });
            attempt(&|program| program.nodes[at].definition_errors = false);
            attempt(&|program| program.nodes[at].at_most_once = false);
            attempt(&|program| program.nodes[at].remote = false);
            attempt(&|program| program.nodes[at].sets = None);
            if node.kind != Kind::Task(Script::Hang) {
                attempt(&|program| program.nodes[at].timeout_ms = None);
            }
        }
        for mut candidate in smaller_bodies(self) {
            candidate.make_valid();
            if candidate.weight() < self.weight() {
                candidates.push(candidate);
            }
        }
        candidates
    }

    /// Makes a program valid again after something was taken away.
    pub(super) fn make_valid(&mut self) {
        make_valid(&mut self.nodes, Around::default());
    }
}

/// What is around a scope.
#[derive(Clone, Copy, Default)]
struct Around {
    a_loop: bool,
    a_map: bool,
}

/// Makes the nodes of a scope valid again: no edge on a branch that is gone, no mention of what does
/// not come before, no join of more than there is, no iteration where there is no loop, no item where
/// there is no map.
fn make_valid(nodes: &mut [Node], around: Around) {
    let branches: Vec<Vec<String>> =
        nodes.iter().map(|node| node.branches().into_iter().map(Into::into).collect()).collect();
    for node in &mut *nodes {
        for need in &mut node.needs {
            let is_known = |branch: &String| branches[need.source].contains(branch);
            need.branch = need.branch.take().filter(is_known);
        }
        let mut edges = std::mem::take(&mut node.needs);
        edges.dedup();
        node.needs = edges;
        let sources = node.sources().len();
        node.join = match node.join {
            Join::Count { count, cancel_rest } if sources > 0 => {
                Join::Count { count: count.min(sources), cancel_rest }
            }
            _ => Join::All,
        };
    }
    let (ancestors, settled) = (ancestors(nodes), settled_before(nodes));
    for (at, node) in nodes.iter_mut().enumerate() {
        node.kind.each_mention(&mut |mention| match mention {
            Mention::Value(value, of) if !ancestors[at].contains(&of) => {
                *value = Value::Constant(0);
            }
            Mention::Test(test, of) if !settled[at].contains(&of) => *test = Test::AtLeast(5),
            Mention::Value(..) | Mention::Test(..) => {}
        });
        node.kind.leave(around);
        let around = Around {
            a_loop: around.a_loop || matches!(node.kind, Kind::Loop(_)),
            a_map: around.a_map || matches!(node.kind, Kind::Map(_)),
        };
        if let Some(body) = node.kind.body_mut() {
            make_valid(body, around);
        }
    }
}

/// A reference of a node to another one.
enum Mention<'a> {
    Value(&'a mut Value, usize),
    Test(&'a mut Test, usize),
}

impl Kind {
    fn each_mention(&mut self, visit: &mut dyn FnMut(Mention<'_>)) {
        let visit_test = |test: &mut Test, visit: &mut dyn FnMut(Mention<'_>)| {
            if let Test::Completed(at) = *test {
                visit(Mention::Test(test, at));
            }
        };
        for value in self.values_mut() {
            if let Value::OutputOf(at) | Value::ResultsOf(at) | Value::StatusOf(at) = *value {
                visit(Mention::Value(value, at));
            }
        }
        match self {
            Self::Condition(test) => visit_test(test, visit),
            Self::Switch { cases, .. } => {
                cases.iter_mut().for_each(|case| visit_test(&mut case.test, visit));
            }
            Self::Loop(Loop { ends: Ends::Until(test) | Ends::While(test), .. }) => {
                visit_test(test, visit);
            }
            Self::Noop
            | Self::Transform(_)
            | Self::Output(_)
            | Self::Join
            | Self::Fail
            | Self::Delay(_)
            | Self::Wait { .. }
            | Self::Signals(_)
            | Self::Approval(_)
            | Self::Task(_)
            | Self::Operation(_)
            | Self::Group(_)
            | Self::Map(_)
            | Self::Child(_)
            | Self::Notify(_)
            | Self::Emit(_) => {}
        }
    }

    fn values_mut(&mut self) -> &mut [Value] {
        match self {
            Self::Transform(values) | Self::Output(values) => values,
            Self::Notify(notify) => &mut notify.values,
            Self::Map(each) => each.items.values_mut(),
            _ => &mut [],
        }
    }

    pub(super) fn body_mut(&mut self) -> Option<&mut Vec<Node>> {
        match self {
            Self::Group(body)
            | Self::Loop(Loop { body, .. })
            | Self::Map(Each { body, .. })
            | Self::Operation(Operation { body, .. }) => Some(body),
            _ => None,
        }
    }

    /// Replaces what only a loop or a map around can tell.
    fn leave(&mut self, around: Around) {
        let unknown = |test: &Test| match test {
            Test::Iteration(_) | Test::Below(_) | Test::Previous | Test::Done => !around.a_loop,
            Test::Index(_) => !around.a_map,
            _ => false,
        };
        for value in self.values_mut() {
            let unknown = match value {
                Value::Iteration | Value::Previous => !around.a_loop,
                Value::Item | Value::Index => !around.a_map,
                _ => false,
            };
            if unknown {
                *value = Value::Constant(0);
            }
        }
        let leave = |test: &mut Test| {
            if unknown(test) {
                *test = Test::AtLeast(5);
            }
        };
        match self {
            Self::Condition(test) => leave(test),
            Self::Switch { cases, .. } => cases.iter_mut().for_each(|case| leave(&mut case.test)),
            // Its own iterations are known to its test.
            Self::Loop(Loop {
                ends: Ends::Until(test @ Test::Index(_)) | Ends::While(test @ Test::Index(_)),
                ..
            }) => leave(test),
            _ => {}
        }
    }
}

/// Programs that are a little smaller in one body.
fn smaller_bodies(program: &Program) -> Vec<Program> {
    let mut candidates = Vec::new();
    for (at, node) in program.nodes.iter().enumerate() {
        // The body of an operation is made of its options.
        if matches!(node.kind, Kind::Operation(_)) {
            continue;
        }
        let Some(body) = node.body() else { continue };
        let inside = Program {
            nodes: body.to_vec(),
            failure_policy: FailurePolicy::FailFast,
            timeout_ms: None,
            keyed: None,
            budget: None,
        };
        if let [only] = body {
            let mut hoisted = program.clone();
            let outer = &mut hoisted.nodes[at];
            outer.kind = only.kind.clone();
            (outer.retry, outer.timeout_ms) = (only.retry, only.timeout_ms);
            (outer.at_most_once, outer.remote) = (only.at_most_once, only.remote);
            candidates.push(hoisted);
        }
        for smaller in inside.shrink_candidates() {
            let mut candidate = program.clone();
            if let Some(body) = candidate.nodes[at].kind.body_mut() {
                *body = smaller.nodes;
            }
            candidates.push(candidate);
        }
        for kind in simpler_containers(&node.kind).into_iter().filter(|kind| *kind != node.kind) {
            let mut candidate = program.clone();
            candidate.nodes[at].kind = kind;
            candidates.push(candidate);
        }
    }
    candidates
}

/// Simpler containers with the same body.
fn simpler_containers(kind: &Kind) -> Vec<Kind> {
    match kind {
        Kind::Loop(spec) => {
            let simple = Loop { max: 1, delay_ms: 0, all: false, ..spec.clone() };
            vec![Kind::Group(spec.body.clone()), Kind::Loop(simple)]
        }
        Kind::Map(each) => {
            let fewer = match &each.items {
                ItemSource::List(values) => {
                    ItemSource::List(values[values.len().min(1)..].to_vec())
                }
                ItemSource::Of(Value::Constant(count)) => {
                    ItemSource::Of(Value::Constant(count.saturating_sub(1)))
                }
                ItemSource::Of(_) => ItemSource::Of(Value::Constant(3)),
            };
            let plain = Each {
                width: 1,
                tolerated: Tolerated::Count(0),
                stops: false,
                collects: true,
                ..each.clone()
            };
            let strict = Each { tolerated: Tolerated::Count(0), ..each.clone() };
            let fewer = Each { items: fewer, ..each.clone() };
            let maps = [plain, strict, fewer].map(Kind::Map);
            std::iter::once(Kind::Group(each.body.clone())).chain(maps).collect()
        }
        _ => Vec::new(),
    }
}

pub(super) const SIMPLEST_CHILD: ChildCall =
    ChildCall { of: ChildProgram::Works, tie: Tie::Awaited };

/// A simpler kind to put in place of one.
fn simpler(kind: &Kind) -> Option<Kind> {
    match kind {
        Kind::Noop => None,
        Kind::Transform(values) | Kind::Output(values) if !values.is_empty() => {
            let fewer = values[1..].to_vec();
            Some(match kind {
                Kind::Output(_) => Kind::Output(fewer),
                _ => Kind::Transform(fewer),
            })
        }
        Kind::Task(Script::Good) => Some(Kind::Noop),
        Kind::Task(_) => Some(Kind::Task(Script::Good)),
        Kind::Approval(approval) if *approval != Approval::SIMPLEST => {
            Some(Kind::Approval(Approval::SIMPLEST))
        }
        Kind::Operation(operation) if *operation != Operation::simplest() => {
            Some(Kind::Operation(Operation::simplest()))
        }
        Kind::Child(call) if *call != SIMPLEST_CHILD => Some(Kind::Child(SIMPLEST_CHILD)),
        Kind::Switch { cases, default } if cases.len() > 1 => {
            Some(Kind::Switch { cases: cases[..1].to_vec(), default: default.clone() })
        }
        Kind::Signals(signals) => {
            Some(Kind::Wait { signal: signals.wanted[0], timeout_ms: signals.timeout_ms })
        }
        Kind::Notify(notify) => Some(notify.simpler().map_or(Kind::Noop, Kind::Notify)),
        Kind::Transform(_)
        | Kind::Output(_)
        | Kind::Condition(_)
        | Kind::Switch { .. }
        | Kind::Join
        | Kind::Fail
        | Kind::Delay(_)
        | Kind::Wait { .. }
        | Kind::Approval(_)
        | Kind::Operation(_)
        | Kind::Group(_)
        | Kind::Loop(_)
        | Kind::Map(_)
        | Kind::Child(_)
        | Kind::Emit(_) => Some(Kind::Noop),
    }
}
