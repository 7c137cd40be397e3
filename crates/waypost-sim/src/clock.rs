//! Time in the simulator: one true time, which is the store's, and machines whose clocks are wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use waypost_core::time::{Millis, Timestamp};
use waypost_ports::clock::Clock;

/// When every simulation begins: traces stay readable.
pub const START: Timestamp = Timestamp(1_780_000_000_000);

/// The true time, shared.
#[derive(Clone, Debug, Default)]
pub struct TrueTime(Arc<AtomicU64>);

impl TrueTime {
    /// Milliseconds since the beginning.
    pub fn ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Lets time pass.
    pub fn advance_to(&self, ms: u64) {
        self.0.store(ms, Ordering::Relaxed);
    }

    /// The store's time.
    pub fn now(&self) -> Timestamp {
        START.plus(Millis(self.ms()))
    }
}

/// The clocks of one machine.
#[derive(Debug)]
pub struct MachineClock {
    truth: TrueTime,
    /// How far the wall clock is off.
    offset_ms: AtomicI64,
    /// How much too fast both clocks run.
    drift_ppm: i64,
}

impl MachineClock {
    /// A machine's clocks, off by so much and running too fast by so much.
    pub fn new(truth: TrueTime, offset_ms: i64, drift_ppm: i64) -> Self {
        Self { truth, offset_ms: AtomicI64::new(offset_ms), drift_ppm }
    }

    /// Sets the wall clock forward or back.
    pub fn step(&self, ms: i64) {
        self.offset_ms.fetch_add(ms, Ordering::Relaxed);
    }

    fn elapsed(&self) -> i64 {
        let ms = i64::try_from(self.truth.ms()).unwrap_or(i64::MAX);
        ms + ms * self.drift_ppm / 1_000_000
    }
}

impl Clock for MachineClock {
    fn now(&self) -> Timestamp {
        Timestamp(START.0 + self.elapsed() + self.offset_ms.load(Ordering::Relaxed))
    }

    fn steady(&self) -> Millis {
        Millis(u64::try_from(self.elapsed()).unwrap_or(0))
    }
}
