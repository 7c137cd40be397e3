//! What time it is for the store, as far as this process can know.
//!
//! Waits are judged by the store's time: a wait that ends here before it is due there has ended too
//! early, whatever this machine's clock says. So the driver lives on the store's time, known from
//! heartbeats and carried on in between by the local clocks, always on the late side:
//!
//! ```text
//!   heartbeat sent ─────▶ the store reads its clock ─────▶ reply received
//!        at the latest now ◀──────────┘└──────────▶ at least now
//! ```

use waypost_core::planted::{Bug, is_planted};
use waypost_core::time::{Millis, Timestamp};
use waypost_ports::clock::Clock;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct StoreTime {
    /// The store's time was at least this …
    base: Timestamp,
    /// … when the local clocks showed this.
    steady: Millis,
    wall: Timestamp,
    /// The latest time that was told. What was true once stays true: a wall clock that is set back
    /// must not take the driver's time back.
    latest: Timestamp,
    drift_ppm: u32,
}

impl StoreTime {
    /// Nothing is known until the first observation.
    pub fn new(drift_ppm: u32) -> Self {
        let never = Timestamp(i64::MIN);
        Self { base: never, steady: Millis(0), wall: never, latest: never, drift_ppm }
    }

    /// Takes in what the store said the time was, in answer to a question that was sent when the
    /// steady clock showed `sent`.
    pub fn observe(&mut self, sent: Millis, store: Timestamp, clock: &dyn Clock) {
        let (steady, wall) = (clock.steady(), clock.now());
        let waited = Millis(steady.0.saturating_sub(sent.0));
        // Later than this it cannot be: the store's clock was read after the question was sent.
        let latest = store.plus(waited).plus(self.drift_in(waited));
        let carried_on = self.carried_on(steady, wall);
        *self = Self { base: carried_on.max(store).min(latest), steady, wall, ..*self };
    }

    /// The store's time, or a little before; never earlier than it was told before.
    pub fn now(&mut self, clock: &dyn Clock) -> Timestamp {
        if is_planted(Bug::OwnClock) {
            return clock.now();
        }
        self.latest = self.latest.max(self.carried_on(clock.steady(), clock.now()));
        self.latest
    }

    /// Time has passed only where both clocks say so. One of them alone may be wrong: the wall
    /// clock is set forward by hand, the steady one goes on while the store's own clock is set
    /// back and stands still.
    fn carried_on(&self, steady: Millis, wall: Timestamp) -> Timestamp {
        let elapsed = Millis(steady.0.saturating_sub(self.steady.0));
        let elapsed = Millis(elapsed.0.saturating_sub(self.drift_in(elapsed).0));
        let by_wall = if wall > self.wall { wall.since(self.wall) } else { Millis(0) };
        self.base.plus(elapsed.min(by_wall))
    }

    /// How far the local clock may have run ahead, rounded up.
    fn drift_in(&self, span: Millis) -> Millis {
        Millis(span.0.saturating_mul(u64::from(self.drift_ppm)).div_ceil(1_000_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two clocks that need not agree.
    struct Clocks {
        steady: u64,
        wall: i64,
    }

    impl Clock for Clocks {
        fn now(&self) -> Timestamp {
            Timestamp(self.wall)
        }

        fn steady(&self) -> Millis {
            Millis(self.steady)
        }
    }

    fn known(store: i64, steady: u64, wall: i64) -> StoreTime {
        let mut time = StoreTime::new(1_000);
        time.observe(Millis(steady), Timestamp(store), &Clocks { steady, wall });
        time
    }

    fn now(time: &mut StoreTime, steady: u64, wall: i64) -> i64 {
        time.now(&Clocks { steady, wall }).0
    }

    #[test]
    fn a_local_clock_that_is_wrong_does_not_matter() {
        let mut time = known(5_000_000, 100, 77);
        assert_eq!(now(&mut time, 100, 77), 5_000_000);
        assert_eq!(now(&mut time, 1_100, 1_077), 5_000_999, "less what the clock may run too fast");
    }

    #[test]
    fn a_clock_that_is_set_forward_or_back_ends_no_wait_early() {
        let mut time = known(5_000_000, 100, 1_000);
        assert_eq!(now(&mut time, 600, 500), 5_000_000, "set back");
        assert_eq!(now(&mut time, 1_100, 9_999_999), 5_000_999, "set forward");
    }

    /// A wait that begins after its node's deadline was set must not be due before it.
    #[test]
    fn time_does_not_go_back_with_the_clock() {
        let mut time = known(5_000_000, 100, 1_000);
        assert_eq!(now(&mut time, 1_100, 2_000), 5_000_999);
        assert_eq!(now(&mut time, 1_200, 500), 5_000_999);
    }

    #[test]
    fn the_better_of_two_lower_bounds_counts_within_the_upper_one() {
        let mut time = known(5_000_000, 0, 0);
        // The store's clock was read at once and the reply took 400 ms.
        time.observe(Millis(1_000), Timestamp(5_001_000), &Clocks { steady: 1_400, wall: 1_400 });
        assert_eq!(now(&mut time, 1_400, 1_400), 5_001_398, "the old observation knows better");
        // The local clock ran twice as fast as the store's.
        time.observe(Millis(5_000), Timestamp(5_002_500), &Clocks { steady: 5_000, wall: 5_000 });
        assert_eq!(now(&mut time, 5_000, 5_000), 5_002_500, "the upper bound corrects it");
    }
}
