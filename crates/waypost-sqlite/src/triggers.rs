//! Triggers. Everything that changes them holds the file's write lock, so that fires, deploys and changes by
//! people take turns.

mod inspect;
mod lists;
mod rows;
mod throttles;
mod windows;

use std::collections::hash_map::Entry;

use rusqlite::{Connection, params};
use serde_json::json;
use waypost_core::id::ExecutionNo;
use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::{ItemDigest, TriggerKindName};
use waypost_ports::store::{Appended, Definition, NewDefinition, StoreError, TakenName};
use waypost_ports::triggers::rules::{
    Registered, StoredTrigger, cancel_mail, endpoint_of, register as rule, throttle_of,
};
use waypost_ports::triggers::{
    Arrival, Arrived, ClaimedTriggers, DeadFireRow, DeadFireState, DeadFiresRequest, DueGroup,
    Fire, FireOutcome, FireRow, FiresPage, FiresRequest, SettledFire, Settlement, TRIGGERS_MAX,
    TriggerAt, TriggerChange, TriggerClaim, TriggerNo, TriggerRow, TriggerState, TriggerStats,
    Triggers, TriggersPage, TriggersRequest, WaitingEvents,
};

use crate::connection::{all, first, from_stored, run, to_stored, value};
use crate::store::{SqliteStore, Write};
use crate::{mail, outbox, queries};

impl Triggers for SqliteStore {
    fn claim_triggers(&self, request: &TriggerClaim) -> Result<ClaimedTriggers, StoreError> {
        let at = self.time();
        let (next_due, next_group) = self.readers.read(|db| next_due(db, request))?;
        if next_due.is_none_or(|due| due > at) {
            return Ok(ClaimedTriggers { triggers: Vec::new(), next_due, next_group, at });
        }
        self.write(|write| claim(write, request))
    }

    fn release_trigger(&self, trigger: TriggerNo, seq: u64) -> Result<(), StoreError> {
        self.write(|write| {
            let row = params![trigger.0, to_stored(seq)?];
            run(&write.tx, queries::TRIGGER_RELEASE, row).map(drop)
        })
    }

    fn settle_trigger(&self, settlement: &Settlement) -> Result<bool, StoreError> {
        self.write(|write| settle(write, settlement))
    }

    fn trigger(&self, workflow: &str, name: &str) -> Result<Option<TriggerRow>, StoreError> {
        let names = [workflow, name];
        let stored =
            self.readers.read(|db| first(db, queries::TRIGGER_FIND, names, rows::stored))?;
        Ok(stored.map(|stored| stored.row))
    }

    fn triggers(&self, request: &TriggersRequest) -> Result<TriggersPage, StoreError> {
        let at = self.time();
        self.readers.read(|db| lists::triggers(db, request, at))
    }

    fn roster_revision(&self) -> Result<u64, StoreError> {
        self.readers.read(|db| value(db, queries::TRIGGER_ROSTER, []).map(from_stored))
    }

    fn change_trigger(
        &self,
        at: TriggerAt,
        change: &TriggerChange,
    ) -> Result<Option<TriggerRow>, StoreError> {
        self.write(|write| {
            let Some(mut stored) = load(&write.tx, at.trigger)? else { return Ok(None) };
            if !stored.change(at, change) {
                return Ok(None);
            }
            save(write, &stored)?;
            windows::pause(write, at.trigger, stored.row.state != TriggerState::Active)?;
            run(&write.tx, queries::TRIGGER_ROSTER_RAISE, [])?;
            Ok(Some(stored.row))
        })
    }

    fn fired(
        &self,
        trigger: TriggerNo,
        items: &[ItemDigest],
    ) -> Result<Vec<Option<FireRow>>, StoreError> {
        self.readers.read(|db| items.iter().map(|item| known(db, trigger, item)).collect())
    }

    fn fires(&self, request: &FiresRequest) -> Result<FiresPage, StoreError> {
        self.readers.read(|db| lists::fires(db, request))
    }

    fn open_executions(
        &self,
        trigger: TriggerNo,
        limit: usize,
    ) -> Result<Vec<ExecutionNo>, StoreError> {
        let found = self.readers.read(|db| lists::open(db, trigger, limit))?;
        if !found.ended.is_empty() {
            // So that they are not looked at again.
            self.write(|write| lists::close(write, &found.ended))?;
        }
        Ok(found.open)
    }

    fn arrive(&self, arrivals: &[Arrival]) -> Result<Vec<Arrived>, StoreError> {
        self.write(|write| arrivals.iter().map(|one| windows::arrive(write, one)).collect())
    }

    fn claim_groups(&self, limit: usize, lease: Millis) -> Result<Vec<DueGroup>, StoreError> {
        let any = TriggerClaim::any(limit, lease);
        let (_, next_group) = self.readers.read(|db| next_due(db, &any))?;
        if next_group.is_none_or(|due| due > self.time()) {
            return Ok(Vec::new());
        }
        self.write(|write| windows::claim(write, limit, lease))
    }

