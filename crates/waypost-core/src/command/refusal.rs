//! The core's reasons to reject a command.

use std::sync::Arc;

use crate::expr::Wanted;
use crate::id::ExecutionId;
use crate::limits::MAP_CONCURRENCY_MAX;
use crate::status::{NodeStatus, Status};

/// Why a command changed nothing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    #[error("the execution has ended: {0}")]
    Ended(Status),
    #[error("the execution is already ending")]
    Ending,
    /// The report is about an attempt that is not the current one.
    #[error("stale report: node {node} is {status} at attempt {attempt}")]
    Stale { node: Arc<str>, status: NodeStatus, attempt: u32 },
    /// The sender of the report does not hold the attempt.
    #[error("attempt {attempt} of node {node} belongs to another worker")]
    ForeignToken { node: Arc<str>, attempt: u32 },
    #[error("the definition has no node {0:?}")]
    UnknownNode(Arc<str>),
    /// The node is in an iteration that is over or has not begun.
    #[error("node {0:?} is in a body that is not open")]
    Closed(Arc<str>),
    #[error("the execution is not paused")]
    NotPaused,
    /// It only waits; time or a signal will resume it.
    #[error(
        "nothing to resume: the execution is waiting for a timer or signal and will continue by itself"
    )]
    Waits,
    /// It has not begun: there is nothing that a pause would hold.
    #[error("the execution is queued for its concurrency key and has not started")]
    Queued,
    #[error("the execution does not wait for a permit of a concurrency key")]
    NotQueued,
    #[error("the execution is already paused")]
    AlreadyPaused,
    #[error("the execution is paused; resume it before you complete a wait")]
    Paused,
    #[error("there is no wait {0} that is open")]
    NoSuchWait(u64),
    #[error("wait {0} is not an approval, and is not decided")]
    NotAnApproval(u64),
    #[error("wait {0} is an approval: only a decision ends it")]
    NeedsDecision(u64),
    #[error("{by} may not decide this approval; its approvers are {approvers}")]
    NotAnApprover { by: Arc<str>, approvers: String },
    #[error(
        "names of signals that begin with `waypost.` or `waypost/` are reserved: only Waypost sends such signals"
    )]
    ReservedSignal,
    /// The wait has ended, or its filter does not pass the event.
    #[error("no node waits for this event")]
    EventNotAwaited,
    /// The operation that the callback is for.
    #[error("the callback of operation {0:?} was already received")]
    CallbackReceived(Arc<str>),
    /// The operation that the callback is for.
    #[error("operation {0:?} is over: its node has ended, timed out or started another one")]
    OperationOver(Arc<str>),
    #[error("the form is not JSON")]
    BadForm,
    #[error("the result of the message of wait {0} was already received")]
    ResultReceived(u64),
    #[error("a message with this id was already received")]
    Duplicate,
    #[error("{0} signals already wait for this execution, which is the limit")]
    TooManySignals(usize),
    #[error(
        "the signals that wait for this execution may have {0} bytes together, and with this one they would have more, so it is not kept; the limit is `early_signals_bytes_max`"
    )]
    SignalsTooLarge(usize),
    #[error(
        "only an execution that failed, timed out or was cancelled can be retried; this one is {0}"
    )]
    NotReopenable(Status),
    #[error("the execution has something to do")]
    Busy,
    #[error("no node waits for the end of this execution")]
    NotAwaited,
    #[error("execution {0} must end first; cancel or complete it there")]
    WaitsForChild(ExecutionId),
    #[error("the definition has no node {0:?}")]
    NoSuchNode(Arc<str>),
    #[error("map {node} has {count} items, numbered from 0: there is no item {index}")]
    NoSuchItem { node: Arc<str>, index: u64, count: u64 },
    #[error("{0} is not a map: only maps can be tuned, and only items of maps can be cancelled")]
    NotAMap(Arc<str>),
    #[error("{0} is a node, and not an item of a map, such as each[17]")]
    NotAnItem(Arc<str>),
    /// The map, or a body that it is in.
    #[error("map {0} is not open: it has not begun, or has ended")]
    MapNotOpen(Arc<str>),
    #[error("{0} is neither a map nor a loop, and has no items")]
    NoItems(Arc<str>),
    #[error("{0} is in an item or iteration that is not open, and only the log has what was in it")]
    NotListed(Arc<str>),
    #[error("item {0} has not begun, and only an item that is open can be cancelled")]
    ItemPending(Arc<str>),
    #[error("item {0} has ended")]
    ItemEnded(Arc<str>),
    #[error("item {0} is already ending")]
    ItemEnding(Arc<str>),
    #[error(
        "a map is tuned with `held`, with a `concurrency` from 1 to {MAP_CONCURRENCY_MAX}, or with both"
    )]
    BadTuning,
    #[error("the definition of this execution has no `budget`")]
    NoBudget,
    #[error("a budget is changed with `tokens`, with `money`, or with both")]
    BadBudget,
    #[error(
        "the execution has ended: {0}; its budget is changed together with a retry: `waypost retry EXECUTION --tokens N`, or `--money AMOUNT`"
    )]
    RaisedWithRetry(Status),
    /// The pause is in the same frame: no instance owns it any more.
    #[error("the execution was paused at this moment; repeat the request")]
    JustPaused,
    /// Decide the command again when these contents are at hand.
    #[error("the content of {} blobs is needed first", .0.len())]
    Missed(Vec<Wanted>),
}

impl Refusal {
    /// Is it only for now? The request may be repeated with its message id. It left no trace in the log, or,
    /// where it came as mail, a `MessageIgnored` that is repeatable.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::TooManySignals(_) | Self::SignalsTooLarge(_))
    }
}
