//! Store threads: all store I/O. Appends are batched; failed calls are retried until the store answers.
//!
//! ```text
//!   one lane                       several lanes
//!   ────────                       ─────────────
//!   appends ┐                      appends ──▶ append lane, append lane   (one gathers while one commits)
//!   errands ├──▶ one thread        errands ──▶ errand lane                (claims, looks, loads)
//!   mail    │                      mail ─────▶ mail lane, mail lane       (requests for others)
//!   renewals┘                      renewals ─▶ renewal lane               (nothing is in its way)
//! ```
//!
//! One lane is for a store with one writer, where a second thread would only wait for the lock.
//! With several lanes, nothing depends on the order between them: the driver sends the consequences
//! of a commit only after the commit was answered. Mail has its own lanes and is batched like
//! appends: a thousand clients that send at once must not delay the claim that lets their mail be
//! read.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tracing::{error, info, warn};
use waypost_ports::mirror::{Mirror, Presence};
use waypost_ports::nudge::Nudge;
use waypost_ports::store::{Append, Appended, Store, StoreError};

use super::lanes::Order;
use super::{BatchQueue, Payloads, Shared, StoreCalls, ownership};
use crate::driver::{Input, Outgoing, StoreWork};

/// First wait before a failed call is repeated; doubles up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_secs(1);

/// How long a lane sleeps at most when nothing comes.
const IDLE_MAX: Duration = Duration::from_secs(3_600);

/// Threads that put requests into inboxes, if there are several lanes: one looks up known answers
/// for the next ones while one delivers.
const MAIL_LANES: usize = 2;

/// How long an instance that leaves waits for its last nudge to go out.
const PARTING: Duration = Duration::from_millis(100);

/// Frames with a permit request in one call. Each key lets one in at a time, and the first of many
/// would wait for the last.
const PERMITS_AT_ONCE: usize = 32;

/// Requests that go into inboxes in one call. Each is looked up before, so that the first of many would
/// wait for the last.
const MAIL_AT_ONCE: usize = 64;

pub(crate) struct StoreThread {
    pub(crate) shared: Arc<Shared>,
    pub(crate) store_calls: StoreCalls,
    pub(crate) mirror: Arc<dyn Mirror>,
    pub(crate) payloads: Payloads,
}

/// Runs when the store thread ends, in whatever way. After a panic, the engine cannot continue and
/// must say so instead of waiting for answers.
struct StoreThreadGuard<'a>(&'a Shared);

impl Drop for StoreThreadGuard<'_> {
    fn drop(&mut self) {
        *self.0.stop.lock() = Some(Instant::now());
        self.0.inputs.push(Input::Drain);
    }
}

impl StoreThread {
    pub(crate) fn run(self) {
        match self.store_calls.config.append_lanes {
            0 => self.run_alone(),
            lanes => self.run_lanes(lanes),
        }
    }

