//! Windows: groups of events that wait. An arrival locks the row of its group, which its flush deletes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use tokio_postgres::Row;
use waypost_core::time::{Millis, Timestamp};
use waypost_ports::triggers::rules::{StoredTrigger, WINDOW_GONE};
use waypost_ports::triggers::{
    Arrival, Arrived, DueGroup, FireOutcome, GROUPS_MAX, GroupFence, StoredGroup, TriggerClaim,
    TriggerNo, TriggerRow, TriggerState,
};

use super::fires::{self, Settled};
use super::{next_due, rows, throttles};
use crate::connection::{Connection, Params};
use crate::error::{DbError, Result};
use crate::queries::sql;
use crate::text::{count, from_stored, get, limit as most, narrow, text, to_stored};

/// A payload and the label of its item.
type WaitingPayload = (Arc<str>, Arc<str>);

/// How often to look again for a group that another instance has just made.
pub(super) const ATTEMPTS: u32 = 20;

pub(super) async fn pause(db: &mut Connection, trigger: TriggerNo, paused: bool) -> Result<()> {
    db.execute(sql!("groups_pause"), &[&trigger.0, &paused]).await.map(drop)
}

/// Locks a group, if one is named; `false` if it is not as it was read.
pub(super) async fn lock(
    db: &mut Connection,
    trigger: TriggerNo,
    fence: Option<&GroupFence>,
) -> Result<bool> {
    let Some(fence) = fence else { return Ok(true) };
    let params: Params<'_> = &[&trigger.0, &to_stored(fence.seq)?, &fence.group.as_bytes()];
    Ok(!db.query(sql!("group_lock"), params).await?.is_empty())
}

/// Deletes groups that are locked as they were read: with the starts of executions, or without them.
pub(super) async fn delete(
    db: &mut Connection,
    groups: &[(TriggerNo, &GroupFence)],
    started: bool,
) -> Result<()> {
    let triggers: Vec<i64> = groups.iter().map(|(trigger, _)| trigger.0).collect();
    let seqs: Vec<i64> =
        groups.iter().map(|(_, fence)| to_stored(fence.seq)).collect::<Result<_>>()?;
    let params: Params<'_> = &[&triggers, &seqs];
    let read = |row: &Row| Ok((TriggerNo(get(row, 0)?), text(row, 1)?));
    let permits = db.query_map(sql!("groups_delete"), params, read).await?;
    throttles::returned(db, permits, started).await
}

/// The events of all groups of a trigger become dead letters. Inside of the server: there may be very many.
pub(super) async fn discard(db: &mut Connection, trigger: TriggerNo) -> Result<()> {
    let dead = i16::from(FireOutcome::Dead.code());
    let params: Params<'_> = &[&trigger.0, &dead, &WINDOW_GONE.as_bytes()];
    db.execute(sql!("groups_discard"), params).await.map(drop)
}

/// Puts events into their windows.
pub(super) async fn arrive(db: &mut Connection, arrivals: &[Arrival]) -> Result<Vec<Arrived>> {
    db.begin().await?;
    let (admitted, now) = share(db, arrivals).await?;
    let of: Vec<_> = arrivals.iter().map(|one| (one.at.trigger, one.item)).collect();
    let known = fires::known(db, &of).await?;
    let mut seen = HashSet::new();
    let mut items = Settled::default();
    let mut outcomes: Vec<Arrived> = Vec::with_capacity(arrivals.len());
    for ((arrival, known), names) in arrivals.iter().zip(&known).zip(&of) {
        let outcome = match admitted.contains(&(arrival.at.trigger, arrival.at.revision)) {
            _ if known.is_some() || seen.contains(names) => Arrived::Duplicate,
            false => Arrived::Stale,
            true => {
                seen.insert(*names);
                Arrived::Held
            }
        };
        outcomes.push(outcome);
    }
    // By group, so that two instances lock theirs in one order; in a group, in the order of the list.
    let mut groups: BTreeMap<(TriggerNo, &str), Vec<usize>> = BTreeMap::new();
    for (at, arrival) in
        arrivals.iter().enumerate().filter(|(at, _)| outcomes[*at] == Arrived::Held)
    {
        groups.entry((arrival.at.trigger, &*arrival.group)).or_default().push(at);
    }
    for at in groups.values().flatten() {
        items.collect(arrivals[*at].at.trigger, &arrivals[*at].item, &arrivals[*at].label);
    }
    let new = items.insert(db).await?;
    for (outcome, names) in outcomes.iter_mut().zip(&of) {
        if *outcome == Arrived::Held && !new.contains(names) {
            *outcome = Arrived::Duplicate;
        }
    }
    let mut counts = HashMap::new();
    for ((trigger, _), mut events) in groups {
        events.retain(|at| outcomes[*at] == Arrived::Held);
        let count = counts.entry(trigger).or_default();
        match events.first().and_then(|first| arrivals[*first].throttle()) {
            Some(throttle) => {
                let queued = throttles::arrive(db, arrivals, &events, throttle, count);
                for (at, outcome) in events.iter().zip(queued.await?) {
                    outcomes[*at] = outcome;
                }
            }
            None => {
                let left_out = collect(db, arrivals, &events, now, count).await?;
                left_out.into_iter().for_each(|at| outcomes[at] = Arrived::Full);
            }
        }
    }
    let full = of.iter().zip(&outcomes).filter(|(_, outcome)| **outcome == Arrived::Full);
    fires::retract(db, full.map(|(names, _)| *names)).await?;
    db.commit().await?;
    Ok(outcomes)
}

