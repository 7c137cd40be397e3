//! The bookkeeping of a trigger runner, without I/O: what is being worked on, and when to look again.

use std::collections::BTreeMap;

use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::TriggerKindName;
use waypost_ports::triggers::{ClaimedTriggers, TriggerClaim, TriggerNo, TriggerRow};

/// Triggers and groups of windows that one instance works on at once.
const WORK_MAX: usize = 100;
/// How many of them may be polls and streams: what waits for a source leaves places to schedules.
pub const SOURCES_MAX: usize = 80;
/// Triggers that one call claims.
const CLAIM_MAX: usize = 100;
/// How long others leave alone what an instance has claimed.
pub const CLAIM_LEASE: Millis = Millis::from_secs(30);
/// How often to look for triggers that other instances have deployed or changed.
pub(super) const POLL: Millis = Millis::from_secs(5);
/// How long triggers whose definitions this build cannot read are left to other instances.
const LEFT_FOR: Millis = Millis::from_secs(30);
/// The wait after a call to the store failed, or where what is due is in other hands.
pub(super) const STORE_PAUSE: Millis = Millis::from_secs(1);

/// See the module.
#[derive(Debug, Default)]
pub struct TriggerBook {
    /// The triggers that are worked on, and whether each reads a source.
    working: BTreeMap<TriggerNo, bool>,
    groups: usize,
    /// Triggers that are left to other instances, until then.
    left: BTreeMap<TriggerNo, Timestamp>,
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

    fn sources(&self) -> usize {
        self.working.values().filter(|is_source| **is_source).count()
    }

    /// What to claim now; `None` where as much is under way as may be. What is worked on already is not claimed:
    /// the claim would outlast the work.
    pub fn claim(&mut self, now: Timestamp) -> Option<TriggerClaim> {
        self.left.retain(|_, until| *until > now);
        let limit = self.room().min(CLAIM_MAX);
        let sources = SOURCES_MAX.saturating_sub(self.sources());
        let (limit, only) = match sources {
            0 => (limit, Some(TriggerKindName::Schedule)),
            sources => (limit.min(sources), None),
        };
        let except = self.working.keys().chain(self.left.keys()).copied().collect();
        (limit > 0).then_some(TriggerClaim { limit, lease: CLAIM_LEASE, only, except })
    }

    /// Takes in a claim; returns the triggers to work on.
    pub fn claimed(&mut self, claimed: ClaimedTriggers, limit: usize) -> Vec<TriggerRow> {
        self.more = claimed.triggers.len() >= limit;
        self.next = claimed.next_due;
        self.due(claimed.next_group);
        claimed.triggers.into_iter().filter(|row| self.begin(row.number, row.kind)).collect()
    }

    /// Work on a trigger begins, unless it is under way already.
    pub fn begin(&mut self, trigger: TriggerNo, kind: TriggerKindName) -> bool {
        let is_source = matches!(kind, TriggerKindName::Poll | TriggerKindName::Stream);
        self.working.insert(trigger, is_source).is_none()
    }

    /// Work on a trigger ended; it is due again at this time.
    pub fn ended(&mut self, trigger: TriggerNo, next: Option<Timestamp>) {
        // Sources that are due were left out of the time of the next claim while there was no place for one.
        let were_full = self.sources() >= SOURCES_MAX;
        self.more |= self.working.remove(&trigger) == Some(true) && were_full;
        self.due(next);
    }

    /// Work on a trigger ended: this build cannot read its definition, others may.
    pub fn unreadable(&mut self, trigger: TriggerNo, now: Timestamp) {
        self.left.insert(trigger, now.plus(LEFT_FOR));
        self.ended(trigger, None);
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
        let kind = TriggerKindName::Schedule;
        assert!(book.begin(TriggerNo(1), kind) && !book.begin(TriggerNo(1), kind));
        assert_eq!(book.room(), WORK_MAX - 1);
        book.ended(TriggerNo(1), Some(NOW.plus(Millis(900))));
        assert_eq!((book.room(), book.pause(NOW)), (WORK_MAX, Millis(900)));
    }

    #[test]
    fn sources_leave_places_to_schedules() {
        let mut book = TriggerBook::default();
        for number in 0..SOURCES_MAX {
            assert_eq!(book.claim(NOW).unwrap().only, None);
            book.begin(TriggerNo(i64::try_from(number).unwrap()), TriggerKindName::Poll);
        }
        let claim = book.claim(NOW).unwrap();
        assert_eq!(claim.only, Some(TriggerKindName::Schedule));
        assert_eq!((claim.limit, claim.except.len()), (WORK_MAX - SOURCES_MAX, SOURCES_MAX));
        book.ended(TriggerNo(0), None);
        assert_eq!(book.pause(NOW), Millis(0), "others may be due");
        let claim = book.claim(NOW).unwrap();
        assert_eq!((claim.only, claim.limit), (None, 1));
    }

    #[test]
    fn unreadable_trigger_is_left_to_others_for_a_while() {
        let mut book = TriggerBook::default();
        book.begin(TriggerNo(1), TriggerKindName::Schedule);
        book.unreadable(TriggerNo(1), NOW);
        for (now, expected) in [(NOW, vec![TriggerNo(1)]), (NOW.plus(LEFT_FOR), vec![])] {
            let claim = book.claim(now).unwrap();
            assert_eq!((claim.limit, claim.except), (SOURCES_MAX, expected));
        }
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
