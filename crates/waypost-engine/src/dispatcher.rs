//! The dispatcher: sends the messages of the outbox to webhook endpoints. It only transports: what is due and
//! what follows an attempt is decided in `waypost_core::outbox::delivery`, on the rows of the store.
//!
//! ```text
//!   commit ─▶ DispatcherWakeups ─┐
//!   time of the next message ────┼─▶ claim ─▶ one Tokio task for each message ─▶ results ─▶ settle
//!   every POLL ──────────────────┘
//! ```
//!
//! Every instance runs one. A message whose dispatcher died is claimed by another one when the lease of its
//! instance has expired, or the claim ends, and sent again under the same id.

mod body;
mod book;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_core::json::Json;
use waypost_core::outbox::delivery::{Delivered, Jitter};
use waypost_core::time::{Millis, Timestamp};
use waypost_ports::outbox::{
    ClaimedMessages, EndpointRow, MessageClaim, MessageResult, Outbox, OutboxMessage, PENDING_MAX,
    SigningSecret, TRIM_MAX, is_trigger_endpoint,
};
use waypost_ports::store::{Store, StoreError};
use waypost_ports::webhook::{WebhookRequest, WebhookSender};

pub use book::{DispatchBook, IN_FLIGHT_MAX};
use book::{POLL, STORE_PAUSE};

use crate::driver::Committed;
use crate::engine::AnnounceMail;
use crate::links::Links;
use crate::metrics::EngineMetrics;
use crate::triggers::EndedTriggers;

/// The shortest time between two claims.
const PAUSE: Duration = Duration::from_millis(20);
/// How often old messages are deleted.
const TRIM_EVERY: Duration = Duration::from_secs(600);
/// How long a stop waits for the results of what is being sent.
const STOP_MAX: Duration = Duration::from_secs(5);

/// Wakes the dispatcher of this instance after commits.
#[derive(Clone, Debug, Default)]
pub struct DispatcherWakeups(Arc<WakeupState>);

#[derive(Debug, Default)]
struct WakeupState {
    notify: Notify,
    /// Without endpoints no commit wakes it.
    has_endpoints: AtomicBool,
    handoffs: HandoffsWanted,
}

/// Whether an endpoint asks for messages about attempts that remote workers took. The drivers write such
/// messages only then, because a frame with messages costs more than one without. The dispatcher looks with
/// every claim, so drivers learn of a new endpoint after [`POLL`] at the latest.
#[derive(Clone, Debug, Default)]
pub struct HandoffsWanted(Arc<AtomicBool>);

impl HandoffsWanted {
    /// Are they wanted, as far as is known here?
    pub fn are_wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// What the store says.
    pub fn set(&self, wanted: bool) {
        self.0.store(wanted, Ordering::Relaxed);
    }
}

impl DispatcherWakeups {
    /// To be called after every commit.
    pub fn committed(&self, committed: &Committed) {
        if committed.announces && self.0.has_endpoints.load(Ordering::Relaxed) {
            self.0.notify.notify_one();
        }
    }

    /// For the configuration of the engine beside it.
    pub fn handoffs(&self) -> HandoffsWanted {
        self.0.handoffs.clone()
    }

    /// Looks for messages now: an endpoint was added or resumed, or messages are replayed.
    pub fn wake(&self) {
        self.0.notify.notify_one();
    }

    /// Waits until it is time to look for messages. Cancel-safe.
    pub async fn woken(&self) {
        self.0.notify.notified().await;
    }
}

/// The dispatcher of one instance.
pub struct Dispatcher {
    /// When its lease expires, others send what this dispatcher has claimed.
    pub instance: InstanceId,
    pub outbox: Arc<dyn Outbox>,
    /// For outputs, which are in the log alone.
    pub store: Arc<dyn Store>,
    pub sender: Arc<dyn WebhookSender>,
    pub wakeups: DispatcherWakeups,
    pub metrics: Arc<EngineMetrics>,
    /// For the links of approvals, and what they begin with.
    pub links: Links,
    pub public_url: Option<Arc<str>>,
    /// For the executions that got the result of a message that they wait for.
    pub announce_mail: AnnounceMail,
    /// Fires the triggers of ends; absent where this instance fires none, and leaves them to others.
    pub ends: Option<EndedTriggers>,
    /// How long a claim lasts: longer than an attempt and the commit of its result.
    pub claim: Millis,
}

/// What is under way.
#[derive(Default)]
struct UnderWay {
    /// `None` where no attempt was made: its claim will end.
    sending: JoinSet<Option<(Uuid, MessageResult)>>,
    book: DispatchBook,
}

