//! Webhooks: endpoints in the outside world, and the dispatchers of processes that send them the messages of
//! the outbox.
//!
//! ```text
//!   commit ─▶ rows ─▶ Turn: record results, claim ─▶ Send: the endpoint receives it ─▶ Answered ─▶ next Turn
//! ```
//!
//! A process may die or stand still at each arrow; then the claim ends, and another one sends the message
//! again. The bookkeeping of a dispatcher is the product's (`DispatchBook`), and so are the rules about when a
//! message is sent. `checks` has what must be true of all this.

mod announced;
mod checks;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use uuid::Uuid;
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_core::outbox::delivery::{Delivered, Jitter};
use waypost_core::outbox::{MessageKind, MessageKinds};
use waypost_core::time::{Millis, Timestamp};
use waypost_engine::dispatcher::DispatchBook;
use waypost_ports::memory::Tables;
use waypost_ports::outbox::{
    ClaimedMessages, EndpointChange, EndpointState, MessageClaim, MessageName, MessageResult,
    MessageState, NewEndpoint, OutboxMessage, SigningSecret, is_trigger_endpoint,
};

use super::{Simulation, WorldEvent};
use crate::clock::START;
use crate::fault::Fault;
use crate::process::{Life, Process};
use crate::program::NAME;
use crate::random::Random;
use announced::Announced;

/// How often a dispatcher of the world without faults looks.
const TURN_MS: u64 = 1_000;
/// How much longer a world goes on for the sake of messages, at most: no wait between two attempts is longer that
/// a message without faults can have got to.
const OUTBOX_MS: u64 = 2 * 3_600_000;

/// The endpoints of a world, and what they have received.
pub(super) struct Webhooks {
    random: Random,
    endpoints: Vec<NewEndpoint>,
    /// How long claims last.
    lease: Millis,
    books: BTreeMap<Life, DispatchBook>,
    claims: u128,
    /// When a result was last recorded: the execution that waits for it has not read it yet.
    recorded_ms: u64,
    /// Until when endpoints are down.
    down: BTreeMap<Arc<str>, u64>,
    received: BTreeSet<MessageName>,
    /// Messages that were answered with 410.
    gone: BTreeSet<MessageName>,
    /// What users have seen of each execution.
    announced: BTreeMap<ExecutionNo, Announced>,
    /// The awaited messages whose result came, by execution and seq.
    resolved: BTreeSet<(ExecutionNo, u64)>,
}

/// What happens around webhooks.
pub enum WebhookEvent {
    /// A dispatcher looks for messages.
    Turn,
    /// It sends one.
    Send(Box<SentWebhook>),
    /// The attempt has ended.
    Answered { life: Life, claim: Uuid, result: Box<MessageResult> },
}

/// A claimed message on its way.
pub struct SentWebhook {
    life: Life,
    claim: Uuid,
    message: OutboxMessage,
    /// Of which store it was claimed.
    failovers: u32,
}

impl Webhooks {
    /// Most worlds have no endpoints. From a stream of its own, so that the rest does not change.
    pub(super) fn new(seed: &Random) -> Self {
        let mut random = seed.split("webhooks");
        let has_messages = seed.split("worlds of messages").percent(20);
        let mut endpoints = Vec::new();
        if random.percent(if has_messages { 90 } else { 20 }) {
            endpoints.push(endpoint("all", None, MessageKinds::ALL));
            if random.percent(60) {
                let some = u32::try_from(random.below(1 << MessageKind::ALL.len())).unwrap_or(0);
                let notified = MessageKinds::from(MessageKind::Notified);
                let kinds = MessageKinds::from_bits(some).with(notified);
                endpoints.push(endpoint("some", Some(NAME), kinds));
            }
        }
        Self {
            lease: Millis(random.between(500, 20_000)),
            random,
            endpoints,
            books: BTreeMap::new(),
            claims: 0,
            recorded_ms: 0,
            down: BTreeMap::new(),
            received: BTreeSet::new(),
            gone: BTreeSet::new(),
            announced: BTreeMap::new(),
            resolved: BTreeSet::new(),
        }
    }
}

fn endpoint(id: &str, workflow: Option<&str>, kinds: MessageKinds) -> NewEndpoint {
    NewEndpoint {
        id: id.into(),
        url: format!("http://{id}.example").into(),
        description: "".into(),
        workflow: workflow.map(Into::into),
        kinds,
        with_output: false,
        with_links: false,
        secret: SigningSecret(vec![7; 32]),
    }
}

impl Simulation {
    pub(super) fn build_webhooks(&mut self) {
        for endpoint in self.webhooks.endpoints.clone() {
            let added = self.store.with(|tables, now| tables.add_endpoint(&endpoint, now));
            added.expect("their ids differ");
        }
        if !self.webhooks.endpoints.is_empty() || !self.triggers.is_empty() {
            self.after(100, WorldEvent::Webhooks(WebhookEvent::Turn));
        }
    }

