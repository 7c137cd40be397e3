//! Handlers: the code of action kinds, and the tasks they are given.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use waypost_core::failure::Failure;
use waypost_core::id::{ExecutionKey, Token};
use waypost_core::json::Json;
use waypost_core::time::Millis;

/// The order to make one attempt of one node.
#[derive(Clone, Debug)]
pub struct Task {
    /// The execution it belongs to.
    pub execution: ExecutionKey,
    /// The workflow's name.
    pub workflow: Arc<str>,
    /// The node's path.
    pub path: Arc<str>,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// Which handler.
    pub handler: &'static str,
    /// The node's config with every hole filled.
    pub config: Json,
    /// How long the attempt may take; the caller enforces it, handlers may use it for their own
    /// timeouts.
    pub timeout: Option<Millis>,
    /// The same for every attempt of this node: what an outside system deduplicates by.
    pub idempotency_key: String,
    /// The right to report on this delivery.
    pub token: Token,
}

/// Runs the tasks of one action kind.
///
/// The future must stop soon after `cancel` fires and must leave nothing behind when it is dropped:
/// the caller drops it when it does not stop. A panic is caught by the caller.
pub trait Handler: Send + Sync {
    /// Makes one attempt; gives the node's output or why there is none.
    fn run(
        &self,
        task: Task,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<Json, Failure>>;
}
