//! Rows of the outbox, read and gathered.

use std::sync::Arc;

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use waypost_core::id::ExecutionNo;
use waypost_core::outbox::delivery::EndpointHealth;
use waypost_core::outbox::{MessageKind, MessageKinds};
use waypost_core::time::{Millis, Timestamp};
use waypost_ports::outbox::{
    AwaitedResult, EndpointRow, EndpointState, LastAttempt, MessageName, MessageResult, MessageRow,
    MessageState, NewEndpoint, OutboxMessage, OutboxStats, SigningSecret,
};

use crate::error::{DbError, Result};
use crate::text::{count, get, narrow, text, text_or_none, time, to_stored};

/// An endpoint that messages wait for; locked.
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
fn decoded<T>(row: &Row, column: usize, from: fn(u8) -> Option<T>) -> Result<T> {
    let code: i16 = get(row, column)?;
    let known = u8::try_from(code).ok().and_then(from);
    known.ok_or_else(|| DbError::Corrupt(format!("there is no code {code}")))
}

/// Failures, the time of the next probe, and whether one is under way, from this column on.
fn health(row: &Row, from: usize) -> Result<EndpointHealth> {
    let (failures, probing) = (narrow(row, from)?, get(row, from + 2)?);
    Ok(EndpointHealth { failures, probe_at: time(row, from + 1)?, probing })
}

pub(super) fn locked(row: &Row) -> Result<(i64, EndpointHealth, Timestamp)> {
    Ok((get(row, 0)?, health(row, 1)?, Timestamp(get(row, 4)?)))
}

pub(super) fn ready(row: &Row) -> Result<Ready> {
    let (number, under_way) = (get(row, 0)?, narrow(row, 5)?);
    Ok(Ready { number, health: health(row, 1)?, id: text(row, 4)?, under_way })
}

/// A message that a node waits for, and that is settled.
pub(super) fn awaited(row: &Row) -> Result<AwaitedResult> {
    Ok(AwaitedResult {
        execution: ExecutionNo(get(row, 0)?),
        seq: count(row, 1)?,
        mark: narrow(row, 2)?,
        delivered: count(row, 3)?,
        failed: count(row, 4)?,
    })
}

pub(super) fn endpoint(row: &Row) -> Result<EndpointRow> {
    let endpoint = NewEndpoint {
        id: text(row, 0)?,
        url: text(row, 1)?,
        description: text(row, 2)?,
        workflow: text_or_none(row, 3)?,
        kinds: MessageKinds::from_bits(narrow(row, 4)?),
        with_output: get(row, 5)?,
        with_links: get(row, 14)?,
        secret: SigningSecret(get(row, 6)?),
    };
    let former = get::<Option<Vec<u8>>>(row, 7)?.map(SigningSecret).zip(time(row, 8)?);
    Ok(EndpointRow {
        endpoint,
        state: decoded(row, 9, EndpointState::from_code)?,
        health: health(row, 10)?,
        former,
        created_at: Timestamp(get(row, 13)?),
    })
}

/// Execution, seq, mark, kind, time, frame and data, from this column on.
fn message(row: &Row, endpoint: Arc<str>, from: usize) -> Result<OutboxMessage> {
    let name = MessageName {
        endpoint,
        execution: ExecutionNo(get(row, from)?),
        seq: count(row, from + 1)?,
        mark: narrow(row, from + 2)?,
    };
    Ok(OutboxMessage {
        name,
        kind: decoded(row, from + 3, MessageKind::from_code)?,
        at: Timestamp(get(row, from + 4)?),
        frame_seq: count(row, from + 5)?,
        data: get(row, from + 6)?,
    })
}

pub(super) fn candidate(row: &Row, endpoint: &Arc<str>) -> Result<Candidate> {
    let message = message(row, Arc::clone(endpoint), 1)?;
    let due = Timestamp(get(row, 9)?);
    Ok(Candidate { place: get(row, 0)?, message, due, behind: time(row, 8)? })
}

/// Position, from 0, place and attempts.
pub(super) fn claimed(row: &Row) -> Result<(usize, i64, u32)> {
    let position: usize = narrow(row, 0)?;
    Ok((position.saturating_sub(1), get(row, 1)?, narrow(row, 2)?))
}

pub(super) fn message_row(row: &Row) -> Result<MessageRow> {
    let took: Option<i64> = get(row, 13)?;
    let last = match took {
        None => None,
        Some(took) => Some(LastAttempt {
            status: get::<Option<i32>>(row, 12)?.and_then(|status| u16::try_from(status).ok()),
            took: Millis(u64::try_from(took).unwrap_or_default()),
            reason: text_or_none(row, 14)?,
        }),
    };
    Ok(MessageRow {
        place: count(row, 0)?,
        message: message(row, text(row, 1)?, 2)?,
        state: decoded(row, 9, MessageState::from_code)?,
        attempts: narrow(row, 10)?,
        due: Timestamp(get(row, 11)?),
        last,
        settled_at: time(row, 15)?,
    })
}

pub(super) fn stats(row: &Row) -> Result<OutboxStats> {
    Ok(OutboxStats {
        pending: count(row, 0)?,
        dead: count(row, 1)?,
        oldest: time(row, 2)?,
        active: count(row, 3)?,
        cooling: count(row, 4)?,
        paused: count(row, 5)?,
        disabled: count(row, 6)?,
        at: Timestamp(get(row, 7)?),
    })
}

/// Names of messages of one endpoint, as arrays.
#[derive(Default)]
pub(super) struct Names {
    pub(super) executions: Vec<i64>,
    pub(super) seqs: Vec<i64>,
    pub(super) marks: Vec<i64>,
}

impl Names {
    pub(super) fn of<'a>(names: impl Iterator<Item = &'a MessageName>) -> Result<Self> {
        let mut arrays = Self::default();
        for name in names {
            arrays.executions.push(name.execution.0);
            arrays.seqs.push(to_stored(name.seq)?);
            arrays.marks.push(name.mark.into());
        }
        Ok(arrays)
    }
}

/// Messages and what became of them, as arrays.
#[derive(Default)]
pub(super) struct Settled<'a> {
    places: Vec<i64>,
    states: Vec<i16>,
    attempts: Vec<i64>,
    dues: Vec<Option<i64>>,
    statuses: Vec<Option<i32>>,
    took: Vec<i64>,
    reasons: Vec<Option<&'a [u8]>>,
    /// The executions of those that are pending no more.
    pub(super) done: Vec<i64>,
}

impl<'a> Settled<'a> {
    pub(super) fn push(
        &mut self,
        place: i64,
        result: &'a MessageResult,
        (state, attempts, due): (MessageState, u32, Option<Timestamp>),
    ) {
        self.places.push(place);
        self.states.push(state.code().into());
        self.attempts.push(attempts.into());
        self.dues.push(due.map(|due| due.0));
        self.statuses.push(result.result.status().map(Into::into));
        self.took.push(i64::try_from(result.took.0).unwrap_or(i64::MAX));
        self.reasons.push(result.result.reason().map(str::as_bytes));
        if state != MessageState::Pending {
            self.done.push(result.name.execution.0);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// In the order of `outbox_settle`.
    pub(super) fn params<'p>(&'p self, now: &'p i64) -> [&'p (dyn ToSql + Sync); 8] {
        let Self { places, states, attempts, dues, statuses, took, reasons, done: _ } = self;
        [places, states, attempts, dues, statuses, took, reasons, now]
    }
}
