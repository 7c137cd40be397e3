//! Leases and numbers.
//!
//! An instance is alive until its lease runs out. Ending a lease releases what the instance owned, in
//! the same transaction: from then on these executions are simply ready, and claims need not look for
//! dead owners.

use rusqlite::params;
use waypost_core::time::Timestamp;
use waypost_ports::store::{Heartbeat, LEASE, Renewal};

use crate::queries;
use crate::store::Write;

/// Renews or ends a lease, and sets numbers aside.
pub(crate) fn heartbeat(write: &Write<'_>, heartbeat: &Heartbeat) -> rusqlite::Result<Renewal> {
    if heartbeat.leaving {
        let number = write.instance(heartbeat.instance)?;
        end(write, number)?;
    } else {
        let mut renew = write.tx.prepare_cached(queries::INSTANCE_RENEW)?;
        let id = heartbeat.instance.0.as_bytes().as_slice();
        renew.execute(params![id, write.now.plus(LEASE).0, heartbeat.fold])?;
    }
    let mut reserve = write.tx.prepare_cached(queries::NUMBERS_RESERVE)?;
    let last: i64 = reserve.query_row([heartbeat.numbers], |row| row.get(0))?;
    let first = last - i64::from(heartbeat.numbers) + 1;
    Ok(Renewal { now: write.now, numbers: first..last + 1 })
}

/// Ends every lease that ran out, but for that of `except`: an instance that can ask is not dead,
/// however long its machine was asleep.
pub(crate) fn release_expired(write: &Write<'_>, except: i64) -> rusqlite::Result<()> {
    let mut expired = write.tx.prepare_cached(queries::INSTANCES_EXPIRED)?;
    let Timestamp(now) = write.now;
    let numbers = expired.query_map([now, except], |row| row.get::<_, i64>(0))?;
    for number in numbers.collect::<Result<Vec<_>, _>>()? {
        end(write, number)?;
    }
    Ok(())
}

/// Ends every lease: the lock of the folder proves that no other engine lives.
pub(crate) fn release_all(write: &Write<'_>) -> rusqlite::Result<()> {
    write.tx.prepare_cached(queries::INSTANCES_END_ALL)?.execute([])?;
    write.tx.prepare_cached(queries::CONTROL_RELEASE_ALL)?.execute([])?;
    Ok(())
}

fn end(write: &Write<'_>, number: i64) -> rusqlite::Result<()> {
    write.tx.prepare_cached(queries::INSTANCE_END)?.execute([number])?;
    let released = write.tx.prepare_cached(queries::CONTROL_RELEASE)?.execute([number])?;
    if released > 0 {
        tracing::info!(executions = released, "the executions of an instance were released");
    }
    Ok(())
}
