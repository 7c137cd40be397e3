//! The local worker: runs handlers in slots and reports the outcome of each attempt. Secrets enter
//! a task here, and are removed from its outcome; no code outside of this file's attempts sees one.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;
use waypost_core::command::{Outcome, Report};
use waypost_core::expr::Wanted;
use waypost_core::failure::{Failure, kind};
use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_ports::handler::{Handler, Task};
use waypost_ports::secret::Secrets;
use waypost_ports::store::Store;

use super::results::ResultsOf;
use super::secrets::supply;
use super::{Payloads, Plans, Shared};
use crate::driver::{Input, TaskOrder};
use crate::panic_text;

/// How long a cancelled handler may take to end before it is dropped.
const STOP_GRACE: Duration = Duration::from_secs(5);

tokio::task_local! {
    static HOLDS_SECRETS: bool;
}

/// Is this thread running a handler that was given secrets? Then a panic's message may contain one
/// and must not be shown: a panic hook gets it before it could be scrubbed.
pub fn holds_secrets() -> bool {
    HOLDS_SECRETS.try_with(|holds| *holds).unwrap_or(false)
}

/// Handlers by name.
pub type Handlers = BTreeMap<&'static str, Arc<dyn Handler>>;

pub(crate) struct LocalWorker {
    pub(crate) handlers: Handlers,
    pub(crate) secrets: Arc<dyn Secrets>,
    pub(crate) runtime: tokio::runtime::Handle,
    pub(crate) tasks: tokio_util::task::TaskTracker,
    pub(crate) shared: Arc<Shared>,
    pub(crate) payloads: Payloads,
    /// For the results of maps.
    pub(crate) store: Arc<dyn Store>,
    pub(crate) plans: Arc<Plans>,
}

impl LocalWorker {
    /// Starts an attempt; the report comes through the engine's inbox.
    pub(crate) fn start(&self, order: TaskOrder) -> CancellationToken {
        let cancel = CancellationToken::new();
        let handler = self.handlers.get(&*order.task.handler).map(Arc::clone);
        let secrets = Arc::clone(&self.secrets);
        let shared = Arc::clone(&self.shared);
        let payloads = self.payloads.clone();
        let token = cancel.clone();
        self.tasks.spawn_on(
            async move {
                let TaskOrder { execution, mut task, .. } = order;
                let (node, attempt, delivery) = (Arc::clone(&task.path), task.attempt, task.token);
                let inlined = match handler.as_ref().is_some_and(|h| h.takes_references()) {
                    true => Some(Ok(task.config.clone())),
                    false => payloads.inline(&task.config, &token).await,
                };
                let outcome = match inlined {
                    None => Outcome::Cancelled,
                    Some(Err(failure)) => Outcome::Failed(failure),
                    Some(Ok(config)) => {
                        task.config = config;
                        let outcome = attempt_outcome(handler, secrets, task, token.clone()).await;
                        payloads.keep_outcome(outcome, &token).await
                    }
                };
                let report = Report { node, attempt, token: delivery, worker: None, outcome };
                shared.inputs.push(Input::Report { execution, report, token_free: true });
            },
            &self.runtime,
        );
        cancel
    }

    /// Reads what a decision needs.
    pub(crate) fn fetch(&self, execution: ExecutionNo, wanted: Wanted) {
        let (payloads, shared) = (self.payloads.clone(), Arc::clone(&self.shared));
        let (store, plans) = (Arc::clone(&self.store), Arc::clone(&self.plans));
        self.tasks.spawn_on(
            async move {
                let over = &shared.over;
                let content = match wanted {
                    Wanted::Content(blob) => payloads.content(blob, over).await,
                    Wanted::Count(blob) => payloads.count(blob, over).await,
                    Wanted::Items { blob, page } => payloads.items(blob, page, over).await,
                    Wanted::Results { map, attempt, count } => {
                        let of = ResultsOf { execution, map, attempt, count };
                        payloads.results(store, plans, of, over).await
                    }
                };
                if let Some(content) = content {
                    shared.inputs.push(Input::Fetched { execution, wanted, content });
                }
            },
            &self.runtime,
        );
    }
}

