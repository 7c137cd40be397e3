//! Throttles: the queue of each key, and events that may start. The rules are in
//! `waypost_ports::triggers::throttles`.

use std::sync::Arc;

use rusqlite::{Row, params};
use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::Throttle;
use waypost_ports::triggers::throttles::{
    Admission, OVER_LIMIT, PERMIT_LEASE, REPLACED, StoredQueue,
};
use waypost_ports::triggers::{Arrival, Arrived, DueGroup, FireOutcome, GroupFence, TriggerNo};

use super::{load, rows, windows};
use crate::connection::{all, first, from_stored, run, value};
use crate::queries;
use crate::store::Write;

/// A queue with the row that it is.
struct QueueRow {
    number: i64,
    trigger: TriggerNo,
    key: Arc<str>,
    stored: StoredQueue,
}

fn read(row: &Row<'_>) -> rusqlite::Result<QueueRow> {
    let starts: Vec<i64> = rows::parsed(row, 5)?;
    let stored = StoredQueue {
        limit: row.get(3)?,
        per: Millis(from_stored(row.get(4)?)),
        starts: starts.into_iter().map(Timestamp).collect(),
        waiting: row.get(6)?,
        bytes: usize::try_from(row.get::<_, i64>(7)?).unwrap_or_default(),
    };
    let (number, trigger) = (row.get(0)?, TriggerNo(row.get(1)?));
    Ok(QueueRow { number, trigger, key: rows::text(row, 2)?, stored })
}

fn find(write: &Write<'_>, trigger: TriggerNo, key: &str) -> rusqlite::Result<Option<QueueRow>> {
    first(&write.tx, queries::THROTTLE_FIND, params![trigger.0, key], read)
}

impl QueueRow {
    fn permits(&self, write: &Write<'_>) -> rusqlite::Result<u32> {
        value(&write.tx, queries::THROTTLE_PERMITS, params![self.trigger.0, &*self.key])
    }

    /// Writes it back with when it is due, or deletes it.
    fn save(&mut self, write: &Write<'_>) -> rusqlite::Result<()> {
        let permits = self.permits(write)?;
        let Some(due) = self.stored.due(permits, write.now) else {
            return windows::delete_one(write, self.number);
        };
        let starts: Vec<i64> = self.stored.starts.iter().map(|start| start.0).collect();
        let bytes = i64::try_from(self.stored.bytes).unwrap_or(i64::MAX);
        let row = params![self.number, rows::written(&starts)?, self.stored.waiting, bytes, due.0];
        run(&write.tx, queries::THROTTLE_SAVE, row).map(drop)
    }

    /// The event of this id and size may start; until then, other claims leave it alone.
    fn permit(
        &self,
        write: &Write<'_>,
        event: i64,
        bytes: usize,
        until: Timestamp,
    ) -> rusqlite::Result<()> {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let row = params![self.trigger.0, &*self.key, event, write.now.0, bytes, until.0];
        run(&write.tx, queries::THROTTLE_PERMIT, row)?;
        let group = write.tx.last_insert_rowid();
        run(&write.tx, queries::PENDING_MOVE, [event, group]).map(drop)
    }
}

/// Puts an event before its throttle.
pub(super) fn arrive(
    write: &Write<'_>,
    arrival: &Arrival,
    throttle: Throttle,
) -> rusqlite::Result<Arrived> {
    let trigger = arrival.at.trigger;
    let mut queue = match find(write, trigger, &arrival.group)? {
        Some(queue) => queue,
        None if !windows::has_room(write, trigger)? => return Ok(Arrived::Full),
        None => begin(write, arrival, throttle)?,
    };
    let permits = queue.permits(write)?;
    let (collected, now) = (FireOutcome::Collected, write.now);
    let arrived = match queue.stored.admit(throttle.over, arrival, permits, now) {
        Admission::Full => return Ok(Arrived::Full),
        Admission::Skip => {
            windows::note(write, arrival, FireOutcome::Skipped, Some(OVER_LIMIT))?;
            Arrived::Skipped
        }
        Admission::Start => {
            windows::note(write, arrival, collected, None)?;
            let event = windows::wait(write, arrival, queue.number)?;
            queue.permit(write, event, arrival.payload.len(), now.plus(PERMIT_LEASE))?;
            Arrived::Permitted { seq: from_stored(event) }
        }
        Admission::Wait => {
            windows::note(write, arrival, collected, None)?;
            windows::wait(write, arrival, queue.number)?;
            Arrived::Held
        }
        Admission::Replace => {
            skip(write, &queue)?;
            windows::note(write, arrival, collected, None)?;
            windows::wait(write, arrival, queue.number)?;
            Arrived::Replaced
        }
    };
    queue.save(write)?;
    Ok(arrived)
}

