//! Inputs of the driver; `output.rs` has its outputs.

use std::collections::BTreeMap;
use std::sync::Arc;

use waypost_core::command::{FirstSignal, Report, Request};
use waypost_core::event::Origin;
use waypost_core::expr::{Contents, FetchedContent, Wanted};
use waypost_core::failure::Failure;
use waypost_core::frame::Parent;
use waypost_core::id::{ExecutionId, ExecutionNo, Token, WorkerId};
use waypost_core::json::Json;
use waypost_core::path::At;
use waypost_core::plan::Plan;
use waypost_core::state::State;
use waypost_core::status::Status;
use waypost_core::time::Timestamp;
use waypost_core::trigger::Fired;
use waypost_ports::store::{Appended, Fire, Idempotency, Mail, Share};
use waypost_ports::tasks::Holds;

pub use super::answer::{Answer, EndSummary};
use super::children::FoundChild;
pub use super::output::{
    Committed, Look, OfferOrder, Outgoing, Output, StoreWork, TaskOrder, TaskWork,
};
use super::suspicion::Suspicion;

/// Identifies a request, so that its answer reaches the caller.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ticket(pub u64);

/// Something that has come in.
#[derive(Debug)]
pub enum Input {
    /// A submission.
    Start(Start),
    /// The outcomes of appends.
    Appended(Vec<(ExecutionNo, Appended)>),
    /// A worker's report; `token_free` if it ends the delivery, and so frees its slot.
    Report { execution: ExecutionNo, report: Report, token_free: bool },
    /// A mark of an attempt that runs here.
    Mark { execution: ExecutionNo, report: Report, ticket: Ticket },
    /// A remote worker's report. With `only_here`, nothing is done unless the execution is in this
    /// memory, and the answer is [`Answer::NotHere`].
    TaskReport { report: super::TaskReport, ticket: Ticket, only_here: bool },
    /// The answer to [`TaskWork::Look`].
    WorkersSeen {
        share: Share,
        asked: Vec<(WorkerId, Token)>,
        /// The answers, in this order; absent if they could not be read.
        seen: Option<Vec<Holds>>,
        /// The handlers that live workers serve, if that was a question.
        serving: Vec<Arc<str>>,
    },
    /// A request of a caller in this process.
    Request { request: ControlRequest, ticket: Ticket },
    /// Mail from the inbox.
    Mail(Vec<Mail>),
    /// Claimed executions.
    Claimed {
        share: Share,
        loaded: Vec<Loaded>,
        /// How many of them come from a copy.
        copied: u64,
        /// Could more be claimed at once?
        more: bool,
        next_due: Option<Timestamp>,
        at: Timestamp,
        /// Did the store answer? If not, the claim may still be committed.
        answered: bool,
    },
    /// An execution of this instance was quarantined.
    Held,
    /// The result of [`Output::Fetch`]: what was wanted, or why it cannot be had.
    Fetched { execution: ExecutionNo, wanted: Wanted, content: FetchedContent },
    /// The result of [`StoreWork::Launch`]: what the node starts, or why it cannot.
    Launched { execution: ExecutionNo, node: At, attempt: u32, found: Result<FoundChild, Failure> },
    /// The result of [`StoreWork::Reload`].
    Reloaded(Box<Loaded>),
    /// The outcome of a request that went through the inbox.
    Delivered { execution: ExecutionNo, ticket: Ticket, answer: Answer },
    /// The result of [`StoreWork::Doubt`]: those that this instance owns are marked.
    Doubted { executions: Vec<ExecutionNo>, owned: Vec<ExecutionNo> },
    /// The inbox was read; `whole` if that was all there was.
    Collected { share: Share, whole: bool },
    /// Numbers for new executions.
    Numbers(std::ops::Range<i64>),
    /// Answer this ticket when the execution ends.
    AwaitEnd { execution: ExecutionNo, ticket: Ticket },
    /// The result of [`StoreWork::FindEnd`]: the execution has ended, or there is none.
    EndFound { execution: ExecutionNo, answer: Answer },
    /// The result of [`StoreWork::LoadEnded`]: an execution that a retry can run again, the
    /// request, and its ticket.
    Reopen(Box<(Loaded, ControlRequest, Ticket)>),
    /// A caller that awaited this execution's end is gone.
    Forget { execution: ExecutionNo, ticket: Ticket },
    /// Drive this execution, too.
    Adopt(ExecutionNo),
    /// Something may be claimable.
    Nudge,
    /// Another driver of this instance has freed something that this one waits for.
    Wake,
    /// There may be mail for an execution in memory.
    MailWaits,
    /// The instance's lease was renewed, until this time of the store.
    Renewed { until: Timestamp },
    /// The newest log format that every live instance reads. Events that need a newer one are not
    /// written: an older instance could not take the execution over, and a downgrade would not be
    /// possible.
    Readable(u16),
    /// The lease cannot be trusted any more: nothing begins until it is renewed.
    Lapsed,
    /// Start nothing new; running attempts may end.
    Drain,
    /// The time of a drain is over: close what still runs here as handed over.
    HandOver,
}

/// A submission.
#[derive(Debug)]
pub struct StartRequest {
    /// What to execute; its definition must be in the store.
    pub plan: Arc<Plan>,
    pub version: u32,
    /// What to start with; checked against the input schema by the caller.
    pub input: Json,
    /// The execution's key; made where absent.
    pub key: Option<ExecutionId>,
    pub idempotency: Option<Idempotency>,
    pub labels: BTreeMap<String, String>,
    pub actor: Option<Arc<str>>,
    /// A signal that is there before the first node begins.
    pub signal: Option<FirstSignal>,
    /// The contents of blobs of the input, for the concurrency key.
    pub contents: Contents,
    /// The fire of a trigger: what the execution knows of it, and what the store keeps.
    pub fire: Option<Box<(Fired, Fire)>>,
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
            signal: None,
            contents: Contents::default(),
            fire: None,
        }
    }
}

/// A submission on its way into the driver.
#[derive(Debug)]
pub struct Start {
    pub request: StartRequest,
    /// Answered when the submission is durable.
    pub ticket: Ticket,
    /// Answered when the execution ends.
    pub await_end: Option<Ticket>,
}

/// A control request, with the execution that it goes to.
#[derive(Clone, Debug)]
pub struct ControlRequest {
    pub execution: ExecutionNo,
    pub request: Request,
    /// Its origin. The message id identifies a repeated request; generated if absent.
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
    pub plan: Arc<Plan>,
    pub state: State,
    /// Its last frame.
    pub parent: Parent,
    /// The store's time of that frame.
    pub stored_at: Timestamp,
    /// Does its control row say that it is held? Its log does not have every quarantine.
    pub row_held: bool,
    pub suspicion: Suspicion,
    pub holds_permit: bool,
    /// The fold that its log requires so far.
    pub requires: u16,
    /// Bytes of log since the last snapshot, and of that snapshot.
    pub sizes: (usize, usize),
    pub mail: Vec<Mail>,
    /// Is there more mail in its inbox?
    pub mail_waits: bool,
}

impl Loaded {
    /// Does it act on nothing but a request to resume or cancel, or on its turn in a queue?
    pub fn is_held(&self) -> bool {
        self.row_held || !self.state.moves() || self.state.status == Status::Scheduling
    }
}
