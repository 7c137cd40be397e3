//! The local worker: runs handlers in slots and reports the outcome of each attempt. Secrets enter
//! a task here, and are removed from its outcome; no code outside of this file's attempts sees one.

mod marks;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use waypost_core::command::{Mark, Outcome, Report};
use waypost_core::expr::Wanted;
use waypost_core::failure::{Failure, kind};
use waypost_core::id::{ExecutionNo, Token};
use waypost_core::json::Json;
use waypost_core::time::Millis;
use waypost_ports::handler::{Handler, Marks, Task};
use waypost_ports::store::Store;

use super::breakers::BreakerGate;
use super::results::ResultsOf;
pub use super::secrets::Supplies;
use super::secrets::{Scrubber, supply};
use super::{Payloads, Plans, Shared};
use crate::driver::{Input, TaskOrder};
use crate::panic_text;

use self::marks::AttemptMarks;
pub use self::marks::MarkReporter;

/// How long a cancelled handler may take to end before it is dropped.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// How long the last mark of an attempt that did not complete may delay its report.
const LAST_MARK_MAX: Duration = Duration::from_secs(5);

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
    pub(crate) supplies: Supplies,
    pub(crate) runtime: tokio::runtime::Handle,
    pub(crate) tasks: tokio_util::task::TaskTracker,
    pub(crate) shared: Arc<Shared>,
    pub(crate) payloads: Payloads,
    /// For the results of maps.
    pub(crate) store: Arc<dyn Store>,
    pub(crate) plans: Arc<Plans>,
    pub(crate) breakers: Arc<BreakerGate>,
}

