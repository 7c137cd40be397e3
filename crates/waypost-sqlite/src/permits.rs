//! The queues of concurrency keys. SQLite has one writer at a time: tickets are assigned in the order of
//! commits, and every frame that joins or leaves a queue promotes the next execution in the same
//! transaction. Nothing is left to sweep.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, params};
use waypost_core::frame::FrameHeader;
use waypost_core::id::ExecutionNo;
use waypost_ports::inspect::{DerivedPermit, PermitQueue};
use waypost_ports::store::{Permit, PermitPolicy, PermitRequest, cancel_message};

use crate::connection::from_stored;
use crate::store::Write;
use crate::{mail, queries};

/// How many hold the permits of its key, where an execution must not begin to wait for that.
pub(crate) fn rejects(
    write: &Write<'_>,
    execution: ExecutionNo,
    request: &PermitRequest,
) -> rusqlite::Result<Option<u64>> {
    if request.policy != PermitPolicy::Reject || find(&write.tx, execution)?.is_some() {
        return Ok(None);
    }
    let mut crowd = write.tx.prepare_cached(queries::PERMIT_CROWD)?;
    let (holding, waiting): (u64, bool) =
        crowd.query_row([&*request.key], |row| Ok((from_stored(row.get(0)?), row.get(1)?)))?;
    let room = holding < u64::from(request.limit) && !waiting;
    Ok((!room).then_some(holding))
}

/// An execution goes to the end of the queue, or back to its place in it.
pub(crate) fn queue_up(
    write: &Write<'_>,
    header: &FrameHeader,
    request: &PermitRequest,
) -> rusqlite::Result<()> {
    let execution = header.execution;
    if let Some(permit) = find(&write.tx, execution)? {
        // It may have come to hold a permit while somebody owned it.
        return if permit.holding { admit(write, execution) } else { Ok(()) };
    }
    insert(write, execution, request, false)?;
    promote(write, &request.key)?;
    if request.policy == PermitPolicy::CancelOldest
        && !find(&write.tx, execution)?.is_some_and(|permit| permit.holding)
    {
        cancel_oldest(write, header, request)?;
    }
    Ok(())
}

fn cancel_oldest(
    write: &Write<'_>,
    newcomer: &FrameHeader,
    request: &PermitRequest,
) -> rusqlite::Result<()> {
    let mut oldest = write.tx.prepare_cached(queries::PERMIT_OLDEST)?;
    let found = oldest.query_row(params![&*request.key, newcomer.execution.0], |row| {
        Ok((ExecutionNo(row.get(0)?), from_stored(row.get(1)?)))
    });
    if let Some((oldest, candidates)) = found.optional()?
        && candidates >= u64::from(request.limit)
    {
        write.tx.prepare_cached(queries::PERMIT_SUPERSEDE)?.execute([oldest.0])?;
        mail::deliver(write, &[cancel_message(newcomer, &request.key, oldest)])?;
    }
    Ok(())
}

/// An execution ended: its place is free.
pub(crate) fn release(write: &Write<'_>, execution: ExecutionNo) -> rusqlite::Result<()> {
    let mut release = write.tx.prepare_cached(queries::PERMIT_RELEASE)?;
    let key: Option<String> = release.query_row([execution.0], |row| row.get(0)).optional()?;
    match key {
        Some(key) => promote(write, &key),
        None => Ok(()),
    }
}

/// Gives the free permits of a key to who waits for them.
fn promote(write: &Write<'_>, key: &str) -> rusqlite::Result<()> {
    let mut next = write.tx.prepare_cached(queries::PERMIT_NEXT)?;
    loop {
        let first = next.query_row([key], |row| {
            let (limit, holding): (u32, i64) = (row.get(1)?, row.get(2)?);
            Ok((ExecutionNo(row.get(0)?), i64::from(limit) > holding))
        });
        let Some((execution, true)) = first.optional()? else { return Ok(()) };
        write.tx.prepare_cached(queries::PERMIT_GIVE)?.execute([execution.0])?;
        admit(write, execution)?;
    }
}

/// The same for every key.
pub(crate) fn promote_all(write: &Write<'_>) -> rusqlite::Result<()> {
    let mut keys = write.tx.prepare_cached(queries::PERMIT_KEYS)?;
    let keys = keys.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
    keys.iter().try_for_each(|key| promote(write, key))
}

/// Whoever holds a permit has something to do.
fn admit(write: &Write<'_>, execution: ExecutionNo) -> rusqlite::Result<()> {
    write.tx.prepare_cached(queries::CONTROL_ADMIT)?.execute([execution.0])?;
    Ok(())
}

fn insert(
    write: &Write<'_>,
    execution: ExecutionNo,
    request: &PermitRequest,
    holding: bool,
) -> rusqlite::Result<()> {
    let policy = match request.policy {
        PermitPolicy::Queue => "queue",
        PermitPolicy::Reject => "reject",
        PermitPolicy::CancelOldest => "cancel-oldest",
    };
    let mut insert = write.tx.prepare_cached(queries::PERMIT_INSERT)?;
    insert.execute(params![execution.0, &*request.key, request.limit, policy, holding])?;
    Ok(())
}

/// Where an execution stands.
pub(crate) fn find(
    connection: &Connection,
    execution: ExecutionNo,
) -> rusqlite::Result<Option<Permit>> {
    let mut load = connection.prepare_cached(queries::PERMIT_LOAD)?;
    let permit = load.query_row([execution.0], |row| read(row, 0)).optional()?;
    Ok(permit.flatten())
}

/// A place in three columns; NULL where there is none.
pub(crate) fn read(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Permit>> {
    let Some(key) = row.get::<_, Option<String>>(column)? else { return Ok(None) };
    let (holding, before) = (row.get(column + 1)?, from_stored(row.get(column + 2)?));
    Ok(Some(Permit { key: key.into(), holding, before }))
}

/// The line of every key.
pub(crate) fn permit_queues(connection: &Connection) -> rusqlite::Result<Vec<PermitQueue>> {
    let mut permit_queues = connection.prepare_cached(queries::PERMIT_QUEUES)?;
    let rows = permit_queues.query_map([], |row| {
        let first: Option<i64> = row.get(4)?;
        let limit: Option<u32> = row.get(5)?;
        Ok(PermitQueue {
            key: Arc::from(row.get::<_, String>(0)?),
            holding: from_stored(row.get(1)?),
            limit_max: row.get(2)?,
            last_holding: row.get::<_, Option<i64>>(3)?.map(ExecutionNo),
            first_waiting: first.map(ExecutionNo).zip(limit),
        })
    })?;
    rows.collect()
}

/// Makes the place of an execution what its log says, and gives away what comes free by that.
pub(crate) fn mend(
    write: &Write<'_>,
    execution: ExecutionNo,
    derived: Option<&DerivedPermit>,
) -> rusqlite::Result<()> {
    let found = find(&write.tx, execution)?;
    let keeps =
        found.as_ref().zip(derived).is_some_and(|(permit, of)| permit.key == of.request.key);
    if !keeps {
        release(write, execution)?;
    }
    let Some(DerivedPermit { request, admitted }) = derived else { return Ok(()) };
    if !keeps {
        insert(write, execution, request, *admitted)?;
    } else if *admitted {
        write.tx.prepare_cached(queries::PERMIT_GIVE)?.execute([execution.0])?;
    } else if found.is_some_and(|permit| permit.holding) {
        admit(write, execution)?;
    }
    promote(write, &request.key)
}
