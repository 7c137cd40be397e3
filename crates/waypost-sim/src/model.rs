//! The model: the rules of the graph, written a second time and apart from the core, and what
//! follows from them for a [`Program`](crate::program::Program).
//!
//! ```text
//!   foretell   program + input ─▶ what may come of it, before it has run
//!   judge      program + input + what happened ─▶ complaints
//!   ran        what happened, as the log and the sink recorded it
//!   world      the actions of people, and the faults
//!   graph      edges, joins, turns: rules 1 to 3
//!   values     conditions, switches, values: rules 4 and 9
//! ```
//!
//! Nothing here calls the core's `decide` or `apply`; only its events and statuses are read.
//!
//! **What is exact.** `judge` knows from the log in which order nodes were scheduled and settled, so
//! it leaves nothing open about the graph: each node's turn (run, skip, unsatisfiable) is computed
//! from the edges as they were at that moment, and so are branches, gathered inputs, and the values
//! that conditions, switches, transforms and outputs give. Without disturbances the number of tries
//! and of calls is exact too. The end of an execution follows exactly from its cause and the ends of
//! its nodes. Bodies are judged like programs, one scope after the other: each try of a group, each
//! iteration of a loop and each item of a map, whether it should have been made at all, and with which
//! idempotency keys.
//!
//! **What is a set.** Who wins a race; whether a signal or a timeout comes first; how far siblings
//! had come when a failure ended the execution; how many tries fit before a deadline that is not
//! ample; whether an execution's own timeout strikes, unless it is ample; whether a request to
//! complete a wait came before the event it waited for. And, if the execution was disturbed (see
//! [`World`]), what the disturbance can do: a lost attempt makes tries and calls differ, lateness
//! lets deadlines strike, a lost reply fails a good call.
//!
//! `foretell` knows no order, and so gives sets for all of this; of a program without races, limits
//! and unhandled failures each set has one member. It errs on the side of too much where two races
//! depend on each other.

mod foretell;
mod graph;
mod judge;
mod ran;
mod values;
mod world;

use std::fmt;

use waypost_core::failure::kind;
use waypost_core::status::NodeStatus;

pub use foretell::{Forecast, foretell};
pub use judge::judge;
pub use ran::{BodyRan, Calls, Cause, ChildRan, End, ItemsRan, NodeRan, OperationRan, Ran};
pub use world::{AskedDecision, Resumption, SentCallback, SentSignal, Steered, World};

/// How much later than due things may happen in a world that counts as prompt.
pub const SLACK_MS: u64 = 1_000;

/// The report of a worker that contradicts itself: an output, or a kind of failure.
pub const CONTRADICTION: &str = "contradiction";

/// How a node may end.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Outcome {
    /// Done, with the branch it selected.
    Completed(Option<String>),
    Failed,
    /// Failed because the definition is at fault, which `onError` does not handle.
    Mistaken,
    TimedOut,
    /// Its conditions could not be met.
    Skipped,
    /// Stopped: by a join, or with the execution.
    Cancelled,
}

impl Outcome {
    /// The outcome of a settled status.
    pub fn of(status: NodeStatus, branch: Option<&str>, failure: Option<&str>) -> Option<Self> {
        match status {
            NodeStatus::Completed => Some(Self::Completed(branch.map(Into::into))),
            NodeStatus::Failed if failure.is_some_and(is_mistake) => Some(Self::Mistaken),
            NodeStatus::Failed => Some(Self::Failed),
            NodeStatus::TimedOut => Some(Self::TimedOut),
            NodeStatus::Skipped => Some(Self::Skipped),
            NodeStatus::Cancelled => Some(Self::Cancelled),
            NodeStatus::Pending
            | NodeStatus::Queued
            | NodeStatus::Running
            | NodeStatus::Waiting => None,
        }
    }

    /// Does it count as failed?
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::Failed | Self::Mistaken | Self::TimedOut)
    }
}

/// Is a kind of failure one of the mistakes that programs make?
fn is_mistake(failure: &str) -> bool {
    [kind::EXPRESSION, kind::INVALID_CONFIG].contains(&failure)
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Completed(None) => f.write_str("COMPLETED"),
            Self::Completed(Some(branch)) => write!(f, "COMPLETED({branch})"),
            Self::Failed => f.write_str("FAILED"),
            Self::Mistaken => f.write_str("FAILED(definition)"),
            Self::TimedOut => f.write_str("TIMED_OUT"),
            Self::Skipped => f.write_str("SKIPPED"),
            Self::Cancelled => f.write_str("CANCELLED"),
        }
    }
}