    fn guard(&self) -> StoreThreadGuard<'_> {
        StoreThreadGuard(&self.shared)
    }

    fn run_lanes(&self, append_lanes: usize) {
        let _guard = self.guard();
        std::thread::scope(|scope| {
            let (appends, mail) = (&self.shared.lanes.appends, &self.shared.lanes.mail);
            let errands = &self.shared.lanes.errands;
            for (count, name, work) in [
                (append_lanes, "append", appends),
                (MAIL_LANES, "mail", mail),
                (1, "errand", errands),
            ] {
                let starts = |lane: &usize| {
                    let thread = std::thread::Builder::new().name(format!("waypost-{name}-{lane}"));
                    let started = thread.spawn_scoped(scope, || self.run_lane(work));
                    if let Err(error) = &started {
                        warn!(%error, name, "a thread for the store cannot be started");
                    }
                    started.is_ok()
                };
                // The others of its kind do the work of one that cannot be started.
                if (0..count).filter(starts).count() == 0 {
                    error!(name, "no thread for the store; the engine ends");
                    self.shared.lanes.stop();
                    drop(self.guard());
                    return;
                }
            }
            self.renew_until_stopped();
        });
        // Only now: an instance that has left owns nothing that could still be appended.
        match self.heartbeat(true) {
            Ok(()) => {
                self.store_calls.nudges.send(Nudge::Claimable);
                // Nudges are gathered before they go out, and this process is about to be gone.
                std::thread::park_timeout(PARTING);
            }
            Err(error) => {
                warn!(%error, "could not notify other instances that this one is stopping")
            }
        }
    }

    /// Does what comes until `Stop`, which it passes on to the other threads of its lane.
    fn run_lane(&self, work: &BatchQueue<Order>) {
        let _guard = self.guard();
        let mut orders = Vec::new();
        loop {
            work.take(&mut orders, Instant::now() + IDLE_MAX);
            let (mut appends, mut mail) = (Vec::with_capacity(orders.len()), Vec::new());
            let mut stop = false;
            for order in orders.drain(..) {
                match order {
                    Order::Perform(StoreWork::Append(append)) => appends.push(append),
                    Order::Perform(StoreWork::Deliver(outgoing)) => mail.push(outgoing),
                    Order::Perform(other) => self.repeat_until_done(vec![other]),
                    Order::Renew => self.shared.lanes.renewals.push(Order::Renew),
                    Order::Stop => stop = true,
                }
            }
            // Frames with a permit request wait for the lock of their key. They have batches of
            // their own, so that other frames do not wait with them.
            let queued = |append: &Append| append.side.permit.is_some();
            let (queued, appends): (Vec<_>, Vec<_>) = appends.into_iter().partition(queued);
            for batch in appends.chunks(self.store_calls.config.batch_frames_max) {
                self.append(batch);
            }
            for batch in queued.chunks(PERMITS_AT_ONCE) {
                self.append(batch);
            }
            self.deliver(mail);
            if stop {
                work.push(Order::Stop);
                return;
            }
        }
    }

    fn renew_until_stopped(&self) {
        let every = self.store_calls.config.heartbeat_every.to_std();
        let mut orders = Vec::new();
        let mut at = Instant::now() + every;
        loop {
            self.shared.lanes.renewals.take(&mut orders, at);
            if orders.drain(..).any(|order| matches!(order, Order::Stop)) {
                return;
            }
            at = Instant::now() + every;
            if let Err(error) = self.heartbeat(false) {
                warn!(%error, "heartbeat failed");
                at = Instant::now() + RETRY_MAX;
            }
        }
    }

    fn run_alone(self) {
        let _guard = self.guard();
        let every = self.store_calls.config.heartbeat_every.to_std();
        let mut orders = Vec::new();
        let mut heartbeat_at = Instant::now() + every;
        loop {
            self.shared.lanes.appends.take(&mut orders, heartbeat_at);
            let mut appends = Vec::with_capacity(orders.len());
            let (mut others, mut mail) = (Vec::new(), Vec::new());
            let mut stop = false;
            for order in orders.drain(..) {
                match order {
                    Order::Perform(StoreWork::Append(append)) => appends.push(append),
                    Order::Perform(StoreWork::Deliver(outgoing)) => mail.push(outgoing),
                    Order::Renew => heartbeat_at = Instant::now(),
                    Order::Perform(other) => others.push(other),
                    Order::Stop => stop = true,
                }
            }
            for batch in appends.chunks(self.store_calls.config.batch_frames_max) {
                self.append(batch);
            }
            self.deliver(mail);
            others.into_iter().for_each(|work| self.repeat_until_done(vec![work]));
            if Instant::now() >= heartbeat_at || stop {
                heartbeat_at = Instant::now() + every;
                if let Err(error) = self.heartbeat(stop) {
                    warn!(%error, "heartbeat failed");
                    heartbeat_at = Instant::now() + RETRY_MAX;
                }
            }
            if stop {
                return;
            }
        }
    }

    fn append(&self, batch: &[Append]) {
        let mut backoff = Backoff::default();
        let mut batch = Cow::Borrowed(batch);
        let answer = loop {
            let begun = Instant::now();
            match self.store_calls.append(&batch) {
                Ok(answer) => {
                    self.shared.metrics.appended(batch.len(), begun.elapsed());
                    self.shared.vitals.worked();
                    break Some(answer);
                }
                Err(error) => {
                    self.shared.vitals.failed(&error, &*self.shared.clock);
                    if !self.wait_before_retry("append", &error, &mut backoff) {
                        break None;
                    }
                    let again = batch.into_owned().into_iter().map(Append::again);
                    batch = Cow::Owned(again.collect());
                }
            }
        };
        backoff.log_recovered("append");
        self.shared.outstanding.fetch_sub(batch.len(), Ordering::AcqRel);
        let committed = answer.is_some();
        answer.into_iter().for_each(|answer| self.shared.inputs.push(answer));
        if committed && self.store_calls.config.append_lanes > 0 {
            self.store_calls.nudge_receivers(&batch);
        }
    }

    fn deliver(&self, mut mail: Vec<Outgoing>) {
        while !mail.is_empty() {
            let rest = mail.split_off(mail.len().min(MAIL_AT_ONCE));
            self.repeat_until_done(mail.into_iter().map(StoreWork::Deliver).collect());
            mail = rest;
        }
    }

    /// Repeats work, identically, until the store has done it. Nothing is acknowledged meanwhile.
    fn repeat_until_done(&self, mut todo: Vec<StoreWork>) {
        let (mut backoff, mut writes_failed) = (Backoff::default(), false);
        while !todo.is_empty() {
            let performed = self.store_calls.perform_all(todo);
            if let Some((_, error)) = performed.again.iter().find(|(work, _)| work.writes()) {
                self.shared.vitals.failed(error, &*self.shared.clock);
                writes_failed = true;
            } else if std::mem::take(&mut writes_failed) {
                self.shared.vitals.worked();
            }
            performed.inputs.into_iter().for_each(|input| self.shared.inputs.push(input));
            let again = performed.again;
            if let Some((_, error)) = again.first()
                && !self.wait_before_retry("work", error, &mut backoff)
            {
                return;
            }
            todo = again.into_iter().map(|(work, _)| work).collect();
        }
        backoff.log_recovered("work");
    }

    /// Waits before a repeat; false when the engine has to stop first.
    fn wait_before_retry(
        &self,
        what: &'static str,
        error: &StoreError,
        backoff: &mut Backoff,
    ) -> bool {
        if backoff.tries == 0 {
            warn!(what, %error, "the store does not answer; trying again");
        }
        if self.shared.stop.lock().is_some_and(|stop| Instant::now() >= stop) {
            error!(what, %error, "stopped before the store answered");
            return false;
        }
        let doubled = RETRY_MIN.saturating_mul(1 << backoff.tries.min(10));
        backoff.tries += 1;
        std::thread::park_timeout(doubled.min(RETRY_MAX));
        true
    }

    /// Renews the lease, and learns what time it is for the store.
    fn heartbeat(&self, leaving: bool) -> Result<(), StoreError> {
        let sent = self.shared.clock.steady();
        let renewal = self.store_calls.heartbeat(0, leaving)?;
        self.shared.time.lock().observe(sent, renewal.now, &*self.shared.clock);
        if !leaving {
            ownership::log_lapse(
                self.store_calls.instance,
                self.shared.lease.remaining(&*self.shared.clock),
            );
        }
        self.shared.lease.confirmed(sent);
        if self.store_calls.config.contexts && !leaving {
            let about = &self.store_calls.about;
            self.mirror.alive(&Presence {
                instance: self.store_calls.instance,
                version: Arc::clone(&about.version),
                address: about.address.clone(),
                owned: self.shared.metrics.executions_active.get(),
                running: self.store_calls.running.load(Ordering::Relaxed).into(),
                at: renewal.now,
            });
        }
        let until = renewal.now.plus(self.store_calls.config.lease);
        self.payloads.readable(renewal.fold);
        self.shared.inputs.extend([Input::Renewed { until }, Input::Readable(renewal.fold)]);
        Ok(())
    }
}

#[derive(Default)]
struct Backoff {
    tries: u32,
}

impl Backoff {
    fn log_recovered(&self, what: &'static str) {
        if self.tries > 0 {
            info!(what, "the store answers again");
        }
    }
}

/// An append made by an engine thread itself, where it is the only one under way.
pub(crate) fn append_inline(
    store: &dyn Store,
    append: &Append,
    shared: &Shared,
) -> Option<Appended> {
    let outstanding = &shared.outstanding;
    outstanding.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).ok()?;
    let begun = Instant::now();
    let answers = store.append(std::slice::from_ref(append));
    outstanding.fetch_sub(1, Ordering::AcqRel);
    let mut answers = answers.ok()?;
    shared.metrics.appended(1, begun.elapsed());
    answers.pop()
}