/// Runs an attempt: secrets in, handler, time limit, secrets out. Remote workers use it as well.
/// There is an outcome whatever panics: without a report, a slot would be taken for ever.
pub async fn attempt_outcome(
    handler: Option<Arc<dyn Handler>>,
    secrets: Arc<dyn Secrets>,
    task: Task,
    cancel: CancellationToken,
) -> Outcome {
    let made = AssertUnwindSafe(make(handler, secrets, task, cancel)).catch_unwind().await;
    made.unwrap_or_else(|_| {
        // The panic's message was not scrubbed.
        let message = "the attempt panicked outside of its handler";
        Outcome::Lost(Failure::transient(kind::PANIC, message))
    })
}

async fn make(
    handler: Option<Arc<dyn Handler>>,
    secrets: Arc<dyn Secrets>,
    task: Task,
    cancel: CancellationToken,
) -> Outcome {
    let Some(handler) = handler else {
        let message = format!("no handler for {:?} is registered here", task.handler);
        return Outcome::Failed(Failure::permanent(kind::NO_HANDLER, message));
    };
    // Cancel-safe: nothing has been done with a secret that is still being read.
    let supplied = tokio::select! {
        biased;
        supplied = supply(task, &*handler, secrets) => supplied,
        () = cancel.cancelled() => return Outcome::Cancelled,
    };
    match supplied {
        Ok((task, scrubber)) => {
            // A handler's future may also panic when it is dropped.
            let ran = AssertUnwindSafe(run(handler, task, cancel)).catch_unwind().await;
            scrubber.outcome(ran.unwrap_or_else(|panic| finished(Err(panic))))
        }
        Err(failure) => Outcome::Failed(failure),
    }
}

async fn run(handler: Arc<dyn Handler>, task: Task, cancel: CancellationToken) -> Outcome {
    let timeout = task.timeout;
    let inner = cancel.child_token();
    let stop = inner.clone();
    // Built inside the guarded future: a handler may also panic before its first await.
    let holds_secrets = !task.secrets.is_empty();
    let attempt = HOLDS_SECRETS.scope(holds_secrets, async move { handler.run(task, inner).await });
    let attempt = AssertUnwindSafe(attempt).catch_unwind();
    tokio::pin!(attempt);
    let expired = async {
        match timeout {
            Some(timeout) => tokio::time::sleep(timeout.to_std()).await,
            None => std::future::pending().await,
        }
    };
    // Cancel-safe: `attempt` is pinned outside and polled on in the branches below.
    tokio::select! {
        result = &mut attempt => match finished(result) {
            // A handler that is quick to stop may be seen before the reason that it had; its failure
            // is not one of the node.
            Outcome::Failed(_) if stop.is_cancelled() => Outcome::Cancelled,
            outcome => outcome,
        },
        () = expired => {
            stop.cancel();
            match tokio::time::timeout(STOP_GRACE, &mut attempt).await {
                Ok(Ok(Ok(output))) => finished(Ok(Ok(output))),
                _ => {
                    let span = timeout.map(|t| t.to_string()).unwrap_or_default();
                    let message = format!("the attempt took longer than {span}");
                    Outcome::Failed(Failure::transient(kind::TIMEOUT, message))
                }
            }
        }
        () = cancel.cancelled() => match tokio::time::timeout(STOP_GRACE, &mut attempt).await {
            Ok(Ok(Ok(output))) => finished(Ok(Ok(output))),
            _ => Outcome::Cancelled,
        },
    }
}

type Finished = Result<Result<Json, Failure>, Box<dyn std::any::Any + Send>>;

fn finished(result: Finished) -> Outcome {
    match result {
        Ok(Ok(output)) => Outcome::Completed(output),
        Ok(Err(failure)) => Outcome::Failed(failure),
        Err(panic) => {
            let message = format!("the handler panicked: {}", panic_text(&*panic));
            Outcome::Lost(Failure::transient(kind::PANIC, message))
        }
    }
}

#[cfg(test)]
mod tests;
