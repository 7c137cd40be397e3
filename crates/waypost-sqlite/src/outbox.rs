//! Webhook endpoints and their messages. Everything that changes them holds the file's write lock, so that
//! claims and results take turns.

mod registration;
mod rows;

use std::collections::BTreeMap;
use std::sync::Arc;

use rusqlite::params;
use uuid::Uuid;
use waypost_core::frame::FrameHeader;
use waypost_core::id::ExecutionNo;
use waypost_core::outbox::delivery::{EndpointHealth, MessageNext, judge};
use waypost_core::outbox::{MessageKind, Outgoing, are_awaited};
use waypost_core::time::{Millis, Timestamp};
use waypost_ports::outbox::{
    ClaimedMessages, DEAD_KEPT, DELIVERED_KEPT, EXPIRED, EndpointChange, EndpointRow,
    EndpointState, FORMER_SECRET_KEPT, MessageClaim, MessageResult, MessageState, MessagesPage,
    MessagesRequest, NewEndpoint, OVER_QUOTA, Outbox, OutboxMessage, OutboxStats, PENDING_KEPT,
    Replay, TRIM_MAX, frame_mark,
};
use waypost_ports::store::StoreError;
use waypost_ports::triggers::TriggerAt;

pub(crate) use registration::add;
use registration::delete;

use crate::connection::{all, first, limit_and_one, run, to_stored, value};
use crate::store::{SqliteStore, Write};
use crate::{instances, mail, queries, triggers};

/// Messages that are looked at together.
const PAGE: i64 = 64;

impl Outbox for SqliteStore {
    fn add_endpoint(&self, endpoint: &NewEndpoint) -> Result<(), StoreError> {
        match self.write(|write| add(write, endpoint))? {
            true => Ok(()),
            false => {
                let id = &endpoint.id;
                Err(StoreError::Refused(format!("there is an endpoint {id} already")))
            }
        }
    }

    fn endpoints(&self) -> Result<Vec<EndpointRow>, StoreError> {
        self.readers.read(|db| all(db, queries::ENDPOINTS_LIST, [], rows::endpoint))
    }

    fn change_endpoint(&self, id: &str, change: &EndpointChange) -> Result<bool, StoreError> {
        self.write(|write| {
            let tx = &write.tx;
            let changed = match change {
                EndpointChange::Pause => {
                    run(tx, queries::ENDPOINT_STATE, params![id, EndpointState::Paused.code()])?
                }
                EndpointChange::Resume => {
                    run(tx, queries::ENDPOINT_STATE, params![id, EndpointState::Active.code()])?
                }
                EndpointChange::Rotate(secret) => {
                    let until = write.now.plus(FORMER_SECRET_KEPT);
                    run(tx, queries::ENDPOINT_ROTATE, params![id, secret.0, until.0])?
                }
            };
            Ok(changed > 0)
        })
    }

    fn delete_endpoint(&self, id: &str) -> Result<bool, StoreError> {
        self.write(|write| delete(write, id))
    }

    fn delete_endpoint_of(&self, id: &str, at: TriggerAt) -> Result<bool, StoreError> {
        self.write(|write| {
            let found = triggers::load(&write.tx, at.trigger)?;
            Ok(found.is_some_and(|stored| stored.row.at() == at) && delete(write, id)?)
        })
    }

    fn claim_messages(&self, request: &MessageClaim) -> Result<ClaimedMessages, StoreError> {
        self.write(|write| {
            let reported = report_deliveries(write)?;
            let mut request = *request;
            if instances::has_expired(write, write.instance(request.instance)?)? {
                request.limit = 0;
            } else {
                instances::release_expired(write)?;
            }
            Ok(ClaimedMessages { reported, ..claim(write, &request)? })
        })
    }

    fn settle_messages(
        &self,
        claim: Uuid,
        results: &[MessageResult],
    ) -> Result<Vec<ExecutionNo>, StoreError> {
        self.write(|write| {
            results.iter().try_for_each(|result| settle(write, claim, result))?;
            report_deliveries(write)
        })
    }

