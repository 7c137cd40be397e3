//! Callbacks: an outside system completes an operation that a node has started.
//!
//! A callback is recorded as a signal with a [reserved](crate::reserved) name. So one that comes before the node waits for it is
//! kept as early signals are, and one that comes during a pause is delivered after it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::decide::key_path;
use crate::event::MessageId;
use crate::json::Json;
use crate::kind::Behaviour;
use crate::path::At;
use crate::plan::Plan;
use crate::planted::{Bug, is_planted};
use crate::state::State;

/// How a callback says that the operation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallbackOutcome {
    #[default]
    Completed,
    Failed,
}

/// A callback.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Callback {
    pub of: OperationRef,
    #[serde(default)]
    pub outcome: CallbackOutcome,
    /// The output of the node, or the details of its failure.
    pub body: Json,
}

impl Callback {
    /// One for each operation: a repeated callback is recognised by it.
    pub fn message(&self) -> MessageId {
        if is_planted(Bug::SecondCallbackWins) {
            let serial = blake3::hash(self.body.text().as_bytes()).to_hex();
            return format!("{}{serial}", self.of.message()).into();
        }
        self.of.message()
    }
}

/// One operation: a node, and which of the operations that it has started.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OperationRef {
    /// The path of the node.
    pub node: Arc<str>,
    /// Unlike the path, another one whenever the node starts it again: `pay/1`, `each[17]/pay@2/1`.
    pub operation: Arc<str>,
}

impl OperationRef {
    /// The message of its callback. 128 bits, since an execution may have millions of operations.
    pub fn message(&self) -> MessageId {
        let hash = blake3::hash(self.operation.as_bytes()).to_hex();
        format!("callback_{}", hash.get(..32).unwrap_or_default()).into()
    }
}

const COMPLETED: &str = "waypost/callback:";
const FAILED: &str = "waypost/callback-failed:";

impl CallbackOutcome {
    /// The name of the signal that records it.
    pub fn signal(self, operation: &str) -> Arc<str> {
        let prefix = match self {
            Self::Completed => COMPLETED,
            Self::Failed => FAILED,
        };
        format!("{prefix}{operation}").into()
    }

    /// The outcome of this operation, if the signal is its callback.
    pub(crate) fn of(signal: &str, operation: &str) -> Option<Self> {
        let is = |prefix| signal.strip_prefix(prefix) == Some(operation);
        if is(COMPLETED) {
            return Some(Self::Completed);
        }
        is(FAILED).then_some(Self::Failed)
    }
}

/// The operation that a node starts, or has started: the one that the node belongs to, if it is in the body
/// of one.
///
/// Equal for every attempt of the nodes in the body; another one if the node itself is tried again, and in
/// every iteration, item and generation.
pub fn operation_of(plan: &Plan, state: &State, at: At) -> Option<OperationRef> {
    let mut around = Some(at);
    while let Some(at) = around {
        let node = state.get(at)?;
        if matches!(plan.node(at.node).behaviour, Behaviour::Operation(_)) {
            let tries = if node.attempt > 1 { format!("@{}", node.attempt) } else { String::new() };
            let operation = format!("{}{tries}/{}", key_path(plan, state, at), node.generation);
            return Some(OperationRef { node: state.path(plan, at), operation: operation.into() });
        }
        around = state.scope(at.scope).and_then(|scope| scope.container);
    }
    None
}
