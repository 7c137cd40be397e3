//! Time, as the engine asks for it.

use std::sync::atomic::{AtomicI64, Ordering};

use waypost_core::time::{Millis, Timestamp};

/// Where the engine gets the time from.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970. May jump; the engine never fires a timer because of it.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since_1970 =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX))
    }
}

/// A clock that stands still until it is told otherwise, for tests.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock that shows this time.
    pub fn at(now: Timestamp) -> Self {
        Self(AtomicI64::new(now.0))
    }

    /// Moves it, also back.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.0, Ordering::SeqCst);
    }

    /// Moves it forward.
    pub fn advance(&self, span: Millis) {
        self.set(self.now().plus(span));
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}
