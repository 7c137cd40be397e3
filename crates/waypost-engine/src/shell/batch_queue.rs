//! A queue that is emptied whole: many senders, one receiver, batches instead of items.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::room::shrink;

/// How long the receiver looks again before it sleeps. Waking a sleeping thread costs as much as a
/// small commit; after activity the next item usually comes within this time.
const SPIN: Duration = Duration::from_micros(50);

pub(crate) struct BatchQueue<T> {
    items: Mutex<Vec<T>>,
    arrived: Condvar,
    /// Is there something? Read without the lock.
    some: AtomicBool,
}

impl<T> Default for BatchQueue<T> {
    fn default() -> Self {
        Self { items: Mutex::default(), arrived: Condvar::new(), some: AtomicBool::new(false) }
    }
}

impl<T> BatchQueue<T> {
    pub(crate) fn push(&self, item: T) {
        self.extend([item]);
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
                // Both buffers keep the room of the largest batch otherwise.
                shrink!(items, into);
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Far beyond the duration of the test: reaching it means that a wake-up was lost.
    fn far() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn no_wake_up_is_lost_between_two_threads() {
        let (ping, pong) = (Arc::new(BatchQueue::default()), Arc::<BatchQueue<_>>::default());
        let (start, rounds) = (Instant::now(), 20_000u32);
        let echo = {
            let (ping, pong) = (Arc::clone(&ping), Arc::clone(&pong));
            std::thread::spawn(move || {
                let mut items = Vec::new();
                for _ in 0..rounds {
                    ping.take(&mut items, far());
                    pong.extend(items.drain(..));
                }
            })
        };
        let mut items = Vec::new();
        for round in 0..rounds {
            ping.push(round);
            pong.take(&mut items, far());
            assert_eq!(items, [round]);
            items.clear();
        }
        echo.join().unwrap();
        assert!(start.elapsed() < Duration::from_secs(50));
    }

    #[test]
    fn inbox_that_is_quiet_gives_the_room_of_a_burst_back() {
        let (queue, mut items) = (BatchQueue::default(), Vec::new());
        queue.extend(0..50_000u32);
        queue.take(&mut items, far());
        items.clear();
        queue.extend(0..50_000);
        queue.take(&mut items, far());
        items.clear();
        queue.take(&mut items, Instant::now());
        assert!(items.capacity() + queue.items.lock().capacity() < 5_000);
    }

    #[test]
    fn many_senders_and_nothing_is_lost_or_out_of_order() {
        let queue = Arc::new(BatchQueue::default());
        let senders: Vec<_> = (0..4u32)
            .map(|sender| {
                let queue = Arc::clone(&queue);
                std::thread::spawn(move || (0..5_000u32).for_each(|n| queue.push((sender, n))))
            })
            .collect();
        let (mut items, mut next) = (Vec::new(), [0; 4]);
        while next != [5_000; 4] {
            queue.take(&mut items, far());
            for (sender, n) in items.drain(..) {
                let next = &mut next[usize::try_from(sender).unwrap()];
                assert_eq!(n, *next);
                *next += 1;
            }
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        queue.take(&mut items, Instant::now());
        assert!(items.is_empty());
    }
}
