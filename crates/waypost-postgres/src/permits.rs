//! The queues of concurrency keys: rows for [`waypost_core::permits`], and its changes of them.
//!
//! An append that inserts rows locks their keys first, so that the order of tickets is the order of commits.
//! It reads the queues after it has inserted the frames: that locks the control rows, so that an execution
//! that goes back to its place cannot be given a permit unnoticed.
//!
//! Promotion needs no lock of the key: an old excerpt gives too few permits, never too many. Each commit
//! that deletes a row, or leaves a new one waiting, reads the queue again afterwards: of two such commits,
//! the second sees the first.
//!
//! Frames of executions without a key never come here.

use std::collections::{BTreeSet, HashMap};

use tokio_postgres::Row;
use waypost_core::id::ExecutionNo;
use waypost_core::permits::{
    Excerpt, Occasion, PermitRequest, QueueChanges, RowChange, WAITING_MAX, WaitingRow, decide,
    rejection,
};
use waypost_ports::inspect::{DerivedPermit, PermitQueue};
use waypost_ports::store::{Append, Appended, Mail, Permit, cancel_message};

use crate::append;
use crate::connection::{Connection, Params};
use crate::error::Result;
use crate::mail;
use crate::queries::sql;
use crate::text::{count, get, narrow, text};
use crate::triggers::fires;

/// Appends frames that ask for permits, of different executions and different keys.
pub(crate) async fn append(
    db: &mut Connection,
    batch: &[Append],
    part: &[usize],
) -> Result<Vec<Appended>> {
    let mut admitted = fires::begin(db, batch, part).await?;
    let asking = lock_all(db, batch, &admitted.entering).await?;
    let rejected = reject(db, batch, &asking).await?;
    let is_accepted = |index: &&usize| !rejected.contains_key(index);
    let accepted: Vec<usize> = admitted.entering.iter().filter(is_accepted).copied().collect();
    let mut inserted = append::insert(db, batch, &accepted).await?;
    fires::finish(db, batch, &admitted, &inserted).await?;
    append::write_further_rows(db, batch, &accepted, &inserted).await?;
    let (stored, refused): (Vec<Asking<'_>>, Vec<Asking<'_>>) =
        asking.into_iter().partition(|asking| inserted.at.contains_key(&asking.execution.0));
    let excerpts = read_for_requests(db, &stored).await?;
    let decided = stored.iter().zip(excerpts);
    let decided: Vec<_> = decided
        .map(|(asking, excerpt)| (asking, decide(&excerpt, Occasion::Request(asking.request))))
        .collect();
    write_changes(db, &decided).await?;
    let cancels = decided.iter().filter_map(|(asking, changes)| {
        Some(cancel_message(&batch[asking.index].header, &asking.request.key, changes.superseded?))
    });
    let cancels: Vec<Mail> = cancels.collect();
    if !cancels.is_empty() {
        mail::put(db, &cancels).await?;
    }
    db.commit().await?;
    // A release that committed before this one could promote no row that this one inserted or locked; and a
    // key without rows was left alone, since it was locked.
    let waiting =
        decided.iter().filter(|(_, changes)| !changes.wakes).map(|(asking, _)| asking.key);
    inserted.released.extend(waiting.chain(refused.iter().map(|asking| asking.key)));
    inserted.refused = std::mem::take(&mut admitted.refused);
    let judged: Vec<usize> = part.iter().filter(is_accepted).copied().collect();
    let mut outcomes = append::outcomes(db, batch, &judged, &inserted).await?.into_iter();
    append::after_commit(db, batch, &accepted, &inserted).await;
    if !cancels.is_empty() {
        mail::wake(db, &cancels).await?;
    }
    let outcome = |index: &usize| match rejected.get(index) {
        Some(holding) => Appended::Rejected { holding: *holding },
        None => outcomes.next().unwrap_or(Appended::Fenced),
    };
    Ok(part.iter().map(outcome).collect())
}

/// After a commit: promotes waiting rows of these keys, and deletes the keys that have no rows.
pub(crate) async fn promote_released(db: &mut Connection, keys: &[i64]) -> Result<()> {
    let idle = promote(db, keys, Occasion::Release).await?;
    if !idle.is_empty() {
        db.execute(sql!("permit_keys_forget"), &[&idle]).await?;
    }
    Ok(())
}

/// Promotes rows that wait because an instance died between a commit and the promotion.
pub(crate) async fn sweep(db: &mut Connection) -> Result<()> {
    let keys: Vec<i64> = db.query_map(sql!("permit_sweep"), &[], |row| get(row, 0)).await?;
    promote(db, &keys, Occasion::Sweep).await?;
    Ok(())
}

