//! Reading executions back: control row, snapshot, frames, mail, all from one state of the file.

use rusqlite::{Connection, OptionalExtension, Row, params};
use uuid::Uuid;
use waypost_core::frame::{FrameHeader, Parent};
use waypost_core::id::{AppendId, ExecutionNo, InstanceId};
use waypost_core::time::Timestamp;
use waypost_ports::store::{
    Control, History, LOG_PAGE_BYTES, MAIL_PAGE_MAX, Snapshot, StoredFrame,
};

use crate::connection::{from_stored, is_intact};
use crate::{mail, permits, queries};

/// Everything that is known of one execution: of its log the first page, of its mail as well.
pub(crate) fn load(
    connection: &Connection,
    execution: ExecutionNo,
) -> rusqlite::Result<Option<History>> {
    let (snapshot, from) = load_snapshot(connection, execution)?.unzip();
    let Some(history) = load_log(connection, execution, from.unwrap_or(0))? else {
        return Ok(None);
    };
    let mut mail = mail::load(connection, execution, MAIL_PAGE_MAX + 1)?;
    let mail_waits = mail.len() > MAIL_PAGE_MAX;
    mail.truncate(MAIL_PAGE_MAX);
    Ok(Some(History { snapshot, mail, mail_waits, ..history }))
}

/// As [`load`], from the first frame on, without a snapshot, and with all mail.
pub(crate) fn examine(
    connection: &Connection,
    execution: ExecutionNo,
) -> rusqlite::Result<Option<History>> {
    let Some(history) = load_log(connection, execution, 0)? else { return Ok(None) };
    Ok(Some(History { mail: mail::load(connection, execution, usize::MAX)?, ..history }))
}

/// A page of the log after a seq.
pub(crate) fn load_after(
    connection: &Connection,
    execution: ExecutionNo,
    after: u64,
) -> rusqlite::Result<Vec<StoredFrame>> {
    let from = i64::try_from(after).unwrap_or(i64::MAX).saturating_add(1);
    Ok(load_page(connection, execution, from)?.0)
}

/// The history of an execution whose rows cannot be read.
pub(crate) fn unreadable(execution: ExecutionNo, reason: String) -> History {
    let frames = vec![StoredFrame::unreadable(execution, reason)];
    let (control, snapshot, last, mail) = (None, None, None, Vec::new());
    History { execution, control, snapshot, frames, last, mail, mail_waits: false }
}

/// The control row and the log from a seq on, without the rest.
fn load_log(
    connection: &Connection,
    execution: ExecutionNo,
    from: i64,
) -> rusqlite::Result<Option<History>> {
    let (frames, is_cut) = load_page(connection, execution, from)?;
    if frames.is_empty() {
        return Ok(None);
    }
    let last = if is_cut { last_header(connection, execution)? } else { None };
    let read = frames.last().map(|frame| frame.header.first_seq);
    Ok(Some(History {
        execution,
        control: load_control(connection, execution)?,
        snapshot: None,
        last: last.filter(|last| Some(last.first_seq) != read),
        frames,
        mail: Vec::new(),
        mail_waits: false,
    }))
}

/// A page of frames from a seq on. Was it cut, so that more may follow?
fn load_page(
    connection: &Connection,
    execution: ExecutionNo,
    from: i64,
) -> rusqlite::Result<(Vec<StoredFrame>, bool)> {
    let (mut frames, mut bytes) = (Vec::new(), 0);
    each_frame(connection, execution, from, |frame| {
        bytes += frame.body.as_ref().map_or(0, Vec::len);
        frames.push(frame);
        bytes < LOG_PAGE_BYTES
    })?;
    Ok((frames, bytes >= LOG_PAGE_BYTES))
}

fn last_header(
    connection: &Connection,
    execution: ExecutionNo,
) -> rusqlite::Result<Option<FrameHeader>> {
    let last = parent_of(connection, execution, i64::MAX)?;
    let from = last.map_or(0, |last| i64::try_from(last.first_seq).unwrap_or(i64::MAX));
    let mut header = None;
    each_frame(connection, execution, from, |frame| {
        header = Some(frame.header);
        true
    })?;
    Ok(header)
}

