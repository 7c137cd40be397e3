//! When a connection releases the memory of its page cache.
//!
//! A writer's cache may grow to `CACHE_KIB` (see `connection`), which a burst of work uses and an
//! idle process does not. SQLite keeps such pages until the connection is closed or shrunk.

use std::time::{Duration, Instant};

use rusqlite::Connection;

/// How long a connection is watched before it counts as quiet.
const WINDOW: Duration = Duration::from_secs(5);

/// Frames within a window below which a connection counts as quiet: 100 a second.
const QUIET_MAX: u64 = 500;

/// Frames since the last release, below which there is nothing worth releasing.
const GROWN_MIN: u64 = 1_000;

/// How much a connection has written, and whether it may give its pages back.
pub(crate) struct PageCache {
    window_begins: Instant,
    in_window: u64,
    since_release: u64,
}

impl PageCache {
    pub(crate) fn new(now: Instant) -> Self {
        Self { window_begins: now, in_window: 0, since_release: 0 }
    }

    /// Counts frames, and returns whether to release the pages now. Must be called every few
    /// seconds, with 0 if nothing was written.
    pub(crate) fn wrote(&mut self, frames: u64, now: Instant) -> bool {
        self.in_window = self.in_window.saturating_add(frames);
        self.since_release = self.since_release.saturating_add(frames);
        if now.saturating_duration_since(self.window_begins) < WINDOW {
            return false;
        }
        let quiet = std::mem::take(&mut self.in_window) < QUIET_MAX;
        self.window_begins = now;
        let release = quiet && self.since_release >= GROWN_MIN;
        if release {
            self.since_release = 0;
        }
        release
    }
}

/// Releases the pages that are not in use.
pub(crate) fn release(connection: &Connection) {
    if let Err(error) = connection.execute_batch("PRAGMA shrink_memory") {
        tracing::debug!(%error, "the page cache was not given back");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(begin: Instant, seconds: u64) -> Instant {
        begin + Duration::from_secs(seconds)
    }

    #[test]
    fn page_cache_after_a_burst_is_released_once() {
        let begin = Instant::now();
        let mut cache = PageCache::new(begin);
        assert!(!cache.wrote(100_000, seconds(begin, 4)), "the window is not over");
        assert!(!cache.wrote(0, seconds(begin, 5)), "the burst was in it");
        assert!(!cache.wrote(3, seconds(begin, 9)));
        assert!(cache.wrote(0, seconds(begin, 10)), "a quiet window");
        assert!(!cache.wrote(0, seconds(begin, 15)), "nothing has grown since");
    }

    #[test]
    fn page_cache_of_a_busy_connection_stays() {
        let begin = Instant::now();
        let mut cache = PageCache::new(begin);
        for second in 1..100 {
            assert!(!cache.wrote(200, seconds(begin, second)));
        }
    }

    #[test]
    fn page_cache_that_grows_slowly_is_released_now_and_then() {
        let begin = Instant::now();
        let mut cache = PageCache::new(begin);
        let released = (1..=100).filter(|second| cache.wrote(50, seconds(begin, *second))).count();
        assert_eq!(released, 5);
    }
}
