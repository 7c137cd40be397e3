//! Why the engine does not fulfil a request.

use waypost_core::command::Refusal;
use waypost_core::id::ExecutionNo;
use waypost_ports::store::{FireOutcome, StoreError};

use crate::driver::Answer;
use crate::sealed_secrets::SealError;
use crate::shell::{NotKept, NotScrubbed};

/// Why the engine did not fulfil a request.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    #[error("another execution has this id")]
    IdTaken(ExecutionNo),
    #[error("the idempotency key was used for another submission")]
    IdempotencyKeyTaken(ExecutionNo),
    #[error("{0} executions hold the permits of this concurrency key, and its policy is to reject")]
    Rejected(u64),
    /// The item of the trigger was settled before; nothing was stored.
    #[error("this item was settled before, without an execution: {}", .0.name())]
    ItemSettled(FireOutcome),
    /// The trigger that fired was changed since; nothing was stored.
    #[error("the trigger was paused, changed or removed meanwhile")]
    Stale,
    /// A payload was not kept, so nothing was taken.
    #[error(transparent)]
    NotKept(#[from] NotKept),
    #[error(
        "the report has {0} bytes; at most {max} are kept",
        max = waypost_core::limits::PAYLOAD_BYTES_MAX
    )]
    TooLarge(usize),
    /// Nothing was stored: an older instance could not take the execution over, or read the request.
    #[error(
        "this needs log format {needs}, and an instance of this cluster reads only {readable}; upgrade all instances first"
    )]
    ClusterTooOld { needs: u16, readable: u16 },
    #[error("the store rejects the submission: {0}")]
    Poisoned(String),
    /// The request changed nothing.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Secrets cannot be sealed to the key of a poll.
    #[error(transparent)]
    BadPublicKey(#[from] SealError),
    /// A report cannot be searched for the secrets of its task now, so it was not taken.
    #[error("the secrets of the task cannot be read on this instance: {0}")]
    SecretsUnreadable(String),
    #[error("there is no such execution")]
    Unknown,
    /// The engine is stopping, and has taken nothing.
    #[error("the engine is stopping")]
    Stopping,
    /// The engine ended before the store had answered: it may have been taken, now or soon, or never.
    #[error("the engine stopped before it answered; the request may or may not have been accepted")]
    Unanswered,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<NotScrubbed> for EngineError {
    fn from(error: NotScrubbed) -> Self {
        match error {
            NotScrubbed::Store(error) => Self::Store(error),
            NotScrubbed::Unreadable(reason) => Self::SecretsUnreadable(reason),
        }
    }
}

impl EngineError {
    /// The error for an answer that is none to the question, or for none at all.
    pub(super) fn of(answer: Option<Answer>) -> Self {
        match answer {
            Some(Answer::Refused(refusal)) => Self::Refused(refusal),
            Some(Answer::Unknown) => Self::Unknown,
            Some(Answer::Poisoned(reason)) => Self::Poisoned(reason),
            Some(Answer::ClusterTooOld { needs, readable }) => {
                Self::ClusterTooOld { needs, readable }
            }
            Some(_) => Self::Stopping,
            None => Self::Unanswered,
        }
    }
}
