//! Webhook endpoints and their messages.
//!
//! Claims and results lock the row of the endpoint first, so that its limits hold for all instances; claims
//! skip an endpoint that is locked. Appends lock neither: they only insert messages.

mod awaited;
mod registration;
mod rows;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use uuid::Uuid;
use waypost_core::id::ExecutionNo;
use waypost_core::outbox::delivery::{EndpointHealth, MessageNext, judge};
use waypost_core::outbox::{MessageKind, MessageKinds};
use waypost_core::time::{Millis, Timestamp};
use waypost_ports::outbox::{
    ClaimedMessages, DEAD_KEPT, DELIVERED_KEPT, EXPIRED, EndpointChange, EndpointRow,
    EndpointState, FORMER_SECRET_KEPT, MessageClaim, MessageResult, MessageState, MessagesPage,
    MessagesRequest, NewEndpoint, OVER_QUOTA, Outbox, OutboxMessage, OutboxStats, PENDING_KEPT,
    Replay, TRIM_MAX,
};
use waypost_ports::store::StoreError;
use waypost_ports::triggers::TriggerAt;

pub(crate) use awaited::await_results;
use awaited::{put_results, wake_for_results};
use registration::add;
pub(crate) use registration::{add_unless_known, registering};

use crate::connection::{Connection, Params, Role};
use crate::error::Result;
use crate::queries::sql;
use crate::store::PostgresStore;
use crate::text::{get, limit, limit_and_one, time};
use crate::triggers;

/// Messages that are looked at together.
const PAGE: i64 = 64;

impl Outbox for PostgresStore {
    fn add_endpoint(&self, endpoint: &NewEndpoint) -> Result<(), StoreError> {
        let add = || {
            self.try_run(Role::Api, async |db| {
                db.begin().await?;
                let added = add(db, endpoint).await?;
                db.commit().await?;
                Ok(added)
            })
        };
        match registering(add)? {
            0 => {
                let id = &endpoint.id;
                Err(StoreError::Refused(format!("there is an endpoint {id} already")))
            }
            _ => Ok(()),
        }
    }

    fn endpoints(&self) -> Result<Vec<EndpointRow>, StoreError> {
        self.run(Role::Api, async |db| {
            db.query_map(sql!("endpoints_list"), &[], rows::endpoint).await
        })
    }

    fn change_endpoint(&self, id: &str, change: &EndpointChange) -> Result<bool, StoreError> {
        self.run(Role::Api, async |db| {
            let id = id.as_bytes();
            let state = |state: EndpointState| i16::from(state.code());
            let changed = match change {
                EndpointChange::Pause => {
                    let params: Params<'_> = &[&id, &state(EndpointState::Paused)];
                    db.execute(sql!("endpoint_state"), params).await?
                }
                EndpointChange::Resume => {
                    let params: Params<'_> = &[&id, &state(EndpointState::Active)];
                    db.execute(sql!("endpoint_state"), params).await?
                }
                EndpointChange::Rotate(secret) => {
                    let params: Params<'_> = &[&id, &secret.0, &span(FORMER_SECRET_KEPT)];
                    db.execute(sql!("endpoint_rotate"), params).await?
                }
            };
            Ok(changed > 0)
        })
    }

    fn delete_endpoint(&self, id: &str) -> Result<bool, StoreError> {
        self.run(Role::Api, async |db| {
            db.begin().await?;
            let deleted = delete(db, id).await?;
            db.commit().await?;
            Ok(deleted)
        })
    }

    fn delete_endpoint_of(&self, id: &str, at: TriggerAt) -> Result<bool, StoreError> {
        self.run(Role::Engine, async |db| {
            db.begin().await?;
            let deleted = triggers::hold(db, at).await? && delete(db, id).await?;
            db.commit().await?;
            Ok(deleted)
        })
    }

    fn claim_messages(&self, request: &MessageClaim) -> Result<ClaimedMessages, StoreError> {
        self.run(Role::Engine, async |db| claim(db, request).await)
    }

