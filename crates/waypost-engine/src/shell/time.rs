//! The store's time, as far as this process can know it.
//!
//! Waits are judged by the store's time: a wait that ends here before it is due there has ended too
//! early, whatever this machine's clock shows. So the driver uses the store's time, known from
//! heartbeats and advanced in between by the local clocks, as two bounds:
//!
//! ```text
//!   heartbeat sent ─────▶ the store reads its clock ─────▶ reply received
//!        at the latest now ◀──────────┘└──────────▶ at least now
//! ```
//!
//! Timers are due by the lower one. Durations count from the upper one: a duration that counted
//! from the lower one would be too short by as much as that is behind, which is all the time since
//! the last heartbeat if the wall clock was set back.

use waypost_core::planted::{Bug, is_planted};
use waypost_core::time::{Millis, Now, Timestamp};
use waypost_ports::clock::Clock;

/// How far the two local clocks may disagree on how much time has passed before the store is asked:
/// more than NTP adjusts between two heartbeats.
const DOUBT: Millis = Millis(100);

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct StoreTime {
    /// The store's time was between these …
    base: Now,
    /// … when the local clocks showed this.
    steady: Millis,
    wall: Timestamp,
    /// The latest bounds that were returned; neither goes back. A wall clock that is set back must
    /// not take the driver's time back, and a wait that begins after its node's deadline was set
    /// must not be due before it.
    returned: Now,
    /// Was the question to the store requested?
    doubted: bool,
    drift_ppm: u32,
}

impl StoreTime {
    /// Nothing is known until the first observation.
    pub fn new(drift_ppm: u32) -> Self {
        let never = Timestamp(i64::MIN);
        let (base, returned) = (never.into(), never.into());
        Self { base, steady: Millis(0), wall: never, returned, doubted: false, drift_ppm }
    }

    /// Records the store's time, from a call that was sent when the steady clock was at `sent`.
    pub fn observe(&mut self, sent: Millis, store: Timestamp, clock: &dyn Clock) {
        let (steady, wall) = (clock.steady(), clock.now());
        let waited = Millis(steady.0.saturating_sub(sent.0));
        // Later than this it cannot be: the store's clock was read after the question was sent.
        let latest = store.plus(waited).plus(self.drift_in(waited));
        let carried_on = self.carried_on(steady, wall);
        let least = carried_on.least.max(store).min(latest);
        // The earlier upper bound may be the better one, unless the store's clock has jumped.
        let most = if carried_on.most < least { latest } else { carried_on.most.min(latest) };
        *self = Self { base: Now { least, most }, steady, wall, doubted: false, ..*self };
    }

    /// Must the store be asked for the time, because this machine's clock was set? Returns true
    /// once until it has answered. The store's clock may be the one that was set: until it is
    /// asked, the jump is unknown.
    pub fn must_ask(&mut self, clock: &dyn Clock) -> bool {
        let by_steady = clock.steady().0.saturating_sub(self.steady.0);
        let by_wall = clock.now().0.saturating_sub(self.wall.0);
        let apart = by_wall.abs_diff(i64::try_from(by_steady).unwrap_or(i64::MAX));
        let known = self.wall.0 > i64::MIN;
        known && apart > DOUBT.0 && !std::mem::replace(&mut self.doubted, true)
    }

    /// The store's time is between these bounds; neither is ever earlier than before.
    pub fn now(&mut self, clock: &dyn Clock) -> Now {
        if is_planted(Bug::OwnClock) {
            return clock.now().into();
        }
        let carried_on = self.carried_on(clock.steady(), clock.now());
        let least = self.returned.least.max(carried_on.least);
        let most = self.returned.most.max(carried_on.most).max(least);
        self.returned = Now { least, most };
        if is_planted(Bug::SpansFromLeast) {
            return least.into();
        }
        self.returned
    }

    /// The lower bound advances by what both clocks agree on. One of them alone may be wrong: the
    /// wall clock is set forward by hand, the steady one goes on while the store's own clock is set
    /// back and stands still. The upper bound advances by the steady clock, which cannot be set.
    fn carried_on(&self, steady: Millis, wall: Timestamp) -> Now {
        let elapsed = Millis(steady.0.saturating_sub(self.steady.0));
        let drift = self.drift_in(elapsed);
        let surely = Millis(elapsed.0.saturating_sub(drift.0));
        let by_wall = if wall > self.wall { wall.since(self.wall) } else { Millis(0) };
        Now {
            least: self.base.least.plus(surely.min(by_wall)),
            most: self.base.most.plus(elapsed).plus(drift),
        }
    }

    /// How far the local clock may have run ahead or stayed behind, rounded up.
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
        time.now(&Clocks { steady, wall }).least.0
    }

    fn most(time: &mut StoreTime, steady: u64, wall: i64) -> i64 {
        time.now(&Clocks { steady, wall }).most.0
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

    /// A span that begins after the clock was set back counts from a time that the store has not
    /// passed.
    #[test]
    fn bug_a_clock_that_was_set_back_cut_spans_short() {
        let mut time = known(5_000_000, 100, 1_000);
        assert_eq!(now(&mut time, 4_100, -3_600_000), 5_000_000, "what is due may be late");
        assert_eq!(
            most(&mut time, 4_100, -3_600_000),
            5_004_004,
            "with what the clock may be slow"
        );
        assert_eq!(most(&mut time, 4_100, 9_000_000), 5_004_004, "nor is it late if set forward");
    }

    #[test]
    fn the_upper_bound_is_as_close_as_a_round_trip() {
        let mut time = StoreTime::new(1_000);
        time.observe(Millis(0), Timestamp(5_000_000), &Clocks { steady: 400, wall: 400 });
        assert_eq!(most(&mut time, 400, 400), 5_000_401, "it was read at once");
        time.observe(Millis(1_000), Timestamp(5_000_800), &Clocks { steady: 1_002, wall: 1_002 });
        let better = time.base.most.0;
        assert_eq!(better, 5_000_803, "a quick answer says more");
        assert_eq!(most(&mut time, 1_002, 1_002), 5_000_803, "the returned bound was earlier");
        time.observe(Millis(2_000), Timestamp(5_001_900), &Clocks { steady: 4_000, wall: 4_000 });
        assert_eq!(time.base.most.0, 5_003_804, "a slow one does not say less");
        time.observe(Millis(5_000), Timestamp(9_000_000), &Clocks { steady: 5_000, wall: 5_000 });
        assert_eq!(time.base, Timestamp(9_000_000).into(), "the store's clock was set forward");
    }

    #[test]
    fn the_store_is_asked_once_when_a_clock_was_set() {
        let mut time = known(5_000_000, 100, 1_000);
        assert!(!time.must_ask(&Clocks { steady: 4_100, wall: 5_050 }), "clocks are never equal");
        for wall in [-3_600_000, 3_600_000] {
            assert!(time.must_ask(&Clocks { steady: 4_200, wall }));
            assert!(!time.must_ask(&Clocks { steady: 4_300, wall }), "the answer is on its way");
            time.observe(Millis(4_300), Timestamp(5_004_200), &Clocks { steady: 4_400, wall });
            assert!(!time.must_ask(&Clocks { steady: 4_500, wall: wall + 100 }));
        }
        assert!(!StoreTime::new(500).must_ask(&Clocks { steady: 1, wall: 2 }), "not asked before");
    }
}
