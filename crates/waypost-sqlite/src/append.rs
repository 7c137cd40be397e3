//! Frames and their side rows: the only way into the log.
//!
//! A batch is one transaction, which holds the write lock from its start. Each frame is inserted only
//! on top of the parent it names, and only `changes() = 1` lets its side rows be written, so that a
//! zombie's frame leaves no trace.

use rusqlite::{CachedStatement, OptionalExtension, params};
use waypost_core::frame::FrameHeader;
use waypost_core::id::ExecutionNo;
use waypost_core::time::Timestamp;
use waypost_ports::store::{
    Append, Appended, ControlChange, Settled, Side, Submission, TakenName, Urgency,
};
use waypost_ports::triggers::Fire;

use crate::connection::{checksum, first, is_about_data, run, to_stored, value};
use crate::store::Write;
use crate::{blob_refs, mail, outbox, permits, queries, topics, triggers};

/// The fold that every control row can be assumed to need.
const FIRST_LOG_FORMAT: u16 = 1;

/// The statements that every frame needs, prepared once a batch.
struct Statements<'a> {
    parent: CachedStatement<'a>,
    insert: CachedStatement<'a>,
}

impl Statements<'_> {
    /// Is the frame's parent the last frame? The first frame has none.
    fn is_next(&mut self, header: &FrameHeader) -> rusqlite::Result<bool> {
        let Some(parent) = &header.parent else { return Ok(header.first_seq == 1) };
        let found = self.parent.query_row(
            params![
                header.execution.0,
                to_stored(parent.first_seq)?,
                to_stored(header.first_seq.saturating_sub(1))?,
                parent.append_id.0.as_bytes(),
            ],
            |row| row.get(0),
        );
        Ok(found.optional()?.unwrap_or(false))
    }
}

/// The outcomes of a batch, and the last frame of the log if any went in.
pub(crate) type Outcomes = (Vec<Appended>, Option<i64>);

/// Appends a batch. Fails as a whole when the data of one frame is refused.
pub(crate) fn append_all(write: &Write<'_>, batch: &[Append]) -> rusqlite::Result<Outcomes> {
    append_with(write, batch, append_one)
}

/// Appends a batch, each frame apart from the others, so that one whose data is rejected fails
/// alone. Slower, and needed only after [`append_all`] found that there is such a frame.
pub(crate) fn append_each(write: &Write<'_>, batch: &[Append]) -> rusqlite::Result<Outcomes> {
    append_with(write, batch, |write, statements, append| {
        write.tx.execute_batch("SAVEPOINT frame")?;
        match append_one(write, statements, append) {
            Err(error) if is_about_data(&error) => {
                write.tx.execute_batch("ROLLBACK TO frame; RELEASE frame")?;
                write.forget_instances();
                Ok(Appended::Poisoned { reason: error.to_string() })
            }
            Ok(outcome) => {
                write.tx.execute_batch("RELEASE frame")?;
                Ok(outcome)
            }
            // Not about the data: the transaction is over, perhaps already rolled back by SQLite.
            Err(error) => Err(error),
        }
    })
}

fn append_with(
    write: &Write<'_>,
    batch: &[Append],
    append: impl Fn(&Write<'_>, &mut Statements<'_>, &Append) -> rusqlite::Result<Appended>,
) -> rusqlite::Result<Outcomes> {
    let mut statements = Statements {
        parent: write.tx.prepare_cached(queries::FRAME_PARENT)?,
        insert: write.tx.prepare_cached(queries::FRAME_INSERT)?,
    };
    let mut outcomes = Vec::with_capacity(batch.len());
    for frame in batch {
        outcomes.push(append(write, &mut statements, frame)?);
    }
    let any = outcomes.iter().any(|outcome| matches!(outcome, Appended::Committed { .. }));
    let head = match any {
        true => Some(value(&write.tx, queries::FRAMES_HEAD, [])?),
        false => None,
    };
    Ok((outcomes, head))
}

fn append_one(
    write: &Write<'_>,
    statements: &mut Statements<'_>,
    append: &Append,
) -> rusqlite::Result<Appended> {
    let header = &append.header;
    let submission = append.side.submission.as_ref().filter(|_| header.parent.is_none());
    let fire = submission.and_then(|names| names.fire.as_deref());
    if let Some(refusal) = fire.map(|fire| triggers::refusal(write, fire)).transpose()?.flatten() {
        return Ok(committed_before(write, header)?.unwrap_or(refusal));
    }
    if let Some(submission) = submission
        && !submit(write, header.execution, submission)?
    {
        return refused_start(write, header, submission);
    }
    if let Some(holding) = rejected(write, statements, append)? {
        give_back(write, header, submission)?;
        return Ok(Appended::Rejected { holding });
    }
    if append.side.births.is_empty() {
        if insert_frame(write, statements, append)? {
            write_side(write, header, &append.side)?;
            write_fire(write, header, fire)?;
            return Ok(Appended::Committed { at: write.now });
        }
    } else if let Some(outcome) = insert_family(write, statements, append)? {
        if matches!(outcome, Appended::Committed { .. }) {
            write_fire(write, header, fire)?;
        }
        return Ok(outcome);
    }
    give_back(write, header, submission)?;
    Ok(committed_before(write, header)?.unwrap_or(Appended::Fenced))
}

