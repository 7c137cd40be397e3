//! Workers and their tasks on the wire: the public protocol of remote workers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::payload::{
    Count, Payload, Short, TaskToken, Time, WorkerKey, WorkerPublicKey, present_object, word,
};

/// Handlers that one worker may serve.
pub const HANDLERS_MAX: usize = 256;
/// Tasks that one poll may take.
pub type PollMax = Count<0, 256>;
/// Tasks that a worker takes at once.
pub type Capacity = Count<1, TASKS_MAX>;
/// Tasks that a worker has at most.
pub const TASKS_MAX: u32 = 100_000;
/// Which try of a node, from 1.
pub type Attempt = Count<1, { u32::MAX }>;

wire! {
    /// A worker's description of itself, with each sign of life.
    #[serde(deny_unknown_fields)]
    #[schemars(rename = "PollRequest")]
    pub struct Poll {
        /// The worker's name, for people.
        pub name: Short<128>,
        /// The handlers that it serves.
        #[schemars(length(min = 1, max = 256))]
        pub handlers: Vec<Short<64>>,
        /// How many tasks it takes at once.
        pub capacity: Capacity,
        /// How many tasks it has now.
        #[serde(default = "none")]
        pub running: Count<0, TASKS_MAX>,
        /// Maximum number of tasks to return; 0 returns cancellations only.
        #[serde(default = "one")]
        pub max: PollMax,
        /// The tokens of the tasks that it has: each from when it got it until its report was answered.
        /// A started task that is not listed is given to others. Absent: unknown.
        #[schemars(length(max = 100_000))]
        pub tasks?: Vec<TaskToken>,
        /// The X25519 public key to which secrets are sealed: 32 bytes in base64. Without it, the worker
        /// gets no tasks with secrets.
        pub public_key?: WorkerPublicKey,
    }
}

fn none() -> Count<0, TASKS_MAX> {
    Count(0)
}

fn one() -> PollMax {
    Count(1)
}

wire! {
    /// The response to a poll.
    pub struct Polled {
        /// Tasks to run.
        pub tasks: Vec<Task>,
        /// Tokens of tasks to stop.
        pub cancel: Vec<String>,
        /// Why tasks stay in their queue although the worker serves their handler, for people: their
        /// secrets are not granted to its API key. Absent if there are none.
        pub withheld?: Vec<String>,
    }

    /// The order to make one attempt of one node.
    pub struct Task {
        /// The right to report on it; a secret.
        pub token: String,
        /// The execution.
        pub execution: String,
        /// Its workflow.
        pub workflow: String,
        /// The node's path.
        pub node: String,
        /// The attempt, from 1.
        pub attempt: u32,
        /// The handler that runs it.
        pub handler: String,
        /// The handler's input.
        pub input: Payload,
        /// How long the attempt may take, in milliseconds.
        pub timeout_ms?: u64,
        /// How long the handler may give no sign of life before the worker gives the attempt up, in
        /// milliseconds.
        pub heartbeat_ms?: u64,
        /// Equal for every attempt of this node: for deduplication by an outside system.
        pub idempotency_key: String,
        /// If true, run it only after its start was answered with 200.
        #[serde(default)]
        pub at_most_once: bool,
        /// The last checkpoint of an earlier attempt.
        pub checkpoint?: Payload,
        /// Its secrets, sealed to the `publicKey` of the poll; absent if it has none.
        pub secrets?: SealedSecrets,
    }

    /// Secrets sealed by HPKE (RFC 9180): DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, ChaCha20-Poly1305. The
    /// plaintext is a JSON object of names and values.
    pub struct SealedSecrets {
        /// The encapsulated key, in base64.
        pub enc: String,
        /// The ciphertext with its tag, in base64.
        pub ciphertext: String,
    }

    /// The task and its worker: every report names them besides the token in its path.
    #[serde(deny_unknown_fields)]
    pub struct TaskStart {
        /// The worker that holds it.
        pub worker: WorkerKey,
        /// The execution.
        pub execution: Short<128>,
        /// The node's path.
        pub node: Short<256>,
        /// The attempt.
        pub attempt: Attempt,
    }

    /// A mark from which a later attempt may continue.
    #[serde(deny_unknown_fields)]
    pub struct TaskCheckpoint {
        /// The worker that holds it.
        pub worker: WorkerKey,
        /// The execution.
        pub execution: Short<128>,
        /// The node's path.
        pub node: Short<256>,
        /// The attempt.
        pub attempt: Attempt,
        /// The checkpoint: any JSON, for the next attempt.
        pub data: Payload,
        /// The number of this mark in its attempt, from 1. A mark that is not after the last one taken
        /// is late, and changes nothing. Without numbers marks are taken as they come, and one that
        /// equals an earlier one may be taken for it.
        pub number?: Count<1, { u32::MAX }>,
    }

    /// How an attempt ended: `failure` goes with the status `failed` or `abandoned`, and with no other.
    #[serde(deny_unknown_fields)]
    #[schemars(rename = "TaskReport", extend("oneOf" = [
        { "properties": { "status": { "enum": ["failed", "abandoned"] } }, "required": ["failure"] },
        { "properties": { "status": { "enum": ["completed", "cancelled"] }, "failure": false } }
    ]))]
    pub struct TaskReport {
        /// The worker that holds it.
        pub worker: WorkerKey,
        /// The execution.
        pub execution: Short<128>,
        /// The node's path.
        pub node: Short<256>,
        /// The attempt.
        pub attempt: Attempt,
        /// How the attempt ended.
        #[serde(deserialize_with = "word")]
        pub status: TaskStatus,
        /// The node's output, if it completed.
        #[serde(default)]
        pub output: Payload,
        /// The failure, if it failed or was abandoned.
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present_object")]
        #[schemars(with = "TaskFailure")]
        pub failure: Option<TaskFailure>,
    }
}

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TaskStatus {
    /// It is done.
    Completed,
    /// It failed; the node's retry policy decides what follows.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// It was abandoned through no fault of the node: the handler panicked, or its worker stops. It
    /// is run again, and does not count as a try.
    Abandoned,
}

