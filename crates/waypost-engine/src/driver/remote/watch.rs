//! Which worker holds each remote attempt, whether it is alive and still has the attempt, and which
//! workers could take an attempt that waits for a slot.
//!
//! A live worker may have lost an attempt: it dropped it, or received a wrong answer. Its poll lists what
//! it had when the poll was sent, which may be before the attempt was delivered. The attempt therefore
//! counts as lost only when two polls omit it: both sent after this driver recorded the start, the second
//! at least one lease after the first, and none in between that lists it. A worker that still has the
//! attempt loses it only if a poll was delayed by more than a lease.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use waypost_core::command::{Outcome, Report};
use waypost_core::failure::{Failure, kind};
use waypost_core::id::{ExecutionNo, Token, WorkerId};
use waypost_core::planted::{Bug, is_planted};
use waypost_core::status::Status;
use waypost_core::time::{Millis, Timestamp};
use waypost_ports::tasks::{Holds, WORKER_LEASE};

use super::{Held, Missing};
use crate::driver::Driver;
use crate::driver::io::{Look, Output, TaskWork};
use crate::driver::live::Live;
use crate::driver::slots::Offer;

/// How often in a row a worker must be missing before its attempts are abandoned: once may be a
/// pause of its own, or of the component that stores its signs of life.
const MISSES_MAX: u32 = 2;

/// How long the cancellation of an attempt that no execution waits for is repeated, if its worker
/// does not confirm it.
const STOPPING_MAX: Millis = Millis::from_secs(60);

/// The failure's message for attempts whose workers are dead.
pub const DEAD: &str =
    "the worker that held the attempt shows no sign of life: its lease has expired";
/// The failure's message for attempts that live workers have forgotten.
pub const FORGOTTEN: &str =
    "the worker that held the attempt lives, and says that it has not got it";

impl Driver {
    /// Cancels an attempt at its worker, and repeats that until the worker has stopped it: a
    /// cancellation may be lost.
    pub(in crate::driver) fn stop_remote(&mut self, worker: WorkerId, token: Token) {
        self.begin_to_watch();
        self.remote.stopping.insert(token, (worker, self.now));
        self.outputs.push(Output::Tasks(TaskWork::Cancel(worker, token)));
    }

    /// The first check comes a while after there is something to check.
    pub(super) fn begin_to_watch(&mut self) {
        if !self.remote.watches() {
            self.remote.look_at = self.now.plus(self.config.watch_every);
        }
    }

    /// Checks the workers that hold attempts, and which workers could take attempts that wait for a
    /// slot; repeats cancellations.
    pub(in crate::driver) fn watch_workers(&mut self) {
        let first = self.first_in_queue();
        if self.draining || self.remote_wake() > self.now || self.remote.look_at > self.now {
            return;
        }
        self.remote.look_at = self.now.plus(self.config.watch_every);
        self.say_again();
        if self.remote.looking.is_none() {
            let held = self.remote.asked_about();
            let workers: BTreeSet<WorkerId> = held.iter().map(|(worker, _)| *worker).collect();
            self.remote.missed.retain(|worker, _| workers.contains(worker));
            let serving = first.is_some();
            if serving || !held.is_empty() && !is_planted(Bug::WorkerNeverMissed) {
                self.remote.looking = Some(self.now);
                let share = self.sibling.share;
                self.outputs.push(Output::Tasks(TaskWork::Look(Look { share, held, serving })));
            }
        }
    }

    fn say_again(&mut self) {
        let now = self.now;
        self.remote.stopping.retain(|_, (_, since)| now < since.plus(STOPPING_MAX));
        let stopping = &self.remote.stopping;
        for (execution, held) in &self.remote.held {
            let ending = |live: &&Live| live.state.status == Status::Ending;
            if self.live.get(execution).filter(ending).is_some() {
                let other = held.iter().filter(|held| !stopping.contains_key(&held.token));
                self.outputs.extend(
                    other.map(|held| Output::Tasks(TaskWork::Cancel(held.worker, held.token))),
                );
            }
        }
        let cancel = |(token, (worker, _)): (&Token, &(WorkerId, Timestamp))| {
            Output::Tasks(TaskWork::Cancel(*worker, *token))
        };
        self.outputs.extend(stopping.iter().map(cancel));
    }

    /// Since when the queue for slots has had its oldest entry, if remote workers may take it.
    pub(in crate::driver) fn first_in_queue(&self) -> Option<Timestamp> {
        self.slots.oldest_offer().filter(|_| self.goes_remote())
    }

