//! Reading executions back: control rows, snapshots, frames and mail, all of one execution from one state of
//! the database, for any number of executions. As many are read at once as surely come in the time of a
//! statement.

use std::collections::HashMap;

use tokio_postgres::Row;
use uuid::Uuid;
use waypost_core::frame::{FrameHeader, Parent};
use waypost_core::id::{AppendId, ExecutionNo, InstanceId};
use waypost_core::time::Timestamp;
use waypost_ports::store::{
    Control, History, LOG_PAGE_BYTES, MAIL_PAGE_MAX, Permit, Snapshot, StoredFrame,
};

use crate::connection::{Connection, Params};
use crate::error::{DbError, Result};
use crate::mail;
use crate::queries::sql;
use crate::text::{count, get, is_intact, limit, narrow, text_or_none, time};

/// Bytes that are read at once; more where they are of one execution and its snapshot or mail is large.
const BYTES_AT_ONCE: i64 = LOG_PAGE_BYTES as i64;

/// Frames of one execution that are read at once.
const FRAMES_AT_ONCE: i64 = 5_000;

/// From where the frames of an execution are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum From {
    /// The frames after a seq, and no snapshot.
    After(u64),
    /// The newest snapshot and the frames after it.
    Snapshot,
    /// The last frame alone: the state is known.
    End,
}

impl From {
    const BEGINNING: Self = Self::After(0);

    /// As the queries have it.
    fn start(self) -> i64 {
        match self {
            Self::After(seq) => i64::try_from(seq).unwrap_or(i64::MAX).min(i64::MAX - 1),
            Self::Snapshot => -1,
            Self::End => -2,
        }
    }
}

/// Everything that is known of one execution: of its log one page, of its mail as well.
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
        .map(|(execution, _)| (*execution, From::BEGINNING))
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

/// A page of the log after a seq.
pub(crate) async fn load_after(
    db: &mut Connection,
    execution: ExecutionNo,
    after: u64,
) -> Result<Vec<StoredFrame>> {
    let (executions, starts) = columns(&[(execution, From::After(after))]);
    let page: Params<'_> = &[&executions, &starts, &BYTES_AT_ONCE, &FRAMES_AT_ONCE];
    let rows = db.query(sql!("frames_load"), page).await?;
    Ok(read_frames(&rows)?.remove(&execution).unwrap_or_default())
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
    let (executions, starts) = columns(wanted);
    let params: Params<'_> = &[&executions, &starts, &BYTES_AT_ONCE, &FRAMES_AT_ONCE];
    let row = db.query_one(sql!("histories_portion"), params).await?;
    Ok(narrow::<usize>(&row, 0)?.clamp(1, wanted.len()))
}

fn columns(wanted: &[(ExecutionNo, From)]) -> (Vec<i64>, Vec<i64>) {
    wanted.iter().map(|(execution, from)| (execution.0, from.start())).unzip()
}

async fn read_some(
    db: &mut Connection,
    wanted: &[(ExecutionNo, From)],
) -> Result<HashMap<ExecutionNo, Loaded>> {
    let (executions, starts) = columns(wanted);
    let with_snapshot: Vec<i64> = wanted
        .iter()
        .filter(|(_, from)| *from == From::Snapshot)
        .map(|(execution, _)| execution.0)
        .collect();
    let one: Params<'_> = &[&executions];
    let logs: Params<'_> = &[&executions, &starts, &BYTES_AT_ONCE, &FRAMES_AT_ONCE];
    let kept: Params<'_> = &[&with_snapshot];
    let mail_page = limit(MAIL_PAGE_MAX + 1);
    let mail: Params<'_> = &[&executions, &mail_page];
    let all: [Question<'_>; 4] = [
        (sql!("frames_load"), logs),
        (sql!("control_load"), one),
        (sql!("snapshots_load"), kept),
        (sql!("mail_load"), mail),
    ];
    let ([frames, controls, snapshots, mails], ends) = read_all(db, all).await?;
    let mut all = assemble(wanted, &controls, &frames, &ends)?;
    for row in &snapshots {
        let Some(loaded) = all.get_mut(&ExecutionNo(get(row, 0)?)) else { continue };
        let snapshot = read_snapshot(row)?;
        match is_intact(&snapshot.body, get(row, 3)?) {
            // Without it, a frame that cannot be read is not taken for one that it covers.
            true if loaded.history.frames.first().is_some_and(StoredFrame::is_unreadable) => {}
            true => loaded.history.snapshot = Some(snapshot),
            false => loaded.snapshot_is_damaged = true,
        }
    }
    add_mail(&mut all, &mails, MAIL_PAGE_MAX)?;
    Ok(all)
}

