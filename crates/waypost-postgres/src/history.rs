//! Reading executions back: control rows, snapshots, frames and mail, all of one execution from one state of
//! the database, for any number of executions. As many are read at once as surely come in the time of a
//! statement.

use std::collections::HashMap;

use tokio_postgres::Row;
use uuid::Uuid;
use waypost_core::frame::{FrameHeader, Parent};
use waypost_core::id::{AppendId, ExecutionNo, InstanceId};
use waypost_core::time::Timestamp;
use waypost_ports::store::{Control, History, Permit, Snapshot, StoredFrame};

use crate::connection::{Connection, Params};
use crate::error::{DbError, Result};
use crate::mail;
use crate::queries::sql;
use crate::text::{count, get, is_intact, limit, narrow, text_or_none, time};

/// Bytes that are read at once; more where they are of one execution and its snapshot or mail is large.
const BYTES_AT_ONCE: i64 = 4 << 20;

/// Frames of one execution that are read at once.
const FRAMES_AT_ONCE: i64 = 5_000;

/// From where the frames of an execution are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum From {
    /// The whole log, and no snapshot.
    Beginning = 0,
    /// The newest snapshot and the frames after it.
    Snapshot = 1,
    /// The last frame alone: the state is known.
    End = 2,
}

/// Everything that is known of one execution.
pub(crate) async fn load(
    db: &mut Connection,
    execution: ExecutionNo,
    from: From,
) -> Result<Option<History>> {
    Ok(load_many(db, &[(execution, from)]).await?.pop())
}

