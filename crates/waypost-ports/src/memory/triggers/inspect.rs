//! What a checker asks of triggers in memory.

use std::collections::BTreeSet;
use std::sync::Arc;

use waypost_core::id::ExecutionNo;
use waypost_core::time::Timestamp;

use super::windows::{KeptGroup, KeptRole, WaitingEvent};
use super::{KeptFire, KeptTrigger, TriggerTables};
use crate::inspect::{
    HeldEvents, InspectTriggers, InspectedGroup, InspectedGroups, InspectedTrigger,
    InspectedTriggers, NamedFire, TRIGGER_STRAYS_MAX, TriggerRepair, TriggerStray,
    TriggerStrayKind,
};
use crate::memory::{MemoryStore, Tables};
use crate::store::StoreError;
use crate::triggers::rules::WINDOW_GONE;
use crate::triggers::throttles::GroupRole;
use crate::triggers::{FireOutcome, ITEM_KEPT, TriggerNo, TriggerState};

impl InspectTriggers for MemoryStore {
    fn stored_triggers(
        &self,
        after: Option<TriggerNo>,
        limit: usize,
    ) -> Result<InspectedTriggers, StoreError> {
        self.with(|tables, at| {
            let rows = tables.triggers.rows.iter();
            let rows = rows.filter(|(number, _)| after.is_none_or(|after| **number > after));
            let inspected = |(_, kept): (&TriggerNo, &KeptTrigger)| InspectedTrigger {
                stored: kept.stored.clone(),
                claimable_at: kept.claimable_at,
            };
            Ok(InspectedTriggers { rows: rows.map(inspected).take(limit).collect(), at })
        })
    }

    fn fires_of(&self, executions: &[ExecutionNo]) -> Result<Vec<NamedFire>, StoreError> {
        self.with(|tables, _| {
            let fires = tables.triggers.fires.iter();
            let named = fires.filter_map(|kept| {
                let execution = kept.row.execution.filter(|named| executions.contains(named))?;
                let (trigger, fire) = (kept.trigger, kept.row.clone());
                let row = tables.triggers.stored(trigger).map(|stored| &stored.row);
                let names = row.map(|row| (Arc::clone(&row.workflow), Arc::clone(&row.name)));
                Some(NamedFire { execution, trigger, names, fire })
            });
            let mut named: Vec<NamedFire> = named.collect();
            named.sort_by_key(|named| (named.execution, named.fire.place));
            Ok(named)
        })
    }

    fn stored_groups(
        &self,
        after: Option<i64>,
        limit: usize,
    ) -> Result<InspectedGroups, StoreError> {
        self.with(|tables, at| {
            let triggers = &tables.triggers;
            let groups = triggers.groups.iter().map(|group| triggers.inspect_group(group));
            let mut groups: Vec<InspectedGroup> =
                groups.filter(|group| after.is_none_or(|after| group.number > after)).collect();
            groups.sort_by_key(|group| group.number);
            groups.truncate(limit);
            Ok(InspectedGroups { groups, at })
        })
    }

    fn trigger_strays(&self) -> Result<Vec<TriggerStray>, StoreError> {
        self.with(|tables, now| {
            let mut strays = tables.starts_without_log();
            strays.extend(tables.triggers.halves_of_letters(now));
            Ok(strays)
        })
    }

    fn repair_trigger(&self, repair: &TriggerRepair) -> Result<bool, StoreError> {
        self.with(|tables, _| Ok(tables.triggers.repair(repair)))
    }
}

impl Tables {
    fn starts_without_log(&self) -> Vec<TriggerStray> {
        let has_log = |execution| self.frames_from(execution, 0).next().is_some();
        let is_stray = |kept: &&KeptFire| match kept.row.outcome {
            FireOutcome::Started => !kept.row.execution.is_some_and(has_log),
            _ => kept.row.execution.is_some(),
        };
        let fires = self.triggers.fires.iter().filter(is_stray).take(TRIGGER_STRAYS_MAX);
        fires.map(|kept| kept.stray(TriggerStrayKind::StartWithoutLog)).collect()
    }
}

impl KeptFire {
    fn stray(&self, kind: TriggerStrayKind) -> TriggerStray {
        TriggerStray { kind, trigger: Some(self.trigger), label: Arc::clone(&self.row.label) }
    }
}

impl TriggerTables {
    fn inspect_group(&self, group: &KeptGroup) -> InspectedGroup {
        let unknown = |event: &&WaitingEvent| self.known(group.trigger, &event.item).is_none();
        let held = HeldEvents {
            count: group.events.len() as u64,
            bytes: group.events.iter().map(|event| event.payload.len() as u64).sum(),
            last: group.seq.cast_unsigned(),
            unknown: group.events.iter().filter(unknown).count() as u64,
        };
        InspectedGroup {
            number: group.number,
            role: match &group.role {
                KeptRole::Window => GroupRole::Window,
                KeptRole::Queue(_) => GroupRole::Queue,
                KeptRole::Permit => GroupRole::Permit,
            },
            trigger: group.trigger,
            state: self.stored(group.trigger).map(|stored| stored.row.state),
            key: Arc::clone(&group.key),
            seq: group.seq.cast_unsigned(),
            stored: group.stored,
            claimable_at: group.claimable_at,
            closed: group.closed,
            paused: group.paused,
            held,
        }
    }

    fn halves_of_letters(&self, now: Timestamp) -> Vec<TriggerStray> {
        let dead: BTreeSet<_> = self.dead.iter().map(|row| (row.trigger, row.item)).collect();
        let items = self.fires.iter().filter(|kept| {
            kept.row.outcome == FireOutcome::Dead
                && now.since(kept.row.at) < ITEM_KEPT
                && !dead.contains(&(kept.trigger, kept.row.item))
        });
        let items = items.map(|kept| kept.stray(TriggerStrayKind::DeadItemWithoutLetter));
        let letters = self.dead.iter().filter(|row| {
            let item = self.known(row.trigger, &row.item);
            now.since(row.at) < ITEM_KEPT
                && *row.reason != *WINDOW_GONE
                && item.is_none_or(|item| item.outcome != FireOutcome::Dead)
        });
        let letters = letters.map(|row| TriggerStray {
            kind: TriggerStrayKind::LetterWithoutItem,
            trigger: Some(row.trigger),
            label: Arc::clone(&row.label),
        });
        items.take(TRIGGER_STRAYS_MAX).chain(letters.take(TRIGGER_STRAYS_MAX)).collect()
    }

    fn repair(&mut self, repair: &TriggerRepair) -> bool {
        let number = repair.at.trigger;
        if !self.stored(number).is_some_and(|stored| repair.is_of(stored)) {
            return false;
        }
        let is_window =
            |group: &KeptGroup| group.trigger == number && matches!(group.role, KeptRole::Window);
        self.groups.retain(|group| !is_window(group) || !group.events.is_empty());
        self.pause_groups(number, repair.derived.row.state != TriggerState::Active);
        for group in self.groups.iter_mut().filter(|group| is_window(group)) {
            group.claimable_at = if group.closed { group.stored.last_at } else { group.stored.due };
        }
        self.save(repair.derived.clone());
        let revisions = self.rows.values().map(|kept| kept.stored.row.revision);
        self.roster = revisions.max().unwrap_or(0).max(self.roster) + 1;
        true
    }
}
