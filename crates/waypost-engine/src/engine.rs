//! The engine as a library: open it over a store, start executions, talk to them, stop it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Semaphore, oneshot};
use uuid::Uuid;
use waypost_core::command::Refusal;
use waypost_core::event::MessageId;
use waypost_core::id::{ExecutionId, ExecutionKey, InstanceId};
use waypost_core::json::Json;
use waypost_core::plan::Plan;
use waypost_core::time::Timestamp;
use waypost_ports::clock::Clock;
use waypost_ports::secret::Secrets;
use waypost_ports::store::{Idempotency, LEASE, Store, StoreError};

use crate::config::Config;
use crate::driver::{Answer, Committed, Driver, EndSummary, Input, Request, Start, Ticket};
use crate::metrics::EngineMetrics;
use crate::shell::{
    Clerk, EngineThread, Handlers, Inbox, Plans, Questions, StoreThread, StoreTime, Worker,
};

/// Called on the engine thread with everything that has become durable. Must be quick.
pub type Observer = Arc<dyn Fn(&Committed) + Send + Sync>;

/// What an engine is made of.
pub struct Parts {
    /// Where the log lives.
    pub store: Arc<dyn Store>,
    /// Where plans come from.
    pub plans: Arc<Plans>,
    /// The code of action kinds.
    pub handlers: Handlers,
    /// Where the secrets of tasks come from; `NoSecrets` where there are none.
    pub secrets: Arc<dyn Secrets>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Who watches.
    pub observer: Option<Observer>,
    /// Intervals and limits.
    pub config: Config,
}

/// A submission.
pub struct StartRequest {
    /// What to execute; its definition must be in the store.
    pub plan: Arc<Plan>,
    /// Its version of the workflow.
    pub version: u32,
    /// What to start with; checked against the input schema by the caller.
    pub input: Json,
    /// The execution's key; made where absent.
    pub key: Option<ExecutionKey>,
    /// The submitter's idempotency key.
    pub idempotency: Option<Idempotency>,
    /// Labels to find it by.
    pub labels: BTreeMap<String, String>,
    /// Who submits.
    pub actor: Option<Arc<str>>,
}

impl StartRequest {
    /// A submission with nothing but the necessary.
    pub fn new(plan: Arc<Plan>, version: u32, input: Json) -> Self {
        Self {
            plan,
            version,
            input,
            key: None,
            idempotency: None,
            labels: BTreeMap::new(),
            actor: None,
        }
    }
}

/// An execution that was accepted: durable, whatever happens now.
pub struct Started {
    /// Its number.
    pub execution: ExecutionId,
    /// Its key; absent where an identical submission was accepted before.
    pub key: Option<ExecutionKey>,
    end: AwaitedEnd,
}

/// The end of an execution, to come. Dropping it withdraws the question: an execution may sleep for
/// a year, and callers who have gone away must not be remembered as long.
struct AwaitedEnd {
    execution: Option<ExecutionId>,
    ticket: Ticket,
    answer: oneshot::Receiver<Answer>,
    inbox: Arc<Inbox<Input>>,
    questions: Arc<Questions>,
}

impl AwaitedEnd {
    async fn ended(mut self) -> Option<EndSummary> {
        match (&mut self.answer).await {
            Ok(Answer::Ended(end)) => Some(end),
            _ => None,
        }
    }
}

impl Drop for AwaitedEnd {
    fn drop(&mut self) {
        let open = self.questions.forget(self.ticket);
        if let (true, Some(execution)) = (open, self.execution) {
            self.inbox.push(Input::Forget { execution, ticket: self.ticket });
        }
    }
}

/// Why the engine did not do as asked.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The key, or the idempotency key, belongs to another submission.
    #[error("an execution with this key exists already and is not the same submission")]
    Exists(ExecutionId),
    /// The store refuses the data.
    #[error("the store refuses what was submitted: {0}")]
    Poisoned(String),
    /// The request changed nothing.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// There is no such execution.
    #[error("there is no such execution")]
    Unknown,
    /// The engine is stopping.
    #[error("the engine is stopping")]
    Stopping,
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A running engine. Dropping it stops it at once, which loses nothing.
pub struct Engine {
    instance: InstanceId,
    inbox: Arc<Inbox<Input>>,
    questions: Arc<Questions>,
    admission: Arc<Semaphore>,
    requests: Arc<Semaphore>,
    stop: Arc<Mutex<Option<Instant>>>,
    metrics: Arc<EngineMetrics>,
    /// Held while the threads are awaited, so that every caller of `stop` waits for the same end: a
    /// Tokio mutex, because that wait is an await.
    threads: tokio::sync::Mutex<Vec<JoinHandle<()>>>,
}

