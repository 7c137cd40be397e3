//! The weight of a program, which every step of shrinking makes smaller.

use super::shrink::SIMPLEST_CHILD;
use super::{FailurePolicy, Join, Kind, Loop, Node, OnError, Program, Script};

impl Node {
    /// A measure that every step of shrinking makes smaller.
    pub fn weight(&self) -> usize {
        let kind = match &self.kind {
            Kind::Noop => 0,
            Kind::Transform(values) | Kind::Output(values) => 1 + values.len(),
            Kind::Switch { cases, .. } => 1 + cases.len(),
            Kind::Task(Script::Good) => 1,
            Kind::Task(_) => 2,
            Kind::Child(call) => 2 + usize::from(*call != SIMPLEST_CHILD),
            Kind::Condition(_) | Kind::Join | Kind::Fail | Kind::Delay(_) | Kind::Wait { .. } => 1,
            Kind::Signals(_) => 2,
            Kind::Notify(notify) => notify.weight(),
            Kind::Emit(_) => 1,
            Kind::Approval(approval) => 1 + approval.weight(),
            Kind::Operation(operation) => 1 + operation.weight(),
            Kind::Group(body) => 1 + weight_of(body),
            Kind::Loop(Loop { body, max, delay_ms, all, .. }) => {
                let options = [*max > 1, *delay_ms > 0, *all].into_iter().filter(|option| *option);
                2 + weight_of(body) + options.count()
            }
            Kind::Map(each) => 2 + weight_of(&each.body) + each.weight(),
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
            self.sets.is_some(),
        ];
        10 + kind + self.needs.len() + options.into_iter().filter(|option| *option).count()
    }
}

impl Program {
    /// A measure that every step of shrinking makes smaller.
    pub fn weight(&self) -> usize {
        let partial = usize::from(self.failure_policy == FailurePolicy::Partial);
        let timeout = usize::from(self.timeout_ms.is_some());
        let budget = usize::from(self.budget.is_some());
        weight_of(&self.nodes) + partial + timeout + budget
    }
}

fn weight_of(nodes: &[Node]) -> usize {
    nodes.iter().map(Node::weight).sum()
}