    fn settle_messages(
        &self,
        claim: Uuid,
        results: &[MessageResult],
    ) -> Result<Vec<ExecutionNo>, StoreError> {
        // In one order, so that two instances cannot wait for each other.
        let mut by_endpoint: BTreeMap<&str, Vec<&MessageResult>> = BTreeMap::new();
        for result in results {
            by_endpoint.entry(&result.name.endpoint).or_default().push(result);
        }
        self.run(Role::Engine, async |db| {
            let mut reported = Vec::new();
            for (endpoint, results) in &by_endpoint {
                reported.extend(settle(db, claim, endpoint, results).await?);
            }
            Ok(reported)
        })
    }

    fn messages(&self, request: &MessagesRequest) -> Result<MessagesPage, StoreError> {
        let MessagesRequest { endpoint, execution, state, before, limit } = request;
        let before = before.map_or(i64::MAX, |place| i64::try_from(place).unwrap_or(i64::MAX));
        let endpoint = endpoint.as_ref().map(|id| id.as_bytes());
        let state = state.map(|state| i16::from(state.code()));
        self.run(Role::Api, async |db| {
            let most = limit_and_one(*limit);
            let mut rows: Vec<_> = match execution {
                None => {
                    let params: Params<'_> = &[&before, &most, &endpoint, &state];
                    db.query_map(sql!("outbox_list"), params, rows::message_row).await?
                }
                Some(execution) => {
                    let params: Params<'_> = &[&before, &most, &endpoint, &state, &execution.0];
                    db.query_map(sql!("outbox_of_execution"), params, rows::message_row).await?
                }
            };
            let more = rows.len() > *limit;
            rows.truncate(*limit);
            Ok(MessagesPage { rows, more })
        })
    }

    fn replay_messages(&self, endpoint: &str, which: &Replay) -> Result<u64, StoreError> {
        self.run(Role::Api, async |db| replay(db, endpoint, which).await)
    }

    fn trim_outbox(&self, pending_max: usize) -> Result<u64, StoreError> {
        self.run(Role::Engine, async |db| {
            let most = limit(TRIM_MAX);
            let params: Params<'_> = &[
                &span(DELIVERED_KEPT),
                &span(DEAD_KEPT),
                &span(PENDING_KEPT),
                &EXPIRED.as_bytes(),
                &most,
            ];
            let row = db.query_one(sql!("outbox_trim"), params).await?;
            let trimmed: i64 = get(&row, 0)?;
            let params: Params<'_> = &[&limit(pending_max), &OVER_QUOTA.as_bytes(), &most];
            let shed = db.execute(sql!("outbox_shed"), params).await?;
            Ok(u64::try_from(trimmed).unwrap_or_default() + shed)
        })
    }

    fn outbox_stats(&self) -> Result<OutboxStats, StoreError> {
        self.run(Role::Api, async |db| {
            let row = db.query_one(sql!("outbox_stats"), &[]).await?;
            rows::stats(&row)
        })
    }
}

fn span(span: Millis) -> i64 {
    i64::try_from(span.0).unwrap_or(i64::MAX)
}

/// Inside of a transaction.
async fn delete(db: &mut Connection, id: &str) -> Result<bool> {
    let number = |row: &tokio_postgres::Row| get::<i64>(row, 0);
    let deleted = db.query_opt(sql!("endpoint_delete"), &[&id.as_bytes()], number).await?;
    if let Some(number) = deleted {
        db.execute(sql!("awaited_keep"), &[&number]).await?;
        db.execute(sql!("endpoint_messages_delete"), &[&number]).await?;
    }
    Ok(deleted.is_some())
}

