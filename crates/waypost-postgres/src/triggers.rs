//! Triggers. Fires share the rows of their triggers ([`fires`]); what changes the state or the revision of one
//! locks it alone, and so waits for fires under way. Locks are taken in this order: triggers by number, groups
//! that are emptied, items, groups that events arrive in and queues of throttles, the roster.

pub(crate) mod fires;
mod inspect;
mod lists;
mod rows;
mod throttles;
mod windows;

use tokio_postgres::Row;
use waypost_core::id::ExecutionNo;
use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::{ItemDigest, TriggerKindName};
use waypost_ports::store::{Definition, Mail, NewDefinition, StoreError};
use waypost_ports::triggers::rules::{
    Registered, StoredTrigger, cancel_mail, endpoint_of, register as rule, throttle_of,
    too_many_triggers,
};
use waypost_ports::triggers::{
    Arrival, Arrived, ClaimedTriggers, DeadFireRow, DeadFireState, DeadFiresRequest, DueGroup,
    FireRow, FiresPage, FiresRequest, Settlement, TRIGGERS_MAX, TriggerAt, TriggerChange,
    TriggerClaim, TriggerNo, TriggerRow, TriggerState, TriggerStats, Triggers, TriggersPage,
    TriggersRequest, WaitingEvents,
};

use crate::connection::{Connection, Params, Role};
use crate::error::{DbError, Result, in_spite_of_others};
use crate::queries::sql;
use crate::store::PostgresStore;
use crate::text::{count, get, limit as most, time, to_stored};
use crate::{mail, outbox};

impl Triggers for PostgresStore {
    fn claim_triggers(&self, request: &TriggerClaim) -> Result<ClaimedTriggers, StoreError> {
        self.run(Role::Engine, async |db| claim(db, request).await)
    }

    fn release_trigger(&self, trigger: TriggerNo, seq: u64) -> Result<(), StoreError> {
        self.run(Role::Engine, async |db| {
            let seq = to_stored(seq)?;
            db.execute(sql!("trigger_release"), &[&trigger.0, &seq]).await.map(drop)
        })
    }

    fn settle_trigger(&self, settlement: &Settlement) -> Result<bool, StoreError> {
        Ok(in_spite_of_others(|| {
            self.try_run(Role::Engine, async |db| settle(db, settlement).await)
        })?)
    }

    fn trigger(&self, workflow: &str, name: &str) -> Result<Option<TriggerRow>, StoreError> {
        self.run(Role::Api, async |db| {
            let names: [&(dyn tokio_postgres::types::ToSql + Sync); 2] =
                [&workflow.as_bytes(), &name.as_bytes()];
            let found = db.query_opt(sql!("trigger_find"), &names, rows::stored).await?;
            Ok(found.map(|stored| stored.row))
        })
    }

    fn triggers(&self, request: &TriggersRequest) -> Result<TriggersPage, StoreError> {
        self.run(Role::Api, async |db| lists::triggers(db, request).await)
    }

    fn roster_revision(&self) -> Result<u64, StoreError> {
        self.run(Role::Engine, async |db| {
            count(&db.query_one(sql!("trigger_roster"), &[]).await?, 0)
        })
    }

    fn change_trigger(
        &self,
        at: TriggerAt,
        change: &TriggerChange,
    ) -> Result<Option<TriggerRow>, StoreError> {
        Ok(in_spite_of_others(|| self.try_run(Role::Api, async |db| apply(db, at, change).await))?)
    }

    fn fired(
        &self,
        trigger: TriggerNo,
        items: &[ItemDigest],
    ) -> Result<Vec<Option<FireRow>>, StoreError> {
        self.run(Role::Engine, async |db| {
            let of: Vec<_> = items.iter().map(|item| (trigger, *item)).collect();
            fires::known(db, &of).await
        })
    }

    fn fires(&self, request: &FiresRequest) -> Result<FiresPage, StoreError> {
        self.run(Role::Api, async |db| lists::fires(db, request).await)
    }

    fn open_executions(
        &self,
        trigger: TriggerNo,
        limit: usize,
    ) -> Result<Vec<ExecutionNo>, StoreError> {
        self.run(Role::Engine, async |db| lists::open(db, trigger, limit).await)
    }