/// Visits the frames of an execution from a seq on, each with the frame before it as its parent,
/// until the visitor has had enough.
pub(crate) fn each_frame(
    connection: &Connection,
    execution: ExecutionNo,
    from: i64,
    mut visit: impl FnMut(StoredFrame) -> bool,
) -> rusqlite::Result<()> {
    let mut parent = match from > 1 {
        true => parent_of(connection, execution, from)?,
        false => None,
    };
    let mut select = connection.prepare_cached(queries::FRAMES_LOAD)?;
    let mut rows = select.query([execution.0, from])?;
    while let Some(row) = rows.next()? {
        let frame = read_frame(row, execution, parent)?;
        parent = Some(frame.header.as_parent());
        if !visit(frame) {
            break;
        }
    }
    Ok(())
}

pub(crate) fn parent_of(
    connection: &Connection,
    execution: ExecutionNo,
    first_seq: i64,
) -> rusqlite::Result<Option<Parent>> {
    let mut find = connection.prepare_cached(queries::FRAME_BEFORE)?;
    let parent = find.query_row([execution.0, first_seq], |row| {
        Ok(Parent { first_seq: from_stored(row.get(0)?), append_id: append_id(row, 1)? })
    });
    parent.optional()
}

/// A frame in the columns of `frames_load`.
pub(crate) fn read_frame(
    row: &Row<'_>,
    execution: ExecutionNo,
    parent: Option<Parent>,
) -> rusqlite::Result<StoredFrame> {
    let header = FrameHeader {
        execution,
        first_seq: from_stored(row.get(0)?),
        last_seq: from_stored(row.get(1)?),
        append_id: append_id(row, 2)?,
        parent,
        instance: InstanceId(Uuid::from_bytes(row.get(3)?)),
        epoch: row.get(4)?,
        decided_at: Timestamp(row.get(5)?),
        requires: row.get(7)?,
    };
    let body = row.get_ref(9)?.as_blob()?;
    let body = match is_intact(body, row.get(8)?) {
        true => Ok(body.to_vec()),
        false => Err("its checksum does not match its bytes".to_owned()),
    };
    Ok(StoredFrame { header, at: Timestamp(row.get(6)?), body })
}

fn append_id(row: &Row<'_>, column: usize) -> rusqlite::Result<AppendId> {
    Ok(AppendId(Uuid::from_bytes(row.get(column)?)))
}

/// The newest snapshot, with the first seq of the frame it came with. It is a cache: one that is
/// damaged counts as none.
fn load_snapshot(
    connection: &Connection,
    execution: ExecutionNo,
) -> rusqlite::Result<Option<(Snapshot, i64)>> {
    let mut select = connection.prepare_cached(queries::SNAPSHOT_LOAD)?;
    let snapshot = select.query_row([execution.0], |row| {
        let snapshot = read_snapshot(row)?;
        let intact = is_intact(&snapshot.body, row.get(2)?);
        Ok(intact.then_some((snapshot, row.get(0)?)))
    });
    Ok(snapshot.optional()?.flatten())
}

/// The newest snapshot as it is stored, damaged or not.
pub(crate) fn stored_snapshot(
    connection: &Connection,
    execution: ExecutionNo,
) -> rusqlite::Result<Option<Snapshot>> {
    let mut select = connection.prepare_cached(queries::SNAPSHOT_LOAD)?;
    select.query_row([execution.0], read_snapshot).optional()
}

fn read_snapshot(row: &Row<'_>) -> rusqlite::Result<Snapshot> {
    Ok(Snapshot { seq: from_stored(row.get(1)?), body: row.get(3)? })
}

pub(crate) fn load_control(
    connection: &Connection,
    execution: ExecutionNo,
) -> rusqlite::Result<Option<Control>> {
    let mut select = connection.prepare_cached(queries::CONTROL_LOAD)?;
    let control = select.query_row(params![execution.0], |row| {
        Ok(Control {
            owner: mail::owner(row, 0)?,
            epoch: row.get(1)?,
            next_due: row.get::<_, Option<i64>>(2)?.map(Timestamp),
            ready: row.get(3)?,
            held: row.get(4)?,
            permit: permits::read(row, 5)?,
            crashes: row.get(8)?,
            doubt: row.get(9)?,
        })
    });
    control.optional()
}
