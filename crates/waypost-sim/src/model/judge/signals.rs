//! Did signals end the waits that they had to, once?

use waypost_core::status::NodeStatus;

use super::{Judge, NodeRan, Prefixes, each_node};
use crate::model::End;
use crate::program::{Kind, Program, Signal};

impl Judge<'_> {
    /// A signal that ended one wait does not end a later one, and no wait stays open whose signal
    /// has come.
    pub(super) fn signals(&mut self, program: &Program) {
        for signal in Signal::ALL {
            let mut waits: Vec<(String, &NodeRan)> = Vec::new();
            each_node(
                &program.nodes,
                &self.ran.nodes,
                &Prefixes::default(),
                &mut |node, ran, at| {
                    if matches!(node.kind, Kind::Wait { signal: of, .. } if of == signal) {
                        waits.push((format!("{}{}", at.path, node.id), ran));
                    }
                },
            );
            let ended = || waits.iter().filter(|(_, ran)| ran.status == NodeStatus::Completed);
            for (path, later) in ended() {
                let begun = later.scheduled.unwrap_or_default();
                let again = ended().any(|(_, earlier)| {
                    earlier.settled.is_some_and(|settled| settled < begun)
                        && earlier.output == later.output
                });
                self.expect(!again, || format!("{path}: took a signal that was consumed"));
            }
            let sent = self.ran.world.signals.iter();
            let good = sent
                .filter(|sent| sent.name == signal.name() && signal.accepts(&sent.body))
                .count();
            let by_signal = ended().filter(|(_, ran)| ran.resumed.is_empty()).count();
            let is_open = |ran: &NodeRan| ran.status == NodeStatus::Waiting;
            if let Some((path, _)) = waits.iter().find(|(_, ran)| is_open(ran))
                && self.ran.end == End::Waiting
            {
                self.expect(good <= by_signal, || format!("{path}: waits for a signal that came"));
            }
        }
    }
}
