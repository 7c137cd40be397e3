//! Events of an execution as a whole: owners, pauses, messages, ends, generations.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    BUDGETS_LOG_FORMAT, CHILDREN_LOG_FORMAT, MessageId, Origin, TRIGGERS_LOG_FORMAT,
    WAITS_LOG_FORMAT,
};
use crate::budget::SpendingLimits;
use crate::child::ParentLink;
use crate::failure::Failure;
use crate::id::{DefinitionHash, ExecutionId, InstanceId};
use crate::json::{Json, present};
use crate::plan::ConcurrencyPolicy;
use crate::time::Timestamp;
use crate::trigger::Fired;

/// A recorded fact about an execution. The names in the log begin with `Run`, but for two.
/// The table of `transitions` says what each means.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum RunEvent {
    #[serde(rename = "RunCreated")]
    Created(Box<RunCreated>),
    #[serde(rename = "RunOwned")]
    Owned {
        /// The new owner.
        instance: InstanceId,
        /// Grows by one with each owner.
        epoch: u32,
    },
    /// It is queued for a permit of its concurrency key, and unowned. Recorded again, with the same
    /// content, when an owner has returned it to its place in the queue.
    #[serde(rename = "RunQueued")]
    Queued {
        /// The key, within its workflow.
        key: Arc<str>,
        /// How many executions of the key may be under way at once.
        limit: u32,
        /// What happens to a submission while that many are under way.
        policy: ConcurrencyPolicy,
    },
    #[serde(rename = "RunAdmitted")]
    Admitted {},
    #[serde(rename = "RunPauseRequested")]
    PauseRequested {
        /// Whether running attempts are cancelled instead of awaited.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        now: bool,
        /// Why, as the request gave it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Its origin.
        #[serde(default, skip_serializing_if = "Origin::is_unknown")]
        origin: Origin,
    },
    /// The budget has no room for an attempt, whatever those under way give back: a pause begins.
    #[serde(rename = "RunBudgetExhausted")]
    BudgetExhausted {
        /// The path of the node whose attempt does not fit.
        node: Arc<str>,
        /// What it may use, and what is spent, in words.
        reason: String,
    },
    #[serde(rename = "RunBudgetSet")]
    BudgetSet {
        /// The new limits; what is absent stays as it is. Money in millionths.
        #[serde(flatten)]
        limits: SpendingLimits,
        /// Why, as the request gave it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Who asked, through which message.
        #[serde(default, skip_serializing_if = "Origin::is_unknown")]
        origin: Origin,
    },
    #[serde(rename = "RunPaused")]
    Paused {
        /// Why it is parked.
        reason: PauseReason,
    },
    #[serde(rename = "RunResumed")]
    Resumed {
        /// Why, as the request gave it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Who asked, through which message, if it was requested.
        #[serde(default, skip_serializing_if = "Origin::is_unknown")]
        origin: Origin,
    },
    #[serde(rename = "RunQuarantined")]
    Quarantined {
        /// The reason.
        reason: String,
    },
    #[serde(rename = "RunEnding")]
    Ending {
        /// What fixes the end; later causes do not change it.
        cause: EndCause,
        /// When attempts that were cancelled and have not ended are abandoned.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grace: Option<Timestamp>,
    },
    #[serde(rename = "RunCompleted")]
    Completed {
        /// The result of the output nodes.
        output: Json,
    },
    #[serde(rename = "RunFailed")]
    Failed {
        /// The first failure that was not handled.
        failure: Failure,
        /// The nodes that failed unhandled.
        nodes: Vec<Arc<str>>,
        /// The result of the output nodes, under `failurePolicy: partial`.
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
        output: Option<Json>,
    },
    #[serde(rename = "RunCancelled")]
    Cancelled {
        /// Why, as the request gave it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    #[serde(rename = "RunTimedOut")]
    TimedOut {},
    #[serde(rename = "RunReopened")]
    Reopened {
        /// The number of the generation, from 2.
        generation: u32,
        /// The nodes that will run again.
        nodes: Vec<Arc<str>>,
        /// When this generation times out, if the definition has a timeout.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline: Option<Timestamp>,
        /// Why, as the request gave it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Who asked, through which message.
        #[serde(default, skip_serializing_if = "Origin::is_unknown")]
        origin: Origin,
    },
    SignalReceived {
        /// The signal's name.
        name: Arc<str>,
        /// Its body.
        body: Json,
        /// Its origin.
        origin: Origin,
    },
    /// All who waited for a signal that took several events have it.
    SignalDelivered {
        /// Its message.
        message: MessageId,
    },
    MessageIgnored {
        /// The message.
        message: MessageId,
        /// Why it changed nothing.
        reason: String,
        /// It was refused for now: the message may be sent again under the same id.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        repeatable: bool,
    },
}