async fn claim(db: &mut Connection, request: &MessageClaim) -> Result<ClaimedMessages> {
    let (mut claimed, found) = look(db, request).await?;
    if found.awaited {
        // What no settlement reports: endpoints that were deleted, messages that expired, and two last
        // deliveries that were settled at once, of which neither saw the other.
        db.begin().await?;
        let sent = put_results(db, None).await?;
        db.commit().await?;
        claimed.reported = wake_for_results(db, &sent).await?;
    }
    let now = claimed.at;
    if found.lapsed {
        db.execute(sql!("outbox_release"), &[&request.instance.0]).await?;
    }
    let is_due = found.lapsed || claimed.next_due.is_some_and(|due| due <= now);
    if !is_due || found.expired || request.limit == 0 {
        return Ok(claimed);
    }
    db.begin().await?;
    let ready: Vec<rows::Ready> =
        db.query_map(sql!("outbox_ready"), &[&now.0, &request.for_triggers], rows::ready).await?;
    let listed: Vec<EndpointRow> =
        db.query_map(sql!("endpoints_list"), &[], rows::endpoint).await?;
    let endpoints: BTreeMap<Arc<str>, Arc<EndpointRow>> =
        listed.into_iter().map(|row| (Arc::clone(&row.endpoint.id), Arc::new(row))).collect();
    for endpoint in ready {
        let room = endpoint.health.room(endpoint.under_way, now);
        let room = room.min(request.limit.saturating_sub(claimed.messages.len()));
        let taken = take(db, (request, now), &endpoint, room).await?;
        let Some(row) = endpoints.get(&endpoint.id).filter(|_| !taken.is_empty()) else { continue };
        let health = endpoint.health.claimed(now.plus(request.lease));
        save_health(db, endpoint.number, health, false).await?;
        claimed.messages.extend(taken.into_iter().map(|message| (message, Arc::clone(row))));
    }
    claimed.next_due = look(db, request).await?.0.next_due;
    db.commit().await?;
    Ok(claimed)
}

/// What a claim finds besides messages that are due.
struct ClaimFindings {
    /// Does a node wait for a message?
    awaited: bool,
    /// Has the lease of the claimer expired?
    expired: bool,
    /// Are there claims of instances whose leases have expired?
    lapsed: bool,
}

async fn look(
    db: &mut Connection,
    request: &MessageClaim,
) -> Result<(ClaimedMessages, ClaimFindings)> {
    let row = db
        .query_one(sql!("outbox_next_due"), &[&request.instance.0, &request.for_triggers])
        .await?;
    let kinds: Option<i64> = get(&row, 0)?;
    let bits = u32::try_from(kinds.unwrap_or_default()).unwrap_or_default();
    let claimed = ClaimedMessages {
        endpoints: kinds.is_some(),
        handoffs: MessageKinds::from_bits(bits).contains(MessageKind::Handoff),
        next_due: time(&row, 1)?,
        at: Timestamp(get(&row, 2)?),
        messages: Vec::new(),
        reported: Vec::new(),
    };
    let found =
        ClaimFindings { awaited: get(&row, 3)?, expired: get(&row, 4)?, lapsed: get(&row, 5)? };
    Ok((claimed, found))
}

/// Claims messages of one endpoint. Messages that wait for an earlier one about their execution are put off
/// until just after that one is due, also if it is due already. So they are not looked at again and again, and a
/// page never consists of messages alone that wait for messages behind it: nothing would be claimed any more.
async fn take(
    db: &mut Connection,
    (request, now): (&MessageClaim, Timestamp),
    endpoint: &rows::Ready,
    room: usize,
) -> Result<Vec<OutboxMessage>> {
    let ends = now.plus(request.lease);
    let mut taken: Vec<OutboxMessage> = Vec::new();
    let mut executions = HashSet::new();
    while taken.len() < room {
        let params: Params<'_> = &[&endpoint.number, &now.0, &PAGE];
        let candidates: Vec<rows::Candidate> = db
            .query_map(sql!("outbox_candidates"), params, |row| rows::candidate(row, &endpoint.id))
            .await?;
        let (mut places, mut dues, mut claims) = (Vec::new(), Vec::new(), Vec::new());
        for candidate in candidates {
            let execution = candidate.message.name.execution;
            let behind = executions.contains(&execution).then_some(ends).or(candidate.behind);
            let (due, claim) = match behind {
                Some(due) if candidate.due <= due => (due.plus(Millis(1)), None),
                None if taken.len() < room => (ends, Some(request.claim)),
                Some(_) | None => continue,
            };
            places.push(candidate.place);
            dues.push(due.0);
            claims.push(claim);
            if claim.is_some() {
                executions.insert(execution);
                taken.push(candidate.message);
            }
        }
        if places.is_empty() {
            break;
        }
        db.execute(sql!("outbox_take"), &[&places, &dues, &claims, &request.instance.0]).await?;
    }
    Ok(taken)
}

