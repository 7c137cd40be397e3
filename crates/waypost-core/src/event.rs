//! Events: the recorded facts about an execution, in the past tense. The log is made of these and
//! the state is nothing but their fold.
//!
//! On disk an event is `{"<Type>":{…}}`, so that payloads stay raw text (a type field inside the
//! object would make serde buffer and re-parse them). Fields are only ever added, with a default;
//! a change that old readers must not skip raises [`LOG_FORMAT`].

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::id::{DefinitionHash, ExecutionId, InstanceId, Token, WorkerId};
use crate::json::Json;
use crate::plan::ConcurrencyPolicy;
use crate::time::{Millis, Timestamp};

/// The newest fold this build knows; frames name the lowest one that can read them.
///
/// 2: people end waits (`NodeResumed` has an origin, and may come before a retry).
///
/// 3: executions wait for a permit of their concurrency key (`RunQueued`, `RunAdmitted`); attempts are made
/// elsewhere (`NodeStarted` has a remote worker, and outlives its owner).
///
/// 4: a failure may pass its node's `onError` by (`on_error_skipped` of the failure in `NodeFailed`).
pub const LOG_FORMAT: u16 = 4;

/// The fold that knows of attempts made remotely. An engine that writes an older one has none made.
pub const REMOTE_LOG_FORMAT: u16 = 3;

/// A message's id, by which duplicates are known.
pub type MessageId = Arc<str>;

/// A recorded fact.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Event {
    /// The execution exists. Always the first.
    RunCreated(Box<RunCreated>),
    /// An instance owns the execution from here on; earlier owners are fenced off.
    RunOwned {
        /// Who.
        instance: InstanceId,
        /// Grows by one with each owner.
        epoch: u32,
    },
    /// It stands in the queue for a permit of its concurrency key, and nobody owns it. Comes again, with
    /// the same content, where somebody owned it for a while and it went back to its place.
    RunQueued {
        /// The key, within its workflow.
        key: Arc<str>,
        /// How many executions of the key may be under way at once.
        limit: u32,
        /// What happens where that many are.
        policy: ConcurrencyPolicy,
    },
    /// It holds a permit of its concurrency key, until it ends.
    RunAdmitted {},
    /// A user asked for a pause; attempts that run may end first.
    RunPauseRequested {
        /// Cancel what runs instead of awaiting it?
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        now: bool,
        /// Who asked, through which message.
        #[serde(default, skip_serializing_if = "Origin::is_unknown")]
        origin: Origin,
    },
    /// Nobody owns it any more and nothing is in memory.
    RunPaused {
        /// Why.
        reason: PauseReason,
    },
    /// It goes on.
    RunResumed {
        /// Who asked, where somebody did.
        #[serde(default, skip_serializing_if = "Origin::is_unknown")]
        origin: Origin,
    },
    /// It cannot go on without a person; everything else does.
    RunQuarantined {
        /// What is wrong.
        reason: String,
    },
    /// The end is fixed; every node that was PENDING is CANCELLED by this.
    RunEnding {
        /// What fixes the end. Later causes are noted, not obeyed.
        cause: EndCause,
        /// When attempts that were told to stop are given up.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grace: Option<Timestamp>,
    },
    /// Every node settled.
    RunCompleted {
        /// What the output nodes gave.
        output: Json,
    },
    /// A failure was not handled.
    RunFailed {
        /// The first one.
        failure: Failure,
        /// The nodes that failed unhandled.
        nodes: Vec<Arc<str>>,
        /// What the output nodes gave, under `failurePolicy: partial`.
        #[serde(
            default,
            skip_serializing_if = "Option::is_none",
            deserialize_with = "crate::json::present"
        )]
        output: Option<Json>,
    },
    /// It was cancelled.
    RunCancelled {
        /// Why, as the canceller said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// It took longer than its timeout.
    RunTimedOut {},
    /// A retry opened the next generation; the named nodes are PENDING again.
    RunReopened {
        /// Its number.
        generation: u32,
        /// The nodes that will run again.
        nodes: Vec<Arc<str>>,
        /// When this generation must have ended, where the definition has a timeout.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline: Option<Timestamp>,
        /// Why, in the words of the person who asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Who asked.
        #[serde(default, skip_serializing_if = "Origin::is_unknown")]
        origin: Origin,
    },
    /// A signal came in. What it does is in the events that follow.
    SignalReceived {
        /// The signal's name.
        name: Arc<str>,
        /// Its body.
        body: Json,
        /// Who sent it, through which message.
        origin: Origin,
    },
    /// A message was consumed and changed nothing.
    MessageIgnored {
        /// Which one.
        message: MessageId,
        /// Why.
        reason: String,
    },
    /// An attempt may be made.
    NodeScheduled {
        /// The node's path.
        node: Arc<str>,
        /// From 1.
        attempt: u32,
        /// The events that settled its conditions.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        cause: Vec<u64>,
        /// When all attempts of the node must have ended. With the first of them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline: Option<Timestamp>,
    },
    /// An attempt is being made.
    NodeStarted {
        /// The node's path.
        node: Arc<str>,
        /// From 1.
        attempt: u32,
        /// The instance in a slot of which it is made; absent where the engine itself makes it,
        /// and where a remote worker does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        worker: Option<InstanceId>,
        /// The remote worker that makes it, whoever owns the execution meanwhile.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remote: Option<WorkerId>,
        /// The right to report on it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token: Option<Token>,
        /// When its worker is given up, if it stays silent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        due: Option<Timestamp>,
    },
    /// An attempt left a mark from which a later one may go on.
    NodeCheckpointed {
        /// The node's path.
        node: Arc<str>,
        /// From 1.
        attempt: u32,
        /// The mark.
        data: Json,
        /// Which mark of its attempt, from 1; 0 where nobody counted.
        #[serde(default, skip_serializing_if = "crate::json::is_zero")]
        number: u32,
    },
    /// The node is done.
    NodeCompleted {
        /// The node's path.
        node: Arc<str>,
        /// From 1.
        attempt: u32,
        /// Its output; absent for `null`.
        #[serde(
            default,
            skip_serializing_if = "Option::is_none",
            deserialize_with = "crate::json::present"
        )]
        output: Option<Json>,
        /// The branch it selected.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<Arc<str>>,
        /// Variables it set.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        variables: BTreeMap<Arc<str>, Json>,
    },
    /// An attempt failed; the node did only if `end` says so.
    NodeFailed {
        /// The node's path.
        node: Arc<str>,
        /// From 1.
        attempt: u32,
        /// What went wrong.
        failure: Failure,
        /// What becomes of the node.
        end: FailureEnd,
        /// How long the next attempt waits at least, from when this was decided.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wait: Option<Millis>,
    },
    /// The node waits durably.
    NodeWaiting {
        /// The node's path.
        node: Arc<str>,
        /// From 1.
        attempt: u32,
        /// For what.
        wait: Wait,
        /// How long it lasts at least, from when this was decided; absent where it lasts until a time
        /// that the definition names, or for ever.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        span: Option<Millis>,
    },
    /// What the node waited for has come, or somebody ended its wait. A retry goes on with
    /// NodeScheduled.
    NodeResumed {
        /// The node's path.
        node: Arc<str>,
        /// From 1.
        attempt: u32,
        /// The signal's message that ended the wait; absent where its time or somebody did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<MessageId>,
        /// Who ended it, where somebody did; then it has a message.
        #[serde(default, skip_serializing_if = "Origin::is_unknown")]
        origin: Origin,
    },
    /// The node's conditions can not be met.
    NodeSkipped {
        /// The node's path.
        node: Arc<str>,
        /// The events that settled its conditions.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        cause: Vec<u64>,
    },
    /// The node was stopped.
    NodeCancelled {
        /// The node's path.
        node: Arc<str>,
        /// Why.
        reason: CancelReason,
    },
}

