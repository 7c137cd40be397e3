//! Counters behind the metrics of Redis.

use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers that only grow.
#[derive(Debug, Default)]
pub struct Counters {
    pub commands: Counter,
    /// Batches of commands whose answers were waited for.
    pub round_trips: Counter,
    /// Times that something was done without Redis, because it does not answer or refused.
    pub fallbacks: Counter,
    /// Keys and entries that were garbage, and were deleted or set right.
    pub repaired: Counter,
    /// Tasks that were taken, never acknowledged, and requeued.
    pub stale_claimed: Counter,
    /// Copies that were not made: Redis was away, too slow, or they were too large.
    pub dropped: Counter,
    /// Times that Redis stopped answering.
    pub outages: Counter,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// How many it is.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }
}
