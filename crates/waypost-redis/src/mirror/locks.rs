//! Owners of executions, as locks: for people who inspect Redis, and as a hint for routing. Only
//! the log decides.

use std::sync::Arc;

use serde::Deserialize;
use uuid::Uuid;
use waypost_core::id::{ExecutionId, InstanceId};
use waypost_core::time::Millis;

use crate::ask::{ACQUIRE, Ask, BATCH_MAX, RELEASE, RENEW, ScriptResult, bytes, number};
use crate::wire::Wire;

/// How long a lock lasts after its renewal: three times the time between renewals.
const LOCK: Millis = Millis::from_secs(30);
/// Bytes read of a lock. Ours are shorter; a longer value does not parse and counts as unowned.
const LOCK_BYTES_MAX: u64 = 4_096;

/// The part of a lock that is read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LockView {
    instance_id: Uuid,
}

/// Sets or renews the locks of an instance on these executions.
pub(super) async fn owned(wire: &Wire, instance: InstanceId, executions: &[ExecutionId]) {
    let owner = instance.to_string();
    for batch in executions.chunks(BATCH_MAX) {
        let now = wire.clock.now();
        let until = now.plus(LOCK).to_string();
        let renew = |key: &ExecutionId| {
            let ask = Ask::script(&RENEW).key(&wire.keys.lock(key)).arg(&owner);
            ask.arg(&until).number(LOCK.0)
        };
        let Some(renewed) = said(wire, batch.iter().map(renew).collect()).await else {
            wire.counters.dropped.add(batch.len() as u64);
            continue;
        };
        let acquire = |(key, renewed): (&ExecutionId, i64)| {
            let ask = Ask::script(&ACQUIRE).key(&wire.keys.lock(key)).arg(&owner);
            (renewed == 0).then(|| ask.arg(now.to_string()).arg(&until).number(LOCK.0))
        };
        let new: Vec<Ask> = batch.iter().zip(renewed).filter_map(acquire).collect();
        let count = new.len() as u64;
        // Another instance's lock stays until it expires; the next renewal tries again.
        if count > 0 && said(wire, new).await.is_none() {
            wire.counters.dropped.add(count);
        }
    }
}

/// Deletes the locks of an instance on these executions.
pub(super) async fn released(wire: &Wire, instance: InstanceId, executions: &[ExecutionId]) {
    let owner = instance.to_string();
    for batch in executions.chunks(BATCH_MAX) {
        let release =
            |key: &ExecutionId| Ask::script(&RELEASE).key(&wire.keys.lock(key)).arg(&owner);
        if said(wire, batch.iter().map(release).collect()).await.is_none() {
            wire.counters.dropped.add(batch.len() as u64);
        }
    }
}

/// The instance that the lock names as an execution's owner. A value that is not one of our locks
/// counts as unowned; the owner overwrites it at its next renewal.
pub(super) fn owner(wire: &Arc<Wire>, execution: &ExecutionId) -> Option<InstanceId> {
    let ask = Ask::command("GETRANGE").key(&wire.keys.lock(execution));
    let shown = wire.ask(vec![ask.number(0).number(LOCK_BYTES_MAX - 1)]).ok()?.pop()?.ok()?;
    let shown: LockView = serde_json::from_slice(&bytes(shown)?).ok()?;
    Some(InstanceId(shown.instance_id))
}

/// The result of each of these scripts: 1 or 0, and 0 for those that were rejected.
async fn said(wire: &Wire, asks: Vec<Ask>) -> Option<Vec<i64>> {
    let results = wire.run_scripts(asks).await.ok()?;
    let said = |said: ScriptResult| said.and_then(|said| number(said.first()?)).unwrap_or(0);
    Some(results.into_iter().map(said).collect())
}