/// The first event of every execution.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunCreated {
    /// The name of the execution outside the engine.
    pub key: ExecutionId,
    /// The workflow.
    pub workflow: Arc<str>,
    /// The definition's version of it.
    pub version: u32,
    /// The definition itself.
    pub definition: DefinitionHash,
    /// What it was started with.
    pub input: Json,
    /// Labels to find it by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// When it must have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// Who started it.
    #[serde(default, skip_serializing_if = "Origin::is_unknown")]
    pub origin: Origin,
}

/// Who asked for something, and through which message.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Origin {
    /// Absent where the command came straight to the owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageId>,
    /// A person, a key, a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Arc<str>>,
}

impl Origin {
    /// Is nothing known?
    pub fn is_unknown(&self) -> bool {
        self.message.is_none() && self.actor.is_none()
    }
}

/// Why an execution is PAUSED.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseReason {
    /// Nothing to do until a wait ends.
    Waits,
    /// A user said so; waits that end are noted and do not resume it.
    User,
}

/// What fixed the end of an execution.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndCause {
    /// A request.
    Cancel {
        /// Why, as the canceller said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Who.
        #[serde(default, skip_serializing_if = "Origin::is_unknown")]
        origin: Origin,
    },
    /// An unhandled failure.
    Failure {
        /// Of this node.
        node: Arc<str>,
        /// What went wrong.
        failure: Failure,
    },
    /// Its concurrency key cannot be evaluated, so that it can not even wait for its turn.
    NotQueued {
        /// What went wrong.
        failure: Failure,
    },
    /// The execution's timeout.
    Deadline,
}

/// What a failed attempt means for its node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureEnd {
    /// The next attempt begins at this time.
    RetryAt(Timestamp),
    /// The attempt was lost, through no fault of the node: the next one begins at this time, and
    /// this one does not count.
    Abandoned(Timestamp),
    /// The node is FAILED.
    Final,
    /// The node is TIMED_OUT.
    TimedOut,
}

/// A durable reason not to go on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// Until a time.
    Delay {
        /// When it ends.
        due: Timestamp,
    },
    /// For a signal.
    Signal {
        /// Its name.
        name: Arc<str>,
        /// When waiting becomes a failure.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        due: Option<Timestamp>,
    },
    /// For its next attempt. Never in a NodeWaiting: NodeFailed opens it.
    Retry {
        /// When it begins.
        due: Timestamp,
    },
}

