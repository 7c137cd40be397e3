//! The engine as a library: open it over a store, start executions, talk to them, stop it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use uuid::Uuid;
use waypost_core::id::{ExecutionId, ExecutionKey, InstanceId};
use waypost_core::json::Json;
use waypost_core::plan::Plan;
use waypost_ports::clock::Clock;
use waypost_ports::store::{Heartbeat, Idempotency, MailBody, Store, StoreError};

use crate::config::Config;
use crate::driver::{Answer, Committed, Driver, EndSummary, Input, Start};
use crate::shell::{EngineThread, Handlers, Inbox, Plans, Questions, StoreThread, Worker};

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
    end: tokio::sync::oneshot::Receiver<Answer>,
}

/// Why the engine did not do as asked.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The key, or the idempotency key, belongs to another submission.
    #[error("an execution with this key exists already and is not the same submission")]
    Exists(ExecutionId),
    /// The store refuses the data.
    #[error("the store refuses the submission: {0}")]
    Poisoned(String),
    /// The request changed nothing.
    #[error(transparent)]
    Refused(#[from] waypost_core::command::Refusal),
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
    stop: Arc<Mutex<Option<Instant>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Engine {
    /// Starts the threads and begins to claim. Must be called inside a Tokio runtime, which runs
    /// the handlers.
    pub fn open(parts: Parts) -> Result<Self, EngineError> {
        let Parts { store, plans, handlers, clock, observer, config } = parts;
        let instance = InstanceId(Uuid::now_v7());
        let heartbeat = Heartbeat {
            instance,
            numbers: config.numbers_at_once,
            fold: waypost_core::event::FOLD_VERSION,
            leaving: false,
        };
        let renewal = store.heartbeat(&heartbeat)?;
        let (inbox, work) = (Arc::new(Inbox::new()), Arc::new(Inbox::new()));
        let outstanding = Arc::new(AtomicUsize::new(0));
        let questions = Arc::new(Questions::default());
        let stop = Arc::new(Mutex::new(None));
        inbox.push(Input::Numbers(renewal.numbers));
        let engine = EngineThread {
            driver: Driver::new(config.clone(), instance, Uuid::new_v4().as_u128()),
            clock,
            store: Arc::clone(&store),
            inbox: Arc::clone(&inbox),
            work: Arc::clone(&work),
            outstanding: Arc::clone(&outstanding),
            questions: Arc::clone(&questions),
            worker: Worker {
                handlers,
                runtime: tokio::runtime::Handle::current(),
                tasks: tokio_util::task::TaskTracker::new(),
                engine: Arc::clone(&inbox),
            },
            observer,
            running: HashMap::new(),
            stop: Arc::clone(&stop),
        };
        let admission = Arc::new(Semaphore::new(config.backlog_max));
        let writer = StoreThread {
            store,
            plans,
            config,
            instance,
            work,
            outstanding,
            engine: Arc::clone(&inbox),
            stop: Arc::clone(&stop),
        };
        let spawn = |name: &str, body: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(body)
                .map_err(|error| StoreError::Unavailable(format!("no thread: {error}")))
        };
        let threads = vec![
            spawn("waypost-engine", Box::new(move || engine.run()))?,
            spawn("waypost-store", Box::new(move || writer.run()))?,
        ];
        Ok(Self { instance, inbox, questions, admission, stop, threads: Mutex::new(threads) })
    }

    /// This process, to the store.
    pub fn instance(&self) -> InstanceId {
        self.instance
    }

    /// Starts an execution. Returns when it is durable; waits in line while too many others do.
    pub async fn start(&self, request: StartRequest) -> Result<Started, EngineError> {
        let _permit = self.admission.acquire().await.map_err(|_| EngineError::Stopping)?;
        let (ticket, answer) = self.questions.ask();
        let (end_ticket, end) = self.questions.ask();
        self.inbox.push(Input::Start(Start {
            plan: request.plan,
            version: request.version,
            input: request.input,
            key: request.key,
            idempotency: request.idempotency,
            labels: request.labels,
            actor: request.actor,
            ticket,
            await_end: Some(end_ticket),
        }));
        match answer.await {
            Ok(Answer::Started { execution, key }) => {
                Ok(Started { execution, key: Some(key), end })
            }
            Ok(Answer::Exists { existing, same: true }) => {
                let end = self.await_end(existing);
                Ok(Started { execution: existing, key: None, end })
            }
            Ok(Answer::Exists { existing, .. }) => Err(EngineError::Exists(existing)),
            Ok(Answer::Poisoned(reason)) => Err(EngineError::Poisoned(reason)),
            _ => Err(EngineError::Stopping),
        }
    }

    /// Asks something of an execution: a signal, a pause, a resumption, a cancellation. Returns
    /// when the request is durable.
    pub async fn request(
        &self,
        execution: ExecutionId,
        body: MailBody,
        actor: Option<Arc<str>>,
    ) -> Result<Requested, EngineError> {
        let (ticket, answer) = self.questions.ask();
        self.inbox.push(Input::Request { execution, body, actor, ticket });
        match answer.await {
            Ok(Answer::Done(status)) => Ok(Requested::Done(status)),
            Ok(Answer::Accepted(_) | Answer::Moved) => Ok(Requested::Accepted),
            Ok(Answer::Refused(refusal)) => Err(refusal.into()),
            Ok(Answer::Ended(end)) => Err(waypost_core::command::Refusal::Ended(end.status).into()),
            Ok(Answer::Unknown) => Err(EngineError::Unknown),
            _ => Err(EngineError::Stopping),
        }
    }

    /// Has this engine drive an execution, under [`Scope::Adopted`](crate::config::Scope), and
    /// gives its end. An execution that has ended already must not be asked for.
    pub fn adopt(&self, execution: ExecutionId) -> Started {
        let end = self.await_end(execution);
        self.inbox.push(Input::Adopt(execution));
        Started { execution, key: None, end }
    }

    /// Looks for something to claim, now.
    pub fn nudge(&self) {
        self.inbox.push(Input::Nudge);
    }

    fn await_end(&self, execution: ExecutionId) -> tokio::sync::oneshot::Receiver<Answer> {
        let (ticket, end) = self.questions.ask();
        self.inbox.push(Input::AwaitEnd { execution, ticket });
        end
    }

    /// Stops: nothing new starts, attempts that run may end until the deadline, then everything is
    /// handed over. Calling it again with a shorter time stops sooner.
    pub async fn stop(&self, grace: Duration) {
        self.begin_stop(grace);
        let threads = std::mem::take(&mut *self.threads.lock());
        let joined = tokio::task::spawn_blocking(move || threads.into_iter().for_each(join));
        drop(joined.await);
    }

    fn begin_stop(&self, grace: Duration) {
        self.admission.close();
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
        self.threads.lock().drain(..).for_each(join);
    }
}

fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("an engine thread panicked");
    }
}

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Requested {
    /// Done; the execution's status after it.
    Done(waypost_core::status::Status),
    /// Durable; whoever claims the execution does it.
    Accepted,
}

impl Started {
    /// Waits for the end. `None` when the engine stopped first; the execution goes on elsewhere.
    pub async fn ended(self) -> Option<EndSummary> {
        match self.end.await {
            Ok(Answer::Ended(end)) => Some(end),
            _ => None,
        }
    }
}
