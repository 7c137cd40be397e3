//! Tasks for remote workers, one try at a time: turns orders of the driver and polls of workers
//! into calls of [`Tasks`]. The caller has the thread and decides when to repeat; offers are
//! repeated by their owners.

use std::collections::BTreeSet;
use std::sync::Arc;

use tracing::warn;
use waypost_core::expr::Placeholder;
use waypost_core::id::{ExecutionId, ExecutionNo, InstanceId, Token, WorkerId};
use waypost_core::json::Json;
use waypost_core::time::Millis;
use waypost_ports::nudge::{Nudge, Nudges};
use waypost_ports::store::StoreError;
use waypost_ports::tasks::{Hand, Offer, OfferId, SignOfLife, Tasks};

use super::secrets;
use crate::driver::{Input, Look, OfferOrder};
use crate::links::CallbackLinks;
use crate::sealed::{OfferedTask, Seal};
use crate::sealed_secrets::{PublicKey, SealedText, handler_of, secrets_queue};
use crate::tokens::{AttemptRef, TokenIssuer};

/// A worker's poll for tasks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkerPoll {
    pub worker: WorkerId,
    pub name: Arc<str>,
    pub handlers: Vec<Arc<str>>,
    /// How many tasks it makes at once.
    pub capacity: u32,
    /// How many it makes now.
    pub running: u32,
    /// How many it would take now; with 0 it only sends a sign of life and reads its cancellations.
    pub max: usize,
    /// Is it leaving? Then it is given nothing, and its attempts are abandoned.
    pub leaving: bool,
    /// The tasks that it has in hand, if it lists them.
    pub tasks: Option<Arc<[Token]>>,
    /// The key to which secrets are sealed; without it the worker gets no tasks with secrets.
    pub public_key: Option<PublicKey>,
    /// The name of the API key that it polls with.
    pub key: Option<Arc<str>>,
}

impl WorkerPoll {
    /// The queues that it takes from.
    pub(crate) fn with_secrets_queues(mut self) -> Self {
        if self.public_key.is_some() {
            let queues: Vec<_> = self.handlers.iter().map(|name| secrets_queue(name)).collect();
            self.handlers.extend(queues);
        }
        self
    }
}

/// The answer to a poll.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Polled {
    pub tasks: Vec<RemoteTask>,
    pub cancel: Vec<Token>,
    /// Why tasks stay in their queue that this worker serves, for people.
    pub withheld: Vec<String>,
}

/// A task in the hands of a remote worker.
#[derive(Clone, PartialEq, Debug)]
pub struct RemoteTask {
    /// The right to report on it.
    pub token: Token,
    /// The execution's number, which reports name.
    pub number: ExecutionNo,
    pub execution: ExecutionId,
    pub workflow: Arc<str>,
    pub node: Arc<str>,
    pub attempt: u32,
    pub handler: Arc<str>,
    pub input: Json,
    /// How long the attempt may take; the owner gives it up some seconds later.
    pub timeout: Option<Millis>,
    /// How long the attempt may give no sign of life; the worker enforces it.
    pub heartbeat: Option<Millis>,
    /// For deduplication by outside systems.
    pub idempotency_key: String,
    /// The mark that an earlier attempt left last.
    pub checkpoint: Option<Json>,
    /// Must it not start before its start was answered as committed? A start that was only accepted
    /// is sent again until it is.
    pub at_most_once: bool,
    /// Its secrets, sealed to the worker's key: the JSON object of their names and values.
    pub secrets: Option<SealedText>,
    /// Where secrets belong in `input`, until they are sealed.
    pub(crate) places: Vec<Placeholder>,
}

/// A task that was taken and not handed over yet.
#[derive(Clone, PartialEq, Debug)]
pub struct Taken {
    /// The offer, to put it back.
    pub offer: Offer,
    task: OfferedTask,
}

/// See the module.
pub struct RemoteTasks {
    pub tasks: Arc<dyn Tasks>,
    pub nudges: Arc<dyn Nudges>,
    pub issuer: TokenIssuer,
    pub seal: Seal,
    pub callbacks: CallbackLinks,
    pub instance: InstanceId,
}

impl RemoteTasks {
    /// Offers tasks, and nudges the instances whose workers serve them.
    pub fn offer(&self, orders: Vec<OfferOrder>) -> Result<(), StoreError> {
        let handlers: BTreeSet<Arc<str>> =
            orders.iter().map(|order| Arc::clone(&order.handler)).collect();
        let close =
            |order: OfferOrder| self.seal.close(self.instance, order.id, order.handler, order.task);
        let offers: Vec<Offer> = orders.into_iter().map(close).collect();
        self.tasks.offer(&offers)?;
        handlers.into_iter().for_each(|handler| self.nudges.send(Nudge::Offered(handler)));
        Ok(())
    }

