//! How an engine is assembled: its threads, and what notifies it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::thread::JoinHandle;
use std::time::Instant;

use parking_lot::Mutex;
use uuid::Uuid;
use waypost_core::time::Timestamp;
use waypost_ports::nudge::{Nudge, OnNudge};
use waypost_ports::store::StoreError;

use super::relaying::{Relaying, on_mail};
use super::{Engine, EngineError, Parts};
use crate::driver::{Driver, Input, driver_family};
use crate::links::CallbackLinks;
use crate::metrics::DriverGauges;
use crate::sealed::Seal;
use crate::shell::{
    BreakerGate, EngineThread, EngineThreadGuard, LocalWorker, Mirrored, Payloads, RemoteTasks,
    Shared, StoreCalls, StoreThread, Supplies, TasksOrder, TasksThread, Withheld, WorkerSecrets,
};
use crate::tokens::TokenIssuer;

impl Engine {
    /// Starts the threads and begins to claim. Must be called inside a Tokio runtime, which runs
    /// the handlers.
    pub fn open(parts: Parts) -> Result<Self, EngineError> {
        let cluster_key = parts.tasks.cluster_key()?;
        let issuer = TokenIssuer::new(&cluster_key);
        let callbacks = CallbackLinks::new(&cluster_key, parts.config.public_url.clone());
        let shared = Shared::new(parts.instance, &parts.config, Arc::clone(&parts.clock));
        let payloads = Payloads::new(Arc::clone(&parts.blobs), parts.config.inline_bytes_max);
        let store_calls = store_calls(&parts, issuer.clone());
        let attempts = Arc::clone(&store_calls.running);
        let sent = parts.clock.steady();
        let renewal = store_calls.heartbeat(parts.config.numbers_wanted(), false)?;
        shared.time.lock().observe(sent, renewal.now, &*parts.clock);
        shared.lease.confirmed(sent);
        shared.inputs.extend([
            Input::Renewed { until: renewal.now.plus(parts.config.lease) },
            Input::Readable(renewal.fold),
            Input::Numbers(renewal.numbers),
        ]);
        payloads.readable(renewal.fold);
        parts.nudges.listen(shared.instance, on_nudge(Arc::clone(&shared)));
        let relaying = parts.relay.clone().map(|relay| {
            relay.listen(shared.instance, on_mail(Arc::clone(&shared)));
            Arc::new(Relaying::new(Arc::clone(&shared), relay, Arc::clone(&parts.mirror)))
        });
        let (tasks, mirror) = (Arc::clone(&parts.tasks), Arc::clone(&parts.mirror));
        let remote_tasks = RemoteTasks {
            tasks: Arc::clone(&tasks),
            nudges: Arc::clone(&parts.nudges),
            issuer: issuer.clone(),
            seal: Seal::new(&cluster_key),
            callbacks: callbacks.clone(),
            instance: shared.instance,
        };
        let tasks_thread = TasksThread { shared: Arc::clone(&shared), remote_tasks };
        let store_thread = StoreThread {
            shared: Arc::clone(&shared),
            store_calls,
            mirror: Arc::clone(&mirror),
            payloads: payloads.clone(),
        };
        let mut threads = vec![
            spawn("waypost-store", move || store_thread.run())?,
            spawn("waypost-tasks", move || tasks_thread.run())?,
        ];
        let seed = Uuid::new_v4().as_u128();
        let drivers = driver_family(&parts.config, shared.instance, seed, &issuer);
        // All of them first: those that are dropped because one cannot be started end the others.
        let breakers = Arc::new(BreakerGate::new(Arc::clone(&parts.store), Arc::clone(&shared)));
        let assemble = |driver| {
            engine_thread(&shared, &parts, driver, (&attempts, &payloads, &breakers, &callbacks))
        };
        let engine_threads: Vec<_> = drivers.into_iter().enumerate().map(assemble).collect();
        for thread in engine_threads {
            threads.push(spawn(&format!("waypost-engine-{}", thread.at), move || thread.run())?);
        }
        Ok(Self {
            shared,
            relaying,
            worker_secrets: worker_secrets(&parts, callbacks.clone()),
            tasks,
            mirror,
            payloads,
            issuer,
            nudges: parts.nudges,
            callbacks,
            threads: Arc::new(Mutex::new(threads)),
        })
    }
}

fn worker_secrets(parts: &Parts, callbacks: CallbackLinks) -> WorkerSecrets {
    WorkerSecrets {
        callbacks,
        withheld: Withheld::default(),
        secrets: Arc::clone(&parts.secrets),
        store: Arc::clone(&parts.store),
        plans: Arc::clone(&parts.plans),
    }
}

fn store_calls(parts: &Parts, issuer: TokenIssuer) -> StoreCalls {
    StoreCalls {
        store: Arc::clone(&parts.store),
        plans: Arc::clone(&parts.plans),
        config: parts.config.clone(),
        instance: parts.instance,
        about: parts.about.clone(),
        running: Arc::default(),
        issuer,
        nudges: Arc::clone(&parts.nudges),
        trees: Arc::default(),
    }
}

fn engine_thread(
    shared: &Arc<Shared>,
    parts: &Parts,
    (at, mut driver): (usize, Driver),
    (attempts, payloads, breakers, callbacks): (
        &Arc<AtomicU32>,
        &Payloads,
        &Arc<BreakerGate>,
        &CallbackLinks,
    ),
) -> EngineThread {
    let worker = LocalWorker {
        handlers: parts.handlers.clone(),
        supplies: Supplies {
            secrets: Arc::clone(&parts.secrets),
            callbacks: Some(callbacks.clone()),
        },
        runtime: tokio::runtime::Handle::current(),
        tasks: tokio_util::task::TaskTracker::new(),
        shared: Arc::clone(shared),
        payloads: payloads.clone(),
        store: Arc::clone(&parts.store),
        plans: Arc::clone(&parts.plans),
        breakers: Arc::clone(breakers),
    };
    let opened = Instant::now();
    driver.set_stopwatch(Box::new(move || opened.elapsed()));
    EngineThread {
        shared: Arc::clone(shared),
        guard: EngineThreadGuard::new(shared),
        at,
        inline: parts.config.append_lanes == 0,
        driver,
        store: Arc::clone(&parts.store),
        mirror: Arc::clone(&parts.mirror),
        mirrored: Mirrored::default(),
        worker,
        observer: parts.observer.clone(),
        queue_looked_at: Timestamp(i64::MIN),
        shrunk_at: Timestamp(i64::MIN),
        running: HashMap::new(),
        attempts: Arc::clone(attempts),
        shown: DriverGauges::default(),
        hand_over_until: None,
    }
}

fn on_nudge(shared: Arc<Shared>) -> OnNudge {
    Arc::new(move |nudge| match nudge {
        Nudge::Mail(_) => shared.inputs.push(Input::MailWaits),
        Nudge::Claimable => shared.inputs.push(Input::Nudge),
        Nudge::Offered(_) => shared.task_orders.push(TasksOrder::Offered),
        Nudge::Cancelled(_) => shared.task_orders.push(TasksOrder::Cancelled),
    })
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StoreError> {
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(body);
    thread.map_err(|error| StoreError::Unavailable(format!("no thread: {error}")))
}
