//! Claiming, and quarantining.
//!
//! A claim is a short write; the histories are read after it has committed, by a reader, so that a
//! claim of hundreds of executions does not delay appends.

use rusqlite::{Connection, OptionalExtension, params};
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_core::time::Timestamp;
use waypost_ports::store::{ClaimRequest, Claims, StoreError, Urgency};

use crate::connection::{Readers, is_corrupt};
use crate::store::Write;
use crate::{history, instances, queries};

/// The claimed executions.
pub(crate) struct Taken {
    executions: Vec<ExecutionNo>,
    more: bool,
    next_due: Option<Timestamp>,
    lapsed: bool,
    at: Timestamp,
}

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
    let mut find = connection.prepare_cached(queries::CLAIM_FORGOTTEN)?;
    let rows = find.query_map(params![instance, limit, only, json_array(held)], |row| {
        row.get(0).map(ExecutionNo)
    })?;
    rows.collect()
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
        let (executions, at) = (Vec::new(), write.now);
        return Ok(Taken { executions, more: false, next_due: None, lapsed: true, at });
    }
    instances::release_expired(write)?;
    let only = request.only.as_ref().map(|only| json_array(only));
    let due_by = write.now.plus(request.ahead);
    // One more than asked for: it shows whether there are more.
    let wanted = i64::try_from(request.limit).unwrap_or(i64::MAX).saturating_add(1);
    let mut executions = forgotten.to_vec();
    {
        let left = wanted - i64::try_from(executions.len()).unwrap_or(wanted);
        let mut ready = write.tx.prepare_cached(queries::CLAIM_READY)?;
        let rows = ready.query_map(params![request.fold, left, only], |row| row.get(0))?;
        for execution in rows {
            executions.push(ExecutionNo(execution?));
        }
        let left = wanted - i64::try_from(executions.len()).unwrap_or(wanted);
        let mut due = write.tx.prepare_cached(queries::CLAIM_DUE)?;
        let rows = due.query_map(params![request.fold, left, only, due_by.0], |row| row.get(0))?;
        for execution in rows {
            executions.push(ExecutionNo(execution?));
        }
    }
    let suspects = suspects(write, request, only.as_deref(), due_by)?;
    let alone = usize::from(request.suspects);
    let more = executions.len() > request.limit || suspects.len() > alone;
    executions.truncate(request.limit);
    executions.extend(suspects.into_iter().take(alone));
    let mut take = write.tx.prepare_cached(queries::CLAIM_TAKE)?;
    for execution in executions.iter().skip(forgotten.len()) {
        take.execute([execution.0, instance])?;
    }
    let mut next_due = write.tx.prepare_cached(queries::CLAIM_NEXT_DUE)?;
    let next_due =
        next_due.query_row(params![request.fold, only, due_by.0], |row| row.get(0)).optional()?;
    let (next_due, at) = (next_due.map(Timestamp), write.now);
    Ok(Taken { executions, more, next_due, lapsed: false, at })
}

/// Executions that are to be taken alone: the least suspicious, and whether there are more.
fn suspects(
    write: &Write<'_>,
    request: &ClaimRequest,
    only: Option<&str>,
    due_by: Timestamp,
) -> rusqlite::Result<Vec<ExecutionNo>> {
    let mut find = write.tx.prepare_cached(queries::CLAIM_SUSPECTS)?;
    let rows = find
        .query_map(params![request.fold, 2, only, due_by.0], |row| row.get(0).map(ExecutionNo))?;
    rows.collect()
}

/// Reads the claimed executions that are still the claimer's. An unreadable one is returned as
/// damaged: it is claimed, and the others must not wait for it.
pub(crate) fn read(
    readers: &Readers,
    taken: &Taken,
    claimer: InstanceId,
) -> Result<Claims, StoreError> {
    let claimed = readers.read(|connection| {
        let mut claimed = Vec::with_capacity(taken.executions.len());
        for execution in &taken.executions {
            match history::load(connection, *execution) {
                Ok(history) => claimed.extend(history.filter(|history| {
                    history.control.as_ref().is_some_and(|row| row.owner == Some(claimer))
                })),
                Err(error) if is_corrupt(&error) => {
                    claimed.push(history::unreadable(*execution, error.to_string()));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(claimed)
    })?;
    let Taken { more, next_due, lapsed, at, .. } = *taken;
    Ok(Claims { claimed, copied: 0, more, next_due, lapsed, at })
}

/// Sets an execution of this owner aside.
pub(crate) fn hold(
    write: &Write<'_>,
    execution: ExecutionNo,
    owner: InstanceId,
    reason: &str,
) -> rusqlite::Result<()> {
    let owner = write.instance(owner)?;
    let mut hold = write.tx.prepare_cached(queries::CONTROL_HOLD)?;
    hold.execute(params![execution.0, reason, Urgency::Resume as u8, owner])?;
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
