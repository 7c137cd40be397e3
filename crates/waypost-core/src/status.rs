//! The statuses of executions and nodes: the states of the two state machines.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The status of an execution. Users see [`Status::SHOWN`] only: REQUESTED, SCHEDULED and RESUMING
/// are steps between two of those.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Status {
    /// Accepted, durable, answered.
    Requested,
    /// Queued for a concurrency permit.
    Scheduling,
    /// An instance owns it; nothing handed off yet.
    Scheduled,
    /// Something is queued, running or soon due.
    Running,
    /// Paused by a person, until a person resumes it.
    Paused,
    /// An instance took it and is loading it.
    Resuming,
    /// Its end is fixed; running attempts are cancelled and awaited.
    Ending,
    /// Every node settled and no cause to end otherwise.
    Completed,
    /// A failure was not handled.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// It took longer than its timeout.
    TimedOut,
    /// Parked on a timer, a signal or a retry. No instance owns it, and any may resume it.
    Waiting,
    /// Stopped because Waypost cannot safely continue it; a person decides.
    Quarantined,
}

/// The status of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum NodeStatus {
    /// Its conditions are not settled.
    #[default]
    Pending,
    /// Its attempt is scheduled and not started.
    Queued,
    /// Its attempt is started.
    Running,
    /// It waits durably: for a time, a signal, its next attempt.
    Waiting,
    /// Done.
    Completed,
    /// Its last attempt failed.
    Failed,
    /// It took too long; counts as failed for what follows.
    TimedOut,
    /// Its conditions can not be met.
    Skipped,
    /// Stopped before it could end by itself.
    Cancelled,
}

/// One line per status, with its name.
macro_rules! statuses {
    ($status:ident, $count:literal: $($variant:ident $name:literal,)+) => {
        impl $status {
            /// Every status, for tables and tests. Stores keep a status by its position here.
            pub const ALL: [Self; $count] = [$(Self::$variant),+];

            /// As events, tables and people write it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }

        impl fmt::Display for $status {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

statuses! {
    Status, 13:
    Requested "REQUESTED",
    Scheduling "SCHEDULING",
    Scheduled "SCHEDULED",
    Running "RUNNING",
    Paused "PAUSED",
    Resuming "RESUMING",
    Ending "ENDING",
    Completed "COMPLETED",
    Failed "FAILED",
    Cancelled "CANCELLED",
    TimedOut "TIMED_OUT",
    Waiting "WAITING",
    Quarantined "QUARANTINED",
}

statuses! {
    NodeStatus, 9:
    Pending "PENDING",
    Queued "QUEUED",
    Running "RUNNING",
    Waiting "WAITING",
    Completed "COMPLETED",
    Failed "FAILED",
    TimedOut "TIMED_OUT",
    Skipped "SKIPPED",
    Cancelled "CANCELLED",
}

impl Status {
    /// The statuses that users see and can filter by, in the order of an execution's life.
    pub const SHOWN: [Self; 10] = [
        Self::Scheduling,
        Self::Running,
        Self::Waiting,
        Self::Paused,
        Self::Quarantined,
        Self::Ending,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::TimedOut,
    ];

    /// The statuses that an execution ends with.
    pub const ENDS: [Self; 4] = [Self::Completed, Self::Failed, Self::Cancelled, Self::TimedOut];

    /// Has it ended (until a retry reopens it)?
    pub fn is_end(self) -> bool {
        Self::ENDS.contains(&self)
    }

    /// Has its owner released it, until a timer, a message or a person moves it?
    pub fn is_parked(self) -> bool {
        matches!(self, Self::Waiting | Self::Paused | Self::Quarantined)
    }

    /// The shown status of this name, in any case.
    pub fn parse(name: &str) -> Option<Self> {
        Self::SHOWN.into_iter().find(|status| status.name().eq_ignore_ascii_case(name))
    }
}

impl NodeStatus {
    /// Has it ended for this generation?
    pub fn is_settled(self) -> bool {
        match self {
            Self::Pending | Self::Queued | Self::Running | Self::Waiting => false,
            Self::Completed | Self::Failed | Self::TimedOut | Self::Skipped | Self::Cancelled => {
                true
            }
        }
    }
}