impl Wait {
    /// When time alone ends it.
    pub fn due(&self) -> Option<Timestamp> {
        match self {
            Self::Delay { due } | Self::Retry { due } => Some(*due),
            Self::Signal { due, .. } => *due,
        }
    }
}

/// Why a node was stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelReason {
    /// The execution is ending.
    Ending,
    /// A join it leads to fired without it.
    Join,
    /// The worker did not stop in time.
    Grace,
}

impl Event {
    /// The type's name, as it stands in the log.
    pub fn name(&self) -> &'static str {
        match self {
            Self::RunCreated(_) => "RunCreated",
            Self::RunOwned { .. } => "RunOwned",
            Self::RunQueued { .. } => "RunQueued",
            Self::RunAdmitted {} => "RunAdmitted",
            Self::RunPauseRequested { .. } => "RunPauseRequested",
            Self::RunPaused { .. } => "RunPaused",
            Self::RunResumed { .. } => "RunResumed",
            Self::RunQuarantined { .. } => "RunQuarantined",
            Self::RunEnding { .. } => "RunEnding",
            Self::RunCompleted { .. } => "RunCompleted",
            Self::RunFailed { .. } => "RunFailed",
            Self::RunCancelled { .. } => "RunCancelled",
            Self::RunTimedOut {} => "RunTimedOut",
            Self::RunReopened { .. } => "RunReopened",
            Self::SignalReceived { .. } => "SignalReceived",
            Self::MessageIgnored { .. } => "MessageIgnored",
            Self::NodeScheduled { .. } => "NodeScheduled",
            Self::NodeStarted { .. } => "NodeStarted",
            Self::NodeCheckpointed { .. } => "NodeCheckpointed",
            Self::NodeCompleted { .. } => "NodeCompleted",
            Self::NodeFailed { .. } => "NodeFailed",
            Self::NodeWaiting { .. } => "NodeWaiting",
            Self::NodeResumed { .. } => "NodeResumed",
            Self::NodeSkipped { .. } => "NodeSkipped",
            Self::NodeCancelled { .. } => "NodeCancelled",
        }
    }

    /// The path of the node it is about.
    pub fn node(&self) -> Option<&Arc<str>> {
        match self {
            Self::NodeScheduled { node, .. }
            | Self::NodeStarted { node, .. }
            | Self::NodeCheckpointed { node, .. }
            | Self::NodeCompleted { node, .. }
            | Self::NodeFailed { node, .. }
            | Self::NodeWaiting { node, .. }
            | Self::NodeResumed { node, .. }
            | Self::NodeSkipped { node, .. }
            | Self::NodeCancelled { node, .. } => Some(node),
            Self::RunCreated(_)
            | Self::RunOwned { .. }
            | Self::RunQueued { .. }
            | Self::RunAdmitted {}
            | Self::RunPauseRequested { .. }
            | Self::RunPaused { .. }
            | Self::RunResumed { .. }
            | Self::RunQuarantined { .. }
            | Self::RunEnding { .. }
            | Self::RunCompleted { .. }
            | Self::RunFailed { .. }
            | Self::RunCancelled { .. }
            | Self::RunTimedOut {}
            | Self::RunReopened { .. }
            | Self::SignalReceived { .. }
            | Self::MessageIgnored { .. } => None,
        }
    }

    /// The lowest fold that can read it.
    pub fn requires(&self) -> u16 {
        match self {
            Self::NodeStarted { remote: Some(_), .. } => REMOTE_LOG_FORMAT,
            Self::RunQueued { .. } | Self::RunAdmitted {} => 3,
            Self::NodeFailed { failure, .. } if failure.on_error_skipped => 4,
            Self::NodeResumed { origin, .. } if !origin.is_unknown() => 2,
            Self::RunCreated(_)
            | Self::RunOwned { .. }
            | Self::RunPauseRequested { .. }
            | Self::RunPaused { .. }
            | Self::RunResumed { .. }
            | Self::RunQuarantined { .. }
            | Self::RunEnding { .. }
            | Self::RunCompleted { .. }
            | Self::RunFailed { .. }
            | Self::RunCancelled { .. }
            | Self::RunTimedOut {}
            | Self::RunReopened { .. }
            | Self::SignalReceived { .. }
            | Self::MessageIgnored { .. }
            | Self::NodeScheduled { .. }
            | Self::NodeStarted { .. }
            | Self::NodeCheckpointed { .. }
            | Self::NodeCompleted { .. }
            | Self::NodeFailed { .. }
            | Self::NodeWaiting { .. }
            | Self::NodeResumed { .. }
            | Self::NodeSkipped { .. }
            | Self::NodeCancelled { .. } => 1,
        }
    }

    /// Is it one of the four that end a generation?
    pub fn is_end(&self) -> bool {
        matches!(
            self,
            Self::RunCompleted { .. }
                | Self::RunFailed { .. }
                | Self::RunCancelled { .. }
                | Self::RunTimedOut {}
        )
    }
}
