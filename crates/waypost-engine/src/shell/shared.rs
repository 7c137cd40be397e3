//! What the callers and the threads of one engine share: queues, clocks, signs of life.
//!
//! Nothing here may keep a store or a mirror alive: listeners of notifications hold it for as long
//! as they like.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use waypost_core::id::InstanceId;
use waypost_core::time::Millis;
use waypost_ports::clock::Clock;

use super::{
    BatchQueue, Ending, InputQueues, Lanes, Lease, Questions, StoreTime, TasksOrder, Vitals,
};
use crate::config::Config;
use crate::driver::Queue;
use crate::metrics::EngineMetrics;

pub(crate) struct Shared {
    pub(crate) instance: InstanceId,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) time: Mutex<StoreTime>,
    pub(crate) lease: Lease,
    pub(crate) vitals: Vitals,
    pub(crate) metrics: Arc<EngineMetrics>,
    pub(crate) inputs: InputQueues,
    pub(crate) ending: Ending,
    /// The attempts that wait in each driver, as last looked at for the metrics.
    pub(crate) queued: Mutex<Vec<Queue>>,
    pub(crate) lanes: Lanes,
    /// Appends handed over to the store thread and not answered yet.
    pub(crate) outstanding: AtomicUsize,
    pub(crate) task_orders: BatchQueue<TasksOrder>,
    pub(crate) questions: Questions,
    /// Places for submissions, for requests and reports, and for polls of workers.
    pub(crate) admission: Arc<Semaphore>,
    pub(crate) requests: Arc<Semaphore>,
    pub(crate) polls: Arc<Semaphore>,
    /// When to stop although attempts still run, or the store does not answer.
    pub(crate) stop: Mutex<Option<Instant>>,
    /// Cancelled when the engine threads have ended.
    pub(crate) over: CancellationToken,
    /// Cancelled when the tasks thread has ended: polls get no answer then.
    pub(crate) tasks_thread_gone: CancellationToken,
}

impl Shared {
    pub(crate) fn new(instance: InstanceId, config: &Config, clock: Arc<dyn Clock>) -> Arc<Self> {
        let metrics = EngineMetrics::default();
        let drivers = config.driver_count();
        metrics.slots.set(config.slots.into());
        metrics.io_slots.set(config.io_slots.into());
        Arc::new(Self {
            instance,
            time: Mutex::new(StoreTime::new(config.drift_ppm)),
            lease: Lease::new(Millis(0), config.lease),
            vitals: Vitals::new(clock.steady(), drivers),
            clock,
            metrics: Arc::new(metrics),
            inputs: InputQueues::new(drivers),
            ending: Ending::new(drivers),
            queued: Mutex::default(),
            lanes: Lanes::new(config.append_lanes),
            outstanding: AtomicUsize::new(0),
            task_orders: BatchQueue::default(),
            questions: Questions::default(),
            admission: Arc::new(Semaphore::new(config.backlog_max)),
            requests: Arc::new(Semaphore::new(config.backlog_max)),
            polls: Arc::new(Semaphore::new(config.polls_max)),
            stop: Mutex::default(),
            over: CancellationToken::new(),
            tasks_thread_gone: CancellationToken::new(),
        })
    }
}