impl UnderWay {
    fn take(&mut self, ended: Result<Option<(Uuid, MessageResult)>, tokio::task::JoinError>) {
        let result = ended.unwrap_or_else(|error| {
            tracing::error!(%error, "an attempt to deliver a message panicked");
            None
        });
        self.book.ended(result);
    }

    /// Waits for the end of an attempt; takes all that have ended. Cancel-safe, as `join_next` is.
    async fn next(&mut self) {
        match self.sending.join_next().await {
            Some(ended) => self.take(ended),
            None => std::future::pending().await,
        }
        while let Some(ended) = self.sending.try_join_next() {
            self.take(ended);
        }
    }
}

impl Dispatcher {
    /// Runs until it is stopped.
    pub async fn run(self, stop: CancellationToken) {
        let mut under_way = UnderWay::default();
        let mut wake_at = Instant::now();
        let mut trim_at = Instant::now() + TRIM_EVERY;
        loop {
            tokio::select! { // all arms may be dropped and polled again
                () = stop.cancelled() => break,
                () = sleep_until(wake_at) => {}
                () = self.wakeups.woken() => {}
                () = under_way.next() => {}
            }
            let turn = Instant::now();
            wake_at = match self.turn(&mut under_way).await {
                Ok(wait) => turn + wait,
                Err(error) => {
                    tracing::warn!(%error, "the outbox cannot be used; trying again");
                    turn + STORE_PAUSE.to_std()
                }
            };
            if turn >= trim_at {
                trim_at = turn + TRIM_EVERY;
                self.trim().await;
            }
            // The floor between two claims, in which results gather.
            sleep_until(turn + PAUSE).await;
        }
        self.finish(under_way).await;
    }

    /// Records results and claims messages; returns how long to wait at most.
    async fn turn(&self, under_way: &mut UnderWay) -> Result<Duration, StoreError> {
        while let Some(ended) = under_way.sending.try_join_next() {
            under_way.take(ended);
        }
        self.settle(under_way).await?;
        let room = under_way.book.room();
        if room == 0 {
            return Ok(POLL.to_std());
        }
        let (claim, instance, lease) = (Uuid::new_v4(), self.instance, self.claim);
        let for_triggers = self.ends.is_some();
        let request = MessageClaim { claim, instance, limit: room, lease, for_triggers };
        let claimed = self.call(move |outbox| outbox.claim_messages(&request)).await?;
        self.wakeups.0.has_endpoints.store(claimed.endpoints, Ordering::Relaxed);
        self.wakeups.0.handoffs.set(claimed.handoffs);
        let pause = DispatchBook::pause_after(&claimed);
        let ClaimedMessages { messages, at, reported, .. } = claimed;
        self.announce(reported).await;
        for (message, endpoint) in messages {
            under_way.book.begun();
            under_way.sending.spawn(self.deliver(request.claim, message, endpoint, at));
        }
        Ok(pause.to_std())
    }

    /// Sends one message, with the output or the links that the endpoint wants.
    fn deliver(
        &self,
        claim: Uuid,
        message: OutboxMessage,
        endpoint: Arc<EndpointRow>,
        at: Timestamp,
    ) -> impl Future<Output = Option<(Uuid, MessageResult)>> + use<> {
        let (store, sender) = (Arc::clone(&self.store), Arc::clone(&self.sender));
        let metrics = Arc::clone(&self.metrics);
        let (links, public_url) = (self.links.clone(), self.public_url.clone());
        let claimed = Instant::now();
        let ends = self.ends.clone();
        async move {
            if is_trigger_endpoint(&endpoint.endpoint.id) {
                let started = Instant::now();
                let result = ends?.deliver(&message, &endpoint).await?;
                return Some((claim, settled(message, result, started)));
            }
            let mut more = String::new();
            if endpoint.endpoint.with_output && message.kind.is_end() {
                let read = message.clone();
                match blocking(move || body::output(&*store, &read)).await {
                    Ok(output) => body::add_output(&mut more, &output),
                    Err(error) => {
                        tracing::warn!(%error, id = %message.name, "no output to send");
                        return None;
                    }
                }
            }
            if endpoint.endpoint.with_links && message.kind.is_approval() {
                body::add_links(&mut more, &message, &links, public_url.as_deref());
            }
            let body = body::of(&message, &more);
            let started = Instant::now();
            let passed = u64::try_from((started - claimed).as_millis()).unwrap_or(u64::MAX);
            let at = at.plus(Millis(passed));
            let id = message.name.to_string();
            let request = WebhookRequest {
                url: Arc::clone(&endpoint.endpoint.url),
                id,
                at,
                body,
                secrets: secrets(&endpoint, at),
            };
            let result = sender.send(request).await;
            metrics.deliveries_total.add(result_name(&result), 1);
            Some((claim, settled(message, result, started)))
        }
    }