    fn arrive(&self, arrivals: &[Arrival]) -> Result<Vec<Arrived>, StoreError> {
        Ok(in_spite_of_others(|| {
            self.try_run(Role::Engine, async |db| windows::arrive(db, arrivals).await)
        })?)
    }

    fn claim_groups(&self, limit: usize, lease: Millis) -> Result<Vec<DueGroup>, StoreError> {
        self.run(Role::Engine, async |db| windows::claim(db, limit, lease).await)
    }

    fn waiting_events(&self, trigger: TriggerNo) -> Result<WaitingEvents, StoreError> {
        self.run(Role::Api, async |db| {
            let row = db.query_one(sql!("pending_stats"), &[&trigger.0]).await?;
            Ok(WaitingEvents { events: count(&row, 0)?, next_due: time(&row, 1)? })
        })
    }

    fn dead_fires(&self, request: &DeadFiresRequest) -> Result<Vec<DeadFireRow>, StoreError> {
        self.run(Role::Api, async |db| lists::dead_fires(db, request).await)
    }

    fn settle_dead_fire(&self, id: i64, state: DeadFireState) -> Result<bool, StoreError> {
        self.run(Role::Api, async |db| {
            let code = i16::from(state.code());
            Ok(db.execute(sql!("dead_fire_settle"), &[&id, &code]).await? > 0)
        })
    }

    fn trim_triggers(&self) -> Result<u64, StoreError> {
        self.run(Role::Engine, lists::trim)
    }

    fn trigger_stats(&self) -> Result<TriggerStats, StoreError> {
        self.run(Role::Api, lists::stats)
    }
}

/// A row that was locked, and the store's time.
fn stored_at(row: &Row) -> Result<(StoredTrigger, Timestamp)> {
    Ok((rows::stored(row)?, Timestamp(get(row, rows::COLUMNS)?)))
}

/// The store's time.
async fn store_time(db: &mut Connection) -> Result<Timestamp> {
    Ok(Timestamp(get(&db.query_one(sql!("store_time"), &[]).await?, 0)?))
}

/// When the next trigger that a claim may take, and the next group, may be claimed, and the store's time.
async fn next_due(
    db: &mut Connection,
    request: &TriggerClaim,
) -> Result<(Option<Timestamp>, Option<Timestamp>, Timestamp)> {
    let (only, except) = admitted(request);
    let row = db.query_one(sql!("triggers_next_due"), &[&only, &except]).await?;
    Ok((time(&row, 0)?, time(&row, 1)?, Timestamp(get(&row, 2)?)))
}

/// The kind that a claim may take, and those triggers that it may not.
fn admitted(request: &TriggerClaim) -> (Option<i16>, Vec<i64>) {
    let except = request.except.iter().map(|trigger| trigger.0).collect();
    (request.only.map(|kind| i16::from(kind.code())), except)
}

async fn claim(db: &mut Connection, request: &TriggerClaim) -> Result<ClaimedTriggers> {
    let (next_due_at, next_group, at) = next_due(db, request).await?;
    if next_due_at.is_none_or(|due| due > at) {
        let triggers = Vec::new();
        return Ok(ClaimedTriggers { triggers, next_due: next_due_at, next_group, at });
    }
    let lease = to_stored(request.lease.0)?;
    let (only, except) = admitted(request);
    let params: Params<'_> = &[&only, &except, &most(request.limit), &lease];
    let taken: Vec<StoredTrigger> =
        db.query_map(sql!("triggers_claim"), params, rows::stored).await?;
    let (next_due, next_group, at) = next_due(db, request).await?;
    let triggers = taken.into_iter().map(|stored| stored.row).collect();
    Ok(ClaimedTriggers { triggers, next_due, next_group, at })
}

async fn apply(
    db: &mut Connection,
    at: TriggerAt,
    change: &TriggerChange,
) -> Result<Option<TriggerRow>> {
    db.begin().await?;
    let found = db.query_opt(sql!("trigger_stop"), &[&at.trigger.0], stored_at).await?;
    let changed = found.and_then(|(mut stored, _)| stored.change(at, change).then_some(stored));
    let Some(stored) = changed else {
        db.roll_back().await?;
        return Ok(None);
    };
    rows::save(db, &stored).await?;
    windows::pause(db, at.trigger, stored.row.state != TriggerState::Active).await?;
    db.execute(sql!("trigger_roster_raise"), &[]).await?;
    db.commit().await?;
    Ok(Some(stored.row))
}

