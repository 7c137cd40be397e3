//! For a checker: everything of every execution, and repairs of rows.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};
use waypost_core::frame::Parent;
use waypost_core::id::ExecutionNo;
use waypost_core::time::Timestamp;
use waypost_ports::inspect::{
    Chunk, ChunkRequest, DerivedRow, EXAMINED_BYTES_MAX, Examined, Inspect, Ownership, PermitQueue,
    Remedy, Repair, Shown, Standing, Stray, StrayKind,
};
use waypost_ports::store::{Control, History, StoreError, StoredFrame, Urgency};

use crate::connection::from_stored;
use crate::store::{SqliteStore, Write};
use crate::{history, permits, queries, topics};

/// How long a caller waits for the projections. They may be unable to follow: the disk may be full.
const CATCH_UP_MAX: Duration = Duration::from_secs(10);

/// Pages in memory while logs are read, in KiB: frames of concurrent executions share pages, and
/// each page is read once for each of them.
const CACHE_KIB: i64 = -64_000;

impl Inspect for SqliteStore {
    fn executions(&self, request: &ChunkRequest) -> Result<Chunk, StoreError> {
        self.readers.read(|connection| executions(connection, request))
    }

    fn examine(&self, executions: &[ExecutionNo]) -> Result<Vec<Examined>, StoreError> {
        let now = self.now();
        self.readers.read(|connection| {
            connection.pragma_update(None, "cache_size", CACHE_KIB)?;
            let mut all = Vec::with_capacity(executions.len());
            let mut bytes = 0;
            for execution in executions {
                let Some(examined) = examine(connection, *execution, now)? else { continue };
                bytes += examined.history.frames.iter().map(frame_bytes).sum::<usize>();
                all.push(examined);
                if bytes > EXAMINED_BYTES_MAX {
                    break;
                }
            }
            Ok(all)
        })
    }

    fn shown(&self, executions: &[ExecutionNo]) -> Result<Vec<Shown>, StoreError> {
        let (rows, cursor) = self.projections().shown(executions)?;
        self.readers.read(|connection| {
            let mut due = connection.prepare_cached(queries::FRAME_DUE)?;
            let shown = executions.iter().zip(rows).map(|(execution, rows)| {
                let due = due.query_row([execution.0, cursor], |row| row.get(0)).optional()?;
                Ok(Shown { execution: *execution, due: due.map_or(0, from_stored), rows })
            });
            shown.collect()
        })
    }

    fn catch_up(&self) -> Result<(), StoreError> {
        self.projections().wait(&self.readers, Some(CATCH_UP_MAX))
    }

    fn strays(&self) -> Result<Vec<Stray>, StoreError> {
        let tables = [
            (StrayKind::Control, queries::STRAY_CONTROL),
            (StrayKind::Mail, queries::STRAY_MAIL),
            (StrayKind::Snapshot, queries::STRAY_SNAPSHOT),
            (StrayKind::Permit, queries::STRAY_PERMIT),
        ];
        let mut strays = Vec::new();
        for (kind, sql) in tables {
            self.readers.read(|connection| {
                let mut select = connection.prepare_cached(sql)?;
                for number in select.query_map([], |row| row.get(0))? {
                    strays.push(Stray { execution: ExecutionNo(number?), kind });
                }
                Ok(())
            })?;
        }
        let shown = self.projections().without_log(&self.readers)?;
        let kind = StrayKind::Projection;
        strays.extend(shown.into_iter().map(|execution| Stray { execution, kind }));
        strays.sort_unstable();
        Ok(strays)
    }

    fn repair(&self, repair: &Repair) -> Result<bool, StoreError> {
        self.expect_engine("repair")?;
        self.write(|write| apply_repair(write, repair))
    }

    fn permit_queues(&self) -> Result<Vec<PermitQueue>, StoreError> {
        self.readers.read(permits::permit_queues)
    }

    fn promote(&self) -> Result<(), StoreError> {
        self.expect_engine("repair")?;
        self.write(permits::promote_all)
    }

    fn reproject(&self, executions: &[ExecutionNo]) -> Result<(), StoreError> {
        self.expect_engine("repair")?;
        self.projections().reproject(executions)
    }
}

fn frame_bytes(frame: &StoredFrame) -> usize {
    frame.body.as_ref().map_or(0, Vec::len)
}

