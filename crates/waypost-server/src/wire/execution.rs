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
    /// Where it stands.
    pub status: ExecutionStatus,
    /// Has a pause been asked for that awaits the attempts that run?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pausing: bool,
    /// From 1; a repair opens the next.
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
    /// What it was started with.
    pub input: Payload,
    /// What it gave, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "Payload")]
    pub output: Option<Payload>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Failure")]
    pub failure: Option<Failure>,
    /// What nodes have set.
    pub variables: BTreeMap<String, Payload>,
    /// Why it is set aside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub held: Option<String>,
    /// Its place in the line of its concurrency key, until it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Place")]
    pub concurrency: Option<Place>,
    /// How many nodes it has, and how many of them are settled.
    pub progress: Progress,
}

/// A place in the line of a concurrency key.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    /// The key, within its workflow.
    pub key: String,
    /// How many executions of the key may be under way at once.
    pub limit: u32,
    /// What happens where that many are: `queue`, `reject` or `cancel-oldest`.
    pub policy: String,
    /// Has it been let in?
    pub admitted: bool,
    /// How many stand before it, those that are under way included.
    pub before: u64,
}

/// How far an execution is.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// Nodes of the definition.
    pub nodes: u64,
    /// Those that are settled.
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
    /// Where it stands.
    pub status: ExecutionStatus,
    /// Labels to find it by.
    pub labels: BTreeMap<String, String>,
    /// When it was accepted.
    pub created_at: Time,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub completed_at: Option<Time>,
    /// Nodes that have completed or failed.
    pub nodes_executed: u64,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub error: Option<String>,
    /// Where it stands in its graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub current_node: Option<String>,
    /// When it goes on by itself.
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
    /// Give this as `cursor` to go on; absent on the last page.
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
    /// The time of the newest commit that the list shows.
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
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub label: Option<String>,
    /// Where it stands.
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
    /// What it gave.
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
    /// What it waits for.
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

/// What a node waits for.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    /// For `POST /v1/waits/{id}/resume`.
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

/// What went wrong.
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
    /// What else is known.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "Payload")]
    pub details: Option<Payload>,
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
    /// Everything that it says.
    pub data: Payload,
}

/// A page of events, oldest first.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventList {
    /// The page.
    pub events: Vec<Event>,
    /// Give this as `after` to go on; absent on the last page.
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
    /// Where it stands, as far as was waited.
    pub status: ExecutionStatus,
    /// What it gave, if it ended while it was waited for.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "Payload")]
    pub output: Option<Payload>,
    /// Why it failed, if it ended while it was waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Failure")]
    pub failure: Option<Failure>,
}

/// What became of a request to an execution.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Steered {
    /// The execution's id.
    pub id: String,
    /// Where it stands now.
    pub status: ExecutionStatus,
    /// Has a pause been asked for that awaits the attempts that run?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pausing: bool,
    /// The request's id, under which it is taken once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub message_id: Option<String>,
    /// Was this very request taken before?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub duplicate: bool,
}

/// Why an execution is where it is.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Why {
    /// The execution's id.
    pub id: String,
    /// Where it stands.
    pub status: ExecutionStatus,
    /// Every reason, the most telling first.
    pub reasons: Vec<Reason>,
    /// Who drives it.
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
    /// What the matter is: a clause without a subject.
    pub what: String,
    /// Since when.
    pub since: Time,
    /// When time alone will change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub until: Option<Time>,
    /// What would move it: `time`, `signal`, `resume`, `attempt`, `slot`, `turn`, `worker`, `engine`,
    /// `repair` or
    /// `nothing`.
    pub moved_by: String,
    /// The signal's name, where one would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub signal: Option<String>,
    /// The wait's id, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub wait: Option<String>,
}
