//! The engine as a library: open it over a store, start executions, talk to them, stop it.

mod error;
mod opening;
mod payloads;
mod relaying;
mod remote;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Semaphore, oneshot};
use waypost_core::command::Refusal;
use waypost_core::event::MessageId;
use waypost_core::id::{ExecutionId, ExecutionNo, InstanceId};
use waypost_core::reserved::is_reserved;
use waypost_core::status::Status;
use waypost_core::time::{Millis, Now};
use waypost_ports::blobs::Blobs;
use waypost_ports::clock::Clock;
use waypost_ports::mirror::{Health, Mirror};
use waypost_ports::nudge::{Nudge, Nudges};
use waypost_ports::relay::Relay;
use waypost_ports::secret::Secrets;
use waypost_ports::store::{About, Store, StoreError, TakenName};
use waypost_ports::tasks::Tasks;

pub use error::EngineError;
use relaying::Relaying;
pub use remote::Reported;

use crate::config::Config;
use crate::driver::{
    Answer, Committed, ControlRequest, EndSummary, Input, Start, StartRequest, Ticket,
};
use crate::links::CallbackLinks;
use crate::metrics::EngineMetrics;
use crate::shell::{Handlers, Payloads, Plans, Shared, TasksOrder, WorkerSecrets};
use crate::tokens::TokenIssuer;

/// Called on an engine thread with everything that has become durable, in order for each execution.
/// Must be quick.
pub type Observer = Arc<dyn Fn(&Committed) + Send + Sync>;

/// See [`Engine::announce_mail`].
pub type AnnounceMail = Arc<dyn Fn(&BTreeSet<Option<InstanceId>>) + Send + Sync>;

fn announce_mail(shared: &Shared, nudges: &dyn Nudges, owners: &BTreeSet<Option<InstanceId>>) {
    for owner in owners {
        match owner {
            Some(owner) if *owner == shared.instance => shared.inputs.push(Input::MailWaits),
            Some(owner) => nudges.send(Nudge::Mail(*owner)),
            None => {
                shared.inputs.push(Input::Nudge);
                nudges.send(Nudge::Claimable);
            }
        }
    }
}

/// The parts of an engine.
pub struct Parts {
    pub store: Arc<dyn Store>,
    pub plans: Arc<Plans>,
    pub handlers: Handlers,
    /// Where payloads go that are too large for the log.
    pub blobs: Arc<dyn Blobs>,
    /// Where the secrets of tasks come from; `NoSecrets` where there are none.
    pub secrets: Arc<dyn Secrets>,
    /// Which process this is: new at every start.
    pub instance: InstanceId,
    pub about: About,
    /// Where tasks for remote workers wait; `MemoryTasks` where there is one process.
    pub tasks: Arc<dyn Tasks>,
    /// How instances nudge each other; `Alone` if there is one.
    pub nudges: Arc<dyn Nudges>,
    /// Where copies go that others may read; `NoMirror` if there are none.
    pub mirror: Arc<dyn Mirror>,
    /// How reports are forwarded to the owner that the mirror names, if there is a relay.
    pub relay: Option<Arc<dyn Relay>>,
    pub clock: Arc<dyn Clock>,
    pub observer: Option<Observer>,
    pub config: Config,
}

/// An execution that was accepted: durable, whatever happens now.
pub struct Started {
    pub execution: ExecutionNo,
    /// The execution that this submission created; absent if the same submission was accepted
    /// before.
    pub new: Option<NewExecution>,
    /// Absent where it cannot be asked for.
    end: Option<AwaitedEnd>,
}

/// An execution that a submission created.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewExecution {
    pub key: ExecutionId,
    /// Its status after the first frame.
    pub status: Status,
}

/// The end of an execution, to come. Dropping it withdraws the question: an execution may sleep for
/// a year, and callers who have gone away must not be remembered as long.
struct AwaitedEnd {
    execution: Option<ExecutionNo>,
    ticket: Ticket,
    answer: oneshot::Receiver<Answer>,
    shared: Arc<Shared>,
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
        let open = self.shared.questions.forget(self.ticket);
        if let (true, Some(execution)) = (open, self.execution) {
            self.shared.inputs.push(Input::Forget { execution, ticket: self.ticket });
        }
    }
}

