//! Did the outside world see the calls that follow from what happened, and no others?

use waypost_core::status::NodeStatus;

use super::{Judge, has_failed};
use crate::model::{Calls, NodeRan};
use crate::program::{Kind, Node, Script};

impl Judge<'_> {
    pub(super) fn sink(&mut self) {
        for at in 0..self.nodes.len() {
            let (node, ran) = self.node(at);
            let seen = self.ran.sink.get(&node.id).cloned().unwrap_or_default();
            let keys = seen.len();
            let id = &node.id;
            // Each generation has a key, and a failover may lose the retry that began one.
            let many = self.ran.generation > 1 || self.ran.world.starts_lost;
            self.expect(keys <= 1 || many, || {
                format!("{id}: called under {keys} idempotency keys")
            });
            let Kind::Task(script) = node.kind else {
                self.expect(keys == 0, || format!("{id}: called, and is no task"));
                continue;
            };
            if many {
                continue;
            }
            let all = seen.values().fold(Calls::default(), |all, more| Calls {
                calls: all.calls + more.calls,
                effects: all.effects + more.effects,
            });
            self.calls(node, script, &ran, all);
        }
    }

    fn calls(&mut self, node: &Node, script: Script, ran: &NodeRan, seen: Calls) {
        let id = &node.id;
        let Calls { calls, effects } = seen;
        // Two remote workers may take one attempt, and both begin; one of them has started it.
        let shared = self.ran.world.shared && !node.at_most_once;
        self.expect(calls <= ran.starts || shared, || {
            format!("{id}: {calls} calls, {} starts", ran.starts)
        });
        let refused = script.refusals().map_or(calls, |refusals| refusals.min(calls));
        self.expect(effects <= calls - refused, || {
            format!("{id}: {effects} effects of {calls} calls to a sink that is {script}")
        });
        if ran.status == NodeStatus::Completed {
            self.expect(effects > 0, || format!("{id}: completed without an effect"));
        }
        let ended = ran.status == NodeStatus::Completed || has_failed(ran);
        if node.at_most_once {
            // An attempt that was stopped is not counted as a try.
            let most = ran.tries + u32::from(!ended);
            self.expect(calls <= most, || format!("{id}: {calls} calls, at most {most} allowed"));
        }
        if ended && !self.ran.world.is_disturbed() {
            self.expect(calls == ran.tries, || format!("{id}: {calls} calls, {} tries", ran.tries));
        }
    }
}
