//! Commands: requests to the core; and its reasons to reject them.

mod decision;
mod refusal;
mod report;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::budget::SpendingLimits;
use crate::callback::Callback;
use crate::child::{ChildEnd, Launch};
use crate::event::{
    BUDGETS_LOG_FORMAT, CALLBACKS_LOG_FORMAT, CHILDREN_LOG_FORMAT, DELIVERY_LOG_FORMAT, MessageId,
    Origin, RETRY_BUDGET_LOG_FORMAT, STEERED_LOG_FORMAT, WAITS_LOG_FORMAT,
};
use crate::expr::Contents;
use crate::failure::Failure;
use crate::id::InstanceId;
use crate::json::Json;
use crate::kind::{APPROVED, REJECTED};
use crate::limits::MAP_CONCURRENCY_MAX;
use crate::path::At;
use crate::slot::SlotCounts;
use crate::time::Timestamp;

pub use decision::{Decision, Effect};
pub use refusal::Refusal;
pub use report::{Mark, Outcome, Report};

/// A request to an execution.
#[derive(Clone, PartialEq, Debug)]
pub enum Command {
    /// Take the execution over. Must be followed by [`Command::Recover`], after any mail.
    TakeOver,
    /// Continue from where the last owner stopped.
    Recover,
    /// The store reports that it holds a permit of its concurrency key: begin.
    Admit,
    /// Evaluate a node whose start is committed.
    Evaluate { node: At, attempt: u32 },
    /// A slot is free: start a node that is queued.
    Start { node: At, attempt: u32 },
    /// What a `workflow` node starts was found, or cannot be.
    Launch { node: At, attempt: u32, launch: Result<Launch, Failure> },
    /// An execution that a node had started ended.
    ChildEnded(Box<ChildEnd>),
    /// The store holds no permit for it, and its concurrency policy is to reject.
    Reject { holding: u64 },
    /// Record what a worker reports on an attempt.
    Report(Report),
    /// The process stops in order before these attempts have ended: the next owner makes them again.
    HandOver,
    /// A queued attempt that cannot be handed to any worker: its config cannot be rendered.
    Unofferable { node: At, attempt: u32, failure: Failure },
    /// Mail changed nothing: it must not lie in the inbox for ever. Mail that is repeatable was refused for
    /// now ([`Refusal::is_passing`]), and its id is not used up.
    Ignore { message: MessageId, reason: String, repeatable: bool },
    /// A control request, and its origin.
    Request(Request, Origin),
    /// Open the next items of maps; see [`State::wants_items`](crate::state::State::wants_items).
    OpenItems,
    /// Deliver a signal to more of those who wait for it; see
    /// [`State::wants_delivery`](crate::state::State::wants_delivery).
    Deliver,
    /// Contents of blobs that were missed are at hand: continue with what needs them.
    GoOn,
    /// Act on the timers that are due.
    Tick,
    /// Leave memory: there is nothing to do.
    Park,
}

/// A control request of a user to an execution. Mail rows have it as JSON, so variants and fields
/// only grow.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Deliver a signal.
    Signal {
        /// Nodes wait for it by this name.
        name: Arc<str>,
        /// The output of the nodes that wait for it.
        body: Json,
    },
    /// Deliver the callback of an operation.
    Callback(Box<Callback>),
    /// Deliver what became of a message that a node waits for. Only stores send it.
    MessageSettled {
        /// The event that opened the wait, with the message.
        wait: u64,
        /// Endpoints that accepted it, and those for which it was given up.
        delivered: u64,
        failed: u64,
    },
    /// End the execution.
    Cancel { reason: Option<String> },
    /// End the execution, or end it faster, without waiting for the executions that it started.
    ForceCancel { reason: Option<String> },
    /// Start no more nodes.
    Pause {
        /// Cancel what runs?
        now: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Continue an execution that is paused or quarantined.
    Resume { reason: Option<String> },
    /// End one wait now: as if its signal had come to it alone, or its time had passed.
    #[serde(alias = "resume_wait")]
    CompleteWait {
        /// The event that opened it.
        wait: u64,
        /// The output of a wait for a signal; other waits do not use it.
        body: Json,
    },
    /// Decide an approval.
    Decide {
        /// The event that opened its wait.
        wait: u64,
        decision: Box<ApprovalDecision>,
    },
    /// Run again what failed, and what follows it. An execution that has ended has no inbox: its next
    /// owner takes this from memory, see `StoreWork::LoadEnded` of the engine.
    Retry {
        reason: Option<String>,
        /// New limits of the budget; what is absent stays as it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        budget: Option<SpendingLimits>,
    },
    /// Change the limits of the budget; what is absent stays as it is.
    Budget {
        #[serde(flatten)]
        limits: SpendingLimits,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// End one item of a map as failed.
    CancelItem {
        /// Its path: `each[17]`.
        node: Arc<str>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Change how a map opens its items, for as long as it runs.
    Tune {
        /// The map's path.
        node: Arc<str>,
        #[serde(flatten)]
        tuning: Tuning,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

/// A signal that an execution is started with.
#[derive(Clone, PartialEq, Debug)]
pub struct FirstSignal {
    pub name: Arc<str>,
    pub body: Json,
    pub origin: Origin,
}

/// How a map opens its items; what is absent stays as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Tuning {
    /// Open no more items?
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<bool>,
    /// How many may be open at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
}

impl Tuning {
    /// Does it change something, within the limits?
    pub fn is_valid(self) -> bool {
        let range = 1..=MAP_CONCURRENCY_MAX;
        self != Self::default() && self.concurrency.is_none_or(|count| range.contains(&count))
    }
}

/// The decision of a person.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ApprovalDecision {
    pub verdict: ApprovalVerdict,
    /// Who decides: one of the approvers, if the approval names some.
    pub approver: Arc<str>,
    /// Did they follow a link? Who holds a link is not identified otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub link: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// What they filled in.
    pub form: Json,
}

/// What was decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalVerdict {
    Approved,
    Rejected,
}

impl ApprovalVerdict {
    /// The branch that it selects.
    pub fn branch(self) -> &'static str {
        match self {
            Self::Approved => APPROVED,
            Self::Rejected => REJECTED,
        }
    }
}

