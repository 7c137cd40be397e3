//! Executions on the wire.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::payload::{ExecutionStatus, NodeState, Payload, Time, present};

/// An execution, read from its log: never behind.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Execution {
    /// Its id.
    pub id: String,
    /// The workflow.
    pub workflow: String,
    /// Which version.
    pub version: u32,
    /// Identity of the definition.
    pub definition: String,
    /// Its status.
    pub status: ExecutionStatus,
    /// Has a pause been requested that waits for running attempts?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pausing: bool,
    /// Why it is paused or was cancelled, if the request gave a reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub reason: Option<String>,
    /// From 1; a retry opens the next.
    pub generation: u32,
    /// Its last event.
    pub seq: u64,
    /// Labels to find it by.
    pub labels: BTreeMap<String, String>,
    /// When it was accepted.
    pub created_at: Time,
    /// When something last happened.
    pub updated_at: Time,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub ended_at: Option<Time>,
    /// When time alone will move it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub resume_at: Option<Time>,
    /// Its input.
    pub input: Payload,
    /// Its output, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "Payload")]
    pub output: Option<Payload>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Failure")]
    pub failure: Option<Failure>,
    /// The variables that nodes have set.
    pub variables: BTreeMap<String, Payload>,
    /// Why and since when it is quarantined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Quarantine")]
    pub quarantine: Option<Quarantine>,
    /// Its concurrency key and its position in the key's queue, until it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Concurrency")]
    pub concurrency: Option<Concurrency>,
    /// How many nodes it has, and how many of them are settled.
    pub progress: Progress,
}

/// Why an execution was stopped until a person decides: resume or cancel it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Quarantine {
    /// The reason.
    pub reason: String,
    /// When it was stopped.
    pub since: Time,
}

/// The concurrency permit that an execution holds or is queued for.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Concurrency {
    /// The key, within its workflow.
    pub key: String,
    /// How many executions of the key may hold a permit at once.
    pub limit: u32,
    /// What happens when all permits are taken: `queue`, `reject` or `cancel-oldest`.
    pub policy: String,
    /// Does it hold a permit?
    pub admitted: bool,
    /// How many executions are ahead of it in the queue, permit holders included.
    pub queue_position: u64,
}

/// How far an execution is.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// Nodes of the definition.
    pub nodes: u64,
    /// Nodes that are settled.
    pub settled: u64,
}

/// An execution in a list.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionSummary {
    /// Its id.
    pub id: String,
    /// The workflow.
    pub workflow: String,
    /// Which version.
    pub version: u32,
    /// Its status.
    pub status: ExecutionStatus,
    /// Labels to find it by.
    pub labels: BTreeMap<String, String>,
    /// When it was accepted.
    pub created_at: Time,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub ended_at: Option<Time>,
    /// Nodes that have completed or failed.
    pub nodes_executed: u64,
    /// Why it failed, was cancelled or is quarantined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "FailureNote")]
    pub failure: Option<FailureNote>,
    /// The node that it is at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub current_node: Option<String>,
    /// When it continues by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub resume_at: Option<Time>,
}

/// A page of executions, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionList {
    /// The page. It may be short, even empty, and still not be the last.
    pub executions: Vec<ExecutionSummary>,
    /// Pass this as `cursor` for the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub next: Option<String>,
    /// How old the list is.
    pub as_of: AsOf,
}

/// How old a list is. Lists follow the log by a moment; single executions never do.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AsOf {
    /// The time of the newest commit in the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub at: Option<Time>,
    /// Commits that it does not show yet.
    pub frames_behind: u64,
}

/// A node of an execution.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Its id.
    pub id: String,
    /// Its kind.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub label: Option<String>,
    /// Its status.
    pub status: NodeState,
    /// The last attempt, from 1; 0 before the first.
    pub attempt: u32,
    /// When its first attempt was scheduled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub scheduled_at: Option<Time>,
    /// When its last attempt was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub started_at: Option<Time>,
    /// When it settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub settled_at: Option<Time>,
    /// Its output.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "Payload")]
    pub output: Option<Payload>,
    /// The branch it selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub branch: Option<String>,
    /// Its last failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Failure")]
    pub failure: Option<Failure>,
    /// Its open wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Wait")]
    pub wait: Option<Wait>,
}

/// The nodes of an execution, in the definition's order.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeList {
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The last event that they show.
    pub seq: u64,
    /// Outputs that would have made this too large, and were left out; the events have them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub outputs_left_out: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde's skip_serializing_if passes a reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// An open wait of a node.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    /// For `POST /v1/waits/{id}/complete`.
    pub id: String,
    /// `delay`, `signal` or `retry`.
    pub kind: String,
    /// The signal's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub name: Option<String>,
    /// When time alone ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub due: Option<Time>,
}

/// A failure.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// A stable, lower-case name.
    pub kind: String,
    /// A sentence for people.
    pub message: String,
    /// The HTTP status, when a server answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u16")]
    pub status: Option<u16>,
    /// Further details.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "Payload")]
    pub details: Option<Payload>,
}

/// A failure in a list; the execution has the rest.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailureNote {
    /// What kind of failure; absent where it was cancelled, timed out or quarantined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub kind: Option<String>,
    /// A sentence for people.
    pub message: String,
}

/// A recorded fact about an execution.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Its position in the execution's log, from 1, without gaps.
    pub seq: u64,
    /// When it was stored.
    pub at: Time,
    /// Counts the execution's owners.
    pub epoch: u32,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// The node it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub node: Option<String>,
    /// The attempt it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32")]
    pub attempt: Option<u32>,
    /// The execution; only where events of many come together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub execution: Option<String>,
    /// Its content.
    pub data: Payload,
}

/// A page of events, oldest first.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventList {
    /// The page.
    pub events: Vec<Event>,
    /// Pass this as `after` for the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub next: Option<u64>,
}

/// A submission that was accepted: durable, whatever happens now.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Started {
    /// The execution's id.
    pub id: String,
    /// The workflow.
    pub workflow: String,
    /// Which version.
    pub version: u32,
    /// Its status, at the end of the wait.
    pub status: ExecutionStatus,
    /// Its output, if it ended within the wait.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "Payload")]
    pub output: Option<Payload>,
    /// Why it failed, if it ended while it was waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Failure")]
    pub failure: Option<Failure>,
}

/// The result of a request to an execution.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlResult {
    /// The execution's id.
    pub id: String,
    /// Its status now.
    pub status: ExecutionStatus,
    /// Has a pause been requested that waits for running attempts?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pausing: bool,
    /// The request's id, under which it is taken once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub message_id: Option<String>,
    /// Was this very request taken before?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub duplicate: bool,
    /// With `dryRun`: the nodes that a retry would run again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
}

impl ControlResult {
    /// The plain result: the execution's status.
    pub fn of(id: &str, status: ExecutionStatus) -> Self {
        let (message_id, nodes) = (None, Vec::new());
        Self { id: id.to_owned(), status, pausing: false, message_id, duplicate: false, nodes }
    }

    /// With the nodes that a retry runs again.
    pub fn with_nodes(self, nodes: Vec<String>) -> Self {
        Self { nodes, ..self }
    }
}