/// The triggers that are active, with their revisions, which stay so until the commit; and the store's time.
async fn share(
    db: &mut Connection,
    arrivals: &[Arrival],
) -> Result<(HashSet<(TriggerNo, u64)>, Timestamp)> {
    let triggers: Vec<i64> = arrivals.iter().map(|arrival| arrival.at.trigger.0).collect();
    let (mut admitted, mut now) = (HashSet::new(), Timestamp::default());
    for row in db.query(sql!("triggers_share"), &[&triggers]).await? {
        if rows::decoded(&row, 2, TriggerState::from_code)? == TriggerState::Active {
            admitted.insert((TriggerNo(get(&row, 0)?), count(&row, 1)?));
        }
        now = Timestamp(get(&row, 3)?);
    }
    Ok((admitted, now))
}

/// Puts events of one key into its group, and into the next ones where that is due or full. `count` is how many
/// groups of the trigger there are, once that is known. Returns the events for which there is no room.
async fn collect(
    db: &mut Connection,
    arrivals: &[Arrival],
    events: &[usize],
    now: Timestamp,
    count: &mut Option<u64>,
) -> Result<Vec<usize>> {
    let Some(first) = events.first() else { return Ok(Vec::new()) };
    let (trigger, key) = (arrivals[*first].at.trigger, &arrivals[*first].group);
    let mut current = find(db, trigger, key).await?;
    let (mut seq, mut left_out) = (None, Vec::new());
    for at in events {
        let arrival = &arrivals[*at];
        let with = current.and_then(|(number, group)| Some((number, group.with(arrival, now)?)));
        let (number, group) = match with {
            Some(with) => {
                if arrival.replaces() {
                    db.execute(sql!("pending_delete"), &[&with.0]).await?;
                }
                with
            }
            None => {
                if !has_room(db, trigger, count).await? {
                    left_out.push(*at);
                    continue;
                }
                if let Some((number, group)) = current {
                    save(db, number, group, seq.take()).await?;
                    db.execute(sql!("group_close"), &[&number, &now.0]).await?;
                }
                begin(db, arrival, now).await?
            }
        };
        seq = Some(wait(db, arrival, number).await?);
        current = Some((number, group));
    }
    if let Some((number, group)) = current {
        save(db, number, group, seq).await?;
    }
    Ok(left_out)
}

/// Puts an event into a group; returns the event's id.
pub(super) async fn wait(db: &mut Connection, arrival: &Arrival, group: i64) -> Result<i64> {
    let (item, label) = (arrival.item.0.as_slice(), arrival.label.as_bytes());
    let params: Params<'_> = &[&group, &item, &label, &arrival.payload.as_bytes()];
    get(&db.query_one(sql!("pending_insert"), params).await?, 0)
}

/// Is there room for one more group? Counts it.
pub(super) async fn has_room(
    db: &mut Connection,
    trigger: TriggerNo,
    groups: &mut Option<u64>,
) -> Result<bool> {
    let before = match *groups {
        Some(before) => before,
        None => count(&db.query_one(sql!("groups_count"), &[&trigger.0]).await?, 0)?,
    };
    let has_room = before < GROUPS_MAX;
    *groups = Some(before + u64::from(has_room));
    Ok(has_room)
}

/// Locks the group of a key that takes events.
async fn find(
    db: &mut Connection,
    trigger: TriggerNo,
    key: &str,
) -> Result<Option<(i64, StoredGroup)>> {
    let read = |row: &Row| Ok((get(row, 0)?, group_at(row, 1)?));
    db.query_opt(sql!("group_current"), &[&trigger.0, &key.as_bytes()], read).await
}

