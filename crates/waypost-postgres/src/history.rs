//! Reading executions back: control rows, snapshots, frames and mail, all from one state of the database,
//! for any number of executions at once.

use std::collections::HashMap;

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;
use waypost_core::frame::{FrameHeader, Parent};
use waypost_core::id::{AppendId, ExecutionId, InstanceId};
use waypost_core::time::Timestamp;
use waypost_ports::store::{Control, History, Slot, Snapshot, StoredFrame};

use crate::connection::Connection;
use crate::error::DbError;
use crate::text::{count, get, is_intact, narrow, text_or_none};
use crate::{mail, queries};

/// From where the frames of an execution are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum From {
    /// The whole log, and no snapshot.
    Beginning = 0,
    /// The newest snapshot and what came after it.
    Snapshot = 1,
    /// The last frame alone: the state is known.
    End = 2,
}

/// Everything that is known of one execution.
pub(crate) async fn load(
    connection: &mut Connection,
    execution: ExecutionId,
    from: From,
) -> Result<Option<History>, DbError> {
    Ok(load_many(connection, &[(execution, from)]).await?.pop())
}

/// The same of many, in their order; those that have no log are left out. What cannot be read of one is
/// given as damaged: the others must not wait for it.
pub(crate) async fn load_many(
    connection: &mut Connection,
    wanted: &[(ExecutionId, From)],
) -> Result<Vec<History>, DbError> {
    let mut histories = read_many(connection, wanted).await?;
    // A snapshot is a cache: one that is damaged counts as none.
    let damaged: Vec<_> = histories
        .iter()
        .filter(|(_, loaded)| loaded.snapshot_is_damaged)
        .map(|(execution, _)| (*execution, From::Beginning))
        .collect();
    if !damaged.is_empty() {
        histories.extend(read_many(connection, &damaged).await?);
    }
    let taken = wanted.iter().filter_map(|(execution, _)| histories.remove(execution));
    Ok(taken
        .filter(|loaded| !loaded.history.frames.is_empty())
        .map(|loaded| loaded.history)
        .collect())
}

struct Loaded {
    history: History,
    snapshot_is_damaged: bool,
}

async fn read_many(
    connection: &mut Connection,
    wanted: &[(ExecutionId, From)],
) -> Result<HashMap<ExecutionId, Loaded>, DbError> {
    let executions: Vec<i64> = wanted.iter().map(|(execution, _)| execution.0).collect();
    let modes: Vec<i16> = wanted.iter().map(|(_, from)| *from as i16).collect();
    let with_snapshot: Vec<i64> = wanted
        .iter()
        .filter(|(_, from)| *from == From::Snapshot)
        .map(|(execution, _)| execution.0)
        .collect();
    let one: [&(dyn ToSql + Sync); 1] = [&executions];
    let two: [&(dyn ToSql + Sync); 2] = [&executions, &modes];
    let kept: [&(dyn ToSql + Sync); 1] = [&with_snapshot];
    let [controls, snapshots, frames, mails] = connection
        .read([
            (queries::CONTROL_LOAD, &one),
            (queries::SNAPSHOTS_LOAD, &kept),
            (queries::FRAMES_LOAD, &two),
            (queries::MAIL_LOAD, &one),
        ])
        .await?;
    assemble(wanted, &controls, &snapshots, &frames, &mails)
}