    /// Stores cancellations for workers, and nudges the instances that those workers talk to.
    pub fn cancel(&self, cancels: &[(WorkerId, Token)]) -> Result<(), StoreError> {
        let through = self.tasks.cancel(cancels)?;
        let others = through.into_iter().filter(|through| *through != self.instance);
        others.for_each(|to| self.nudges.send(Nudge::Cancelled(to)));
        Ok(())
    }

    /// Answers a question about the workers.
    pub fn look(&self, look: Look) -> Input {
        let Look { share, held: asked, serving } = look;
        let seen = match asked.as_slice() {
            [] => Ok(Vec::new()),
            asked => self.tasks.who_holds(asked),
        };
        let seen =
            seen.map_err(|error| warn!(%error, "could not check whether workers are alive")).ok();
        let serving = if serving { self.serving() } else { Vec::new() };
        Input::WorkersSeen { share, asked, seen, serving }
    }

    fn serving(&self) -> Vec<Arc<str>> {
        let rows = self.tasks.workers().unwrap_or_else(|error| {
            warn!(%error, "the workers cannot be listed");
            Vec::new()
        });
        let alive = rows.into_iter().filter(|row| row.alive);
        let handlers: BTreeSet<Arc<str>> = alive.flat_map(|row| row.sign.handlers).collect();
        handlers.into_iter().collect()
    }

    /// Records a sign of life of a worker, sent so long ago; returns its cancellations. `thorough`
    /// after a notification of a cancellation.
    pub fn record_presence(
        &self,
        poll: &WorkerPoll,
        sent_ago: Millis,
        thorough: bool,
    ) -> Result<Vec<Token>, StoreError> {
        let poll = poll.clone();
        self.tasks.record_presence(&SignOfLife {
            worker: poll.worker,
            name: poll.name,
            handlers: poll.handlers,
            capacity: poll.capacity,
            running: poll.running,
            through: self.instance,
            leaving: poll.leaving,
            hand: poll.tasks.map(|tokens| Hand { tokens, sent_ago }),
            thorough,
        })
    }

    /// Takes tasks of some handlers, and returns how many were invalid and are dropped.
    pub fn take(
        &self,
        handlers: &[Arc<str>],
        limit: usize,
    ) -> Result<(Vec<Taken>, u64), StoreError> {
        let offers = self.tasks.take(handlers, limit)?;
        let (mut taken, mut broken) = (Vec::with_capacity(offers.len()), 0);
        for offer in offers {
            match self.seal.open(&offer) {
                Ok(task) => taken.push(Taken { offer, task }),
                Err(error) => {
                    let OfferId { execution, path, attempt } = &offer.id;
                    warn!(%execution, node = %path, attempt, %error, "dropped a task offer");
                    broken += 1;
                }
            }
        }
        Ok((taken, broken))
    }

    /// A task for its one taker. The bits must be unpredictable.
    pub fn hand_over(&self, taken: Taken, random: u64) -> RemoteTask {
        let Taken { offer: Offer { id, handler, .. }, task } = taken;
        let delivery = AttemptRef::of_offer(&id, &task);
        let (input, places) = self.with_callback(&task);
        RemoteTask {
            token: self.issuer.issue_marked(&delivery, random, !task.placeholders.is_empty()),
            input,
            number: id.execution,
            execution: task.execution,
            workflow: task.workflow,
            node: id.path,
            attempt: id.attempt,
            handler: handler_of(&handler).into(),
            timeout: task.timeout,
            heartbeat: task.heartbeat,
            idempotency_key: task.idempotency_key,
            checkpoint: task.checkpoint,
            at_most_once: task.at_most_once,
            secrets: None,
            places,
        }
    }

    /// The input of a task with the link of its callback, and the places of secrets in it. A server that
    /// hands out tasks has an address; a place for which there is no value stays empty.
    fn with_callback(&self, task: &OfferedTask) -> (Json, Vec<Placeholder>) {
        let value = |place: &Placeholder| {
            let operation = task.operation.as_ref();
            let value = self.callbacks.value(&place.name, &task.execution, operation);
            Some(value.and_then(Result::ok).unwrap_or_default())
        };
        let places = task.placeholders.iter();
        let (links, secrets): (Vec<_>, Vec<_>) =
            places.clone().cloned().partition(Placeholder::is_callback);
        let Ok(input) = secrets::fill(&task.input, &links, value) else {
            return (task.input.clone(), secrets);
        };
        // What comes after a link moves with it.
        let mut longer = 0;
        let moved = places.filter_map(|place| match place.is_callback() {
            true => {
                longer += value(place).map_or(0, |link| link.len());
                None
            }
            false => Some(Placeholder { at: place.at + longer, ..place.clone() }),
        });
        (input, moved.collect())
    }
}

#[cfg(test)]
pub(super) mod tests;
