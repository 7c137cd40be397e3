//! Throttles: the queue of each key, and its permits.

use std::sync::Arc;

use waypost_core::time::Timestamp;
use waypost_core::trigger::Throttle;

use super::{KeptGroup, KeptRole, TriggerTables, WaitingEvent};
use crate::triggers::throttles::{Admission, OVER_LIMIT, PERMIT_LEASE, REPLACED, StoredQueue};
use crate::triggers::{Arrival, Arrived, FireOutcome, GroupFence, StoredGroup, TriggerNo};

impl KeptGroup {
    pub(super) fn is_queue(&self) -> bool {
        matches!(self.role, KeptRole::Queue(_))
    }

    fn queue(&mut self) -> Option<&mut StoredQueue> {
        match &mut self.role {
            KeptRole::Queue(queue) => Some(queue),
            KeptRole::Window | KeptRole::Permit => None,
        }
    }

    /// A group that takes no arrivals as a window does.
    fn new(
        number: i64,
        trigger: TriggerNo,
        key: &Arc<str>,
        role: KeptRole,
        now: Timestamp,
    ) -> Self {
        let stored = StoredGroup { first_at: now, last_at: now, events: 0, bytes: 0, due: now };
        let (key, closed, paused) = (Arc::clone(key), true, false);
        let (seq, claimable_at, events) = (0, now, Vec::new());
        Self { number, trigger, key, seq, stored, claimable_at, closed, paused, events, role }
    }
}

impl TriggerTables {
    fn queue_of(&self, trigger: TriggerNo, key: &str) -> Option<usize> {
        let is_it =
            |group: &KeptGroup| group.trigger == trigger && *group.key == *key && group.is_queue();
        self.groups.iter().position(is_it)
    }

    fn permits(&self, trigger: TriggerNo, key: &str) -> u32 {
        let is_one = |group: &&KeptGroup| {
            group.trigger == trigger && *group.key == *key && matches!(group.role, KeptRole::Permit)
        };
        u32::try_from(self.groups.iter().filter(is_one).count()).unwrap_or(u32::MAX)
    }

    pub(super) fn arrive_at_queue(
        &mut self,
        arrival: &Arrival,
        throttle: Throttle,
        now: Timestamp,
    ) -> Arrived {
        let (trigger, key) = (arrival.at.trigger, &arrival.group);
        let at = match self.queue_of(trigger, key) {
            Some(at) => at,
            None if !self.has_room(trigger) => return Arrived::Full,
            None => {
                let role = KeptRole::Queue(StoredQueue::new(throttle));
                let number = self.next();
                self.groups.push(KeptGroup::new(number, trigger, key, role, now));
                self.groups.len() - 1
            }
        };
        let permits = self.permits(trigger, key);
        let Some(queue) = self.groups[at].queue() else { return Arrived::Full };
        let admission = queue.admit(throttle.over, arrival, permits, now);
        let (outcome, reason) = match admission {
            Admission::Full => return Arrived::Full,
            Admission::Skip => (FireOutcome::Skipped, Some(OVER_LIMIT)),
            Admission::Start | Admission::Wait | Admission::Replace => {
                (FireOutcome::Collected, None)
            }
        };
        self.note(arrival, now, outcome, reason);
        let event = WaitingEvent::of(arrival);
        let arrived = match admission {
            Admission::Full | Admission::Skip => Arrived::Skipped,
            Admission::Start => Arrived::Permitted { seq: self.permit(trigger, key, event, now) },
            Admission::Wait => {
                self.groups[at].events.push(event);
                Arrived::Held
            }
            Admission::Replace => {
                let replaced = std::mem::replace(&mut self.groups[at].events, vec![event]);
                self.skip(trigger, &replaced);
                Arrived::Replaced
            }
        };
        self.put_off(at, now);
        arrived
    }