/// Inserts a frame with the executions that begin with it, or nothing. `None` where the frame itself does
/// not go in.
fn insert_family(
    write: &Write<'_>,
    statements: &mut Statements<'_>,
    append: &Append,
) -> rusqlite::Result<Option<Appended>> {
    write.tx.execute_batch("SAVEPOINT family")?;
    if !insert_frame(write, statements, append)? {
        write.tx.execute_batch("RELEASE family")?;
        return Ok(None);
    }
    for birth in &append.side.births {
        if !give_birth(write, statements, birth)? {
            write.tx.execute_batch("ROLLBACK TO family; RELEASE family")?;
            write.forget_instances();
            return Ok(Some(Appended::Unborn));
        }
    }
    write_side(write, &append.header, &append.side)?;
    write.tx.execute_batch("RELEASE family")?;
    Ok(Some(Appended::Committed { at: write.now }))
}

/// Returns false if its number or name is taken.
fn give_birth(
    write: &Write<'_>,
    statements: &mut Statements<'_>,
    birth: &Append,
) -> rusqlite::Result<bool> {
    let (header, side) = (&birth.header, &birth.side);
    if let Some(names) = &side.submission
        && !submit(write, header.execution, names)?
    {
        return Ok(false);
    }
    let born = insert_frame(write, statements, birth)?;
    if born {
        write_side(write, header, side)?;
    }
    Ok(born)
}

/// How many executions hold the permits of the key, if the frame could go in and is rejected for that.
fn rejected(
    write: &Write<'_>,
    statements: &mut Statements<'_>,
    append: &Append,
) -> rusqlite::Result<Option<u64>> {
    let request = append.side.permit.as_ref().filter(|request| request.may_be_rejected());
    let Some(request) = request else { return Ok(None) };
    let header = &append.header;
    let mut there = write.tx.prepare_cached(queries::FRAME_FIND)?;
    let taken = there.exists([header.execution.0, to_stored(header.first_seq)?])?;
    if taken || !statements.is_next(header)? {
        return Ok(None);
    }
    permits::rejects(write, header.execution, request)
}

/// Releases the names of a new execution whose frame is not inserted.
fn give_back(
    write: &Write<'_>,
    header: &FrameHeader,
    submission: Option<&Submission>,
) -> rusqlite::Result<()> {
    if submission.is_some() {
        run(&write.tx, queries::SUBMISSION_DELETE, [header.execution.0])?;
    }
    Ok(())
}

fn insert_frame(
    write: &Write<'_>,
    statements: &mut Statements<'_>,
    append: &Append,
) -> rusqlite::Result<bool> {
    let header = &append.header;
    if !write.last_frames.has_parent_of(header) && !statements.is_next(header)? {
        return Ok(false);
    }
    for message in &append.side.relied_on {
        let place = params![header.execution.0, &**message];
        if first(&write.tx, queries::MAIL_FIND, place, |_| Ok(()))?.is_none() {
            return Ok(false);
        }
    }
    let inserted = statements.insert.execute(params![
        header.execution.0,
        to_stored(header.first_seq)?,
        to_stored(header.last_seq)?,
        header.append_id.0.as_bytes(),
        write.instance(header.instance)?,
        header.epoch,
        header.decided_at.0,
        write.now.0,
        header.requires,
        checksum(&append.body),
        append.body,
    ])?;
    Ok(inserted == 1)
}

/// A frame that did not go in may have gone in before: its reply was lost.
fn committed_before(write: &Write<'_>, header: &FrameHeader) -> rusqlite::Result<Option<Appended>> {
    let place = (header.execution.0, to_stored(header.first_seq)?);
    let at = first(&write.tx, queries::FRAME_FIND, place, |row| {
        let mine = row.get_ref(0)?.as_blob()? == header.append_id.0.as_bytes();
        Ok(mine.then_some(Timestamp(row.get(1)?)))
    })?;
    Ok(at.flatten().map(|at| Appended::Committed { at }))
}

