//! Claiming, and quarantining.
//!
//! A claim is a short write; the histories are read after it has committed, by a reader, so that a
//! claim of hundreds of executions does not delay appends.

use rusqlite::{Connection, Row, params};
use uuid::Uuid;
use waypost_core::id::{ExecutionId, ExecutionNo, InstanceId};
use waypost_core::time::Timestamp;
use waypost_ports::store::{
    ClaimRequest, Claims, StoreError, TREE_KEPT, TREES_FORGOTTEN_MAX, Urgency,
};

use crate::connection::{Readers, all, first, is_corrupt, limit_and_one, run};
use crate::store::Write;
use crate::{history, instances, queries};

/// The executions that a claim took, and the claim without their histories.
pub(crate) type Taken = (Vec<ExecutionNo>, Claims);

/// For a reconciliation: executions that the claimer owns and does not have in memory, as a reader
/// sees them. The scan of all control rows must not delay appends, so it runs outside of the write.
pub(crate) fn find_forgotten(
    connection: &Connection,
    request: &ClaimRequest,
) -> rusqlite::Result<Vec<ExecutionNo>> {
    let Some(held) = &request.held else { return Ok(Vec::new()) };
    let only = request.only.as_ref().map(|only| json_array(only));
    let limit = i64::try_from(request.limit).unwrap_or(i64::MAX);
    let instance = request.instance.0.as_bytes().as_slice();
    let (of, at) = request.share.modulo().unzip();
    let params = params![instance, limit, only, json_array(held), of, at];
    all(connection, queries::CLAIM_FORGOTTEN, params, number)
}

/// Makes an instance the owner of claimable executions, besides those that it owns already and
/// forgot.
pub(crate) fn take(
    write: &Write<'_>,
    request: &ClaimRequest,
    forgotten: &[ExecutionNo],
) -> rusqlite::Result<Taken> {
    let instance = write.instance(request.instance)?;
    if !instances::is_alive(write, instance)? {
        let lapsed = Claims { lapsed: true, at: write.now, ..Claims::default() };
        return Ok((Vec::new(), lapsed));
    }
    instances::release_expired(write)?;
    let only = request.only.as_ref().map(|only| json_array(only));
    let due_by = write.now.plus(request.ahead);
    let wanted = limit_and_one(request.limit);
    let mut executions = forgotten.to_vec();
    let left = |found: &[ExecutionNo]| wanted - i64::try_from(found.len()).unwrap_or(wanted);
    let (of, at) = request.share.modulo().unzip();
    let ready = params![request.fold, left(&executions), only, of, at];
    executions.extend(all(&write.tx, queries::CLAIM_READY, ready, number)?);
    let due = params![request.fold, left(&executions), only, due_by.0, of, at];
    executions.extend(all(&write.tx, queries::CLAIM_DUE, due, number)?);
    // The least suspicious, which is taken alone, and whether there are more.
    let two = params![request.fold, 2, only, due_by.0, of, at];
    let suspects = all(&write.tx, queries::CLAIM_SUSPECTS, two, number)?;
    let alone = usize::from(request.suspects);
    let more = executions.len() > request.limit || suspects.len() > alone;
    executions.truncate(request.limit);
    executions.extend(suspects.into_iter().take(alone));
    let mut take = write.tx.prepare_cached(queries::CLAIM_TAKE)?;
    for execution in executions.iter().skip(forgotten.len()) {
        take.execute([execution.0, instance])?;
    }
    let later = params![request.fold, only, due_by.0, of, at];
    let next_due =
        first(&write.tx, queries::CLAIM_NEXT_DUE, later, |row| row.get(0).map(Timestamp))?;
    Ok((executions, Claims { more, next_due, at: write.now, ..Claims::default() }))
}

fn number(row: &Row<'_>) -> rusqlite::Result<ExecutionNo> {
    row.get(0).map(ExecutionNo)
}

/// Reads the claimed executions that are still the claimer's. An unreadable one is returned as
/// damaged: it is claimed, and the others must not wait for it.
pub(crate) fn read(
    readers: &Readers,
    (executions, claims): Taken,
    claimer: InstanceId,
) -> Result<Claims, StoreError> {
    let claimed = readers.read(|connection| {
        let mut claimed = Vec::with_capacity(executions.len());
        for execution in executions {
            match history::load(connection, execution) {
                Ok(history) => claimed.extend(history.filter(|history| {
                    history.control.as_ref().is_some_and(|row| row.owner == Some(claimer))
                })),
                Err(error) if is_corrupt(&error) => {
                    claimed.push(history::unreadable(execution, error.to_string()));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(claimed)
    })?;
    Ok(Claims { claimed, ..claims })
}

/// Sets an execution of this owner aside.
pub(crate) fn hold(
    write: &Write<'_>,
    execution: ExecutionNo,
    owner: InstanceId,
    reason: &str,
) -> rusqlite::Result<()> {
    let owner = write.instance(owner)?;
    let params = params![execution.0, reason, Urgency::Resume as u8, owner];
    run(&write.tx, queries::CONTROL_HOLD, params)?;
    Ok(())
}

/// Marks executions that this owner is about to decide.
pub(crate) fn doubt(
    write: &Write<'_>,
    owner: InstanceId,
    executions: &[ExecutionNo],
) -> rusqlite::Result<Vec<ExecutionNo>> {
    let owner = write.instance(owner)?;
    let mut doubt = write.tx.prepare_cached(queries::CONTROL_DOUBT)?;
    let mut owned = Vec::new();
    for execution in executions {
        if doubt.execute([execution.0, owner])? > 0 {
            owned.push(*execution);
        }
    }
    Ok(owned)
}

fn json_array(executions: &[ExecutionNo]) -> String {
    let numbers: Vec<String> = executions.iter().map(|execution| execution.0.to_string()).collect();
    format!("[{}]", numbers.join(","))
}

pub(crate) fn owners(
    connection: &Connection,
    executions: &[ExecutionNo],
) -> rusqlite::Result<Vec<(ExecutionNo, InstanceId)>> {
    let mut owners = Vec::new();
    for execution in executions {
        let read = |row: &Row<'_>| Ok(InstanceId(Uuid::from_bytes(row.get(0)?)));
        let owner = first(connection, queries::CONTROL_OWNER, [execution.0], read)?;
        owners.extend(owner.map(|owner| (*execution, owner)));
    }
    Ok(owners)
}

pub(crate) fn reserve_births(
    write: &Write<'_>,
    root: &ExecutionId,
    count: u64,
) -> rusqlite::Result<u64> {
    let more = i64::try_from(count).unwrap_or(i64::MAX);
    let params = params![root.as_str(), more, write.now.0];
    let reserved: Option<i64> = first(&write.tx, queries::TREE_RESERVE, params, |row| row.get(0))?;
    if reserved == Some(more) {
        // Its row is new, which is rare: the time to look for old ones.
        let most = i64::try_from(TREES_FORGOTTEN_MAX).unwrap_or(i64::MAX);
        run(&write.tx, queries::TREES_FORGET, params![write.now.minus(TREE_KEPT).0, most])?;
    }
    Ok(u64::try_from(reserved.unwrap_or(more).saturating_sub(more)).unwrap_or(0))
}
