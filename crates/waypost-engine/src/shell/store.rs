//! The store thread: all that goes to the store, in order, appends together, with all patience.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::{error, info, warn};
use waypost_ports::clock::Clock;
use waypost_ports::store::{Append, Appended, LEASE, Store, StoreError};

use super::{Clerk, Inbox, StoreTime, Work};
use crate::driver::Input;
use crate::metrics::EngineMetrics;

/// Something for the store thread.
#[expect(clippy::large_enum_variant, reason = "nearly all of them are appends")]
pub(crate) enum Order {
    Perform(Work),
    /// Send the next heartbeat now.
    Renew,
    Stop,
}

/// First wait before a failed call is repeated; doubles up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_secs(1);

pub(crate) struct StoreThread {
    pub(crate) clerk: Clerk,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) time: Arc<Mutex<StoreTime>>,
    pub(crate) work: Arc<Inbox<Order>>,
    /// Appends handed over and not answered yet.
    pub(crate) outstanding: Arc<AtomicUsize>,
    pub(crate) engine: Arc<Inbox<Input>>,
    pub(crate) metrics: Arc<EngineMetrics>,
    /// When to stop although the store does not answer.
    pub(crate) stop: Arc<Mutex<Option<Instant>>>,
}

/// Runs when the store thread ends, in whatever way. Where that is a panic, the engine cannot go on
/// and must say so instead of waiting for answers.
struct LastWords {
    engine: Arc<Inbox<Input>>,
    stop: Arc<Mutex<Option<Instant>>>,
}

impl Drop for LastWords {
    fn drop(&mut self) {
        *self.stop.lock() = Some(Instant::now());
        self.engine.push(Input::Drain);
    }
}

impl StoreThread {
    pub(crate) fn run(self) {
        let _last_words =
            LastWords { engine: Arc::clone(&self.engine), stop: Arc::clone(&self.stop) };
        let every = self.clerk.config.heartbeat_every.to_std();
        let mut orders = Vec::new();
        let mut heartbeat_at = Instant::now() + every;
        loop {
            self.work.take(&mut orders, heartbeat_at);
            let mut appends = Vec::with_capacity(orders.len());
            let mut others = Vec::new();
            let mut stop = false;
            for order in orders.drain(..) {
                match order {
                    Order::Perform(Work::Append(append)) => appends.push(append),
                    Order::Renew => heartbeat_at = Instant::now(),
                    Order::Perform(other) => others.push(other),
                    Order::Stop => stop = true,
                }
            }
            for batch in appends.chunks(self.clerk.config.batch_frames_max) {
                self.append(batch);
            }
            others.into_iter().for_each(|work| self.perform(work));
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
        let mut patience = Patience::default();
        let answer = loop {
            let begun = Instant::now();
            match self.clerk.append(batch) {
                Ok(answer) => {
                    self.metrics.appended(batch.len(), begun.elapsed());
                    break Some(answer);
                }
                Err(error) if self.waits("append", &error, &mut patience) => {}
                Err(_) => break None,
            }
        };
        patience.is_over("append");
        self.outstanding.fetch_sub(batch.len(), Ordering::AcqRel);
        answer.into_iter().for_each(|answer| self.engine.push(answer));
    }

    /// Repeats work, identically, until the store has done it. Nothing is acknowledged meanwhile.
    fn perform(&self, work: Work) {
        let mut patience = Patience::default();
        let mut todo = vec![work];
        while !todo.is_empty() {
            let mut again = Vec::new();
            for work in todo.drain(..) {
                let performed = self.clerk.perform(work);
                performed.inputs.into_iter().for_each(|input| self.engine.push(input));
                again.extend(performed.again);
            }
            if let Some((_, error)) = again.first()
                && !self.waits("work", error, &mut patience)
            {
                return;
            }
            todo.extend(again.into_iter().map(|(work, _)| work));
        }
        patience.is_over("work");
    }

    /// Waits before a repeat; false when the engine has to stop first.
    fn waits(&self, what: &'static str, error: &StoreError, patience: &mut Patience) -> bool {
        if patience.tries == 0 {
            warn!(what, %error, "the store does not answer; trying again");
        }
        if self.stop.lock().is_some_and(|stop| Instant::now() >= stop) {
            error!(what, %error, "stopped before the store answered");
            return false;
        }
        let doubled = RETRY_MIN.saturating_mul(1 << patience.tries.min(10));
        patience.tries += 1;
        std::thread::park_timeout(doubled.min(RETRY_MAX));
        true
    }

    /// Renews the lease, and learns what time it is for the store.
    fn heartbeat(&self, leaving: bool) -> Result<(), StoreError> {
        let sent = self.clock.steady();
        let renewal = self.clerk.heartbeat(0, leaving)?;
        self.time.lock().observe(sent, renewal.now, &*self.clock);
        self.engine.push(Input::Renewed { until: renewal.now.plus(LEASE) });
        Ok(())
    }
}

/// How often a call has failed.
#[derive(Default)]
struct Patience {
    tries: u32,
}

impl Patience {
    fn is_over(&self, what: &'static str) {
        if self.tries > 0 {
            info!(what, "the store answers again");
        }
    }
}

/// An append made by the engine thread itself, where it is the only one.
pub(crate) fn append_inline(
    store: &dyn Store,
    append: &Append,
    metrics: &EngineMetrics,
) -> Option<Appended> {
    let begun = Instant::now();
    let mut answers = store.append(std::slice::from_ref(append)).ok()?;
    metrics.appended(1, begun.elapsed());
    answers.pop()
}