/// Inside of a transaction: keeps deploys and changes of a trigger waiting, if it is still at this revision.
pub(crate) async fn hold(db: &mut Connection, at: TriggerAt) -> Result<bool> {
    let found = db.query_opt(sql!("trigger_stop"), &[&at.trigger.0], rows::stored).await?;
    Ok(found.is_some_and(|stored| stored.row.at() == at))
}

async fn settle(db: &mut Connection, settlement: &Settlement) -> Result<bool> {
    let trigger = settlement.at.trigger;
    db.begin().await?;
    let found = match settlement.broken {
        None => db.query_opt(sql!("trigger_lock"), &[&trigger.0], stored_at).await?,
        Some(_) => db.query_opt(sql!("trigger_stop"), &[&trigger.0], stored_at).await?,
    };
    let admitted = found
        .map(|(stored, _)| stored)
        .filter(|row| row.admits(settlement.at, settlement.advance.as_ref()));
    let (Some(mut stored), true) =
        (admitted, windows::lock(db, trigger, settlement.group.as_ref()).await?)
    else {
        db.roll_back().await?;
        return Ok(false);
    };
    stored.settle(settlement);
    fires::settle(db, trigger, &settlement.fires).await?;
    if settlement.has_dead() {
        let row = db.query_one(sql!("dead_fires_count"), &[&trigger.0]).await?;
        stored.count_dead(count(&row, 0)?);
    }
    if let Some(group) = &settlement.group {
        windows::delete(db, &[(trigger, group)], false).await?;
    }
    let breaks = stored.row.state == TriggerState::Broken;
    if settlement.advance.is_some() || breaks {
        rows::save(db, &stored).await?;
    }
    if breaks {
        windows::pause(db, trigger, true).await?;
        db.execute(sql!("trigger_roster_raise"), &[]).await?;
    }
    let seq = stored.row.seq;
    let cancels = settlement.cancel.iter();
    let cancels: Vec<Mail> =
        cancels.map(|(execution, reason)| cancel_mail(trigger, seq, *execution, reason)).collect();
    if !cancels.is_empty() {
        mail::put(db, &cancels).await?;
    }
    db.commit().await?;
    if !cancels.is_empty() {
        mail::wake(db, &cancels).await?;
    }
    Ok(true)
}

/// What the deploy of a version that has become the current one does, inside of its transaction.
pub(crate) async fn register(
    db: &mut Connection,
    new: &NewDefinition,
    version: &Definition,
) -> Result<()> {
    let workflow = version.name.as_bytes();
    let known: Vec<StoredTrigger> =
        db.query_map(sql!("triggers_of_workflow"), &[&workflow], rows::stored).await?;
    // Times of new rows are those of the database.
    let registered = rule(known, new, version, Timestamp::default());
    if registered.is_empty() {
        return Ok(());
    }
    let mut adds = false;
    let mut endpoints = Vec::new();
    for registered in registered {
        match registered {
            Registered::New(mut trigger) => {
                rows::insert(db, &mut trigger).await?;
                endpoints.extend(endpoint_of(&trigger.row, new));
                adds = true;
            }
            Registered::Known { trigger, discards_groups } => {
                let TriggerRow { number, kind, state, .. } = trigger.row;
                endpoints.extend(endpoint_of(&trigger.row, new));
                if discards_groups {
                    windows::discard(db, number).await?;
                } else if kind == TriggerKindName::Event {
                    windows::pause(db, number, state != TriggerState::Active).await?;
                    throttles::change(db, number, throttle_of(&trigger.row, new)).await?;
                }
                rows::save(db, &trigger).await?;
            }
        }
    }
    if adds && count(&db.query_one(sql!("triggers_count"), &[]).await?, 0)? > TRIGGERS_MAX {
        return Err(DbError::Refused(too_many_triggers().to_string()));
    }
    for endpoint in &endpoints {
        outbox::add_unless_known(db, endpoint).await?;
    }
    db.execute(sql!("trigger_roster_raise"), &[]).await?;
    Ok(())
}
