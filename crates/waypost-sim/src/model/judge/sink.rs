//! Did the outside world see the calls that follow from what happened, and no others?

use std::collections::BTreeSet;

use waypost_core::failure::kind;
use waypost_core::status::NodeStatus;

use super::{Judge, Prefixes, each_node, has_failed};
use crate::model::{Calls, NodeRan};
use crate::program::{Kind, Node, Program, Script};

impl Judge<'_> {
    pub(super) fn sink(&mut self, program: &Program) {
        for path in self.ran.sink.keys() {
            let is_task = program.locate(path).is_some_and(|n| matches!(n.kind, Kind::Task(_)));
            self.expect(is_task, || format!("{path}: called, and is no task"));
        }
        // Each generation has a key, and a failover may lose the retry that began one.
        if self.ran.generation > 1 || self.ran.world.starts_lost {
            return;
        }
        let mut tasks = Vec::new();
        each_node(&program.nodes, &self.ran.nodes, &Prefixes::default(), &mut |node, ran, at| {
            if let Kind::Task(script) = node.kind {
                tasks.push((node, script, ran, at.clone()));
            }
        });
        let mut expected = BTreeSet::new();
        for (node, script, ran, Prefixes { path, key }) in tasks {
            let (path, end) = (format!("{path}{}", node.id), format!("/{key}{}/1", node.id));
            let seen = self.ran.sink.get(&path);
            let own = seen.and_then(|seen| seen.iter().find(|(key, _)| key.ends_with(&end)));
            expected.extend(own.map(|(key, _)| (path.clone(), key.clone())));
            let calls = own.map_or_else(Calls::default, |(_, calls)| *calls);
            self.calls((&path, node), script, ran, calls);
        }
        for (path, seen) in &self.ran.sink {
            for key in seen.keys() {
                let known = expected.contains(&(path.clone(), key.clone()));
                self.expect(known, || format!("{path}: called under the idempotency key {key}"));
            }
        }
    }

    fn calls(
        &mut self,
        (id, node): (&str, &Node),
        script: Script,
        ran: &NodeRan,
        Calls { calls, effects }: Calls,
    ) {
        // Two remote workers may take one attempt, and both begin; one of them has started it.
        let shared = self.ran.world.shared && !node.at_most_once;
        self.expect(calls <= ran.starts || shared, || {
            format!("{id}: {calls} calls, {} starts", ran.starts)
        });
        let refused = script.refusals().map_or(calls, |refusals| refusals.min(calls));
        self.expect(effects <= calls - refused, || {
            format!("{id}: {effects} effects of {calls} calls to a sink that is {script}")
        });
        // A breaker that keeps an attempt waiting does not cost a try.
        let refused = ran.failure.as_deref() == Some(kind::HTTP) && has_failed(ran);
        if script == Script::Storm && refused && !self.ran.world.replies_lost {
            self.expect(calls >= ran.tries, || format!("{id}: {calls} calls, {} tries", ran.tries));
        }
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
