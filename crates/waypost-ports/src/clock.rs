//! Time, as a trait of the engine.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use rustix::time::ClockId;
use waypost_core::time::{Millis, Timestamp};

/// Where the engine gets the time from.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970. May jump; the engine never fires a timer because of it.
    fn now(&self) -> Timestamp;

    /// Time since some moment in the past, which never jumps or goes back, and continues while the
    /// machine sleeps.
    fn steady(&self) -> Millis;
}

/// `Instant` stops while a Linux machine sleeps, and a lease does not.
#[cfg(any(target_os = "linux", target_os = "android"))]
const STEADY: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const STEADY: ClockId = ClockId::Monotonic;

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since_1970 =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX))
    }

    fn steady(&self) -> Millis {
        let time = rustix::time::clock_gettime(STEADY);
        let (seconds, nanoseconds) = (time.tv_sec, time.tv_nsec);
        let millis = seconds.saturating_mul(1_000).saturating_add(nanoseconds / 1_000_000);
        Millis(u64::try_from(millis).unwrap_or(0))
    }
}

/// A clock for tests that stands still until the test advances it.
#[derive(Debug, Default)]
pub struct ManualClock {
    now: AtomicI64,
    steady: AtomicU64,
}

impl ManualClock {
    /// A clock at this time.
    pub fn at(now: Timestamp) -> Self {
        Self { now: AtomicI64::new(now.0), steady: AtomicU64::new(0) }
    }

    /// Moves it, also back.
    pub fn set(&self, now: Timestamp) {
        let before = self.now.swap(now.0, Ordering::SeqCst);
        let passed = u64::try_from(now.0.saturating_sub(before)).unwrap_or(0);
        self.steady.fetch_add(passed, Ordering::SeqCst);
    }

    /// Moves it forward.
    pub fn advance(&self, span: Millis) {
        self.set(self.now().plus(span));
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.now.load(Ordering::SeqCst))
    }

    fn steady(&self) -> Millis {
        Millis(self.steady.load(Ordering::SeqCst))
    }
}
