//! The outside world: a sink that workers call, which remembers every call by its idempotency key.

use std::collections::BTreeMap;

use crate::model::Calls;
use crate::program::{OutsideReply, Script};

/// The calls that the sink has seen of one node of one execution, by idempotency key.
pub type Seen = BTreeMap<String, Calls>;

/// The sink.
#[derive(Debug, Default)]
pub struct Sink {
    seen: BTreeMap<(String, String), Seen>,
}

impl Sink {
    /// A call arrives. `None`: it is never answered.
    pub fn call(
        &mut self,
        execution: &str,
        node: &str,
        key: &str,
        script: Script,
    ) -> Option<OutsideReply> {
        let seen = self.seen.entry((execution.to_owned(), node.to_owned())).or_default();
        let calls = seen.entry(key.to_owned()).or_default();
        calls.calls += 1;
        let reply = script.reply(calls.calls, key);
        if reply.as_ref().is_some_and(|reply| reply.effect) {
            calls.effects += 1;
        }
        reply
    }

    /// The calls of an execution, by the paths of its nodes.
    pub fn seen(&self, execution: &str) -> BTreeMap<String, Seen> {
        let of = self.seen.iter().filter(|((of, _), _)| of == execution);
        of.map(|((_, node), seen)| (node.clone(), seen.clone())).collect()
    }
}
