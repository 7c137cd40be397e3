//! The queues of concurrency keys.
//!
//! A place in a queue is a row named by its execution; one frame inserts it and another deletes it. An
//! append that assigns places locks the key, so that the order of tickets is the order of commits.
//! Promotion needs no lock: any instance can compute which execution is next, any number of times.
//!
//! Executions without a key never come here.

use std::collections::{BTreeSet, HashMap, HashSet};

use tokio_postgres::Row;
use waypost_core::id::ExecutionNo;
use waypost_ports::inspect::{DerivedPermit, PermitQueue};
use waypost_ports::store::{
    Append, Appended, Mail, Permit, PermitPolicy, PermitRequest, cancel_message,
};

use crate::append::{self, Inserted};
use crate::connection::Connection;
use crate::error::DbError;
use crate::text::{count, from_stored, get, narrow, text};
use crate::{mail, queries};

/// Appends frames that begin to wait for permits, of different executions and different keys, or go back to
/// waiting.
pub(crate) async fn append(
    connection: &mut Connection,
    batch: &[Append],
    part: &[usize],
) -> Result<Vec<Appended>, DbError> {
    connection.begin().await?;
    let wanted = Wanted::of(batch, part);
    let keys = lock(connection, &wanted.keys()).await?;
    let rejected = reject(connection, batch, &wanted, &keys).await?;
    let accepted: Vec<usize> =
        part.iter().filter(|index| !rejected.contains_key(index)).copied().collect();
    let mut inserted = append::insert(connection, batch, &accepted).await?;
    let cancels = line_up(connection, batch, &wanted, &keys, &inserted).await?;
    connection.commit().await?;
    if inserted.at.len() < part.len() {
        // Those that did not go in leave nobody behind who would forget their keys. Whoever gave back the
        // last permit of one meanwhile has left it alone, too, since it was locked.
        inserted.released.extend(keys.values());
    }
    let mut outcomes = append::outcomes(connection, batch, &accepted, &inserted).await?.into_iter();
    append::look_after(connection, batch, &accepted, &inserted).await;
    if !cancels.is_empty() {
        mail::wake(connection, &cancels).await?;
    }
    let outcome = |index: &usize| match rejected.get(index) {
        Some(holding) => Appended::Rejected { holding: *holding },
        None => outcomes.next().unwrap_or(Appended::Fenced),
    };
    Ok(part.iter().map(outcome).collect())
}

/// Lets in whoever comes next for these keys, and forgets those for which nobody waits.
pub(crate) async fn hand_on(connection: &mut Connection, keys: &[i64]) -> Result<(), DbError> {
    connection.execute(queries::PERMIT_PROMOTE, &[&keys]).await?;
    connection.execute(queries::PERMIT_KEYS_FORGET, &[&keys]).await?;
    Ok(())
}

/// Lets in whoever was not, because somebody died after the frame that gave a permit back.
pub(crate) async fn sweep(connection: &mut Connection) -> Result<(), DbError> {
    let rows = connection.query(queries::PERMIT_SWEEP, &[]).await?;
    let keys = rows.iter().map(|row| get(row, 0)).collect::<Result<Vec<i64>, _>>()?;
    if !keys.is_empty() {
        connection.execute(queries::PERMIT_PROMOTE, &[&keys]).await?;
    }
    Ok(())
}

/// Where executions stand, also those that have no control row.
pub(crate) async fn find(
    connection: &mut Connection,
    executions: &[ExecutionNo],
) -> Result<HashMap<ExecutionNo, Permit>, DbError> {
    let numbers: Vec<i64> = executions.iter().map(|execution| execution.0).collect();
    let rows = connection.query(queries::PERMIT_LOAD, &[&numbers]).await?;
    rows.iter().map(read).collect()
}

/// A place in the columns of `permit_load`.
pub(crate) fn read(row: &Row) -> Result<(ExecutionNo, Permit), DbError> {
    let permit = Permit { key: text(row, 1)?, holding: get(row, 2)?, before: count(row, 3)? };
    Ok((ExecutionNo(get(row, 0)?), permit))
}

