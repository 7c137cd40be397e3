//! Handlers: the code of action kinds, and the tasks they are given.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use waypost_core::breaker::BreakerRef;
use waypost_core::callback::OperationRef;
use waypost_core::expr::Placeholder;
use waypost_core::failure::{Failure, kind};
use waypost_core::id::{ExecutionId, Token};
use waypost_core::json::Json;
use waypost_core::limits::PAYLOAD_BYTES_MAX;
use waypost_core::time::Millis;

use crate::secret::Grant;

/// The order to make one attempt of one node.
#[derive(Clone)]
pub struct Task {
    pub execution: ExecutionId,
    pub workflow: Arc<str>,
    /// The node's path.
    pub path: Arc<str>,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    pub handler: Arc<str>,
    /// The node's config with every hole filled.
    pub config: Json,
    /// Where in the config secrets belong that are not there yet. The worker puts them in; a handler
    /// finds none.
    pub placeholders: Vec<Placeholder>,
    /// The operation that it starts, whose link the worker puts in as it does secrets.
    pub operation: Option<OperationRef>,
    /// The secrets in the config, with which the handler checks what it may do with them.
    pub secrets: Vec<Grant>,
    /// How long the attempt may take; the caller enforces it, handlers may use it for their own
    /// timeouts.
    pub timeout: Option<Millis>,
    /// How long the attempt may give no sign of life; the caller enforces it.
    pub heartbeat: Option<Millis>,
    /// The circuit breaker that the caller asks before it runs the handler.
    pub breaker: Option<BreakerRef>,
    /// Where the attempt records its own marks, and gives signs of life.
    pub marks: Marks,
    /// The last mark of an earlier attempt of this node, from which this one may continue.
    pub checkpoint: Option<Json>,
    /// Equal for every attempt of this node: for deduplication by an outside system.
    pub idempotency_key: String,
    /// The right to report on this delivery.
    pub token: Token,
}

impl fmt::Debug for Task {
    /// Without the config where there are secrets in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config: &dyn fmt::Debug = match self.secrets.is_empty() && self.operation.is_none() {
            true => &self.config,
            false => &format_args!("***"),
        };
        f.debug_struct("Task")
            .field("execution", &self.execution)
            .field("workflow", &self.workflow)
            .field("path", &self.path)
            .field("attempt", &self.attempt)
            .field("handler", &self.handler)
            .field("config", config)
            .field("placeholders", &self.placeholders)
            .field("secrets", &self.secrets)
            .field("timeout", &self.timeout)
            .field("heartbeat", &self.heartbeat)
            .field("checkpoint", &self.checkpoint)
            .field("idempotency_key", &self.idempotency_key)
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}

/// What an attempt reports while it runs: marks, from which a later attempt may continue, and signs of
/// life, which a node with a `heartbeat` needs.
#[derive(Clone, Default)]
pub struct Marks(Option<Arc<dyn MarkSink>>);

/// Receives what an attempt reports while it runs. Neither method may block.
pub trait MarkSink: Send + Sync {
    /// Keeps a mark to be sent; it replaces one that was not sent yet.
    fn record(&self, data: Json);

    /// Takes note of a sign of life.
    fn beat(&self);
}

/// A mark that is too large for the log: its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the mark has {0} bytes; the limit is {PAYLOAD_BYTES_MAX}")]
pub struct MarkTooLarge(pub usize);

impl From<MarkTooLarge> for Failure {
    fn from(error: MarkTooLarge) -> Self {
        Self::permanent(kind::TOO_LARGE, error.to_string())
    }
}

impl Marks {
    /// Drops marks and signs of life.
    pub fn none() -> Self {
        Self(None)
    }

    /// Passes marks and signs of life to a sink.
    pub fn to(sink: Arc<dyn MarkSink>) -> Self {
        Self(Some(sink))
    }

    /// Records a mark: a later attempt of this node finds the last one in [`Task::checkpoint`]. It is
    /// sent at once, unless an earlier mark is being committed; of those recorded meanwhile only the
    /// last one is sent. It is a sign of life.
    pub fn record(&self, data: Json) -> Result<(), MarkTooLarge> {
        if data.bytes() > PAYLOAD_BYTES_MAX {
            return Err(MarkTooLarge(data.bytes()));
        }
        if let Some(sink) = &self.0 {
            sink.record(data);
        }
        Ok(())
    }

    /// Gives a sign of life without a mark. It costs little, and is not recorded in the log.
    pub fn beat(&self) {
        if let Some(sink) = &self.0 {
            sink.beat();
        }
    }
}

impl fmt::Debug for Marks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Marks")
    }
}

/// Runs the tasks of one action kind.
///
/// The future must stop soon after `cancel` fires and must leave nothing behind when it is dropped:
/// the caller drops it when it does not stop. A panic is caught by the caller.
pub trait Handler: Send + Sync {
    /// Does it check, for every secret of a task, whether it may use it as it does? A handler that
    /// does not is given no secrets.
    fn checks_secrets(&self) -> bool {
        false
    }

    /// Does it take references to blobs in its config? Others are given the contents in their place.
    fn takes_references(&self) -> bool {
        false
    }

    /// Runs one attempt; returns the node's output or the failure.
    fn run(
        &self,
        task: Task,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<Json, Failure>>;
}
