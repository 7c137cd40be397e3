//! Triggers, as the store in memory keeps them.

mod inspect;
mod reading;
mod windows;

use std::collections::BTreeMap;
use std::sync::Arc;

use waypost_core::id::ExecutionNo;
use waypost_core::time::Timestamp;
use waypost_core::trigger::ItemDigest;

pub use self::windows::HeldGroup;
use self::windows::{KeptGroup, WaitingEvent};
use super::Tables;
use crate::outbox::NewEndpoint;
use crate::store::{Append, Appended, Definition, NewDefinition, TakenName};
use crate::triggers::rules::{
    Registered, StoredTrigger, WINDOW_GONE, cancel_mail, endpoint_of, register, throttle_of,
};
use crate::triggers::{
    ClaimedTriggers, DeadFireRow, DeadFireState, Fire, FireOutcome, FireRow, GroupFence,
    SettledFire, Settlement, TriggerAt, TriggerChange, TriggerClaim, TriggerNo, TriggerRow,
    TriggerState,
};

#[derive(Clone, Default)]
pub(super) struct TriggerTables {
    rows: BTreeMap<TriggerNo, KeptTrigger>,
    /// In the order of commits.
    fires: Vec<KeptFire>,
    groups: Vec<KeptGroup>,
    dead: Vec<DeadFireRow>,
    roster: u64,
    /// The last number given to a trigger, a fire, an event in a window, or a dead letter.
    last: i64,
}

#[derive(Clone)]
struct KeptTrigger {
    stored: StoredTrigger,
    /// When a claim may take it.
    claimable_at: Option<Timestamp>,
}

#[derive(Clone)]
struct KeptFire {
    trigger: TriggerNo,
    row: FireRow,
}

impl TriggerTables {
    fn next(&mut self) -> i64 {
        self.last += 1;
        self.last
    }

    /// Writes a row back. Whatever writes it ends its claim.
    fn save(&mut self, stored: StoredTrigger) {
        let claimable_at = stored.row.next_due;
        self.rows.insert(stored.row.number, KeptTrigger { stored, claimable_at });
    }

    /// Is the trigger at this revision?
    pub(super) fn is_trigger_at(&self, at: TriggerAt) -> bool {
        self.stored(at.trigger).is_some_and(|stored| stored.row.at() == at)
    }

    fn stored(&self, trigger: TriggerNo) -> Option<&StoredTrigger> {
        self.rows.get(&trigger).map(|kept| &kept.stored)
    }

    fn known(&self, trigger: TriggerNo, item: &ItemDigest) -> Option<&FireRow> {
        let is_it = |kept: &&KeptFire| kept.trigger == trigger && kept.row.item == *item;
        self.fires.iter().find(is_it).map(|kept| &kept.row)
    }

    /// What a deploy does, if it is of the current version. Returns the endpoints that are to be there.
    pub(super) fn register(
        &mut self,
        new: &NewDefinition,
        version: &Definition,
        now: Timestamp,
    ) -> Vec<NewEndpoint> {
        let mut endpoints = Vec::new();
        let is_of = |kept: &&KeptTrigger| kept.stored.row.workflow == version.name;
        let known = self.rows.values().filter(is_of).map(|kept| kept.stored.clone()).collect();
        for registered in register(known, new, version, now) {
            self.roster += 1;
            match registered {
                Registered::New(mut trigger) => {
                    trigger.row.number = TriggerNo(self.next());
                    endpoints.extend(endpoint_of(&trigger.row, new));
                    self.save(trigger);
                }
                Registered::Known { trigger, discards_groups } => {
                    endpoints.extend(endpoint_of(&trigger.row, new));
                    if discards_groups {
                        self.discard_groups(trigger.row.number, now);
                    }
                    let paused = trigger.row.state != TriggerState::Active;
                    self.pause_groups(trigger.row.number, paused);
                    self.set_throttle(trigger.row.number, throttle_of(&trigger.row, new), now);
                    self.save(trigger);
                }
            }
        }
        endpoints
    }