impl Engine {
    /// Starts the threads and begins to claim. Must be called inside a Tokio runtime, which runs
    /// the handlers.
    pub fn open(parts: Parts) -> Result<Self, EngineError> {
        let Parts { store, plans, handlers, secrets, clock, observer, config } = parts;
        let instance = InstanceId(Uuid::now_v7());
        let clerk = Clerk::new(Arc::clone(&store), plans, config.clone(), instance);
        let mut time = StoreTime::new(config.drift_ppm);
        let sent = clock.steady();
        let renewal = clerk.heartbeat(config.numbers_at_once, false)?;
        time.observe(sent, renewal.now, &*clock);
        let time = Arc::new(Mutex::new(time));
        let (inbox, work) = (Arc::new(Inbox::new()), Arc::new(Inbox::new()));
        let outstanding = Arc::new(AtomicUsize::new(0));
        let questions = Arc::new(Questions::default());
        let stop = Arc::new(Mutex::new(None));
        let metrics = Arc::new(EngineMetrics::new(config.slots));
        inbox.push(Input::Renewed { until: renewal.now.plus(LEASE) });
        inbox.push(Input::Numbers(renewal.numbers));
        let engine = EngineThread {
            driver: Driver::new(config.clone(), instance, Uuid::new_v4().as_u128()),
            clock: Arc::clone(&clock),
            time: Arc::clone(&time),
            store,
            inbox: Arc::clone(&inbox),
            work: Arc::clone(&work),
            outstanding: Arc::clone(&outstanding),
            questions: Arc::clone(&questions),
            worker: Worker {
                handlers,
                secrets,
                runtime: tokio::runtime::Handle::current(),
                tasks: tokio_util::task::TaskTracker::new(),
                engine: Arc::clone(&inbox),
            },
            observer,
            metrics: Arc::clone(&metrics),
            queue_looked_at: Timestamp(i64::MIN),
            running: HashMap::new(),
            stop: Arc::clone(&stop),
        };
        let admission = Arc::new(Semaphore::new(config.backlog_max));
        let requests = Arc::new(Semaphore::new(config.backlog_max));
        let writer = StoreThread {
            clerk,
            clock,
            time,
            work,
            outstanding,
            engine: Arc::clone(&inbox),
            metrics: Arc::clone(&metrics),
            stop: Arc::clone(&stop),
        };
        let threads = vec![
            spawn("waypost-engine", move || engine.run())?,
            spawn("waypost-store", move || writer.run())?,
        ];
        let threads = tokio::sync::Mutex::new(threads);
        Ok(Self { instance, inbox, questions, admission, requests, stop, metrics, threads })
    }

    /// This process, to the store.
    pub fn instance(&self) -> InstanceId {
        self.instance
    }

    /// What it tells of itself, also after it has stopped.
    pub fn metrics(&self) -> Arc<EngineMetrics> {
        Arc::clone(&self.metrics)
    }

    /// Starts an execution. Returns when it is durable; waits in line while too many others do.
    pub async fn start(&self, request: StartRequest) -> Result<Started, EngineError> {
        let permit = Arc::clone(&self.admission).acquire_owned().await;
        let permit = permit.map_err(|_| EngineError::Stopping)?;
        let (ticket, answer) = self.questions.ask(Some(permit));
        let mut end = self.ask_for_end(None);
        self.inbox.push(Input::Start(Start {
            plan: request.plan,
            version: request.version,
            input: request.input,
            key: request.key,
            idempotency: request.idempotency,
            labels: request.labels,
            actor: request.actor,
            ticket,
            await_end: Some(end.ticket),
        }));
        match answer.await {
            Ok(Answer::Started { execution, key }) => {
                end.execution = Some(execution);
                Ok(Started { execution, key: Some(key), end })
            }
            Ok(Answer::Exists { existing, same: true }) => Ok(self.adopt(existing)),
            Ok(Answer::Exists { existing, .. }) => Err(EngineError::Exists(existing)),
            Ok(Answer::Poisoned(reason)) => Err(EngineError::Poisoned(reason)),
            _ => Err(EngineError::Stopping),
        }
    }