/// The histories of many executions, in their order; those without a log are left out. An
/// unreadable one is returned as damaged: the others must not wait for it.
pub(crate) async fn load_many(
    db: &mut Connection,
    wanted: &[(ExecutionNo, From)],
) -> Result<Vec<History>> {
    let mut histories = read_many(db, wanted).await?;
    // A snapshot is a cache: a damaged one counts as none.
    let damaged: Vec<_> = histories
        .iter()
        .filter(|(_, loaded)| loaded.snapshot_is_damaged)
        .map(|(execution, _)| (*execution, From::Beginning))
        .collect();
    if !damaged.is_empty() {
        histories.extend(read_many(db, &damaged).await?);
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
    db: &mut Connection,
    wanted: &[(ExecutionNo, From)],
) -> Result<HashMap<ExecutionNo, Loaded>> {
    let mut all = HashMap::with_capacity(wanted.len());
    let mut rest = wanted;
    while !rest.is_empty() {
        let (now, later) = rest.split_at(first_of(db, rest).await?);
        all.extend(read_some(db, now).await?);
        rest = later;
    }
    Ok(all)
}

/// How many can be read at once, from the first on; at least one, however large.
async fn first_of(db: &mut Connection, wanted: &[(ExecutionNo, From)]) -> Result<usize> {
    if wanted.len() <= 1 {
        return Ok(wanted.len());
    }
    let (executions, modes) = columns(wanted);
    let params: Params<'_> = &[&executions, &modes, &BYTES_AT_ONCE, &FRAMES_AT_ONCE];
    let row = db.query_one(sql!("histories_portion"), params).await?;
    Ok(narrow::<usize>(&row, 0)?.clamp(1, wanted.len()))
}

fn columns(wanted: &[(ExecutionNo, From)]) -> (Vec<i64>, Vec<i16>) {
    wanted.iter().map(|(execution, from)| (execution.0, *from as i16)).unzip()
}

async fn read_some(
    db: &mut Connection,
    wanted: &[(ExecutionNo, From)],
) -> Result<HashMap<ExecutionNo, Loaded>> {
    let (executions, modes) = columns(wanted);
    let with_snapshot: Vec<i64> = wanted
        .iter()
        .filter(|(_, from)| *from == From::Snapshot)
        .map(|(execution, _)| execution.0)
        .collect();
    let one: Params<'_> = &[&executions];
    let logs: Params<'_> = &[&executions, &modes, &BYTES_AT_ONCE, &FRAMES_AT_ONCE];
    let kept: Params<'_> = &[&with_snapshot];
    let all: [Question<'_>; 4] = [
        (sql!("frames_load"), logs),
        (sql!("control_load"), one),
        (sql!("snapshots_load"), kept),
        (sql!("mail_load"), one),
    ];
    let [frames, controls, snapshots, mails] = read_whole(db, all).await?;
    assemble(wanted, &controls, &snapshots, &frames, &mails)
}

/// The whole logs of executions with everything beside them but their snapshots, in their order,
/// and the results of three more queries from the same snapshot of the database. Executions without
/// a log are left out.
pub(crate) async fn load_with(
    db: &mut Connection,
    executions: &[ExecutionNo],
    more: [&'static str; 3],
) -> Result<(Vec<History>, [Vec<Row>; 3])> {
    let wanted: Vec<_> = executions.iter().map(|id| (*id, From::Beginning)).collect();
    let (numbers, modes) = columns(&wanted);
    let one: Params<'_> = &[&numbers];
    let logs: Params<'_> = &[&numbers, &modes, &BYTES_AT_ONCE, &FRAMES_AT_ONCE];
    let all: [Question<'_>; 6] = [
        (sql!("frames_load"), logs),
        (sql!("control_load"), one),
        (sql!("mail_examine"), one),
        (more[0], one),
        (more[1], one),
        (more[2], one),
    ];
    let [frames, controls, mails, first, second, third] = read_whole(db, all).await?;
    let mut all = assemble(&wanted, &controls, &[], &frames, &mails)?;
    let taken = executions.iter().filter_map(|execution| all.remove(execution));
    let histories = taken.map(|loaded| loaded.history).filter(|known| !known.frames.is_empty());
    Ok((histories.collect(), [first, second, third]))
}

/// A statement and its parameters.
type Question<'a> = (&'static str, Params<'a>);

/// Runs queries, the first of which is `frames_load`, in one snapshot of the database, and reads on
/// if a log was too long for one result.
async fn read_whole<const N: usize>(
    db: &mut Connection,
    all: [Question<'_>; N],
) -> Result<[Vec<Row>; N]> {
    let mut answers = db.read(all).await?;
    if answers.first().map_or(Ok(true), |frames| cut(frames).map(|cut| cut.is_empty()))? {
        return Ok(answers);
    }
    // Once more, with as many pages as it takes, each in a time of its own.
    db.begin_snapshot().await?;
    for ((sql, params), rows) in all.iter().zip(&mut answers) {
        *rows = db.query(sql, params).await?;
    }
    if let Some(frames) = answers.first_mut() {
        for (execution, next) in cut(frames)? {
            read_on(db, execution, next, frames).await?;
        }
        let place = |row: &Row| (row.get::<_, i64>(0), row.get::<_, i64>(1));
        frames.sort_by_key(place);
    }
    db.commit().await?;
    Ok(answers)
}

/// Adds the frames of an execution from a seq on.
async fn read_on(
    db: &mut Connection,
    execution: i64,
    mut next: i64,
    frames: &mut Vec<Row>,
) -> Result<()> {
    loop {
        let params: Params<'_> = &[&execution, &next, &FRAMES_AT_ONCE, &BYTES_AT_ONCE];
        let mut page = db.query(sql!("frames_page"), params).await?;
        // Where nothing comes after it, the last one is given again.
        page.retain(|row| row.get::<_, i64>(1) >= next);
        let Some(last) = page.last() else { return Ok(()) };
        next = get::<i64>(last, 2)?.saturating_add(1);
        frames.append(&mut page);
    }
}

/// The executions whose logs may continue after this result, and where.
fn cut(frames: &[Row]) -> Result<Vec<(i64, i64)>> {
    let mut cut = Vec::new();
    for log in frames.chunk_by(|one, next| one.get::<_, i64>(0) == next.get::<_, i64>(0)) {
        let mut bytes = 0;
        for row in log {
            bytes += get::<Option<&[u8]>>(row, 10)?.map_or(0, <[u8]>::len);
        }
        let is_long = limit(log.len()) >= FRAMES_AT_ONCE || limit(bytes) >= BYTES_AT_ONCE;
        if let Some(last) = log.last().filter(|_| is_long) {
            cut.push((get(last, 0)?, get::<i64>(last, 2)?.saturating_add(1)));
        }
    }
    Ok(cut)
}

fn assemble(
    wanted: &[(ExecutionNo, From)],
    controls: &[Row],
    snapshots: &[Row],
    frames: &[Row],
    mails: &[Row],
) -> Result<HashMap<ExecutionNo, Loaded>> {
    let mut all: HashMap<ExecutionNo, Loaded> = wanted
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
        let Some(loaded) = all.get_mut(&ExecutionNo(get(row, 0)?)) else { continue };
        loaded.history.control = Some(read_control(row)?);
    }
    for row in snapshots {
        let Some(loaded) = all.get_mut(&ExecutionNo(get(row, 0)?)) else { continue };
        let snapshot = read_snapshot(row)?;
        match is_intact(&snapshot.body, get(row, 3)?) {
            true => loaded.history.snapshot = Some(snapshot),
            false => loaded.snapshot_is_damaged = true,
        }
    }
    for row in mails {
        let execution = ExecutionNo(get(row, 0)?);
        let Some(loaded) = all.get_mut(&execution) else { continue };
        match mail::read(row) {
            Ok(mail) => loaded.history.mail.push(mail),
            // Leaving it out would hide it, and it would wake its execution for ever. As an
            // unreadable frame it makes the claiming instance quarantine the execution, and the
            // mail stays.
            Err(error) => {
                loaded.history.snapshot = None;
                loaded
                    .history
                    .frames
                    .insert(0, StoredFrame::unreadable(execution, error.to_string()));
            }
        }
    }
    Ok(all)
}

/// Adds frames to their executions, each with the one before it as its parent.
fn add_frames(all: &mut HashMap<ExecutionNo, Loaded>, rows: &[Row]) -> Result<()> {
    let mut before: Option<(ExecutionNo, Parent)> = None;
    for row in rows {
        let execution = ExecutionNo(get(row, 0)?);
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
                loaded.history.frames.push(StoredFrame::unreadable(execution, error.to_string()));
            }
        }
    }
    Ok(())
}

