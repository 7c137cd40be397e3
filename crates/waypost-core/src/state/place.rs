//! Obstacles to running: the queue of the concurrency key, a pause, a quarantine. The other
//! executions of the queue are no part of a state: see `permits`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::State;
use crate::permits::PermitRequest;
use crate::plan::ConcurrencyPolicy;
use crate::status::Status;
use crate::time::Timestamp;

/// The reason in the control row of an execution that a person has paused.
pub const PAUSED: &str = "paused by a user";

/// A place in the queue of a concurrency key.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Place {
    /// The key, within its workflow.
    pub key: Arc<str>,
    /// How many executions of the key may be under way at once.
    pub limit: u32,
    /// What happens if that many do.
    pub policy: ConcurrencyPolicy,
    /// Has it begun, with a permit?
    pub admitted: bool,
}

/// Why an execution was stopped until a person decides.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Quarantine {
    pub reason: String,
    pub since: Timestamp,
}

impl State {
    /// The permit request of an execution that is, or has been, in the queue of its concurrency
    /// key. The name of the key begins with that of the workflow: keys of different workflows are
    /// different queues.
    pub fn permit_request(&self) -> Option<PermitRequest> {
        let Place { key, limit, policy, .. } = self.place.as_ref()?;
        let key = format!("{}/{key}", self.created.workflow).into();
        Some(PermitRequest { key, limit: *limit, policy: *policy })
    }

    /// The reason shown to people why most mail does not wake it while it is unowned: a user's
    /// pause, a quarantine, the queue of its concurrency key. Absent if any mail does.
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
