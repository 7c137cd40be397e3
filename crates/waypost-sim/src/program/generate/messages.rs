//! Messages: some nodes of a random program send a message to webhook endpoints, also in bodies, or a signal
//! to their own execution. From a stream of its own, so that programs without any do not change.

use super::bodies::Bodies;
use super::{Appetite, Builder};
use crate::program::{Kind, Node, Notify, Program, Signal, Value};
use crate::random::Random;

impl Program {
    /// Lets some nodes send something.
    pub(super) fn add_messages(&mut self, random: &Random, appetite: &Appetite) {
        let mut random = random.split("messages");
        if !random.percent(appetite.messages_percent) {
            return;
        }
        let chosen = self.some_places(&mut random, 3);
        let mut at = 0;
        self.each_node_mut(&mut |node| {
            if chosen.contains(&at) && is_plain(node) {
                let mut bodies = Bodies::new(&mut random, appetite);
                notify(&mut bodies.builder(&node.id.clone(), 0), node);
            }
            at += 1;
        });
        if random.percent(40) {
            let at = random.index(self.nodes.len());
            if is_plain(&self.nodes[at]) {
                let signal = *random.pick(&Signal::PLAIN);
                send(&mut self.nodes[at], Kind::Emit(signal));
                self.nodes[at].deadline_ms = None;
            }
        }
    }
}

/// May it be replaced? Others may need the branches of a choice.
fn is_plain(node: &Node) -> bool {
    let chooses = matches!(node.kind, Kind::Condition(_) | Kind::Switch { .. });
    !chooses && node.body().is_none()
}

fn send(node: &mut Node, kind: Kind) {
    node.kind = kind;
    (node.timeout_ms, node.at_most_once, node.remote) = (None, false, false);
    node.retry = None;
}

fn notify(builder: &mut Builder<'_>, node: &mut Node) {
    let values = match &node.kind {
        Kind::Transform(values) | Kind::Output(values) => values.clone(),
        _ => vec![Value::Plus(1)],
    };
    let wait = builder.random.percent(65);
    let impatient = wait && builder.random.percent(30);
    let timeout_ms = impatient.then(|| builder.spell());
    send(node, Kind::Notify(Notify { values, wait, timeout_ms }));
    if node.deadline_ms.is_some() {
        node.deadline_ms = Some(builder.deadline(node));
    }
}
