//! The types of the API. They are converted by hand from the core's, so that the core can change
//! without the API changing, and they describe themselves for `/openapi.json`. The command line
//! reads them back.
//!
//! Fields that are absent are left out, never `null`, except inside payloads.

pub mod control;
pub mod definition;
pub mod execution;
pub mod payload;
pub mod request;
pub mod system;
pub mod why;
pub mod worker;

pub use control::{Cancel, CompleteWait, ControlBody, Pause, Resume, Retry, Signal};
pub use definition::{Definition, DefinitionList, DefinitionSummary, Deployed};
pub use execution::{
    AsOf, ControlResult, Event, EventList, Execution, ExecutionList, ExecutionSummary, Failure,
    Node, NodeList, Started, Wait,
};
pub use payload::Payload;
pub use request::{NewApiKey, Start};
pub use system::{
    ApiKey, ApiKeyList, AuditList, AuditRow, Instance, InstanceList, Limits, MadeKey,
};
pub use why::{Reason, Why};
pub use worker::{
    Poll, Polled, Reported, Task, TaskCheckpoint, TaskFailure, TaskReport, TaskStart, Waiting,
    Worker, WorkerList,
};