/// What is kept of a group, in five columns from this one on.
pub(super) fn group_at(row: &Row, first: usize) -> Result<StoredGroup> {
    Ok(StoredGroup {
        first_at: Timestamp(get(row, first)?),
        last_at: Timestamp(get(row, first + 1)?),
        events: narrow(row, first + 2)?,
        bytes: usize::try_from(get::<i64>(row, first + 3)?).unwrap_or_default(),
        due: Timestamp(get(row, first + 4)?),
    })
}

/// A new group, or the one that another instance has just made.
async fn begin(
    db: &mut Connection,
    arrival: &Arrival,
    now: Timestamp,
) -> Result<(i64, StoredGroup)> {
    let (trigger, key) = (arrival.at.trigger, &arrival.group);
    for _ in 0..ATTEMPTS {
        let params: Params<'_> = &[&trigger.0, &key.as_bytes(), &now.0];
        let number = |row: &Row| get(row, 0);
        if let Some(number) = db.query_opt(sql!("group_insert"), params, number).await? {
            return Ok((number, StoredGroup::of(arrival, now)));
        }
        let Some((number, group)) = find(db, trigger, key).await? else { continue };
        match group.with(arrival, now) {
            Some(with) => {
                if arrival.replaces() {
                    db.execute(sql!("pending_delete"), &[&number]).await?;
                }
                return Ok((number, with));
            }
            None => drop(db.execute(sql!("group_close"), &[&number, &now.0]).await?),
        }
    }
    Err(DbError::Unavailable("others keep making groups of this key".to_owned()))
}

/// Writes a group back, if events were added.
async fn save(
    db: &mut Connection,
    number: i64,
    group: StoredGroup,
    seq: Option<i64>,
) -> Result<()> {
    let Some(seq) = seq else { return Ok(()) };
    let StoredGroup { first_at, last_at, events, bytes, due } = group;
    let params: Params<'_> =
        &[&number, &seq, &first_at.0, &last_at.0, &i64::from(events), &most(bytes), &due.0];
    db.execute(sql!("group_save"), params).await.map(drop)
}

/// Takes groups that are due, and closes them.
pub(super) async fn claim(
    db: &mut Connection,
    limit: usize,
    lease: Millis,
) -> Result<Vec<DueGroup>> {
    let (_, next_group, at) = next_due(db, &TriggerClaim::any(limit, lease)).await?;
    if next_group.is_none_or(|due| due > at) {
        return Ok(Vec::new());
    }
    let mut claimed = throttles::claim(db, limit, lease).await?;
    let limit = limit.saturating_sub(claimed.len());
    let params: Params<'_> = &[&most(limit), &to_stored(lease.0)?];
    let taken = db.query(sql!("groups_claim"), params).await?;
    let numbers: Vec<i64> = taken.iter().map(|row| get(row, 0)).collect::<Result<_>>()?;
    let mut payloads: HashMap<i64, Vec<WaitingPayload>> = HashMap::new();
    for row in db.query(sql!("pending_list"), &[&numbers]).await? {
        payloads.entry(get(&row, 0)?).or_default().push((text(&row, 2)?, text(&row, 1)?));
    }
    let triggers: Vec<i64> = taken.iter().map(|row| get(row, 1)).collect::<Result<_>>()?;
    let triggers = loaded(db, &triggers).await?;
    for row in &taken {
        let Some(trigger) = triggers.get(&get::<i64>(row, 1)?) else { continue };
        let Some(payloads) = payloads.remove(&get::<i64>(row, 0)?) else { continue };
        claimed.push(DueGroup {
            row: Arc::clone(trigger),
            fence: GroupFence { group: text(row, 2)?, seq: from_stored(get(row, 3)?) },
            first_at: Timestamp(get(row, 4)?),
            last_at: Timestamp(get(row, 5)?),
            payloads,
        });
    }
    Ok(claimed)
}

/// Triggers by their numbers.
pub(super) async fn loaded(
    db: &mut Connection,
    triggers: &[i64],
) -> Result<HashMap<i64, Arc<TriggerRow>>> {
    let triggers: Vec<StoredTrigger> =
        db.query_map(sql!("trigger_load"), &[&triggers], rows::stored).await?;
    let by_number = |stored: StoredTrigger| (stored.row.number.0, Arc::new(stored.row));
    Ok(triggers.into_iter().map(by_number).collect())
}
