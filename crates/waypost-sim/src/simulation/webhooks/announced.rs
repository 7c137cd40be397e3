//! Which messages an execution's events cause: a second reading of them, apart from `waypost_core::outbox`.

use serde_json::{Value, json};
use waypost_core::event::{Event, NodeEvent, PauseReason, RunEvent, Wait};
use waypost_core::outbox::MessageKind;
use waypost_ports::outbox::OutboxMessage;

/// What users have seen of an execution.
#[derive(Default)]
pub(super) struct Announced {
    key: String,
    pub(super) workflow: String,
    generation: u32,
    seen: Seen,
    /// The generation that each event of the last frame is about.
    generations: Vec<(u64, u32)>,
}

/// A message that an event causes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Caused {
    pub(super) seq: u64,
    pub(super) kind: MessageKind,
    /// Is it written in any case? One about an attempt that a remote worker took only if the owner knows that an
    /// endpoint asks for it, a reminder only if its wait is still open after the frame.
    pub(super) surely: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Seen {
    /// No instance has begun it.
    #[default]
    Requested,
    /// It is in the queue of its concurrency key.
    Queued,
    UnderWay,
    /// It has left memory until something comes.
    Parked,
    Paused,
    Quarantined,
    Ended,
}

impl Announced {
    /// Reads the events of a frame. `notifies`: does the completion of the node of this path cause a message?
    pub(super) fn read(
        &mut self,
        first_seq: u64,
        events: &[Event],
        notifies: &dyn Fn(&str) -> bool,
    ) -> Vec<Caused> {
        let mut caused: Vec<Caused> = Vec::new();
        self.generations.clear();
        for (seq, event) in (first_seq..).zip(events) {
            let kind = match event {
                Event::Run(event) => {
                    if matches!(event, RunEvent::Queued { .. }) {
                        // The owner that was to begin it put it into the queue instead.
                        caused.retain(|one| one.kind != MessageKind::Scheduled);
                    }
                    let (seen, kind) = self.step(event);
                    self.seen = seen;
                    kind.map(|kind| (kind, true))
                }
                Event::Node(event) => of_node(event, notifies),
            };
            self.generations.push((seq, self.generation));
            caused.extend(kind.map(|(kind, surely)| Caused { seq, kind, surely }));
        }
        caused
    }

    /// What users see after an event, and the message that it causes.
    fn step(&mut self, event: &RunEvent) -> (Seen, Option<MessageKind>) {
        match (event, self.seen) {
            (RunEvent::Created(created), _) => {
                self.key = created.key.to_string();
                self.workflow = created.workflow.to_string();
                self.generation = 1;
                (Seen::Requested, Some(MessageKind::Created))
            }
            (RunEvent::Owned { .. }, Seen::Requested) | (RunEvent::Admitted {}, _) => {
                (Seen::UnderWay, Some(MessageKind::Scheduled))
            }
            (RunEvent::Owned { .. }, Seen::Parked) => (Seen::UnderWay, None),
            (RunEvent::Queued { .. }, _) => (Seen::Queued, None),
            (RunEvent::PauseRequested { .. }, Seen::Parked) => {
                (Seen::Paused, Some(MessageKind::Paused))
            }
            (RunEvent::PauseRequested { .. }, Seen::Requested) => (Seen::UnderWay, None),
            (RunEvent::Paused { reason: PauseReason::Waits }, _) => (Seen::Parked, None),
            (RunEvent::Paused { reason: PauseReason::User }, Seen::UnderWay) => {
                (Seen::Paused, Some(MessageKind::Paused))
            }
            (RunEvent::Resumed { .. }, Seen::Paused | Seen::Quarantined) => {
                (Seen::UnderWay, Some(MessageKind::Resumed))
            }
            (RunEvent::Quarantined { .. }, _) => {
                (Seen::Quarantined, Some(MessageKind::Quarantined))
            }
            (RunEvent::Ending { .. }, _) => (Seen::UnderWay, None),
            (RunEvent::Completed { .. }, _) => (Seen::Ended, Some(MessageKind::Completed)),
            (RunEvent::Failed { .. }, _) => (Seen::Ended, Some(MessageKind::Failed)),
            (RunEvent::Cancelled { .. }, _) => (Seen::Ended, Some(MessageKind::Cancelled)),
            (RunEvent::TimedOut {}, _) => (Seen::Ended, Some(MessageKind::TimedOut)),
            (RunEvent::Reopened { generation, .. }, _) => {
                self.generation = *generation;
                (Seen::UnderWay, Some(MessageKind::Reopened))
            }
            (_, seen) => (seen, None),
        }
    }

    /// Does a message of the last frame say what it is about?
    pub(super) fn is_described_by(&self, row: &OutboxMessage) -> bool {
        let data: Value = serde_json::from_slice(&row.data).unwrap_or_default();
        let of = self.generations.iter().find(|(seq, _)| *seq == row.name.seq);
        let status = match row.kind {
            MessageKind::Paused => "PAUSED",
            MessageKind::Quarantined => "QUARANTINED",
            MessageKind::Completed => "COMPLETED",
            MessageKind::Failed => "FAILED",
            MessageKind::Cancelled => "CANCELLED",
            MessageKind::TimedOut => "TIMED_OUT",
            _ => "RUNNING",
        };
        of.is_some_and(|(seq, generation)| {
            data["execution"] == json!(self.key)
                && data["workflow"] == json!(self.workflow)
                && data["seq"] == json!(seq)
                && data["generation"] == json!(generation)
                && data["status"] == json!(status)
        })
    }
}

fn of_node(event: &NodeEvent, notifies: &dyn Fn(&str) -> bool) -> Option<(MessageKind, bool)> {
    match event {
        NodeEvent::Completed { node, .. } if notifies(node) => Some((MessageKind::Notified, true)),
        NodeEvent::Waiting { message: Some(_), .. } => Some((MessageKind::Notified, true)),
        NodeEvent::Waiting { wait: Wait::Approval(_), .. } => {
            Some((MessageKind::ApprovalRequested, true))
        }
        NodeEvent::Reminded { escalated: false, .. } => {
            Some((MessageKind::ApprovalReminded, false))
        }
        NodeEvent::Reminded { escalated: true, .. } => {
            Some((MessageKind::ApprovalEscalated, false))
        }
        NodeEvent::Started { remote: Some(_), .. } => Some((MessageKind::Handoff, false)),
        _ => None,
    }
}
