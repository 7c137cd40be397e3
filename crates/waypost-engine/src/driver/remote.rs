//! Remote attempts: which are offered, and offered again; which worker holds each started attempt, and
//! whether it is alive; the reports of workers.
//!
//! ```text
//!   QUEUED ── TaskWork::Offer, again after 10 s, 20 s, … 5 min ──▶ a worker reports that it starts
//!   RUNNING ─ TaskWork::Look every 5 s ─▶ not alive in two looks in a row ─▶ lost
//!                                              └▶ alive, and without it for a lease ─▶ lost
//! ```
//!
//! All of it is derived from the states of the executions in memory, so the next owner of an execution
//! has it again. Except for the reports, everything here is a hint.

mod reports;
mod watch;

pub use watch::{DEAD, FORGOTTEN};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use waypost_core::command::Command;
use waypost_core::event::REMOTE_LOG_FORMAT;
use waypost_core::id::{ExecutionNo, NodeIx, Token, WorkerId};
use waypost_core::path::{At, ScopeNo};
use waypost_core::planted::{Bug, is_planted};
use waypost_core::time::{Millis, Timestamp};
use waypost_ports::tasks::OfferId;

pub use self::reports::TaskReport;
use super::Driver;
use super::io::{Output, TaskWork};
use super::live::{Letter, Live};
use super::slots::Offer;
use crate::config::Config;

#[derive(Default)]
pub(super) struct Remote {
    offers: BTreeMap<(ExecutionNo, At), Open>,
    /// How many of them each execution has.
    by_execution: BTreeMap<ExecutionNo, u32>,
    /// When to offer what, next.
    due: BTreeSet<(Timestamp, ExecutionNo, At)>,
    held: BTreeMap<ExecutionNo, Vec<Held>>,
    /// Attempts that were queued when their execution was loaded: the former owner may have offered
    /// them.
    inherited: BTreeMap<ExecutionNo, Vec<(At, OfferId)>>,
    /// Cancelled attempts, with their workers and since when, whether or not they still count.
    stopping: BTreeMap<Token, (WorkerId, Timestamp)>,
    missed: BTreeMap<WorkerId, u32>,
    look_at: Timestamp,
    /// When it was looked last, while there is no answer.
    looking: Option<Timestamp>,
}

struct Open {
    path: Arc<str>,
    attempt: u32,
    since: Timestamp,
    times: u32,
    next_at: Timestamp,
}

impl Open {
    fn id(self, execution: ExecutionNo) -> OfferId {
        OfferId { execution, path: self.path, attempt: self.attempt }
    }
}

struct Held {
    node: At,
    path: Arc<str>,
    attempt: u32,
    token: Token,
    worker: WorkerId,
    /// Since when it is known here that it has started.
    since: Timestamp,
    /// Its worker's list does not have it.
    missing: Option<Missing>,
}

/// The first of the checks in a row in which a worker's list did not have an attempt.
#[derive(Clone, Copy)]
struct Missing {
    seen_at: Timestamp,
    /// How old the list was then.
    sent_ago: Millis,
}

impl Remote {
    /// An attempt waits for a remote worker, from now on.
    fn open(&mut self, offer: Offer, path: Arc<str>, now: Timestamp) {
        let place = (offer.execution, offer.node);
        let known = self.offers.get(&place).is_some_and(|open| open.attempt == offer.attempt);
        if !known {
            let Offer { attempt, since, .. } = offer;
            let open = Open { path, attempt, since, times: 0, next_at: now };
            match self.offers.insert(place, open) {
                Some(before) => drop(self.due.remove(&(before.next_at, place.0, place.1))),
                None => *self.by_execution.entry(place.0).or_default() += 1,
            }
            self.due.insert((now, place.0, place.1));
        }
    }

