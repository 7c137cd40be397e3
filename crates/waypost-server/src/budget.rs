//! Bytes in memory for clients, over all connections: those read from the store for them, and those
//! being sent to them.
//!
//! | part | bounds | held |
//! | --- | --- | --- |
//! | reading | the log that is read and folded at once | while a read is under way, so never for long |
//! | large | replies and pages of streams above [`SMALL_BYTES`] | until the client's socket took the last byte |
//! | small | the others, above [`TINY_BYTES`] | as large |
//!
//! A reader that waits for its turn holds no bytes, only a place in a queue: first come, first served.
//! Small replies have a part of their own, so that they never queue behind large ones. A reply that a client
//! does not take within a time that fits its size is dropped with its connection, but only where others wait.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Replies up to this size are not counted: a connection itself costs more.
pub const TINY_BYTES: usize = 4 * 1024;
/// Replies up to this size have a part of the budget to themselves, and reads of so much need no room.
pub const SMALL_BYTES: usize = 64 * 1024;
/// Bytes that a read takes for each byte of the log: as stored, as values, as text.
const READ_FACTOR: usize = 3;
/// The share of the budget that is for small replies.
const SMALL_PART: usize = 4;
/// Pages of this part of the budget fill it when nothing waits; the more readers wait, the smaller.
const PAGE_PART: usize = 8;
/// Bytes a second below which a client may lose its connection where others wait for the room.
const SLOWEST: u64 = 128 * 1024;
/// How often a waiting reader looks for overdue replies, if none is known.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The budget of a server.
pub struct Budget {
    reading: Part,
    small: Arc<Part>,
    large: Arc<Part>,
    slow_after: Duration,
    /// The most that replies ever held.
    peak: AtomicUsize,
    /// Connections that were dropped because others waited.
    dropped: AtomicU64,
}

struct Part {
    free: Arc<Semaphore>,
    size: usize,
    waiting: AtomicUsize,
    held: Mutex<BTreeMap<u64, Held>>,
    next: AtomicU64,
}

/// A reply that is on its way.
struct Held {
    /// When it may be dropped.
    overdue: Instant,
    connection: CancellationToken,
}

impl Part {
    fn new(size: usize) -> Self {
        let size = size.clamp(1, u32::MAX as usize);
        Self {
            free: Arc::new(Semaphore::new(size)),
            size,
            waiting: AtomicUsize::new(0),
            held: Mutex::default(),
            next: AtomicU64::new(0),
        }
    }

    /// The permits for a number of bytes: more than the whole part takes the whole part.
    fn room(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.min(self.size)).unwrap_or(u32::MAX)
    }

    fn used(&self) -> usize {
        self.size.saturating_sub(self.free.available_permits())
    }

    /// When the next reply may be dropped.
    fn next_overdue(&self) -> Instant {
        let held = self.held.lock();
        let first = held.values().map(|held| held.overdue).min();
        first.unwrap_or_else(|| Instant::now() + LOOK_EVERY)
    }

    /// Drops the connections of overdue replies; returns how many.
    fn drop_overdue(&self) -> u64 {
        let now = Instant::now();
        let mut dropped = 0;
        self.held.lock().retain(|_, held| {
            let overdue = held.overdue <= now;
            if overdue {
                held.connection.cancel();
                dropped += 1;
            }
            !overdue
        });
        dropped
    }
}

/// Counts a waiting reader, for as long as it waits.
struct Waits<'a>(&'a AtomicUsize);

