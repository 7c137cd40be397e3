//! Waits: what a node waits for.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{BREAKERS_LOG_FORMAT, CALLBACKS_LOG_FORMAT, WAITS_LOG_FORMAT};
use crate::breaker::BreakerCause;
use crate::id::ExecutionId;
use crate::time::Timestamp;

/// What a node waits for.
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
        /// When the wait times out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        due: Option<Timestamp>,
    },
    /// For some or all of several signals.
    Signals {
        /// Their names, in the order of the definition.
        names: Vec<Arc<str>>,
        /// How many of them end the wait.
        need: u32,
        /// When the wait times out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        due: Option<Timestamp>,
    },
    /// For the decision of a person.
    Approval(Box<ApprovalWait>),
    /// For the callback of an operation that its body started.
    Callback {
        /// The operation: unlike the path, another one whenever the node starts it again.
        operation: Arc<str>,
        /// When the wait times out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        due: Option<Timestamp>,
    },
    /// For its next attempt. Never in a NodeWaiting: a NodeFailed opens it.
    Retry {
        /// When it begins.
        due: Timestamp,
    },
    /// For the nodes of its body. Never in a NodeWaiting: a BodyOpened opens it.
    Body,
    /// For the end of an execution. Never in a NodeWaiting: a ChildStarted opens it.
    Child {
        /// Its id.
        child: ExecutionId,
    },
    /// For a circuit breaker. The attempt has not been made, and asks again then.
    Breaker(Box<BreakerWait>),
}

/// An attempt that waits for a circuit breaker.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BreakerWait {
    pub key: Arc<str>,
    /// When it asks again.
    pub due: Timestamp,
    pub cause: BreakerCause,
}

/// What a person is asked to decide.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ApprovalWait {
    pub title: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<Arc<str>>,
    /// Who may decide: names of API keys, or of people who have a link. Empty for anyone who may control
    /// executions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvers: Vec<Arc<str>>,
    /// When the wait expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Timestamp>,
    /// When the approvers are reminded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remind: Option<Timestamp>,
    /// When others may decide, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalate: Option<Timestamp>,
    /// Who that is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub escalate_to: Vec<Arc<str>>,
}

impl ApprovalWait {
    /// May this person decide?
    pub fn is_for(&self, name: &str) -> bool {
        self.approvers.is_empty() || self.approvers.iter().any(|approver| **approver == *name)
    }

    /// The approvers were reminded, or others may decide, too.
    pub(crate) fn reminded(&mut self, escalated: bool) {
        if !escalated {
            self.remind = None;
            return;
        }
        self.escalate = None;
        // Where anyone may decide, others may already.
        if !self.approvers.is_empty() {
            self.approvers.extend(self.escalate_to.iter().cloned());
        }
    }
}

impl Wait {
    /// When time alone ends it.
    pub fn due(&self) -> Option<Timestamp> {
        match self {
            Self::Delay { due } | Self::Retry { due } => Some(*due),
            Self::Signal { due, .. } | Self::Signals { due, .. } | Self::Callback { due, .. } => {
                *due
            }
            Self::Approval(approval) => approval.due,
            Self::Breaker(breaker) => Some(breaker.due),
            Self::Body | Self::Child { .. } => None,
        }
    }

    /// When people are reminded of it.
    pub fn reminders(&self) -> impl Iterator<Item = Timestamp> + '_ {
        let approval = if let Self::Approval(approval) = self { Some(approval) } else { None };
        approval.into_iter().flat_map(|approval| [approval.remind, approval.escalate]).flatten()
    }

    /// Does a message from outside end it?
    pub fn is_answered(&self) -> bool {
        match self {
            Self::Signal { .. }
            | Self::Signals { .. }
            | Self::Approval(_)
            | Self::Callback { .. } => true,
            Self::Delay { .. }
            | Self::Retry { .. }
            | Self::Body
            | Self::Child { .. }
            | Self::Breaker(_) => false,
        }
    }

    /// The lowest log format that can read it.
    pub(super) fn requires(&self) -> u16 {
        match self {
            Self::Signals { .. } | Self::Approval(_) => WAITS_LOG_FORMAT,
            Self::Breaker(_) => BREAKERS_LOG_FORMAT,
            Self::Callback { .. } => CALLBACKS_LOG_FORMAT,
            Self::Delay { .. }
            | Self::Signal { .. }
            | Self::Retry { .. }
            | Self::Body
            | Self::Child { .. } => 1,
        }
    }
}
