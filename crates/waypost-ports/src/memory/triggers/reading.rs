//! Lists of triggers, fires and dead letters; what is no longer kept; the port itself.

use std::sync::Arc;

use waypost_core::id::ExecutionNo;
use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::ItemDigest;

use super::{KeptFire, KeptTrigger};
use crate::memory::{MemoryStore, Tables};
use crate::store::StoreError;
use crate::triggers::rules::has_topic;
use crate::triggers::{
    Arrival, Arrived, ClaimedTriggers, DEAD_FIRE_KEPT, DeadFireRow, DeadFireState,
    DeadFiresRequest, DueGroup, FireRow, FiresPage, FiresRequest, ITEM_KEPT, Settlement, TRIM_MAX,
    TriggerAt, TriggerChange, TriggerClaim, TriggerNo, TriggerRow, TriggerState, TriggerStats,
    Triggers, TriggersPage, TriggersRequest, WaitingEvents,
};

impl Tables {
    /// The row of every trigger.
    pub fn trigger_rows(&self) -> impl Iterator<Item = &TriggerRow> {
        self.triggers.rows.values().map(|kept| &kept.stored.row)
    }

    /// What became of every item, in the order of commits.
    pub fn fire_rows(&self) -> impl Iterator<Item = (TriggerNo, &FireRow)> {
        self.triggers.fires.iter().map(|kept| (kept.trigger, &kept.row))
    }

    /// One trigger.
    pub fn trigger(&self, workflow: &str, name: &str) -> Option<TriggerRow> {
        let mut rows = self.trigger_rows();
        rows.find(|row| *row.workflow == *workflow && *row.name == *name).cloned()
    }

    /// The number that changes with the roster of triggers.
    pub fn roster_revision(&self) -> u64 {
        self.triggers.roster
    }

    /// Which of these items fired before.
    pub fn fired(&self, trigger: TriggerNo, items: &[ItemDigest]) -> Vec<Option<FireRow>> {
        let known = |item| self.triggers.known(trigger, item).cloned();
        items.iter().map(known).collect()
    }

    /// A page of triggers.
    pub fn list_triggers(&self, request: &TriggersRequest, now: Timestamp) -> TriggersPage {
        let TriggersRequest { workflow, kind, state, topic, after, limit } = request;
        let place = |row: &TriggerRow| (Arc::clone(&row.workflow), Arc::clone(&row.name));
        let mut rows: Vec<TriggerRow> = self
            .trigger_rows()
            .filter(|row| workflow.as_ref().is_none_or(|name| row.workflow == *name))
            .filter(|row| kind.is_none_or(|kind| row.kind == kind))
            .filter(|row| state.is_none_or(|state| row.state == state))
            .filter(|row| topic.as_ref().is_none_or(|topic| has_topic(&row.topics, topic)))
            .filter(|row| after.as_ref().is_none_or(|after| place(row) > *after))
            .cloned()
            .collect();
        rows.sort_by_key(place);
        let more = rows.len() > *limit;
        rows.truncate(*limit);
        TriggersPage { rows, more, at: now }
    }

    /// A page of the history of a trigger.
    pub fn list_fires(&self, request: &FiresRequest) -> FiresPage {
        let FiresRequest { trigger, outcome, before, limit } = *request;
        let mut rows: Vec<FireRow> = self
            .triggers
            .fires
            .iter()
            .rev()
            .filter(|kept| kept.trigger == trigger)
            .map(|kept| &kept.row)
            .filter(|row| outcome.is_none_or(|outcome| row.outcome == outcome))
            .filter(|row| before.is_none_or(|before| row.place < before))
            .take(limit.saturating_add(1))
            .cloned()
            .collect();
        let more = rows.len() > limit;
        rows.truncate(limit);
        FiresPage { rows, more }
    }

    /// The events of a trigger that wait in its windows or for their turn.
    pub fn waiting_events(&self, trigger: TriggerNo) -> WaitingEvents {
        self.triggers.waiting(trigger)
    }

    /// A page of dead letters.
    pub fn list_dead_fires(&self, request: &DeadFiresRequest) -> Vec<DeadFireRow> {
        let DeadFiresRequest { trigger, state, id, before, limit } = *request;
        let rows = self.triggers.dead.iter().rev();
        rows.filter(|row| trigger.is_none_or(|trigger| row.trigger == trigger))
            .filter(|row| state.is_none_or(|state| row.state == state))
            .filter(|row| id.is_none_or(|id| row.id == id))
            .filter(|row| before.is_none_or(|before| row.id < before))
            .take(limit)
            .cloned()
            .collect()
    }

    /// Deletes what is no longer kept.
    pub fn trim_triggers(&mut self, now: Timestamp) -> u64 {
        let (mut items, mut letters) = (0, 0);
        let (triggers, control) = (&mut self.triggers, &self.control);
        let rows = &triggers.rows;
        triggers.fires.retain(|KeptFire { trigger, row }| {
            let is_open = row.execution.is_some_and(|execution| control.contains_key(&execution));
            let state = rows.get(trigger).map(|kept| kept.stored.row.state);
            let stands = matches!(state, Some(TriggerState::Paused | TriggerState::Broken));
            let goes = now.since(row.at) > ITEM_KEPT && !is_open && !stands && items < TRIM_MAX;
            items += usize::from(goes);
            !goes
        });
        triggers.dead.retain(|row| {
            let goes = now.since(row.at) > DEAD_FIRE_KEPT && letters < TRIM_MAX;
            letters += usize::from(goes);
            !goes
        });
        (items + letters) as u64
    }