impl LocalWorker {
    /// Starts an attempt; the report comes through the engine's inbox.
    pub(crate) fn start(&self, order: TaskOrder) -> CancellationToken {
        let cancel = CancellationToken::new();
        let handler = self.handlers.get(&*order.task.handler).map(Arc::clone);
        let supplies = self.supplies.clone();
        let shared = Arc::clone(&self.shared);
        let payloads = self.payloads.clone();
        let breakers = Arc::clone(&self.breakers);
        let token = cancel.clone();
        self.tasks.spawn_on(
            async move {
                let TaskOrder { execution, mut task, .. } = order;
                let (node, attempt, delivery) = (Arc::clone(&task.path), task.attempt, task.token);
                let reporter = LocalMarks {
                    shared: &shared,
                    execution,
                    node: Arc::clone(&node),
                    attempt,
                    token: delivery,
                };
                let inlined = match handler.as_ref().is_some_and(|h| h.takes_references()) {
                    true => Some(Ok(task.config.clone())),
                    false => payloads.inline(&task.config, &token).await,
                };
                let outcome = match inlined {
                    None => Outcome::Cancelled,
                    Some(Err(failure)) => Outcome::Failed(failure),
                    Some(Ok(config)) => {
                        task.config = config;
                        let breaker = task.breaker.take();
                        let timeout = task.timeout;
                        let attempt =
                            attempt_outcome(handler, supplies, task, token.clone(), &reporter);
                        let outcome = match breaker {
                            None => attempt.await,
                            Some(of) => breakers.guard(of, timeout, &token, attempt).await,
                        };
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

/// Reports the marks of an attempt that runs here to its driver.
struct LocalMarks<'a> {
    shared: &'a Shared,
    execution: ExecutionNo,
    node: Arc<str>,
    attempt: u32,
    token: Token,
}

impl MarkReporter for LocalMarks<'_> {
    fn report_mark(&self, mark: Mark) -> BoxFuture<'_, ()> {
        let (ticket, answer) = self.shared.questions.ask(None);
        let report = Report {
            node: Arc::clone(&self.node),
            attempt: self.attempt,
            token: self.token,
            worker: None,
            outcome: Outcome::Checkpoint(mark),
        };
        let execution = self.execution;
        self.shared.inputs.push(Input::Mark { execution, report, ticket });
        // Whatever the answer is: a mark that is refused is of no use to a later attempt.
        Box::pin(async move { drop(answer.await) })
    }
}

/// Runs an attempt: secrets in, handler, time limits, marks, secrets out. Remote workers use it as well.
/// There is an outcome whatever panics: without a report, a slot would be taken for ever.
pub async fn attempt_outcome(
    handler: Option<Arc<dyn Handler>>,
    supplies: impl Into<Supplies>,
    task: Task,
    cancel: CancellationToken,
    marks: &dyn MarkReporter,
) -> Outcome {
    let supplies = supplies.into();
    let made = AssertUnwindSafe(make(handler, supplies, task, cancel, marks)).catch_unwind().await;
    made.unwrap_or_else(|_| {
        // The panic's message was not scrubbed.
        let message = "the attempt panicked outside of its handler";
        Outcome::Lost(Failure::transient(kind::PANIC, message))
    })
}

async fn make(
    handler: Option<Arc<dyn Handler>>,
    supplies: Supplies,
    task: Task,
    cancel: CancellationToken,
    reporter: &dyn MarkReporter,
) -> Outcome {
    let Some(handler) = handler else {
        let message = format!("no handler for {:?} is registered here", task.handler);
        return Outcome::Failed(Failure::permanent(kind::NO_HANDLER, message));
    };
    // Cancel-safe: nothing has been done with a secret that is still being read.
    let supplied = tokio::select! {
        biased;
        supplied = supply(task, &*handler, supplies) => supplied,
        () = cancel.cancelled() => return Outcome::Cancelled,
    };
    match supplied {
        Ok((task, scrubber)) => run_marking(handler, task, cancel, (&scrubber, reporter)).await,
        Err(failure) => Outcome::Failed(failure),
    }
}

/// Runs the handler, and reports its marks meanwhile. The last one is reported before the outcome of
/// an attempt that a later one may continue.
async fn run_marking(
    handler: Arc<dyn Handler>,
    mut task: Task,
    cancel: CancellationToken,
    (scrubber, reporter): (&Scrubber, &dyn MarkReporter),
) -> Outcome {
    let marks = Arc::new(AttemptMarks::default());
    task.marks = Marks::to(Arc::clone(&marks) as _);
    // A handler's future may also panic when it is dropped.
    let ran = AssertUnwindSafe(run(handler, task, cancel, &marks)).catch_unwind();
    let sending = marks.send(scrubber, reporter);
    tokio::pin!(ran, sending);
    // Cancel-safe: both are pinned outside.
    let ran = tokio::select! {
        ran = &mut ran => ran,
        () = &mut sending => unreachable!("marks are sent until the attempt has ended"),
    };
    let outcome = ran.unwrap_or_else(|panic| finished(Err(panic)));
    if !matches!(outcome, Outcome::Completed(_)) {
        marks.end();
        if tokio::time::timeout(LAST_MARK_MAX, sending).await.is_err() {
            tracing::warn!("the last mark of an attempt was not committed in time");
        }
    }
    scrubber.outcome(outcome)
}

async fn run(
    handler: Arc<dyn Handler>,
    task: Task,
    cancel: CancellationToken,
    marks: &AttemptMarks,
) -> Outcome {
    let (timeout, heartbeat) = (task.timeout, task.heartbeat);
    let inner = cancel.child_token();
    let stop = inner.clone();
    // Built inside the guarded future: a handler may also panic before its first await.
    let holds_secrets = !task.secrets.is_empty() || task.operation.is_some();
    let attempt = HOLDS_SECRETS.scope(holds_secrets, async move { handler.run(task, inner).await });
    let attempt = AssertUnwindSafe(attempt).catch_unwind();
    tokio::pin!(attempt);
    let expired = async {
        match timeout {
            Some(timeout) => tokio::time::sleep(timeout.to_std()).await,
            None => std::future::pending().await,
        }
    };
    let span = |limit: Option<Millis>| limit.map(|limit| limit.to_string()).unwrap_or_default();
    // Both are cancel-safe.
    let given_up = async {
        tokio::select! {
            () = expired => format!("the attempt took longer than {}", span(timeout)),
            () = marks.fall_silent(heartbeat) => {
                format!("no sign of life for {}", span(heartbeat))
            }
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
        message = given_up => {
            stop.cancel();
            let failure = Failure::transient(kind::TIMEOUT, message);
            match tokio::time::timeout(STOP_GRACE, &mut attempt).await {
                Ok(Ok(Ok(output))) => finished(Ok(Ok(output))),
                // How far it came, such as a command's last output.
                Ok(Ok(Err(Failure { details, .. }))) => {
                    Outcome::Failed(Failure { details, ..failure })
                }
                _ => Outcome::Failed(failure),
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
