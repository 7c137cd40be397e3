//! What goes into the driver; `output.rs` is what comes out of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use waypost_core::command::{Report, Request};
use waypost_core::event::Origin;
use waypost_core::frame::Parent;
use waypost_core::id::{ExecutionId, ExecutionNo, Token, WorkerId};
use waypost_core::json::Json;
use waypost_core::plan::Plan;
use waypost_core::state::State;
use waypost_core::time::Timestamp;
use waypost_ports::store::{Appended, Idempotency, Mail};
use waypost_ports::tasks::Holds;

pub use super::answer::{Answer, EndSummary};
pub use super::output::{
    Committed, Look, OfferOrder, Outgoing, Output, StoreWork, TaskOrder, TaskWork,
};
use super::suspicion::Suspicion;

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
    /// What [`TaskWork::Look`] saw.
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
        request: ControlRequest,
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
    /// What [`StoreWork::Reload`] found.
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
    /// What [`StoreWork::Doubt`] came to.
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
    /// What [`StoreWork::FindEnd`] found: the execution has ended, or there is none.
    EndFound {
        /// Which one.
        execution: ExecutionNo,
        /// What to answer.
        answer: Answer,
    },
    /// What [`StoreWork::LoadEnded`] found: an execution that a retry can run again, what is asked of it,
    /// and who asks.
    Reopen(Box<(Loaded, ControlRequest, Ticket)>),
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

/// A control request, with the execution that it goes to.
#[derive(Clone, Debug)]
pub struct ControlRequest {
    /// Which one.
    pub execution: ExecutionNo,
    /// What is asked.
    pub request: Request,
    /// Who asks. The message id identifies a repeated request; made where absent.
    pub origin: Origin,
}

impl ControlRequest {
    /// A request with nothing but the necessary.
    pub fn new(execution: ExecutionNo, request: Request) -> Self {
        Self { execution, request, origin: Origin::default() }
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
