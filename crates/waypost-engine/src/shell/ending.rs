//! When the engine threads end: together, so that a driver which has nothing left to do still serves
//! requests while others drain.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

pub(crate) struct Ending {
    /// Threads that have not ended.
    threads: AtomicUsize,
    /// Drivers that have done everything, as bits.
    done: AtomicU64,
    all: u64,
    /// All of them had at the same time.
    over: AtomicBool,
}

impl Ending {
    pub(crate) fn new(drivers: u32) -> Self {
        let threads = AtomicUsize::new(usize::try_from(drivers).unwrap_or(1));
        let all = u64::MAX >> (u64::BITS - drivers.clamp(1, u64::BITS));
        Self { threads, done: AtomicU64::new(0), all, over: AtomicBool::new(false) }
    }

    /// Has this driver done everything? Returns whether its thread ends.
    pub(crate) fn is_over(&self, driver: usize, done: bool) -> bool {
        let bit = 1 << driver;
        let before = match done {
            true => self.done.fetch_or(bit, Ordering::AcqRel) | bit,
            false => self.done.fetch_and(!bit, Ordering::AcqRel) & !bit,
        };
        if before == self.all {
            self.over.store(true, Ordering::Release);
        }
        done && self.over.load(Ordering::Acquire)
    }

    /// A thread has ended. Was it the last one?
    pub(crate) fn thread_ended(&self) -> bool {
        self.threads.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ending_waits_for_all_drivers_to_be_done_at_once() {
        let ending = Ending::new(2);
        assert!(!ending.is_over(0, true));
        assert!(!ending.is_over(0, false), "a request came");
        assert!(!ending.is_over(1, true), "the first one works again");
        assert!(ending.is_over(0, true));
        assert!(!ending.is_over(1, false), "its commit is under way");
        assert!(ending.is_over(1, true));
        assert_eq!([ending.thread_ended(), ending.thread_ended()], [false, true]);
    }
}
