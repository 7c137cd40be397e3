//! Smaller programs, for shrinking a program that has shown a bug.

use super::{FailurePolicy, Join, Kind, Node, OnError, Program, Script, Test, Value};

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
            if node.kind != Kind::Task(Script::Hang) {
                attempt(&|program| program.nodes[at].timeout_ms = None);
            }
        }
        candidates
    }

    /// Makes a program valid again after something was taken away: no edge on a branch that is
    /// gone, no mention of what does not come before, no join of more than there is.
    pub(super) fn make_valid(&mut self) {
        let branches: Vec<Vec<String>> = self
            .nodes
            .iter()
            .map(|node| node.branches().into_iter().map(Into::into).collect())
            .collect();
        for node in &mut self.nodes {
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
        let (ancestors, settled) = (self.ancestors(), self.settled_before());
        for (at, node) in self.nodes.iter_mut().enumerate() {
            node.kind.each_mention(&mut |mention| match mention {
                Mention::Value(value, of) if !ancestors[at].contains(&of) => {
                    *value = Value::Constant(0);
                }
                Mention::Test(test, of) if !settled[at].contains(&of) => *test = Test::AtLeast(5),
                Mention::Value(..) | Mention::Test(..) => {}
            });
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
        match self {
            Self::Transform(values) | Self::Output(values) => {
                for value in values {
                    if let Value::OutputOf(at) | Value::StatusOf(at) = *value {
                        visit(Mention::Value(value, at));
                    }
                }
            }
            Self::Condition(test) => visit_test(test, visit),
            Self::Switch { cases, .. } => {
                cases.iter_mut().for_each(|case| visit_test(&mut case.test, visit));
            }
            Self::Noop
            | Self::Join
            | Self::Fail
            | Self::Delay(_)
            | Self::Wait { .. }
            | Self::Task(_) => {}
        }
    }
}

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
        Kind::Switch { cases, default } if cases.len() > 1 => {
            Some(Kind::Switch { cases: cases[..1].to_vec(), default: default.clone() })
        }
        Kind::Transform(_)
        | Kind::Output(_)
        | Kind::Condition(_)
        | Kind::Switch { .. }
        | Kind::Join
        | Kind::Fail
        | Kind::Delay(_)
        | Kind::Wait { .. } => Some(Kind::Noop),
    }
}

impl Node {
    /// A measure that every step of shrinking makes smaller.
    pub fn weight(&self) -> usize {
        let kind = match &self.kind {
            Kind::Noop => 0,
            Kind::Transform(values) | Kind::Output(values) => 1 + values.len(),
            Kind::Switch { cases, .. } => 1 + cases.len(),
            Kind::Task(Script::Good) => 1,
            Kind::Task(_) => 2,
            Kind::Condition(_) | Kind::Join | Kind::Fail | Kind::Delay(_) | Kind::Wait { .. } => 1,
        };
        let options = [
            self.join != Join::All,
            self.retry.is_some(),
            self.deadline_ms.is_some(),
            self.timeout_ms.is_some(),
            self.on_error != OnError::Fail,
            self.definition_errors,
            self.at_most_once,
            self.remote,
        ];
        10 + kind + self.needs.len() + options.into_iter().filter(|option| *option).count()
    }
}

impl Program {
    /// A measure that every step of shrinking makes smaller.
    pub fn weight(&self) -> usize {
        let partial = usize::from(self.failure_policy == FailurePolicy::Partial);
        let timeout = usize::from(self.timeout_ms.is_some());
        self.nodes.iter().map(Node::weight).sum::<usize>() + partial + timeout
    }
}