    /// Events that waited start nothing.
    fn skip(&mut self, trigger: TriggerNo, events: &[WaitingEvent]) {
        let is_one = |item| events.iter().any(|event| event.item == item);
        for kept in self.fires.iter_mut().filter(|kept| kept.trigger == trigger) {
            if is_one(kept.row.item) {
                kept.row.outcome = FireOutcome::Skipped;
                kept.row.reason = Some(REPLACED.into());
            }
        }
    }

    /// A group of one event that may fire; returns its number.
    fn permit(
        &mut self,
        trigger: TriggerNo,
        key: &Arc<str>,
        event: WaitingEvent,
        now: Timestamp,
    ) -> u64 {
        let seq = self.next();
        let mut group = KeptGroup::new(seq, trigger, key, KeptRole::Permit, now);
        (group.seq, group.claimable_at) = (seq, now.plus(PERMIT_LEASE));
        group.events.push(event);
        self.groups.push(group);
        seq.cast_unsigned()
    }

    /// Writes down when a queue is due, or deletes it.
    fn put_off(&mut self, at: usize, now: Timestamp) {
        let (trigger, key) = (self.groups[at].trigger, Arc::clone(&self.groups[at].key));
        let permits = self.permits(trigger, &key);
        match self.groups[at].queue().and_then(|queue| queue.due(permits, now)) {
            Some(due) => self.groups[at].claimable_at = due,
            None => drop(self.groups.remove(at)),
        }
    }

    /// Gives events of queues that are due their permits, so that they can be claimed.
    pub(super) fn give_permits(&mut self, limit: usize, now: Timestamp) {
        let is_due = |group: &&KeptGroup| group.is_due(now) && group.is_queue();
        let due: Vec<(TriggerNo, Arc<str>)> = self
            .groups
            .iter()
            .filter(is_due)
            .take(limit)
            .map(|group| (group.trigger, Arc::clone(&group.key)))
            .collect();
        for (trigger, key) in due {
            let permits = self.permits(trigger, &key);
            let Some(at) = self.queue_of(trigger, &key) else { continue };
            let group = &mut self.groups[at];
            let Some(queue) = group.queue() else { continue };
            let count = queue.grants(permits, now);
            let grants = usize::try_from(count).unwrap_or(usize::MAX).min(limit);
            let events: Vec<WaitingEvent> = group.events.drain(..grants).collect();
            let bytes = events.iter().map(|event| event.payload.len()).sum();
            if let Some(queue) = self.groups[at].queue() {
                queue.granted(u32::try_from(grants).unwrap_or(u32::MAX), bytes);
            }
            for event in events {
                self.permit(trigger, &key, event, now);
                if let Some(permit) = self.groups.last_mut() {
                    permit.claimable_at = now;
                }
            }
            self.put_off(at, now);
        }
    }

    /// A group was deleted. If that was a permit, its queue goes on: after a start, or without one.
    fn returned(&mut self, group: &KeptGroup, started: bool, now: Timestamp) {
        let KeptRole::Permit = group.role else { return };
        let Some(at) = self.queue_of(group.trigger, &group.key) else { return };
        if let Some(queue) = self.groups[at].queue() {
            queue.started(usize::from(started), now);
        }
        self.put_off(at, now);
    }

    /// What holds the events of a trigger back has changed with a deploy.
    pub(in crate::memory) fn set_throttle(
        &mut self,
        trigger: TriggerNo,
        throttle: Throttle,
        now: Timestamp,
    ) {
        for group in self.groups.iter_mut().filter(|group| group.trigger == trigger) {
            let KeptRole::Queue(queue) = &mut group.role else { continue };
            if (queue.limit, queue.per) != (throttle.limit, throttle.per) {
                (queue.limit, queue.per) = (throttle.limit, throttle.per);
                group.claimable_at = now;
            }
        }
    }

    pub(in crate::memory) fn delete_group(
        &mut self,
        trigger: TriggerNo,
        fence: Option<&GroupFence>,
        started: bool,
        now: Timestamp,
    ) {
        let Some(fence) = fence else { return };
        let Some(at) = self.groups.iter().position(|group| group.is(trigger, fence)) else {
            return;
        };
        let group = self.groups.remove(at);
        self.returned(&group, started, now);
    }
}
