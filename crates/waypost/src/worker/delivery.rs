//! One task: its start, its handler, its report.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use waypost_core::command::Mark;
use waypost_core::failure::{Failure, kind};
use waypost_core::id::{ExecutionId, Token};
use waypost_core::json::Json;
use waypost_core::time::Millis;
use waypost_engine::{MarkReporter, attempt_outcome};
use waypost_ports::handler::{Marks, Task};
use waypost_server::rate_limited_log::RateLimitedLog;
use waypost_server::wire;
use waypost_server::wire::payload::{Count, Payload, Short, WorkerKey};
use waypost_server::wire::worker::TaskStatus;

use super::Worker;
use super::finished::{Attempt, KnownAttempt};
use super::in_hand::Making;
use super::servers::{is_over, is_unfit};
use crate::client::Ask;

pub(super) use waypost_core::command::Outcome;

/// How long one server may take to answer before the next one is asked. A report that is sent twice
/// counts once.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long an accepted start that is not yet in the log delays the handler. The execution's owner
/// usually commits it within milliseconds, and within a second if no notification woke it; after
/// this time the owner is unreachable. Well below the time after which the task is offered again.
const ACCEPTED_MAX: Duration = Duration::from_secs(3);
/// How long to wait before an accepted start is sent again: twice as long each time.
const ACCEPTED_PAUSE: Duration = Duration::from_millis(25);
const ACCEPTED_PAUSE_MAX: Duration = Duration::from_millis(500);

/// While a server is unreachable, or rejects the key, all deliveries log the same message again and
/// again.
static KEPT: RateLimitedLog = RateLimitedLog::every(10);

pub(super) struct TaskDelivery<'a> {
    pub(super) worker: &'a Worker,
    pub(super) task: wire::Task,
    pub(super) cancel: CancellationToken,
}

