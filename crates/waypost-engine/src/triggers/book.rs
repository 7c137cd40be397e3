//! The bookkeeping of a trigger runner, without I/O: what is being worked on, and when to look again.

use std::collections::BTreeSet;

use waypost_core::time::{Millis, Timestamp};
use waypost_ports::triggers::{ClaimedTriggers, TriggerNo, TriggerRow};

/// Triggers and groups of windows that one instance works on at once.
pub const WORK_MAX: usize = 100;
/// Triggers that one call claims.
pub const CLAIM_MAX: usize = 100;
/// How long others leave alone what an instance has claimed.
pub const CLAIM_LEASE: Millis = Millis::from_secs(30);
/// How often to look for triggers that other instances have deployed or changed.
pub(super) const POLL: Millis = Millis::from_secs(5);
/// The wait after a call to the store failed, or where what is due is in other hands.
pub(super) const STORE_PAUSE: Millis = Millis::from_secs(1);

/// See the module.
#[derive(Debug, Default)]
pub struct TriggerBook {
    working: BTreeSet<TriggerNo>,
    groups: usize,
    /// When the next trigger or group is due, as far as is known.
    next: Option<Timestamp>,
    /// The last claim found as many as it might take.
    more: bool,
}

impl TriggerBook {
    /// How much more may be claimed.
    pub fn room(&self) -> usize {
        WORK_MAX.saturating_sub(self.working.len() + self.groups)
    }

    /// Takes in a claim; returns the triggers to work on.
    pub fn claimed(&mut self, claimed: ClaimedTriggers, limit: usize) -> Vec<TriggerRow> {
        self.more = claimed.triggers.len() >= limit;
        self.next = claimed.next_due;
        self.due(claimed.next_group);
        claimed.triggers.into_iter().filter(|row| self.begin(row.number)).collect()
    }

    /// Work on a trigger begins, unless it is under way already.
    pub fn begin(&mut self, trigger: TriggerNo) -> bool {
        self.working.insert(trigger)
    }

    /// Work on a trigger ended; it is due again at this time.
    pub fn ended(&mut self, trigger: TriggerNo, next: Option<Timestamp>) {
        self.working.remove(&trigger);
        self.due(next);
    }

    /// Work on groups begins.
    pub fn groups_begun(&mut self, count: usize) {
        self.groups += count;
    }

    /// Groups that were due have been claimed: when the next ones are is known with the next claim.
    pub fn groups_claimed(&mut self, count: usize) {
        self.groups_begun(count);
        self.more = true;
    }

    /// Work on a group ended.
    pub fn group_ended(&mut self) {
        self.groups = self.groups.saturating_sub(1);
    }

    /// How long to wait at most before the next claim, when the store's time is `now`.
    pub fn pause(&self, now: Timestamp) -> Millis {
        if self.room() == 0 {
            // The end of what is under way comes first.
            return POLL;
        }
        if self.more {
            return Millis(0);
        }
        let wait = self.next.map_or(POLL, |next| next.since(now));
        if wait == Millis(0) { STORE_PAUSE } else { wait.min(POLL) }
    }

    fn due(&mut self, next: Option<Timestamp>) {
        self.next = [self.next, next].into_iter().flatten().min();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000);

    fn claimed(next_due: Option<Timestamp>) -> ClaimedTriggers {
        ClaimedTriggers { next_due, at: NOW, ..ClaimedTriggers::default() }
    }

    #[test]
    fn runner_looks_again_when_the_next_trigger_is_due() {
        for (due, expected) in
            [(None, POLL), (Some(700), Millis(700)), (Some(60_000), POLL), (Some(0), STORE_PAUSE)]
        {
            let mut book = TriggerBook::default();
            book.claimed(claimed(due.map(|ms| NOW.plus(Millis(ms)))), CLAIM_MAX);
            assert_eq!(book.pause(NOW), expected, "{due:?}");
        }
    }

    #[test]
    fn trigger_that_is_worked_on_is_not_begun_twice_and_wakes_the_runner_when_it_is_due_again() {
        let mut book = TriggerBook::default();
        book.claimed(claimed(Some(NOW.plus(Millis(4_000)))), CLAIM_MAX);
        assert!(book.begin(TriggerNo(1)) && !book.begin(TriggerNo(1)));
        assert_eq!(book.room(), WORK_MAX - 1);
        book.ended(TriggerNo(1), Some(NOW.plus(Millis(900))));
        assert_eq!((book.room(), book.pause(NOW)), (WORK_MAX, Millis(900)));
    }

    #[test]
    fn claim_that_found_as_many_as_it_might_is_followed_by_another_one() {
        let mut book = TriggerBook::default();
        book.groups_claimed(10);
        assert_eq!(book.pause(NOW), Millis(0));
        book.groups_begun(WORK_MAX - 10);
        assert_eq!((book.room(), book.pause(NOW)), (0, POLL));
        (0..WORK_MAX).for_each(|_| book.group_ended());
        book.claimed(claimed(None), CLAIM_MAX);
        assert_eq!(book.pause(NOW), POLL);
    }
}
