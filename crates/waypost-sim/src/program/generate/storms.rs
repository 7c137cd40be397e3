//! Storms: tasks of a random program call an endpoint that is down for a while, with a circuit breaker.
//! From a stream of its own, so that programs without any do not change.

use super::{AMPLE_MS, Appetite};
use crate::program::{Kind, Node, Program, RetryOn, RetryRule, Script};
use crate::random::Random;

impl Program {
    /// Lets some tasks call that endpoint, and adds a few that do.
    pub(super) fn add_storms(&mut self, random: &Random, appetite: &Appetite) {
        let mut random = random.split("storms");
        if !random.percent(appetite.storms_percent) {
            return;
        }
        self.each_node_mut(&mut |node| {
            if matches!(node.kind, Kind::Task(_)) && random.percent(60) {
                call_endpoint(node, &mut random);
            }
        });
        // Several at once, or none would wait for a breaker that others have opened.
        for number in 1..=random.between(2, 5) {
            let kind = Kind::Task(Script::Storm);
            let mut node = Node::plain(format!("storm{number}"), kind, Vec::new());
            call_endpoint(&mut node, &mut random);
            self.nodes.push(node);
        }
    }
}

fn call_endpoint(node: &mut Node, random: &mut Random) {
    node.kind = Kind::Task(Script::Storm);
    (node.at_most_once, node.remote) = (false, false);
    node.timeout_ms = random.percent(30).then_some(AMPLE_MS);
    node.retry = Some(RetryRule {
        max_attempts: u32::try_from(random.between(2, 8)).unwrap_or(2),
        wait_ms: random.between(0, 1_500),
        backoff: false,
        on: RetryOn::Transient,
    });
}
