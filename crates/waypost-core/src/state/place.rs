//! What keeps an execution from running: the queue of its concurrency key, a pause, a quarantine. The
//! store alone knows which other executions are in the queue.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::State;
use crate::event::PauseReason;
use crate::plan::ConcurrencyPolicy;
use crate::status::Status;
use crate::time::Timestamp;

/// What a control row says of an execution that a person has paused.
pub const PAUSED: &str = "paused by a user";

/// A place in the queue of a concurrency key.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Place {
    /// The key, within its workflow.
    pub key: Arc<str>,
    /// How many executions of the key may be under way at once.
    pub limit: u32,
    /// What happens where that many are.
    pub policy: ConcurrencyPolicy,
    /// Does it hold a slot?
    pub admitted: bool,
}

/// Why an execution was stopped until a person decides.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Quarantine {
    /// What went wrong.
    pub reason: String,
    /// When it was stopped.
    pub since: Timestamp,
}

impl State {
    /// The status that users see. An owner that loaded an execution for a message leaves it paused or
    /// quarantined; everything else that is under way is RUNNING.
    pub fn shown_status(&self) -> Status {
        match self.status {
            Status::Resuming if self.quarantine.is_some() => Status::Quarantined,
            Status::Resuming if self.paused == Some(PauseReason::User) => Status::Paused,
            Status::Requested | Status::Scheduled | Status::Resuming => Status::Running,
            status => status,
        }
    }

    /// The name of its concurrency key among those of all workflows.
    pub fn concurrency_key(&self) -> Option<Arc<str>> {
        let place = self.place.as_ref()?;
        Some(format!("{}/{}", self.created.workflow, place.key).into())
    }

    /// What people are told of why only a few things reach it while nobody owns it: a user's pause,
    /// a quarantine, the line of its concurrency key. Absent where anything does.
    pub fn held_for(&self) -> Option<String> {
        match (self.status, &self.place) {
            (Status::Paused, _) => Some(PAUSED.to_owned()),
            (Status::Quarantined, _) => self.quarantine.as_ref().map(|held| held.reason.clone()),
            (Status::Scheduling, Some(place)) => {
                Some(format!("waits for a permit of concurrency key {:?}", place.key))
            }
            _ => None,
        }
    }
}
