//! What a checker asks of triggers, and its repairs.

use tokio_postgres::Row;
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

use super::{rows, store_time, stored_at, windows};
use crate::connection::{Connection, Params, Role};
use crate::error::Result;
use crate::queries::sql;
use crate::store::PostgresStore;
use crate::text::{count, get, limit as most, text, text_or_none, time, to_stored};

impl InspectTriggers for PostgresStore {
    fn stored_triggers(
        &self,
        after: Option<TriggerNo>,
        limit: usize,
    ) -> Result<InspectedTriggers, StoreError> {
        self.run(Role::Api, async |db| {
            let after = after.map_or(i64::MIN, |after| after.0);
            let read = |row: &Row| {
                let claimable_at = time(row, rows::COLUMNS)?;
                Ok(InspectedTrigger { stored: rows::stored(row)?, claimable_at })
            };
            let params: Params<'_> = &[&after, &most(limit)];
            let rows = db.query_map(sql!("triggers_inspect"), params, read).await?;
            // After the rows: none of them is from a later time.
            let at = store_time(db).await?;
            Ok(InspectedTriggers { rows, at })
        })
    }

    fn fires_of(&self, executions: &[ExecutionNo]) -> Result<Vec<NamedFire>, StoreError> {
        let numbers: Vec<i64> = executions.iter().map(|execution| execution.0).collect();
        self.run(Role::Api, async |db| {
            db.query_map(sql!("fires_of"), &[&numbers], named_fire).await
        })
    }

    fn stored_groups(
        &self,
        after: Option<i64>,
        limit: usize,
    ) -> Result<InspectedGroups, StoreError> {
        self.run(Role::Api, async |db| {
            let params: Params<'_> = &[&after.unwrap_or(i64::MIN), &most(limit)];
            let groups = db.query_map(sql!("groups_inspect"), params, group).await?;
            let at = store_time(db).await?;
            Ok(InspectedGroups { groups, at })
        })
    }

    fn trigger_strays(&self) -> Result<Vec<TriggerStray>, StoreError> {
        self.run(Role::Api, async |db| {
            let (kept, gone) = (to_stored(ITEM_KEPT.0)?, WINDOW_GONE.as_bytes());
            let params: Params<'_> = &[&kept, &most(TRIGGER_STRAYS_MAX), &gone];
            let read = |row: &Row| {
                Ok(TriggerStray {
                    kind: rows::decoded(row, 0, TriggerStrayKind::from_code)?,
                    trigger: get::<Option<i64>>(row, 1)?.map(TriggerNo),
                    label: text(row, 2)?,
                })
            };
            db.query_map(sql!("trigger_strays"), params, read).await
        })
    }

    fn repair_trigger(&self, repair: &TriggerRepair) -> Result<bool, StoreError> {
        self.run(Role::Api, async |db| apply(db, repair).await)
    }
}

fn named_fire(row: &Row) -> Result<NamedFire> {
    let names = match text_or_none(row, 9)? {
        Some(workflow) => Some((workflow, text(row, 10)?)),
        None => None,
    };
    let (execution, trigger) = (ExecutionNo(get(row, 7)?), TriggerNo(get(row, 8)?));
    Ok(NamedFire { execution, trigger, names, fire: rows::fire(row)? })
}

fn group(row: &Row) -> Result<InspectedGroup> {
    let state = match get::<Option<i16>>(row, 12)? {
        Some(_) => Some(rows::decoded(row, 12, TriggerState::from_code)?),
        None => None,
    };
    let held = HeldEvents {
        count: count(row, 13)?,
        bytes: count(row, 14)?,
        last: count(row, 15)?,
        unknown: count(row, 16)?,
    };
    Ok(InspectedGroup {
        role: rows::decoded(row, 17, GroupRole::from_code)?,
        number: get(row, 0)?,
        trigger: TriggerNo(get(row, 1)?),
        state,
        key: text(row, 2)?,
        seq: count(row, 3)?,
        stored: windows::group_at(row, 4)?,
        claimable_at: Timestamp(get(row, 9)?),
        closed: get(row, 10)?,
        paused: get(row, 11)?,
        held,
    })
}

async fn apply(db: &mut Connection, repair: &TriggerRepair) -> Result<bool> {
    let trigger = repair.at.trigger.0;
    db.begin().await?;
    let found = db.query_opt(sql!("trigger_stop"), &[&trigger], stored_at).await?;
    if !found.is_some_and(|(stored, _)| repair.is_of(&stored)) {
        db.roll_back().await?;
        return Ok(false);
    }
    db.execute(sql!("groups_empty"), &[&trigger]).await?;
    let paused = repair.derived.row.state != TriggerState::Active;
    db.execute(sql!("groups_derive"), &[&trigger, &paused]).await?;
    rows::save(db, &repair.derived).await?;
    db.execute(sql!("trigger_roster_derive"), &[]).await?;
    db.commit().await?;
    Ok(true)
}