    fn close(&mut self, place: (ExecutionNo, At)) -> Option<Open> {
        let open = self.offers.remove(&place)?;
        self.due.remove(&(open.next_at, place.0, place.1));
        if let Some(left) = self.by_execution.get_mut(&place.0) {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.by_execution.remove(&place.0);
            }
        }
        Some(open)
    }

    fn places(&self, execution: ExecutionNo) -> Vec<(ExecutionNo, At)> {
        if self.offers.is_empty() {
            return Vec::new();
        }
        let first = At { scope: ScopeNo::ROOT, node: NodeIx(0) };
        let last = At { scope: ScopeNo(u64::MAX), node: NodeIx(u32::MAX) };
        let all = (execution, first)..=(execution, last);
        self.offers.range(all).map(|(place, _)| *place).collect()
    }

    pub(super) fn forget(&mut self, execution: ExecutionNo) {
        for place in self.places(execution) {
            self.close(place);
        }
        self.held.remove(&execution);
        self.inherited.remove(&execution);
    }

    /// Executions that wait for remote workers to start or to end something. One that does both
    /// counts twice, which is exact enough for limits.
    pub(super) fn executions_waiting(&self) -> usize {
        self.by_execution.len() + self.held.len()
    }

    pub(super) fn running(&self) -> usize {
        self.held.values().map(Vec::len).sum()
    }

    /// Waiting attempts, and since when.
    pub(super) fn waiting(&self) -> impl Iterator<Item = Offer> {
        self.offers.iter().map(|((execution, node), open)| {
            let Open { attempt, since, .. } = *open;
            Offer { execution: *execution, node: *node, attempt, since }
        })
    }

    /// Does this attempt wait for a remote worker, too?
    pub(super) fn is_open(&self, offer: &Offer) -> bool {
        let open = self.offers.get(&(offer.execution, offer.node));
        open.is_some_and(|open| open.attempt == offer.attempt)
    }

    /// Everything that remote workers hold, or may still make though they are to stop.
    fn asked_about(&self) -> Vec<(WorkerId, Token)> {
        let mut asked: Vec<(WorkerId, Token)> =
            self.held.values().flatten().map(|held| (held.worker, held.token)).collect();
        let held: BTreeSet<Token> = asked.iter().map(|(_, token)| *token).collect();
        let other = self.stopping.iter().filter(|(token, _)| !held.contains(token));
        asked.extend(other.map(|(token, (worker, _))| (*worker, *token)));
        asked
    }

    fn watches(&self) -> bool {
        !(self.held.is_empty() && self.stopping.is_empty())
    }
}

impl Held {
    fn of(live: &Live, node: At, since: Timestamp) -> Option<Self> {
        let state = live.state.get(node)?;
        let path = live.state.path(&live.plan, node);
        Some(Self {
            node,
            path,
            attempt: state.attempt,
            token: state.token?,
            worker: state.remote?,
            since,
            missing: None,
        })
    }
}

impl Driver {
    pub(super) fn remote_wake(&self) -> Timestamp {
        let (remote, never) = (&self.remote, Timestamp(i64::MAX));
        if !self.knows_remote() {
            return never;
        }
        let due = remote.due.first().filter(|_| self.goes_remote());
        let offer = due.map_or(never, |(at, ..)| *at);
        let watch = if remote.watches() { remote.look_at } else { never };
        let first = self.first_in_queue().zip(self.config.overflow_after);
        let overflow = first.map_or(never, |(since, after)| since.plus(after).max(remote.look_at));
        offer.min(watch).min(overflow)
    }

    /// Can remote attempts be driven here?
    fn knows_remote(&self) -> bool {
        self.config.fold >= REMOTE_LOG_FORMAT
    }

    /// May more of them start? Not while a live instance could not read their events.
    fn goes_remote(&self) -> bool {
        self.knows_remote() && self.readable >= REMOTE_LOG_FORMAT
    }

    pub(super) fn offer_remote(&mut self, offer: Offer) {
        if self.knows_remote()
            && let Some(live) = self.live.get(&offer.execution)
        {
            self.remote.open(offer, live.state.path(&live.plan, offer.node), self.now);
        }
    }

    /// An execution was loaded: finds the workers that hold its attempts, and attempts that may be
    /// on offer.
    pub(super) fn find_held(&mut self, execution: ExecutionNo) {
        let Some(live) = self.live.get(&execution) else { return };
        let held: Vec<Held> =
            live.state.nodes().filter_map(|(node, _)| Held::of(live, node, self.now)).collect();
        let queued = live.state.nodes().filter_map(|(node, state)| {
            let attempt = state.attempt;
            let id = || OfferId { execution, path: live.state.path(&live.plan, node), attempt };
            live.is_queued(node, attempt).then(|| (node, id()))
        });
        let queued: Vec<(At, OfferId)> = queued.collect();
        if !queued.is_empty() {
            self.remote.inherited.insert(execution, queued);
        }
        if !held.is_empty() {
            self.watch(execution, held);
        }
    }

    fn watch(&mut self, execution: ExecutionNo, held: Vec<Held>) {
        self.begin_to_watch();
        self.remote.held.entry(execution).or_default().extend(held);
    }

