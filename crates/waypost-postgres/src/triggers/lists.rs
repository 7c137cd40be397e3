//! Lists of triggers, fires and dead letters; counts; what is no longer kept.

use tokio_postgres::Row;
use waypost_core::id::ExecutionNo;
use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::TriggerKindName;
use waypost_ports::triggers::rules::{StoredTrigger, has_topic};
use waypost_ports::triggers::{
    DEAD_FIRE_KEPT, DeadFireRow, DeadFireState, DeadFiresRequest, FireOutcome, FiresPage,
    FiresRequest, ITEM_KEPT, TRIM_MAX, TriggerNo, TriggerRow, TriggerState, TriggerStats,
    TriggersPage, TriggersRequest,
};

use super::{rows, store_time};
use crate::connection::{Connection, Params};
use crate::error::Result;
use crate::queries::sql;
use crate::text::{count, get, limit as most, limit_and_one, time, to_stored};

/// Rows that are looked at together.
const PAGE: i64 = 100;

pub(super) async fn triggers(
    db: &mut Connection,
    request: &TriggersRequest,
) -> Result<TriggersPage> {
    let TriggersRequest { workflow, kind, state, topic, after, limit } = request;
    let at = store_time(db).await?;
    let mut after = after.clone().unwrap_or_else(|| ("".into(), "".into()));
    let mut found: Vec<TriggerRow> = Vec::new();
    let asked = limit_and_one(*limit).max(PAGE);
    let workflow = workflow.as_ref().map(|name| name.as_bytes());
    let kind = kind.map(|kind: TriggerKindName| i16::from(kind.code()));
    let state = state.map(|state: TriggerState| i16::from(state.code()));
    loop {
        let params: Params<'_> =
            &[&after.0.as_bytes(), &after.1.as_bytes(), &workflow, &kind, &state, &asked];
        let read: Vec<StoredTrigger> =
            db.query_map(sql!("triggers_list"), params, rows::stored).await?;
        let is_last = most(read.len()) < asked;
        if let Some(last) = read.last() {
            after = (last.row.workflow.clone(), last.row.name.clone());
        }
        let rows = read.into_iter().map(|stored| stored.row);
        found.extend(
            rows.filter(|row| topic.as_ref().is_none_or(|topic| has_topic(&row.topics, topic))),
        );
        let more = found.len() > *limit;
        if more || is_last {
            found.truncate(*limit);
            return Ok(TriggersPage { rows: found, more, at });
        }
    }
}

pub(super) async fn fires(db: &mut Connection, request: &FiresRequest) -> Result<FiresPage> {
    let FiresRequest { trigger, outcome, before, limit } = *request;
    let outcome = outcome.map(|outcome: FireOutcome| i16::from(outcome.code()));
    let before = before.unwrap_or(i64::MAX);
    let params: Params<'_> = &[&trigger.0, &before, &outcome, &limit_and_one(limit)];
    let mut rows: Vec<_> = db.query_map(sql!("fires_list"), params, rows::fire).await?;
    let more = rows.len() > limit;
    rows.truncate(limit);
    Ok(FiresPage { rows, more })
}

/// Fires whose executions have ended are marked, so that they are not looked at again.
pub(super) async fn open(
    db: &mut Connection,
    trigger: TriggerNo,
    limit: usize,
) -> Result<Vec<ExecutionNo>> {
    let (mut open, mut ended, mut after) = (Vec::new(), Vec::new(), i64::MIN);
    let read = |row: &Row| Ok((get(row, 0)?, get(row, 1)?, get(row, 2)?));
    while open.len() < limit {
        let params: Params<'_> = &[&trigger.0, &after, &PAGE];
        let fires: Vec<(i64, i64, bool)> = db.query_map(sql!("fires_open"), params, read).await?;
        let Some((last, ..)) = fires.last() else { break };
        after = *last;
        for (place, execution, is_open) in fires {
            match is_open {
                true => open.push(ExecutionNo(execution)),
                false => ended.push(place),
            }
        }
    }
    if !ended.is_empty() {
        db.execute(sql!("fires_close"), &[&trigger.0, &ended]).await?;
    }
    open.truncate(limit);
    Ok(open)
}

pub(super) async fn dead_fires(
    db: &mut Connection,
    request: &DeadFiresRequest,
) -> Result<Vec<DeadFireRow>> {
    let DeadFiresRequest { trigger, state, id, before, limit } = *request;
    let before = before.unwrap_or(i64::MAX);
    let trigger = trigger.map(|trigger| trigger.0);
    let state = state.map(|state: DeadFireState| i16::from(state.code()));
    let params: Params<'_> = &[&before, &trigger, &state, &id, &most(limit)];
    db.query_map(sql!("dead_fires_list"), params, rows::dead_fire).await
}

pub(super) async fn trim(db: &mut Connection) -> Result<u64> {
    let (items, letters) = (to_stored(ITEM_KEPT.0)?, to_stored(DEAD_FIRE_KEPT.0)?);
    let params: Params<'_> = &[&items, &letters, &most(TRIM_MAX)];
    count(&db.query_one(sql!("triggers_trim"), params).await?, 0)
}

pub(super) async fn stats(db: &mut Connection) -> Result<TriggerStats> {
    let mut stats = TriggerStats::default();
    for row in db.query(sql!("trigger_stats"), &[]).await? {
        let kind = rows::decoded(&row, 0, TriggerKindName::from_code)?;
        let state = rows::decoded(&row, 1, TriggerState::from_code)?;
        let now = Timestamp(get(&row, 7)?);
        stats.triggers.push((kind, state, count(&row, 2)?));
        stats.failing += count(&row, 3)?;
        let overdue = time(&row, 4)?.map_or(Millis(0), |due| now.since(due));
        stats.overdue = stats.overdue.max(overdue);
        (stats.dead, stats.groups) = (count(&row, 5)?, count(&row, 6)?);
    }
    Ok(stats)
}