    pub(super) fn webhook(&mut self, event: WebhookEvent) {
        match event {
            WebhookEvent::Turn => self.dispatch(),
            WebhookEvent::Send(sent) => self.send_webhook(sent),
            WebhookEvent::Answered { life, claim, result } => {
                self.webhook_answered(life, claim, result);
            }
        }
    }

    /// One of the dispatchers has its turn.
    fn dispatch(&mut self) {
        let next = match self.faults_over {
            true => TURN_MS,
            false => self.webhooks.random.between(20, 3_000),
        };
        self.after(next, WorldEvent::Webhooks(WebhookEvent::Turn));
        self.shake_endpoints();
        let awake = |process: &Process| process.open && process.suspended.is_none();
        let awake = self.processes.iter().filter(|(_, process)| awake(process));
        let lives: Vec<Life> = awake.map(|(life, _)| *life).collect();
        if lives.is_empty() {
            return;
        }
        let life = *self.webhooks.random.pick(&lives);
        let unrecorded = self.webhooks.books.entry(life).or_default().unrecorded();
        for (claim, results) in unrecorded {
            let settled = self
                .call_outbox(|tables, now| tables.settle_messages(claim, &results, now))
                .is_some();
            if !settled {
                return;
            }
            self.webhooks.books.entry(life).or_default().recorded(claim);
            self.webhooks.recorded_ms = self.ms();
        }
        let room = self.webhooks.books.entry(life).or_default().room();
        let limit = room.min(1 + self.webhooks.random.index(8));
        let Some(instance) = self.processes.get(&life).map(|process| process.instance) else {
            return;
        };
        let mut request = self.new_claim(instance, limit);
        request.for_triggers = self.triggers.fires_ends(life);
        let claimed = self.call_outbox(|tables, now| tables.claim_messages(&request, now));
        let Some(claimed) = claimed else { return };
        self.check_claim(&claimed);
        if let Some(process) = self.processes.get(&life) {
            process.store_calls.config.handoffs.set(claimed.handoffs);
        }
        for (message, endpoint) in claimed.messages {
            self.webhooks.books.entry(life).or_default().begun();
            if is_trigger_endpoint(&endpoint.endpoint.id) {
                self.fire_end(life, request.claim, message, endpoint);
                continue;
            }
            // Sometimes longer than the claim.
            let slow = !self.faults_over && self.webhooks.random.percent(5);
            let later = self.webhooks.random.below(if slow { 30_000 } else { 300 });
            let (claim, failovers) = (request.claim, self.failovers);
            let sent = SentWebhook { life, claim, message, failovers };
            self.after(later, WorldEvent::Webhooks(WebhookEvent::Send(Box::new(sent))));
        }
    }

    fn new_claim(&mut self, instance: InstanceId, limit: usize) -> MessageClaim {
        self.webhooks.claims += 1;
        let (claim, lease) = (Uuid::from_u128(self.webhooks.claims), self.webhooks.lease);
        MessageClaim { claim, instance, limit, lease, for_triggers: false }
    }

    /// A call of a dispatcher to the store, which may fail before and after it is done.
    fn call_outbox<T>(&mut self, statement: impl FnOnce(&mut Tables, Timestamp) -> T) -> Option<T> {
        let is_out = {
            let inner = self.store.inner();
            inner.outage || inner.full
        };
        if is_out || self.strikes_webhook(Fault::Fails) {
            return None;
        }
        let value = self.store.with(statement);
        (!self.strikes_webhook(Fault::LostReply)).then_some(value)
    }

    fn strikes_webhook(&mut self, fault: Fault) -> bool {
        self.store.inner().weather.strikes_apart(fault, &mut self.webhooks.random)
    }

    /// Endpoints go down; people pause them, and resume those that do not get messages.
    fn shake_endpoints(&mut self) {
        let has_endpoints = !self.webhooks.endpoints.is_empty();
        if has_endpoints && self.strikes_webhook(Fault::EndpointFails) {
            let random = &mut self.webhooks.random;
            let id = Arc::clone(&random.pick(&self.webhooks.endpoints).id);
            let until = self.truth.ms() + random.between(500, 25_000);
            self.webhooks.down.insert(id, until);
        }
        let states: Vec<(Arc<str>, EndpointState)> = self.store.with(|tables, _| {
            let rows = tables.endpoints().iter();
            let rows = rows.filter(|row| !is_trigger_endpoint(&row.endpoint.id));
            rows.map(|row| (Arc::clone(&row.endpoint.id), row.state)).collect()
        });
        for (id, state) in states {
            let random = &mut self.webhooks.random;
            let change = match state {
                EndpointState::Active if self.faults_over || !random.percent(1) => continue,
                EndpointState::Active => EndpointChange::Pause,
                _ if self.faults_over || random.percent(20) => EndpointChange::Resume,
                _ => continue,
            };
            self.note("endpoint", &[], || format!("{id}: {change:?}"));
            self.store.with(|tables, now| tables.change_endpoint(&id, &change, now));
        }
    }