    fn messages(&self, request: &MessagesRequest) -> Result<MessagesPage, StoreError> {
        let MessagesRequest { endpoint, execution, state, before, limit } = request;
        let before = before.map_or(i64::MAX, |place| i64::try_from(place).unwrap_or(i64::MAX));
        let state = state.map(MessageState::code);
        self.readers.read(|db| {
            let (most, endpoint) = (limit_and_one(*limit), endpoint.as_deref());
            let mut rows = match execution {
                None => {
                    let params = params![before, most, endpoint, state];
                    all(db, queries::OUTBOX_LIST, params, rows::message_row)?
                }
                Some(execution) => {
                    let params = params![before, most, endpoint, state, execution.0];
                    all(db, queries::OUTBOX_OF_EXECUTION, params, rows::message_row)?
                }
            };
            let more = rows.len() > *limit;
            rows.truncate(*limit);
            Ok(MessagesPage { rows, more })
        })
    }

    fn replay_messages(&self, endpoint: &str, which: &Replay) -> Result<u64, StoreError> {
        self.write(|write| replay(write, endpoint, which))
    }

    fn trim_outbox(&self, pending_max: usize) -> Result<u64, StoreError> {
        self.write(|write| trim(write, pending_max))
    }

    fn outbox_stats(&self) -> Result<OutboxStats, StoreError> {
        let now = self.write(|write| Ok(write.now))?;
        let read = |row: &rusqlite::Row<'_>| rows::stats(row, now);
        let stats = self.readers.read(|db| first(db, queries::OUTBOX_STATS, [], read))?;
        Ok(stats.unwrap_or_default())
    }
}

fn has_endpoints(write: &Write<'_>) -> rusqlite::Result<bool> {
    if let Some(known) = write.has_endpoints.get() {
        return Ok(*known);
    }
    let found = value(&write.tx, queries::ENDPOINTS_EXIST, [])?;
    Ok(*write.has_endpoints.get_or_init(|| found))
}

/// Writes the messages of a frame that went in.
pub(crate) fn enqueue(
    write: &Write<'_>,
    header: &FrameHeader,
    messages: &[Outgoing],
) -> rusqlite::Result<()> {
    if messages.is_empty() {
        return Ok(());
    }
    let mark = frame_mark(header.append_id.0);
    for message in messages.iter().filter(|message| message.awaited) {
        let row = params![header.execution.0, to_stored(message.seq)?, mark];
        run(&write.tx, queries::AWAITED_ADD, row)?;
    }
    if has_endpoints(write)? {
        enqueue_for_endpoints(write, header, messages)?;
    }
    match are_awaited(messages) {
        true => report_deliveries(write).map(drop),
        false => Ok(()),
    }
}

/// Mails what became of the messages that nodes wait for; returns the executions.
fn report_deliveries(write: &Write<'_>) -> rusqlite::Result<Vec<ExecutionNo>> {
    let mut reported = Vec::new();
    for result in all(&write.tx, queries::AWAITED_SETTLED, [], rows::awaited)? {
        mail::deliver(write, &[result.mail()])?;
        let row = params![result.execution.0, to_stored(result.seq)?];
        run(&write.tx, queries::AWAITED_REMOVE, row)?;
        reported.push(result.execution);
    }
    Ok(reported)
}

fn enqueue_for_endpoints(
    write: &Write<'_>,
    header: &FrameHeader,
    messages: &[Outgoing],
) -> rusqlite::Result<()> {
    for message in messages {
        let row = params![
            header.execution.0,
            to_stored(message.seq)?,
            frame_mark(header.append_id.0),
            message.kind.code(),
            write.now.0,
            to_stored(header.first_seq)?,
            message.data.render(),
            &*message.workflow,
        ];
        run(&write.tx, queries::MESSAGE_ENQUEUE, row)?;
    }
    Ok(())
}

