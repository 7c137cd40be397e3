//! An engine with its threads, over a store in memory and a clock that stands still. Tests wait for
//! events and for handlers, never for time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use waypost_core::event::Event;
use waypost_core::failure::Failure;
use waypost_core::flow;
use waypost_core::id::{DefinitionHash, ExecutionNo};
use waypost_core::json::Json;
use waypost_core::plan::Plan;
use waypost_core::time::Millis;
use waypost_engine::config::Config;
use waypost_engine::driver::Committed;
use waypost_engine::{Engine, Handlers, Observer, Parts, Plans, StartRequest, Started};
use waypost_ports::blobs::MemoryBlobs;
use waypost_ports::clock::{Clock, ManualClock};
use waypost_ports::handler::{Handler, Task};
use waypost_ports::memory::{MemoryStore, MemoryTasks};
use waypost_ports::mirror::NoMirror;
use waypost_ports::nudge::Alone;
use waypost_ports::secret::NoSecrets;
use waypost_ports::store::{Control, NewDefinition, Store};

use super::store::TestStore;
use super::world::START;

/// What engines share: store, clock, handlers, and the record of what was committed.
pub(crate) struct Lab {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) store: Arc<TestStore>,
    pub(crate) tasks: MemoryTasks,
    pub(crate) blobs: MemoryBlobs,
    handlers: Handlers,
    /// Attempts that wait for the test, from the handler `hold`.
    held: tokio::sync::Mutex<mpsc::UnboundedReceiver<Held>>,
    pub(crate) work: Arc<Work>,
    log: Arc<Log>,
}

/// An attempt in the hands of the test.
pub(crate) struct Held {
    pub(crate) task: Task,
    pub(crate) cancel: CancellationToken,
    end: oneshot::Sender<Result<Json, Failure>>,
}

impl Held {
    pub(crate) fn complete(self) {
        drop(self.end.send(Ok(Json::null())));
    }

    pub(crate) fn fail(self) {
        drop(self.end.send(Err(Failure::transient("odd", "the test says so"))));
    }
}

/// Everything that engines said they committed.
#[derive(Default)]
struct Log {
    events: Mutex<Vec<(ExecutionNo, Event)>>,
    changed: Notify,
}

/// The handler `work`: counts, and completes with its node's id.
#[derive(Default)]
pub(crate) struct Work {
    running: AtomicUsize,
    pub(crate) running_max: AtomicUsize,
    pub(crate) calls: AtomicUsize,
}

impl Handler for Work {
    fn run(&self, task: Task, _: CancellationToken) -> BoxFuture<'static, Result<Json, Failure>> {
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.running_max.fetch_max(running, Ordering::SeqCst);
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.running.fetch_sub(1, Ordering::SeqCst);
        let output = Json::parse(&format!("{:?}", task.path)).unwrap();
        async move { Ok(output) }.boxed()
    }
}

struct Hold(mpsc::UnboundedSender<Held>);

impl Handler for Hold {
    fn run(
        &self,
        task: Task,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<Json, Failure>> {
        let (end, ended) = oneshot::channel();
        let held = Held { task, cancel: cancel.clone(), end };
        self.0.send(held).unwrap_or_else(|_| panic!("the lab is gone"));
        async move {
            // Both are cancel-safe; dropping the answer of a cancelled attempt is the point.
            tokio::select! {
                ended = ended => ended.unwrap(),
                () = cancel.cancelled() => Err(Failure::transient("stopped", "cancelled")),
            }
        }
        .boxed()
    }
}

/// Panics before its first await.
struct Panic;

impl Handler for Panic {
    fn run(&self, _: Task, _: CancellationToken) -> BoxFuture<'static, Result<Json, Failure>> {
        panic!("a handler's bug")
    }
}

/// Neither ends nor listens.
struct Stubborn(mpsc::UnboundedSender<Held>);

