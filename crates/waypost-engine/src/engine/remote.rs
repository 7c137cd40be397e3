//! The engine's interface for remote workers: they poll for tasks and report on them, at any instance
//! of a cluster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use waypost_core::command::Outcome;
use waypost_core::failure::Failure;
use waypost_core::id::WorkerId;
use waypost_core::limits::PAYLOAD_BYTES_MAX;
use waypost_core::time::Millis;
use waypost_ports::store::StoreError;
use waypost_ports::tasks::{Depth, Tasks, WorkerRow};

use super::{Engine, EngineError};
use crate::driver::{Answer, Input, TaskReport};
use crate::sealed_secrets::handler_of;
use crate::shell::{
    Given, NotSealed, PassedOver, PollAnswer, Polled, Recipient, RemoteTask, TasksOrder, Waiting,
    WorkerPoll,
};

/// The result of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reported {
    /// It is in the log, or was before.
    Committed,
    /// It is durable; the execution's owner takes it, or finds that it comes too late.
    Accepted,
}

impl Engine {
    /// Records a worker's sign of life, and returns tasks as soon as there are any, at the latest
    /// after `wait`; with a cancellation, at once.
    ///
    /// Dropping this loses nothing: tasks that were taken for it are offered to others, and its
    /// worker's cancellations are stored again.
    pub async fn poll(&self, poll: WorkerPoll, wait: Duration) -> Result<Polled, EngineError> {
        let asked_at = Instant::now();
        let Some(public_key) = poll.public_key else {
            return Ok(self.poll_once((poll, Vec::new()), asked_at, wait).await?.polled);
        };
        let to = Recipient { public_key, key: poll.key.clone() };
        let (without, again_at) = self.worker_secrets.withheld.of(&poll, asked_at);
        // A queue that is left out is tried again in time, however long the poll would wait.
        let again_in = again_at.map(|at| at.saturating_duration_since(asked_at));
        let mut wait = again_in.map_or(wait, |again_in| wait.min(again_in));
        let poll = poll.with_secrets_queues();
        let mut passed_over = PassedOver::new(&self.shared, poll.worker);
        loop {
            let before = passed_over.count();
            let queues = (poll.clone(), without.clone());
            let given = self.poll_once(queues, asked_at, wait).await?;
            let mut polled = self.with_secrets(given, poll.worker, &to, &mut passed_over).await?;
            let found = !polled.tasks.is_empty() || !polled.cancel.is_empty();
            if !found && passed_over.count() > before && !passed_over.is_full() {
                // Behind the tasks that it may not have there may be one that it may have.
                wait = Duration::ZERO;
                continue;
            }
            if !polled.tasks.iter().any(|task| task.secrets.is_some()) {
                passed_over.withhold(&self.worker_secrets.withheld, to.key.as_ref());
            }
            polled.withheld = passed_over.put_back();
            return Ok(polled);
        }
    }

    /// One poll at the tasks thread, of the queues of its handlers without some.
    async fn poll_once(
        &self,
        (poll, without): (WorkerPoll, Vec<Arc<str>>),
        asked_at: Instant,
        wait: Duration,
    ) -> Result<Given, EngineError> {
        let permit = Arc::clone(&self.shared.polls).acquire_owned().await;
        let permit = permit.map_err(|_| EngineError::Stopping)?;
        let (reply, mut answer) = PollAnswer::to(&poll, &self.shared);
        let now = Instant::now();
        let until = now + wait;
        self.shared.task_orders.push(TasksOrder::Poll(Waiting {
            poll,
            reply,
            asked_at,
            until,
            hear_at: now,
            without,
            _permit: permit,
        }));
        // Both are cancel-safe: a poll that is dropped is noticed where it waits.
        let given = tokio::select! {
            biased;
            answer = answer.wait() => answer.ok_or(EngineError::Stopping)??,
            () = self.shared.tasks_thread_gone.cancelled() => return Err(EngineError::Stopping),
        };
        Ok(given)
    }

    /// The tasks with their secrets sealed to the worker's key. One whose secrets workers with another
    /// key may have is passed over; one whose secrets no worker may have fails.
    /// If the caller is gone meanwhile, they are offered again, as after any response that is lost.
    async fn with_secrets(
        &self,
        Given { polled, offers }: Given,
        worker: WorkerId,
        to: &Recipient,
        passed_over: &mut PassedOver,
    ) -> Result<Polled, EngineError> {
        let mut tasks = Vec::with_capacity(polled.tasks.len());
        for (mut task, offer) in polled.tasks.into_iter().zip(offers) {
            if task.places.is_empty() {
                tasks.push(task);
                continue;
            }
            match self.worker_secrets.seal(&mut task, to).await {
                Ok(()) => tasks.push(task),
                Err(NotSealed::Failed(failure)) => self.fail_unsent(task, worker, failure),
                Err(NotSealed::ForAnotherKey(refused)) => {
                    passed_over.add(offer, refused.to_string());
                }
                Err(NotSealed::BadKey(error)) => return Err(error.into()),
            }
        }
        Ok(Polled { tasks, ..polled })
    }

