//! How long an execution occupies the driver, which bounds how long all others wait for it.
//!
//! The driver has no clock. The shell gives it a [`Stopwatch`], from which nothing is decided but how many
//! commands share a frame; a simulator gives it one that depends on the seed alone.

use std::time::Duration;

use super::Driver;

/// Reads the time that has passed since some moment.
pub type Stopwatch = Box<dyn Fn() -> Duration + Send>;

/// Where others wait, an execution decides for an eighth of its time and opens an eighth of its items: each
/// step of a small execution takes as long as the frame of the wide one beside it.
const CROWDED_DIVISOR: u32 = 8;

/// See the module.
pub(super) struct Laps {
    stopwatch: Stopwatch,
    began: Duration,
}

impl Laps {
    /// Begins to measure what the next execution takes.
    pub(super) fn begin(&mut self) {
        self.began = (self.stopwatch)();
    }

    /// How long the execution takes that is in hand.
    pub(super) fn elapsed(&self) -> Duration {
        (self.stopwatch)().saturating_sub(self.began)
    }

    /// The execution in hand is done, and the next one begins. Returns how long it took.
    fn end(&mut self) -> Duration {
        let began = std::mem::replace(&mut self.began, (self.stopwatch)());
        self.began.saturating_sub(began)
    }
}

impl Default for Laps {
    /// A stopwatch that stands still: decisions have no time budget.
    fn default() -> Self {
        Self { stopwatch: Box::new(|| Duration::ZERO), began: Duration::ZERO }
    }
}

impl Driver {
    /// Measures decisions from now on.
    pub fn set_stopwatch(&mut self, stopwatch: Stopwatch) {
        self.laps.stopwatch = stopwatch;
    }

    /// What the time of a decision is divided by: more than 1 where others are ready to be decided, or wait
    /// for a commit.
    pub(super) fn time_divisor(&self) -> u32 {
        let crowded = !self.ready.is_empty() || self.in_flight_bytes > 0;
        if crowded { CROWDED_DIVISOR } else { 1 }
    }

    /// The execution in hand is done.
    pub(super) fn end_lap(&mut self) {
        self.measures.decided.push(self.laps.end());
    }
}
