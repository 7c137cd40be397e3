//! What goes into the driver and what comes out of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use waypost_core::command::Report;
use waypost_core::event::{Event, MessageId};
use waypost_core::frame::Parent;
use waypost_core::id::{ExecutionId, ExecutionNo, Token, WorkerId};
use waypost_core::json::Json;
use waypost_core::plan::Plan;
use waypost_core::state::State;
use waypost_core::time::Timestamp;
use waypost_ports::handler::Task;
use waypost_ports::mirror::Context;
use waypost_ports::store::{Append, Appended, Idempotency, Mail, MailBody};
use waypost_ports::tasks::{Holds, OfferId};

pub use super::answer::{Answer, EndSummary};
use super::suspicion::Suspicion;
use crate::sealed::OfferedTask;

/// Names a question, so that its answer finds back to whoever asked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ticket(pub u64);

/// Something that has come in.
#[derive(Debug)]
pub enum Input {
    /// Start an execution.
    Start(Start),
    /// What became of appends.
    Appended(Vec<(ExecutionNo, Appended)>),
    /// What a worker says.
    Report {
        /// Of which execution.
        execution: ExecutionNo,
        /// The report.
        report: Report,
        /// Does it end the delivery, and so free its slot?
        token_free: bool,
    },
    /// What a remote worker says.
    TaskReport {
        /// What it says.
        report: super::TaskReport,
        /// Where the answer goes.
        ticket: Ticket,
        /// Is it for this memory alone? Then, where the execution is not in it, nothing is done and
        /// the answer is [`Answer::Elsewhere`].
        only_here: bool,
    },
    /// What [`Output::LookAtWorkers`] saw.
    WorkersSeen {
        /// What was asked about.
        asked: Vec<(WorkerId, Token)>,
        /// The answers, in this order; absent where nobody could say.
        seen: Option<Vec<Holds>>,
        /// The handlers that live workers serve, where that was asked.
        serving: Vec<Arc<str>>,
    },
    /// A request of somebody in this process.
    Request {
        /// What is asked.
        request: Request,
        /// Where the answer goes.
        ticket: Ticket,
    },
    /// Mail from the inbox.
    Mail(Vec<Mail>),
    /// What was claimed.
    Claimed {
        /// The executions, folded.
        loaded: Vec<Loaded>,
        /// How many of them come from a copy.
        copied: u64,
        /// Could more be claimed at once?
        more: bool,
        /// When the next can.
        next_due: Option<Timestamp>,
        /// The store's time of the claim.
        at: Timestamp,
        /// Did the store answer? If not, it may have done it all the same.
        answered: bool,
    },
    /// An execution of this instance was quarantined.
    Held,
    /// What [`Output::Reload`] found.
    Reloaded(Box<Loaded>),
    /// What became of a request that went through the inbox.
    Delivered {
        /// To which execution.
        execution: ExecutionNo,
        /// Whose request.
        ticket: Ticket,
        /// What to answer.
        answer: Answer,
    },
    /// What [`Output::Doubt`] came to.
    Doubted {
        /// Those that were to be marked.
        executions: Vec<ExecutionNo>,
        /// Those of them that this instance owns: they are.
        owned: Vec<ExecutionNo>,
    },
    /// The inbox has been looked into.
    Collected {
        /// Was that all there was?
        whole: bool,
    },
    /// Numbers for new executions.
    Numbers(std::ops::Range<i64>),
    /// Tell this ticket when the execution ends.
    AwaitEnd {
        /// Which one.
        execution: ExecutionNo,
        /// Whom to tell.
        ticket: Ticket,
    },
    /// What [`Output::FindEnd`] found: the execution has ended, or there is none.
    EndFound {
        /// Which one.
        execution: ExecutionNo,
        /// What to answer.
        answer: Answer,
    },
    /// What [`Output::LoadEnded`] found: an execution that a retry can run again, what is asked of it,
    /// and who asks.
    Reopen(Box<(Loaded, Request, Ticket)>),
    /// Whoever awaited this execution's end has gone away.
    Forget {
        /// Which one.
        execution: ExecutionNo,
        /// Who.
        ticket: Ticket,
    },
    /// Drive this execution, too.
    Adopt(ExecutionNo),
    /// Something may be claimable.
    Nudge,
    /// There may be mail for an execution in memory.
    MailWaits,
    /// The instance's lease was renewed.
    Renewed {
        /// When it ends, by the store's time.
        until: Timestamp,
    },
    /// The newest fold that every living instance reads. What needs a newer one is not begun: whoever
    /// cannot read it could never take it over, and going back to an older version would not be free.
    Readable(u16),
    /// The lease cannot be trusted any more: nothing begins until it is renewed.
    Lapsed,
    /// Start nothing new; what runs may end.
    Drain,
    /// The time of a drain is over: close what still runs here as handed over.
    HandOver,
}

/// A submission.
#[derive(Debug)]
pub struct Start {
    /// What to execute.
    pub plan: Arc<Plan>,
    /// Its version of the workflow.
    pub version: u32,
    /// What to start with.
    pub input: Json,
    /// The execution's key, where the submitter chose one.
    pub key: Option<ExecutionId>,
    /// The submitter's idempotency key.
    pub idempotency: Option<Idempotency>,
    /// Labels to find it by.
    pub labels: BTreeMap<String, String>,
    /// Who submits.
    pub actor: Option<Arc<str>>,
    /// Answered when the submission is durable.
    pub ticket: Ticket,
    /// Answered when the execution ends.
    pub await_end: Option<Ticket>,
}

