//! Children: some nodes of a random program start an execution of a child workflow, also in bodies.
//! From a stream of its own, so that programs without any do not change.

use super::bodies::Bodies;
use super::{Appetite, Builder};
use crate::program::{ChildCall, ChildProgram, Kind, Node, Program, Tie};
use crate::random::Random;

impl Program {
    /// Lets some nodes start executions.
    pub(super) fn add_children(&mut self, random: &Random, appetite: &Appetite) {
        let mut random = random.split("children");
        if !random.percent(appetite.children_percent) {
            return;
        }
        let chosen = self.some_places(&mut random, 3);
        let mut at = 0;
        self.each_node_mut(&mut |node| {
            if chosen.contains(&at) {
                let mut bodies = Bodies::new(&mut random, appetite);
                start_child(&mut bodies.builder(&node.id.clone(), 0), node);
            }
            at += 1;
        });
    }
}

fn start_child(builder: &mut Builder<'_>, node: &mut Node) {
    // Others may need its branches, and one that starts a child has none.
    let chooses = matches!(node.kind, Kind::Condition(_) | Kind::Switch { .. });
    if chooses || node.body().is_some() {
        return;
    }
    let of = *builder.random.pick(&ChildProgram::ALL);
    let tie = match builder.random.below(10) {
        0 => Tie::Detached,
        1 | 2 => Tie::Left,
        _ => Tie::Awaited,
    };
    node.kind = Kind::Child(ChildCall { of, tie });
    (node.timeout_ms, node.at_most_once, node.remote) = (None, false, false);
    node.retry = builder.random.percent(50).then(|| builder.retry());
    if node.deadline_ms.is_some() {
        node.deadline_ms = Some(builder.deadline(node));
    }
}
