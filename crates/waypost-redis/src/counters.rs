//! What the metrics show of Redis. Counted where it happens, read whenever somebody asks.

use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers that only grow.
#[derive(Debug, Default)]
pub struct Counters {
    /// Commands that were sent.
    pub commands: Count,
    /// Batches of commands whose answers were waited for.
    pub round_trips: Count,
    /// Times that something was done without Redis, because it does not answer or refused.
    pub fallbacks: Count,
    /// Keys and entries that were garbage, and were deleted or set right.
    pub repaired: Count,
    /// Tasks that were taken, never acknowledged, and put out anew.
    pub stale_claimed: Count,
    /// Copies that were not made: Redis was away, too slow, or they were too large.
    pub dropped: Count,
    /// Times that Redis stopped answering.
    pub outages: Count,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// How many it is.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }
}
