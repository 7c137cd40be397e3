//! `waypost worker`: takes tasks of some handlers from a server or cluster over the public protocol,
//! runs them here and reports the results. It has no store; no state is lost with it.
//!
//! ```text
//!   poll ──▶ tasks ──▶ start (the log names this delivery) ──▶ handler ──▶ report ─┐
//!     ▲                                                                            │
//!     └───────────────── kept and repeated, to any server, until answered ◀────────┘
//! ```
//!
//! The answer to a poll also lists what to cancel, usually once: the server has deleted the entry by the
//! time it answers. A worker therefore reads every answer to its end. Without free capacity it keeps one
//! poll open that only listens, in a Tokio task of its own; when there is capacity again, that poll stays
//! open and a second one asks for tasks. Each poll lists the tasks in hand at the moment it was sent. The
//! server ignores lists that are older than what they are about, so a poll that is repeated at the next
//! server is built anew.
//!
//! | file | owns |
//! | --- | --- |
//! | `worker/servers` | which server to ask, and the next one if it does not answer |
//! | `worker/finished` | recent results, so that a task is not run again |
//! | `worker/in_hand` | running attempts, so that one is not run twice at once |
//! | `worker/delivery` | one task, from its start to the answer to its report |
//! | `worker/secrets` | the secrets of a task, opened with this worker's key |

mod blobs;
mod delivery;
mod finished;
mod in_hand;
mod secrets;
mod servers;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};
use uuid::Uuid;
use waypost_engine::Handlers;
use waypost_engine::sealed_secrets::WorkerKeys;
use waypost_ports::secret::Secrets;
use waypost_server::rate_limited_log::RateLimitedLog;
use waypost_server::wire;
use waypost_server::wire::payload::{Count, Short, TaskToken, WorkerPublicKey};
use waypost_server::wire::worker::TASKS_MAX;

use crate::client::{Ask, Client};
use delivery::TaskDelivery;
use finished::Finished;
use in_hand::InHand;
pub(crate) use servers::Servers;

/// How long one poll waits for a task. Well below the time after which a worker counts as dead.
const POLL_WAIT: Duration = Duration::from_secs(5);
/// How long one server may take to answer a poll before the next one is asked. With the poll before
/// it, that is still below the time after which a worker counts as dead: a server that hangs must
/// not cost the attempts that run here.
const POLL_PATIENCE: Duration = Duration::from_secs(8);
/// Tasks that one poll takes.
const POLL_MAX: u32 = 64;
/// How long a stopping worker repeats unanswered reports after the grace time of running attempts.
/// Long enough to restore a store or replace a server: work whose report is dropped here is done
/// again.
const REPORTS_PATIENCE: Duration = Duration::from_secs(600);
/// A server that is away is reported every 10 s, and polled every half second.
static POLL_ERRORS: RateLimitedLog = RateLimitedLog::every(10);

/// A worker's options.
pub(crate) struct WorkerOptions {
    pub(crate) name: String,
    pub(crate) capacity: u32,
    pub(crate) handlers: Handlers,
    pub(crate) secrets: Arc<dyn Secrets>,
    pub(crate) clients: Vec<Client>,
}

/// A worker: everything that its tasks share.
pub(crate) struct Worker {
    id: Uuid,
    /// The key to which secrets are sealed; new at every start. Without randomness there is none, and no
    /// tasks with secrets.
    keys: Option<WorkerKeys>,
    options: WorkerOptions,
    servers: Servers,
    running: Mutex<HashMap<String, CancellationToken>>,
    /// A task has ended, and there is room for another.
    room: Notify,
    attempts: InHand,
    finished: Mutex<Finished>,
    /// Attempts that have run and whose reports are unanswered.
    unanswered: AtomicUsize,
    tracker: TaskTracker,
    /// Nothing begins any more.
    leaving: AtomicBool,
}

/// A poll that only listens, and is out.
type Listening = JoinHandle<Result<()>>;

impl Worker {
    pub(crate) fn new(mut options: WorkerOptions) -> Arc<Self> {
        let servers = Servers::new(std::mem::take(&mut options.clients));
        Arc::new(Self {
            id: Uuid::now_v7(),
            keys: WorkerKeys::generate().ok(),
            options,
            servers,
            running: Mutex::default(),
            room: Notify::new(),
            attempts: InHand::default(),
            finished: Mutex::default(),
            unanswered: AtomicUsize::new(0),
            tracker: TaskTracker::new(),
            leaving: AtomicBool::new(false),
        })
    }

