//! The frame in flight: the append, and what waits for its commit.

use std::collections::BTreeSet;
use std::sync::Arc;

use uuid::Uuid;
use waypost_core::blob::BlobDigest;
use waypost_core::child::SentMessage;
use waypost_core::command::{Decision, Effect};
use waypost_core::event::{BLOBS_LOG_FORMAT, Event, MessageId, NodeEvent, RunEvent};
use waypost_core::frame::{FrameHeader, encode};
use waypost_core::id::{AppendId, ExecutionNo};
use waypost_core::json::{REFERENCE_BYTES_MIN, references};
use waypost_core::outbox::{announce, announce_birth, announce_nodes};
use waypost_core::permits::PermitRequest;
use waypost_core::planted::{Bug, is_planted};
use waypost_core::published::PublishedSignal;
use waypost_core::status::Status;
use waypost_core::time::Timestamp;
use waypost_ports::mirror::Context;
use waypost_ports::store::{
    Append, ControlChange, Mail, MailBody, Settled, Side, Submission, Subscription, Topics,
};

use super::deciding::Round;
use super::orders::{Consequences, Leave};
use super::{Live, LivePhase};
use crate::driver::io::{Answer, Committed, Output, StoreWork, Ticket};
use crate::driver::slots::FrameSlots;
use crate::driver::suspicion::Suspicion;

pub(in crate::driver) struct PendingFrame {
    header: FrameHeader,
    pub(in crate::driver) events: Arc<[Event]>,
    effects: Vec<Effect>,
    slots: FrameSlots,
    /// Of its body and its snapshot.
    pub(in crate::driver) bytes: usize,
    answers: Vec<(Ticket, Answer)>,
    /// When the reports came that it answers to.
    pub(in crate::driver) reported: Vec<Timestamp>,
    parked: bool,
    /// Executions that begin or are opened again with it.
    born: Vec<ExecutionNo>,
    /// Does it send messages to others?
    sent: bool,
    /// Does it cause messages to webhook endpoints?
    announces: bool,
    /// Does it delete mail?
    pub(in crate::driver) consumes: bool,
    /// The mail that it refuses for now.
    pub(in crate::driver) refused_mail: Vec<MessageId>,
    settled: Option<Settled>,
    /// Its copy for a mirror, if it parks.
    context: Option<Box<Context>>,
}

impl PendingFrame {
    /// The tickets to answer if the frame is rejected.
    pub(in crate::driver) fn tickets(&self) -> Vec<Ticket> {
        self.answers.iter().map(|(ticket, _)| *ticket).collect()
    }

    pub(in crate::driver) fn is_first(&self) -> bool {
        self.header.parent.is_none()
    }
}

/// The blobs that a frame names, each once. A name that is not UTF-8 is in no reference.
fn frame_blobs(events: &[Event], body: &[u8]) -> Vec<BlobDigest> {
    if events.iter().all(|event| event.payload_bytes() < REFERENCE_BYTES_MIN) {
        return Vec::new();
    }
    let text = std::str::from_utf8(body).unwrap_or_default();
    let blobs: BTreeSet<BlobDigest> = references(text).map(|blob| blob.digest).collect();
    blobs.into_iter().collect()
}

/// The id of an execution's first frame, which follows from that of the frame it begins with: a repeated
/// frame has the same births.
fn birth_id(frame: AppendId, number: usize) -> AppendId {
    let mut hasher = blake3::Hasher::new();
    hasher.update(frame.0.as_bytes());
    hasher.update(&u64::try_from(number).unwrap_or(u64::MAX).to_le_bytes());
    let mut bytes = [0; 16];
    hasher.finalize_xof().fill(&mut bytes);
    AppendId(Uuid::from_bytes(bytes))
}

impl Live {
    /// The first frame, with the names that it claims and the ticket to answer.
    pub(in crate::driver) fn append_first(
        &mut self,
        round: &Round<'_>,
        decision: Decision,
        (submission, ticket): (Submission, Ticket),
    ) -> Output {
        let started = Answer::Started {
            execution: self.state.execution,
            key: self.state.created.key.clone(),
            status: self.state.shown_status(),
        };
        let side = Side {
            control: Some(self.control(ControlChange::Owned)),
            permit: self
                .permit_request()
                .filter(|_| submission.fire.is_none() || !is_planted(Bug::FiredWithoutPermit)),
            submission: Some(submission),
            ..Side::default()
        };
        self.append(round, decision, vec![(ticket, started)], side)
    }

