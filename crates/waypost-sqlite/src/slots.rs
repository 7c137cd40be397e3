//! The lines of concurrency keys. One writer at a time means that tickets are given in the order of
//! commits, and that whoever comes or goes promotes in the same transaction: nothing is ever left to
//! be swept up.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, params};
use waypost_core::frame::FrameHeader;
use waypost_core::id::ExecutionId;
use waypost_ports::audit::{DerivedSlot, Line};
use waypost_ports::store::{Slot, SlotPolicy, SlotRequest, cancel_message};

use crate::connection::from_stored;
use crate::store::Write;
use crate::{mail, queries};

/// How many hold the slots of its key, where an execution must not begin to wait for that.
pub(crate) fn rejects(
    write: &Write<'_>,
    execution: ExecutionId,
    request: &SlotRequest,
) -> rusqlite::Result<Option<u64>> {
    if request.policy != SlotPolicy::Reject || find(&write.tx, execution)?.is_some() {
        return Ok(None);
    }
    let mut crowd = write.tx.prepare_cached(queries::SLOT_CROWD)?;
    let (holding, waiting): (u64, bool) =
        crowd.query_row([&*request.key], |row| Ok((from_stored(row.get(0)?), row.get(1)?)))?;
    let room = holding < u64::from(request.limit) && !waiting;
    Ok((!room).then_some(holding))
}

/// An execution goes to the end of the line, or back to its place in it.
pub(crate) fn stand_in_line(
    write: &Write<'_>,
    header: &FrameHeader,
    request: &SlotRequest,
) -> rusqlite::Result<()> {
    let execution = header.execution;
    if let Some(slot) = find(&write.tx, execution)? {
        // It may have come to hold a slot while somebody owned it.
        return if slot.holding { admit(write, execution) } else { Ok(()) };
    }
    insert(write, execution, request, false)?;
    promote(write, &request.key)?;
    if request.policy == SlotPolicy::CancelOldest
        && !find(&write.tx, execution)?.is_some_and(|slot| slot.holding)
    {
        cancel_oldest(write, header, request)?;
    }
    Ok(())
}

fn cancel_oldest(
    write: &Write<'_>,
    newcomer: &FrameHeader,
    request: &SlotRequest,
) -> rusqlite::Result<()> {
    let mut oldest = write.tx.prepare_cached(queries::SLOT_OLDEST)?;
    let found = oldest.query_row(params![&*request.key, newcomer.execution.0], |row| {
        Ok((ExecutionId(row.get(0)?), from_stored(row.get(1)?)))
    });
    if let Some((oldest, candidates)) = found.optional()?
        && candidates >= u64::from(request.limit)
    {
        write.tx.prepare_cached(queries::SLOT_SUPERSEDE)?.execute([oldest.0])?;
        mail::deliver(write, &[cancel_message(newcomer, &request.key, oldest)])?;
    }
    Ok(())
}

/// An execution ended: its place is free.
pub(crate) fn release(write: &Write<'_>, execution: ExecutionId) -> rusqlite::Result<()> {
    let mut release = write.tx.prepare_cached(queries::SLOT_RELEASE)?;
    let key: Option<String> = release.query_row([execution.0], |row| row.get(0)).optional()?;
    match key {
        Some(key) => promote(write, &key),
        None => Ok(()),
    }
}

/// Gives the free slots of a key to who waits for them.
fn promote(write: &Write<'_>, key: &str) -> rusqlite::Result<()> {
    let mut next = write.tx.prepare_cached(queries::SLOT_NEXT)?;
    loop {
        let first = next.query_row([key], |row| {
            let (limit, holding): (u32, i64) = (row.get(1)?, row.get(2)?);
            Ok((ExecutionId(row.get(0)?), i64::from(limit) > holding))
        });
        let Some((execution, true)) = first.optional()? else { return Ok(()) };
        write.tx.prepare_cached(queries::SLOT_GIVE)?.execute([execution.0])?;
        admit(write, execution)?;
    }
}

/// The same for every key.
pub(crate) fn promote_all(write: &Write<'_>) -> rusqlite::Result<()> {
    let mut keys = write.tx.prepare_cached(queries::SLOT_KEYS)?;
    let keys = keys.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
    keys.iter().try_for_each(|key| promote(write, key))
}

/// Whoever holds a slot has something to do.
fn admit(write: &Write<'_>, execution: ExecutionId) -> rusqlite::Result<()> {
    write.tx.prepare_cached(queries::CONTROL_ADMIT)?.execute([execution.0])?;
    Ok(())
}

fn insert(
    write: &Write<'_>,
    execution: ExecutionId,
    request: &SlotRequest,
    holding: bool,
) -> rusqlite::Result<()> {
    let policy = match request.policy {
        SlotPolicy::Queue => "queue",
        SlotPolicy::Reject => "reject",
        SlotPolicy::CancelOldest => "cancel-oldest",
    };
    let mut insert = write.tx.prepare_cached(queries::SLOT_INSERT)?;
    insert.execute(params![execution.0, &*request.key, request.limit, policy, holding])?;
    Ok(())
}

/// Where an execution stands.
pub(crate) fn find(
    connection: &Connection,
    execution: ExecutionId,
) -> rusqlite::Result<Option<Slot>> {
    let mut load = connection.prepare_cached(queries::SLOT_LOAD)?;
    let slot = load.query_row([execution.0], |row| read(row, 0)).optional()?;
    Ok(slot.flatten())
}

/// A place in three columns; NULL where there is none.
pub(crate) fn read(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Slot>> {
    let Some(key) = row.get::<_, Option<String>>(column)? else { return Ok(None) };
    let (holding, before) = (row.get(column + 1)?, from_stored(row.get(column + 2)?));
    Ok(Some(Slot { key: key.into(), holding, before }))
}

/// The line of every key.
pub(crate) fn lines(connection: &Connection) -> rusqlite::Result<Vec<Line>> {
    let mut lines = connection.prepare_cached(queries::SLOT_LINES)?;
    let rows = lines.query_map([], |row| {
        let first: Option<i64> = row.get(4)?;
        let limit: Option<u32> = row.get(5)?;
        Ok(Line {
            key: Arc::from(row.get::<_, String>(0)?),
            holding: from_stored(row.get(1)?),
            limit_max: row.get(2)?,
            last_holding: row.get::<_, Option<i64>>(3)?.map(ExecutionId),
            first_waiting: first.map(ExecutionId).zip(limit),
        })
    })?;
    rows.collect()
}

/// Makes the place of an execution what its log says, and gives away what comes free by that.
pub(crate) fn mend(
    write: &Write<'_>,
    execution: ExecutionId,
    derived: Option<&DerivedSlot>,
) -> rusqlite::Result<()> {
    let found = find(&write.tx, execution)?;
    let keeps = found.as_ref().zip(derived).is_some_and(|(slot, of)| slot.key == of.request.key);
    if !keeps {
        release(write, execution)?;
    }
    let Some(DerivedSlot { request, admitted }) = derived else { return Ok(()) };
    if !keeps {
        insert(write, execution, request, *admitted)?;
    } else if *admitted {
        write.tx.prepare_cached(queries::SLOT_GIVE)?.execute([execution.0])?;
    } else if found.is_some_and(|slot| slot.holding) {
        admit(write, execution)?;
    }
    promote(write, &request.key)
}
