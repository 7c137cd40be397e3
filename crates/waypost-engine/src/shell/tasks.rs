//! The tasks thread: all calls to the task store, and the long polls of workers.
//!
//! ```text
//!   engine thread ── offers, withdrawals, cancels, looks ──▶ ┐
//!   Engine::poll ─── polls ────────────────────────────────▶ ├ tasks thread ──▶ Tasks
//!   nudges ───────── look now ─────────────────────────────▶ ┘
//! ```
//!
//! Polls for the same handlers share one read, a second after the last one or at once when a task was
//! offered. While a poll waits, its worker's cancellations are read every five seconds. Tasks that were
//! taken for a poll whose caller is gone are returned, and so are its worker's cancellations.

mod answer;
mod cancel_reads;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::OwnedSemaphorePermit;
use tracing::warn;
use uuid::Uuid;
use waypost_core::id::{Token, WorkerId};
use waypost_core::time::Millis;
use waypost_ports::store::StoreError;
use waypost_ports::tasks::{Offer, OfferId};

use self::answer::Reply;
pub(crate) use self::answer::{Given, PollAnswer};
use self::cancel_reads::{CancelRead, CancelReads};
use super::Shared;
use super::lanes::Order;
use super::remote_tasks::{Polled, RemoteTask, RemoteTasks, Taken, WorkerPoll};
use crate::driver::{Look, OfferOrder, TaskWork};

/// How often tasks are polled without a hint.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often a waiting worker's sign of life is recorded: three times within its lease.
const HEAR_EVERY: Duration = Duration::from_secs(5);
/// Longest sleep of the thread while no poll waits.
const SLEEP_MAX: Duration = Duration::from_secs(60);

pub(crate) enum TasksOrder {
    Perform(TaskWork),
    Poll(Waiting),
    /// A worker's cancellations and tasks, in an answer that was not read.
    Undelivered(WorkerId, Vec<Token>, Vec<Offer>),
    Offered,
    /// A worker that waits here may have to stop something.
    Cancelled,
    /// Answer all polls that wait.
    Drain,
    Stop,
}

pub(crate) struct Waiting {
    pub(crate) poll: WorkerPoll,
    pub(crate) reply: Reply,
    /// When its worker sent it, with its list of tasks.
    pub(crate) asked_at: Instant,
    pub(crate) until: Instant,
    pub(crate) hear_at: Instant,
    /// The queues that it takes nothing from, although its worker serves them.
    pub(crate) without: Vec<Arc<str>>,
    pub(crate) _permit: OwnedSemaphorePermit,
}

/// Orders that came in at once, sorted.
#[derive(Default)]
struct Batch {
    offers: Vec<OfferOrder>,
    withdrawn: Vec<OfferId>,
    cancels: Vec<(WorkerId, Token)>,
    looks: Vec<Look>,
    polls: Vec<Waiting>,
    unclaimed: Vec<Offer>,
    offered: bool,
    cancelled: bool,
    drain: bool,
    stop: bool,
}

pub(crate) struct TasksThread {
    pub(crate) shared: Arc<Shared>,
    pub(crate) remote_tasks: RemoteTasks,
}

impl TasksThread {
    pub(crate) fn run(self) {
        let mut waiting: Vec<Waiting> = Vec::new();
        let (mut look_at, mut draining) = (Instant::now(), false);
        let mut cancel_reads = CancelReads::default();
        let mut work = Vec::new();
        loop {
            self.shared.task_orders.take(&mut work, wake_at(&waiting, look_at));
            let mut batch = sort(work.drain(..));
            let offered = batch.offered || !batch.offers.is_empty() || !batch.polls.is_empty();
            if batch.cancelled || !batch.cancels.is_empty() {
                cancel_reads.notified(Instant::now());
                waiting.iter_mut().for_each(|one| one.hear_at = Instant::now());
            }
            waiting.append(&mut batch.polls);
            self.carry_out(&mut batch);
            draining |= batch.drain;
            if batch.stop {
                return;
            }
            if draining {
                answer_where(&mut waiting, |_| true);
                continue;
            }
            waiting.retain(|one| !one.reply.is_closed());
            self.answer_polls(&mut waiting, &mut cancel_reads);
            if offered || Instant::now() >= look_at {
                look_at = Instant::now() + LOOK_EVERY;
                self.look_for_tasks(&mut waiting);
            }
            let now = Instant::now();
            answer_where(&mut waiting, |one| one.until <= now);
        }
    }

