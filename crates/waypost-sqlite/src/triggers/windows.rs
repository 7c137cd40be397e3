//! Windows: groups of events that wait.

use std::sync::Arc;

use rusqlite::{Connection, params};
use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::ItemDigest;
use waypost_ports::triggers::rules::WINDOW_GONE;
use waypost_ports::triggers::throttles::GroupRole;
use waypost_ports::triggers::{
    Arrival, Arrived, DueGroup, FireOutcome, GROUPS_MAX, GroupFence, StoredGroup, TriggerNo,
};

use super::{known, load, rows, throttles};
use crate::connection::{all, first, from_stored, run, to_stored, value};
use crate::queries;
use crate::store::Write;

/// An event of a group: its item, its label and its payload.
type WaitingRow = (ItemDigest, Arc<str>, Arc<str>);

pub(super) fn pause(write: &Write<'_>, trigger: TriggerNo, paused: bool) -> rusqlite::Result<()> {
    run(&write.tx, queries::GROUPS_PAUSE, params![trigger.0, paused]).map(drop)
}

/// The number of a group that is still as it was read, and whether it is a permit.
fn find(
    write: &Write<'_>,
    trigger: TriggerNo,
    fence: &GroupFence,
) -> rusqlite::Result<Option<(i64, bool)>> {
    let names = params![trigger.0, &*fence.group, to_stored(fence.seq)?];
    first(&write.tx, queries::GROUP_FIND, names, |row| {
        Ok((row.get(0)?, row.get::<_, u8>(1)? == GroupRole::Permit.code()))
    })
}

/// Is the group still as it was read, if one is named?
pub(super) fn has(
    write: &Write<'_>,
    trigger: TriggerNo,
    fence: Option<&GroupFence>,
) -> rusqlite::Result<bool> {
    let Some(fence) = fence else { return Ok(true) };
    Ok(find(write, trigger, fence)?.is_some())
}

/// Deletes a group, if one is named: with the start of an execution, or without one.
pub(super) fn delete(
    write: &Write<'_>,
    trigger: TriggerNo,
    fence: Option<&GroupFence>,
    started: bool,
) -> rusqlite::Result<()> {
    let Some(fence) = fence else { return Ok(()) };
    let Some((group, is_permit)) = find(write, trigger, fence)? else { return Ok(()) };
    delete_one(write, group)?;
    match is_permit {
        true => throttles::returned(write, trigger, &fence.group, started),
        false => Ok(()),
    }
}

pub(super) fn delete_one(write: &Write<'_>, group: i64) -> rusqlite::Result<()> {
    run(&write.tx, queries::PENDING_DELETE, [group])?;
    run(&write.tx, queries::GROUP_DELETE, [group]).map(drop)
}

pub(super) fn events(db: &Connection, group: i64) -> rusqlite::Result<Vec<WaitingRow>> {
    all(db, queries::PENDING_LIST, [group], |row| {
        Ok((rows::item(row, 0)?, rows::text(row, 1)?, rows::text(row, 2)?))
    })
}

/// The events of all groups of a trigger become dead letters.
pub(super) fn discard(write: &Write<'_>, trigger: TriggerNo) -> rusqlite::Result<()> {
    let tx = &write.tx;
    let groups: Vec<i64> = all(tx, queries::GROUPS_OF, [trigger.0], |row| row.get(0))?;
    for group in groups {
        for (item, label, payload) in events(tx, group)? {
            let item = item.0.as_slice();
            let row = params![trigger.0, item, FireOutcome::Dead.code(), WINDOW_GONE];
            run(tx, queries::FIRE_CHANGE, row)?;
            let row = params![trigger.0, item, &*label, write.now.0, WINDOW_GONE, &*payload];
            run(tx, queries::DEAD_FIRE_INSERT, row)?;
        }
        delete_one(write, group)?;
    }
    Ok(())
}