/// The line of every key.
pub(crate) async fn permit_queues(
    connection: &mut Connection,
) -> Result<Vec<PermitQueue>, DbError> {
    let rows = connection.query(queries::PERMIT_QUEUES, &[]).await?;
    let line = |row| {
        let first: Option<i64> = get(row, 4)?;
        let limit: Option<i64> = get(row, 5)?;
        let limit = limit.map(|limit| u32::try_from(limit).unwrap_or(u32::MAX));
        Ok(PermitQueue {
            key: text(row, 0)?,
            holding: count(row, 1)?,
            limit_max: narrow(row, 2)?,
            last_holding: get::<Option<i64>>(row, 3)?.map(ExecutionNo),
            first_waiting: first.map(ExecutionNo).zip(limit),
        })
    };
    rows.iter().map(line).collect()
}

/// Locks the key of a place that may have to be made, before anything else is locked: whoever appends
/// does so in this order, too.
pub(crate) async fn lock_derived(
    connection: &mut Connection,
    derived: &DerivedPermit,
) -> Result<(), DbError> {
    lock(connection, &BTreeSet::from([&*derived.request.key])).await?;
    Ok(())
}

/// Makes the place of an execution what its log says, and gives away what comes free by that. For inside
/// of a transaction.
pub(crate) async fn mend(
    connection: &mut Connection,
    execution: ExecutionNo,
    derived: Option<&DerivedPermit>,
) -> Result<(), DbError> {
    let found = find(connection, &[execution]).await?.remove(&execution);
    let keeps =
        found.as_ref().zip(derived).is_some_and(|(permit, of)| permit.key == of.request.key);
    if !keeps {
        let rows = connection.query(queries::PERMIT_RELEASE, &[&execution.0]).await?;
        let keys = rows.iter().map(|row| get(row, 0)).collect::<Result<Vec<i64>, _>>()?;
        connection.execute(queries::PERMIT_PROMOTE, &[&keys]).await?;
    }
    let Some(DerivedPermit { request, admitted }) = derived else { return Ok(()) };
    let keys = lock(connection, &BTreeSet::from([&*request.key])).await?;
    let ids: Vec<i64> = keys.values().copied().collect();
    let (executions, limits) = (vec![execution.0], vec![limit(request)]);
    if !keeps {
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [&executions, &ids, &limits, admitted];
        connection.execute(queries::PERMIT_INSERT, &params).await?;
    } else if *admitted {
        connection.execute(queries::PERMIT_GIVE, &[&execution.0]).await?;
    } else {
        connection.execute(queries::PERMIT_ADMIT, &[&executions]).await?;
    }
    connection.execute(queries::PERMIT_PROMOTE, &[&ids]).await?;
    Ok(())
}

/// The frames of a part, with what they ask for.
struct Wanted<'a>(Vec<(usize, &'a Append, &'a PermitRequest)>);

impl<'a> Wanted<'a> {
    fn of(batch: &'a [Append], part: &[usize]) -> Self {
        let wanted = part.iter().filter_map(|index| {
            let append = batch.get(*index)?;
            Some((*index, append, append.side.permit.as_ref()?))
        });
        Self(wanted.collect())
    }

    fn keys(&self) -> BTreeSet<&'a str> {
        self.0.iter().map(|(_, _, request)| &*request.key).collect()
    }
}

fn limit(request: &PermitRequest) -> i64 {
    i64::from(request.limit.max(1))
}

/// Locks keys; gives the id of each.
async fn lock<'a>(
    connection: &mut Connection,
    wanted: &BTreeSet<&'a str>,
) -> Result<HashMap<&'a str, i64>, DbError> {
    let names: Vec<&[u8]> = wanted.iter().map(|key| key.as_bytes()).collect();
    let rows = connection.query(queries::PERMIT_KEYS_LOCK, &[&names]).await?;
    let mut ids = HashMap::new();
    for row in &rows {
        let name = std::str::from_utf8(get(row, 1)?).unwrap_or_default();
        ids.extend(wanted.get(name).copied().zip(Some(get(row, 0)?)));
    }
    Ok(ids)
}

