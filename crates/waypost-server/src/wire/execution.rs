//! Executions on the wire.

use std::collections::BTreeMap;

pub use super::limits::{Concurrency, Spending};
use super::payload::{ExecutionStatus, NodeState, Payload, Time};

wire! {
    /// An execution, read from its log: never behind.
    pub struct Execution {
        /// The execution's id.
        pub id: String,
        /// The workflow.
        pub workflow: String,
        /// The version of the workflow.
        pub version: u32,
        /// Identity of the definition.
        pub definition: String,
        /// Its status.
        pub status: ExecutionStatus,
        /// Has a pause been requested that waits for running attempts?
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub pausing: bool,
        /// Why it is paused or was cancelled, if the request gave a reason.
        pub reason?: String,
        /// From 1; a retry opens the next.
        pub generation: u32,
        /// Its last event.
        pub seq: u64,
        /// Labels to find it by.
        pub labels: BTreeMap<String, String>,
        /// When it was accepted.
        pub created_at: Time,
        /// When its last event was stored.
        pub updated_at: Time,
        /// When it ended.
        pub ended_at?: Time,
        /// When it continues by itself, if it waits for a time.
        pub resume_at?: Time,
        /// The fire of a trigger that it began with, if one started it: what expressions see as `trigger`.
        pub trigger?: Payload,
        /// Its input.
        pub input: Payload,
        /// Its output, once it has ended.
        pub output?: Payload,
        /// Why it failed.
        pub failure?: Failure,
        /// The variables that nodes have set.
        pub variables: BTreeMap<String, Payload>,
        /// Why and since when it is quarantined.
        pub quarantine?: Quarantine,
        /// Its concurrency key and its position in the key's queue, until it ends.
        pub concurrency?: Concurrency,
        /// The tokens that it used, and its budget; absent if it uses none.
        pub spending?: Spending,
        /// How many nodes it has, and how many have settled.
        pub progress: Progress,
        /// The execution that started it, if one did.
        pub parent?: ParentExecution,
    }

    /// The execution that started another one.
    pub struct ParentExecution {
        /// Its id.
        pub id: String,
        /// The path of the node that started the other one.
        pub node: String,
        /// The id of the execution at the top of the tree.
        pub root: String,
        /// How many executions are above the one that was started.
        pub depth: u32,
    }

    /// Why an execution was stopped until a person decides: resume or cancel it.
    pub struct Quarantine {
        /// The reason.
        pub reason: String,
        /// When it was quarantined.
        pub since: Time,
    }

    /// How far an execution is.
    #[derive(Copy)]
    pub struct Progress {
        /// Nodes of the definition.
        pub nodes: u64,
        /// Nodes that are settled.
        pub settled: u64,
    }

    /// An execution in a list.
    pub struct ExecutionSummary {
        /// The execution's id.
        pub id: String,
        /// The workflow.
        pub workflow: String,
        /// The version of the workflow.
        pub version: u32,
        /// Its status.
        pub status: ExecutionStatus,
        /// Labels to find it by.
        pub labels: BTreeMap<String, String>,
        /// When it was accepted.
        pub created_at: Time,
        /// When it ended.
        pub ended_at?: Time,
        /// Nodes that have completed or failed.
        pub nodes_executed: u64,
        /// Why it failed, was cancelled or is quarantined.
        pub failure?: FailureNote,
        /// The node that changed last.
        pub current_node?: String,
        /// How far that node is, if it is a map.
        pub progress?: MapProgress,
        /// When it continues by itself.
        pub resume_at?: Time,
    }

    /// How far a map is, as of the last time that it opened items; its node has the exact numbers.
    pub struct MapProgress {
        /// The map.
        pub node: String,
        /// How many items there are.
        pub count: u64,
        /// How many of them are open or done.
        pub begun: u64,
        /// How many of them have failed.
        pub failed: u64,
    }

    /// A page of executions, newest first.
    pub struct ExecutionList {
        /// The executions on this page. A page may be short or empty and still not be the last.
        pub executions: Vec<ExecutionSummary>,
        /// Pass this as `cursor` for the next page; absent on the last page.
        pub next?: String,
        /// Which commits the list includes.
        pub as_of: AsOf,
    }

    /// How old a list is. Lists follow the log by a moment; single executions never do.
    #[derive(Copy)]
    pub struct AsOf {
        /// The time of the newest commit in the list.
        pub at?: Time,
        /// Commits that it does not show yet.
        pub frames_behind: u64,
    }

    /// A node of an execution.
    pub struct Node {
        /// The node's path.
        pub id: String,
        /// Its node kind.
        #[serde(rename = "type")]
        pub kind: String,
        /// Its label.
        pub label?: String,
        /// Its status.
        pub status: NodeState,
        /// The last attempt, from 1; 0 before the first.
        pub attempt: u32,
        /// When its first attempt was scheduled.
        pub scheduled_at?: Time,
        /// When its last attempt was started.
        pub started_at?: Time,
        /// When it settled.
        pub settled_at?: Time,
        /// Its output.
        pub output?: Payload,
        /// The branch it selected.
        pub branch?: String,
        /// Its last failure.
        pub failure?: Failure,
        /// Its open wait.
        pub wait?: Wait,
        /// For a loop: how many iterations it has begun.
        pub iterations?: u64,
        /// For a map: how far it is, or was at its end.
        pub items?: Items,
        /// The id of the execution that it started and waits for, or waited for.
        pub child?: String,
    }

    /// How far a map is.
    pub struct Items {
        /// How many items there are.
        pub count: u64,
        /// How many are open.
        pub open: u64,
        /// How many are done.
        pub done: u64,
        /// How many of those have failed.
        pub failed: u64,
        /// Who holds the map, if it is held: no more items are opened.
        pub held?: MapHold,
        /// How many items may be open at once, if a request changed it.
        pub concurrency?: u32,
    }

    /// Who holds a map.
    pub struct MapHold {
        /// The name of the API key, or the local user.
        pub by?: String,
        /// The reason that the request gave.
        pub reason?: String,
        /// Since when.
        pub since: Time,
    }

    /// The nodes of an execution, in the definition's order, and after them those of the bodies
    /// that are open.
    pub struct NodeList {
        /// The nodes.
        pub nodes: Vec<Node>,
        /// The last event that they show.
        pub seq: u64,
        /// Outputs that would have made this too large, and were left out; the events have them.
        #[serde(default, skip_serializing_if = "is_zero")]
        pub outputs_left_out: u64,
        /// With `under`: the items of the map, or the iterations of the loop, instead of nodes.
        pub items?: ItemList,
    }

    /// A page of the items of a map, or of the iterations of a loop.
    pub struct ItemList {
        /// How many items the map has, or how many iterations the loop has begun; absent before it begins.
        pub count?: u64,
        /// The items on this page, in the order of their indexes.
        pub page: Vec<Item>,
        /// Pass this as `after` for the next page; absent on the last page.
        pub next?: u64,
    }

    /// One item of a map, or one iteration of a loop.
    pub struct Item {
        /// Items count from 0, iterations from 1.
        pub index: u64,
        /// PENDING, RUNNING while it is open, COMPLETED, FAILED, or CANCELLED if it was not begun before the end.
        pub status: NodeState,
        /// When its first node was scheduled; only while it is open.
        pub started_at?: Time,
        /// Its output, if it is kept and has at most 4 KiB.
        pub output?: Payload,
        /// The size of an output that is larger.
        pub output_bytes?: u64,
        /// Why it failed; kept for the first 1,000 items that do.
        pub failure?: Failure,
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde's skip_serializing_if passes a reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

wire! {
    /// An open wait of a node.
    pub struct Wait {
        /// The wait's id, for `POST /v1/waits/{id}/complete`.
        pub id: String,
        /// `delay`, `signal`, `retry`, `approval` or `breaker`.
        pub kind: String,
        /// The signal's name.
        pub name?: String,
        /// When time alone ends it.
        pub due?: Time,
    }

    /// A failure.
    pub struct Failure {
        /// A stable, lower-case name.
        pub kind: String,
        /// What went wrong, for people.
        pub message: String,
        /// The HTTP status, when a server answered.
        pub status?: u16,
        /// Further details.
        pub details?: Payload,
    }

    /// A failure in a list; the execution has the rest.
    pub struct FailureNote {
        /// The kind of the failure; absent if the execution was cancelled, timed out or quarantined.
        pub kind?: String,
        /// What went wrong, for people.
        pub message: String,
    }

    /// A recorded fact about an execution.
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
        pub node?: String,
        /// The attempt it is about.
        pub attempt?: u32,
        /// The execution; only where events of many come together.
        pub execution?: String,
        /// The event's fields.
        pub data: Payload,
    }

    /// A page of events, oldest first.
    pub struct EventList {
        /// The events on this page.
        pub events: Vec<Event>,
        /// Pass this as `after` for the next page; absent on the last page.
        pub next?: u64,
    }

    /// A page of the executions that an execution started, in the order in which they began.
    pub struct ChildList {
        /// The executions on this page.
        pub children: Vec<Child>,
        /// Pass this as `after` for the next page; absent on the last page.
        pub next?: u64,
    }

    /// An execution that another one started.
    pub struct Child {
        /// Its id.
        pub id: String,
        /// The path of the node that started it.
        pub node: String,
        /// Its workflow.
        pub workflow: String,
        /// The version of the workflow.
        pub version: u32,
        /// Is its end not awaited?
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub detached: bool,
        /// The event of the log that records its start.
        pub seq: u64,
        /// Its status, from the projections; absent until they have it.
        pub status?: ExecutionStatus,
    }

    /// A submission that was accepted: durable, whatever happens now.
    pub struct Started {
        /// The execution's id.
        pub id: String,
        /// The workflow.
        pub workflow: String,
        /// The version of the workflow.
        pub version: u32,
        /// Its status, at the end of the wait.
        pub status: ExecutionStatus,
        /// Its output, if it ended within the wait.
        pub output?: Payload,
        /// Why it failed, if it ended while it was waited for.
        pub failure?: Failure,
    }

    /// The result of a request to an execution.
    pub struct ControlResult {
        /// The execution's id.
        pub id: String,
        /// Its status now.
        pub status: ExecutionStatus,
        /// Has a pause been requested that waits for running attempts?
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub pausing: bool,
        /// The request's id, for repeats.
        pub message_id?: String,
        /// Whether a request with this id had been accepted before.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub duplicate: bool,
        /// With `dryRun`: the nodes that a retry would run again.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub nodes: Vec<String>,
    }
}

impl ControlResult {
    /// The plain result: the execution's status.
    pub fn of(id: &str, status: ExecutionStatus) -> Self {
        let (message_id, nodes) = (None, Vec::new());
        Self { id: id.to_owned(), status, pausing: false, message_id, duplicate: false, nodes }
    }
}
