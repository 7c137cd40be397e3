//! Lists of waits on the wire.

use super::execution::AsOf;
use super::payload::Time;

wire! {
    /// A page of open waits, those of the newest executions first.
    pub struct WaitList {
        /// The waits on this page. A page may be short or empty and still not be the last.
        pub waits: Vec<ListedWait>,
        /// Pass this as `cursor` for the next page; absent on the last page.
        pub next?: String,
        /// Which commits the list includes.
        pub as_of: AsOf,
    }

    /// An open wait.
    pub struct ListedWait {
        /// The wait's id: `POST /v1/waits/{id}/complete` ends it.
        pub id: String,
        /// What is awaited: `delay`, `signal`, `retry`, `approval`, `breaker` or
        /// `async-operation`.
        pub kind: String,
        /// The execution's id.
        pub execution: String,
        /// The workflow.
        pub workflow: String,
        /// The node's path.
        pub node: String,
        /// Since when it waits.
        pub since: Time,
        /// When time ends it: as it must, or as a timeout.
        pub due?: Time,
        /// The signals that it waits for.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub signals: Vec<String>,
        /// What is to be decided, if it is an approval.
        pub title?: String,
        /// The key of the circuit breaker that it waits for.
        pub breaker?: String,
        /// Who may decide it, as it was asked for; an escalation adds others.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub approvers: Vec<String>,
    }
}