impl ApprovalDecision {
    /// Who decided, as the output and the log name them.
    pub fn by(&self) -> String {
        if self.link { format!("link for {}", self.approver) } else { self.approver.to_string() }
    }
}

/// Which mail wakes an execution that no instance owns. A parked one wakes for all mail, a paused one
/// for [`Cancel`](Self::Cancel) and above, one that the store quarantined for
/// [`Resume`](Self::Resume) alone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Urgency {
    Ordinary,
    Cancel,
    Resume,
}

impl Request {
    /// The data that becomes a node's output, if it has any.
    pub fn payload(&self) -> Option<&Json> {
        match self {
            Self::Signal { body, .. } | Self::CompleteWait { body, .. } => Some(body),
            Self::Decide { decision, .. } => Some(&decision.form),
            Self::Callback(callback) => Some(&callback.body),
            Self::MessageSettled { .. }
            | Self::Cancel { .. }
            | Self::ForceCancel { .. }
            | Self::Pause { .. }
            | Self::Resume { .. }
            | Self::Retry { .. }
            | Self::Budget { .. }
            | Self::CancelItem { .. }
            | Self::Tune { .. } => None,
        }
    }

    /// The lowest log format in which it, and the events that follow from it, can be read.
    pub fn requires(&self) -> u16 {
        match self {
            Self::ForceCancel { .. } => CHILDREN_LOG_FORMAT,
            Self::CancelItem { .. } | Self::Tune { .. } => STEERED_LOG_FORMAT,
            Self::Decide { .. } => WAITS_LOG_FORMAT,
            Self::Budget { .. } => BUDGETS_LOG_FORMAT,
            Self::Callback(_) => CALLBACKS_LOG_FORMAT,
            Self::Retry { budget: Some(_), .. } => RETRY_BUDGET_LOG_FORMAT,
            Self::MessageSettled { .. } => DELIVERY_LOG_FORMAT,
            Self::Signal { .. }
            | Self::Cancel { .. }
            | Self::Pause { .. }
            | Self::Resume { .. }
            | Self::CompleteWait { .. }
            | Self::Retry { budget: None, .. } => 1,
        }
    }

    /// As [`payload`](Self::payload), to be replaced.
    pub fn payload_mut(&mut self) -> Option<&mut Json> {
        match self {
            Self::Signal { body, .. } | Self::CompleteWait { body, .. } => Some(body),
            Self::Decide { decision, .. } => Some(&mut decision.form),
            Self::Callback(callback) => Some(&mut callback.body),
            Self::MessageSettled { .. }
            | Self::Cancel { .. }
            | Self::ForceCancel { .. }
            | Self::Pause { .. }
            | Self::Resume { .. }
            | Self::CancelItem { .. }
            | Self::Tune { .. }
            | Self::Budget { .. }
            | Self::Retry { .. } => None,
        }
    }

    /// Which executions it wakes.
    pub fn urgency(&self) -> Urgency {
        match self {
            // In a pause people hold a map or cancel items, and resume then.
            Self::Cancel { .. }
            | Self::ForceCancel { .. }
            | Self::CancelItem { .. }
            | Self::Budget { .. }
            | Self::Tune { .. } => Urgency::Cancel,
            Self::Resume { .. } => Urgency::Resume,
            Self::Signal { .. }
            | Self::Callback(_)
            | Self::MessageSettled { .. }
            | Self::Pause { .. }
            | Self::CompleteWait { .. }
            | Self::Decide { .. }
            | Self::Retry { .. } => Urgency::Ordinary,
        }
    }
}

/// A decision's inputs from outside.
#[derive(Clone, Debug)]
pub struct Env {
    /// The time of the command: the store's, or a little before. Timers are due by it.
    pub now: Timestamp,
    /// The store's time, or a little after: durations count from here. A duration that counted from
    /// `now` would be too short by as much as `now` is behind.
    pub now_max: Timestamp,
    pub instance: InstanceId,
    /// How many attempts may be started here.
    pub slots: SlotCounts,
    /// Where delivery tokens come from; new for each decision.
    pub entropy: u128,
    /// The contents of blobs that are at hand.
    pub contents: Contents,
    /// How many items of a map one event opens, at most: [`ITEMS_OPENED_MAX`], or fewer in tests.
    ///
    /// [`ITEMS_OPENED_MAX`]: crate::limits::ITEMS_OPENED_MAX
    pub items_opened_max: u64,
    /// To how many waits one decision delivers a signal, at most: [`TAKERS_MAX`], or fewer in tests.
    /// Absent where the log format does not allow a signal to take several frames.
    ///
    /// [`TAKERS_MAX`]: crate::limits::TAKERS_MAX
    pub takers_max: Option<usize>,
    /// Bytes of results that the output of a map has, at most: [`MAP_RESULTS_BYTES_MAX`], or fewer in
    /// tests. The event that opens a map records it.
    ///
    /// [`MAP_RESULTS_BYTES_MAX`]: crate::limits::MAP_RESULTS_BYTES_MAX
    pub map_results_bytes_max: u64,
}
