//! Can this instance do its work: does the store accept appends, and does the engine thread make
//! progress?
//!
//! The store threads repeat failed calls until they are done, so a failing append is also the
//! probe: the first successful try shows that the store works again. Callers meanwhile need not
//! wait for that.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;
use waypost_core::time::Millis;
use waypost_ports::clock::Clock;
use waypost_ports::store::StoreError;

/// For how long writes may fail, where each failure may be the last, before new requests are refused.
const FAILING_MAX: Millis = Millis::from_secs(1);

pub(crate) struct Vitals {
    /// Since when writes fail, by the steady clock.
    failing_since: Mutex<Option<Millis>>,
    /// The error for new requests.
    trouble: watch::Sender<Option<StoreError>>,
    /// When each engine thread last began a step, by the steady clock.
    stepped_at: Box<[AtomicU64]>,
}

impl Vitals {
    pub(crate) fn new(now: Millis, drivers: u32) -> Self {
        let (failing_since, trouble) = (Mutex::default(), watch::Sender::new(None));
        let stepped_at = (0..drivers).map(|_| AtomicU64::new(now.0)).collect();
        Self { failing_since, trouble, stepped_at }
    }

    pub(crate) fn failed(&self, error: &StoreError, clock: &dyn Clock) {
        let now = clock.steady();
        let since = *self.failing_since.lock().get_or_insert(now);
        if error.is_lasting() || now.0.saturating_sub(since.0) >= FAILING_MAX.0 {
            self.trouble.send_if_modified(|trouble| {
                let begins = trouble.is_none();
                *trouble = Some(error.clone());
                begins
            });
        }
    }

    pub(crate) fn worked(&self) {
        if self.failing_since.lock().take().is_some() {
            self.trouble.send_if_modified(|trouble| trouble.take().is_some());
        }
    }

    /// Why the store takes no writes, if it does not.
    pub(crate) fn trouble(&self) -> Option<StoreError> {
        self.trouble.borrow().clone()
    }

    /// Waits until the store takes no writes, for a reason that lasts.
    pub(crate) async fn lasting_trouble(&self) -> StoreError {
        let mut trouble = self.trouble.subscribe();
        let lasts =
            |trouble: &Option<StoreError>| trouble.as_ref().is_some_and(StoreError::is_lasting);
        let found = trouble.wait_for(lasts).await.ok().and_then(|trouble| trouble.clone());
        match found {
            Some(error) => error,
            // The sender is a part of this.
            None => std::future::pending().await,
        }
    }

    pub(crate) fn steps(&self, driver: usize, clock: &dyn Clock) {
        if let Some(stepped_at) = self.stepped_at.get(driver) {
            stepped_at.store(clock.steady().0, Ordering::Relaxed);
        }
    }

    /// How long ago the last step of each thread began; the longest of these times.
    pub(crate) fn since_step(&self, clock: &dyn Clock) -> Millis {
        let oldest = self.stepped_at.iter().map(|at| at.load(Ordering::Relaxed)).min();
        Millis(clock.steady().0.saturating_sub(oldest.unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use waypost_core::time::Timestamp;
    use waypost_ports::clock::ManualClock;

    use super::*;

    #[test]
    fn store_that_is_full_is_trouble_at_once_and_one_that_is_away_after_a_second() {
        let clock = ManualClock::at(Timestamp(0));
        let vitals = Vitals::new(clock.steady(), 1);
        let (full, away) =
            (StoreError::Full("disk".into()), StoreError::Unavailable("away".into()));
        vitals.failed(&full, &clock);
        assert!(matches!(vitals.trouble(), Some(StoreError::Full(_))));
        vitals.worked();
        assert!(vitals.trouble().is_none());
        vitals.failed(&away, &clock);
        clock.advance(Millis(999));
        vitals.failed(&away, &clock);
        assert!(vitals.trouble().is_none());
        // A write that goes in between ends it.
        vitals.worked();
        clock.advance(Millis(999));
        vitals.failed(&away, &clock);
        assert!(vitals.trouble().is_none());
        clock.advance(Millis(1_000));
        vitals.failed(&away, &clock);
        assert!(matches!(vitals.trouble(), Some(StoreError::Unavailable(_))));
        vitals.worked();
        assert!(vitals.trouble().is_none());
    }

    #[test]
    fn engine_thread_that_makes_no_step_is_noticed() {
        let clock = ManualClock::at(Timestamp(0));
        let vitals = Vitals::new(clock.steady(), 2);
        clock.advance(Millis(7_000));
        assert_eq!(vitals.since_step(&clock), Millis(7_000));
        vitals.steps(0, &clock);
        assert_eq!(vitals.since_step(&clock), Millis(7_000), "the other one has not");
        vitals.steps(1, &clock);
        assert_eq!(vitals.since_step(&clock), Millis(0));
    }
}