    /// Reports for a worker that a task cannot be given to it. Not awaited: if it is lost, the task is
    /// offered again and fails again.
    fn fail_unsent(&self, task: RemoteTask, worker: WorkerId, failure: Failure) {
        let (ticket, _) = self.shared.questions.ask(None);
        let RemoteTask { number, execution, node, attempt, token, .. } = task;
        let (key, outcome) = (Some(execution), Outcome::Failed(failure));
        let report = TaskReport { execution: number, key, node, attempt, token, worker, outcome };
        self.shared.inputs.push(Input::TaskReport { report, ticket, only_here: false });
    }

    /// Takes a remote worker's report on an attempt. Returns when it is committed, here or by the
    /// instance that owns the execution; or at least durable, if that instance does not confirm in
    /// time. A report that comes too late, or whose sender does not hold the attempt, is rejected;
    /// a repeated one is committed.
    pub async fn report(&self, report: TaskReport) -> Result<Reported, EngineError> {
        let report = self.worker_secrets.scrub(report).await?;
        let report = TaskReport { outcome: self.limited(report.outcome).await?, ..report };
        // The relay is tried once; a report that it does not deliver goes through the inbox.
        let mut quick = self.relaying.as_ref().filter(|_| report.key.is_some());
        loop {
            let (ticket, answer) = self.ask(&self.shared.requests).await?;
            let only_here = quick.is_some();
            self.shared.inputs.push(Input::TaskReport {
                report: report.clone(),
                ticket,
                only_here,
            });
            return match answer.await {
                Ok(Answer::Done { .. }) => Ok(Reported::Committed),
                Ok(Answer::Accepted(_)) => Ok(Reported::Accepted),
                Ok(Answer::NotHere) => match quick.take() {
                    Some(relaying) if relaying.send(report.clone()).await => {
                        Ok(Reported::Committed)
                    }
                    _ => continue,
                },
                // It left memory meanwhile, and nothing was done: now the inbox takes it. Or it has
                // ended: its log shows whether one of its attempts ended with this report.
                Ok(Answer::Moved | Answer::Ended(_)) => continue,
                other => Err(EngineError::of(other.ok())),
            };
        }
    }

    /// The remote workers, by id.
    pub async fn workers(&self) -> Result<Vec<WorkerRow>, EngineError> {
        self.ask_tasks(|tasks| tasks.workers()).await
    }

    /// How much waits for remote workers, by handler, with secrets and without.
    pub async fn depths(&self) -> Result<Vec<Depth>, EngineError> {
        let mut depths: BTreeMap<Arc<str>, Depth> = BTreeMap::new();
        for queue in self.ask_tasks(|tasks| tasks.depths()).await? {
            let handler: Arc<str> = handler_of(&queue.handler).into();
            let none = Depth { handler: Arc::clone(&handler), waiting: 0, oldest: Millis(0) };
            let depth = depths.entry(handler).or_insert(none);
            depth.waiting = depth.waiting.saturating_add(queue.waiting);
            depth.oldest = depth.oldest.max(queue.oldest);
        }
        Ok(depths.into_values().collect())
    }

    async fn ask_tasks<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&dyn Tasks) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, EngineError> {
        let tasks = Arc::clone(&self.tasks);
        let asked = tokio::task::spawn_blocking(move || ask(&*tasks)).await;
        Ok(asked.map_err(|_| EngineError::Stopping)??)
    }

    /// The outcome, within the limits of the log: a larger output goes to the blob store, as that of a
    /// handler here does; a larger mark or larger details of a failure are rejected.
    async fn limited(&self, outcome: Outcome) -> Result<Outcome, EngineError> {
        let bytes = match &outcome {
            Outcome::Checkpoint(mark) => mark.data.bytes(),
            Outcome::Failed(failure) | Outcome::Lost(failure) => {
                let details = failure.details.as_ref().map_or(0, |details| details.bytes());
                details.saturating_add(failure.message.len()).saturating_add(failure.kind.len())
            }
            Outcome::Started | Outcome::Completed(_) | Outcome::Cancelled | Outcome::Blocked(_) => {
                0
            }
        };
        match outcome {
            _ if bytes > PAYLOAD_BYTES_MAX => Err(EngineError::TooLarge(bytes)),
            Outcome::Completed(output) => Ok(Outcome::Completed(self.keep(output).await?)),
            other => Ok(other),
        }
    }
}
