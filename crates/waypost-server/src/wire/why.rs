//! The answer to "why does this execution not continue?" on the wire.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::payload::{ExecutionStatus, Time};

/// Why an execution is where it is.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Why {
    /// The execution's id.
    pub id: String,
    /// Its status.
    pub status: ExecutionStatus,
    /// Every reason, the most telling first.
    pub reasons: Vec<Reason>,
    /// The instance that drives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub owner: Option<String>,
}

/// One reason why an execution is not further than it is.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reason {
    /// The node it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub node: Option<String>,
    /// The reason: a clause without a subject.
    pub what: String,
    /// Since when.
    pub since: Time,
    /// When time alone will change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub until: Option<Time>,
    /// What would unblock it: `time`, `signal`, `resume`, `attempt`, `slot`, `permit`, `worker`,
    /// `engine`, `retry` or `nothing`.
    pub unblocked_by: String,
    /// The signal's name, where one would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub signal: Option<String>,
    /// The wait's id, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub wait: Option<String>,
}