    /// A dispatcher sends a message, if it still lives.
    fn send_webhook(&mut self, sent: Box<SentWebhook>) {
        let Some(process) = self.processes.get_mut(&sent.life) else { return };
        if let Some(later) = &mut process.suspended {
            return later.push(WorldEvent::Webhooks(WebhookEvent::Send(sent)));
        }
        let SentWebhook { life, claim, message, failovers } = *sent;
        let result = self.try_endpoint(&message, failovers == self.failovers);
        let jitter = Jitter(u32::try_from(self.webhooks.random.below(1 << 32)).unwrap_or(0));
        let result =
            Box::new(MessageResult { name: message.name, result, took: Millis(1), jitter });
        let later = self.webhooks.random.below(500);
        let answered = WebhookEvent::Answered { life, claim, result };
        self.after(later, WorldEvent::Webhooks(answered));
    }

    fn try_endpoint(&mut self, message: &OutboxMessage, same_store: bool) -> Delivered {
        let down = self.webhooks.down.get(&message.name.endpoint).copied().unwrap_or(0);
        let is_down = !self.faults_over && self.ms() < down;
        if is_down || self.strikes_webhook(Fault::EndpointFails) {
            let random = &mut self.webhooks.random;
            let retry_after = random.percent(10).then(|| Millis(random.below(60_000)));
            let reason = "the endpoint cannot take it".to_owned();
            return Delivered::No { status: Some(503), retry_after, reason };
        }
        if self.strikes_webhook(Fault::EndpointGone) && self.webhooks.random.percent(20) {
            self.webhooks.gone.insert(message.name.clone());
            return Delivered::Gone;
        }
        self.receive(message, same_store);
        if self.strikes_webhook(Fault::DeliveryUnanswered) {
            let reason = "the answer was lost".to_owned();
            return Delivered::No { status: None, retry_after: None, reason };
        }
        Delivered::Yes { status: 204 }
    }

    /// The dispatcher knows the result, if it still lives, and records it in its next turn.
    fn webhook_answered(&mut self, life: Life, claim: Uuid, result: Box<MessageResult>) {
        let Some(process) = self.processes.get_mut(&life) else { return };
        if let Some(later) = &mut process.suspended {
            let answered = WebhookEvent::Answered { life, claim, result };
            return later.push(WorldEvent::Webhooks(answered));
        }
        self.webhooks.books.entry(life).or_default().ended(Some((claim, *result)));
    }

    /// The end of an execution was fired, or could not be.
    pub(super) fn end_fired(&mut self, life: Life, result: Option<(Uuid, MessageResult)>) {
        self.webhooks.books.entry(life).or_default().ended(result);
    }

    /// When the last message is due that an execution which has not ended may wait for, or the last result was
    /// recorded.
    pub(super) fn outbox_due_ms(&self) -> u64 {
        let open: BTreeSet<ExecutionNo> = self.open_executions().into_iter().collect();
        let due = self.store.with(|tables, _| {
            let pending = tables.outbox_rows().filter(|row| {
                row.state == MessageState::Pending && open.contains(&row.message.name.execution)
            });
            let probes = tables.endpoints().iter().filter_map(|row| row.health.probe_at);
            let due = pending.map(|row| row.due).max();
            due.map(|due| probes.fold(due, Ord::max))
        });
        let due_ms = due.map_or(0, |due| due.since(START).0);
        due_ms.min(self.auditor.last_commit_ms + OUTBOX_MS).max(self.webhooks.recorded_ms)
    }

    /// In the end: a dispatcher without faults delivers what is left.
    pub(super) fn drain_outbox(&mut self) {
        let until = self.ms() + OUTBOX_MS;
        self.shake_endpoints();
        loop {
            let request = self.new_claim(InstanceId(Uuid::nil()), 8);
            let claimed = self.store.with(|tables, now| tables.claim_messages(&request, now));
            self.check_claim(&claimed);
            let ClaimedMessages { messages, next_due, .. } = claimed;
            if messages.is_empty() {
                let Some(due) = next_due else { break };
                let ms = due.since(START).0.max(self.ms() + TURN_MS);
                if ms > until {
                    break;
                }
                self.truth.advance_to(ms);
            }
            let results: Vec<MessageResult> = messages
                .into_iter()
                .map(|(message, _)| {
                    self.receive(&message, true);
                    let (took, jitter) = (Millis(1), Jitter::NONE);
                    let result = Delivered::Yes { status: 204 };
                    MessageResult { name: message.name, result, took, jitter }
                })
                .collect();
            self.store.with(|tables, now| tables.settle_messages(request.claim, &results, now));
        }
        self.check_outbox();
    }
}
