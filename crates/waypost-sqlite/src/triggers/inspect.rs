//! What a checker asks of triggers, and its repairs.

use rusqlite::{Row, params};
use waypost_core::id::ExecutionNo;
use waypost_core::time::Timestamp;
use waypost_ports::inspect::{
    HeldEvents, InspectTriggers, InspectedGroup, InspectedGroups, InspectedTrigger,
    InspectedTriggers, NamedFire, TRIGGER_STRAYS_MAX, TriggerRepair, TriggerStray,
    TriggerStrayKind,
};
use waypost_ports::store::StoreError;
use waypost_ports::triggers::rules::WINDOW_GONE;
use waypost_ports::triggers::throttles::GroupRole;
use waypost_ports::triggers::{ITEM_KEPT, TriggerNo, TriggerState};

use super::{load, rows, save, windows};
use crate::connection::{all, from_stored, run};
use crate::queries;
use crate::store::{SqliteStore, Write};

impl InspectTriggers for SqliteStore {
    fn stored_triggers(
        &self,
        after: Option<TriggerNo>,
        limit: usize,
    ) -> Result<InspectedTriggers, StoreError> {
        let at = self.time();
        let page = page(after.map(|after| after.0), limit);
        let read = |row: &Row<'_>| {
            Ok(InspectedTrigger { stored: rows::stored(row)?, claimable_at: rows::time(row, 20)? })
        };
        let rows = self.readers.read(|db| all(db, queries::TRIGGERS_INSPECT, page, read))?;
        Ok(InspectedTriggers { rows, at })
    }

    fn fires_of(&self, executions: &[ExecutionNo]) -> Result<Vec<NamedFire>, StoreError> {
        let mut executions = executions.to_vec();
        executions.sort_unstable();
        self.readers.read(|db| {
            let mut found = Vec::new();
            for execution in &executions {
                found.extend(all(db, queries::FIRES_OF, [execution.0], named_fire)?);
            }
            Ok(found)
        })
    }

    fn stored_groups(
        &self,
        after: Option<i64>,
        limit: usize,
    ) -> Result<InspectedGroups, StoreError> {
        let at = self.time();
        let groups =
            self.readers.read(|db| all(db, queries::GROUPS_INSPECT, page(after, limit), group))?;
        Ok(InspectedGroups { groups, at })
    }

    fn trigger_strays(&self) -> Result<Vec<TriggerStray>, StoreError> {
        let most = i64::try_from(TRIGGER_STRAYS_MAX).unwrap_or(i64::MAX);
        let about = params![self.time().minus(ITEM_KEPT).0, most, WINDOW_GONE];
        self.readers.read(|db| {
            all(db, queries::TRIGGER_STRAYS, about, |row| {
                Ok(TriggerStray {
                    kind: rows::decoded(row, 0, TriggerStrayKind::from_code)?,
                    trigger: row.get::<_, Option<i64>>(1)?.map(TriggerNo),
                    label: rows::text(row, 2)?,
                })
            })
        })
    }

    fn repair_trigger(&self, repair: &TriggerRepair) -> Result<bool, StoreError> {
        self.expect_engine("repair")?;
        self.write(|write| apply(write, repair))
    }
}

fn page(after: Option<i64>, limit: usize) -> [i64; 2] {
    [after.unwrap_or(i64::MIN), i64::try_from(limit).unwrap_or(i64::MAX)]
}

fn named_fire(row: &Row<'_>) -> rusqlite::Result<NamedFire> {
    let names = match rows::text_or_none(row, 9)? {
        Some(workflow) => Some((workflow, rows::text(row, 10)?)),
        None => None,
    };
    let (execution, trigger) = (ExecutionNo(row.get(7)?), TriggerNo(row.get(8)?));
    Ok(NamedFire { execution, trigger, names, fire: rows::fire(row)? })
}

fn group(row: &Row<'_>) -> rusqlite::Result<InspectedGroup> {
    let count = |column| row.get(column).map(from_stored);
    let state = match row.get::<_, Option<i64>>(12)? {
        Some(_) => Some(rows::decoded(row, 12, TriggerState::from_code)?),
        None => None,
    };
    let held =
        HeldEvents { count: count(13)?, bytes: count(14)?, last: count(15)?, unknown: count(16)? };
    Ok(InspectedGroup {
        role: rows::decoded(row, 17, GroupRole::from_code)?,
        number: row.get(0)?,
        trigger: TriggerNo(row.get(1)?),
        state,
        key: rows::text(row, 2)?,
        seq: count(3)?,
        stored: windows::group_at(row, 4)?,
        claimable_at: Timestamp(row.get(9)?),
        closed: row.get(10)?,
        paused: row.get(11)?,
        held,
    })
}

fn apply(write: &Write<'_>, repair: &TriggerRepair) -> rusqlite::Result<bool> {
    let (tx, trigger) = (&write.tx, repair.at.trigger);
    if !load(tx, trigger)?.is_some_and(|stored| repair.is_of(&stored)) {
        return Ok(false);
    }
    run(tx, queries::GROUPS_EMPTY, [trigger.0])?;
    let paused = repair.derived.row.state != TriggerState::Active;
    run(tx, queries::GROUPS_DERIVE, params![trigger.0, paused])?;
    save(write, &repair.derived)?;
    run(tx, queries::TRIGGER_ROSTER_DERIVE, [])?;
    Ok(true)
}