/// A frame in the columns of `frames_load`.
pub(crate) fn read_frame(row: &Row, parent: Option<Parent>) -> Result<StoredFrame> {
    let requires: i32 = get(row, 8)?;
    let header = FrameHeader {
        execution: ExecutionNo(get(row, 0)?),
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

/// A snapshot in the columns of `snapshots_load`, damaged or not.
pub(crate) fn read_snapshot(row: &Row) -> Result<Snapshot> {
    Ok(Snapshot { seq: count(row, 2)?, body: get(row, 4)? })
}

/// A control row in the columns of `control_load`.
pub(crate) fn read_control(row: &Row) -> Result<Control> {
    let permit = match text_or_none(row, 6)? {
        Some(key) => Some(Permit {
            key,
            holding: get::<Option<bool>>(row, 7)?.unwrap_or_default(),
            before: count(row, 8)?,
        }),
        None => None,
    };
    Ok(Control {
        owner: get::<Option<Uuid>>(row, 1)?.map(InstanceId),
        epoch: narrow(row, 2)?,
        next_due: time(row, 3)?,
        ready: get(row, 4)?,
        held: text_or_none(row, 5)?.map(|held| held.to_string()),
        crashes: narrow(row, 9)?,
        doubt: get(row, 10)?,
        permit,
    })
}