/// Makes the place of an execution what its log says. For inside of a transaction.
pub(crate) async fn repair(
    db: &mut Connection,
    execution: ExecutionNo,
    derived: Option<&DerivedPermit>,
) -> Result<()> {
    let rows = db.query(sql!("permit_load"), &[&vec![execution.0]]).await?;
    let own = rows.first().map(read).transpose()?.map(|(_, permit)| permit);
    let own = own.filter(|own| derived.is_some_and(|of| of.request.key == own.key));
    if own.is_none() {
        let key = |row: &Row| get(row, 0);
        let keys: Vec<i64> = db.query_map(sql!("permit_release"), &[&execution.0], key).await?;
        promote(db, &keys, Occasion::Release).await?;
    }
    let Some(DerivedPermit { request, admitted }) = derived else { return Ok(()) };
    let excerpt = Excerpt { own: own.map(|own| own.holding), ..Excerpt::default() };
    let changes = decide(&excerpt, Occasion::Repair { admitted: *admitted });
    for key in lock(db, &BTreeSet::from([&*request.key])).await?.into_values() {
        let asking = Asking { index: 0, execution, key, request };
        write_changes(db, &[(&asking, changes.clone())]).await?;
        promote(db, &[key], Occasion::Sweep).await?;
    }
    Ok(())
}

/// A place in the columns of `permit_load`.
pub(crate) fn read(row: &Row) -> Result<(ExecutionNo, Permit)> {
    let permit = Permit { key: text(row, 1)?, holding: get(row, 2)?, before: count(row, 3)? };
    Ok((ExecutionNo(get(row, 0)?), permit))
}

pub(crate) async fn permit_queues(db: &mut Connection) -> Result<Vec<PermitQueue>> {
    let queue = |row: &Row| {
        let first: Option<i64> = get(row, 4)?;
        Ok(PermitQueue {
            key: text(row, 0)?,
            holding: count(row, 1)?,
            limit_max: narrow(row, 2)?,
            last_holding: get::<Option<i64>>(row, 3)?.map(ExecutionNo),
            first_waiting: first.map(ExecutionNo).zip(get::<Option<i64>>(row, 5)?.map(limit)),
        })
    };
    db.query_map(sql!("permit_queues"), &[], queue).await
}

/// A frame that asks for a permit.
struct Asking<'a> {
    /// Of the frame, in its batch.
    index: usize,
    execution: ExecutionNo,
    /// The id of the key.
    key: i64,
    request: &'a PermitRequest,
}

async fn lock_all<'a>(
    db: &mut Connection,
    batch: &'a [Append],
    part: &[usize],
) -> Result<Vec<Asking<'a>>> {
    let requests = part.iter().filter_map(|index| {
        let append = batch.get(*index)?;
        Some((*index, append.header.execution, append.side.permit.as_ref()?))
    });
    let requests: Vec<(usize, ExecutionNo, &PermitRequest)> = requests.collect();
    let keys = requests.iter().map(|(_, _, request)| &*request.key).collect();
    let ids = lock(db, &keys).await?;
    let asking = requests.into_iter().filter_map(|(index, execution, request)| {
        let key = *ids.get(&*request.key)?;
        Some(Asking { index, execution, key, request })
    });
    Ok(asking.collect())
}

/// Locks keys; gives the id of each.
pub(crate) async fn lock<'a>(
    db: &mut Connection,
    keys: &BTreeSet<&'a str>,
) -> Result<HashMap<&'a str, i64>> {
    let names: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
    let rows = db.query(sql!("permit_keys_lock"), &[&names]).await?;
    let mut ids = HashMap::new();
    for row in &rows {
        let name = std::str::from_utf8(get(row, 1)?).unwrap_or_default();
        ids.extend(keys.get(name).copied().zip(Some(get(row, 0)?)));
    }
    Ok(ids)
}