    /// Carries out the driver's orders. Failures are logged; the driver repeats offers by itself.
    fn carry_out(&self, batch: &mut Batch) {
        let warned = |what: &'static str, done: Result<(), StoreError>| {
            if let Err(error) = done {
                warn!(what, %error, "could not store tasks for remote workers");
            }
        };
        // Offers that are left were made after the withdrawal of the same attempt.
        if !batch.withdrawn.is_empty() {
            warned("withdraw", self.remote_tasks.tasks.withdraw(&batch.withdrawn));
        }
        if !batch.offers.is_empty() {
            warned("offer", self.remote_tasks.offer(std::mem::take(&mut batch.offers)));
        }
        self.put_back(&batch.unclaimed);
        if !batch.cancels.is_empty() {
            warned("cancel", self.remote_tasks.cancel(&batch.cancels));
        }
        for look in batch.looks.drain(..) {
            self.shared.inputs.push(self.remote_tasks.look(look));
        }
    }

    /// Records the signs of life that are due; workers with cancellations are answered at once, and
    /// so are those that leave.
    fn answer_polls(&self, waiting: &mut Vec<Waiting>, cancel_reads: &mut CancelReads) {
        let now = Instant::now();
        for mut one in std::mem::take(waiting) {
            if one.hear_at > now {
                waiting.push(one);
                continue;
            }
            let read = cancel_reads.next_read(one.poll.worker, now);
            one.hear_at = match read {
                CancelRead::QuickUntil(at) => at.min(now + HEAR_EVERY),
                CancelRead::Quick | CancelRead::Thorough => now + HEAR_EVERY,
            };
            // Each by its own time: the ones before it may have taken long.
            let sent_ago = one.asked_at.elapsed().as_millis();
            let sent_ago = Millis(u64::try_from(sent_ago).unwrap_or(u64::MAX));
            let thorough = read == CancelRead::Thorough;
            match self.remote_tasks.record_presence(&one.poll, sent_ago, thorough) {
                Ok(cancel) if cancel.is_empty() && !one.poll.leaving => waiting.push(one),
                Ok(cancel) => self.tell_to_stop(one, cancel),
                Err(error) => answer(one, Err(error)),
            }
        }
    }

    /// Answers a poll with cancellations. If its caller is gone, they are stored for the worker's
    /// next sign of life: its owner repeats them, but only after a while.
    fn tell_to_stop(&self, one: Waiting, cancel: Vec<Token>) {
        let Waiting { poll, reply, .. } = one;
        let polled = Polled { cancel, ..Polled::default() };
        let unheard = reply.send(Ok(Given { polled, offers: Vec::new() }));
        let Err(Ok(Given { polled, .. })) = unheard else { return };
        let cancels: Vec<_> = polled.cancel.into_iter().map(|token| (poll.worker, token)).collect();
        if !poll.leaving
            && !cancels.is_empty()
            && let Err(error) = self.remote_tasks.cancel(&cancels)
        {
            warn!(%error, "could not requeue an undelivered cancellation");
        }
    }

    /// One read for all polls of the same handlers.
    fn look_for_tasks(&self, waiting: &mut Vec<Waiting>) {
        let mut groups: BTreeMap<Vec<Arc<str>>, Vec<Waiting>> = BTreeMap::new();
        for one in waiting.extract_if(.., |one| one.poll.max > 0) {
            let mut handlers = one.poll.handlers.clone();
            handlers.retain(|queue| !one.without.contains(queue));
            handlers.sort_unstable();
            handlers.dedup();
            groups.entry(handlers).or_default().push(one);
        }
        for (handlers, group) in groups {
            let room = group.iter().map(|one| one.poll.max).fold(0, usize::saturating_add);
            match self.remote_tasks.take(&handlers, room) {
                Ok((taken, broken)) => {
                    self.shared.metrics.tasks_broken_total.add(broken);
                    waiting.extend(self.share_out(taken, group));
                }
                Err(error) => {
                    warn!(%error, "could not poll for tasks");
                    waiting.extend(group);
                }
            }
        }
    }

    /// Distributes tasks to waiting polls, the first in the queue first; returns the polls that got
    /// none.
    fn share_out(&self, taken: Vec<Taken>, group: Vec<Waiting>) -> Vec<Waiting> {
        let mut taken = taken.into_iter();
        let (mut left, mut unclaimed) = (Vec::new(), Vec::new());
        for one in group {
            if one.reply.is_closed() {
                continue;
            }
            let mine: Vec<Taken> = taken.by_ref().take(one.poll.max).collect();
            if mine.is_empty() {
                left.push(one);
                continue;
            }
            let offers: Vec<Offer> = mine.iter().map(|taken| taken.offer.clone()).collect();
            let tasks: Vec<RemoteTask> = mine
                .into_iter()
                .map(|taken| self.remote_tasks.hand_over(taken, random()))
                .collect();
            let polled = Polled { tasks, ..Polled::default() };
            if let Err(Ok(given)) = one.reply.send(Ok(Given { polled, offers })) {
                unclaimed.extend(given.offers);
            }
        }
        unclaimed.extend(taken.map(|taken| taken.offer));
        self.put_back(&unclaimed);
        left
    }

    fn put_back(&self, unclaimed: &[Offer]) {
        if !unclaimed.is_empty()
            && let Err(error) = self.remote_tasks.tasks.offer(unclaimed)
        {
            warn!(%error, "could not requeue undelivered tasks");
        }
    }
}

