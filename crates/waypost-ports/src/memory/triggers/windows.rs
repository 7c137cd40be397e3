//! Windows: groups of events that wait.

mod throttles;

use std::sync::Arc;

use waypost_core::planted::{Bug, is_planted};
use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::ItemDigest;

use super::{KeptFire, TriggerTables};
use crate::memory::Tables;
use crate::triggers::throttles::StoredQueue;
use crate::triggers::{
    Arrival, Arrived, DueGroup, FireOutcome, FireRow, GROUPS_MAX, GroupFence, StoredGroup,
    TriggerNo, WaitingEvents,
};

#[derive(Clone)]
pub(super) struct KeptGroup {
    /// That of its first event.
    pub(super) number: i64,
    pub(super) trigger: TriggerNo,
    pub(super) key: Arc<str>,
    /// That of its last event.
    pub(super) seq: i64,
    pub(super) stored: StoredGroup,
    /// When a claim may take it.
    pub(super) claimable_at: Timestamp,
    /// Does what arrives from now on belong to the next group?
    pub(super) closed: bool,
    /// Is its trigger not active?
    pub(super) paused: bool,
    pub(super) events: Vec<WaitingEvent>,
    pub(super) role: KeptRole,
}

/// What a group is.
#[derive(Clone)]
pub(super) enum KeptRole {
    Window,
    Queue(StoredQueue),
    Permit,
}

#[derive(Clone)]
pub(super) struct WaitingEvent {
    pub(super) item: ItemDigest,
    pub(super) label: Arc<str>,
    pub(super) payload: Arc<str>,
}

impl WaitingEvent {
    fn of(arrival: &Arrival) -> Self {
        Self {
            item: arrival.item,
            label: Arc::clone(&arrival.label),
            payload: Arc::clone(&arrival.payload),
        }
    }
}

impl KeptGroup {
    fn is_due(&self, now: Timestamp) -> bool {
        !self.paused && self.claimable_at <= now
    }

    pub(super) fn is(&self, trigger: TriggerNo, fence: &GroupFence) -> bool {
        self.trigger == trigger && self.key == fence.group && self.seq.cast_unsigned() == fence.seq
    }
}

impl TriggerTables {
    pub(super) fn pause_groups(&mut self, trigger: TriggerNo, paused: bool) {
        for group in self.groups.iter_mut().filter(|group| group.trigger == trigger) {
            group.paused = paused;
        }
    }

    pub(super) fn next_group(&self) -> Option<Timestamp> {
        self.groups.iter().filter(|group| !group.paused).map(|group| group.claimable_at).min()
    }

    /// Groups with events.
    pub(super) fn groups(&self) -> u64 {
        self.groups.iter().filter(|group| !group.events.is_empty()).count() as u64
    }

    pub(super) fn waiting(&self, trigger: TriggerNo) -> WaitingEvents {
        let with_events = |group: &&KeptGroup| group.trigger == trigger && !group.events.is_empty();
        let groups = || self.groups.iter().filter(with_events);
        let due = groups().filter(|group| !group.paused).map(|group| match group.role {
            KeptRole::Queue(_) => group.claimable_at,
            KeptRole::Window | KeptRole::Permit => group.stored.due,
        });
        let events = groups().map(|group| group.events.len() as u64).sum();
        WaitingEvents { events, next_due: due.min() }
    }

    /// May the trigger have one more group?
    fn has_room(&self, trigger: TriggerNo) -> bool {
        let of_trigger = self.groups.iter().filter(|group| group.trigger == trigger).count() as u64;
        of_trigger < GROUPS_MAX
    }

