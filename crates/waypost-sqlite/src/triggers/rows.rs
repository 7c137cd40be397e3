//! Rows of triggers, read and written.

use std::sync::Arc;

use rusqlite::types::Type;
use rusqlite::{Connection, Row, params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use waypost_core::id::{DefinitionHash, ExecutionNo};
use waypost_core::time::Timestamp;
use waypost_core::trigger::{ItemDigest, TriggerKindName};
use waypost_ports::triggers::rules::StoredTrigger;
use waypost_ports::triggers::{
    DeadFireRow, DeadFireState, FireOutcome, FireRow, TriggerNo, TriggerRow, TriggerState,
};

use crate::connection::{from_stored, run, to_stored};
use crate::queries;

/// A value of a small set, by its code.
pub(super) fn decoded<T>(
    row: &Row<'_>,
    column: usize,
    from: fn(u8) -> Option<T>,
) -> rusqlite::Result<T> {
    let code = row.get(column)?;
    from(code).ok_or_else(|| {
        let unknown = format!("there is no code {code}").into();
        rusqlite::Error::FromSqlConversionFailure(column, Type::Integer, unknown)
    })
}

pub(super) fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<Arc<str>> {
    Ok(row.get_ref(column)?.as_str()?.into())
}

pub(super) fn text_or_none(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Arc<str>>> {
    Ok(row.get_ref(column)?.as_str_or_null()?.map(Into::into))
}

pub(super) fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp))
}

fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(from_stored(row.get(column)?))
}

pub(super) fn parsed<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    serde_json::from_str(row.get_ref(column)?.as_str()?).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
    })
}

pub(super) fn written<T: Serialize>(value: &T) -> rusqlite::Result<String> {
    serde_json::to_string(value)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

pub(super) fn item(row: &Row<'_>, column: usize) -> rusqlite::Result<ItemDigest> {
    Ok(ItemDigest(row.get(column)?))
}

pub(super) fn stored(row: &Row<'_>) -> rusqlite::Result<StoredTrigger> {
    let trigger = TriggerRow {
        number: TriggerNo(row.get(0)?),
        workflow: text(row, 1)?,
        name: text(row, 2)?,
        kind: decoded(row, 3, TriggerKindName::from_code)?,
        version: row.get(4)?,
        definition: DefinitionHash(row.get(5)?),
        revision: count(row, 6)?,
        seq: count(row, 7)?,
        incarnation: row.get(8)?,
        state: decoded(row, 9, TriggerState::from_code)?,
        reason: text_or_none(row, 10)?,
        cursor: parsed(row, 11)?,
        next_due: time(row, 12)?,
        failures: row.get(13)?,
        failure: text_or_none(row, 14)?,
        topics: parsed::<Vec<String>>(row, 15)?.into_iter().map(Into::into).collect(),
        registered_at: Timestamp(row.get(16)?),
        last_fired_at: time(row, 17)?,
    };
    Ok(StoredTrigger { row: trigger, timing: row.get(18)?, by_definition: row.get(19)? })
}

fn topics(row: &TriggerRow) -> rusqlite::Result<String> {
    written(&row.topics.iter().map(|topic| &**topic).collect::<Vec<&str>>())
}

pub(super) fn insert(db: &Connection, stored: &StoredTrigger) -> rusqlite::Result<()> {
    let StoredTrigger { row, timing, by_definition } = stored;
    let values = params![
        &*row.workflow,
        &*row.name,
        row.kind.code(),
        row.version,
        row.definition.0.as_slice(),
        to_stored(row.revision)?,
        to_stored(row.seq)?,
        row.incarnation,
        row.state.code(),
        row.reason.as_deref(),
        written(&row.cursor)?,
        row.next_due.map(|at| at.0),
        row.failures,
        row.failure.as_deref(),
        topics(row)?,
        row.registered_at.0,
        row.last_fired_at.map(|at| at.0),
        timing.as_slice(),
        by_definition,
    ];
    run(db, queries::TRIGGER_INSERT, values).map(drop)
}

pub(super) fn save(db: &Connection, stored: &StoredTrigger) -> rusqlite::Result<()> {
    let StoredTrigger { row, timing, by_definition } = stored;
    let values = params![
        row.number.0,
        row.kind.code(),
        row.version,
        row.definition.0.as_slice(),
        to_stored(row.revision)?,
        to_stored(row.seq)?,
        row.incarnation,
        row.state.code(),
        row.reason.as_deref(),
        written(&row.cursor)?,
        row.next_due.map(|at| at.0),
        row.failures,
        row.failure.as_deref(),
        topics(row)?,
        row.last_fired_at.map(|at| at.0),
        timing.as_slice(),
        by_definition,
    ];
    run(db, queries::TRIGGER_SAVE, values).map(drop)
}

pub(super) fn fire(row: &Row<'_>) -> rusqlite::Result<FireRow> {
    Ok(FireRow {
        place: row.get(0)?,
        item: item(row, 1)?,
        label: text(row, 2)?,
        at: Timestamp(row.get(3)?),
        nominal: time(row, 4)?,
        outcome: decoded(row, 5, FireOutcome::from_code)?,
        reason: text_or_none(row, 6)?,
        execution: row.get::<_, Option<i64>>(7)?.map(ExecutionNo),
    })
}

pub(super) fn dead_fire(row: &Row<'_>) -> rusqlite::Result<DeadFireRow> {
    Ok(DeadFireRow {
        id: row.get(0)?,
        trigger: TriggerNo(row.get(1)?),
        item: item(row, 2)?,
        label: text(row, 3)?,
        at: Timestamp(row.get(4)?),
        reason: text(row, 5)?,
        payload: text(row, 6)?,
        state: decoded(row, 7, DeadFireState::from_code)?,
    })
}