/// Takes the names of a new execution; returns false if one of them is taken.
fn submit(
    write: &Write<'_>,
    execution: ExecutionNo,
    submission: &Submission,
) -> rusqlite::Result<bool> {
    let idempotency = submission.idempotency.as_ref();
    let row = params![
        execution.0,
        submission.key.as_str(),
        idempotency.map(|idempotency| &*idempotency.key),
        idempotency.map(|idempotency| idempotency.digest.as_slice()),
    ];
    Ok(run(&write.tx, queries::SUBMISSION_INSERT, row)? == 1)
}

/// The response to a first frame whose names or number are taken.
fn refused_start(
    write: &Write<'_>,
    header: &FrameHeader,
    submission: &Submission,
) -> rusqlite::Result<Appended> {
    if let Some(committed) = committed_before(write, header)? {
        return Ok(committed);
    }
    if let Some(idempotency) = &submission.idempotency {
        let key = [&*idempotency.key];
        let holder = first(&write.tx, queries::SUBMISSION_BY_IDEMPOTENCY, key, |row| {
            let same = row.get_ref(1)?.as_blob_or_null()? == Some(idempotency.digest.as_slice());
            let (execution, taken) = (ExecutionNo(row.get(0)?), TakenName::key(same));
            Ok(Appended::Duplicate { execution, taken })
        })?;
        if let Some(duplicate) = holder {
            return Ok(duplicate);
        }
    }
    let key = [submission.key.as_str()];
    let holder = first(&write.tx, queries::SUBMISSION_BY_KEY, key, |row| row.get(0))?;
    Ok(match holder.map(ExecutionNo) {
        Some(execution) => Appended::Duplicate { execution, taken: TakenName::Id },
        None => Appended::Fenced,
    })
}

fn write_side(write: &Write<'_>, header: &FrameHeader, side: &Side) -> rusqlite::Result<()> {
    let execution = header.execution.0;
    if !side.consumed.is_empty() {
        let mut consume = write.tx.prepare_cached(queries::MAIL_CONSUME)?;
        for message in &side.consumed {
            consume.execute(params![execution, &**message])?;
        }
    }
    if header.requires > FIRST_LOG_FORMAT {
        run(&write.tx, queries::CONTROL_REQUIRES, params![execution, header.requires])?;
    }
    if let Some(change) = &side.control {
        change_control(write, header, change)?;
    }
    if let Some(settled) = side.settled {
        let progress = settled == Settled::Progress;
        run(&write.tx, queries::CONTROL_SETTLED, params![execution, progress])?;
    }
    if let Some(request) = &side.permit {
        permits::request(write, header, request)?;
    }
    blob_refs::insert(write, header.execution, &side.blobs)?;
    if let Some(body) = &side.snapshot {
        let (first_seq, last_seq) = (to_stored(header.first_seq)?, to_stored(header.last_seq)?);
        let row = params![execution, first_seq, last_seq, checksum(body), body];
        run(&write.tx, queries::SNAPSHOT_SAVE, row)?;
    }
    outbox::enqueue(write, header, &side.messages)?;
    // Last: it may be for what was born with this frame.
    mail::deliver(write, &side.mail)?;
    if let Some(changes) = &side.topics {
        topics::change(write, header, (changes, &side.consumed))?;
    }
    Ok(())
}

/// The rows of the fire with which the frame's execution begins, if it does with one. Its trigger is as it was
/// when the fire was admitted: the transaction has the write lock.
fn write_fire(
    write: &Write<'_>,
    header: &FrameHeader,
    fire: Option<&Fire>,
) -> rusqlite::Result<()> {
    match fire {
        Some(fire) => triggers::fire(write, fire, header.execution),
        None => Ok(()),
    }
}

fn change_control(
    write: &Write<'_>,
    header: &FrameHeader,
    change: &ControlChange,
) -> rusqlite::Result<()> {
    let FrameHeader { execution, epoch, requires, .. } = *header;
    let (next_due, held, from) = match change {
        ControlChange::Owned => {
            let instance = write.instance(header.instance)?;
            let row = params![execution.0, instance, epoch, requires];
            run(&write.tx, queries::CONTROL_OWNED, row)?;
            return Ok(());
        }
        ControlChange::Ended => {
            for sql in [queries::CONTROL_ENDED, queries::MAIL_DISCARD, queries::SNAPSHOT_DISCARD] {
                run(&write.tx, sql, [execution.0])?;
            }
            return permits::release(write, execution);
        }
        ControlChange::Parked { next_due } => (next_due, None, Urgency::Ordinary),
        ControlChange::Held { reason, next_due } => (next_due, Some(reason), Urgency::Cancel),
    };
    let due = next_due.map(|due| due.0);
    let row = params![execution.0, epoch, due, held, from as u8, requires];
    run(&write.tx, queries::CONTROL_PARKED, row)?;
    Ok(())
}