    /// Asks something of an execution: a signal, a pause, a resumption, a cancellation. Returns
    /// when the request is durable.
    ///
    /// A request whose message was received before is refused as [`Refusal::Duplicate`] and changes
    /// nothing, also where the first one was refused; of an execution that has ended, one hears that
    /// instead.
    pub async fn request(&self, request: Request) -> Result<Requested, EngineError> {
        loop {
            let permit = Arc::clone(&self.requests).acquire_owned().await;
            let permit = permit.map_err(|_| EngineError::Stopping)?;
            let (ticket, answer) = self.questions.ask(Some(permit));
            self.inbox.push(Input::Request { request: request.clone(), ticket });
            return match answer.await {
                Ok(Answer::Done(status)) => Ok(Requested::Done(status)),
                Ok(Answer::Accepted(message)) => Ok(Requested::Accepted { message }),
                // It left memory meanwhile, and the request was not done: the inbox takes it now.
                Ok(Answer::Moved) => continue,
                Ok(Answer::Refused(refusal)) => Err(refusal.into()),
                Ok(Answer::Ended(end)) => Err(Refusal::Ended(end.status).into()),
                Ok(Answer::Unknown) => Err(EngineError::Unknown),
                Ok(Answer::Poisoned(reason)) => Err(EngineError::Poisoned(reason)),
                _ => Err(EngineError::Stopping),
            };
        }
    }

    /// Waits for the end of an execution, whoever started it. `None` where there is no such
    /// execution, or the engine stopped first. Dropping this withdraws the question.
    pub async fn ended(&self, execution: ExecutionId) -> Option<EndSummary> {
        self.await_end(execution).ended().await
    }

    /// Has this engine drive an execution, under [`Scope::Adopted`](crate::config::Scope), and
    /// gives its end.
    pub fn adopt(&self, execution: ExecutionId) -> Started {
        let end = self.await_end(execution);
        self.inbox.push(Input::Adopt(execution));
        Started { execution, key: None, end }
    }

    /// Looks for something to claim, now.
    pub fn nudge(&self) {
        self.inbox.push(Input::Nudge);
    }

    fn await_end(&self, execution: ExecutionId) -> AwaitedEnd {
        let end = self.ask_for_end(Some(execution));
        self.inbox.push(Input::AwaitEnd { execution, ticket: end.ticket });
        end
    }

    fn ask_for_end(&self, execution: Option<ExecutionId>) -> AwaitedEnd {
        let (ticket, answer) = self.questions.ask(None);
        let (inbox, questions) = (Arc::clone(&self.inbox), Arc::clone(&self.questions));
        AwaitedEnd { execution, ticket, answer, inbox, questions }
    }

    /// Stops: nothing new starts, attempts that run may end until the deadline, then everything is
    /// handed over. Calling it again with a shorter time stops sooner.
    pub async fn stop(&self, grace: Duration) {
        self.begin_stop(grace);
        let mut threads = self.threads.lock().await;
        let running = std::mem::take(&mut *threads);
        let joined = tokio::task::spawn_blocking(move || running.into_iter().for_each(join));
        drop(joined.await);
    }

    fn begin_stop(&self, grace: Duration) {
        self.admission.close();
        self.requests.close();
        let deadline = Instant::now() + grace;
        let mut stop = self.stop.lock();
        *stop = Some(stop.map_or(deadline, |old| old.min(deadline)));
        drop(stop);
        self.inbox.push(Input::Drain);
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.begin_stop(Duration::ZERO);
        self.threads.get_mut().drain(..).for_each(join);
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StoreError> {
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(body);
    thread.map_err(|error| StoreError::Unavailable(format!("no thread: {error}")))
}

fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("an engine thread panicked");
    }
}

/// What became of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Requested {
    /// Done; the execution's status after it.
    Done(waypost_core::status::Status),
    /// Durable; whoever claims the execution does it.
    Accepted {
        /// The id under which it was accepted.
        message: MessageId,
    },
}

impl Started {
    /// Waits for the end. `None` when the engine stopped first; the execution goes on elsewhere.
    pub async fn ended(self) -> Option<EndSummary> {
        self.end.ended().await
    }
}
