//! Waits: what a node waits for.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::WAITS_LOG_FORMAT;
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
}

impl Wait {
    /// When time alone ends it.
    pub fn due(&self) -> Option<Timestamp> {
        match self {
            Self::Delay { due } | Self::Retry { due } => Some(*due),
            Self::Signal { due, .. } | Self::Signals { due, .. } => *due,
            Self::Body | Self::Child { .. } => None,
        }
    }

    /// Does a message from outside end it?
    pub fn is_answered(&self) -> bool {
        match self {
            Self::Signal { .. } | Self::Signals { .. } => true,
            Self::Delay { .. } | Self::Retry { .. } | Self::Body | Self::Child { .. } => false,
        }
    }

    /// The lowest log format that can read it.
    pub(super) fn requires(&self) -> u16 {
        match self {
            Self::Signals { .. } => WAITS_LOG_FORMAT,
            Self::Delay { .. }
            | Self::Signal { .. }
            | Self::Retry { .. }
            | Self::Body
            | Self::Child { .. } => 1,
        }
    }
}
