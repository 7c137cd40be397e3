//! Rows of the outbox, read.

use std::sync::Arc;

use rusqlite::Row;
use rusqlite::types::Type;
use waypost_core::id::ExecutionNo;
use waypost_core::outbox::delivery::EndpointHealth;
use waypost_core::outbox::{MessageKind, MessageKinds};
use waypost_core::time::{Millis, Timestamp};
use waypost_ports::outbox::{
    AwaitedResult, EndpointRow, EndpointState, LastAttempt, MessageName, MessageRow, MessageState,
    NewEndpoint, OutboxMessage, OutboxStats, SigningSecret,
};

use crate::connection::from_stored;

/// An endpoint that messages wait for.
pub(super) struct Ready {
    pub(super) number: i64,
    pub(super) id: Arc<str>,
    pub(super) health: EndpointHealth,
    pub(super) under_way: usize,
}

/// A message that is due.
pub(super) struct Candidate {
    pub(super) place: i64,
    pub(super) message: OutboxMessage,
    pub(super) due: Timestamp,
    /// When the earlier message is due that it waits for.
    pub(super) behind: Option<Timestamp>,
}

/// A value of a small set, by its code.
fn decoded<T>(row: &Row<'_>, column: usize, from: fn(u8) -> Option<T>) -> rusqlite::Result<T> {
    let code = row.get(column)?;
    from(code).ok_or_else(|| {
        let unknown = format!("there is no code {code}").into();
        rusqlite::Error::FromSqlConversionFailure(column, Type::Integer, unknown)
    })
}

fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<Arc<str>> {
    Ok(row.get_ref(column)?.as_str()?.into())
}

fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp))
}

/// Failures, the time of the next probe, and whether one is under way, from this column on.
fn health(row: &Row<'_>, from: usize) -> rusqlite::Result<EndpointHealth> {
    let (failures, probing) = (row.get(from)?, row.get(from + 2)?);
    Ok(EndpointHealth { failures, probe_at: time(row, from + 1)?, probing })
}

pub(super) fn numbered_health(row: &Row<'_>) -> rusqlite::Result<(i64, EndpointHealth)> {
    Ok((row.get(0)?, health(row, 1)?))
}

pub(super) fn ready(row: &Row<'_>) -> rusqlite::Result<Ready> {
    let under_way = usize::try_from(row.get::<_, i64>(5)?).unwrap_or(usize::MAX);
    Ok(Ready { number: row.get(0)?, health: health(row, 1)?, id: text(row, 4)?, under_way })
}

pub(super) fn endpoint(row: &Row<'_>) -> rusqlite::Result<EndpointRow> {
    let endpoint = NewEndpoint {
        id: text(row, 0)?,
        url: text(row, 1)?,
        description: text(row, 2)?,
        workflow: row.get_ref(3)?.as_str_or_null()?.map(Into::into),
        kinds: MessageKinds::from_bits(row.get(4)?),
        with_output: row.get(5)?,
        with_links: row.get(14)?,
        secret: SigningSecret(row.get(6)?),
    };
    let former = row.get::<_, Option<Vec<u8>>>(7)?.map(SigningSecret).zip(time(row, 8)?);
    Ok(EndpointRow {
        endpoint,
        state: decoded(row, 9, EndpointState::from_code)?,
        health: health(row, 10)?,
        former,
        created_at: Timestamp(row.get(13)?),
    })
}

/// Execution, seq, mark, kind, time, frame and data, from this column on.
fn message(row: &Row<'_>, endpoint: Arc<str>, from: usize) -> rusqlite::Result<OutboxMessage> {
    let name = MessageName {
        endpoint,
        execution: ExecutionNo(row.get(from)?),
        seq: from_stored(row.get(from + 1)?),
        mark: row.get(from + 2)?,
    };
    Ok(OutboxMessage {
        name,
        kind: decoded(row, from + 3, MessageKind::from_code)?,
        at: Timestamp(row.get(from + 4)?),
        frame_seq: from_stored(row.get(from + 5)?),
        data: row.get(from + 6)?,
    })
}

pub(super) fn candidate(row: &Row<'_>, endpoint: &Arc<str>) -> rusqlite::Result<Candidate> {
    let message = message(row, Arc::clone(endpoint), 1)?;
    let due = Timestamp(row.get(9)?);
    Ok(Candidate { place: row.get(0)?, message, due, behind: time(row, 8)? })
}

/// A message that a node waits for, and that is settled.
pub(super) fn awaited(row: &Row<'_>) -> rusqlite::Result<AwaitedResult> {
    Ok(AwaitedResult {
        execution: ExecutionNo(row.get(0)?),
        seq: from_stored(row.get(1)?),
        mark: row.get(2)?,
        delivered: from_stored(row.get(3)?),
        failed: from_stored(row.get(4)?),
    })
}

pub(super) fn message_row(row: &Row<'_>) -> rusqlite::Result<MessageRow> {
    let took: Option<i64> = row.get(13)?;
    let last = match took {
        None => None,
        Some(took) => Some(LastAttempt {
            status: row.get(12)?,
            took: Millis(from_stored(took)),
            reason: row.get_ref(14)?.as_str_or_null()?.map(Into::into),
        }),
    };
    Ok(MessageRow {
        place: from_stored(row.get(0)?),
        message: message(row, text(row, 1)?, 2)?,
        state: decoded(row, 9, MessageState::from_code)?,
        attempts: row.get(10)?,
        due: Timestamp(row.get(11)?),
        last,
        settled_at: time(row, 15)?,
    })
}

pub(super) fn stats(row: &Row<'_>, at: Timestamp) -> rusqlite::Result<OutboxStats> {
    let count = |column| Ok::<u64, rusqlite::Error>(from_stored(row.get(column)?));
    Ok(OutboxStats {
        pending: count(0)?,
        dead: count(1)?,
        oldest: time(row, 2)?,
        active: count(3)?,
        cooling: count(4)?,
        paused: count(5)?,
        disabled: count(6)?,
        at,
    })
}