/// A running engine. Dropping it stops it at once, which loses nothing.
pub struct Engine {
    shared: Arc<Shared>,
    relaying: Option<Arc<Relaying>>,
    tasks: Arc<dyn Tasks>,
    mirror: Arc<dyn Mirror>,
    payloads: Payloads,
    issuer: TokenIssuer,
    nudges: Arc<dyn Nudges>,
    pub(crate) callbacks: CallbackLinks,
    worker_secrets: WorkerSecrets,
    /// Locked while the threads are joined, away from the runtime: so every caller of `stop` waits
    /// for the same end, also after one that has given up.
    threads: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

impl Engine {
    /// Lease duration of this instance.
    pub fn lease(&self) -> Millis {
        self.shared.lease.span()
    }

    /// How much of this instance's lease is left, at least.
    pub fn lease_remaining(&self) -> Millis {
        self.shared.lease.remaining(&*self.shared.clock)
    }

    /// Why the store accepts no writes, if they fail now: at once if it is full or read-only, after
    /// a second otherwise. Earlier requests are repeated until they are done, and the first
    /// successful write ends this.
    pub fn store_trouble(&self) -> Option<StoreError> {
        self.shared.vitals.trouble()
    }

    /// Waits until the store is full or read-only. Callers that await an answer need not wait
    /// longer then.
    pub async fn lasting_store_trouble(&self) -> StoreError {
        self.shared.vitals.lasting_trouble().await
    }

    /// How long ago the engine threads began their last steps, the longest of these times. Each makes two
    /// a second at least, unless it is busy with one.
    pub fn since_step(&self) -> Millis {
        self.shared.vitals.since_step(&*self.shared.clock)
    }

    /// Do the copies outside of the store work? Nothing depends on them but speed.
    pub fn mirror_health(&self) -> Health {
        self.mirror.health()
    }

    /// The store's time, as far as this instance knows it.
    pub fn time(&self) -> Now {
        self.shared.time.lock().now(&*self.shared.clock)
    }

    /// This process, to the store.
    pub fn instance(&self) -> InstanceId {
        self.shared.instance
    }

    /// Its metrics, also after it has stopped.
    pub fn metrics(&self) -> Arc<EngineMetrics> {
        Arc::clone(&self.shared.metrics)
    }

    /// Starts an execution. Returns when it is durable; waits in the queue while too many others do.
    pub async fn start(&self, mut request: StartRequest) -> Result<Started, EngineError> {
        if request.signal.as_ref().is_some_and(|signal| is_reserved(&signal.name)) {
            return Err(Refusal::ReservedSignal.into());
        }
        request.input = self.keep(request.input).await?;
        if let Some(signal) = &mut request.signal {
            signal.body = self.keep(signal.body.clone()).await?;
        }
        if request.plan.concurrency.is_some() {
            request.contents = self.contents_of(&request.input).await?;
        }
        let (ticket, answer) = self.ask(&self.shared.admission).await?;
        let mut end = self.ask_for_end(None);
        self.shared.inputs.push(Input::Start(Start {
            request,
            ticket,
            await_end: Some(end.ticket),
        }));
        let mut started = Started::of(answer.await.ok())?;
        if started.new.is_none() {
            return Ok(self.adopt(started.execution));
        }
        end.execution = Some(started.execution);
        started.end = Some(end);
        Ok(started)
    }

    /// Sends a request to an execution: a signal, a pause, a resumption, a cancellation. Returns
    /// when the request is durable.
    ///
    /// A request whose message was received before is rejected as [`Refusal::Duplicate`] and
    /// changes nothing, also if the first one was rejected; if the execution has ended, the refusal
    /// says that instead. A signal that is rejected by a limit ([`Refusal::is_passing`]) may be repeated.
    pub async fn request(&self, mut request: ControlRequest) -> Result<Requested, EngineError> {
        if let Some(payload) = request.request.payload_mut() {
            *payload = self.keep(payload.clone()).await?;
        }
        loop {
            let (ticket, answer) = self.ask(&self.shared.requests).await?;
            self.shared.inputs.push(Input::Request { request: request.clone(), ticket });
            return match answer.await {
                Ok(Answer::Done { status, pausing }) => Ok(Requested::Done { status, pausing }),
                Ok(Answer::Accepted(message)) => Ok(Requested::Accepted { message }),
                // It left memory meanwhile, and the request was not done: the inbox takes it now.
                Ok(Answer::Moved) => continue,
                Ok(Answer::Ended(end)) => Err(Refusal::Ended(end.status).into()),
                Ok(Answer::Rejected { holding }) => Err(EngineError::Rejected(holding)),
                other => Err(EngineError::of(other.ok())),
            };
        }
    }

    /// Waits for the end of any execution. `None` if there is no such execution, or the engine
    /// stopped first. Dropping this withdraws the question.
    pub async fn ended(&self, execution: ExecutionNo) -> Option<EndSummary> {
        self.await_end(execution).ended().await
    }

