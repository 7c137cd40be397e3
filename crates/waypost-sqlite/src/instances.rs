//! Leases and numbers.
//!
//! An instance is alive until its lease expires. Ending a lease releases the instance's executions
//! in the same transaction: from then on these executions are ready, and claims need not look for
//! dead owners.

use rusqlite::{Connection, params};
use uuid::Uuid;
use waypost_core::id::InstanceId;
use waypost_core::time::Timestamp;
use waypost_ports::query::InstanceRow;
use waypost_ports::store::{About, Heartbeat, Renewal};

use crate::connection::{all, first, from_stored, run, value};
use crate::store::Write;
use crate::{outbox, queries};

/// Renews or ends a lease, and sets numbers aside.
pub(crate) fn heartbeat(write: &Write<'_>, heartbeat: &Heartbeat) -> rusqlite::Result<Renewal> {
    if let Some(lease) = heartbeat.lease {
        let id = heartbeat.instance.0.as_bytes().as_slice();
        let until = write.now.plus(lease).0;
        let about = to_json(&heartbeat.about);
        let row = params![id, until, heartbeat.fold, about, write.now.0];
        run(&write.tx, queries::INSTANCE_RENEW, row)?;
    } else {
        let number = write.instance(heartbeat.instance)?;
        end(write, number, Gone::Left)?;
    }
    let fold: Option<u16> = value(&write.tx, queries::INSTANCES_OLDEST, [write.now.0])?;
    let fold = fold.unwrap_or(heartbeat.fold);
    let last: i64 = value(&write.tx, queries::NUMBERS_RESERVE, [heartbeat.numbers])?;
    let first = last - i64::from(heartbeat.numbers) + 1;
    Ok(Renewal { now: write.now, numbers: first..last + 1, fold })
}

/// Ends every lease that ran out.
pub(crate) fn release_expired(write: &Write<'_>) -> rusqlite::Result<()> {
    for number in all(&write.tx, queries::INSTANCES_EXPIRED, [write.now.0], |row| row.get(0))? {
        end(write, number, Gone::Died)?;
    }
    Ok(())
}

/// Has the lease of an instance run out, without its having left?
pub(crate) fn has_expired(write: &Write<'_>, number: i64) -> rusqlite::Result<bool> {
    let expired: Vec<i64> =
        all(&write.tx, queries::INSTANCES_EXPIRED, [write.now.0], |row| row.get(0))?;
    Ok(expired.contains(&number))
}

/// Does the lease of an instance last?
pub(crate) fn is_alive(write: &Write<'_>, number: i64) -> rusqlite::Result<bool> {
    value(&write.tx, queries::INSTANCE_ALIVE, [number, write.now.0])
}

/// Ends every lease and every claim: the lock of the folder proves that no other engine lives.
pub(crate) fn release_all(write: &Write<'_>) -> rusqlite::Result<()> {
    run(&write.tx, queries::INSTANCES_END_ALL, [])?;
    for sql in
        [queries::CONTROL_RELEASE_ALL, queries::TRIGGERS_RELEASE_ALL, queries::GROUPS_RELEASE_ALL]
    {
        run(&write.tx, sql, [])?;
    }
    outbox::release(write, None)
}

/// Instances that are alive or own executions.
pub(crate) fn list(connection: &Connection, now: Timestamp) -> rusqlite::Result<Vec<InstanceRow>> {
    let latest = first(connection, queries::TIME_LATEST, [], |row| row.get(0))?;
    // Another process may have recorded a later time.
    let now = latest.map_or(now, |latest| now.max(Timestamp(latest)));
    all(connection, queries::INSTANCES_LIST, [now.0], |row| {
        let alive_until = row.get::<_, Option<i64>>(1)?.map(Timestamp);
        Ok(InstanceRow {
            instance: InstanceId(Uuid::from_bytes(row.get(0)?)),
            alive_until,
            alive: alive_until.is_some_and(|until| until > now),
            fold: row.get(2)?,
            owned: from_stored(row.get(3)?),
            about: from_json(row.get_ref(4)?.as_str_or_null()?),
            silent: row.get::<_, Option<i64>>(5)?.map(|at| now.since(Timestamp(at))),
        })
    })
}

fn to_json(about: &About) -> String {
    let About { version, address, running } = about;
    serde_json::json!({ "version": version, "address": address, "running": running }).to_string()
}

/// An instance's description of itself. It is only displayed, so unreadable text counts as empty.
fn from_json(text: Option<&str>) -> About {
    let stored: serde_json::Value =
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let field = |name: &str| stored.get(name);
    About {
        version: field("version").and_then(serde_json::Value::as_str).unwrap_or_default().into(),
        address: field("address").and_then(serde_json::Value::as_str).map(Into::into),
        running: field("running")
            .and_then(serde_json::Value::as_u64)
            .and_then(|running| u32::try_from(running).ok())
            .unwrap_or(0),
    }
}

/// How an instance ended: only a death counts against the executions that it had in hand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gone {
    Left,
    Died,
}

fn end(write: &Write<'_>, number: i64, gone: Gone) -> rusqlite::Result<()> {
    run(&write.tx, queries::INSTANCE_END, [number])?;
    let died = gone == Gone::Died;
    let released = run(&write.tx, queries::CONTROL_RELEASE, params![number, died])?;
    if released > 0 {
        tracing::info!(executions = released, "the executions of an instance were released");
    }
    // One that leaves records the results of what it is sending.
    if died { outbox::release(write, Some(number)) } else { Ok(()) }
}