/// The whole logs of executions with everything beside them but their snapshots, in their order, and the
/// answers to three more questions from the same state of the database. Those that have no log are left out.
pub(crate) async fn load_with(
    connection: &mut Connection,
    executions: &[ExecutionId],
    more: [&'static str; 3],
) -> Result<(Vec<History>, [Vec<Row>; 3]), DbError> {
    let numbers: Vec<i64> = executions.iter().map(|execution| execution.0).collect();
    let modes = vec![From::Beginning as i16; numbers.len()];
    let one: [&(dyn ToSql + Sync); 1] = [&numbers];
    let two: [&(dyn ToSql + Sync); 2] = [&numbers, &modes];
    let [controls, frames, mails, first, second, third] = connection
        .read([
            (queries::CONTROL_LOAD, &one),
            (queries::FRAMES_LOAD, &two),
            (queries::MAIL_EXAMINE, &one),
            (more[0], &one),
            (more[1], &one),
            (more[2], &one),
        ])
        .await?;
    let wanted: Vec<_> = executions.iter().map(|id| (*id, From::Beginning)).collect();
    let mut all = assemble(&wanted, &controls, &[], &frames, &mails)?;
    let taken = executions.iter().filter_map(|execution| all.remove(execution));
    let histories = taken.map(|loaded| loaded.history).filter(|known| !known.frames.is_empty());
    Ok((histories.collect(), [first, second, third]))
}

fn assemble(
    wanted: &[(ExecutionId, From)],
    controls: &[Row],
    snapshots: &[Row],
    frames: &[Row],
    mails: &[Row],
) -> Result<HashMap<ExecutionId, Loaded>, DbError> {
    let mut all: HashMap<ExecutionId, Loaded> = wanted
        .iter()
        .map(|(execution, _)| {
            let history = History {
                execution: *execution,
                control: None,
                snapshot: None,
                frames: Vec::new(),
                mail: Vec::new(),
            };
            (*execution, Loaded { history, snapshot_is_damaged: false })
        })
        .collect();
    add_frames(&mut all, frames)?;
    for row in controls {
        let Some(loaded) = all.get_mut(&ExecutionId(get(row, 0)?)) else { continue };
        loaded.history.control = Some(read_control(row)?);
    }
    for row in snapshots {
        let Some(loaded) = all.get_mut(&ExecutionId(get(row, 0)?)) else { continue };
        let snapshot = read_snapshot(row)?;
        match is_intact(&snapshot.body, get(row, 3)?) {
            true => loaded.history.snapshot = Some(snapshot),
            false => loaded.snapshot_is_damaged = true,
        }
    }
    for row in mails {
        let execution = ExecutionId(get(row, 0)?);
        let Some(loaded) = all.get_mut(&execution) else { continue };
        match mail::read(row) {
            Ok(mail) => loaded.history.mail.push(mail),
            // Left out it would be forgotten, and wake its addressee for ever: whoever claims this one
            // sets it aside, and keeps the mail.
            Err(error) => {
                loaded.history.snapshot = None;
                loaded.history.frames.insert(0, unreadable_frame(execution, error.to_string()));
            }
        }
    }
    Ok(all)
}

/// Adds frames to their executions, each with the one before it as its parent.
fn add_frames(all: &mut HashMap<ExecutionId, Loaded>, rows: &[Row]) -> Result<(), DbError> {
    let mut before: Option<(ExecutionId, Parent)> = None;
    for row in rows {
        let execution = ExecutionId(get(row, 0)?);
        let parent = before.filter(|(whose, _)| *whose == execution).map(|(_, parent)| parent);
        let Some(loaded) = all.get_mut(&execution) else { continue };
        match read_frame(row, parent) {
            Ok(frame) => {
                before = Some((execution, frame.header.as_parent()));
                // One without a body is there as a parent only.
                if get::<Option<&[u8]>>(row, 10)?.is_some() {
                    loaded.history.frames.push(frame);
                }
            }
            Err(error) => {
                before = None;
                loaded.history.frames.push(unreadable_frame(execution, error.to_string()));
            }
        }
    }
    Ok(())
}

/// A frame in the columns of `frames_load`.
pub(crate) fn read_frame(row: &Row, parent: Option<Parent>) -> Result<StoredFrame, DbError> {
    let requires: i32 = get(row, 8)?;
    let header = FrameHeader {
        execution: ExecutionId(get(row, 0)?),
        first_seq: count(row, 1)?,
        last_seq: count(row, 2)?,
        append_id: AppendId(get(row, 3)?),
        parent,
        instance: InstanceId(get(row, 4)?),
        epoch: narrow(row, 5)?,
        decided_at: Timestamp(get(row, 6)?),
        requires: u16::try_from(requires)
            .map_err(|_| DbError::Corrupt(format!("fold {requires} is out of range")))?,
    };
    let body: &[u8] = get::<Option<&[u8]>>(row, 10)?.unwrap_or_default();
    let body = match is_intact(body, get(row, 9)?) {
        true => Ok(body.to_vec()),
        false => Err("its checksum does not match its bytes".to_owned()),
    };
    Ok(StoredFrame { header, at: Timestamp(get(row, 7)?), body })
}

/// What stands for a frame whose row cannot be read.
pub(crate) fn unreadable_frame(execution: ExecutionId, reason: String) -> StoredFrame {
    let header = FrameHeader {
        execution,
        first_seq: 1,
        last_seq: 1,
        append_id: AppendId(Uuid::nil()),
        parent: None,
        instance: InstanceId(Uuid::nil()),
        epoch: 0,
        decided_at: Timestamp(0),
        requires: 0,
    };
    StoredFrame { header, at: Timestamp(0), body: Err(reason) }
}

/// A snapshot in the columns of `snapshots_load`, damaged or not.
pub(crate) fn read_snapshot(row: &Row) -> Result<Snapshot, DbError> {
    Ok(Snapshot { seq: count(row, 2)?, body: get(row, 4)? })
}

/// A control row in the columns of `control_load`.
pub(crate) fn read_control(row: &Row) -> Result<Control, DbError> {
    let slot = match text_or_none(row, 6)? {
        Some(key) => Some(Slot {
            key,
            holding: get::<Option<bool>>(row, 7)?.unwrap_or_default(),
            before: count(row, 8)?,
        }),
        None => None,
    };
    Ok(Control {
        owner: get::<Option<Uuid>>(row, 1)?.map(InstanceId),
        epoch: narrow(row, 2)?,
        next_due: get::<Option<i64>>(row, 3)?.map(Timestamp),
        ready: get(row, 4)?,
        held: text_or_none(row, 5)?.map(|held| held.to_string()),
        slot,
    })
}
