//! The types of the API. They are converted by hand from the core's, so that the core can change
//! without the API changing, and they describe themselves for `/openapi.json`. The command line
//! reads them back.
//!
//! Fields that are absent are left out, never `null`, except inside payloads.

/// Declares types of the API. A field `name?: Type` may be absent: it is an `Option`, which JSON and
/// schema have as a `Type` or not at all.
macro_rules! wire {
    ($($(#[$attribute:meta])* pub struct $name:ident { $($fields:tt)* })+) => {
        $(wire! { @ [$(#[$attribute])* pub struct $name] [] $($fields)* })+
    };
    (@ [$($head:tt)*] [$($fields:tt)*]) => {
        #[derive(Clone, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(rename_all = "camelCase")]
        $($head)* { $($fields)* }
    };
    (@ $head:tt [$($before:tt)*] $(#[$attribute:meta])* pub $field:ident?: $type:ty, $($rest:tt)*) => {
        wire! { @ $head [
            $($before)*
            $(#[$attribute])*
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[serde(deserialize_with = "crate::wire::payload::present")]
            #[schemars(transform = crate::wire::payload::without_null)]
            pub $field: Option<$type>,
        ] $($rest)* }
    };
    (@ $head:tt [$($before:tt)*] $(#[$attribute:meta])* pub $field:ident: $type:ty, $($rest:tt)*) => {
        wire! { @ $head [$($before)* $(#[$attribute])* pub $field: $type,] $($rest)* }
    };
}

pub mod approval;
pub mod blob;
pub mod breaker;
pub mod control;
pub mod definition;
pub mod execution;
pub mod limits;
pub mod payload;
pub mod publish;
pub mod request;
pub mod system;
pub mod trigger;
pub mod wait;
pub mod webhook;
pub mod why;
pub mod worker;

pub use approval::{ApprovalLinkOf, ApprovalLinks, DecideByLink, LinkedApproval, NewApprovalLinks};
pub use blob::Blob;
pub use breaker::{Breaker, BreakerList, BreakerReset};
pub use control::*;
pub use definition::{Definition, DefinitionList, DefinitionSummary, Deployed, DeployedTrigger};
pub use execution::{
    AsOf, Child, ChildList, ControlResult, Event, EventList, Execution, ExecutionList,
    ExecutionSummary, Failure, Node, NodeList, Started, Wait,
};
pub use payload::Payload;
pub use publish::{Publish, PublishResult};
pub use request::{NewApiKey, Start};
pub use system::{
    ApiKey, ApiKeyList, AuditList, AuditRow, Instance, InstanceList, Limits, MadeKey,
};
pub use trigger::*;
pub use wait::{ListedWait, WaitList};
pub use webhook::{
    DeadLetterList, NewWebhookEndpoint, WebhookEndpoint, WebhookEndpointList, WebhookMessage,
    WebhookMessageList, WebhookReplay, WebhookReplayed, WebhookSecret, WebhookTested,
};
pub use why::{Reason, Why};
pub use worker::{
    Poll, Polled, Reported, SealedSecrets, Task, TaskCheckpoint, TaskFailure, TaskReport,
    TaskStart, Waiting, Worker, WorkerList,
};