/// Puts an event into its window.
pub(super) fn arrive(write: &Write<'_>, arrival: &Arrival) -> rusqlite::Result<Arrived> {
    let (tx, now, trigger) = (&write.tx, write.now, arrival.at.trigger);
    if known(tx, trigger, &arrival.item)?.is_some() {
        return Ok(Arrived::Duplicate);
    }
    if !load(tx, trigger)?.is_some_and(|row| row.admits(arrival.at, None)) {
        return Ok(Arrived::Stale);
    }
    if let Some(throttle) = arrival.throttle() {
        return throttles::arrive(write, arrival, throttle);
    }
    let names = params![trigger.0, &*arrival.group];
    let open =
        first(tx, queries::GROUP_CURRENT, names, |row| Ok((row.get(0)?, group_at(row, 2)?)))?;
    let with = open.and_then(|(number, group)| Some((number, group.with(arrival, now)?)));
    let (number, stored) = match with {
        Some((number, group)) => {
            if arrival.replaces() {
                run(tx, queries::PENDING_DELETE, [number])?;
            }
            (number, group)
        }
        None => {
            if !has_room(write, trigger)? {
                return Ok(Arrived::Full);
            }
            if let Some((number, _)) = open {
                run(tx, queries::GROUP_CLOSE, [number, now.0])?;
            }
            let group = StoredGroup::of(arrival, now);
            run(
                tx,
                queries::GROUP_INSERT,
                params![
                    trigger.0,
                    &*arrival.group,
                    group.first_at.0,
                    group.last_at.0,
                    group.events,
                    bytes(group),
                    group.due.0
                ],
            )?;
            (tx.last_insert_rowid(), group)
        }
    };
    let seq = wait(write, arrival, number)?;
    let StoredGroup { first_at, last_at, events, due, .. } = stored;
    let row = params![number, seq, first_at.0, last_at.0, events, bytes(stored), due.0];
    run(tx, queries::GROUP_SAVE, row)?;
    note(write, arrival, FireOutcome::Collected, None)?;
    Ok(Arrived::Held)
}

/// May the trigger have one more group?
pub(super) fn has_room(write: &Write<'_>, trigger: TriggerNo) -> rusqlite::Result<bool> {
    Ok(from_stored(value(&write.tx, queries::GROUPS_COUNT, [trigger.0])?) < GROUPS_MAX)
}

/// Puts an event into a group; returns the event's id.
pub(super) fn wait(write: &Write<'_>, arrival: &Arrival, group: i64) -> rusqlite::Result<i64> {
    let row = params![group, arrival.item.0.as_slice(), &*arrival.label, &*arrival.payload];
    run(&write.tx, queries::PENDING_INSERT, row)?;
    Ok(write.tx.last_insert_rowid())
}

/// Writes down what became of an arrival.
pub(super) fn note(
    write: &Write<'_>,
    arrival: &Arrival,
    outcome: FireOutcome,
    reason: Option<&str>,
) -> rusqlite::Result<()> {
    let (trigger, item, label) = (arrival.at.trigger.0, &arrival.item.0, &*arrival.label);
    let (at, outcome) = (write.now.0, outcome.code());
    let row =
        params![trigger, item.as_slice(), label, at, None::<i64>, outcome, reason, None::<i64>];
    run(&write.tx, queries::FIRE_INSERT, row).map(drop)
}

fn bytes(group: StoredGroup) -> i64 {
    i64::try_from(group.bytes).unwrap_or(i64::MAX)
}

/// What is kept of a group, in five columns from this one on.
pub(super) fn group_at(row: &rusqlite::Row<'_>, first: usize) -> rusqlite::Result<StoredGroup> {
    Ok(StoredGroup {
        first_at: Timestamp(row.get(first)?),
        last_at: Timestamp(row.get(first + 1)?),
        events: row.get(first + 2)?,
        bytes: usize::try_from(row.get::<_, i64>(first + 3)?).unwrap_or_default(),
        due: Timestamp(row.get(first + 4)?),
    })
}

/// Takes groups that are due, and closes them.
pub(super) fn claim(
    write: &Write<'_>,
    limit: usize,
    lease: Millis,
) -> rusqlite::Result<Vec<DueGroup>> {
    let (tx, now) = (&write.tx, write.now);
    let mut claimed = throttles::claim(write, limit, lease)?;
    let left = limit.saturating_sub(claimed.len());
    let limit = i64::try_from(left).unwrap_or(i64::MAX);
    let due = all(tx, queries::GROUPS_DUE, [now.0, limit], |row| {
        let fence = GroupFence { group: rows::text(row, 2)?, seq: from_stored(row.get(3)?) };
        let times = (Timestamp(row.get(4)?), Timestamp(row.get(5)?));
        Ok((row.get(0)?, TriggerNo(row.get(1)?), fence, times))
    })?;
    for (number, trigger, fence, (first_at, last_at)) in due {
        run(tx, queries::GROUP_CLAIM, [number, now.plus(lease).0])?;
        let Some(stored) = load(tx, trigger)? else { continue };
        let payloads = events(tx, number)?.into_iter().map(|(_, label, payload)| (payload, label));
        let (row, payloads) = (Arc::new(stored.row), payloads.collect());
        claimed.push(DueGroup { row, fence, first_at, last_at, payloads });
    }
    Ok(claimed)
}