    fn waiting_events(&self, trigger: TriggerNo) -> Result<WaitingEvents, StoreError> {
        let read = |row: &rusqlite::Row<'_>| {
            let events = from_stored(row.get(0)?);
            Ok(WaitingEvents { events, next_due: rows::time(row, 1)? })
        };
        let found = self.readers.read(|db| first(db, queries::PENDING_STATS, [trigger.0], read))?;
        Ok(found.unwrap_or_default())
    }

    fn dead_fires(&self, request: &DeadFiresRequest) -> Result<Vec<DeadFireRow>, StoreError> {
        self.readers.read(|db| lists::dead_fires(db, request))
    }

    fn settle_dead_fire(&self, id: i64, state: DeadFireState) -> Result<bool, StoreError> {
        let row = params![id, state.code()];
        self.write(|write| Ok(run(&write.tx, queries::DEAD_FIRE_SETTLE, row)? > 0))
    }

    fn trim_triggers(&self) -> Result<u64, StoreError> {
        self.write(lists::trim)
    }

    fn trigger_stats(&self) -> Result<TriggerStats, StoreError> {
        let now = self.time();
        self.readers.read(|db| lists::stats(db, now))
    }
}

/// When the next trigger, and the next group, may be claimed.
fn next_due(
    db: &Connection,
    request: &TriggerClaim,
) -> rusqlite::Result<(Option<Timestamp>, Option<Timestamp>)> {
    let read = |row: &rusqlite::Row<'_>| Ok((rows::time(row, 0)?, rows::time(row, 1)?));
    Ok(first(db, queries::TRIGGERS_NEXT_DUE, admitted(request), read)?.unwrap_or_default())
}

/// The kind that a claim may take, and a JSON array of those that it may not.
fn admitted(request: &TriggerClaim) -> (Option<u8>, String) {
    let except: Vec<i64> = request.except.iter().map(|trigger| trigger.0).collect();
    (request.only.map(TriggerKindName::code), json!(except).to_string())
}

pub(crate) fn load(db: &Connection, trigger: TriggerNo) -> rusqlite::Result<Option<StoredTrigger>> {
    first(db, queries::TRIGGER_LOAD, [trigger.0], rows::stored)
}

/// Writes a row back, and ends its claim.
fn save(write: &Write<'_>, stored: &StoredTrigger) -> rusqlite::Result<()> {
    rows::save(&write.tx, stored)
}

fn known(
    db: &Connection,
    trigger: TriggerNo,
    item: &ItemDigest,
) -> rusqlite::Result<Option<FireRow>> {
    first(db, queries::FIRE_FIND, params![trigger.0, item.0.as_slice()], rows::fire)
}

/// Would there be at most as many triggers as there may be?
pub(crate) fn has_room(write: &Write<'_>, new: &NewDefinition) -> rusqlite::Result<bool> {
    if new.triggers.is_empty() {
        return Ok(true);
    }
    let mut find = write.tx.prepare_cached(queries::TRIGGER_FIND)?;
    let mut count = from_stored(value(&write.tx, queries::TRIGGERS_COUNT, [])?);
    for trigger in &new.triggers {
        count += u64::from(!find.exists([&*new.name, &*trigger.name])?);
    }
    Ok(count <= TRIGGERS_MAX)
}

/// What the deploy of a version that has become the current one does.
pub(crate) fn register(
    write: &Write<'_>,
    new: &NewDefinition,
    version: &Definition,
) -> rusqlite::Result<()> {
    let tx = &write.tx;
    let known = all(tx, queries::TRIGGERS_OF_WORKFLOW, [&*version.name], rows::stored)?;
    let registered = rule(known, new, version, write.now);
    if registered.is_empty() {
        return Ok(());
    }
    for registered in registered {
        match registered {
            Registered::New(mut trigger) => {
                rows::insert(tx, &trigger)?;
                trigger.row.number = TriggerNo(tx.last_insert_rowid());
                add_endpoint(write, &trigger.row, new)?;
            }
            Registered::Known { trigger, discards_groups } => {
                let number = trigger.row.number;
                add_endpoint(write, &trigger.row, new)?;
                if discards_groups {
                    windows::discard(write, number)?;
                }
                windows::pause(write, number, trigger.row.state != TriggerState::Active)?;
                throttles::change(write, number, throttle_of(&trigger.row, new))?;
                save(write, &trigger)?;
            }
        }
    }
    run(tx, queries::TRIGGER_ROSTER_RAISE, [])?;
    Ok(())
}

/// The endpoint of a trigger that fires with ends, unless it is there.
fn add_endpoint(write: &Write<'_>, row: &TriggerRow, new: &NewDefinition) -> rusqlite::Result<()> {
    match endpoint_of(row, new) {
        Some(endpoint) => outbox::add(write, &endpoint).map(drop),
        None => Ok(()),
    }
}

