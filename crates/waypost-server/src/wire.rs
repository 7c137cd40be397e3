//! What crosses the wire. These types are the API: they are written out by hand from the core's, so
//! that the core can change without the API changing, and they describe themselves for
//! `/openapi.json`. The command line reads them back.
//!
//! Fields that are absent are left out, never `null`, except inside payloads.

pub mod definition;
pub mod execution;
pub mod payload;
pub mod request;
pub mod system;
pub mod worker;

pub use definition::{Definition, DefinitionList, DefinitionSummary, Deployed};
pub use execution::{
    AsOf, Event, EventList, Execution, ExecutionList, ExecutionSummary, Failure, Node, NodeList,
    Reason, Started, Steered, Wait, Why,
};
pub use payload::Payload;
pub use request::{Cancel, NewApiKey, Pause, ResumeWait, Signal, Start};
pub use system::{
    ApiKey, ApiKeyList, Instance, InstanceList, Limits, MadeKey, TrailList, TrailRow,
};
pub use worker::{
    Poll, Polled, Reported, Task, TaskCheckpoint, TaskFailure, TaskReport, TaskStart, Waiting,
    Worker, WorkerList,
};
