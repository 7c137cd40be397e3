//! What all requests share: the engine, the store, keys, limits, who watches.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use waypost_engine::{Engine, Plans};
use waypost_lang::{Compiled, Diagnostics};
use waypost_ports::access::Access;
use waypost_ports::clock::Clock;
use waypost_ports::query::Query;
use waypost_ports::store::Store;

use crate::access::keys::KeyRing;
use crate::access::rate::RateLimit;
use crate::access::trail::Trail;
use crate::config::Config;
use crate::http::guard::Guard;
use crate::http::openapi;
use crate::metrics::HttpMetrics;
use crate::probe::Probe;
use crate::problem::{self, Code, Problem};
use crate::reader::Reader;
use crate::watchers::Watchers;
use crate::workflows::Workflows;

/// Everything that a server asks of a store.
pub trait Home: Store + Query + Access {}

impl<T: Store + Query + Access> Home for T {}

/// Compiles a definition that somebody wrote.
pub type Compiler = dyn Fn(&[u8]) -> Result<Compiled, Box<Diagnostics>> + Send + Sync;

/// How long a read waits for its turn.
const READS_PATIENCE: Duration = Duration::from_secs(10);

/// What a server is made of.
pub struct Parts {
    /// What drives executions.
    pub engine: Engine,
    /// Where they live.
    pub home: Arc<dyn Home>,
    /// Their plans.
    pub plans: Arc<Plans>,
    /// Makes plans of sources.
    pub compiler: Box<Compiler>,
    /// The JSON Schema of sources.
    pub definition_schema: Value,
    /// Time, for the trail.
    pub clock: Arc<dyn Clock>,
    /// Told by the engine of every commit; see [`Watchers::observer`].
    pub watchers: Arc<Watchers>,
    /// Limits and settings.
    pub config: Config,
    /// More lines for `/limits`: those of layers that this one cannot see.
    pub limits: Vec<(&'static str, u64)>,
}

/// What all requests share.
pub struct Server {
    /// What drives executions.
    pub engine: Engine,
    /// Questions about executions.
    pub reader: Arc<Reader>,
    /// Definitions, compiled.
    pub workflows: Workflows,
    /// Who watches what.
    pub watchers: Arc<Watchers>,
    /// Limits and settings.
    pub config: Config,
    /// The keys that are worth something.
    pub keys: KeyRing,
    /// Who did what.
    pub trail: Trail,
    /// What is measured here.
    pub metrics: HttpMetrics,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Streams that may be open.
    pub streams: Arc<Semaphore>,
    /// Ends streams and whoever waits, when the server does.
    pub closing: CancellationToken,
    /// Everything that runs for connections.
    pub tasks: TaskTracker,
    pub(crate) rate: RateLimit,
    pub(crate) guard: Guard,
    pub(crate) limits: Vec<(&'static str, u64)>,
    /// What `/openapi.json` says.
    pub(crate) description: Bytes,
    /// Reads that may be under way: they block a thread each.
    reads: Arc<Semaphore>,
    pub(crate) probe: Probe,
    draining: AtomicBool,
}

impl Server {
    /// Puts a server together. It listens to nobody yet.
    pub fn new(parts: Parts) -> Result<Self, Problem> {
        let Parts { engine, home, plans, compiler, clock, watchers, config, limits, .. } = parts;
        let description = openapi::document(config.needs_keys(), &parts.definition_schema);
        let keys = KeyRing::load(&*home)?;
        let trail = Trail::start(Arc::clone(&home) as Arc<dyn Access>)
            .map_err(|error| Problem::internal(&error))?;
        Ok(Self {
            engine,
            workflows: Workflows::new(Arc::clone(&home), Arc::clone(&plans), compiler),
            reader: Arc::new(Reader::new(home, plans)),
            watchers,
            keys,
            trail,
            metrics: HttpMetrics::default(),
            clock,
            streams: Arc::new(Semaphore::new(config.streams_max)),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
            rate: RateLimit::new(config.requests_per_second),
            guard: Guard::new(config.address, config.hosts.clone()),
            description: description.to_string().into(),
            limits,
            reads: Arc::new(Semaphore::new(config.reads_max)),
            probe: Probe::default(),
            draining: AtomicBool::new(false),
            config,
        })
    }

    /// Runs something that blocks, away from the threads that serve.
    pub async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let permit = Arc::clone(&self.reads).acquire_owned();
        let permit = tokio::time::timeout(READS_PATIENCE, permit).await.map_err(|_| {
            Problem::new(Code::Overloaded, "too many reads are under way").retry_after(5)
        })?;
        let permit = permit.map_err(|error| Problem::internal(&error))?;
        self.run(work, Some(permit)).await
    }

    /// The same, whatever else goes on: for what everything else depends on.
    pub async fn blocking_first<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.run(work, None).await
    }

    async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, Problem> + Send + 'static,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Result<T, Problem> {
        let server = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || {
            // Given back when the work is done, also where nobody awaits it any more.
            let _permit = permit;
            work(&server)
        });
        done.await.map_err(|error| Problem::internal(&error))?
    }

    /// What is waited for, if it comes in time, and before the server closes.
    pub async fn patiently<T>(&self, wait: Duration, sought: impl Future<Output = T>) -> Option<T> {
        tokio::select! { // all may be dropped: nothing but patience is lost
            found = sought => Some(found),
            () = self.closing.cancelled() => None,
            () = tokio::time::sleep(wait.min(self.config.wait_max)) => None,
        }
    }

    /// What the engine answers, if the store lets it do so in time.
    pub async fn in_time<T>(&self, asked: impl Future<Output = T>) -> Result<T, Problem> {
        let answered = tokio::time::timeout(self.config.commit_timeout, asked).await;
        answered.map_err(|_| problem::unanswered())
    }

    /// The same for what has to be written. While writes fail nothing new is asked of the engine; what
    /// was asked before is taken when the store works again, so its outcome is not known.
    pub async fn written<T>(&self, asked: impl Future<Output = T>) -> Result<T, Problem> {
        if let Some(trouble) = self.engine.store_trouble() {
            return Err(problem::store_fails(&trouble));
        }
        tokio::select! { // all may be dropped: the engine goes on with what it was asked
            biased;
            answered = asked => Ok(answered),
            _ = self.engine.lasting_store_trouble() => Err(problem::unanswered()),
            () = tokio::time::sleep(self.config.commit_timeout) => Err(problem::unanswered()),
        }
    }

    /// From here on nothing new is taken and `/readyz` fails.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    /// Is the server about to stop?
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }
}