    /// Records all results; those that could not be recorded stay.
    async fn settle(&self, under_way: &mut UnderWay) -> Result<(), StoreError> {
        for (claim, results) in under_way.book.unrecorded() {
            let settle = move |outbox: &dyn Outbox| outbox.settle_messages(claim, &results);
            let reported = self.call(settle).await?;
            under_way.book.recorded(claim);
            self.announce(reported).await;
        }
        Ok(())
    }

    /// Announces mail to the owners of these executions. Best effort: without it, the mail is read with the
    /// next poll.
    async fn announce(&self, executions: Vec<ExecutionNo>) {
        if executions.is_empty() {
            return;
        }
        let (store, count) = (Arc::clone(&self.store), executions.len());
        match blocking(move || store.owners(&executions)).await {
            Ok(owners) => {
                let unowned = (owners.len() < count).then_some(None);
                let owners = owners.into_iter().map(|(_, owner)| Some(owner));
                (self.announce_mail)(&owners.chain(unowned).collect());
            }
            Err(error) => tracing::debug!(%error, "the owners of receivers cannot be read"),
        }
    }

    async fn trim(&self) {
        loop {
            match self.call(|outbox| outbox.trim_outbox(PENDING_MAX)).await {
                Ok(changed) if changed >= TRIM_MAX as u64 => {}
                Ok(_) => return,
                Err(error) => {
                    tracing::warn!(%error, "old messages could not be deleted; trying again later");
                    return;
                }
            }
        }
    }

    /// Waits a little for what is being sent, and records it. The rest is sent again after its claim.
    async fn finish(&self, mut under_way: UnderWay) {
        let until = Instant::now() + STOP_MAX;
        while !under_way.sending.is_empty() {
            if timeout_at(until, under_way.next()).await.is_err() {
                break;
            }
        }
        if let Err(error) = self.settle(&mut under_way).await {
            tracing::warn!(%error, "results of deliveries could not be recorded; they are repeated");
        }
    }

    async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&dyn Outbox) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let outbox = Arc::clone(&self.outbox);
        blocking(move || call(&*outbox)).await
    }
}

/// The result of an attempt that began at an instant.
fn settled(message: OutboxMessage, result: Delivered, started: Instant) -> MessageResult {
    let took = Millis(u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX));
    let [a, b, c, d, ..] = *Uuid::new_v4().as_bytes();
    let jitter = Jitter(u32::from_be_bytes([a, b, c, d]));
    MessageResult { name: message.name, result, took, jitter }
}

/// The output of the execution that a message is about, as a message has it; null if it is too large.
pub(crate) fn output_of(store: &dyn Store, message: &OutboxMessage) -> Result<Json, StoreError> {
    let output = body::output(store, message)?;
    Ok(if output.bytes() <= body::OUTPUT_BYTES_MAX { output } else { Json::null() })
}

/// Runs a call that blocks.
async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(call).await;
    done.unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string())))
}

/// The secrets that sign at a time.
fn secrets(row: &EndpointRow, at: Timestamp) -> Vec<SigningSecret> {
    let former = row.former.iter().filter(|(_, until)| at < *until).map(|(secret, _)| secret);
    std::iter::once(&row.endpoint.secret).chain(former).cloned().collect()
}

/// The name of a result in metrics.
fn result_name(result: &Delivered) -> &'static str {
    match result {
        Delivered::Yes { .. } => DELIVERY_RESULTS[0],
        Delivered::No { .. } => DELIVERY_RESULTS[1],
        Delivered::Gone => DELIVERY_RESULTS[2],
    }
}

/// The results of attempts in metrics.
pub(crate) const DELIVERY_RESULTS: [&str; 3] = ["delivered", "failed", "gone"];

/// A message that says nothing, to test an endpoint.
pub fn test_request(row: &EndpointRow, at: Timestamp) -> WebhookRequest {
    let id = &row.endpoint.id;
    WebhookRequest {
        url: Arc::clone(&row.endpoint.url),
        id: format!("msg_{id}_test_{}", Uuid::new_v4().simple()),
        at,
        body: body::test(id, at),
        secrets: secrets(row, at),
    }
}

#[cfg(test)]
mod tests;