    /// A frame with these starts was committed: attempts that started remotely are held, those that
    /// ended are not, and those that must not start any more are withdrawn.
    pub(super) fn follow_remote(&mut self, execution: ExecutionNo, started: &[At]) {
        self.withdraw_inherited(execution);
        let Some(live) = self.live.get(&execution) else { return };
        if let Some(held) = self.remote.held.get_mut(&execution) {
            held.retain(|held| {
                live.state.get(held.node).is_some_and(|node| node.token == Some(held.token))
            });
            if held.is_empty() {
                self.remote.held.remove(&execution);
            }
        }
        let held: Vec<Held> =
            started.iter().filter_map(|node| Held::of(live, *node, self.now)).collect();
        for place in self.remote.places(execution) {
            let live = self.live.get(&execution);
            let open = self.remote.offers.get(&place);
            if open.is_none_or(|open| {
                live.is_some_and(|live| live.is_queued(place.1, open.attempt) && live.state.acts())
            }) {
                continue;
            }
            let begun = started.contains(&place.1);
            let Some(open) = self.remote.close(place) else { continue };
            if begun {
                self.measures.attempt_begins(open.since, self.now);
            }
            // An offer that was made once and was taken is not open any more.
            if open.times > u32::from(begun) {
                self.withdraw(open.id(execution));
            }
        }
        if !held.is_empty() {
            self.watch(execution, held);
        }
    }

    /// With the first frame of this owner: attempts that it settled at once must not start any
    /// more, though this owner never offered them.
    fn withdraw_inherited(&mut self, execution: ExecutionNo) {
        for (node, id) in self.remote.inherited.remove(&execution).unwrap_or_default() {
            let live = self.live.get(&execution);
            if live.is_some_and(|live| !(live.is_queued(node, id.attempt) && live.state.acts())) {
                self.withdraw(id);
            }
        }
    }

    /// An execution is about to leave memory for good: withdraws its offers.
    pub(super) fn withdraw_all(&mut self, execution: ExecutionNo) {
        for place in self.remote.places(execution) {
            if let Some(open) = self.remote.close(place).filter(|open| open.times > 0) {
                self.withdraw(open.id(execution));
            }
        }
    }

    fn withdraw(&mut self, id: OfferId) {
        self.outputs.push(Output::Tasks(TaskWork::Withdraw(id)));
    }

    pub(super) fn offer_due(&mut self) {
        while !self.draining
            && self.goes_remote()
            && let Some((at, execution, node)) = self.remote.due.first().copied()
            && at <= self.now
        {
            self.remote.due.pop_first();
            let Some(open) = self.remote.offers.get_mut(&(execution, node)) else { continue };
            let attempt = open.attempt;
            let again = open.times > 0;
            open.next_at = self.now.plus(offer_again(open.times, &self.config));
            open.times = open.times.saturating_add(1);
            let next_at = open.next_at;
            let live = self.live.get(&execution);
            let live = live.filter(|live| live.is_queued(node, attempt) && live.state.acts());
            if live.is_none() {
                self.remote.close((execution, node));
                continue;
            }
            self.measures.offers_repeated += u64::from(again);
            self.offer_now(execution, (node, attempt), next_at);
        }
    }

    /// Offers an attempt to remote workers, and again at this time if none has started it.
    fn offer_now(
        &mut self,
        execution: ExecutionNo,
        (node, attempt): (At, u32),
        next_at: Timestamp,
    ) {
        let Some(live) = self.live.get_mut(&execution) else { return };
        match live.offer(node, attempt) {
            Ok(order) => {
                if !is_planted(Bug::OfferedOnce) {
                    self.remote.due.insert((next_at, execution, node));
                }
                self.outputs.push(Output::Tasks(TaskWork::Offer(order)));
            }
            Err((_, missed)) if !missed.is_empty() => {
                self.remote.due.insert((next_at, execution, node));
                live.fetches.put_off_offer(node, missed);
                self.fetch(execution);
            }
            Err((failure, _)) => {
                self.remote.close((execution, node));
                let command = Command::Unofferable { node, attempt, failure };
                self.post(execution, Letter::command(command));
            }
        }
    }

    /// The contents are at hand that the config of an offer needs.
    pub(super) fn offer_again_now(&mut self, execution: ExecutionNo, node: At) {
        let open = self.remote.offers.get(&(execution, node));
        let Some((attempt, next_at)) = open.map(|open| (open.attempt, open.next_at)) else {
            return;
        };
        let live = self.live.get(&execution);
        if live.is_some_and(|live| live.is_queued(node, attempt) && live.state.acts()) {
            self.offer_now(execution, (node, attempt), next_at);
        }
    }
}

/// How long an offer is left alone: doubles with each time.
fn offer_again(times: u32, config: &Config) -> Millis {
    let doubled = config.offer_again.0.saturating_mul(1 << times.min(20));
    Millis(doubled.min(config.offer_again_max.0))
}
