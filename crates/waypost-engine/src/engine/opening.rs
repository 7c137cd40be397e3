//! How an engine is assembled: the state that its threads share, and the threads.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize};
use std::thread::JoinHandle;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use waypost_core::id::InstanceId;
use waypost_core::time::{Millis, Timestamp};
use waypost_ports::nudge::{Hear, Nudge};
use waypost_ports::store::StoreError;

use super::relaying::{Relaying, hear_mail};
use super::{Engine, EngineError, Parts};
use crate::driver::{Driver, Input};
use crate::metrics::EngineMetrics;
use crate::sealed::Seal;
use crate::shell::{
    Clerk, Desk, EngineThread, Inbox, Lanes, Lease, Mirrored, Questions, StoreThread, StoreTime,
    TasksOrder, TasksThread, Vitals, Worker,
};
use crate::tokens::Mint;

/// Shared by the threads.
struct Shared {
    instance: InstanceId,
    mint: Mint,
    inbox: Arc<Inbox<Input>>,
    lanes: Lanes,
    lease: Arc<Lease>,
    vitals: Arc<Vitals>,
    desk: Arc<Inbox<TasksOrder>>,
    desk_gone: CancellationToken,
    time: Arc<Mutex<StoreTime>>,
    outstanding: Arc<AtomicUsize>,
    questions: Arc<Questions>,
    stop: Arc<Mutex<Option<Instant>>>,
    over: CancellationToken,
    metrics: Arc<EngineMetrics>,
}

impl Engine {
    /// Starts the threads and begins to claim. Must be called inside a Tokio runtime, which runs
    /// the handlers.
    pub fn open(parts: Parts) -> Result<Self, EngineError> {
        let cluster_key = parts.tasks.cluster_key()?;
        let shared = Shared::new(&parts, &cluster_key);
        let clerk = shared.clerk(&parts);
        let attempts = Arc::clone(&clerk.running);
        let sent = parts.clock.steady();
        let renewal = clerk.heartbeat(parts.config.id_block_size, false)?;
        shared.time.lock().observe(sent, renewal.now, &*parts.clock);
        shared.lease.confirmed(sent);
        shared.inbox.push(Input::Renewed { until: renewal.now.plus(parts.config.lease) });
        shared.inbox.push(Input::Readable(renewal.fold));
        shared.inbox.push(Input::Numbers(renewal.numbers));
        let (inbox, desk) = (Arc::clone(&shared.inbox), Arc::clone(&shared.desk));
        parts.nudges.listen(shared.instance, hear(inbox, desk));
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        let config = &parts.config;
        let (admission, requests) = (semaphore(config.backlog_max), semaphore(config.backlog_max));
        let polls = semaphore(config.polls_max);
        if let Some(relay) = &parts.relay {
            let (inbox, questions) = (Arc::clone(&shared.inbox), Arc::clone(&shared.questions));
            relay.listen(shared.instance, hear_mail(inbox, questions, Arc::clone(&requests)));
        }
        let relaying = parts.relay.clone().map(|relay| {
            let (mirror, metrics) = (Arc::clone(&parts.mirror), Arc::clone(&shared.metrics));
            Arc::new(Relaying::new(shared.instance, relay, mirror, metrics))
        });
        let tasks = Arc::clone(&parts.tasks);
        let (mirror, clock) = (Arc::clone(&parts.mirror), Arc::clone(&parts.clock));
        let tasks_thread = shared.tasks_thread(&parts, &cluster_key);
        let store_thread = shared.store_thread(&parts, clerk);
        let engine_thread = shared.engine_thread(parts, attempts);
        let threads = Mutex::new(vec![
            spawn("waypost-engine", move || engine_thread.run())?,
            spawn("waypost-store", move || store_thread.run())?,
            spawn("waypost-tasks", move || tasks_thread.run())?,
        ]);
        let Shared { instance, inbox, desk, desk_gone, questions, stop, over, .. } = shared;
        let Shared { metrics, lease, vitals, .. } = shared;
        Ok(Self {
            instance,
            inbox,
            questions,
            admission,
            requests,
            polls,
            relaying,
            tasks,
            desk,
            desk_gone,
            stop,
            over,
            metrics,
            mirror,
            lease,
            vitals,
            clock,
            threads: Arc::new(threads),
        })
    }
}

