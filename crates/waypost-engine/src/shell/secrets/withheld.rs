//! Tasks whose secrets are granted to other API keys than the one a worker polls with.
//!
//! Their queue is that of the handler, so a worker takes them before it is known whether it may have
//! them. They go back for other workers; and for a while, polls with this key take nothing of the queue:
//!
//! 1. A worker with the wrong key takes a task. Its poll looks at the tasks behind it, for one that it may have.
//! 2. The tasks that it may not have go back to the end of the queue, and workers that wait are offered them.
//! 3. If it found none, its next polls leave the queue out: without that it would take the same task
//!    again and again, and workers with the right key would have to be faster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use waypost_core::id::WorkerId;
use waypost_ports::tasks::Offer;

use crate::sealed_secrets::secrets_queue;
use crate::shell::{Shared, TasksOrder, WorkerPoll};

/// How long a key takes nothing from a queue in which it found nothing that it may have.
const WITHHELD_FOR: Duration = Duration::from_secs(5);
/// Tasks that one poll passes over at most.
const PASSED_OVER_MAX: usize = 256;

/// The queues that keys take nothing from, until when.
#[derive(Default)]
pub(crate) struct Withheld(Mutex<BTreeMap<KeyAndQueue, Instant>>);

/// The name of an API key, if there is one, and a queue.
type KeyAndQueue = (Option<Arc<str>>, Arc<str>);

impl Withheld {
    /// The queues that a poll leaves out, and when the first of them may be tried again.
    pub(crate) fn of(&self, poll: &WorkerPoll, now: Instant) -> (Vec<Arc<str>>, Option<Instant>) {
        let known = self.0.lock();
        let until = |queue: &Arc<str>| {
            let until = known.get(&(poll.key.clone(), Arc::clone(queue))).copied();
            until.filter(|until| *until > now)
        };
        let queues = poll.handlers.iter().map(|handler| secrets_queue(handler));
        let found = queues.filter_map(|queue| until(&queue).map(|until| (queue, until)));
        let (queues, ends): (Vec<_>, Vec<_>) = found.unzip();
        (queues, ends.into_iter().min())
    }

    fn add(&self, key: Option<&Arc<str>>, queue: &Arc<str>, now: Instant) {
        let mut known = self.0.lock();
        known.retain(|_, until| *until > now);
        known.insert((key.cloned(), Arc::clone(queue)), now + WITHHELD_FOR);
    }
}

/// The tasks that one poll passed over. They go back when it is dropped.
pub(crate) struct PassedOver {
    shared: Arc<Shared>,
    worker: WorkerId,
    offers: Vec<Offer>,
    /// Why, for people: each reason once.
    reasons: Vec<String>,
}

impl PassedOver {
    pub(crate) fn new(shared: &Arc<Shared>, worker: WorkerId) -> Self {
        Self { shared: Arc::clone(shared), worker, offers: Vec::new(), reasons: Vec::new() }
    }

    pub(crate) fn add(&mut self, offer: Offer, reason: String) {
        self.offers.push(offer);
        if !self.reasons.contains(&reason) {
            self.reasons.push(reason);
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.offers.len() >= PASSED_OVER_MAX
    }

    pub(crate) fn count(&self) -> usize {
        self.offers.len()
    }

    /// Leaves their queues out of the next polls with this key; nothing there was for it.
    pub(crate) fn withhold(&self, withheld: &Withheld, key: Option<&Arc<str>>) {
        let now = Instant::now();
        self.offers.iter().for_each(|offer| withheld.add(key, &offer.handler, now));
        for reason in &self.reasons {
            tracing::warn!(worker = %self.worker, reason, "withheld tasks from a worker: they wait for one with another API key");
        }
    }

    /// Puts them back; gives the reasons.
    pub(crate) fn put_back(mut self) -> Vec<String> {
        std::mem::take(&mut self.reasons)
    }
}

impl Drop for PassedOver {
    fn drop(&mut self) {
        if !self.offers.is_empty() {
            let offers = std::mem::take(&mut self.offers);
            let order = TasksOrder::Undelivered(self.worker, Vec::new(), offers);
            self.shared.task_orders.push(order);
        }
    }
}