/// Something that is asked of an execution.
#[derive(Clone, Debug)]
pub struct Request {
    /// Which one.
    pub execution: ExecutionNo,
    /// What is asked.
    pub body: MailBody,
    /// The id by which the request is known when it is sent again; made where absent.
    pub message: Option<MessageId>,
    /// Who asks.
    pub actor: Option<Arc<str>>,
}

impl Request {
    /// A request with nothing but the necessary.
    pub fn new(execution: ExecutionNo, body: MailBody) -> Self {
        Self { execution, body, message: None, actor: None }
    }
}

/// An execution read back from the store.
#[derive(Debug)]
pub struct Loaded {
    /// Its plan.
    pub plan: Arc<Plan>,
    /// Its state.
    pub state: State,
    /// Its last frame.
    pub parent: Parent,
    /// The store's time of that frame.
    pub stored_at: Timestamp,
    /// Does its control row say that it is held? Its log does not say so of every quarantine.
    pub row_held: bool,
    /// The deaths that its control row counts against it, and whether it is in doubt.
    pub suspicion: Suspicion,
    /// Does it hold a permit of its concurrency key?
    pub holds_permit: bool,
    /// The fold that its log requires so far.
    pub requires: u16,
    /// Bytes of log since the last snapshot, and of that snapshot.
    pub sizes: (usize, usize),
    /// Mail that waits.
    pub mail: Vec<Mail>,
}

/// Something that must be done.
#[derive(Debug)]
pub enum Output {
    /// Append a frame; answer with [`Input::Appended`].
    Append(Append),
    /// Make an attempt; answer with [`Input::Report`].
    Run(TaskOrder),
    /// Tell a worker to stop.
    CancelTask(Token),
    /// Offer a task to remote workers.
    Offer(OfferOrder),
    /// Take an offer back, if nobody has taken it.
    Withdraw(OfferId),
    /// Tell a remote worker to stop.
    CancelRemote(WorkerId, Token),
    /// Look whether workers are alive and have what they began; answer with
    /// [`Input::WorkersSeen`].
    LookAtWorkers(Look),
    /// Answer a question.
    Answer(Ticket, Answer),
    /// Put mail into an inbox; answer with [`Input::Delivered`].
    Deliver(Outgoing),
    /// Claim executions; answer with [`Input::Claimed`].
    Claim {
        /// At most so many.
        limit: usize,
        /// None but these.
        only: Option<Vec<ExecutionNo>>,
        /// For a reconciliation: what is in memory.
        held: Option<Vec<ExecutionNo>>,
        /// May one suspect be among them?
        suspects: bool,
    },
    /// These were in hand at a death and are about to be decided: mark them as in doubt; answer with
    /// [`Input::Doubted`].
    Doubt(Vec<ExecutionNo>),
    /// A frame was refused. Read the execution again and, where this instance owns it by its control
    /// row, answer with [`Input::Reloaded`]; else not at all.
    Reload(ExecutionNo),
    /// Somebody awaits the end of an execution that is not in memory: it may have been. Answer with
    /// [`Input::EndFound`] where it has ended or does not exist, else not at all.
    FindEnd(ExecutionNo),
    /// Read an execution that has ended and is to be retried; answer with [`Input::Reopen`], or with
    /// [`Input::Delivered`] where it cannot be.
    LoadEnded(Box<Request>, Ticket),
    /// Look into the inbox; answer with [`Input::Mail`], then [`Input::Collected`].
    Collect {
        /// How much of what lies there was taken in before and stays until a frame deletes it: so much
        /// more than usual is to be read.
        known: usize,
    },
    /// Set numbers aside; answer with [`Input::Numbers`].
    ReserveNumbers,
    /// Renew the instance's lease ahead of time; answer with [`Input::Renewed`].
    Renew,
    /// Set an execution aside in the store alone.
    Hold {
        /// Which one.
        execution: ExecutionNo,
        /// Why.
        reason: String,
    },
    /// Events are durable: for whoever watches.
    Committed(Committed),
    /// An execution was parked with this: for whoever claims it next.
    Keep(Box<Context>),
    /// An execution that may have been parked has ended: nobody claims it any more.
    Forget(ExecutionId),
}

/// A request on its way to an inbox.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The mail.
    pub mail: Mail,
    /// Did the sender choose the message's id? Then a message of this id that is there already was
    /// sent before; otherwise it is this very one.
    pub chosen: bool,
    /// Whose request it is.
    pub ticket: Ticket,
}

impl Outgoing {
    /// The same after a try that was not answered: what is there may be from that try.
    #[must_use]
    pub fn again(self) -> Self {
        Self { chosen: false, ..self }
    }
}

/// A task, with the execution that its report goes to.
#[derive(Clone, Debug)]
pub struct TaskOrder {
    /// Whose.
    pub execution: ExecutionNo,
    /// The task.
    pub task: Task,
    /// Since when the attempt might have been made.
    pub since: Timestamp,
}

/// A task for remote workers.
#[derive(Clone, PartialEq, Debug)]
pub struct OfferOrder {
    /// Which attempt.
    pub id: OfferId,
    /// Which handler it needs.
    pub handler: Arc<str>,
    /// What whoever takes it is told.
    pub task: OfferedTask,
}

/// What to look for among the remote workers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Look {
    /// Are these workers alive, and do they have these attempts?
    pub held: Vec<(WorkerId, Token)>,
    /// Which handlers are served?
    pub serving: bool,
}

/// Events that have become durable together.
#[derive(Clone, Debug)]
pub struct Committed {
    /// Whose.
    pub execution: ExecutionNo,
    /// Its key.
    pub key: ExecutionId,
    /// The first event's position.
    pub first_seq: u64,
    /// The store's time.
    pub at: Timestamp,
    /// The events.
    pub events: Arc<[Event]>,
}
