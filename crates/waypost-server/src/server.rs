//! Shared by all requests: the engine, the store, keys, limits, watchers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use waypost_core::id::ExecutionNo;
use waypost_engine::dispatcher::DispatcherWakeups;
use waypost_engine::triggers::TriggerControl;
use waypost_engine::{Engine, Plans};
use waypost_lang::{Compiled, Diagnostics};
use waypost_ports::access::Access;
use waypost_ports::blobs::{BlobRefs, Blobs};
use waypost_ports::clock::Clock;
use waypost_ports::outbox::Outbox;
use waypost_ports::query::{Query, Read};
use waypost_ports::secret::Secrets;
use waypost_ports::store::Store;
use waypost_ports::triggers::Triggers;
use waypost_ports::webhook::WebhookSender;

use crate::access::audit::AuditLog;
use crate::access::keys::KeyRing;
use crate::access::rate::RateLimit;
use crate::budget::{Budget, SMALL_BYTES, Share};
use crate::config::Config;
use crate::event_triggers::KnownEventTriggers;
use crate::hooks::Hooks;
use crate::http::guard::Guard;
use crate::http::openapi;
use crate::metrics::HttpMetrics;
use crate::probe::Probe;
use crate::problem::{self, Code, Problem};
use crate::reader::{Found, Reader};
use crate::watchers::Watchers;
use crate::workflows::Workflows;

/// Everything that a server needs of a store.
pub trait Backend: Store + Query + Access + BlobRefs + Outbox + Triggers {}

impl<T: Store + Query + Access + BlobRefs + Outbox + Triggers> Backend for T {}

/// Compiles a definition from its source.
pub type Compiler = dyn Fn(&[u8]) -> Result<Compiled, Box<Diagnostics>> + Send + Sync;

/// How long a read waits for its turn.
const READS_PATIENCE: Duration = Duration::from_secs(10);
/// How long a large reply waits for room.
const REPLY_PATIENCE: Duration = Duration::from_secs(30);