    /// Takes the slots of the attempts that the frame starts, and sends it to the store.
    pub(super) fn append(
        &mut self,
        round: &Round<'_>,
        mut decision: Decision,
        answers: Vec<(Ticket, Answer)>,
        mut side: Side,
    ) -> Output {
        let config = round.config;
        let body = encode(&decision.events);
        let count = u64::try_from(decision.events.len()).unwrap_or(u64::MAX);
        let needed = decision.events.iter().map(Event::requires).max().unwrap_or(1);
        side.messages = announce(self.announced, &decision.events, &self.state);
        self.announced = Some(self.state.phase());
        let handoffs = config.handoffs.are_wanted();
        if self.announces || handoffs {
            let messages = announce_nodes(&self.plan, &decision.events, &self.state, handoffs);
            side.messages.extend(messages);
        }
        side.blobs = frame_blobs(&decision.events, &body);
        let refers = !side.blobs.is_empty();
        self.refers |= refers;
        let needed = if refers { needed.max(BLOBS_LOG_FORMAT) } else { needed };
        self.requires =
            self.requires.max(needed).max(self.plan.requires()).max(config.log_format_min);
        self.concern_others(&mut side, round, &decision);
        let published = std::mem::take(&mut decision.published);
        side.topics = self.topics(published, &side.consumed).if_any();
        let header = FrameHeader {
            execution: self.state.execution,
            first_seq: self.state.seq + 1 - count,
            last_seq: self.state.seq,
            append_id: round.append_id,
            parent: self.parent,
            instance: round.env.instance,
            epoch: self.state.epoch,
            decided_at: round.env.now,
            requires: self.requires,
        };
        self.log_bytes += body.len();
        let due = self.log_bytes > self.snapshot_bytes.max(config.snapshot_bytes_min);
        if due && !self.state.status.is_end() {
            let snapshot = self.state.encode();
            self.snapshot_bytes = snapshot.len();
            self.log_bytes = 0;
            side.snapshot = Some(snapshot);
        }
        let parked =
            matches!(side.control, Some(ControlChange::Parked { .. } | ControlChange::Held { .. }));
        let context = (parked && config.contexts).then(|| Box::new(self.context()));
        let digest = |context: &Context| Box::new(*blake3::hash(&context.state).as_bytes());
        side.digest = context.as_deref().map(digest);
        self.phase = LivePhase::Committing(PendingFrame {
            context,
            header,
            events: decision.events.into(),
            slots: round.slots.take(self.runs_in(&decision.effects)),
            effects: decision.effects,
            bytes: body.len() + side.snapshot.as_ref().map_or(0, Vec::len),
            answers,
            reported: std::mem::take(&mut self.reported),
            parked,
            born: side.births.iter().map(|birth| birth.header.execution).collect(),
            sent: !side.mail.is_empty() || side.topics.is_some(),
            announces: !side.messages.is_empty() || !side.births.is_empty(),
            consumes: !side.consumed.is_empty(),
            refused_mail: std::mem::take(&mut self.refused_mail),
            settled: side.settled,
        });
        Output::Store(StoreWork::Append(Append { header, body, side }))
    }

    /// What the decision brings about in other executions, as rows of the frame's commit.
    fn concern_others(&mut self, side: &mut Side, round: &Round<'_>, decision: &Decision) {
        for (number, birth) in decision.births.iter().enumerate() {
            let event = Event::from(RunEvent::Created(Box::new(birth.created.clone())));
            let body = encode(std::slice::from_ref(&event));
            let blobs = frame_blobs(std::slice::from_ref(&event), &body);
            let header = FrameHeader {
                execution: birth.execution,
                first_seq: 1,
                last_seq: 1,
                append_id: birth_id(round.append_id, number),
                parent: None,
                instance: round.env.instance,
                epoch: 0,
                decided_at: round.env.now,
                requires: event.requires().max(birth.requires),
            };
            let mut append = Append::birth(header, body, birth.created.key.clone(), blobs);
            append.side.messages.push(announce_birth(&birth.created));
            side.births.push(append);
        }
        let reopened = decision.reopened.iter();
        side.births.extend(reopened.filter_map(|child| self.reopenings.remove(child)));
        for SentMessage { to, message, body } in &decision.sent {
            let (message, body) = (Arc::clone(message), MailBody::from(body.clone()));
            let blobs = body.blobs();
            side.mail.push(Mail { execution: *to, message, actor: None, body, blobs });
        }
    }