impl Shared {
    fn new(parts: &Parts, cluster_key: &[u8; 32]) -> Self {
        let metrics = EngineMetrics::default();
        metrics.slots.set(parts.config.slots.into());
        Self {
            instance: parts.instance,
            mint: Mint::new(cluster_key),
            inbox: Arc::new(Inbox::new()),
            lanes: Lanes::new(parts.config.append_lanes),
            lease: Arc::new(Lease::new(Millis(0), parts.config.lease)),
            vitals: Arc::new(Vitals::new(parts.clock.steady())),
            desk: Arc::new(Inbox::new()),
            desk_gone: CancellationToken::new(),
            time: Arc::new(Mutex::new(StoreTime::new(parts.config.drift_ppm))),
            outstanding: Arc::new(AtomicUsize::new(0)),
            questions: Arc::new(Questions::default()),
            stop: Arc::new(Mutex::new(None)),
            over: CancellationToken::new(),
            metrics: Arc::new(metrics),
        }
    }

    fn clerk(&self, parts: &Parts) -> Clerk {
        Clerk {
            store: Arc::clone(&parts.store),
            plans: Arc::clone(&parts.plans),
            config: parts.config.clone(),
            instance: self.instance,
            about: parts.about.clone(),
            running: Arc::default(),
            mint: self.mint.clone(),
            nudges: Arc::clone(&parts.nudges),
        }
    }

    fn tasks_thread(&self, parts: &Parts, cluster_key: &[u8; 32]) -> TasksThread {
        TasksThread {
            desk: Desk {
                tasks: Arc::clone(&parts.tasks),
                nudges: Arc::clone(&parts.nudges),
                mint: self.mint.clone(),
                seal: Seal::new(cluster_key),
                instance: self.instance,
            },
            work: Arc::clone(&self.desk),
            engine: Arc::clone(&self.inbox),
            store: Arc::clone(&self.lanes.errands),
            metrics: Arc::clone(&self.metrics),
            _gone: self.desk_gone.clone().drop_guard(),
        }
    }

    fn store_thread(&self, parts: &Parts, clerk: Clerk) -> StoreThread {
        StoreThread {
            clerk,
            clock: Arc::clone(&parts.clock),
            time: Arc::clone(&self.time),
            lease: Arc::clone(&self.lease),
            vitals: Arc::clone(&self.vitals),
            mirror: Arc::clone(&parts.mirror),
            lanes: self.lanes.clone(),
            outstanding: Arc::clone(&self.outstanding),
            engine: Arc::clone(&self.inbox),
            metrics: Arc::clone(&self.metrics),
            stop: Arc::clone(&self.stop),
        }
    }

    fn engine_thread(&self, parts: Parts, attempts: Arc<AtomicU32>) -> EngineThread {
        let Parts { store, handlers, secrets, mirror, clock, observer, config, .. } = parts;
        let inline = config.append_lanes == 0;
        let (mint, seed) = (self.mint.clone(), Uuid::new_v4().as_u128());
        EngineThread {
            driver: Driver::new(config, self.instance, seed, mint),
            clock,
            time: Arc::clone(&self.time),
            store,
            inbox: Arc::clone(&self.inbox),
            lanes: self.lanes.clone(),
            lease: Arc::clone(&self.lease),
            vitals: Arc::clone(&self.vitals),
            mirror,
            mirrored: Mirrored::default(),
            inline,
            desk: Arc::clone(&self.desk),
            outstanding: Arc::clone(&self.outstanding),
            questions: Arc::clone(&self.questions),
            worker: Worker {
                handlers,
                secrets,
                runtime: tokio::runtime::Handle::current(),
                tasks: tokio_util::task::TaskTracker::new(),
                engine: Arc::clone(&self.inbox),
            },
            observer,
            metrics: Arc::clone(&self.metrics),
            queue_looked_at: Timestamp(i64::MIN),
            shrunk_at: Timestamp(i64::MIN),
            running: HashMap::new(),
            attempts,
            stop: Arc::clone(&self.stop),
            hand_over_until: None,
            over: self.over.clone(),
        }
    }
}

/// The effects of nudges.
fn hear(inbox: Arc<Inbox<Input>>, desk: Arc<Inbox<TasksOrder>>) -> Hear {
    Arc::new(move |nudge| match nudge {
        Nudge::Mail(_) => inbox.push(Input::MailWaits),
        Nudge::Claimable => inbox.push(Input::Nudge),
        Nudge::Offered(_) => desk.push(TasksOrder::Offered),
        Nudge::Cancelled(_) => desk.push(TasksOrder::Cancelled),
    })
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StoreError> {
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(body);
    thread.map_err(|error| StoreError::Unavailable(format!("no thread: {error}")))
}