/// The parts of a server.
pub struct Parts {
    pub engine: Arc<Engine>,
    pub backend: Arc<dyn Backend>,
    pub blobs: Arc<dyn Blobs>,
    pub plans: Arc<Plans>,
    /// Makes plans of sources.
    pub compiler: Box<Compiler>,
    /// The JSON Schema of sources.
    pub definition_schema: Value,
    /// Time, for the audit log.
    pub clock: Arc<dyn Clock>,
    /// The engine notifies it of every commit; see [`Watchers::observer`].
    pub watchers: Arc<Watchers>,
    /// Sends tests to webhook endpoints.
    pub webhooks: Arc<dyn WebhookSender>,
    /// Of the dispatcher of this instance.
    pub wakeups: DispatcherWakeups,
    /// What changes and fires triggers, where this server has any.
    pub triggers: Option<TriggerControl>,
    /// The secrets with which requests to webhook triggers are verified.
    pub secrets: Arc<dyn Secrets>,
    pub config: Config,
    /// More lines for `/limits`: those of layers that this one cannot see.
    pub limits: Vec<(&'static str, u64)>,
}

/// Shared by all requests.
pub struct Server {
    pub engine: Arc<Engine>,
    pub reader: Arc<Reader>,
    pub blobs: Arc<dyn Blobs>,
    pub workflows: Workflows,
    pub watchers: Arc<Watchers>,
    pub webhooks: Arc<dyn WebhookSender>,
    pub wakeups: DispatcherWakeups,
    pub triggers: Option<TriggerControl>,
    pub secrets: Arc<dyn Secrets>,
    pub(crate) hooks: Hooks,
    pub(crate) event_triggers: KnownEventTriggers,
    pub config: Config,
    /// The keys that are worth something.
    pub keys: KeyRing,
    pub audit: AuditLog,
    pub metrics: HttpMetrics,
    pub clock: Arc<dyn Clock>,
    /// Streams that may be open.
    pub streams: Arc<Semaphore>,
    /// Blobs that may be sent and received at once.
    pub blob_transfers: Arc<Semaphore>,
    /// Bytes that are in memory for clients.
    pub budget: Budget,
    /// Ends streams and waiting requests when the server stops.
    pub closing: CancellationToken,
    /// Everything that runs for connections.
    pub tasks: TaskTracker,
    pub(crate) rate: RateLimit,
    pub(crate) link_rate: RateLimit,
    pub(crate) guard: Guard,
    pub(crate) limits: Vec<(&'static str, u64)>,
    /// The content of `/openapi.json`.
    pub(crate) description: Bytes,
    /// Reads that may be under way: they block a thread each.
    reads: Arc<Semaphore>,
    read_threads: ReadThreads,
    large_read_threads: ReadThreads,
    pub(crate) probe: Probe,
    draining: AtomicBool,
}

impl Server {
    /// Builds a server. It does not listen yet.
    pub fn new(parts: Parts) -> Result<Self, Problem> {
        let Parts {
            engine, backend, blobs, plans, compiler, clock, watchers, config, limits, ..
        } = parts;
        let (webhooks, wakeups) = (parts.webhooks, parts.wakeups);
        let (triggers, secrets) = (parts.triggers, parts.secrets);
        let description = openapi::document(config.needs_keys(), &parts.definition_schema);
        let keys = KeyRing::load(&*backend)?;
        let audit = AuditLog::start(Arc::clone(&backend) as Arc<dyn Access>)
            .map_err(|error| Problem::internal(&error))?;
        let public = engine.public_url().map(str::to_owned);
        Ok(Self {
            engine,
            workflows: Workflows::new(Arc::clone(&backend), Arc::clone(&plans), compiler),
            reader: Arc::new(Reader::new(backend, plans)),
            blobs,
            watchers,
            webhooks,
            wakeups,
            triggers,
            secrets,
            hooks: Hooks::new(&config),
            event_triggers: KnownEventTriggers::default(),
            keys,
            audit,
            metrics: HttpMetrics::default(),
            clock,
            streams: Arc::new(Semaphore::new(config.streams_max)),
            blob_transfers: Arc::new(Semaphore::new(config.blob_transfers_max)),
            budget: Budget::new(
                config.reply_bytes_max,
                config.read_bytes_max,
                config.stream_slow_after,
            ),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
            rate: RateLimit::new(config.requests_per_second),
            link_rate: RateLimit::new(config.link_requests_per_second),
            guard: Guard::new(config.address, config.hosts.clone()).publishing(public.as_deref()),
            description: description.to_string().into(),
            limits,
            reads: Arc::new(Semaphore::new(config.reads_max)),
            read_threads: ReadThreads::new(config.reads_max)?,
            large_read_threads: ReadThreads::new(LARGE_READS_MAX)?,
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
        let server = Arc::clone(self);
        self.read_threads
            .run(move || {
                // Released when the work is done, also if no caller awaits it any more.
                let _permit = permit;
                work(&server)
            })
            .await?
    }

    /// As `blocking`, once there is room in memory for what it reads: a log of any size is read and
    /// folded without others of its size at its side.
    pub async fn weighing<T: Send + 'static>(
        self: &Arc<Self>,
        weigh: impl FnOnce(&Self) -> Result<Read, Problem> + Send + 'static,
        work: impl FnOnce(&Self) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let first = move |server: &Self| {
            let bytes = server.weigh(weigh(server)?)?;
            if bytes <= SMALL_BYTES { Ok(Ok(work(server)?)) } else { Ok(Err((bytes, work))) }
        };
        match self.blocking(first).await? {
            Ok(done) => Ok(done),
            Err((bytes, work)) => self.blocking_large(bytes, work).await,
        }
    }

    /// The number of an execution.
    pub(crate) async fn find(self: &Arc<Self>, key: &str) -> Result<ExecutionNo, Problem> {
        let key = key.to_owned();
        self.blocking(move |server| server.reader.find(&key)).await
    }

    /// Reads an execution back from its log.
    pub(crate) async fn load(self: &Arc<Self>, execution: ExecutionNo) -> Result<Found, Problem> {
        let read = Read::State(execution);
        self.weighing(move |_| Ok(read), move |server| server.reader.load(execution)).await
    }

    fn weigh(&self, read: Read) -> Result<usize, Problem> {
        Ok(usize::try_from(self.reader.backend().weigh(read)?).unwrap_or(usize::MAX))
    }

    async fn blocking_large<T: Send + 'static>(
        self: &Arc<Self>,
        bytes: usize,
        work: impl FnOnce(&Self) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let room = tokio::time::timeout(READS_PATIENCE, self.budget.read(bytes)).await;
        let room = room.map_err(|_| too_much_is_read())?;
        let server = Arc::clone(self);
        self.large_read_threads
            .run(move || {
                let done = work(&server);
                drop(room);
                done
            })
            .await?
    }

