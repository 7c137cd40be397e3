//! What must be true of messages. With every commit: the rows are those of the changes that users see, by a second
//! reading of the events (`announced`), and the result of an awaited message comes once, when every endpoint has
//! it or it was given up. With every claim: an endpoint that cools gets one message, when its probe is due. With
//! every delivery: no message overtakes an earlier one about the same execution. In the end: every message was
//! received, or its endpoint wanted none.

use std::collections::BTreeSet;
use std::sync::Arc;

use waypost_core::event::{Event, RunEvent};
use waypost_core::frame::decode;
use waypost_core::id::ExecutionNo;
use waypost_ports::outbox::{
    ClaimedMessages, EndpointState, MessageRow, MessageState, OutboxMessage, frame_mark,
    is_trigger_endpoint,
};
use waypost_ports::store::Append;

use super::announced::{Announced, Caused};
use crate::program::{Kind, Program};
use crate::simulation::Simulation;

/// A message for an endpoint: which, the seq, and the code of its kind.
type EndpointMessage = (Arc<str>, u64, u8);

impl Simulation {
    /// A frame was committed: its rows are there, and no others.
    pub(in crate::simulation) fn check_outbox_of(&mut self, append: &Append) {
        let header = append.header;
        let events = decode(&append.body).unwrap_or_default();
        self.check_results(header.execution, &events);
        if self.webhooks.endpoints.is_empty() {
            return;
        }
        let known = self.webhooks.announced.remove(&header.execution);
        let mut announced = known.filter(|_| header.first_seq > 1).unwrap_or_default();
        let program = self.program_run_by(header.execution);
        let caused = announced.read(header.first_seq, &events, &|path| notifies(&program, path));
        let surely = self.rows_of(&announced, &caused, |one| one.surely);
        let maybe = self.rows_of(&announced, &caused, |_| true);
        let mark = frame_mark(header.append_id.0);
        let rows: Vec<OutboxMessage> = self.store.with(|tables, _| {
            let is_of = |row: &&MessageRow| {
                let message = &row.message;
                (message.name.execution, message.name.mark, message.frame_seq)
                    == (header.execution, mark, header.first_seq)
                    && !is_trigger_endpoint(&message.name.endpoint)
            };
            tables.outbox_rows().filter(is_of).map(|row| row.message.clone()).collect()
        });
        let found: BTreeSet<EndpointMessage> = rows
            .iter()
            .map(|row| (Arc::clone(&row.name.endpoint), row.name.seq, row.kind.code()))
            .collect();
        let right = surely.is_subset(&found) && found.is_subset(&maybe);
        if !right || found.len() != rows.len() {
            let of = format!("x{} {}..{}", header.execution.0, header.first_seq, header.last_seq);
            let names: Vec<_> = rows.iter().map(|row| row.name.to_string()).collect();
            self.fail("outbox", format!("{of} has the messages {names:?}, not {surely:?}"));
        }
        let wrong = rows.iter().find(|row| !announced.is_described_by(row) || !self.has_frame(row));
        if let Some(row) = wrong {
            let data = String::from_utf8_lossy(&row.data);
            self.fail("outbox", format!("{} has the wrong data: {data}", row.name));
        }
        self.webhooks.announced.insert(header.execution, announced);
    }

    /// The rows for the endpoints that get messages now.
    fn rows_of(
        &self,
        announced: &Announced,
        caused: &[Caused],
        counts: fn(&Caused) -> bool,
    ) -> BTreeSet<EndpointMessage> {
        self.store.with(|tables, _| {
            let rows = tables.endpoints().iter().filter(|row| {
                row.state != EndpointState::Disabled && !is_trigger_endpoint(&row.endpoint.id)
            });
            let rows = rows.flat_map(|row| {
                let endpoint = &row.endpoint;
                let workflow = endpoint.workflow.as_deref();
                let is_of = workflow.is_none_or(|name| name == announced.workflow);
                let wanted = caused
                    .iter()
                    .filter(move |one| is_of && counts(one) && endpoint.kinds.contains(one.kind));
                wanted.map(|one| (Arc::clone(&endpoint.id), one.seq, one.kind.code()))
            });
            rows.collect()
        })
    }

