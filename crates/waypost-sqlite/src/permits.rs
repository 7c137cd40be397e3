//! The queues of concurrency keys: rows for [`waypost_core::permits`], and its changes of them.
//!
//! SQLite has one writer at a time: tickets are assigned in the order of commits, and every frame that
//! joins or leaves a queue promotes the next executions in the same transaction. Nothing is left to sweep.

use std::sync::Arc;

use rusqlite::{Connection, Row, params};
use waypost_core::frame::FrameHeader;
use waypost_core::id::ExecutionNo;
use waypost_core::permits::{
    Excerpt, Occasion, PermitRequest, QueueChanges, RowChange, WAITING_MAX, WaitingRow, decide,
    rejection,
};
use waypost_ports::inspect::{DerivedPermit, PermitQueue};
use waypost_ports::store::{Permit, cancel_message};

use crate::connection::{all, first, from_stored, run, value};
use crate::store::Write;
use crate::{mail, queries};

/// How many executions hold the permits of the key, if the frame is rejected for that.
pub(crate) fn rejects(
    write: &Write<'_>,
    execution: ExecutionNo,
    request: &PermitRequest,
) -> rusqlite::Result<Option<u64>> {
    Ok(rejection(&read_for_request(write, execution, request)?, request))
}

/// A frame asks for a permit.
pub(crate) fn request(
    write: &Write<'_>,
    header: &FrameHeader,
    request: &PermitRequest,
) -> rusqlite::Result<()> {
    let excerpt = read_for_request(write, header.execution, request)?;
    let changes = decide(&excerpt, Occasion::Request(request));
    write_changes(write, header.execution, request, &changes)?;
    if let Some(superseded) = changes.superseded {
        run(&write.tx, queries::PERMIT_SUPERSEDE, [superseded.0])?;
        mail::deliver(write, &[cancel_message(header, &request.key, superseded)])?;
    }
    Ok(())
}

/// An execution ended: its row goes.
pub(crate) fn release(write: &Write<'_>, execution: ExecutionNo) -> rusqlite::Result<()> {
    match first(&write.tx, queries::PERMIT_RELEASE, [execution.0], |row| row.get::<_, String>(0))? {
        Some(key) => promote(write, &key, Occasion::Release),
        None => Ok(()),
    }
}

/// Promotes waiting rows of all keys.
pub(crate) fn promote_all(write: &Write<'_>) -> rusqlite::Result<()> {
    let keys = all(&write.tx, queries::PERMIT_KEYS, [], |row| row.get::<_, String>(0))?;
    keys.iter().try_for_each(|key| promote(write, key, Occasion::Sweep))
}

/// Makes the place of an execution what its log says.
pub(crate) fn repair(
    write: &Write<'_>,
    execution: ExecutionNo,
    derived: Option<&DerivedPermit>,
) -> rusqlite::Result<()> {
    let own = find(&write.tx, execution)?;
    let own = own.filter(|own| derived.is_some_and(|of| of.request.key == own.key));
    if own.is_none() {
        release(write, execution)?;
    }
    let Some(DerivedPermit { request, admitted }) = derived else { return Ok(()) };
    let excerpt = Excerpt { own: own.map(|own| own.holding), ..Excerpt::default() };
    let changes = decide(&excerpt, Occasion::Repair { admitted: *admitted });
    write_changes(write, execution, request, &changes)?;
    promote(write, &request.key, Occasion::Sweep)
}

fn promote(write: &Write<'_>, key: &str, mut occasion: Occasion<'_>) -> rusqlite::Result<()> {
    loop {
        let changes = decide(&read_queue(write, key)?, occasion);
        write_promoted(write, &changes.promoted)?;
        if !changes.may_promote_more() {
            return Ok(());
        }
        occasion = Occasion::Sweep;
    }
}

fn read_for_request(
    write: &Write<'_>,
    execution: ExecutionNo,
    request: &PermitRequest,
) -> rusqlite::Result<Excerpt> {
    let own = first(&write.tx, queries::PERMIT_OWN, [execution.0], |row| row.get(0))?;
    if own.is_some() {
        return Ok(Excerpt { own, ..Excerpt::default() });
    }
    let excerpt = read_queue(write, &request.key)?;
    let most = request.cancellable_max();
    if most == 0 {
        return Ok(excerpt);
    }
    let mut oldest = write.tx.prepare_cached(queries::PERMIT_OLDEST)?;
    oldest.query_row(params![&*request.key, most], |row| {
        let oldest = row.get::<_, Option<i64>>(0)?.map(ExecutionNo);
        Ok(Excerpt { oldest, cancellable: from_stored(row.get(1)?), ..excerpt })
    })
}

fn read_queue(write: &Write<'_>, key: &str) -> rusqlite::Result<Excerpt> {
    let holding = from_stored(value(&write.tx, queries::PERMIT_HOLDING, [key])?);
    let waiting = all(&write.tx, queries::PERMIT_WAITING, params![key, WAITING_MAX], |row| {
        let (ticket, execution) = (row.get(0)?, ExecutionNo(row.get(1)?));
        Ok(WaitingRow { ticket, execution, limit: row.get(2)? })
    })?;
    Ok(Excerpt { holding, waiting, ..Excerpt::default() })
}

fn write_changes(
    write: &Write<'_>,
    execution: ExecutionNo,
    request: &PermitRequest,
    changes: &QueueChanges,
) -> rusqlite::Result<()> {
    match changes.own {
        Some(RowChange::Insert { holding }) => {
            let PermitRequest { key, limit, policy } = request;
            let row = params![execution.0, &**key, limit, policy.name(), holding];
            run(&write.tx, queries::PERMIT_INSERT, row)?;
        }
        Some(RowChange::Give) => drop(run(&write.tx, queries::PERMIT_GIVE, [execution.0])?),
        None => {}
    }
    if changes.wakes {
        run(&write.tx, queries::CONTROL_ADMIT, [execution.0])?;
    }
    write_promoted(write, &changes.promoted)
}

fn write_promoted(write: &Write<'_>, promoted: &[WaitingRow]) -> rusqlite::Result<()> {
    for row in promoted {
        run(&write.tx, queries::PERMIT_GIVE, [row.execution.0])?;
        run(&write.tx, queries::CONTROL_ADMIT, [row.execution.0])?;
    }
    Ok(())
}

/// The place of an execution.
pub(crate) fn find(
    connection: &Connection,
    execution: ExecutionNo,
) -> rusqlite::Result<Option<Permit>> {
    Ok(first(connection, queries::PERMIT_LOAD, [execution.0], |row| read(row, 0))?.flatten())
}

/// A place in three columns; NULL where there is none.
pub(crate) fn read(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Permit>> {
    let Some(key) = row.get::<_, Option<String>>(column)? else { return Ok(None) };
    let (holding, before) = (row.get(column + 1)?, from_stored(row.get(column + 2)?));
    Ok(Some(Permit { key: key.into(), holding, before }))
}

/// The queues of all keys.
pub(crate) fn permit_queues(connection: &Connection) -> rusqlite::Result<Vec<PermitQueue>> {
    all(connection, queries::PERMIT_QUEUES, [], |row| {
        let waiting: Option<i64> = row.get(4)?;
        let limit: Option<u32> = row.get(5)?;
        Ok(PermitQueue {
            key: Arc::from(row.get::<_, String>(0)?),
            holding: from_stored(row.get(1)?),
            limit_max: row.get(2)?,
            last_holding: row.get::<_, Option<i64>>(3)?.map(ExecutionNo),
            first_waiting: waiting.map(ExecutionNo).zip(limit),
        })
    })
}