    /// Reads a page once there is room for it in memory, both for reading it and for sending it. If
    /// it turns out to need more room, it is read again: a waiting request holds no bytes.
    pub(crate) async fn page<T: Sent + Send + 'static>(
        self: &Arc<Self>,
        read: Read,
        connection: &CancellationToken,
        work: impl Fn(&Self) -> Result<T, Problem> + Clone + Send + 'static,
    ) -> Result<(T, Option<Share>), Problem> {
        let first = {
            let work = work.clone();
            move |server: &Self| {
                let bytes = server.weigh(read)?;
                if bytes <= SMALL_BYTES { Ok(Ok(work(server)?)) } else { Ok(Err(bytes)) }
            }
        };
        let (mut read_bytes, mut share, mut page) = match self.blocking(first).await? {
            Ok(page) => (SMALL_BYTES, None, page),
            Err(bytes) => {
                let share = self.budget.take(bytes, connection).await;
                (bytes, share, self.blocking_large(bytes, work.clone()).await?)
            }
        };
        loop {
            let bytes = page.bytes();
            if bytes == 0 {
                return Ok((page, None));
            }
            let fits = match &mut share {
                Some(share) => share.fit(bytes),
                None => {
                    share = self.budget.try_take(bytes, connection);
                    share.is_some()
                }
            };
            if fits {
                return Ok((page, share));
            }
            drop((page, share));
            share = self.budget.take(bytes, connection).await;
            read_bytes = read_bytes.max(bytes);
            page = self.blocking_large(read_bytes, work.clone()).await?;
        }
    }

    /// Waits for room in the budget, with a time limit.
    pub(crate) async fn with_room<T>(&self, wait: impl Future<Output = T>) -> Result<T, Problem> {
        let waited = tokio::time::timeout(REPLY_PATIENCE, wait).await;
        waited.map_err(|_| too_much_is_sent())
    }

    /// As `blocking`, ahead of queued reads: for work that everything else depends on.
    pub async fn blocking_first<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let server = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || work(&server));
        done.await.map_err(|error| Problem::internal(&error))?
    }

    /// Waits for a result until a time limit, or until the server closes.
    pub async fn wait_for<T>(&self, wait: Duration, sought: impl Future<Output = T>) -> Option<T> {
        tokio::select! { // all may be dropped: nothing but patience is lost
            found = sought => Some(found),
            () = self.closing.cancelled() => None,
            () = tokio::time::sleep(wait.min(self.config.wait_max)) => None,
        }
    }

    /// Waits for the engine's answer, with the time limit of commits.
    pub async fn in_time<T>(&self, asked: impl Future<Output = T>) -> Result<T, Problem> {
        let answered = tokio::time::timeout(self.config.commit_timeout, asked).await;
        answered.map_err(|_| problem::unanswered())
    }

    /// As `in_time`, for writes. While writes fail, nothing new is sent to the engine; earlier
    /// requests are taken when the store works again, so their outcome is unknown.
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

/// A value to send, which counts as long as it is in memory.
pub(crate) trait Sent {
    fn bytes(&self) -> usize;
}

const LARGE_READS_MAX: usize = 4;

/// A fixed number of threads. Each thread of a process retains some of the memory that it has
/// freed, so few of them do large reads.
struct ReadThreads(Option<Runtime>);

impl ReadThreads {
    fn new(count: usize) -> Result<Self, Problem> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(count.max(1))
            .thread_name("waypost-reads")
            .build();
        Ok(Self(Some(runtime.map_err(|error| Problem::internal(&error))?)))
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let closed = || Problem::internal(&"the server is closing");
        let runtime = self.0.as_ref().ok_or_else(closed)?;
        runtime.spawn_blocking(work).await.map_err(|error| Problem::internal(&error))
    }
}

impl Drop for ReadThreads {
    fn drop(&mut self) {
        // A runtime that is dropped where others run would wait for its threads.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

fn too_much_is_read() -> Problem {
    Problem::new(Code::Overloaded, "too many large logs are being read").retry_after(5)
}

fn too_much_is_sent() -> Problem {
    let detail = "too many large replies wait for clients that read slowly";
    Problem::new(Code::Overloaded, detail)
        .retry_after(5)
        .hint("`http_reply_bytes_max` of GET /v1/limits is what they may have together")
}