    /// Makes this engine drive an execution, under [`Scope::Adopted`](crate::config::Scope), and
    /// returns its end.
    pub fn adopt(&self, execution: ExecutionNo) -> Started {
        let end = self.await_end(execution);
        self.shared.inputs.push(Input::Adopt(execution));
        Started { execution, new: None, end: Some(end) }
    }

    /// Claims now.
    pub fn nudge(&self) {
        self.shared.inputs.push(Input::Nudge);
    }

    /// Executions of these owners got mail, or some that have none can be claimed: they are looked for now,
    /// here and at the instances that own them.
    pub fn announce_mail(&self, owners: impl Iterator<Item = Option<InstanceId>>) {
        announce_mail(&self.shared, &*self.nudges, &owners.collect());
    }

    /// The same, for the parts of a process that run beside the engine.
    pub fn mail_announcer(&self) -> AnnounceMail {
        let (shared, nudges) = (Arc::clone(&self.shared), Arc::clone(&self.nudges));
        Arc::new(move |owners| announce_mail(&shared, &*nudges, owners))
    }

    /// A question that takes a place in this queue until it is answered.
    async fn ask(
        &self,
        queue: &Arc<Semaphore>,
    ) -> Result<(Ticket, oneshot::Receiver<Answer>), EngineError> {
        let permit = Arc::clone(queue).acquire_owned().await;
        Ok(self.shared.questions.ask(Some(permit.map_err(|_| EngineError::Stopping)?)))
    }

    fn await_end(&self, execution: ExecutionNo) -> AwaitedEnd {
        let end = self.ask_for_end(Some(execution));
        self.shared.inputs.push(Input::AwaitEnd { execution, ticket: end.ticket });
        end
    }

    fn ask_for_end(&self, execution: Option<ExecutionNo>) -> AwaitedEnd {
        let (ticket, answer) = self.shared.questions.ask(None);
        AwaitedEnd { execution, ticket, answer, shared: Arc::clone(&self.shared) }
    }

    /// Stops: nothing new starts, attempts that run may end until the deadline, then everything is
    /// handed over. Calling it again with a shorter time stops sooner.
    pub async fn stop(&self, grace: Duration) {
        self.begin_stop(grace);
        let threads = Arc::clone(&self.threads);
        let joined = tokio::task::spawn_blocking(move || threads.lock().drain(..).for_each(join));
        drop(joined.await);
    }

    /// Waits until nothing is driven any more: after a stop, or because the engine has ended by
    /// itself, which only a bug of its own or of the store leads to. Its lease is not released
    /// before it is stopped.
    pub async fn over(&self) {
        self.shared.over.cancelled().await;
    }

    fn begin_stop(&self, grace: Duration) {
        self.shared.admission.close();
        self.shared.requests.close();
        self.shared.polls.close();
        self.shared.task_orders.push(TasksOrder::Drain);
        let deadline = Instant::now() + grace;
        let mut stop = self.shared.stop.lock();
        *stop = Some(stop.map_or(deadline, |old| old.min(deadline)));
        drop(stop);
        self.shared.inputs.push(Input::Drain);
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

/// The outcome of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Requested {
    /// Durable and done; the status is the one after it.
    Done { status: Status, pausing: bool },
    /// Durable; the next owner of the execution takes it, unless the execution ends first. See
    /// [`Receipt`](crate::Receipt) for what became of the message.
    Accepted { message: MessageId },
}

impl Started {
    /// What the driver's answer to a submission means, if there was one. Its end is not awaited.
    pub fn of(answer: Option<Answer>) -> Result<Self, EngineError> {
        let started = |execution, new| Ok(Self { execution, new, end: None });
        match answer {
            Some(Answer::Started { execution, key, status }) => {
                started(execution, Some(NewExecution { key, status }))
            }
            Some(Answer::Exists { existing, taken }) => match taken {
                TakenName::SameSubmission | TakenName::Item => started(existing, None),
                TakenName::Id => Err(EngineError::IdTaken(existing)),
                TakenName::IdempotencyKey => Err(EngineError::IdempotencyKeyTaken(existing)),
            },
            Some(Answer::Rejected { holding }) => Err(EngineError::Rejected(holding)),
            Some(Answer::ItemSettled(outcome)) => Err(EngineError::ItemSettled(outcome)),
            Some(Answer::Stale) => Err(EngineError::Stale),
            other => Err(EngineError::of(other)),
        }
    }

    /// Waits for the end. `None` if the engine stopped first; another instance continues the
    /// execution.
    pub async fn ended(self) -> Option<EndSummary> {
        self.end?.ended().await
    }
}