impl<'a> Waits<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Budget {
    /// A budget of so many bytes for replies, and so many for reads.
    pub fn new(replies: usize, reads: usize, slow_after: Duration) -> Self {
        let small = replies / SMALL_PART;
        Self {
            reading: Part::new(reads),
            small: Arc::new(Part::new(small)),
            large: Arc::new(Part::new(replies - small)),
            slow_after,
            peak: AtomicUsize::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    /// Waits for room to read so much of the log. Released when the read is done.
    pub async fn read(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let room = self.reading.room(bytes.saturating_mul(READ_FACTOR));
        Arc::clone(&self.reading.free).acquire_many_owned(room).await.ok()
    }

    /// Waits for room for a reply.
    pub async fn take(&self, bytes: usize, connection: &CancellationToken) -> Option<Share> {
        let part = self.part(bytes);
        let _waits = Waits::new(&part.waiting);
        let permit = Arc::clone(&part.free).acquire_many_owned(part.room(bytes));
        tokio::pin!(permit);
        loop {
            tokio::select! { // both are cancel-safe: a place in the queue is kept by `permit` alone
                biased; // nothing is dropped where there is room
                permit = &mut permit => return Some(self.share(part, permit.ok()?, bytes, connection)),
                () = tokio::time::sleep_until(part.next_overdue()) => {
                    self.dropped.fetch_add(part.drop_overdue(), Ordering::Relaxed);
                }
            }
        }
    }

    /// Room for a reply, if there is some and no other reply waits for it.
    pub fn try_take(&self, bytes: usize, connection: &CancellationToken) -> Option<Share> {
        let part = self.part(bytes);
        let permit = Arc::clone(&part.free).try_acquire_many_owned(part.room(bytes)).ok()?;
        Some(self.share(part, permit, bytes, connection))
    }

    fn part(&self, bytes: usize) -> &Arc<Part> {
        if bytes <= SMALL_BYTES { &self.small } else { &self.large }
    }

    fn share(
        &self,
        part: &Arc<Part>,
        permit: OwnedSemaphorePermit,
        bytes: usize,
        connection: &CancellationToken,
    ) -> Share {
        self.peak.fetch_max(self.in_flight(), Ordering::Relaxed);
        let number = part.next.fetch_add(1, Ordering::Relaxed);
        let patience = self.slow_after + Duration::from_millis(bytes as u64 * 1_000 / SLOWEST);
        let overdue = Instant::now() + patience;
        part.held.lock().insert(number, Held { overdue, connection: connection.clone() });
        Share { part: Arc::clone(part), permit, number }
    }

    /// Bytes of replies on their way.
    pub fn in_flight(&self) -> usize {
        self.small.used() + self.large.used()
    }

    /// The most there ever were.
    pub fn peak(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }

    /// Bytes of the log that are being read, as they are counted.
    pub fn reading(&self) -> usize {
        self.reading.used()
    }

    /// Replies that wait for room.
    pub fn waiting(&self) -> usize {
        self.small.waiting.load(Ordering::Relaxed) + self.large.waiting.load(Ordering::Relaxed)
    }

    /// Connections that were dropped because others waited for their room.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Bytes of a page that may have `most`: fewer where many wait.
    pub fn page_bytes(&self, most: usize) -> usize {
        let waiting = self.large.waiting.load(Ordering::Relaxed);
        (self.large.size / PAGE_PART / (1 + waiting)).clamp(SMALL_BYTES, most)
    }
}

/// Room for a reply. Dropping it releases the room.
pub struct Share {
    part: Arc<Part>,
    permit: OwnedSemaphorePermit,
    number: u64,
}

impl std::fmt::Debug for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Share").field("bytes", &self.permit.num_permits()).finish()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.part.held.lock().remove(&self.number);
    }
}

impl Share {
    /// Grows it to the real size of a reply; `false` if there is no room for that.
    #[must_use]
    pub fn fit(&mut self, bytes: usize) -> bool {
        let (wanted, has) = (self.part.room(bytes) as usize, self.permit.num_permits());
        if wanted > has {
            let more = self.part.room(wanted - has);
            return match Arc::clone(&self.part.free).try_acquire_many_owned(more) {
                Ok(more) => {
                    self.permit.merge(more);
                    true
                }
                Err(_) => false,
            };
        }
        drop(self.permit.split(has - wanted));
        true
    }

    /// Bytes that give the room back once the last of them is gone, wherever they are by then.
    pub fn hold(self, bytes: Bytes) -> Bytes {
        with_guard(bytes, self)
    }
}

/// Bytes that drop a guard with the last of them.
pub(crate) fn with_guard<G: Send + 'static>(bytes: Bytes, guard: G) -> Bytes {
    struct Guarded<G> {
        bytes: Bytes,
        _guard: G,
    }

    impl<G> AsRef<[u8]> for Guarded<G> {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }

    Bytes::from_owner(Guarded { bytes, _guard: guard })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget() -> Budget {
        Budget::new(8 << 20, 3 << 20, Duration::from_secs(10))
    }

    #[tokio::test(start_paused = true)]
    async fn a_reply_that_is_not_taken_is_dropped_only_where_others_wait() {
        let budget = budget();
        let (slow, other) = (CancellationToken::new(), CancellationToken::new());
        let held = budget.take(6 << 20, &slow).await.unwrap().hold(Bytes::from(vec![0; 6 << 20]));
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        for _ in 0..100 {
            drop(budget.take(1_000, &other).await);
        }
        assert!(!slow.is_cancelled(), "no reply waits");
        // A connection that is dropped behaves like this.
        let connection = tokio::spawn({
            let slow = slow.clone();
            async move {
                slow.cancelled().await;
                drop(held);
            }
        });
        let mut share = budget.take(1 << 20, &other).await.unwrap();
        connection.await.unwrap();
        assert_eq!((budget.in_flight(), budget.dropped()), (1 << 20, 1));
        assert!(share.fit(70_000));
        assert_eq!(budget.in_flight(), 70_000);
        drop(share);
        assert_eq!((budget.in_flight(), budget.waiting()), (0, 0));
        assert_eq!(budget.peak(), (6 << 20) + 1_000);
    }

    #[tokio::test(start_paused = true)]
    async fn small_replies_never_wait_for_large_ones() {
        let budget = Arc::new(budget());
        let connection = CancellationToken::new();
        let large = budget.take(100 << 20, &connection).await.unwrap();
        let waiting = tokio::spawn({
            let (budget, connection) = (Arc::clone(&budget), connection.clone());
            async move { budget.take(1 << 20, &connection).await.map(drop) }
        });
        while budget.waiting() == 0 {
            tokio::task::yield_now().await;
        }
        assert!(budget.try_take(SMALL_BYTES, &connection).is_some());
        assert!(budget.try_take(SMALL_BYTES + 1, &connection).is_none());
        assert!(budget.page_bytes(4 << 20) < 1 << 20, "smaller while a reply waits");
        drop(large);
        waiting.await.unwrap().unwrap();
    }
}