fn executions(connection: &Connection, request: &ChunkRequest) -> rusqlite::Result<Chunk> {
    let after = request.after.map_or(i64::MIN, |after| after.0);
    let limit = i64::try_from(request.limit).unwrap_or(i64::MAX);
    let mut select = connection.prepare_cached(queries::EXECUTIONS_AFTER)?;
    let numbers = select.query_map([after, limit], |row| row.get(0))?;
    let mut executions: Vec<ExecutionNo> =
        numbers.map(|number| number.map(ExecutionNo)).collect::<Result<_, _>>()?;
    let next = executions.last().filter(|_| executions.len() == request.limit).copied();
    if let Some(Timestamp(since)) = request.since {
        let mut latest = connection.prepare_cached(queries::FRAME_LATEST)?;
        let mut moved = Vec::new();
        for execution in executions {
            let at: i64 = latest.query_row([execution.0], |row| row.get(0))?;
            if at >= since {
                moved.push(execution);
            }
        }
        executions = moved;
    }
    Ok(Chunk { executions, next })
}

fn examine(
    connection: &Connection,
    execution: ExecutionNo,
    now: Timestamp,
) -> rusqlite::Result<Option<Examined>> {
    let Some(history) = history::examine(connection, execution)? else { return Ok(None) };
    let snapshot = history::stored_snapshot(connection, execution)?;
    let mut select = connection.prepare_cached(queries::CONTROL_STANDING)?;
    let standing = select.query_row([execution.0], |row| {
        let (owner, alive_until): (Option<i64>, Option<i64>) = (row.get(0)?, row.get(1)?);
        let ownership = match (owner, alive_until) {
            (None, _) => Ownership::Unowned,
            (Some(_), None) => Ownership::Lost,
            (Some(_), Some(until)) if until > now.0 => Ownership::Held,
            (Some(_), Some(_)) => Ownership::Expired,
        };
        let wakes_from = match row.get(2)? {
            0u8 => Urgency::Ordinary,
            1 => Urgency::Cancel,
            _ => Urgency::Resume,
        };
        Ok(Standing { ownership, wakes_from, requires: row.get(3)? })
    });
    let standing = standing.optional()?;
    let permit = permits::find(connection, execution)?;
    let subscriptions = topics::of_execution(connection, execution)?;
    let history = History { snapshot, ..history };
    Ok(Some(Examined { history, standing, permit, subscriptions }))
}

fn apply_repair(write: &Write<'_>, repair: &Repair) -> rusqlite::Result<bool> {
    let execution = repair.execution;
    let last: Option<Parent> = history::parent_of(&write.tx, execution, i64::MAX)?;
    let seen = history::load_control(&write.tx, execution)?;
    // How many are before it changes without it.
    let row = |control: Option<Control>| control.map(|control| Control { permit: None, ..control });
    if last != repair.last || (last.is_some() && row(seen) != row(repair.seen.clone())) {
        return Ok(false);
    }
    let run = |sql| write.tx.prepare_cached(sql)?.execute([execution.0]);
    match &repair.remedy {
        Remedy::Control { row, epoch, requires, permit, subscriptions } => {
            derive(write, execution, row, *epoch, *requires)?;
            topics::replace(write, execution, subscriptions)?;
            permits::repair(write, execution, permit.as_ref())?;
        }
        Remedy::Nothing => {
            run(queries::CONTROL_ENDED)?;
            run(queries::MAIL_DISCARD)?;
            run(queries::SNAPSHOT_DISCARD)?;
            topics::replace(write, execution, &[])?;
            permits::release(write, execution)?;
        }
        Remedy::NoSnapshot => drop(run(queries::SNAPSHOT_DISCARD)?),
    }
    Ok(true)
}

fn derive(
    write: &Write<'_>,
    execution: ExecutionNo,
    row: &DerivedRow,
    epoch: u32,
    requires: u16,
) -> rusqlite::Result<()> {
    let (next_due, held, from) = match row {
        DerivedRow::Ready => {
            let mut ready = write.tx.prepare_cached(queries::CONTROL_READY_AGAIN)?;
            ready.execute(params![execution.0, epoch, requires])?;
            return Ok(());
        }
        DerivedRow::Parked { next_due } => (next_due, None, Urgency::Ordinary),
        DerivedRow::Held { reason, next_due } => (next_due, Some(reason), Urgency::Cancel),
    };
    let due = next_due.map(|due| due.0);
    let mut park = write.tx.prepare_cached(queries::CONTROL_PARKED)?;
    park.execute(params![execution.0, epoch, due, held, from as u8, requires])?;
    Ok(())
}
