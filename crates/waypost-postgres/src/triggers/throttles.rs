//! Throttles: the queue of each key, and events that may start. The rules are in
//! `waypost_ports::triggers::throttles`. A queue is locked before its permits are counted and the time is read,
//! so that both are as of the last transaction that changed it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio_postgres::Row;
use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::{ItemDigest, Throttle};
use waypost_ports::triggers::throttles::{
    Admission, OVER_LIMIT, PERMIT_LEASE, REPLACED, StoredQueue,
};
use waypost_ports::triggers::{Arrival, Arrived, DueGroup, FireOutcome, GroupFence, TriggerNo};

use super::{fires, windows};
use crate::connection::{Connection, Params};
use crate::error::{DbError, Result};
use crate::queries::sql;
use crate::text::{array, count, from_stored, get, limit as most, narrow, text, to_stored};

/// A queue that is locked.
struct LockedQueue {
    number: i64,
    trigger: TriggerNo,
    key: Arc<str>,
    stored: StoredQueue,
}

fn read(row: &Row) -> Result<LockedQueue> {
    let starts: Vec<i64> = get(row, 5)?;
    let stored = StoredQueue {
        limit: narrow(row, 3)?,
        per: Millis(count(row, 4)?),
        starts: starts.into_iter().map(Timestamp).collect(),
        waiting: narrow(row, 6)?,
        bytes: usize::try_from(get::<i64>(row, 7)?).unwrap_or_default(),
    };
    let (number, trigger) = (get(row, 0)?, TriggerNo(get(row, 1)?));
    Ok(LockedQueue { number, trigger, key: text(row, 2)?, stored })
}

async fn lock(db: &mut Connection, trigger: TriggerNo, key: &str) -> Result<Option<LockedQueue>> {
    db.query_opt(sql!("throttle_lock"), &[&trigger.0, &key.as_bytes()], read).await
}

impl LockedQueue {
    /// How many of its events have permits, and the time.
    async fn permits(&self, db: &mut Connection) -> Result<(u32, Timestamp)> {
        let params: Params<'_> = &[&self.trigger.0, &self.key.as_bytes()];
        let row = db.query_one(sql!("throttle_permits"), params).await?;
        Ok((narrow(&row, 0)?, Timestamp(get(&row, 1)?)))
    }

    /// Writes it back with when it is due, or deletes it.
    async fn save(&mut self, db: &mut Connection, permits: u32, now: Timestamp) -> Result<()> {
        let Some(due) = self.stored.due(permits, now) else {
            return db.execute(sql!("throttle_delete"), &[&self.number]).await.map(drop);
        };
        let StoredQueue { starts, waiting, bytes, .. } = &self.stored;
        let starts: Vec<i64> = starts.iter().map(|start| start.0).collect();
        let params: Params<'_> =
            &[&self.number, &starts, &i64::from(*waiting), &most(*bytes), &due.0];
        db.execute(sql!("throttle_save"), params).await.map(drop)
    }

    /// Gives so many of the oldest events that wait their permits. Returns each with its label and payload.
    async fn grant(
        &self,
        db: &mut Connection,
        events: u32,
        now: Timestamp,
        lease: Millis,
    ) -> Result<Vec<(i64, Arc<str>, Arc<str>)>> {
        let params: Params<'_> = &[
            &self.number,
            &i64::from(events),
            &self.trigger.0,
            &self.key.as_bytes(),
            &now.0,
            &to_stored(lease.0)?,
        ];
        let read = |row: &Row| Ok((get(row, 0)?, text(row, 1)?, text(row, 2)?));
        db.query_map(sql!("throttle_grant"), params, read).await
    }

    /// The events that wait start nothing.
    async fn skip(&self, db: &mut Connection) -> Result<()> {
        let read = |row: &Row| Ok(ItemDigest(array(row, 0)?));
        let items: Vec<ItemDigest> =
            db.query_map(sql!("pending_skip"), &[&self.number], read).await?;
        fires::change(db, self.trigger, &items, FireOutcome::Skipped, REPLACED).await
    }
}