fn claim(write: &Write<'_>, request: &MessageClaim) -> rusqlite::Result<ClaimedMessages> {
    let tx = &write.tx;
    let mut claimed = ClaimedMessages {
        endpoints: has_endpoints(write)?,
        at: write.now,
        ..ClaimedMessages::default()
    };
    if !claimed.endpoints {
        return Ok(claimed);
    }
    let ready = all(tx, queries::OUTBOX_READY, (write.now.0, request.for_triggers), rows::ready)?;
    let mut endpoints = BTreeMap::new();
    for row in all(tx, queries::ENDPOINTS_LIST, [], rows::endpoint)? {
        claimed.handoffs |= row.endpoint.kinds.contains(MessageKind::Handoff);
        endpoints.insert(Arc::clone(&row.endpoint.id), Arc::new(row));
    }
    for endpoint in ready {
        let room = endpoint.health.room(endpoint.under_way, write.now);
        let room = room.min(request.limit.saturating_sub(claimed.messages.len()));
        let taken = take(write, request, &endpoint, room)?;
        let Some(row) = endpoints.get(&endpoint.id).filter(|_| !taken.is_empty()) else { continue };
        let health = endpoint.health.claimed(write.now.plus(request.lease));
        save_health(write, endpoint.number, health, false)?;
        claimed.messages.extend(taken.into_iter().map(|message| (message, Arc::clone(row))));
    }
    claimed.next_due =
        value::<Option<i64>>(tx, queries::OUTBOX_NEXT_DUE, [request.for_triggers])?.map(Timestamp);
    Ok(claimed)
}

/// Makes what an instance has claimed due: it is dead. Of every instance where there is no number.
pub(crate) fn release(write: &Write<'_>, instance: Option<i64>) -> rusqlite::Result<()> {
    let tx = &write.tx;
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let claimed: Vec<(i64, i64, i64)> =
        all(tx, queries::OUTBOX_CLAIMED, params![write.now.0, instance], row)?;
    for (place, endpoint, ends) in claimed {
        run(tx, queries::OUTBOX_TAKE, params![place, None::<&[u8]>, write.now.0, None::<i64>])?;
        let health =
            first(tx, queries::ENDPOINT_HEALTH_NUMBERED, [endpoint], rows::numbered_health)?;
        let Some((_, health)) = health else { continue };
        save_health(write, endpoint, health.released(Timestamp(ends), write.now), false)?;
    }
    Ok(())
}

/// Claims messages of one endpoint. Messages that wait for an earlier one about their execution are put off
/// until just after that one is due, also if it is due already. So they are not looked at again and again, and a
/// page never consists of messages alone that wait for messages behind it: nothing would be claimed any more.
fn take(
    write: &Write<'_>,
    request: &MessageClaim,
    endpoint: &rows::Ready,
    room: usize,
) -> rusqlite::Result<Vec<OutboxMessage>> {
    let ends = write.now.plus(request.lease);
    let claimer = write.instance(request.instance)?;
    let mut taken = Vec::new();
    let mut update = write.tx.prepare_cached(queries::OUTBOX_TAKE)?;
    while taken.len() < room {
        let page = params![endpoint.number, write.now.0, PAGE];
        let id = &endpoint.id;
        let candidates =
            all(&write.tx, queries::OUTBOX_CANDIDATES, page, |row| rows::candidate(row, id))?;
        let mut moved = false;
        for candidate in candidates {
            let name = &candidate.message.name;
            let is_behind = |other: &OutboxMessage| other.name.execution == name.execution;
            let behind = match taken.iter().any(is_behind) {
                true => Some(ends),
                false => candidate.behind,
            };
            match behind {
                Some(due) if candidate.due <= due => {
                    let due = due.plus(Millis(1));
                    update.execute(params![candidate.place, None::<&[u8]>, due.0, None::<i64>])?;
                    moved = true;
                }
                Some(_) => {}
                None if taken.len() < room => {
                    let claim = request.claim.as_bytes().as_slice();
                    update.execute(params![candidate.place, claim, ends.0, claimer])?;
                    taken.push(candidate.message);
                    moved = true;
                }
                None => {}
            }
        }
        if !moved {
            break;
        }
    }
    Ok(taken)
}

