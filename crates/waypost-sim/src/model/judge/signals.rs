//! Did signals end the waits that they had to, once?

use serde_json::Value as Json;
use waypost_core::status::NodeStatus;

use super::{Judge, NodeRan, Prefixes, each_node};
use crate::model::End;
use crate::program::{Kind, Node, Program, Signal};

/// What a node has to do with one signal.
struct Awaited<'r> {
    path: String,
    ran: &'r NodeRan,
    /// The bodies of those that it took.
    took: Vec<&'r Json>,
    /// How many it took.
    count: usize,
    /// Does it still wait for one?
    open: bool,
}

impl Judge<'_> {
    /// A signal that ended one wait does not end a later one, and no wait stays open whose signal
    /// has come.
    pub(super) fn signals(&mut self, program: &Program) {
        for signal in Signal::ALL {
            let mut waits: Vec<Awaited<'_>> = Vec::new();
            each_node(
                &program.nodes,
                &self.ran.nodes,
                &Prefixes::default(),
                &mut |node, ran, at| waits.extend(awaited(&at.path, node, ran, signal)),
            );
            for later in &waits {
                let begun = later.ran.scheduled.unwrap_or_default();
                let again = waits.iter().any(|earlier| {
                    earlier.ran.settled.is_some_and(|settled| settled < begun)
                        && earlier.took.iter().any(|body| later.took.contains(body))
                });
                self.expect(!again, || format!("{}: took a signal that was consumed", later.path));
            }
            let sent = self.ran.world.signals.iter();
            let good = sent
                .filter(|sent| sent.name == signal.name() && signal.accepts(&sent.body))
                .count();
            let taken: usize = waits.iter().map(|wait| wait.count).sum();
            if let Some(wait) = waits.iter().find(|wait| wait.open)
                && self.ran.end == End::Waiting
            {
                let path = &wait.path;
                self.expect(good <= taken, || format!("{path}: waits for a signal that came"));
            }
        }
    }
}

fn awaited<'r>(prefix: &str, node: &Node, ran: &'r NodeRan, signal: Signal) -> Option<Awaited<'r>> {
    let path = format!("{prefix}{}", node.id);
    let by_signal = ran.status == NodeStatus::Completed && ran.resumed.is_empty();
    let waits = ran.status == NodeStatus::Waiting;
    match &node.kind {
        Kind::Wait { signal: of, .. } if *of == signal => {
            let done = ran.status == NodeStatus::Completed;
            let took = ran.output.iter().filter(|_| done).collect();
            Some(Awaited { path, ran, took, count: usize::from(by_signal), open: waits })
        }
        Kind::Signals(signals) => {
            let places = signals.wanted.iter().enumerate().filter(|(_, of)| **of == signal);
            let (came, open): (Vec<_>, Vec<_>) = places.partition(|(at, _)| ran.came.contains(at));
            let bodies = ran.output.as_ref().filter(|_| by_signal).and_then(Json::as_array);
            let took = came.iter().filter_map(|(at, _)| bodies?.get(*at)).collect();
            let open = waits && !open.is_empty();
            Some(Awaited { path, ran, took, count: came.len(), open })
        }
        _ => None,
    }
}