    /// How many triggers there would be after a deploy.
    pub(super) fn count_with(&self, new: &NewDefinition) -> u64 {
        let is_known = |name: &Arc<str>| {
            let is_it = |kept: &KeptTrigger| {
                let row = &kept.stored.row;
                row.workflow == new.name && row.name == *name
            };
            self.rows.values().any(is_it)
        };
        let added = new.triggers.iter().filter(|trigger| !is_known(&trigger.name)).count();
        (self.rows.len() + added) as u64
    }

    /// The events of all groups of a trigger become dead letters.
    fn discard_groups(&mut self, trigger: TriggerNo, now: Timestamp) {
        let (gone, kept) = std::mem::take(&mut self.groups)
            .into_iter()
            .partition(|group: &KeptGroup| group.trigger == trigger);
        self.groups = kept;
        for WaitingEvent { item, label, payload } in gone.into_iter().flat_map(|group| group.events)
        {
            for kept in &mut self.fires {
                if kept.trigger == trigger && kept.row.item == item {
                    kept.row.outcome = FireOutcome::Dead;
                    kept.row.reason = Some(WINDOW_GONE.into());
                }
            }
            let (id, reason, at) = (self.next(), WINDOW_GONE.into(), now);
            let state = DeadFireState::Dead;
            self.dead.push(DeadFireRow { id, trigger, item, label, at, reason, payload, state });
        }
    }

    /// Why a first frame with this fire does not go in, if the fire is a reason.
    pub(super) fn refusal(&self, fire: &Fire) -> Option<Appended> {
        if let Some(known) = self.known(fire.at.trigger, &fire.item) {
            let taken = TakenName::Item;
            return Some(match known.execution {
                Some(execution) => Appended::Duplicate { execution, taken },
                None => Appended::ItemSettled(known.outcome),
            });
        }
        let stored = self.stored(fire.at.trigger);
        let is_admitted = stored.is_some_and(|row| row.admits(fire.at, fire.advance.as_ref()))
            && self.has_group(fire.at.trigger, fire.group.as_ref());
        (!is_admitted).then_some(Appended::Stale)
    }

    /// The rows of a fire whose frame went in.
    fn fire(&mut self, fire: &Fire, execution: ExecutionNo, now: Timestamp) {
        let trigger = fire.at.trigger;
        let row = FireRow {
            place: self.next(),
            item: fire.item,
            label: Arc::clone(&fire.label),
            at: now,
            nominal: fire.nominal,
            outcome: FireOutcome::Started,
            reason: None,
            execution: Some(execution),
        };
        self.fires.push(KeptFire { trigger, row });
        self.delete_group(trigger, fire.group.as_ref(), true, now);
        if let Some(kept) = self.rows.get_mut(&trigger) {
            kept.stored.fire(fire, now);
            if fire.advance.is_some() {
                kept.claimable_at = kept.stored.row.next_due;
            }
        }
    }

    fn settle_item(&mut self, trigger: TriggerNo, fire: &SettledFire, now: Timestamp) {
        if self.known(trigger, &fire.item).is_some() {
            return;
        }
        let row = FireRow {
            place: self.next(),
            item: fire.item,
            label: Arc::clone(&fire.label),
            at: now,
            nominal: fire.nominal,
            outcome: fire.outcome,
            reason: fire.reason.clone(),
            execution: None,
        };
        self.fires.push(KeptFire { trigger, row });
        if let Some(dead) = &fire.dead {
            let row = DeadFireRow {
                id: self.next(),
                trigger,
                item: fire.item,
                label: Arc::clone(&fire.label),
                at: now,
                reason: fire.reason.clone().unwrap_or_default(),
                payload: Arc::clone(&dead.payload),
                state: DeadFireState::Dead,
            };
            self.dead.push(row);
        }
    }