/// The queue of a key that has none.
fn begin(write: &Write<'_>, arrival: &Arrival, throttle: Throttle) -> rusqlite::Result<QueueRow> {
    let (trigger, key) = (arrival.at.trigger, Arc::clone(&arrival.group));
    let stored = StoredQueue::new(throttle);
    let per = i64::try_from(stored.per.0).unwrap_or(i64::MAX);
    let row = params![trigger.0, &*key, write.now.0, stored.limit, per];
    run(&write.tx, queries::THROTTLE_INSERT, row)?;
    Ok(QueueRow { number: write.tx.last_insert_rowid(), trigger, key, stored })
}

/// The events that wait start nothing.
fn skip(write: &Write<'_>, queue: &QueueRow) -> rusqlite::Result<()> {
    for (item, ..) in windows::events(&write.tx, queue.number)? {
        let (item, skipped) = (item.0.as_slice(), FireOutcome::Skipped.code());
        let row = params![queue.trigger.0, item, skipped, REPLACED];
        run(&write.tx, queries::FIRE_CHANGE, row)?;
    }
    run(&write.tx, queries::PENDING_DELETE, [queue.number]).map(drop)
}

/// A permit was deleted: with the start of an execution, or without one. Its queue goes on.
pub(super) fn returned(
    write: &Write<'_>,
    trigger: TriggerNo,
    key: &str,
    started: bool,
) -> rusqlite::Result<()> {
    let Some(mut queue) = find(write, trigger, key)? else { return Ok(()) };
    queue.stored.started(usize::from(started), write.now);
    queue.save(write)
}

/// Takes events that may start now.
pub(super) fn claim(
    write: &Write<'_>,
    limit: usize,
    lease: Millis,
) -> rusqlite::Result<Vec<DueGroup>> {
    let (tx, now) = (&write.tx, write.now);
    let most = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut claimed = Vec::new();
    for mut queue in all(tx, queries::THROTTLES_DUE, params![now.0, most], read)? {
        let left = u32::try_from(limit.saturating_sub(claimed.len())).unwrap_or(u32::MAX);
        if left == 0 {
            break;
        }
        let permits = queue.permits(write)?;
        let grants = queue.stored.grants(permits, now).min(left);
        let events = all(tx, queries::PENDING_FIRST, params![queue.number, grants], |row| {
            Ok((row.get::<_, i64>(0)?, rows::text(row, 1)?, rows::text(row, 2)?))
        })?;
        let Some(stored) = load(tx, queue.trigger)? else { continue };
        let row = Arc::new(stored.row);
        for (event, label, payload) in events {
            queue.permit(write, event, payload.len(), now.plus(lease))?;
            queue.stored.granted(1, payload.len());
            let fence = GroupFence { group: Arc::clone(&queue.key), seq: from_stored(event) };
            let (row, payloads) = (Arc::clone(&row), vec![(payload, label)]);
            claimed.push(DueGroup { row, fence, first_at: now, last_at: now, payloads });
        }
        queue.save(write)?;
    }
    Ok(claimed)
}

/// What holds the events of a trigger back has changed with a deploy.
pub(super) fn change(
    write: &Write<'_>,
    trigger: TriggerNo,
    throttle: Throttle,
) -> rusqlite::Result<()> {
    let per = i64::try_from(throttle.per.0).unwrap_or(i64::MAX);
    let row = params![trigger.0, throttle.limit, per, write.now.0];
    run(&write.tx, queries::THROTTLES_CHANGE, row).map(drop)
}