    /// Counts, for metrics.
    pub fn trigger_stats(&self, now: Timestamp) -> TriggerStats {
        let mut stats = TriggerStats::default();
        let mut counts = std::collections::BTreeMap::new();
        for KeptTrigger { stored, .. } in self.triggers.rows.values() {
            let row = &stored.row;
            *counts.entry((row.kind, row.state)).or_default() += 1;
            let is_active = row.state == TriggerState::Active;
            stats.failing += u64::from(is_active && row.failures > 0);
            stats.overdue = stats.overdue.max(row.next_due.map_or(Millis(0), |due| now.since(due)));
        }
        stats.triggers = counts.into_iter().map(|((kind, state), n)| (kind, state, n)).collect();
        let dead = self.triggers.dead.iter();
        stats.dead = dead.filter(|row| row.state == DeadFireState::Dead).count() as u64;
        stats.groups = self.triggers.groups();
        stats
    }

    /// The unfinished executions that a trigger started.
    pub fn open_executions(&self, trigger: TriggerNo, limit: usize) -> Vec<ExecutionNo> {
        let fires = self.triggers.fires.iter().filter(|kept| kept.trigger == trigger);
        let started = fires.filter_map(|kept| kept.row.execution);
        started.filter(|execution| self.control.contains_key(execution)).take(limit).collect()
    }

    /// Marks a dead letter.
    pub fn settle_dead_fire(&mut self, id: i64, state: DeadFireState) -> bool {
        let is_it = |row: &&mut DeadFireRow| row.id == id && row.state == DeadFireState::Dead;
        let found = self.triggers.dead.iter_mut().find(is_it);
        found.map(|row| row.state = state).is_some()
    }
}

impl Triggers for MemoryStore {
    fn claim_triggers(&self, request: &TriggerClaim) -> Result<ClaimedTriggers, StoreError> {
        self.with(|tables, now| Ok(tables.claim_triggers(request, now)))
    }

    fn release_trigger(&self, trigger: TriggerNo, seq: u64) -> Result<(), StoreError> {
        self.with(|tables, _| {
            tables.release_trigger(trigger, seq);
            Ok(())
        })
    }

    fn settle_trigger(&self, settlement: &Settlement) -> Result<bool, StoreError> {
        self.with(|tables, now| Ok(tables.settle_trigger(settlement, now)))
    }

    fn trigger(&self, workflow: &str, name: &str) -> Result<Option<TriggerRow>, StoreError> {
        self.with(|tables, _| Ok(tables.trigger(workflow, name)))
    }

    fn triggers(&self, request: &TriggersRequest) -> Result<TriggersPage, StoreError> {
        self.with(|tables, now| Ok(tables.list_triggers(request, now)))
    }

    fn roster_revision(&self) -> Result<u64, StoreError> {
        self.with(|tables, _| Ok(tables.roster_revision()))
    }

    fn change_trigger(
        &self,
        at: TriggerAt,
        change: &TriggerChange,
    ) -> Result<Option<TriggerRow>, StoreError> {
        self.with(|tables, _| Ok(tables.change_trigger(at, change)))
    }

    fn fired(
        &self,
        trigger: TriggerNo,
        items: &[ItemDigest],
    ) -> Result<Vec<Option<FireRow>>, StoreError> {
        self.with(|tables, _| Ok(tables.fired(trigger, items)))
    }

    fn fires(&self, request: &FiresRequest) -> Result<FiresPage, StoreError> {
        self.with(|tables, _| Ok(tables.list_fires(request)))
    }

    fn open_executions(
        &self,
        trigger: TriggerNo,
        limit: usize,
    ) -> Result<Vec<ExecutionNo>, StoreError> {
        self.with(|tables, _| Ok(tables.open_executions(trigger, limit)))
    }

    fn arrive(&self, arrivals: &[Arrival]) -> Result<Vec<Arrived>, StoreError> {
        self.with(|tables, now| Ok(tables.arrive(arrivals, now)))
    }

    fn claim_groups(&self, limit: usize, lease: Millis) -> Result<Vec<DueGroup>, StoreError> {
        self.with(|tables, now| Ok(tables.claim_groups(limit, lease, now)))
    }

    fn waiting_events(&self, trigger: TriggerNo) -> Result<WaitingEvents, StoreError> {
        self.with(|tables, _| Ok(tables.waiting_events(trigger)))
    }

    fn dead_fires(&self, request: &DeadFiresRequest) -> Result<Vec<DeadFireRow>, StoreError> {
        self.with(|tables, _| Ok(tables.list_dead_fires(request)))
    }

    fn settle_dead_fire(&self, id: i64, state: DeadFireState) -> Result<bool, StoreError> {
        self.with(|tables, _| Ok(tables.settle_dead_fire(id, state)))
    }

    fn trim_triggers(&self) -> Result<u64, StoreError> {
        self.with(|tables, now| Ok(tables.trim_triggers(now)))
    }

    fn trigger_stats(&self) -> Result<TriggerStats, StoreError> {
        self.with(|tables, now| Ok(tables.trigger_stats(now)))
    }
}