impl TaskDelivery<'_> {
    /// Runs the attempt, unless another delivery ran it or is running it, and reports until a
    /// server has answered.
    pub(super) async fn make(&self) {
        let attempt = Attempt {
            execution: self.task.execution.clone(),
            node: self.task.node.clone(),
            attempt: self.task.attempt,
        };
        // Registered before anything is looked up: ends from here on are seen there.
        let held = self.worker.attempts.hold(&attempt);
        let known = self.worker.finished.lock().known(&attempt);
        let outcome = match known {
            Some(KnownAttempt::Outcome(outcome)) => outcome,
            known => {
                if !self.began(&held.making, known.is_some()).await {
                    return;
                }
                held.making.make(&self.cancel, |cancel| self.run(&attempt, cancel)).await
            }
        };
        self.worker.unanswered.fetch_add(1, Ordering::Relaxed);
        if self.report(&outcome).await {
            self.worker.finished.lock().settle(&attempt);
        }
        self.worker.unanswered.fetch_sub(1, Ordering::Relaxed);
    }

    /// Sends the start until a server answers: from then on the attempt is this worker's, and a
    /// task that is started in the log and dropped here would be missed by no other component. An
    /// accepted start reserves nothing, so it is sent again until it is in the log or rejected. If
    /// the owner is unreachable for long, the handler runs anyway, unless the attempt must not run
    /// twice or was `settled` here before. If another delivery has run it meanwhile, only its
    /// outcome is reported.
    async fn began(&self, making: &Making, settled: bool) -> bool {
        let start = wire::TaskStart {
            worker: WorkerKey(self.worker.id),
            execution: Short(self.task.execution.clone()),
            node: Short(self.task.node.clone()),
            attempt: Count(self.task.attempt),
        };
        let needs_log = self.task.at_most_once || settled;
        let mut accepted = Accepted::default();
        loop {
            let answer = self.tell("start", &start).await;
            let leaving = self.worker.leaving.load(Ordering::Relaxed);
            match answer {
                Err(error) if is_over(&error) || is_unfit(&error) => {
                    info!(%error, node = self.task.node, "another worker has the task");
                    return false;
                }
                _ if making.is_over() || leaving && making.has_begun() => return true,
                _ if leaving => {
                    self.give_up().await;
                    return false;
                }
                Ok(reported) if reported.committed || self.cancel.is_cancelled() => return true,
                Ok(_) if accepted.for_long(Instant::now()) && !needs_log => return true,
                // Both are cancel-safe. A cancelled attempt does not start.
                Ok(_) => tokio::select! {
                    () = self.cancel.cancelled() => {}
                    () = tokio::time::sleep(accepted.pause()) => {}
                },
                Err(error) => self.keep(&error, "a start is not answered; kept").await,
            }
        }
    }

    /// The worker stops before the attempt has started, whether or not the log has its start. Sent
    /// once: if it is lost, the worker's departure has the same effect.
    async fn give_up(&self) {
        let message = "the worker stopped before the attempt had begun";
        let failure = Failure { unsent: true, ..Failure::handed_over(message) };
        let Some(report) = self.wire(&Outcome::Lost(failure)) else { return };
        if let Err(error) = self.tell("report", &report).await {
            info!(%error, node = self.task.node, "dropped a task that had not started");
        }
    }

    async fn run(&self, attempt: &Attempt, cancel: CancellationToken) -> Outcome {
        let options = &self.worker.options;
        let handler = options.handlers.get(self.task.handler.as_str()).cloned();
        let token = u128::from_str_radix(&self.task.token, 16).unwrap_or_default();
        let config = match self.inline(&self.task.input.0).await {
            Ok(config) => config,
            Err(outcome) => return outcome,
        };
        let (config, placeholders, secrets) = match self.with_secrets(config) {
            Ok(supplied) => supplied,
            Err(failure) => return Outcome::Failed(failure),
        };
        let task = Task {
            execution: ExecutionId(self.task.execution.as_str().into()),
            workflow: self.task.workflow.as_str().into(),
            path: self.task.node.as_str().into(),
            attempt: self.task.attempt,
            handler: self.task.handler.as_str().into(),
            config,
            checkpoint: self.task.checkpoint.clone().map(|mark| mark.0),
            placeholders,
            operation: None,
            secrets: Vec::new(),
            timeout: self.task.timeout_ms.map(Millis),
            heartbeat: self.task.heartbeat_ms.map(Millis),
            breaker: None,
            marks: Marks::none(),
            idempotency_key: self.task.idempotency_key.clone(),
            token: Token(token),
        };
        let outcome = attempt_outcome(handler, secrets, task, cancel, self).await;
        let outcome = match outcome {
            // Cancelled because this process stops in order, which is no outcome of the task.
            Outcome::Cancelled if self.worker.leaving.load(Ordering::Relaxed) => Outcome::Lost(
                Failure::handed_over("the worker that ran the attempt was stopped in order"),
            ),
            outcome => outcome,
        };
        let mut finished = self.worker.finished.lock();
        finished.remember(attempt.clone(), outcome.clone(), Instant::now());
        outcome
    }

    /// Repeats the report until it is answered. Returns whether it is committed, and not merely
    /// accepted for the execution's owner. A report that is rejected for its content is sent as a
    /// failure instead: the attempt is this worker's until it ends.
    async fn report(&self, outcome: &Outcome) -> bool {
        let Some(mut report) = self.wire(outcome) else { return true };
        report.output.0 = self.reported(&report.output.0).await;
        let mut is_plain = false;
        loop {
            match self.tell("report", &report).await {
                Ok(reported) => return reported.committed,
                Err(error) if is_over(&error) => {
                    info!(%error, node = self.task.node, "the report was refused");
                    return true;
                }
                Err(error) if is_unfit(&error) && !is_plain => {
                    let message = format!("the server refuses the outcome: {error:#}");
                    let failure = Failure::permanent(kind::TOO_LARGE, message);
                    let Some(failed) = self.wire(&Outcome::Failed(failure)) else { return true };
                    (report, is_plain) = (failed, true);
                }
                Err(error) => self.keep(&error, "a report is not answered; kept").await,
            }
        }
    }

    /// Waits before a request is repeated, and logs a warning now and then.
    pub(super) async fn keep(&self, error: &anyhow::Error, what: &str) {
        if let Some(others) = KEPT.may_log() {
            warn!(%error, node = self.task.node, others, "{what}");
        }
        self.worker.servers.pause().await;
    }

    fn wire(&self, outcome: &Outcome) -> Option<wire::TaskReport> {
        let (status, output, failure) = match outcome {
            Outcome::Completed(output) => (TaskStatus::Completed, output.clone(), None),
            Outcome::Failed(failure) => (TaskStatus::Failed, Json::null(), Some(failure)),
            Outcome::Lost(failure) => (TaskStatus::Abandoned, Json::null(), Some(failure)),
            Outcome::Cancelled => (TaskStatus::Cancelled, Json::null(), None),
            Outcome::Started | Outcome::Checkpoint(_) | Outcome::Blocked(_) => return None,
        };
        Some(wire::TaskReport {
            worker: WorkerKey(self.worker.id),
            execution: Short(self.task.execution.clone()),
            node: Short(self.task.node.clone()),
            attempt: Count(self.task.attempt),
            status,
            output: Payload(output),
            failure: failure.map(wire_failure),
        })
    }

    async fn tell(
        &self,
        what: &'static str,
        body: &impl serde::Serialize,
    ) -> Result<wire::Reported> {
        let token = self.task.token.clone();
        let body = serde_json::to_value(body)?;
        self.worker
            .servers
            .ask(|client| {
                let (token, body) = (token.clone(), body.clone());
                async move {
                    let ask = Ask::post(&["tasks", &token, what]).json(&body)?.within(PATIENCE);
                    Ok(client.ask(ask).await?.body)
                }
            })
            .await
    }
}