    /// What changes about signals by key.
    fn topics(&mut self, published: Vec<PublishedSignal>, consumed: &[MessageId]) -> Topics {
        if !self.has_keys {
            return Topics { published, ..Topics::default() };
        }
        let now = self.state.subscriptions(&self.plan);
        let before = std::mem::replace(&mut self.subscriptions, now);
        let now = &self.subscriptions;
        let blind = is_planted(Bug::WaitsUnsubscribed) && !consumed.is_empty();
        let opened = now.iter().filter(|(wait, _)| !before.contains_key(wait) && !blind);
        let opened =
            opened.map(|(wait, name)| Subscription { wait: *wait, name: Arc::clone(name) });
        let closed = before.keys().filter(|wait| !now.contains_key(wait)).copied();
        let stay = now.iter().filter(|(wait, _)| !consumed.is_empty() && before.contains_key(wait));
        Topics {
            opened: opened.collect(),
            closed: closed.collect(),
            open: stay.map(|(_, name)| Arc::clone(name)).collect(),
            published,
        }
    }

    /// The control row changes at transitions only; to what, follows from the state after the
    /// frame.
    pub(super) fn control_change(&self, events: &[Event]) -> Option<ControlChange> {
        let transition = |event: &Event| match event {
            Event::Run(
                RunEvent::Paused { .. }
                | RunEvent::Queued { .. }
                | RunEvent::Admitted {}
                | RunEvent::Quarantined { .. }
                | RunEvent::Reopened { .. },
            ) => true,
            // A failover may have lost the claim: then the row names no owner, and if this instance dies,
            // no other one claims the execution.
            Event::Run(RunEvent::Owned { .. }) => true,
            // A request from the inbox ended the pause: the row is still held.
            Event::Run(RunEvent::Resumed { origin, .. }) => origin.message.is_some(),
            _ => event.is_end(),
        };
        events.iter().any(transition).then(|| self.control(ControlChange::Owned))
    }

    fn control(&self, otherwise: ControlChange) -> ControlChange {
        let next_due = self.state.next_due().filter(|_| !is_planted(Bug::TimerOutsideCommit));
        match self.state.status {
            status if status.is_end() => ControlChange::Ended,
            Status::Waiting => ControlChange::Parked { next_due },
            Status::Ending if self.state.owner.is_none() => ControlChange::Parked { next_due },
            _ => match self.state.held_for().filter(|_| self.state.owner.is_none()) {
                Some(reason) => ControlChange::Held { reason, next_due },
                None => otherwise,
            },
        }
    }

    /// Its permit request, while it is queued for its concurrency key.
    pub(super) fn permit_request(&self) -> Option<PermitRequest> {
        let in_queue = self.state.status == Status::Scheduling && self.state.owner.is_none();
        self.state.permit_request().filter(|_| in_queue)
    }

    /// Takes the frame in flight, whose commit was answered.
    pub(in crate::driver) fn take_pending(&mut self) -> Option<PendingFrame> {
        match std::mem::replace(&mut self.phase, LivePhase::Idle) {
            LivePhase::Committing(frame) => Some(frame),
            other => {
                self.phase = other;
                None
            }
        }
    }

    /// Answers when what it knows is durable: with the frame in flight, or at once. If that frame is
    /// refused, so are all its callers, and ask again.
    pub(in crate::driver) fn answer(
        &mut self,
        ticket: Ticket,
        answer: Answer,
        outputs: &mut Vec<Output>,
    ) {
        match &mut self.phase {
            LivePhase::Committing(frame) => frame.answers.push((ticket, answer)),
            LivePhase::Early | LivePhase::Idle | LivePhase::Ready | LivePhase::Doubting => {
                outputs.push(Output::Answer(ticket, answer));
            }
        }
    }

    /// The frame is durable: answers go out, effects become orders.
    pub(in crate::driver) fn committed(
        &mut self,
        at: Timestamp,
        frame: PendingFrame,
        outputs: &mut Vec<Output>,
    ) -> Consequences {
        self.parent = Some(frame.header.as_parent());
        self.stored_at = at;
        self.recovery = self.recovery.committed();
        match frame.settled {
            Some(Settled::Progress) => self.suspicion = Suspicion::default(),
            Some(Settled::Decided) => self.suspicion.doubt = false,
            None => {}
        }
        let started = |event: &Event| match event {
            Event::Node(NodeEvent::Started { node, remote: Some(_), .. }) => {
                self.state.find(&self.plan, node)
            }
            _ => None,
        };
        let started_remote = frame.events.iter().filter_map(started).collect();
        outputs.push(Output::Committed(Committed {
            execution: self.state.execution,
            key: self.state.created.key.clone(),
            first_seq: frame.header.first_seq,
            at,
            events: frame.events,
            announces: frame.announces,
        }));
        outputs.extend(frame.answers.into_iter().map(|(t, answer)| Output::Answer(t, answer)));
        outputs.extend(frame.context.map(Output::Keep));
        let next = self.follow(frame.effects, frame.slots, frame.header.decided_at);
        let leaves = if frame.parked { Some(Leave::Parked) } else { next.leaves };
        Consequences { started_remote, leaves, born: frame.born, sent: frame.sent, ..next }
    }
}
