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
    BatchQueue, EngineThread, Lanes, Lease, LocalWorker, Mirrored, Questions, RemoteTasks,
    StoreCalls, StoreThread, StoreTime, TasksOrder, TasksThread, Vitals,
};
use crate::tokens::TokenIssuer;

/// Shared by the threads.
struct Shared {
    instance: InstanceId,
    issuer: TokenIssuer,
    input_queue: Arc<BatchQueue<Input>>,
    lanes: Lanes,
    lease: Arc<Lease>,
    vitals: Arc<Vitals>,
    task_orders: Arc<BatchQueue<TasksOrder>>,
    tasks_thread_gone: CancellationToken,
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
        let store_calls = shared.store_calls(&parts);
        let attempts = Arc::clone(&store_calls.running);
        let sent = parts.clock.steady();
        let renewal = store_calls.heartbeat(parts.config.id_block_size, false)?;
        shared.time.lock().observe(sent, renewal.now, &*parts.clock);
        shared.lease.confirmed(sent);
        shared.input_queue.push(Input::Renewed { until: renewal.now.plus(parts.config.lease) });
        shared.input_queue.push(Input::Readable(renewal.fold));
        shared.input_queue.push(Input::Numbers(renewal.numbers));
        let (input_queue, task_orders) =
            (Arc::clone(&shared.input_queue), Arc::clone(&shared.task_orders));
        parts.nudges.listen(shared.instance, hear(input_queue, task_orders));
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        let config = &parts.config;
        let (admission, requests) = (semaphore(config.backlog_max), semaphore(config.backlog_max));
        let polls = semaphore(config.polls_max);
        if let Some(relay) = &parts.relay {
            let (input_queue, questions) =
                (Arc::clone(&shared.input_queue), Arc::clone(&shared.questions));
            relay.listen(shared.instance, hear_mail(input_queue, questions, Arc::clone(&requests)));
        }
        let relaying = parts.relay.clone().map(|relay| {
            let (mirror, metrics) = (Arc::clone(&parts.mirror), Arc::clone(&shared.metrics));
            Arc::new(Relaying::new(shared.instance, relay, mirror, metrics))
        });
        let tasks = Arc::clone(&parts.tasks);
        let (mirror, clock) = (Arc::clone(&parts.mirror), Arc::clone(&parts.clock));
        let tasks_thread = shared.tasks_thread(&parts, &cluster_key);
        let store_thread = shared.store_thread(&parts, store_calls);
        let engine_thread = shared.engine_thread(parts, attempts);
        let threads = Mutex::new(vec![
            spawn("waypost-engine", move || engine_thread.run())?,
            spawn("waypost-store", move || store_thread.run())?,
            spawn("waypost-tasks", move || tasks_thread.run())?,
        ]);
        let Shared {
            instance,
            input_queue,
            task_orders,
            tasks_thread_gone,
            questions,
            stop,
            over,
            ..
        } = shared;
        let Shared { metrics, lease, vitals, .. } = shared;
        Ok(Self {
            instance,
            input_queue,
            questions,
            admission,
            requests,
            polls,
            relaying,
            tasks,
            task_orders,
            tasks_thread_gone,
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
            issuer: TokenIssuer::new(cluster_key),
            input_queue: Arc::new(BatchQueue::new()),
            lanes: Lanes::new(parts.config.append_lanes),
            lease: Arc::new(Lease::new(Millis(0), parts.config.lease)),
            vitals: Arc::new(Vitals::new(parts.clock.steady())),
            task_orders: Arc::new(BatchQueue::new()),
            tasks_thread_gone: CancellationToken::new(),
            time: Arc::new(Mutex::new(StoreTime::new(parts.config.drift_ppm))),
            outstanding: Arc::new(AtomicUsize::new(0)),
            questions: Arc::new(Questions::default()),
            stop: Arc::new(Mutex::new(None)),
            over: CancellationToken::new(),
            metrics: Arc::new(metrics),
        }
    }

    fn store_calls(&self, parts: &Parts) -> StoreCalls {
        StoreCalls {
            store: Arc::clone(&parts.store),
            plans: Arc::clone(&parts.plans),
            config: parts.config.clone(),
            instance: self.instance,
            about: parts.about.clone(),
            running: Arc::default(),
            issuer: self.issuer.clone(),
            nudges: Arc::clone(&parts.nudges),
        }
    }

    fn tasks_thread(&self, parts: &Parts, cluster_key: &[u8; 32]) -> TasksThread {
        TasksThread {
            remote_tasks: RemoteTasks {
                tasks: Arc::clone(&parts.tasks),
                nudges: Arc::clone(&parts.nudges),
                issuer: self.issuer.clone(),
                seal: Seal::new(cluster_key),
                instance: self.instance,
            },
            work: Arc::clone(&self.task_orders),
            engine: Arc::clone(&self.input_queue),
            store: Arc::clone(&self.lanes.errands),
            metrics: Arc::clone(&self.metrics),
            _gone: self.tasks_thread_gone.clone().drop_guard(),
        }
    }

    fn store_thread(&self, parts: &Parts, store_calls: StoreCalls) -> StoreThread {
        StoreThread {
            store_calls,
            clock: Arc::clone(&parts.clock),
            time: Arc::clone(&self.time),
            lease: Arc::clone(&self.lease),
            vitals: Arc::clone(&self.vitals),
            mirror: Arc::clone(&parts.mirror),
            lanes: self.lanes.clone(),
            outstanding: Arc::clone(&self.outstanding),
            engine: Arc::clone(&self.input_queue),
            metrics: Arc::clone(&self.metrics),
            stop: Arc::clone(&self.stop),
        }
    }

    fn engine_thread(&self, parts: Parts, attempts: Arc<AtomicU32>) -> EngineThread {
        let Parts { store, handlers, secrets, mirror, clock, observer, config, .. } = parts;
        let inline = config.append_lanes == 0;
        let (issuer, seed) = (self.issuer.clone(), Uuid::new_v4().as_u128());
        EngineThread {
            driver: Driver::new(config, self.instance, seed, issuer),
            clock,
            time: Arc::clone(&self.time),
            store,
            input_queue: Arc::clone(&self.input_queue),
            lanes: self.lanes.clone(),
            lease: Arc::clone(&self.lease),
            vitals: Arc::clone(&self.vitals),
            mirror,
            mirrored: Mirrored::default(),
            inline,
            task_orders: Arc::clone(&self.task_orders),
            outstanding: Arc::clone(&self.outstanding),
            questions: Arc::clone(&self.questions),
            worker: LocalWorker {
                handlers,
                secrets,
                runtime: tokio::runtime::Handle::current(),
                tasks: tokio_util::task::TaskTracker::new(),
                engine: Arc::clone(&self.input_queue),
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
fn hear(input_queue: Arc<BatchQueue<Input>>, task_orders: Arc<BatchQueue<TasksOrder>>) -> Hear {
    Arc::new(move |nudge| match nudge {
        Nudge::Mail(_) => input_queue.push(Input::MailWaits),
        Nudge::Claimable => input_queue.push(Input::Nudge),
        Nudge::Offered(_) => task_orders.push(TasksOrder::Offered),
        Nudge::Cancelled(_) => task_orders.push(TasksOrder::Cancelled),
    })
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StoreError> {
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(body);
    thread.map_err(|error| StoreError::Unavailable(format!("no thread: {error}")))
}