/// Why a first frame may not go in with a fire; `None` where it may.
pub(crate) fn refusal(write: &Write<'_>, fire: &Fire) -> rusqlite::Result<Option<Appended>> {
    let trigger = fire.at.trigger;
    if let Some(known) = known(&write.tx, trigger, &fire.item)? {
        let taken = TakenName::Item;
        return Ok(Some(match known.execution {
            Some(execution) => Appended::Duplicate { execution, taken },
            None => Appended::ItemSettled(known.outcome),
        }));
    }
    let mut triggers = write.fired.borrow_mut();
    let stored = match triggers.entry(trigger) {
        Entry::Occupied(entry) => Some(&*entry.into_mut()),
        Entry::Vacant(entry) => load(&write.tx, trigger)?.map(|row| &*entry.insert(row)),
    };
    let admits = stored.is_some_and(|row| row.admits(fire.at, fire.advance.as_ref()));
    let fits = admits && windows::has(write, trigger, fire.group.as_ref())?;
    Ok((!fits).then_some(Appended::Stale))
}

/// The rows of a fire whose frame went in, which nothing refused.
pub(crate) fn fire(write: &Write<'_>, fire: &Fire, execution: ExecutionNo) -> rusqlite::Result<()> {
    let trigger = fire.at.trigger;
    let row = params![
        trigger.0,
        fire.item.0.as_slice(),
        &*fire.label,
        write.now.0,
        fire.nominal.map(|at| at.0),
        FireOutcome::Started.code(),
        None::<&str>,
        execution.0
    ];
    run(&write.tx, queries::FIRE_INSERT, row)?;
    windows::delete(write, trigger, fire.group.as_ref(), true)?;
    let mut triggers = write.fired.borrow_mut();
    let Some(stored) = triggers.get_mut(&trigger) else { return Ok(()) };
    let changed = stored.fire(fire, write.now);
    match fire.advance {
        Some(_) => save(write, stored),
        None if changed => {
            run(&write.tx, queries::TRIGGER_FIRED, [trigger.0, write.now.0]).map(drop)
        }
        None => Ok(()),
    }
}

fn settle(write: &Write<'_>, settlement: &Settlement) -> rusqlite::Result<bool> {
    let (tx, trigger) = (&write.tx, settlement.at.trigger);
    let Some(mut stored) = load(tx, trigger)? else { return Ok(false) };
    if !stored.admits(settlement.at, settlement.advance.as_ref())
        || !windows::has(write, trigger, settlement.group.as_ref())?
    {
        return Ok(false);
    }
    stored.settle(settlement);
    for fire in &settlement.fires {
        settle_item(write, trigger, fire)?;
    }
    if settlement.has_dead() {
        stored.count_dead(from_stored(value(tx, queries::DEAD_FIRES_COUNT, [trigger.0])?));
    }
    windows::delete(write, trigger, settlement.group.as_ref(), false)?;
    let breaks = stored.row.state == TriggerState::Broken;
    if settlement.advance.is_some() || breaks {
        save(write, &stored)?;
    }
    if breaks {
        windows::pause(write, trigger, true)?;
        run(tx, queries::TRIGGER_ROSTER_RAISE, [])?;
    }
    for (execution, reason) in &settlement.cancel {
        let cancel = cancel_mail(trigger, stored.row.seq, *execution, reason);
        mail::deliver(write, &[cancel])?;
    }
    Ok(true)
}

fn settle_item(write: &Write<'_>, trigger: TriggerNo, fire: &SettledFire) -> rusqlite::Result<()> {
    let (item, reason) = (fire.item.0.as_slice(), fire.reason.as_deref());
    let row = params![
        trigger.0,
        item,
        &*fire.label,
        write.now.0,
        fire.nominal.map(|at| at.0),
        fire.outcome.code(),
        reason,
        None::<i64>
    ];
    let is_new = run(&write.tx, queries::FIRE_INSERT, row)? > 0;
    if let Some(dead) = fire.dead.as_ref().filter(|_| is_new) {
        let reason = reason.unwrap_or_default();
        let row = params![trigger.0, item, &*fire.label, write.now.0, reason, &*dead.payload];
        run(&write.tx, queries::DEAD_FIRE_INSERT, row)?;
    }
    Ok(())
}

fn claim(write: &Write<'_>, request: &TriggerClaim) -> rusqlite::Result<ClaimedTriggers> {
    let (tx, now) = (&write.tx, write.now);
    let limit = i64::try_from(request.limit).unwrap_or(i64::MAX);
    let (only, except) = admitted(request);
    let due = all(tx, queries::TRIGGERS_DUE, params![only, except, limit, now.0], rows::stored)?;
    for stored in &due {
        let until = now.plus(request.lease).0;
        run(tx, queries::TRIGGER_CLAIM, [stored.row.number.0, until])?;
    }
    let (next_due, next_group) = next_due(tx, request)?;
    let triggers = due.into_iter().map(|stored| stored.row).collect();
    Ok(ClaimedTriggers { triggers, next_due, next_group, at: now })
}