wire! {
    /// A failure in a worker.
    #[serde(deny_unknown_fields)]
    pub struct TaskFailure {
        /// A stable, lower-case name, which `retryOn` may list.
        pub kind: Short<128>,
        /// What went wrong, for people.
        pub message: Short<4000>,
        /// Whether another attempt may succeed.
        #[serde(default)]
        pub retryable: bool,
        /// The HTTP status, where a server that was called answered: `retryOn` may name it, or its class.
        pub http_status?: Count<100, 999>,
        /// Is it sure that nothing was sent, so that there can have been no effect?
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub unsent: bool,
        /// How long to wait before it, in milliseconds.
        pub retry_after_ms?: Count<0, { u32::MAX }>,
        /// Further details.
        pub details?: Payload,
    }

    /// The result of a report.
    #[derive(Copy)]
    pub struct Reported {
        /// Whether the log has it. If not, it is stored and will be appended, unless the attempt was abandoned.
        pub committed: bool,
    }

    /// A worker.
    pub struct Worker {
        /// The worker's id, new at every start.
        pub id: String,
        /// The worker's name.
        pub name: String,
        /// Whether it polled or sent a heartbeat in the last 15 seconds.
        pub alive: bool,
        /// Its last poll or heartbeat.
        pub seen_at: Time,
        /// The handlers that it serves.
        pub handlers: Vec<String>,
        /// How many tasks it takes at once.
        pub capacity: u32,
        /// How many tasks it has.
        pub running: u32,
        /// Whether it sends a public key, and takes tasks with secrets.
        #[serde(default)]
        pub takes_secrets: bool,
        /// The instance that it talks to.
        pub instance: String,
    }

    /// Tasks that wait for the workers of a handler.
    pub struct Waiting {
        /// The handler.
        pub handler: String,
        /// The number of tasks that wait for a worker.
        pub tasks: u64,
        /// How long the oldest of them has waited, in milliseconds.
        pub oldest_ms: u64,
    }

    /// The workers that are alive, or were within the last hour, and what waits for them.
    pub struct WorkerList {
        /// All workers.
        pub workers: Vec<Worker>,
        /// Waiting tasks, by handler.
        pub waiting: Vec<Waiting>,
    }
}