    pub(crate) fn id(&self) -> Uuid {
        self.id
    }

    /// Takes tasks until `stop`. Without free capacity it polls for cancellations only, which is a
    /// sign of life as well.
    pub(crate) async fn take(self: &Arc<Self>, stop: CancellationToken) {
        let mut listening = None;
        loop {
            let polled = match self.room().min(POLL_MAX) {
                0 => tokio::select! { // a poll that listens is in a task of its own, and goes on
                    () = stop.cancelled() => return,
                    () = self.room.notified() => continue,
                    polled = self.poll_for_cancellations(&mut listening) => polled,
                },
                // Dropped on `stop` only: tasks in a dropped response would be offered again late.
                // On `stop` the server notices that the poll's connection has closed and keeps the
                // tasks; a cancellation lost with it concerns an attempt that is stopped after the
                // grace time anyway.
                room => tokio::select! {
                    () = stop.cancelled() => return,
                    polled = self.poll(room) => polled.map(|polled| self.accept(polled)),
                },
            };
            if let Err(error) = polled {
                if let Some(others) = POLL_ERRORS.may_log() {
                    warn!(%error, others, "could not poll for tasks; trying again");
                }
                tokio::select! { // both are cancel-safe
                    () = stop.cancelled() => return,
                    () = self.servers.pause() => {}
                }
            }
        }
    }

    /// Waits for the poll for cancellations that is under way, or starts one. If this future is
    /// dropped, the poll continues and its response is applied: there is never more than one.
    async fn poll_for_cancellations(
        self: &Arc<Self>,
        listening: &mut Option<Listening>,
    ) -> Result<()> {
        let out = listening.get_or_insert_with(|| {
            let worker = Arc::clone(self);
            tokio::spawn(async move { worker.poll(0).await.map(|polled| worker.accept(polled)) })
        });
        let polled = out.await;
        *listening = None;
        polled?
    }

    /// Applies a poll's response.
    fn accept(self: &Arc<Self>, polled: wire::Polled) {
        self.stop(&polled.cancel);
        for reason in polled.withheld.iter().flatten() {
            warn!(reason, "the server withholds tasks from this worker");
        }
        polled.tasks.into_iter().for_each(|task| self.begin(task));
    }

    fn room(&self) -> u32 {
        let running = u32::try_from(self.room_taken()).unwrap_or(u32::MAX);
        self.options.capacity.saturating_sub(running)
    }

    fn room_taken(&self) -> usize {
        self.running.lock().len()
    }

    /// Takes no more tasks; sends signs of life and applies cancellations until the caller drops
    /// it.
    async fn listen(&self) {
        loop {
            match self.poll(0).await {
                Ok(polled) => self.stop(&polled.cancel),
                Err(error) => {
                    warn!(%error, "heartbeat failed: no server is reachable");
                    self.servers.pause().await;
                }
            }
        }
    }

    fn stop(&self, tokens: &[String]) {
        let running = self.running.lock();
        tokens.iter().filter_map(|token| running.get(token)).for_each(CancellationToken::cancel);
    }

    async fn poll(&self, max: u32) -> Result<wire::Polled> {
        let id = self.id.simple().to_string();
        let wait = format!("{}s", POLL_WAIT.as_secs());
        self.servers
            .ask(|client| {
                // Built anew for each server: it must list the tasks that came through another poll
                // meanwhile.
                let (id, sign, wait) = (id.clone(), self.sign(max), wait.clone());
                async move {
                    let ask = Ask::post(&["workers", &id, "poll"]).query("wait", Some(wait));
                    Ok(client.ask(ask.json(&sign)?.within(POLL_PATIENCE)).await?.body)
                }
            })
            .await
    }

    fn sign(&self, max: u32) -> wire::Poll {
        let handlers = self.options.handlers.keys();
        let (running, tasks) = (self.room_taken(), self.in_hand());
        wire::Poll {
            name: Short(self.options.name.clone()),
            handlers: handlers.map(|handler| Short(handler.to_string())).collect(),
            capacity: Count(self.options.capacity),
            running: Count::nearest(running),
            max: Count::nearest(usize::try_from(max).unwrap_or(usize::MAX)),
            tasks,
            public_key: self.keys.as_ref().map(|keys| WorkerPublicKey(keys.public())),
        }
    }

