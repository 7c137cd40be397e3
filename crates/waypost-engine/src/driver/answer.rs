//! The driver's answers to its callers.

use waypost_core::command::Refusal;
use waypost_core::event::MessageId;
use waypost_core::failure::Failure;
use waypost_core::id::{ExecutionId, ExecutionNo};
use waypost_core::json::Json;
use waypost_core::status::Status;
use waypost_ports::store::{FireOutcome, TakenName};

/// The answer to a question.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The submission is durable; the status is the one after its first frame.
    Started { execution: ExecutionNo, key: ExecutionId, status: Status },
    /// A name of the submission is taken.
    Exists { existing: ExecutionNo, taken: TakenName },
    /// So many hold the slots of the submission's concurrency key, and it does not wait for one.
    Rejected { holding: u64 },
    /// The item that fired was settled before, and started nothing.
    ItemSettled(FireOutcome),
    /// The trigger that fired has changed since.
    Stale,
    /// The definition, or the request, needs a log format that not all live instances read.
    ClusterTooOld { needs: u16, readable: u16 },
    /// The store refuses the submission's data.
    Poisoned(String),
    /// The request is durable and done; the status is the one after its frame. While it is
    /// `pausing`, a pause waits for running attempts to end.
    Done { status: Status, pausing: bool },
    /// The request is durable and will be done.
    Accepted(MessageId),
    /// The request changed nothing.
    Refused(Refusal),
    /// There is no such execution.
    Unknown,
    /// The execution has ended.
    Ended(EndSummary),
    /// The execution left this memory before the request was decided (it was parked, quarantined,
    /// or claimed by another instance): nothing was done. Ask again.
    Moved,
    /// The execution is not in this memory, and it was for this memory alone: nothing was done.
    NotHere,
    /// This engine is about to stop.
    Draining,
}

/// How an execution ended.
#[derive(Clone, Debug)]
pub struct EndSummary {
    pub status: Status,
    pub output: Option<Json>,
    pub failure: Option<Failure>,
}
