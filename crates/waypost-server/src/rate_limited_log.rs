//! Rate-limited logging for messages that would otherwise come with every request: while a store is
//! unreachable, thousands of requests fail for one reason.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// See the module.
#[derive(Debug)]
pub struct RateLimitedLog {
    /// Seconds from one time to the next.
    every: u64,
    /// The second of the last message, counted from 1.
    logged: AtomicU64,
    suppressed: AtomicU64,
}

static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

impl RateLimitedLog {
    /// Once a second; nothing was logged yet.
    pub(crate) const fn new() -> Self {
        Self::every(1)
    }

    /// Once in so many seconds.
    pub const fn every(seconds: u64) -> Self {
        Self { every: seconds, logged: AtomicU64::new(0), suppressed: AtomicU64::new(0) }
    }

    /// May a line be logged now? Then returns how many were suppressed before.
    pub fn may_log(&self) -> Option<u64> {
        self.may_log_at(BEGAN.elapsed().as_secs() + 1)
    }

    fn may_log_at(&self, second: u64) -> Option<u64> {
        let is_due = |logged: u64| {
            (logged == 0 || second >= logged.saturating_add(self.every)).then_some(second)
        };
        if self.logged.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_due).is_ok() {
            return Some(self.suppressed.swap(0, Ordering::Relaxed));
        }
        self.suppressed.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_a_second_with_the_number_of_those_between() {
        let log = RateLimitedLog::new();
        assert_eq!(log.may_log_at(1), Some(0));
        assert_eq!((log.may_log_at(1), log.may_log_at(1)), (None, None));
        assert_eq!(log.may_log_at(2), Some(2));
        assert_eq!(log.may_log_at(1), None, "late");
        assert_eq!(log.may_log_at(9), Some(1));
    }

    #[test]
    fn once_in_so_many_seconds() {
        let log = RateLimitedLog::every(10);
        assert_eq!((log.may_log_at(3), log.may_log_at(12)), (Some(0), None));
        assert_eq!((log.may_log_at(13), log.may_log_at(22)), (Some(1), None));
    }
}
