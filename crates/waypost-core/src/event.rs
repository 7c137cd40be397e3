//! Events: the recorded facts about an execution, in the past tense. The log consists of these and
//! the state is nothing but their fold.
//!
//! ```text
//!   Event ── Run(RunEvent)     event/run.rs    about the execution as a whole
//!         ├─ Node(NodeEvent)   event/node.rs   about one node
//!         └─ wire.rs           in the log, both are one list of types; wait.rs: what nodes wait for
//! ```
//!
//! On disk an event is `{"<Type>":{…}}`, so that payloads stay raw text (a type field inside the
//! object would make serde buffer and re-parse them). Fields are only ever added, with a default;
//! a change that old readers must not skip raises [`LOG_FORMAT`].

mod budget;
mod ends;
mod formats;
mod node;
mod run;
mod wait;
mod wire;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use budget::{AttemptReserved, AttemptUsed};
pub use ends::{CancelReason, FailureEnd};
pub use node::NodeEvent;
pub use run::{EndCause, PauseReason, RunCreated, RunEvent};
pub use wait::{ApprovalWait, BreakerWait, Wait};

/// The newest log format that this build reads; a frame names the lowest one that can read it.
///
/// 2: waits can be completed by hand (`NodeResumed` has an origin, and may come before a retry).
///
/// 3: executions wait for a permit of their concurrency key (`RunQueued`, `RunAdmitted`); attempts
/// run remotely (`NodeStarted` has a remote worker, and outlives its owner).
///
/// 4: a failure may skip its node's `onError` (`on_error_skipped` of the failure in `NodeFailed`).
///
/// 5: nodes have bodies (`BodyOpened`, `BodyEnding`, `MapOpened`, `ItemsOpened`, paths with several
/// steps).
///
/// 6: people steer maps (`NodeTuned`, an origin in `BodyEnding`); payloads refer to blobs; nodes have a
/// `heartbeat`.
///
/// 7: executions start others (`ChildStarted`, `ChildReopened`, `ChildEnded`, a parent in `RunCreated`),
/// and leave memory while they are ending and wait for them (`RunPaused` with `children`); nodes wait for
/// several signals (`NodeSignalled`), a wait may end by its timeout (`timed_out` of `NodeResumed`), people
/// decide (`NodeReminded`), and a signal may take several frames to reach all who wait for it (`SignalDelivered`).
///
/// 8: nodes send signals to other executions (`SignalSent`); attempts reserve tokens and money, and their usage is
/// counted (`NodeReserved`, `NodeUsed`, `RunBudgetSet`, `RunBudgetExhausted`); attempts wait for circuit breakers
/// (`NodeWaiting` with `breaker`, `NodeRequeued`).
///
/// 9: nodes send and wait for signals by key (`SignalSent` without a receiver); remote workers are given
/// secrets; outside systems complete operations (`NodeWaiting` with `callback`); nodes wait for the delivery of
/// a message.
///
/// 10: triggers start executions (`RunCreated` with a trigger), and nodes are triggers.
pub const LOG_FORMAT: u16 = 10;

/// The log format with triggers. A definition that has some cannot be started in an older one: an older
/// instance cannot compile it.
pub const TRIGGERS_LOG_FORMAT: u16 = 10;

/// The log format with signals by key. A definition that has some cannot be started in an older one: an older
/// instance would not subscribe to them.
pub const KEYS_LOG_FORMAT: u16 = 9;

/// The log format with secrets for remote workers. A definition that gives them some cannot be started in
/// an older one: an older instance would offer the task without them.
pub const WORKER_SECRETS_LOG_FORMAT: u16 = 9;

/// The log format with callbacks. A definition that waits for some cannot be started in an older one.
pub const CALLBACKS_LOG_FORMAT: u16 = 9;

/// The log format with signals from one execution to another.
pub const EMIT_LOG_FORMAT: u16 = 8;

/// The first log format whose nodes wait for the delivery of a message.
pub const DELIVERY_LOG_FORMAT: u16 = 9;

/// The first log format whose instances take a retry with new limits of the budget.
pub const RETRY_BUDGET_LOG_FORMAT: u16 = 9;

/// The log format with budgets. A definition that uses tokens cannot be started in an older one.
pub const BUDGETS_LOG_FORMAT: u16 = 8;

/// The log format with circuit breakers. A definition that has some cannot be started in an older one.
pub const BREAKERS_LOG_FORMAT: u16 = 8;

/// The log format with executions that start others.
pub const CHILDREN_LOG_FORMAT: u16 = 7;

/// The log format with waits for several signals.
pub const WAITS_LOG_FORMAT: u16 = 7;

/// The log format with references to blobs. An engine that writes an older one keeps payloads inline.
pub const BLOBS_LOG_FORMAT: u16 = 6;

/// The log format with bodies. A definition that has some cannot be started in an older one.
pub const BODIES_LOG_FORMAT: u16 = 5;

/// The log format since which definitions may have a `heartbeat`: older instances cannot compile them.
pub const HEARTBEAT_LOG_FORMAT: u16 = 6;

/// The log format with maps that people steer. Such a request is refused while an older instance is
/// alive: it could read neither the mail nor the event.
pub const STEERED_LOG_FORMAT: u16 = 6;

/// The log format with remote attempts. An engine that writes an older one starts none.
pub const REMOTE_LOG_FORMAT: u16 = 3;

/// A message's id, by which duplicates are known.
pub type MessageId = Arc<str>;

/// A recorded fact.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// About the execution as a whole.
    Run(RunEvent),
    /// About one node.
    Node(NodeEvent),
}

/// The origin of a request: its actor, and its message.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Origin {
    /// The id of the message; absent if the request went directly to the owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageId>,
    /// Who asked: the name of an API key, or a local user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Arc<str>>,
}

impl Origin {
    /// Is nothing known?
    pub fn is_unknown(&self) -> bool {
        self.message.is_none() && self.actor.is_none()
    }
}

impl Event {
    /// The type's name in the log.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Run(event) => event.row().event,
            Self::Node(event) => event.row().event,
        }
    }

    /// The path of the node it is about.
    pub fn node(&self) -> Option<&Arc<str>> {
        match self {
            Self::Run(_) => None,
            Self::Node(event) => Some(event.node()),
        }
    }

    /// The lowest log format that can read it.
    pub fn requires(&self) -> u16 {
        match self {
            Self::Run(event) => event.requires(),
            Self::Node(event) => event.requires(),
        }
    }

    /// The size of its payloads: what makes an event large. Its names and numbers do not count.
    pub fn payload_bytes(&self) -> usize {
        match self {
            Self::Run(event) => event.payload_bytes(),
            Self::Node(event) => event.payload_bytes(),
        }
    }

    /// Is it one of the four that end a generation?
    pub fn is_end(&self) -> bool {
        matches!(self, Self::Run(event) if event.is_end())
    }
}

impl From<RunEvent> for Event {
    fn from(event: RunEvent) -> Self {
        Self::Run(event)
    }
}

impl From<NodeEvent> for Event {
    fn from(event: NodeEvent) -> Self {
        Self::Node(event)
    }
}