/// The first event of every execution.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunCreated {
    /// The id of the execution.
    pub key: ExecutionId,
    /// The workflow.
    pub workflow: Arc<str>,
    /// The version of the workflow.
    pub version: u32,
    /// The hash of the definition.
    pub definition: DefinitionHash,
    /// What it was started with.
    pub input: Json,
    /// The labels of the submission.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// When it times out, if the definition has a timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// Who submitted it, through which message.
    #[serde(default, skip_serializing_if = "Origin::is_unknown")]
    pub origin: Origin,
    /// The execution that started it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Box<ParentLink>>,
    /// The fire of a trigger that it began with, if one started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<Box<Fired>>,
}

/// Why an execution is parked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseReason {
    /// It has nothing to do until a wait ends: WAITING.
    Waits,
    /// A person paused it: PAUSED. A wait that ends does not resume it.
    User,
    /// It is ENDING, and has nothing to do until the executions that it started have ended.
    Children,
}

/// The cause of an execution's end.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndCause {
    /// A request to cancel, by a person or by a concurrency policy.
    Cancel {
        /// Why, as the request gave it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Who asked, through which message.
        #[serde(default, skip_serializing_if = "Origin::is_unknown")]
        origin: Origin,
    },
    /// A failure that was not handled.
    Failure {
        /// The node that failed.
        node: Arc<str>,
        /// The failure.
        failure: Failure,
    },
    /// Its concurrency key cannot be evaluated.
    NotQueued {
        /// The failure.
        failure: Failure,
    },
    /// It took longer than its timeout.
    Deadline,
}

impl RunEvent {
    pub(super) fn payload_bytes(&self) -> usize {
        match self {
            Self::Created(created) => created.input.bytes(),
            Self::Completed { output } => output.bytes(),
            Self::Failed { failure, output, .. } => {
                failure.payload_bytes() + output.as_ref().map_or(0, Json::bytes)
            }
            Self::Ending {
                cause: EndCause::Failure { failure, .. } | EndCause::NotQueued { failure },
                ..
            } => failure.payload_bytes(),
            Self::SignalReceived { body, .. } => body.bytes(),
            Self::Owned { .. }
            | Self::Queued { .. }
            | Self::Admitted {}
            | Self::PauseRequested { .. }
            | Self::BudgetExhausted { .. }
            | Self::BudgetSet { .. }
            | Self::Paused { .. }
            | Self::Resumed { .. }
            | Self::Quarantined { .. }
            | Self::Ending { .. }
            | Self::Cancelled { .. }
            | Self::TimedOut {}
            | Self::Reopened { .. }
            | Self::SignalDelivered { .. }
            | Self::MessageIgnored { .. } => 0,
        }
    }

    /// The lowest log format that can read it.
    pub fn requires(&self) -> u16 {
        match self {
            Self::Queued { .. } | Self::Admitted {} => 3,
            Self::BudgetExhausted { .. } | Self::BudgetSet { .. } => BUDGETS_LOG_FORMAT,
            Self::Created(created) if created.trigger.is_some() => TRIGGERS_LOG_FORMAT,
            Self::Created(created) if created.parent.is_some() => CHILDREN_LOG_FORMAT,
            Self::Paused { reason: PauseReason::Children } => CHILDREN_LOG_FORMAT,
            Self::SignalDelivered { .. } => WAITS_LOG_FORMAT,
            Self::Created(_)
            | Self::Owned { .. }
            | Self::PauseRequested { .. }
            | Self::Paused { .. }
            | Self::Resumed { .. }
            | Self::Quarantined { .. }
            | Self::Ending { .. }
            | Self::Completed { .. }
            | Self::Failed { .. }
            | Self::Cancelled { .. }
            | Self::TimedOut {}
            | Self::Reopened { .. }
            | Self::SignalReceived { .. }
            | Self::MessageIgnored { .. } => 1,
        }
    }

    /// Is it one of the four that end a generation?
    pub fn is_end(&self) -> bool {
        self.row().end().is_some()
    }
}