    /// How many dead letters of a trigger wait for a person.
    fn dead_of(&self, trigger: TriggerNo) -> u64 {
        let waits = |row: &&DeadFireRow| row.trigger == trigger && row.state == DeadFireState::Dead;
        self.dead.iter().filter(waits).count() as u64
    }

    fn has_group(&self, trigger: TriggerNo, fence: Option<&GroupFence>) -> bool {
        fence.is_none_or(|fence| self.groups.iter().any(|group| group.is(trigger, fence)))
    }
}

impl Tables {
    /// The rows of the fire that an execution begins with.
    pub(super) fn write_fire(&mut self, append: &Append, now: Timestamp) {
        let submission = super::appending::first_submission(append);
        if let Some(fire) = submission.and_then(|names| names.fire.as_deref()) {
            self.triggers.fire(fire, append.header.execution, now);
        }
    }

    /// Takes triggers that are due.
    pub fn claim_triggers(&mut self, request: &TriggerClaim, now: Timestamp) -> ClaimedTriggers {
        let mut due: Vec<(Timestamp, TriggerNo)> = Vec::new();
        for (number, kept) in &self.triggers.rows {
            let claimable = kept.claimable_at.filter(|_| request.admits(&kept.stored.row));
            due.extend(claimable.filter(|at| *at <= now).map(|at| (at, *number)));
        }
        due.sort_unstable();
        due.truncate(request.limit);
        let mut claimed = ClaimedTriggers { at: now, ..ClaimedTriggers::default() };
        for (_, number) in due {
            if let Some(kept) = self.triggers.rows.get_mut(&number) {
                kept.claimable_at = Some(now.plus(request.lease));
                claimed.triggers.push(kept.stored.row.clone());
            }
        }
        let rows = self.triggers.rows.values().filter(|kept| request.admits(&kept.stored.row));
        claimed.next_due = rows.filter_map(|kept| kept.claimable_at).min();
        claimed.next_group = self.triggers.next_group();
        claimed
    }

    /// Gives a claimed trigger back.
    pub fn release_trigger(&mut self, trigger: TriggerNo, seq: u64) {
        let kept = self.triggers.rows.get_mut(&trigger).filter(|kept| kept.stored.row.seq == seq);
        if let Some(kept) = kept {
            kept.claimable_at = kept.stored.row.next_due;
        }
    }

    /// Moves a trigger on without an execution; `false` where it has moved on.
    pub fn settle_trigger(&mut self, settlement: &Settlement, now: Timestamp) -> bool {
        let trigger = settlement.at.trigger;
        let Some(mut stored) = self.triggers.stored(trigger).cloned() else { return false };
        if !stored.admits(settlement.at, settlement.advance.as_ref())
            || !self.triggers.has_group(trigger, settlement.group.as_ref())
        {
            return false;
        }
        stored.settle(settlement);
        for fire in &settlement.fires {
            self.triggers.settle_item(trigger, fire, now);
        }
        if settlement.has_dead() {
            stored.count_dead(self.triggers.dead_of(trigger));
        }
        self.triggers.delete_group(trigger, settlement.group.as_ref(), false, now);
        let breaks = stored.row.state == TriggerState::Broken;
        if breaks {
            self.triggers.roster += 1;
            self.triggers.pause_groups(trigger, true);
        }
        let seq = stored.row.seq;
        if settlement.advance.is_some() || breaks {
            self.triggers.save(stored);
        }
        for (execution, reason) in &settlement.cancel {
            self.deliver(&cancel_mail(trigger, seq, *execution, reason));
        }
        true
    }

    /// Changes a trigger that is at this revision.
    pub fn change_trigger(&mut self, at: TriggerAt, change: &TriggerChange) -> Option<TriggerRow> {
        let mut stored = self.triggers.stored(at.trigger)?.clone();
        if !stored.change(at, change) {
            return None;
        }
        let row = stored.row.clone();
        self.triggers.roster += 1;
        self.triggers.pause_groups(at.trigger, row.state != TriggerState::Active);
        self.triggers.save(stored);
        Some(row)
    }
}
