//! A queue that is emptied whole: many senders, one receiver, batches instead of items.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// How long the receiver looks again before it sleeps. Waking a sleeping thread costs as much as a
/// small commit; after activity the next item usually comes within this time.
const SPIN: Duration = Duration::from_micros(50);

pub(crate) struct Inbox<T> {
    items: Mutex<Vec<T>>,
    arrived: Condvar,
    /// Is there something? Looked at without the lock.
    some: AtomicBool,
}

impl<T> Inbox<T> {
    pub(crate) fn new() -> Self {
        Self {
            items: Mutex::new(Vec::new()),
            arrived: Condvar::new(),
            some: AtomicBool::new(false),
        }
    }

    pub(crate) fn push(&self, item: T) {
        self.items.lock().push(item);
        self.some.store(true, Ordering::Release);
        self.arrived.notify_one();
    }

    pub(crate) fn extend(&self, more: impl IntoIterator<Item = T>) {
        self.items.lock().extend(more);
        self.some.store(true, Ordering::Release);
        self.arrived.notify_one();
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.some.load(Ordering::Acquire)
    }

    /// Moves everything into `into`; waits for something until the deadline.
    pub(crate) fn take(&self, into: &mut Vec<T>, deadline: Instant) {
        self.spin(deadline);
        let mut items = self.items.lock();
        while items.is_empty() {
            if self.arrived.wait_until(&mut items, deadline).timed_out() {
                break;
            }
        }
        self.some.store(false, Ordering::Release);
        if into.is_empty() {
            std::mem::swap(into, &mut items);
        } else {
            into.append(&mut items);
        }
    }

    fn spin(&self, deadline: Instant) {
        let start = Instant::now();
        while self.is_empty() {
            let now = Instant::now();
            if now >= deadline || now - start > SPIN {
                return;
            }
            std::thread::yield_now();
        }
    }
}