/// The logs of executions from their beginning, one page of each, with everything beside them but their
/// snapshots, in their order, and the results of three more queries from the same snapshot of the
/// database. Executions without a log are left out.
pub(crate) async fn load_with(
    db: &mut Connection,
    executions: &[ExecutionNo],
    more: [&'static str; 4],
) -> Result<(Vec<History>, [Vec<Row>; 4])> {
    let wanted: Vec<_> = executions.iter().map(|id| (*id, From::BEGINNING)).collect();
    let (numbers, starts) = columns(&wanted);
    let one: Params<'_> = &[&numbers];
    let logs: Params<'_> = &[&numbers, &starts, &BYTES_AT_ONCE, &FRAMES_AT_ONCE];
    let all: [Question<'_>; 7] = [
        (sql!("frames_load"), logs),
        (sql!("control_load"), one),
        (sql!("mail_examine"), one),
        (more[0], one),
        (more[1], one),
        (more[2], one),
        (more[3], one),
    ];
    let ([frames, controls, mails, first, second, third, fourth], ends) = read_all(db, all).await?;
    let mut all = assemble(&wanted, &controls, &frames, &ends)?;
    add_mail(&mut all, &mails, usize::MAX)?;
    let taken = executions.iter().filter_map(|execution| all.remove(execution));
    let histories = taken.map(|loaded| loaded.history).filter(|known| !known.frames.is_empty());
    Ok((histories.collect(), [first, second, third, fourth]))
}

/// A statement and its parameters.
type Question<'a> = (&'static str, Params<'a>);

/// Runs queries, the first of which is `frames_load`, in one snapshot of the database. Returns also the
/// last frames of logs that are longer than a page.
async fn read_all<const N: usize>(
    db: &mut Connection,
    all: [Question<'_>; N],
) -> Result<([Vec<Row>; N], Vec<Row>)> {
    let mut answers = db.read(all).await?;
    if answers.first().map_or(Ok(true), |frames| cut(frames).map(|cut| cut.is_empty()))? {
        return Ok((answers, Vec::new()));
    }
    // Once more, with one more question, and each in a time of its own.
    db.begin_snapshot().await?;
    for ((sql, params), rows) in all.iter().zip(&mut answers) {
        *rows = db.query(sql, params).await?;
    }
    let cut = answers.first().map_or(Ok(Vec::new()), |frames| cut(frames))?;
    let (executions, starts) = columns(&cut);
    let ends: Params<'_> = &[&executions, &starts, &BYTES_AT_ONCE, &FRAMES_AT_ONCE];
    let ends = db.query(sql!("frames_load"), ends).await?;
    db.commit().await?;
    Ok((answers, ends))
}

/// The executions whose logs may continue after this result.
fn cut(frames: &[Row]) -> Result<Vec<(ExecutionNo, From)>> {
    let mut cut = Vec::new();
    for log in frames.chunk_by(|one, next| one.get::<_, i64>(0) == next.get::<_, i64>(0)) {
        let mut bytes = 0;
        for row in log {
            bytes += get::<Option<&[u8]>>(row, 10)?.map_or(0, <[u8]>::len);
        }
        let is_long = limit(log.len()) >= FRAMES_AT_ONCE || limit(bytes) >= BYTES_AT_ONCE;
        if let Some(last) = log.last().filter(|_| is_long) {
            cut.push((ExecutionNo(get(last, 0)?), From::End));
        }
    }
    Ok(cut)
}

/// Histories without snapshots and mail; `ends` are the last frames of logs that `frames` may not hold.
fn assemble(
    wanted: &[(ExecutionNo, From)],
    controls: &[Row],
    frames: &[Row],
    ends: &[Row],
) -> Result<HashMap<ExecutionNo, Loaded>> {
    let (mut logs, mut ends) = (read_frames(frames)?, read_frames(ends)?);
    let mut all = HashMap::with_capacity(wanted.len());
    for (execution, _) in wanted {
        let mut frames = logs.remove(execution).unwrap_or_default();
        let read = frames.last().map(|frame| frame.header.first_seq);
        let mut last = None;
        match ends.remove(execution).and_then(|mut end| end.pop()) {
            // First, so that it makes the claiming instance quarantine the execution.
            Some(end) if end.is_unreadable() => frames.insert(0, end),
            Some(end) if Some(end.header.first_seq) != read => last = Some(end.header),
            _ => {}
        }
        let history = History {
            execution: *execution,
            control: None,
            snapshot: None,
            frames,
            last,
            mail: Vec::new(),
            mail_waits: false,
        };
        all.insert(*execution, Loaded { history, snapshot_is_damaged: false });
    }
    for row in controls {
        let Some(loaded) = all.get_mut(&ExecutionNo(get(row, 0)?)) else { continue };
        loaded.history.control = Some(read_control(row)?);
    }
    Ok(all)
}

/// Adds mail to its executions, at most so many messages to each.
fn add_mail(all: &mut HashMap<ExecutionNo, Loaded>, rows: &[Row], most: usize) -> Result<()> {
    for row in rows {
        let execution = ExecutionNo(get(row, 0)?);
        let Some(Loaded { history, .. }) = all.get_mut(&execution) else { continue };
        if history.mail.len() >= most {
            history.mail_waits = true;
            continue;
        }
        match mail::read(row) {
            Ok(mail) => history.mail.push(mail),
            // Leaving it out would hide it, and it would wake its execution for ever. As an
            // unreadable frame it makes the claiming instance quarantine the execution, and the
            // mail stays.
            Err(error) => {
                history.snapshot = None;
                history.frames.insert(0, StoredFrame::unreadable(execution, error.to_string()));
            }
        }
    }
    Ok(())
}

/// The frames of each execution, each with the one before it as its parent.
fn read_frames(rows: &[Row]) -> Result<HashMap<ExecutionNo, Vec<StoredFrame>>> {
    let mut all: HashMap<ExecutionNo, Vec<StoredFrame>> = HashMap::new();
    let mut before: Option<(ExecutionNo, Parent)> = None;
    for row in rows {
        let execution = ExecutionNo(get(row, 0)?);
        let parent = before.filter(|(whose, _)| *whose == execution).map(|(_, parent)| parent);
        match read_frame(row, parent) {
            Ok(frame) => {
                before = Some((execution, frame.header.as_parent()));
                // One without a body is there as a parent only.
                if get::<Option<&[u8]>>(row, 10)?.is_some() {
                    all.entry(execution).or_default().push(frame);
                }
            }
            Err(error) => {
                before = None;
                let unreadable = StoredFrame::unreadable(execution, error.to_string());
                all.entry(execution).or_default().push(unreadable);
            }
        }
    }
    Ok(all)
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