/// Puts events of one key before their throttle. Their items are there already. `groups` is how many groups of the
/// trigger there are, once that is known. Returns what became of each.
pub(super) async fn arrive(
    db: &mut Connection,
    arrivals: &[Arrival],
    events: &[usize],
    throttle: Throttle,
    groups: &mut Option<u64>,
) -> Result<Vec<Arrived>> {
    let Some(first) = events.first().map(|at| &arrivals[*at]) else { return Ok(Vec::new()) };
    let trigger = first.at.trigger;
    let mut queue = match lock(db, trigger, &first.group).await? {
        Some(queue) => queue,
        None if !windows::has_room(db, trigger, groups).await? => {
            return Ok(vec![Arrived::Full; events.len()]);
        }
        None => begin(db, first, throttle).await?,
    };
    let (mut permits, now) = queue.permits(db).await?;
    let (mut arrived, mut skipped) = (Vec::with_capacity(events.len()), Vec::new());
    for arrival in events.iter().map(|at| &arrivals[*at]) {
        arrived.push(match queue.stored.admit(throttle.over, arrival, permits, now) {
            Admission::Full => Arrived::Full,
            Admission::Skip => {
                skipped.push(arrival.item);
                Arrived::Skipped
            }
            Admission::Start => {
                let event = windows::wait(db, arrival, queue.number).await?;
                queue.grant(db, 1, now, PERMIT_LEASE).await?;
                permits += 1;
                Arrived::Permitted { seq: from_stored(event) }
            }
            Admission::Wait => {
                windows::wait(db, arrival, queue.number).await?;
                Arrived::Held
            }
            Admission::Replace => {
                queue.skip(db).await?;
                windows::wait(db, arrival, queue.number).await?;
                Arrived::Replaced
            }
        });
    }
    fires::change(db, trigger, &skipped, FireOutcome::Skipped, OVER_LIMIT).await?;
    queue.save(db, permits, now).await?;
    Ok(arrived)
}

/// A new queue, or the one that another instance has just made.
async fn begin(db: &mut Connection, arrival: &Arrival, throttle: Throttle) -> Result<LockedQueue> {
    let trigger = arrival.at.trigger;
    for _ in 0..windows::ATTEMPTS {
        let params: Params<'_> = &[
            &trigger.0,
            &arrival.group.as_bytes(),
            &0_i64,
            &i64::from(throttle.limit),
            &to_stored(throttle.per.0)?,
        ];
        db.execute(sql!("throttle_insert"), params).await?;
        if let Some(queue) = lock(db, trigger, &arrival.group).await? {
            return Ok(queue);
        }
    }
    Err(DbError::Unavailable("others keep deleting the queue of this key".to_owned()))
}

/// Permits were deleted: with the starts of executions, or without them. Their queues go on.
pub(super) async fn returned(
    db: &mut Connection,
    permits: Vec<(TriggerNo, Arc<str>)>,
    started: bool,
) -> Result<()> {
    // In the order of arrivals, in which two transactions lock their queues.
    let mut queues: BTreeMap<(TriggerNo, Arc<str>), usize> = BTreeMap::new();
    for names in permits {
        *queues.entry(names).or_default() += 1;
    }
    for ((trigger, key), returned) in queues {
        let Some(mut queue) = lock(db, trigger, &key).await? else { continue };
        let (permits, now) = queue.permits(db).await?;
        queue.stored.started(if started { returned } else { 0 }, now);
        queue.save(db, permits, now).await?;
    }
    Ok(())
}

/// Takes events that may start now. Their triggers are locked first, as by arrivals, so that none of them is
/// paused meanwhile.
pub(super) async fn claim(
    db: &mut Connection,
    limit: usize,
    lease: Millis,
) -> Result<Vec<DueGroup>> {
    let number = |row: &Row| get(row, 0);
    let triggers: Vec<i64> = db.query_map(sql!("throttles_due"), &[&most(limit)], number).await?;
    if triggers.is_empty() {
        return Ok(Vec::new());
    }
    db.begin().await?;
    db.query(sql!("triggers_share"), &[&triggers]).await?;
    let queues: Vec<LockedQueue> =
        db.query_map(sql!("throttles_claim"), &[&triggers, &most(limit)], read).await?;
    let rows = windows::loaded(db, &triggers).await?;
    let mut claimed = Vec::new();
    for mut queue in queues {
        let left = u32::try_from(limit.saturating_sub(claimed.len())).unwrap_or(u32::MAX);
        let Some(row) = rows.get(&queue.trigger.0).filter(|_| left > 0) else { continue };
        let (mut permits, now) = queue.permits(db).await?;
        let grants = queue.stored.grants(permits, now).min(left);
        if grants > 0 {
            for (event, label, payload) in queue.grant(db, grants, now, lease).await? {
                queue.stored.granted(1, payload.len());
                permits += 1;
                let fence = GroupFence { group: Arc::clone(&queue.key), seq: from_stored(event) };
                let (row, payloads) = (Arc::clone(row), vec![(payload, label)]);
                claimed.push(DueGroup { row, fence, first_at: now, last_at: now, payloads });
            }
        }
        queue.save(db, permits, now).await?;
    }
    db.commit().await?;
    Ok(claimed)
}

/// What holds the events of a trigger back has changed with a deploy.
pub(super) async fn change(
    db: &mut Connection,
    trigger: TriggerNo,
    throttle: Throttle,
) -> Result<()> {
    let params: Params<'_> = &[&trigger.0, &i64::from(throttle.limit), &to_stored(throttle.per.0)?];
    db.execute(sql!("throttles_change"), params).await.map(drop)
}