fn save_health(
    write: &Write<'_>,
    endpoint: i64,
    health: EndpointHealth,
    disables: bool,
) -> rusqlite::Result<()> {
    let EndpointHealth { failures, probe_at, probing } = health;
    let row = params![endpoint, failures, probe_at.map(|at| at.0), probing, disables];
    run(&write.tx, queries::ENDPOINT_HEALTH_SET, row)?;
    Ok(())
}

fn settle(write: &Write<'_>, claim: Uuid, result: &MessageResult) -> rusqlite::Result<()> {
    let (tx, name) = (&write.tx, &result.name);
    let found = first(tx, queries::ENDPOINT_HEALTH, [&*name.endpoint], rows::numbered_health)?;
    let Some((endpoint, health)) = found else { return Ok(()) };
    let claimed = params![
        endpoint,
        name.execution.0,
        to_stored(name.seq)?,
        name.mark,
        claim.as_bytes().as_slice()
    ];
    let found =
        first(tx, queries::OUTBOX_CLAIMED_BY, claimed, |row| Ok((row.get(0)?, row.get(1)?)))?;
    let Some((place, attempts)): Option<(i64, u32)> = found else { return Ok(()) };
    let verdict = judge(health, attempts, &result.result, write.now, result.jitter);
    save_health(write, endpoint, verdict.health, verdict.disables)?;
    let (state, due) = match verdict.message {
        MessageNext::Delivered => (MessageState::Delivered, None),
        MessageNext::Dead => (MessageState::Dead, None),
        MessageNext::Retry { due } => (MessageState::Pending, Some(due.0)),
    };
    let settled_at = (state != MessageState::Pending).then_some(write.now.0);
    let row = params![
        place,
        state.code(),
        verdict.attempts,
        due,
        result.result.status(),
        to_stored(result.took.0)?,
        result.result.reason(),
        settled_at
    ];
    run(tx, queries::OUTBOX_SETTLE, row)?;
    if settled_at.is_some() {
        run(tx, queries::OUTBOX_WAKE, params![endpoint, name.execution.0, write.now.0])?;
    }
    Ok(())
}

fn replay(write: &Write<'_>, endpoint: &str, which: &Replay) -> rusqlite::Result<u64> {
    let (tx, now) = (&write.tx, write.now.0);
    let (state, since): (Option<u8>, Option<i64>) = match which {
        Replay::Dead => (Some(MessageState::Dead.code()), None),
        Replay::Since(time) => (None, Some(time.0)),
        Replay::Only(names) => {
            let mut replayed = 0;
            for name in names.iter().filter(|name| *name.endpoint == *endpoint) {
                let (execution, seq) = (name.execution.0, to_stored(name.seq)?);
                let row = params![endpoint, now, execution, seq, name.mark];
                replayed += run(tx, queries::OUTBOX_REPLAY_ONE, row)?;
            }
            return Ok(replayed as u64);
        }
    };
    Ok(run(tx, queries::OUTBOX_REPLAY, params![endpoint, now, state, since])? as u64)
}

fn trim(write: &Write<'_>, pending_max: usize) -> rusqlite::Result<u64> {
    let (tx, now) = (&write.tx, write.now);
    let limit = i64::try_from(TRIM_MAX).unwrap_or(i64::MAX);
    let mut changed = 0;
    let kept = [(MessageState::Delivered, DELIVERED_KEPT), (MessageState::Dead, DEAD_KEPT)];
    for (state, span) in kept {
        let row = params![state.code(), now.minus(span).0, limit];
        changed += run(tx, queries::OUTBOX_FORGET, row)?;
    }
    let pending_max = i64::try_from(pending_max).unwrap_or(i64::MAX);
    let crowded: Vec<(i64, i64)> =
        all(tx, queries::OUTBOX_CROWDED, [pending_max], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (endpoint, pending) in crowded {
        let over = pending.saturating_sub(pending_max).min(limit);
        changed += run(tx, queries::OUTBOX_SHED, params![now.0, endpoint, OVER_QUOTA, over])?;
    }
    let row = params![now.0, now.minus(PENDING_KEPT).0, EXPIRED, limit];
    changed += run(tx, queries::OUTBOX_EXPIRE, row)?;
    Ok(changed as u64)
}
