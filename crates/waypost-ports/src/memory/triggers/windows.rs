//! Windows: groups of events that wait.

use std::sync::Arc;

use waypost_core::planted::{Bug, is_planted};
use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::ItemDigest;

use super::{KeptFire, TriggerTables};
use crate::memory::Tables;
use crate::triggers::{
    Arrival, Arrived, DueGroup, FireOutcome, FireRow, GROUPS_MAX, GroupFence, StoredGroup,
    TriggerNo,
};

#[derive(Clone)]
pub(super) struct KeptGroup {
    pub(super) trigger: TriggerNo,
    key: Arc<str>,
    seq: i64,
    stored: StoredGroup,
    /// When a claim may take it.
    claimable_at: Timestamp,
    /// Does what arrives from now on belong to the next group?
    closed: bool,
    /// Is its trigger not active?
    paused: bool,
    pub(super) events: Vec<WaitingEvent>,
}

#[derive(Clone)]
pub(super) struct WaitingEvent {
    pub(super) item: ItemDigest,
    pub(super) label: Arc<str>,
    pub(super) payload: Arc<str>,
}

impl KeptGroup {
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

    pub(super) fn groups(&self) -> u64 {
        self.groups.len() as u64
    }

    fn arrive(&mut self, arrival: &Arrival, now: Timestamp) -> Arrived {
        let trigger = arrival.at.trigger;
        if self.known(trigger, &arrival.item).is_some() {
            return Arrived::Duplicate;
        }
        if !self.stored(trigger).is_some_and(|row| row.admits(arrival.at, None)) {
            return Arrived::Stale;
        }
        let is_it = |group: &KeptGroup| {
            group.trigger == trigger && group.key == arrival.group && !group.closed
        };
        let open = self.groups.iter().position(is_it);
        let with = open.and_then(|at| self.groups[at].stored.with(arrival, now));
        let of_trigger = self.groups.iter().filter(|group| group.trigger == trigger).count() as u64;
        if with.is_none() && of_trigger >= GROUPS_MAX {
            return Arrived::Full;
        }
        let seq = self.next();
        let event = WaitingEvent {
            item: arrival.item,
            label: Arc::clone(&arrival.label),
            payload: Arc::clone(&arrival.payload),
        };
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
                trigger,
                key: Arc::clone(&arrival.group),
                seq,
                stored,
                claimable_at: stored.due,
                closed: false,
                paused: false,
                events: vec![event],
            });
        }
        let row = FireRow {
            place: self.next(),
            item: arrival.item,
            label: Arc::clone(&arrival.label),
            at: now,
            nominal: None,
            outcome: FireOutcome::Collected,
            reason: None,
            execution: None,
        };
        self.fires.push(KeptFire { trigger, row });
        Arrived::Held
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
        let TriggerTables { groups, rows, .. } = &mut self.triggers;
        let mut due: Vec<_> =
            groups.iter_mut().filter(|group| !group.paused && group.claimable_at <= now).collect();
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