    fn arrive(&mut self, arrival: &Arrival, now: Timestamp) -> Arrived {
        let trigger = arrival.at.trigger;
        if self.known(trigger, &arrival.item).is_some() {
            return Arrived::Duplicate;
        }
        if !self.stored(trigger).is_some_and(|row| row.admits(arrival.at, None)) {
            return Arrived::Stale;
        }
        if let Some(throttle) = arrival.throttle() {
            return self.arrive_at_queue(arrival, throttle, now);
        }
        let is_it = |group: &KeptGroup| {
            group.trigger == trigger && group.key == arrival.group && !group.closed
        };
        let open = self.groups.iter().position(is_it);
        let with = open.and_then(|at| self.groups[at].stored.with(arrival, now));
        if with.is_none() && !self.has_room(trigger) {
            return Arrived::Full;
        }
        let seq = self.next();
        let event = WaitingEvent::of(arrival);
        if let (Some(at), Some(stored)) = (open, with) {
            let group = &mut self.groups[at];
            if arrival.replaces() {
                group.events.clear();
            }
            group.events.push(event);
            (group.seq, group.stored, group.claimable_at) = (seq, stored, stored.due);
        } else {
            if let Some(at) = open {
                let group = &mut self.groups[at];
                (group.closed, group.claimable_at) = (true, group.claimable_at.min(now));
                if is_planted(Bug::GroupReplaced) {
                    self.groups.remove(at);
                }
            }
            let stored = StoredGroup::of(arrival, now);
            self.groups.push(KeptGroup {
                number: seq,
                trigger,
                key: Arc::clone(&arrival.group),
                seq,
                stored,
                claimable_at: stored.due,
                closed: false,
                paused: false,
                events: vec![event],
                role: KeptRole::Window,
            });
        }
        self.note(arrival, now, FireOutcome::Collected, None);
        Arrived::Held
    }

    /// Writes down what became of an arrival.
    fn note(
        &mut self,
        arrival: &Arrival,
        now: Timestamp,
        outcome: FireOutcome,
        reason: Option<&str>,
    ) {
        let row = FireRow {
            place: self.next(),
            item: arrival.item,
            label: Arc::clone(&arrival.label),
            at: now,
            nominal: None,
            outcome,
            reason: reason.map(Into::into),
            execution: None,
        };
        self.fires.push(KeptFire { trigger: arrival.at.trigger, row });
    }
}

/// A group of a window, with the events that it holds.
#[derive(Clone, PartialEq, Debug)]
pub struct HeldGroup {
    pub trigger: TriggerNo,
    pub fence: GroupFence,
    pub stored: StoredGroup,
    /// The oldest first, by their labels.
    pub events: Vec<Arc<str>>,
}

impl Tables {
    /// All groups of windows.
    pub fn held_groups(&self) -> impl Iterator<Item = HeldGroup> {
        self.triggers.groups.iter().map(|group| HeldGroup {
            trigger: group.trigger,
            fence: GroupFence { group: Arc::clone(&group.key), seq: group.seq.cast_unsigned() },
            stored: group.stored,
            events: group.events.iter().map(|event| Arc::clone(&event.label)).collect(),
        })
    }

    /// Puts events into windows.
    pub fn arrive(&mut self, arrivals: &[Arrival], now: Timestamp) -> Vec<Arrived> {
        arrivals.iter().map(|arrival| self.triggers.arrive(arrival, now)).collect()
    }

    /// Takes groups that are due, and closes them.
    pub fn claim_groups(&mut self, limit: usize, lease: Millis, now: Timestamp) -> Vec<DueGroup> {
        self.triggers.give_permits(limit, now);
        let TriggerTables { groups, rows, .. } = &mut self.triggers;
        let mut due: Vec<_> =
            groups.iter_mut().filter(|group| group.is_due(now) && !group.is_queue()).collect();
        due.sort_by_key(|group| (group.claimable_at, group.seq));
        let claimed = due.into_iter().take(limit).filter_map(|group| {
            let row = Arc::new(rows.get(&group.trigger)?.stored.row.clone());
            (group.closed, group.claimable_at) = (true, now.plus(lease));
            let payloads = group.events.iter();
            let group_key = Arc::clone(&group.key);
            Some(DueGroup {
                row,
                fence: GroupFence { group: group_key, seq: group.seq.cast_unsigned() },
                first_at: group.stored.first_at,
                last_at: group.stored.last_at,
                payloads: payloads
                    .map(|event| (Arc::clone(&event.payload), Arc::clone(&event.label)))
                    .collect(),
            })
        });
        claimed.collect()
    }
}
