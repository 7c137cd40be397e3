//! Rate-limited logging for messages that would otherwise come with every request: while a store is
//! unreachable, thousands of requests fail for one reason.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// See the module.
#[derive(Debug)]
pub struct Seldom {
    /// Seconds from one time to the next.
    every: u64,
    /// The second of the last message, counted from 1.
    said: AtomicU64,
    kept_back: AtomicU64,
}

static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

impl Seldom {
    /// Once a second; nothing was logged yet.
    pub(crate) const fn new() -> Self {
        Self::every(1)
    }

    /// Once in so many seconds.
    pub const fn every(seconds: u64) -> Self {
        Self { every: seconds, said: AtomicU64::new(0), kept_back: AtomicU64::new(0) }
    }

    /// May a line be logged now? Then returns how many were suppressed before.
    pub fn may_say(&self) -> Option<u64> {
        self.may_say_at(BEGAN.elapsed().as_secs() + 1)
    }

    fn may_say_at(&self, second: u64) -> Option<u64> {
        let is_due =
            |said: u64| (said == 0 || second >= said.saturating_add(self.every)).then_some(second);
        if self.said.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_due).is_ok() {
            return Some(self.kept_back.swap(0, Ordering::Relaxed));
        }
        self.kept_back.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_a_second_with_the_number_of_those_between() {
        let seldom = Seldom::new();
        assert_eq!(seldom.may_say_at(1), Some(0));
        assert_eq!((seldom.may_say_at(1), seldom.may_say_at(1)), (None, None));
        assert_eq!(seldom.may_say_at(2), Some(2));
        assert_eq!(seldom.may_say_at(1), None, "late");
        assert_eq!(seldom.may_say_at(9), Some(1));
    }

    #[test]
    fn once_in_so_many_seconds() {
        let seldom = Seldom::every(10);
        assert_eq!((seldom.may_say_at(3), seldom.may_say_at(12)), (Some(0), None));
        assert_eq!((seldom.may_say_at(13), seldom.may_say_at(22)), (Some(1), None));
    }
}
