//! The line of a concurrency key, as far as an execution knows of it: which line it stands in, and
//! whether it was let in. Who else stands there, the store alone knows.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::State;
use crate::plan::ConcurrencyPolicy;
use crate::status::Status;

/// A place in the line of a concurrency key.
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

impl State {
    /// The name of its concurrency key among those of all workflows.
    pub fn concurrency_key(&self) -> Option<Arc<str>> {
        let place = self.place.as_ref()?;
        Some(format!("{}/{}", self.created.workflow, place.key).into())
    }

    /// What people are told of why only a few things reach it while nobody owns it: a user's pause,
    /// a quarantine, the line of its concurrency key. Absent where anything does.
    pub fn held_for(&self) -> Option<String> {
        match (self.status, &self.place) {
            (Status::Paused, _) if self.moves() => None,
            (Status::Paused, _) => {
                Some(self.quarantine.clone().unwrap_or_else(|| "paused by a user".to_owned()))
            }
            (Status::Scheduling, Some(place)) => {
                Some(format!("waits for a slot of concurrency key {:?}", place.key))
            }
            _ => None,
        }
    }
}