    /// The state of the workers; `None` if it could not be read.
    pub(in crate::driver) fn workers_seen(
        &mut self,
        asked: &[(WorkerId, Token)],
        seen: Option<&[Holds]>,
        serving: &[Arc<str>],
    ) {
        let looked_at = self.remote.looking.take();
        if let Some((seen, looked_at)) = seen.zip(looked_at) {
            let seen = asked.iter().zip(seen);
            self.miss_workers(
                &seen.clone().map(|((worker, _), holds)| (*worker, *holds)).collect(),
            );
            let seen = seen.map(|((_, token), holds)| (*token, *holds)).collect();
            self.have_stopped(&seen, looked_at);
            if !is_planted(Bug::ForgottenTaskKept) {
                self.miss_attempts(&seen, looked_at);
            }
        }
        self.overflow(serving);
    }

    /// Stops repeating a cancellation once its worker, after it, lists its attempts without this
    /// one, or is gone.
    fn have_stopped(&mut self, seen: &BTreeMap<Token, Holds>, looked_at: Timestamp) {
        self.remote.stopping.retain(|token, (_, since)| match seen.get(token) {
            Some(Holds::Gone) => false,
            Some(Holds::No { sent_ago }) => looked_at.since(*since) <= *sent_ago,
            Some(Holds::Unsaid | Holds::Yes) | None => true,
        });
    }

    /// The attempts of a worker without a sign of life are abandoned.
    fn miss_workers(&mut self, seen: &BTreeMap<WorkerId, Holds>) {
        for (worker, holds) in seen {
            if *holds != Holds::Gone {
                self.remote.missed.remove(worker);
                continue;
            }
            let missed = self.remote.missed.entry(*worker).or_default();
            *missed += 1;
            if *missed >= MISSES_MAX {
                self.remote.missed.remove(worker);
                self.lose(|held| held.worker == *worker, DEAD);
            }
        }
    }

    /// An attempt that its worker has forgotten is abandoned. A worker that has reported its end
    /// does not list it either: the report may be in the inbox, which is read to the end before.
    fn miss_attempts(&mut self, seen: &BTreeMap<Token, Holds>, looked_at: Timestamp) {
        let mut lost = BTreeSet::new();
        for held in self.remote.held.values_mut().flatten() {
            let Some(holds) = seen.get(&held.token) else { continue };
            let missing = held.is_missing(*holds, (looked_at, self.now));
            let forgotten = missing.zip(held.missing).is_some_and(|(now, first)| {
                // From the latest time at which the first of the two lists can have been sent, to
                // the earliest time of the last one.
                let between = looked_at.since(first.seen_at).0.saturating_add(first.sent_ago.0);
                between >= WORKER_LEASE.0.saturating_add(now.sent_ago.0)
                    && self.claims.has_read(first.seen_at)
            });
            held.missing = missing.map(|now| held.missing.unwrap_or(now));
            if forgotten || missing.is_some() && is_planted(Bug::ForgottenAtOnce) {
                held.missing = None;
                lost.insert(held.token);
            }
        }
        if !lost.is_empty() {
            self.lose(|held| lost.contains(&held.token), FORGOTTEN);
        }
    }

    /// Attempts that wait too long for a slot are offered to remote workers as well; the first to
    /// start one runs it. Not those with secrets, which do not leave this process.
    fn overflow(&mut self, serving: &[Arc<str>]) {
        let Some(after) = self.config.overflow_after else { return };
        let waits = |offer: &&Offer| {
            let live = self.live.get(&offer.execution);
            let fits = live.is_some_and(|live| {
                live.handler(offer.node).is_some_and(|handler| serving.contains(handler))
                    && live.may_leave(offer.node)
            });
            offer.since.plus(after) <= self.now && fits && !self.remote.is_open(offer)
        };
        let offers: Vec<Offer> = self.slots.offers().filter(waits).copied().collect();
        offers.into_iter().for_each(|offer| self.offer_remote(offer));
    }

    /// Abandons remote attempts that no worker runs any more.
    fn lose(&mut self, which: impl Fn(&Held) -> bool, message: &str) {
        let report = |held: &Held| Report {
            node: Arc::clone(&held.path),
            attempt: held.attempt,
            token: held.token,
            worker: None,
            outcome: Outcome::Lost(Failure::transient(kind::ABANDONED, message)),
        };
        let lost = |(execution, held): (&ExecutionNo, &Vec<Held>)| {
            let lost = held.iter().filter(|held| which(held)).map(report);
            lost.map(|report| (*execution, report)).collect::<Vec<_>>()
        };
        let reports: Vec<_> = self.remote.held.iter().flat_map(lost).collect();
        for (execution, report) in reports {
            self.report(execution, report);
        }
    }
}

impl Held {
    /// Does its worker's list not have it, and was the list sent after the start was known here?
    /// The check was sent at the first of these times, and answered by the second.
    fn is_missing(
        &self,
        holds: Holds,
        (looked_at, seen_at): (Timestamp, Timestamp),
    ) -> Option<Missing> {
        match holds {
            Holds::No { sent_ago } if looked_at.since(self.since) > sent_ago => {
                Some(Missing { seen_at, sent_ago })
            }
            Holds::No { .. } | Holds::Gone | Holds::Unsaid | Holds::Yes => None,
        }
    }
}