impl Drop for TasksThread {
    /// After a panic the engine cannot continue as if nothing had happened.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.lanes.errands.push(Order::Stop);
        }
        self.shared.tasks_thread_gone.cancel();
    }
}

fn sort(orders: impl Iterator<Item = TasksOrder>) -> Batch {
    let mut batch = Batch::default();
    for order in orders {
        match order {
            TasksOrder::Perform(TaskWork::Offer(order)) => batch.offers.push(order),
            TasksOrder::Perform(TaskWork::Withdraw(id)) => {
                // In the order of the orders: an offer made before this is not made.
                batch.offers.retain(|order| order.id != id);
                batch.unclaimed.retain(|offer| offer.id != id);
                batch.withdrawn.push(id);
            }
            TasksOrder::Perform(TaskWork::Cancel(worker, token)) => {
                batch.cancels.push((worker, token))
            }
            TasksOrder::Perform(TaskWork::Look(look)) => batch.looks.push(look),
            TasksOrder::Poll(waiting) => batch.polls.push(waiting),
            TasksOrder::Undelivered(worker, cancel, offers) => {
                batch.cancels.extend(cancel.into_iter().map(|token| (worker, token)));
                batch.offered |= !offers.is_empty();
                batch.unclaimed.extend(offers);
            }
            TasksOrder::Offered => batch.offered = true,
            TasksOrder::Cancelled => batch.cancelled = true,
            TasksOrder::Drain => batch.drain = true,
            TasksOrder::Stop => batch.stop = true,
        }
    }
    batch
}

/// When there is something to do even if nothing comes in.
fn wake_at(waiting: &[Waiting], look_at: Instant) -> Instant {
    let far = Instant::now() + SLEEP_MAX;
    let looks = waiting.iter().any(|one| one.poll.max > 0).then_some(look_at);
    let each = waiting.iter().map(|one| one.until.min(one.hear_at));
    each.chain(looks).min().unwrap_or(far).min(far)
}

fn answer(one: Waiting, given: Result<Given, StoreError>) {
    // The receiver may be gone.
    drop(one.reply.send(given));
}

fn answer_where(waiting: &mut Vec<Waiting>, which: impl Fn(&Waiting) -> bool) {
    for one in waiting.extract_if(.., |one| which(one)) {
        answer(one, Ok(Given::default()));
    }
}

/// Unpredictable bits: those of two random ids, without what every such id has in common.
fn random() -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(Uuid::new_v4().as_bytes());
    hasher.update(Uuid::new_v4().as_bytes());
    let mut bits = [0; 8];
    hasher.finalize_xof().fill(&mut bits);
    u64::from_le_bytes(bits)
}

#[cfg(test)]
mod tests;