/// The frames that are rejected, by their indexes, with the number of executions that hold the permits.
/// A frame whose name is taken, that is stored already or does not follow its parent is not rejected for a
/// permit: whether it could be inserted is found by inserting it, up to a savepoint.
async fn reject(
    db: &mut Connection,
    batch: &[Append],
    asking: &[Asking<'_>],
) -> Result<HashMap<usize, u64>> {
    let strict = asking.iter().filter(|asking| asking.request.may_be_rejected());
    let strict: Vec<&Asking<'_>> = strict.collect();
    let excerpts = read_for_requests(db, strict.iter().copied()).await?;
    let rejected = strict
        .iter()
        .zip(&excerpts)
        .filter_map(|(asking, excerpt)| Some((asking.index, rejection(excerpt, asking.request)?)));
    let mut rejected: HashMap<usize, u64> = rejected.collect();
    if rejected.is_empty() {
        return Ok(rejected);
    }
    let mut trial: Vec<usize> = rejected.keys().copied().collect();
    trial.sort_by_key(|index| batch[*index].header.execution);
    db.run_all("SAVEPOINT trial").await?;
    let inserted = append::insert(db, batch, &trial).await?;
    db.run_all("ROLLBACK TO SAVEPOINT trial").await?;
    rejected.retain(|index, _| inserted.at.contains_key(&batch[*index].header.execution.0));
    Ok(rejected)
}

/// Promotes waiting rows, and gives the keys that have no rows.
async fn promote(
    db: &mut Connection,
    keys: &[i64],
    mut occasion: Occasion<'_>,
) -> Result<Vec<i64>> {
    let mut keys: Vec<i64> = keys.iter().copied().collect::<BTreeSet<i64>>().into_iter().collect();
    let mut idle = Vec::new();
    while !keys.is_empty() {
        let count = keys.len();
        let excerpts = read_excerpts(db, &keys, &vec![None; count], &vec![0; count]).await?;
        let mut more = Vec::new();
        let mut promoted = Vec::new();
        for (key, excerpt) in keys.into_iter().zip(excerpts) {
            if excerpt.holding == 0 && excerpt.waiting.is_empty() {
                idle.push(key);
            }
            let changes = decide(&excerpt, occasion);
            more.extend(changes.may_promote_more().then_some(key));
            promoted.extend(changes.promoted);
        }
        // Rows that another transaction has locked are left to it, or to the next sweep.
        let written = write_promoted(db, &promoted).await?;
        keys = if written == promoted.len() as u64 { more } else { Vec::new() };
        occasion = Occasion::Sweep;
    }
    Ok(idle)
}

async fn read_for_requests<'a>(
    db: &mut Connection,
    asking: impl IntoIterator<Item = &'a Asking<'a>>,
) -> Result<Vec<Excerpt>> {
    let (mut keys, mut executions, mut most) = (Vec::new(), Vec::new(), Vec::new());
    for asking in asking {
        keys.push(asking.key);
        executions.push(Some(asking.execution.0));
        most.push(i64::from(asking.request.cancellable_max()));
    }
    read_excerpts(db, &keys, &executions, &most).await
}

/// Reads one queue for each of these keys, with the row of an execution, and as many rows that no newcomer
/// has superseded as count.
async fn read_excerpts(
    db: &mut Connection,
    keys: &[i64],
    executions: &[Option<i64>],
    most: &[i64],
) -> Result<Vec<Excerpt>> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let params: Params<'_> = &[&keys, &executions, &most, &i64::from(WAITING_MAX)];
    let excerpt = |row: &Row| {
        let (tickets, waiting): (Vec<i64>, Vec<i64>) = (get(row, 2)?, get(row, 3)?);
        let limits: Vec<i64> = get(row, 4)?;
        let waiting = tickets.into_iter().zip(waiting).zip(limits).map(|((ticket, of), most)| {
            WaitingRow { ticket, execution: ExecutionNo(of), limit: limit(most) }
        });
        Ok(Excerpt {
            own: get(row, 0)?,
            holding: count(row, 1)?,
            waiting: waiting.collect(),
            oldest: get::<Option<i64>>(row, 5)?.map(ExecutionNo),
            cancellable: count(row, 6)?,
        })
    };
    db.query_map(sql!("permit_excerpts"), params, excerpt).await
}

async fn write_changes(db: &mut Connection, decided: &[(&Asking<'_>, QueueChanges)]) -> Result<()> {
    let (mut executions, mut keys, mut limits, mut holds) = (vec![], vec![], vec![], vec![]);
    let (mut given, mut woken, mut superseded) = (vec![], vec![], vec![]);
    let mut promoted = Vec::new();
    for (asking, changes) in decided {
        match changes.own {
            Some(RowChange::Insert { holding }) => {
                executions.push(asking.execution.0);
                keys.push(asking.key);
                limits.push(i64::from(asking.request.limit));
                holds.push(holding);
            }
            Some(RowChange::Give) => given.push(asking.execution.0),
            None => {}
        }
        woken.extend(changes.wakes.then_some(asking.execution.0));
        superseded.extend(changes.superseded.map(|execution| execution.0));
        promoted.extend(&changes.promoted);
    }
    if !executions.is_empty() {
        db.execute(sql!("permit_insert"), &[&executions, &keys, &limits, &holds]).await?;
    }
    let updates = [
        (sql!("permit_give"), given),
        (sql!("control_admit"), woken),
        (sql!("permit_supersede"), superseded),
    ];
    for (sql, executions) in updates {
        if !executions.is_empty() {
            db.execute(sql, &[&executions]).await?;
        }
    }
    write_promoted(db, &promoted).await?;
    Ok(())
}

/// Gives how many rows were not locked by another transaction.
async fn write_promoted(db: &mut Connection, promoted: &[WaitingRow]) -> Result<u64> {
    if promoted.is_empty() {
        return Ok(0);
    }
    let tickets: Vec<i64> = promoted.iter().map(|row| row.ticket).collect();
    let executions: Vec<i64> = promoted.iter().map(|row| row.execution.0).collect();
    db.execute(sql!("permit_promote"), &[&executions, &tickets]).await
}

fn limit(stored: i64) -> u32 {
    u32::try_from(stored).unwrap_or(u32::MAX)
}
