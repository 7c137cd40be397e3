//! The field `data` of a message. Most messages go to no endpoint, so it is rendered only for those that do.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::FAILURE_TEXT_BYTES_MAX;
use super::nodes::AboutNode;
use crate::event::{RunCreated, RunEvent};
use crate::status::Status;

/// The field `data` of the body of a message, without the output.
#[derive(Clone, PartialEq, Debug)]
pub enum MessageData {
    /// About the status of an execution.
    Status(StatusChange),
    /// As JSON.
    Rendered(Vec<u8>),
}

/// What a message about the status of an execution says.
#[derive(Clone, PartialEq, Debug)]
pub struct StatusChange {
    created: Arc<RunCreated>,
    seq: u64,
    generation: u32,
    status: Status,
    failure: Option<Box<ShownFailure>>,
}

/// Why an execution failed or is quarantined, in up to [`FAILURE_TEXT_BYTES_MAX`].
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct ShownFailure {
    kind: Cow<'static, str>,
    message: String,
}

/// The JSON.
#[derive(Serialize)]
struct Data<'a> {
    execution: &'a str,
    workflow: &'a str,
    version: u32,
    status: Status,
    seq: u64,
    generation: u32,
    labels: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<&'a ShownFailure>,
    #[serde(flatten)]
    node: Option<AboutNode<'a>>,
}

impl MessageData {
    pub(super) fn of(
        created: &Arc<RunCreated>,
        failure: Option<ShownFailure>,
        (seq, generation, status): (u64, u32, Status),
    ) -> Self {
        let (created, failure) = (Arc::clone(created), failure.map(Box::new));
        Self::Status(StatusChange { created, seq, generation, status, failure })
    }

    pub(super) fn about_node(
        created: &RunCreated,
        (seq, generation): (u64, u32),
        node: AboutNode<'_>,
    ) -> Self {
        let data = Data::of(created, (seq, generation, Status::Running));
        Self::Rendered(Data { node: Some(node), ..data }.render())
    }

    /// As JSON.
    pub fn render(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Rendered(json) => Cow::Borrowed(json),
            Self::Status(StatusChange { created, seq, generation, status, failure }) => {
                let data = Data::of(created, (*seq, *generation, *status));
                Cow::Owned(Data { failure: failure.as_deref(), ..data }.render())
            }
        }
    }
}

impl<'a> Data<'a> {
    fn of(created: &'a RunCreated, (seq, generation, status): (u64, u32, Status)) -> Self {
        Self {
            execution: created.key.as_str(),
            workflow: &created.workflow,
            version: created.version,
            status,
            seq,
            generation,
            labels: &created.labels,
            failure: None,
            node: None,
        }
    }

    fn render(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("its keys are strings")
    }
}

impl ShownFailure {
    /// Of an event after which an execution has failed or is quarantined.
    pub(super) fn of(event: &RunEvent) -> Option<Self> {
        let (kind, message) = match event {
            RunEvent::Failed { failure, .. } => (failure.kind.clone(), &failure.message),
            RunEvent::Quarantined { reason } => ("quarantined".into(), reason),
            RunEvent::Created(_)
            | RunEvent::Owned { .. }
            | RunEvent::Queued { .. }
            | RunEvent::Admitted {}
            | RunEvent::PauseRequested { .. }
            | RunEvent::BudgetExhausted { .. }
            | RunEvent::BudgetSet { .. }
            | RunEvent::Paused { .. }
            | RunEvent::Resumed { .. }
            | RunEvent::Ending { .. }
            | RunEvent::Completed { .. }
            | RunEvent::Cancelled { .. }
            | RunEvent::TimedOut {}
            | RunEvent::Reopened { .. }
            | RunEvent::SignalReceived { .. }
            | RunEvent::SignalDelivered { .. }
            | RunEvent::MessageIgnored { .. } => return None,
        };
        Some(Self { kind, message: short(message).to_owned() })
    }
}

/// A text up to [`FAILURE_TEXT_BYTES_MAX`].
pub(super) fn short(text: &str) -> &str {
    text.get(..text.floor_char_boundary(FAILURE_TEXT_BYTES_MAX)).unwrap_or_default()
}