impl MarkReporter for TaskDelivery<'_> {
    /// Sends the mark until a server answers. Newer marks replace each other meanwhile.
    fn report_mark(&self, mark: Mark) -> BoxFuture<'_, ()> {
        let checkpoint = wire::TaskCheckpoint {
            worker: WorkerKey(self.worker.id),
            execution: Short(self.task.execution.clone()),
            node: Short(self.task.node.clone()),
            attempt: Count(self.task.attempt),
            data: Payload(mark.data),
            number: Some(Count(mark.number)),
        };
        Box::pin(async move {
            while let Err(error) = self.tell("checkpoint", &checkpoint).await {
                if is_over(&error) || is_unfit(&error) {
                    info!(%error, node = self.task.node, "a checkpoint was refused");
                    return;
                }
                self.keep(&error, "a checkpoint is not answered; kept").await;
            }
        })
    }
}

/// A start that was accepted, again and again.
#[derive(Default)]
struct Accepted {
    since: Option<Instant>,
    times: u32,
}

impl Accepted {
    /// The start was accepted again. Has this lasted so long that the owner must be unreachable?
    fn for_long(&mut self, now: Instant) -> bool {
        now.duration_since(*self.since.get_or_insert(now)) >= ACCEPTED_MAX
    }

    /// How long to wait before it is sent again.
    fn pause(&mut self) -> Duration {
        let pause = ACCEPTED_PAUSE.saturating_mul(1 << self.times.min(10));
        self.times += 1;
        pause.min(ACCEPTED_PAUSE_MAX)
    }
}

/// A failure in the form of the protocol, with all fields that the retry policy uses.
fn wire_failure(failure: &Failure) -> wire::TaskFailure {
    let ms = |span: Millis| Count(u32::try_from(span.0).unwrap_or(u32::MAX));
    wire::TaskFailure {
        kind: Short(failure.kind.to_string()),
        message: Short(shortened(&failure.message)),
        retryable: failure.retryable,
        http_status: failure.status.map(|status| Count(status.into())),
        unsent: failure.unsent,
        retry_after_ms: failure.retry_after.map(ms),
        details: failure.details.clone().map(Payload),
    }
}

/// A message as the protocol takes it: not empty, not long, without control characters.
fn shortened(message: &str) -> String {
    let clean = message.chars().map(|c| if c.is_control() { ' ' } else { c });
    let text: String = clean.take(4_000).collect();
    if text.is_empty() { "no message".to_owned() } else { text }
}
