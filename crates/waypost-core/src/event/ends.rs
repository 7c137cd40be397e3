//! How attempts and nodes end.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// The consequence of a failed attempt for its node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureEnd {
    /// The next attempt begins at this time.
    RetryAt(Timestamp),
    /// The attempt was abandoned, through no fault of the node: the next one begins at this time, and
    /// this one does not count.
    Abandoned(Timestamp),
    /// The node is FAILED.
    Final,
    /// The node is TIMED_OUT.
    TimedOut,
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
    /// The body that it is in is ending.
    Body,
}