    /// The result of a message that a node waits for comes once, and is that of all its deliveries.
    fn check_results(&mut self, execution: ExecutionNo, events: &[Event]) {
        for event in events {
            let Event::Run(RunEvent::SignalReceived { name, body, .. }) = event else { continue };
            let seq = name.strip_prefix("waypost.delivery.").and_then(|seq| seq.parse().ok());
            let Some(seq) = seq else { continue };
            if !self.webhooks.resolved.insert((execution, seq)) {
                let what = format!("x{} gets the result of message {seq} twice", execution.0);
                return self.fail("outbox.awaited", what);
            }
            if self.auditor.failed_over {
                continue; // deliveries may be among what was lost
            }
            let states: Vec<MessageState> = self.store.with(|tables, _| {
                let of = tables.outbox_rows().filter(|row| {
                    let name = &row.message.name;
                    (name.execution, name.seq) == (execution, seq)
                });
                of.map(|row| row.state).collect()
            });
            let count = |of: MessageState| states.iter().filter(|state| **state == of).count();
            let (delivered, failed) = (count(MessageState::Delivered), count(MessageState::Dead));
            let expected = serde_json::json!({ "delivered": delivered, "failed": failed });
            if body.to_value().ok() != Some(expected) || count(MessageState::Pending) > 0 {
                let what = format!(
                    "x{} gets {body} for message {seq}, whose deliveries are {states:?}",
                    execution.0
                );
                self.fail("outbox.awaited", what);
            }
        }
    }

    /// While an endpoint cools, one message at a time is sent to it, when its probe is due.
    pub(super) fn check_claim(&mut self, claimed: &ClaimedMessages) {
        let mut probed = BTreeSet::new();
        for (message, endpoint) in &claimed.messages {
            let Some(probe_at) = endpoint.health.probe_at else { continue };
            if probe_at > claimed.at || !probed.insert(&endpoint.endpoint.id) {
                let name = &message.name;
                let what = format!("{name} is claimed at {}, its endpoint cools", claimed.at);
                return self.fail("outbox.cooling", what);
            }
        }
    }

    /// An endpoint gets a message: its frame is durable, and what comes before it has been settled.
    pub(super) fn receive(&mut self, message: &OutboxMessage, same_store: bool) {
        let name = message.name.clone();
        self.note("webhook", &[name.seq], || name.to_string());
        let is_new = self.webhooks.received.insert(message.name.clone());
        // A store that lost its latest commits has lost frames and results.
        if !is_new || !same_store {
            return;
        }
        let name = &message.name;
        if !self.has_frame(message) {
            return self.fail("outbox", format!("{name} is sent, and its frame is not there"));
        }
        let is_before = |row: &&MessageRow| {
            let other = &row.message.name;
            (&other.endpoint, other.execution) == (&name.endpoint, name.execution)
                && other.seq < name.seq
                && row.state == MessageState::Pending
        };
        let overtaken = self.store.with(|tables, _| {
            tables.outbox_rows().find(is_before).map(|row| row.message.name.to_string())
        });
        if let Some(overtaken) = overtaken {
            self.fail("outbox.order", format!("{name} is sent before {overtaken}"));
        }
    }

    fn has_frame(&self, message: &OutboxMessage) -> bool {
        let OutboxMessage { name, frame_seq, .. } = message;
        self.store.with(|tables, _| {
            let frame = tables.frames_from(name.execution, *frame_seq).next();
            frame.is_some_and(|frame| {
                let header = &frame.header;
                header.first_seq == *frame_seq
                    && (header.first_seq..=header.last_seq).contains(&name.seq)
                    && frame_mark(header.append_id.0) == name.mark
            })
        })
    }

    /// After a failover: reads the logs again.
    pub(in crate::simulation) fn reread_announced(&mut self) {
        self.webhooks.announced.clear();
        self.webhooks.resolved.clear();
        for execution in self.store.with(|tables, _| tables.executions()) {
            let mut announced = Announced::default();
            let events = self.events_of(execution);
            announced.read(1, &events, &|_| false);
            self.webhooks.announced.insert(execution, announced);
            self.check_results(execution, &events);
        }
    }

    /// In the end: every message was received, or its endpoint wanted none.
    pub(super) fn check_outbox(&mut self) {
        let rows: Vec<MessageRow> =
            self.store.with(|tables, _| tables.outbox_rows().cloned().collect());
        let is_sent = |row: &MessageRow| !is_trigger_endpoint(&row.message.name.endpoint);
        for row in rows.into_iter().filter(is_sent) {
            let name = &row.message.name;
            let wrong = match row.state {
                _ if !self.has_frame(&row.message) => "has no frame",
                MessageState::Delivered if !self.webhooks.received.contains(name) => {
                    "counts as delivered, and was not received"
                }
                MessageState::Pending => "is never delivered",
                MessageState::Dead if !self.webhooks.gone.contains(name) => "is a dead letter",
                MessageState::Delivered | MessageState::Dead => continue,
            };
            return self.fail("outbox", format!("{name} {wrong}"));
        }
    }
}

/// Does the completion of this node cause a message?
fn notifies(program: &Option<Program>, path: &str) -> bool {
    let node = program.as_ref().and_then(|program| program.locate(path));
    node.is_some_and(|node| matches!(&node.kind, Kind::Notify(notify) if !notify.wait))
}