/// Which frames are not accepted, and how many hold a permit of their key: those that would go in and not
/// come to hold a permit. Whether they would is found out by trying: names that are taken, and frames that
/// are there or do not fit, come first.
async fn reject(
    connection: &mut Connection,
    batch: &[Append],
    wanted: &Wanted<'_>,
    keys: &HashMap<&str, i64>,
) -> Result<HashMap<usize, u64>, DbError> {
    let strict: Vec<_> =
        wanted.0.iter().filter(|(_, _, permit)| permit.policy == PermitPolicy::Reject).collect();
    if strict.is_empty() {
        return Ok(HashMap::new());
    }
    let executions: Vec<i64> =
        strict.iter().map(|(_, append, _)| append.header.execution.0).collect();
    let ids: Vec<Option<i64>> =
        strict.iter().map(|(_, _, permit)| keys.get(&*permit.key).copied()).collect();
    let mut crowded: HashMap<usize, u64> = HashMap::new();
    for row in connection.query(queries::PERMIT_CROWD, &[&executions, &ids]).await? {
        let position = usize::try_from(get::<i64>(&row, 0)?).unwrap_or(0).saturating_sub(1);
        let Some((index, _, permit)) = strict.get(position) else { continue };
        let (known, holding, waiting): (bool, i64, bool) =
            (get(&row, 1)?, get(&row, 2)?, get(&row, 3)?);
        if !known && (waiting || holding >= limit(permit)) {
            crowded.insert(*index, from_stored(holding));
        }
    }
    if crowded.is_empty() {
        return Ok(crowded);
    }
    let mut trial: Vec<usize> = crowded.keys().copied().collect();
    trial.sort_by_key(|index| batch[*index].header.execution);
    connection.run_all("SAVEPOINT trial").await?;
    let inserted = append::insert(connection, batch, &trial).await?;
    connection.run_all("ROLLBACK TO SAVEPOINT trial").await?;
    crowded.retain(|index, _| inserted.at.contains_key(&batch[*index].header.execution.0));
    Ok(crowded)
}

/// Gives places to those whose frames went in, lets in whoever may, and tells others to make room. Gives
/// the messages to those.
async fn line_up(
    connection: &mut Connection,
    batch: &[Append],
    wanted: &Wanted<'_>,
    keys: &HashMap<&str, i64>,
    inserted: &Inserted,
) -> Result<Vec<Mail>, DbError> {
    let (mut executions, mut ids, mut limits) = (Vec::new(), Vec::new(), Vec::new());
    let mut newcomers = Vec::new();
    let known: HashSet<i64> = {
        let all: Vec<ExecutionNo> =
            wanted.0.iter().map(|(_, append, _)| append.header.execution).collect();
        find(connection, &all).await?.keys().map(|execution| execution.0).collect()
    };
    for (index, append, permit) in &wanted.0 {
        let execution = append.header.execution.0;
        let Some(id) = keys.get(&*permit.key) else { continue };
        if !inserted.at.contains_key(&execution) {
            continue;
        }
        executions.push(execution);
        ids.push(*id);
        limits.push(limit(permit));
        if permit.policy == PermitPolicy::CancelOldest && !known.contains(&execution) {
            newcomers.push((*index, *id));
        }
    }
    if executions.is_empty() {
        return Ok(Vec::new());
    }
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
        [&executions, &ids, &limits, &false];
    connection.execute(queries::PERMIT_INSERT, &params).await?;
    connection.execute(queries::PERMIT_PROMOTE, &[&ids]).await?;
    connection.execute(queries::PERMIT_ADMIT, &[&executions]).await?;
    let mut cancels = Vec::new();
    for (index, id) in newcomers {
        let append = &batch[index];
        let Some(permit) = &append.side.permit else { continue };
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
            [&id, &append.header.execution.0, &limit(permit)];
        for row in connection.query(queries::PERMIT_OLDEST, &params).await? {
            cancels.push(cancel_message(&append.header, &permit.key, ExecutionNo(get(&row, 0)?)));
        }
    }
    if !cancels.is_empty() {
        mail::put(connection, &cancels).await?;
    }
    Ok(cancels)
}