impl Handler for Stubborn {
    fn run(
        &self,
        task: Task,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<Json, Failure>> {
        let (end, _) = oneshot::channel();
        self.0.send(Held { task, cancel, end }).unwrap_or_else(|_| panic!("the lab is gone"));
        std::future::pending().boxed()
    }
}

impl Lab {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(ManualClock::at(START));
        let memory = MemoryStore::new(Arc::clone(&clock) as Arc<dyn Clock>);
        let (hold, held) = mpsc::unbounded_channel();
        let work = Arc::new(Work::default());
        let handlers = Handlers::from([
            ("work", Arc::clone(&work) as Arc<dyn Handler>),
            ("hold", Arc::new(Hold(hold.clone()))),
            ("panic", Arc::new(Panic)),
            ("stubborn", Arc::new(Stubborn(hold))),
        ]);
        let tasks = MemoryTasks::new(Arc::clone(&clock) as Arc<dyn Clock>, [7; 32]);
        Self {
            tasks,
            blobs: MemoryBlobs::new(Arc::clone(&clock) as Arc<dyn Clock>),
            clock,
            store: Arc::new(TestStore::new(memory)),
            handlers,
            held: tokio::sync::Mutex::new(held),
            work,
            log: Arc::default(),
        }
    }

    pub(crate) fn engine(&self) -> Engine {
        self.engine_with(|_| {})
    }

    pub(crate) fn engine_with(&self, adjust: impl FnOnce(&mut Parts)) -> Engine {
        let log = Arc::clone(&self.log);
        let observer: Observer = Arc::new(move |committed: &Committed| {
            let events = committed.events.iter().map(|e| (committed.execution, e.clone()));
            log.events.lock().extend(events);
            log.changed.notify_waiters();
        });
        let mut parts = Parts {
            store: Arc::clone(&self.store) as Arc<dyn Store>,
            plans: Arc::new(Plans::new(Box::new(flow::compile))),
            handlers: self.handlers.clone(),
            blobs: Arc::new(self.blobs.clone()),
            secrets: Arc::new(NoSecrets),
            instance: waypost_core::id::InstanceId(uuid::Uuid::now_v7()),
            about: waypost_ports::store::About::default(),
            tasks: Arc::new(self.tasks.clone()),
            nudges: Arc::new(Alone),
            mirror: Arc::new(NoMirror),
            relay: None,
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            observer: Some(observer),
            config: Config {
                slots: 4,
                drift_ppm: 0,
                // The clock stands still: what is put off by a millisecond is put off for ever.
                claim_every_min: Millis(0),
                ..Config::default()
            },
        };
        adjust(&mut parts);
        Engine::open(parts).unwrap()
    }

    pub(crate) fn flow(&self, text: &str) -> Arc<Plan> {
        let hash = DefinitionHash::of(text.as_bytes());
        let definition = NewDefinition {
            name: "flow".into(),
            hash,
            canonical: text.into(),
            make_current: true,
            triggers: Vec::new(),
            paused: false,
        };
        self.store.define(&definition).unwrap();
        Arc::new(flow::compile(text).unwrap())
    }

    pub(crate) fn request(&self, flow: &str) -> StartRequest {
        StartRequest::new(self.flow(flow), 1, Json::parse(r#"{"yes":true}"#).unwrap())
    }

    pub(crate) async fn start(&self, engine: &Engine, flow: &str) -> Started {
        engine.start(self.request(flow)).await.unwrap()
    }

    /// The next attempt that waits for the test.
    pub(crate) async fn held(&self) -> Held {
        self.held.lock().await.recv().await.unwrap()
    }

    /// Waits until an execution has an event of this name; gives it.
    pub(crate) async fn event(&self, execution: ExecutionNo, name: &str) -> Event {
        loop {
            let changed = self.log.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(event) = self.find(execution, name) {
                return event;
            }
            changed.await;
        }
    }

    pub(crate) fn find(&self, execution: ExecutionNo, name: &str) -> Option<Event> {
        let events = self.log.events.lock();
        let found = events.iter().find(|(of, event)| *of == execution && event.name() == name);
        found.map(|(_, event)| event.clone())
    }

    /// All events of this name that an execution has, in order.
    pub(crate) fn all(&self, execution: ExecutionNo, name: &str) -> Vec<Event> {
        let events = self.log.events.lock();
        let found = events.iter().filter(|(of, event)| *of == execution && event.name() == name);
        found.map(|(_, event)| event.clone()).collect()
    }

    pub(crate) fn count(&self, name: &str) -> usize {
        self.log.events.lock().iter().filter(|(_, event)| event.name() == name).count()
    }

    /// Lets time pass for the engine, which looks at once.
    pub(crate) fn pass(&self, engine: &Engine, ms: u64) {
        self.clock.advance(Millis(ms));
        engine.nudge();
    }

    pub(crate) fn control(&self, execution: ExecutionNo) -> Option<Control> {
        self.store.inner.load(execution).unwrap().and_then(|history| history.control)
    }
}