async fn save_health(
    db: &mut Connection,
    endpoint: i64,
    health: EndpointHealth,
    disables: bool,
) -> Result<()> {
    let EndpointHealth { failures, probe_at, probing } = health;
    let probe_at = probe_at.map(|at| at.0);
    let params: Params<'_> = &[&endpoint, &i64::from(failures), &probe_at, &probing, &disables];
    db.execute(sql!("endpoint_health_set"), params).await?;
    Ok(())
}

/// Records the results of one endpoint, in their order.
async fn settle(
    db: &mut Connection,
    claim: Uuid,
    endpoint: &str,
    results: &[&MessageResult],
) -> Result<Vec<ExecutionNo>> {
    db.begin().await?;
    let locked = db.query_opt(sql!("endpoint_lock"), &[&endpoint.as_bytes()], rows::locked).await?;
    let Some((number, mut health, now)) = locked else {
        db.roll_back().await?;
        return Ok(Vec::new());
    };
    let names = rows::Names::of(results.iter().map(|result| &result.name))?;
    let params: Params<'_> = &[&number, &claim, &names.executions, &names.seqs, &names.marks];
    let claimed: Vec<(usize, i64, u32)> =
        db.query_map(sql!("outbox_claimed_by"), params, rows::claimed).await?;
    let mut settled = rows::Settled::default();
    let mut disables = false;
    for (position, place, attempts) in claimed {
        let Some(result) = results.get(position) else { continue };
        let verdict = judge(health, attempts, &result.result, now, result.jitter);
        health = verdict.health;
        disables |= verdict.disables;
        let (state, due) = match verdict.message {
            MessageNext::Delivered => (MessageState::Delivered, None),
            MessageNext::Dead => (MessageState::Dead, None),
            MessageNext::Retry { due } => (MessageState::Pending, Some(due)),
        };
        settled.push(place, result, (state, verdict.attempts, due));
    }
    if !settled.is_empty() {
        save_health(db, number, health, disables).await?;
        db.execute(sql!("outbox_settle"), &settled.params(&now.0)).await?;
        db.execute(sql!("outbox_wake"), &[&number, &settled.done, &now.0]).await?;
    }
    let sent = put_results(db, None).await?;
    db.commit().await?;
    wake_for_results(db, &sent).await
}

async fn replay(db: &mut Connection, endpoint: &str, which: &Replay) -> Result<u64> {
    db.begin().await?;
    let locked = db.query_opt(sql!("endpoint_lock"), &[&endpoint.as_bytes()], rows::locked).await?;
    let Some((number, _, now)) = locked else {
        db.roll_back().await?;
        return Ok(0);
    };
    let (state, since): (Option<i16>, Option<i64>) = match which {
        Replay::Dead => (Some(MessageState::Dead.code().into()), None),
        Replay::Since(time) => (None, Some(time.0)),
        Replay::Only(_) => (None, None),
    };
    let replayed = match which {
        Replay::Only(names) => {
            let own = names.iter().filter(|name| *name.endpoint == *endpoint);
            let names = rows::Names::of(own)?;
            let params: Params<'_> =
                &[&number, &now.0, &names.executions, &names.seqs, &names.marks];
            db.execute(sql!("outbox_replay_some"), params).await?
        }
        Replay::Dead | Replay::Since(_) => {
            db.execute(sql!("outbox_replay"), &[&number, &now.0, &state, &since]).await?
        }
    };
    db.commit().await?;
    Ok(replayed)
}
