//! After a cancel notification, read each worker's cancellations from the store once, at most once a
//! second: the fast path (Redis) may have missed the cancellation, because the sender could not reach it
//! or because it was flushed since.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use waypost_core::id::WorkerId;

/// How often a worker's cancellations are read from the store, at most: cancellations may come
/// without end.
const AT_MOST_EVERY: Duration = Duration::from_secs(1);
/// How long a notification counts for workers that have not polled since. After that the store is read
/// for them anyway.
const LAST_FOR: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(super) struct CancelReads {
    since: Option<Instant>,
    /// When each worker's cancellations were read from the store.
    read_at: BTreeMap<WorkerId, Instant>,
}

/// How to read a worker's cancellations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CancelRead {
    /// From the fastest source.
    Quick,
    /// From the fastest source, and from the store at this time.
    QuickUntil(Instant),
    /// From the store as well.
    Thorough,
}

impl CancelReads {
    pub(super) fn notified(&mut self, now: Instant) {
        self.since = Some(now);
        self.read_at.retain(|_, at| now < *at + AT_MOST_EVERY);
    }

    /// How to read a worker's cancellations now; counts as done.
    pub(super) fn next_read(&mut self, worker: WorkerId, now: Instant) -> CancelRead {
        let Some(since) = self.since.filter(|since| now < *since + LAST_FOR) else {
            self.since = None;
            self.read_at.clear();
            return CancelRead::Quick;
        };
        match self.read_at.get(&worker) {
            Some(at) if *at > since => CancelRead::Quick,
            Some(at) if now < *at + AT_MOST_EVERY => CancelRead::QuickUntil(*at + AT_MOST_EVERY),
            _ => {
                self.read_at.insert(worker, now);
                CancelRead::Thorough
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn notification_makes_one_thorough_read_per_worker() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let [one, two] = [1, 2].map(|number| WorkerId(Uuid::from_u128(number)));
        let mut cancel_reads = CancelReads::default();
        assert_eq!(cancel_reads.next_read(one, at(0)), CancelRead::Quick);
        cancel_reads.notified(at(10));
        assert_eq!(cancel_reads.next_read(one, at(11)), CancelRead::Thorough);
        assert_eq!(cancel_reads.next_read(one, at(12)), CancelRead::Quick, "it was");
        cancel_reads.notified(at(500));
        assert_eq!(cancel_reads.next_read(one, at(501)), CancelRead::QuickUntil(at(1_011)));
        assert_eq!(cancel_reads.next_read(two, at(502)), CancelRead::Thorough);
        cancel_reads.notified(at(1_010));
        assert_eq!(
            cancel_reads.next_read(one, at(1_011)),
            CancelRead::Thorough,
            "however often a notification comes"
        );
        assert_eq!(cancel_reads.next_read(two, at(4_000)), CancelRead::Thorough);
        cancel_reads.notified(at(9_000));
        assert_eq!(cancel_reads.next_read(two, at(14_000)), CancelRead::Quick, "too long ago");
    }
}