    /// The tasks in hand: each from before its start is sent until its report was answered. An
    /// incomplete list would lose the tasks that it omits, so none is sent then.
    fn in_hand(&self) -> Option<Vec<TaskToken>> {
        let running = self.running.lock();
        let tokens: Option<Vec<_>> = running.keys().map(|token| TaskToken::parse(token)).collect();
        tokens.filter(|tokens| u32::try_from(tokens.len()).is_ok_and(|count| count <= TASKS_MAX))
    }

    fn begin(self: &Arc<Self>, task: wire::Task) {
        let cancel = CancellationToken::new();
        self.running.lock().insert(task.token.clone(), cancel.clone());
        let place = RunningTask { worker: Arc::clone(self), token: task.token.clone() };
        self.tracker.spawn(async move {
            TaskDelivery { worker: &place.worker, task, cancel }.make().await;
        });
    }

    /// Waits until all attempts have ended and were reported; after the grace time, cancels them
    /// first. Then leaves. Until then it sends signs of life: otherwise its attempts would be given
    /// to other workers, and run twice.
    pub(crate) async fn drain(&self, grace: Duration) {
        self.tracker.close();
        tokio::select! { // a poll that is dropped loses nothing: there is nothing left to stop
            () = self.end_all(grace) => {}
            () = self.listen() => {}
        }
        let id = self.id.simple().to_string();
        let sign = self.sign(0);
        let left = self.servers.ask(|client| {
            let (id, sign) = (id.clone(), sign.clone());
            async move { client.tell(Ask::post(&["workers", &id, "leave"]).json(&sign)?).await }
        });
        if let Err(error) = left.await {
            warn!(%error, "could not report that this worker is stopping");
        }
    }

    /// The grace time is for handlers: a cancelled one ends soon, whether it reacts or is dropped.
    /// Reports have [`REPORTS_PATIENCE`].
    async fn end_all(&self, grace: Duration) {
        if tokio::time::timeout(grace, self.tracker.wait()).await.is_ok() {
            return;
        }
        let reports = self.unanswered.load(Ordering::Relaxed);
        self.leaving.store(true, Ordering::Relaxed);
        info!(tasks = self.room_taken(), reports, "stopping running attempts");
        self.running.lock().values().for_each(CancellationToken::cancel);
        drop(tokio::time::timeout(REPORTS_PATIENCE, self.tracker.wait()).await);
    }

    /// Warns about the losses if this process ends now, if there are any.
    pub(crate) fn warn_of_losses(&self) {
        let (held, reports) = (self.room_taken(), self.unanswered.load(Ordering::Relaxed));
        if held > 0 {
            let tasks = held.saturating_sub(reports);
            warn!(reports, tasks, "stopping with unanswered reports and running tasks");
        }
    }
}

/// The entry of a task among the running ones. It is removed however the task ends: a token that
/// stays listed would count as a running task.
struct RunningTask {
    worker: Arc<Worker>,
    token: String,
}

impl Drop for RunningTask {
    fn drop(&mut self) {
        self.worker.running.lock().remove(&self.token);
        self.worker.room.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use waypost_ports::secret::NoSecrets;

    use super::*;

    #[test]
    fn a_delivery_that_is_cut_off_gives_its_place_back() {
        let worker = Worker::new(WorkerOptions {
            name: "w".to_owned(),
            capacity: 1,
            handlers: Handlers::new(),
            secrets: Arc::new(NoSecrets),
            clients: Vec::new(),
        });
        let task = json!({
            "token": "0000000000000000000000000000000a",
            "execution": "e",
            "workflow": "w",
            "node": "n",
            "attempt": 1,
            "handler": "h",
            "input": {},
            "idempotencyKey": "e",
        });
        let task = serde_json::from_value(task).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            worker.begin(task);
            tokio::task::yield_now().await;
        });
        assert_eq!((worker.room(), worker.in_hand().map(|named| named.len())), (0, Some(1)));
        // As a panic does: the code after its next await is never reached.
        drop(runtime);
        assert_eq!((worker.room(), worker.in_hand().map(|named| named.len())), (1, Some(0)));
    }
}
