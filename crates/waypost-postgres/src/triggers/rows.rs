//! Rows of triggers, read and written.

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use waypost_core::id::{DefinitionHash, ExecutionNo};
use waypost_core::time::Timestamp;
use waypost_core::trigger::{ItemDigest, TriggerKindName};
use waypost_ports::triggers::rules::StoredTrigger;
use waypost_ports::triggers::{
    DeadFireRow, DeadFireState, FireOutcome, FireRow, TriggerNo, TriggerRow, TriggerState,
};

use crate::connection::{Connection, Params};
use crate::error::{DbError, Result};
use crate::queries::sql;
use crate::text::{array, count, get, narrow, text, text_or_none, time, to_stored};

/// How many columns [`stored`] reads.
pub(super) const COLUMNS: usize = 20;

/// A value of a small set, by its code.
pub(super) fn decoded<T>(row: &Row, column: usize, from: fn(u8) -> Option<T>) -> Result<T> {
    let code: i16 = get(row, column)?;
    let value = u8::try_from(code).ok().and_then(from);
    value.ok_or_else(|| DbError::Corrupt(format!("there is no code {code}")))
}

fn parsed<T: DeserializeOwned>(row: &Row, column: usize) -> Result<T> {
    let bytes: &[u8] = get(row, column)?;
    serde_json::from_slice(bytes).map_err(|error| DbError::Corrupt(error.to_string()))
}

pub(super) fn written<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| DbError::Data(error.to_string()))
}

pub(super) fn stored(row: &Row) -> Result<StoredTrigger> {
    let topics: Vec<String> = parsed(row, 15)?;
    let trigger = TriggerRow {
        number: TriggerNo(get(row, 0)?),
        workflow: text(row, 1)?,
        name: text(row, 2)?,
        kind: decoded(row, 3, TriggerKindName::from_code)?,
        version: narrow(row, 4)?,
        definition: DefinitionHash(array(row, 5)?),
        revision: count(row, 6)?,
        seq: count(row, 7)?,
        incarnation: narrow(row, 8)?,
        state: decoded(row, 9, TriggerState::from_code)?,
        reason: text_or_none(row, 10)?,
        cursor: parsed(row, 11)?,
        next_due: time(row, 12)?,
        failures: narrow(row, 13)?,
        failure: text_or_none(row, 14)?,
        topics: topics.into_iter().map(Into::into).collect(),
        registered_at: Timestamp(get(row, 16)?),
        last_fired_at: time(row, 17)?,
    };
    Ok(StoredTrigger { row: trigger, timing: array(row, 18)?, by_definition: get(row, 19)? })
}

fn topics(row: &TriggerRow) -> Result<Vec<u8>> {
    written(&row.topics.iter().map(|topic| &**topic).collect::<Vec<&str>>())
}

/// A new row, registered now; gives it its number.
pub(super) async fn insert(db: &mut Connection, stored: &mut StoredTrigger) -> Result<()> {
    let StoredTrigger { row, timing, by_definition } = stored;
    let params: Params<'_> = &[
        &row.workflow.as_bytes(),
        &row.name.as_bytes(),
        &i16::from(row.kind.code()),
        &i64::from(row.version),
        &row.definition.0.as_slice(),
        &to_stored(row.revision)?,
        &to_stored(row.seq)?,
        &i64::from(row.incarnation),
        &i16::from(row.state.code()),
        &row.reason.as_ref().map(|reason| reason.as_bytes()),
        &written(&row.cursor)?,
        &row.next_due.map(|at| at.0),
        &i64::from(row.failures),
        &row.failure.as_ref().map(|failure| failure.as_bytes()),
        &topics(row)?,
        &timing.as_slice(),
        by_definition,
    ];
    let number = get(&db.query_one(sql!("trigger_insert"), params).await?, 0)?;
    stored.row.number = TriggerNo(number);
    Ok(())
}

/// Writes a row back, and ends its claim.
pub(super) async fn save(db: &mut Connection, stored: &StoredTrigger) -> Result<()> {
    let StoredTrigger { row, timing, by_definition } = stored;
    let params: Params<'_> = &[
        &row.number.0,
        &i16::from(row.kind.code()),
        &i64::from(row.version),
        &row.definition.0.as_slice(),
        &to_stored(row.revision)?,
        &to_stored(row.seq)?,
        &i64::from(row.incarnation),
        &i16::from(row.state.code()),
        &row.reason.as_ref().map(|reason| reason.as_bytes()),
        &written(&row.cursor)?,
        &row.next_due.map(|at| at.0),
        &i64::from(row.failures),
        &row.failure.as_ref().map(|failure| failure.as_bytes()),
        &topics(row)?,
        &timing.as_slice(),
        by_definition,
    ];
    db.execute(sql!("trigger_save"), params).await.map(drop)
}

pub(super) fn fire(row: &Row) -> Result<FireRow> {
    Ok(FireRow {
        place: get(row, 0)?,
        item: ItemDigest(array(row, 1)?),
        label: text(row, 2)?,
        at: Timestamp(get(row, 3)?),
        nominal: time(row, 4)?,
        outcome: decoded(row, 5, FireOutcome::from_code)?,
        reason: text_or_none(row, 6)?,
        execution: get::<Option<i64>>(row, 7)?.map(ExecutionNo),
    })
}

pub(super) fn dead_fire(row: &Row) -> Result<DeadFireRow> {
    Ok(DeadFireRow {
        id: get(row, 0)?,
        trigger: TriggerNo(get(row, 1)?),
        item: ItemDigest(array(row, 2)?),
        label: text(row, 3)?,
        at: Timestamp(get(row, 4)?),
        reason: text(row, 5)?,
        payload: text(row, 6)?,
        state: decoded(row, 7, DeadFireState::from_code)?,
    })
}
