//! Lists of triggers, fires and dead letters; counts; what is no longer kept.

use rusqlite::{Connection, params};
use waypost_core::id::ExecutionNo;
use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::TriggerKindName;
use waypost_ports::triggers::rules::has_topic;
use waypost_ports::triggers::{
    DEAD_FIRE_KEPT, DeadFireRow, DeadFiresRequest, FireOutcome, FiresPage, FiresRequest, ITEM_KEPT,
    TRIM_MAX, TriggerNo, TriggerRow, TriggerState, TriggerStats, TriggersPage, TriggersRequest,
};

use super::rows;
use crate::connection::{all, from_stored, limit_and_one, run};
use crate::queries;
use crate::store::Write;

/// Fires that are looked at together.
const PAGE: i64 = 100;

pub(super) fn triggers(
    db: &Connection,
    request: &TriggersRequest,
    at: Timestamp,
) -> rusqlite::Result<TriggersPage> {
    let TriggersRequest { workflow, kind, state, topic, after, limit } = request;
    let mut after = after.clone().unwrap_or_else(|| ("".into(), "".into()));
    let mut found: Vec<TriggerRow> = Vec::new();
    let asked = limit_and_one(*limit).max(PAGE);
    loop {
        let page = params![
            &*after.0,
            &*after.1,
            workflow.as_deref(),
            kind.map(TriggerKindName::code),
            state.map(TriggerState::code),
            asked
        ];
        let read = all(db, queries::TRIGGERS_LIST, page, rows::stored)?;
        let is_last = i64::try_from(read.len()).unwrap_or(i64::MAX) < asked;
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

pub(super) fn fires(db: &Connection, request: &FiresRequest) -> rusqlite::Result<FiresPage> {
    let FiresRequest { trigger, outcome, before, limit } = *request;
    let page = params![
        trigger.0,
        before.unwrap_or(i64::MAX),
        outcome.map(FireOutcome::code),
        limit_and_one(limit)
    ];
    let mut rows = all(db, queries::FIRES_LIST, page, rows::fire)?;
    let more = rows.len() > limit;
    rows.truncate(limit);
    Ok(FiresPage { rows, more })
}

/// Executions of a trigger.
#[derive(Default)]
pub(super) struct OpenFound {
    pub(super) open: Vec<ExecutionNo>,
    /// Places of fires whose executions have ended since this was asked last.
    pub(super) ended: Vec<i64>,
}

pub(super) fn open(
    db: &Connection,
    trigger: TriggerNo,
    limit: usize,
) -> rusqlite::Result<OpenFound> {
    let (mut found, mut after) = (OpenFound::default(), i64::MIN);
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    while found.open.len() < limit {
        let page = params![trigger.0, after, PAGE];
        let fires: Vec<(i64, i64, bool)> = all(db, queries::FIRES_OPEN, page, read)?;
        let Some((last, ..)) = fires.last() else { break };
        after = *last;
        for (place, execution, is_open) in fires {
            match is_open {
                true => found.open.push(ExecutionNo(execution)),
                false => found.ended.push(place),
            }
        }
    }
    found.open.truncate(limit);
    Ok(found)
}

pub(super) fn close(write: &Write<'_>, ended: &[i64]) -> rusqlite::Result<()> {
    let mut close = write.tx.prepare_cached(queries::FIRE_CLOSED)?;
    ended.iter().try_for_each(|place| close.execute([place]).map(drop))
}

pub(super) fn dead_fires(
    db: &Connection,
    request: &DeadFiresRequest,
) -> rusqlite::Result<Vec<DeadFireRow>> {
    let DeadFiresRequest { trigger, state, id, before, limit } = *request;
    let page = params![
        before.unwrap_or(i64::MAX),
        trigger.map(|trigger| trigger.0),
        state.map(waypost_ports::triggers::DeadFireState::code),
        id,
        i64::try_from(limit).unwrap_or(i64::MAX)
    ];
    all(db, queries::DEAD_FIRES_LIST, page, rows::dead_fire)
}

pub(super) fn trim(write: &Write<'_>) -> rusqlite::Result<u64> {
    let limit = i64::try_from(TRIM_MAX).unwrap_or(i64::MAX);
    let mut deleted = 0;
    for (sql, kept) in
        [(queries::FIRES_TRIM, ITEM_KEPT), (queries::DEAD_FIRES_TRIM, DEAD_FIRE_KEPT)]
    {
        deleted += run(&write.tx, sql, [write.now.minus(kept).0, limit])?;
    }
    Ok(deleted as u64)
}

pub(super) fn stats(db: &Connection, now: Timestamp) -> rusqlite::Result<TriggerStats> {
    let mut stats = TriggerStats::default();
    let read = |row: &rusqlite::Row<'_>| {
        let count = |column| row.get(column).map(from_stored);
        let kind = rows::decoded(row, 0, TriggerKindName::from_code)?;
        let state = rows::decoded(row, 1, TriggerState::from_code)?;
        stats.triggers.push((kind, state, count(2)?));
        stats.failing += count(3)?;
        let overdue = rows::time(row, 4)?.map_or(Millis(0), |due| now.since(due));
        stats.overdue = stats.overdue.max(overdue);
        (stats.dead, stats.groups) = (count(5)?, count(6)?);
        Ok(())
    };
    all(db, queries::TRIGGER_STATS, [], read)?;
    Ok(stats)
}
