//! Frames and their side rows: the only way into the log.
//!
//! A batch is one statement, and so one transaction, which holds no lock longer than it takes. A
//! statement cannot see its own inserts, so a batch with several frames of one execution becomes
//! several statements, one after the other:
//!
//! ```text
//!   batch ─▶ rounds: the k-th frame of each execution ─▶ statement ─▶ lookup of frames not inserted
//!                                                            │
//!                                    data refused: halves ◀──┘ ─▶ check the inboxes of parked executions
//! ```
//!
//! On any error the outcome is unknown, and the caller repeats the identical batch.

mod rounds;
mod rows;

use std::collections::{BTreeSet, HashMap, HashSet};

use waypost_core::id::ExecutionNo;
use waypost_core::outbox::are_awaited;
use waypost_core::time::Timestamp;
use waypost_ports::store::{
    Append, Appended, ControlChange, Fire, Mail, MailDelivery, StoreError, Submission, TakenName,
};

use self::rounds::{needs_transaction, parts, rounds};
use crate::connection::{Connection, Role};
use crate::error::{DbError, Result, in_spite_of_others};
use crate::queries::sql;
use crate::store::PostgresStore;
use crate::text::get;
use crate::triggers::fires;
use crate::{blob_refs, mail, outbox, permits, topics};

pub(crate) fn append(store: &PostgresStore, batch: &[Append]) -> Result<Vec<Appended>, StoreError> {
    let mut outcomes: Vec<Option<Appended>> = vec![None; batch.len()];
    for round in rounds(batch, &mut outcomes) {
        for part in parts(batch, &round) {
            append_part(store, batch, &part, &mut outcomes)?;
        }
    }
    // Every index is in a round, or was refused before.
    Ok(outcomes.into_iter().map(|outcome| outcome.unwrap_or(Appended::Fenced)).collect())
}

/// Appends frames of different executions; where the data of one is refused, the others in halves.
fn append_part(
    store: &PostgresStore,
    batch: &[Append],
    part: &[usize],
    outcomes: &mut [Option<Appended>],
) -> Result<(), StoreError> {
    // The order of locks leaves one way into a conflict: names in two orders in two batches.
    let result = in_spite_of_others(|| {
        store.try_run(Role::Writers, async |db| {
            match part.first().map(|index| &batch[*index].side) {
                Some(side) if side.permit.is_some() => permits::append(db, batch, part).await,
                Some(side) if needs_transaction(side) => {
                    append_in_transaction(db, batch, part).await
                }
                _ => append_plain(db, batch, part).await,
            }
        })
    });
    let error = match result {
        Ok(of_part) => {
            for (index, outcome) in part.iter().zip(of_part) {
                outcomes[*index] = Some(outcome);
            }
            return Ok(());
        }
        Err(error) => error,
    };
    let refusal = match error {
        DbError::Data(reason) => Appended::Poisoned { reason },
        DbError::Unborn => Appended::Unborn,
        error => return Err(error.into()),
    };
    if let [index] = part {
        outcomes[*index] = Some(refusal);
        return Ok(());
    }
    let (left, right) = part.split_at(part.len() / 2);
    append_part(store, batch, left, outcomes)?;
    append_part(store, batch, right, outcomes)
}

async fn append_plain(
    db: &mut Connection,
    batch: &[Append],
    part: &[usize],
) -> Result<Vec<Appended>> {
    let inserted = insert(db, batch, part).await?;
    let outcomes = outcomes(db, batch, part, &inserted).await?;
    after_commit(db, batch, part, &inserted).await;
    Ok(outcomes)
}

/// Frames with rows besides those of their own statement, in one transaction with them.
async fn append_in_transaction(
    db: &mut Connection,
    batch: &[Append],
    part: &[usize],
) -> Result<Vec<Appended>> {
    let admitted = fires::begin(db, batch, part).await?;
    let mut inserted = insert(db, batch, &admitted.entering).await?;
    fires::finish(db, batch, &admitted, &inserted).await?;
    write_further_rows(db, batch, &admitted.entering, &inserted).await?;
    db.commit().await?;
    inserted.refused = admitted.refused;
    let outcomes = outcomes(db, batch, part, &inserted).await?;
    after_commit(db, batch, part, &inserted).await;
    Ok(outcomes)
}

/// Inside of a transaction: what comes with the inserted frames besides the rows of their statement. The
/// births first, since mail may be for them.
pub(crate) async fn write_further_rows(
    db: &mut Connection,
    batch: &[Append],
    part: &[usize],
    inserted: &Inserted,
) -> Result<()> {
    let appends = part.iter().map(|index| &batch[*index]);
    let went_in: Vec<&Append> =
        appends.filter(|append| inserted.at.contains_key(&append.header.execution.0)).collect();
    let births: Vec<&Append> = went_in.iter().flat_map(|append| &append.side.births).collect();
    if !births.is_empty() {
        let born = insert_after(db, &births, part.len()).await?;
        if born.at.len() < births.len() {
            return Err(DbError::Unborn);
        }
    }
    let naming = went_in.iter().chain(&births);
    let named = naming.map(|append| (append.header.execution, &append.side.blobs[..]));
    blob_refs::insert(db, named).await?;
    let mail: Vec<Mail> = went_in.iter().flat_map(|append| &append.side.mail).cloned().collect();
    if !mail.is_empty() {
        let accepted = mail::put(db, &mail).await?;
        let taken = mail.iter().zip(accepted);
        let taken = taken.filter(|(_, put)| matches!(put, MailDelivery::Accepted { .. }));
        let named = taken.map(|(mail, _)| (mail.execution, &mail.blobs[..]));
        blob_refs::insert(db, named).await?;
    }
    outbox::await_results(db, &went_in).await?;
    topics::change(db, &went_in).await
}

#[derive(Default)]
pub(crate) struct Inserted {
    /// When each frame was committed, by execution.
    pub(crate) at: HashMap<i64, i64>,
    /// Executions whose fires were refused, and so their frames.
    pub(crate) refused: HashSet<i64>,
    /// Concurrency keys in which a row may be promoted after the commit.
    pub(crate) released: Vec<i64>,
}

/// Inserts frames of different executions with their side rows.
pub(crate) async fn insert(
    db: &mut Connection,
    batch: &[Append],
    part: &[usize],
) -> Result<Inserted> {
    let appends: Vec<&Append> = part.iter().map(|index| &batch[*index]).collect();
    insert_after(db, &appends, 0).await
}

/// As `insert`, after so many other frames of the same transaction.
async fn insert_after(db: &mut Connection, appends: &[&Append], others: usize) -> Result<Inserted> {
    if appends.is_empty() {
        return Ok(Inserted::default());
    }
    let mut frames = rows::Frames::default();
    appends.iter().for_each(|append| frames.push(append));
    let mut inserted = Inserted::default();
    if others == 0 && appends.iter().all(|append| rows::is_plain(append)) {
        for row in db.query(sql!("frames_append"), &frames.params()).await? {
            inserted.at.insert(get(&row, 0)?, get(&row, 1)?);
        }
        return Ok(inserted);
    }
    let mut sides = rows::Sides::default();
    appends.iter().for_each(|append| sides.push(append));
    let after = i64::try_from(others).unwrap_or(i64::MAX);
    for row in db.query(sql!("frames_append_side"), &sides.params(&frames, &after)).await? {
        match get::<Option<i64>>(&row, 2)? {
            Some(key) => inserted.released.push(key),
            None => drop(inserted.at.insert(get(&row, 0)?, get(&row, 1)?)),
        }
    }
    Ok(inserted)
}

/// The outcome of each frame. Frames that were not inserted are looked up in a statement of its
/// own: the insert's snapshot cannot have a row that it waited for.
pub(crate) async fn outcomes(
    db: &mut Connection,
    batch: &[Append],
    part: &[usize],
    inserted: &Inserted,
) -> Result<Vec<Appended>> {
    let went_in = |index: &usize| inserted.at.get(&batch[*index].header.execution.0);
    let losers: Vec<&Append> =
        part.iter().filter(|index| went_in(index).is_none()).map(|index| &batch[*index]).collect();
    let mut lost = match losers.is_empty() {
        true => Vec::new(),
        false => look_up(db, &losers, &inserted.refused).await?,
    }
    .into_iter();
    let outcome = |index: &usize| match went_in(index) {
        Some(at) => Appended::Committed { at: Timestamp(*at) },
        None => lost.next().unwrap_or(Appended::Fenced),
    };
    Ok(part.iter().map(outcome).collect())
}

/// When an earlier call committed each of these frames, by execution, if one did.
async fn committed_before(db: &mut Connection, appends: &[&Append]) -> Result<HashMap<i64, i64>> {
    let executions: Vec<i64> = appends.iter().map(|append| append.header.execution.0).collect();
    let places: Vec<i64> = appends
        .iter()
        .map(|append| i64::try_from(append.header.first_seq).unwrap_or(i64::MAX))
        .collect();
    let ids: HashMap<i64, uuid::Uuid> = appends
        .iter()
        .map(|append| (append.header.execution.0, append.header.append_id.0))
        .collect();
    let mut committed = HashMap::new();
    for row in db.query(sql!("frames_find"), &[&executions, &places]).await? {
        let execution: i64 = get(&row, 0)?;
        if ids.get(&execution) == Some(&get(&row, 1)?) {
            committed.insert(execution, get(&row, 2)?);
        }
    }
    Ok(committed)
}

async fn look_up(
    db: &mut Connection,
    losers: &[&Append],
    refused: &HashSet<i64>,
) -> Result<Vec<Appended>> {
    let committed = committed_before(db, losers).await?;
    let mut outcomes: Vec<Appended> = losers
        .iter()
        .map(|append| match committed.get(&append.header.execution.0) {
            Some(at) => Appended::Committed { at: Timestamp(*at) },
            None => Appended::Fenced,
        })
        .collect();
    let of_fires = losers.iter().enumerate().filter(|(at, append)| {
        outcomes[*at] == Appended::Fenced && refused.contains(&append.header.execution.0)
    });
    let (places, fires): (Vec<usize>, Vec<&Fire>) =
        of_fires.filter_map(|(at, append)| Some((at, fires::of(append)?))).unzip();
    for (at, outcome) in places.into_iter().zip(fires::outcomes(db, &fires).await?) {
        outcomes[at] = outcome;
    }
    let nameless: Vec<(usize, &Submission)> = losers
        .iter()
        .enumerate()
        .filter(|(at, append)| outcomes[*at] == Appended::Fenced && append.header.parent.is_none())
        .filter_map(|(at, append)| Some((at, append.side.submission.as_ref()?)))
        .collect();
    if nameless.is_empty() {
        return Ok(outcomes);
    }
    let keys: Vec<&[u8]> =
        nameless.iter().map(|(_, names)| names.key.as_str().as_bytes()).collect();
    let idempotency: Vec<Option<&[u8]>> = nameless
        .iter()
        .map(|(_, names)| names.idempotency.as_ref().map(|key| key.key.as_bytes()))
        .collect();
    for row in db.query(sql!("submissions_find"), &[&keys, &idempotency]).await? {
        let position = usize::try_from(get::<i64>(&row, 0)?).unwrap_or(0).saturating_sub(1);
        let Some((at, names)) = nameless.get(position) else { continue };
        let by_key: Option<i64> = get(&row, 1)?;
        let by_idempotency: Option<i64> = get(&row, 2)?;
        let digest = names.idempotency.as_ref().map(|key| key.digest.as_slice());
        // The idempotency key counts before the key.
        let holder = match by_idempotency {
            Some(holder) => {
                Some((holder, TakenName::key(get::<Option<&[u8]>>(&row, 3)? == digest)))
            }
            None => by_key.map(|holder| (holder, TakenName::Id)),
        };
        if let Some((holder, taken)) = holder {
            outcomes[*at] = Appended::Duplicate { execution: ExecutionNo(holder), taken };
        }
    }
    Ok(outcomes)
}

/// After the commit: wakes executions that got mail with it, or while they were being parked, promotes rows of
/// queues that have changed, and routes signals by key. If this fails, the next claim sweeps.
pub(crate) async fn after_commit(
    db: &mut Connection,
    batch: &[Append],
    part: &[usize],
    inserted: &Inserted,
) {
    let appends = part.iter().map(|index| &batch[*index]);
    // Also of those that an earlier call committed, whose reply was lost.
    let changed = appends.clone().filter_map(|append| append.side.topics.as_ref());
    let names: BTreeSet<_> = changed.flat_map(|topics| topics.names()).collect();
    let went_in = appends.filter(|append| inserted.at.contains_key(&append.header.execution.0));
    let parked: Vec<i64> = went_in
        .flat_map(|append| {
            let woken = parks(append) || are_awaited(&append.side.messages);
            let parked = woken.then_some(append.header.execution.0);
            parked.into_iter().chain(append.side.mail.iter().map(|mail| mail.execution.0))
        })
        .collect();
    let mut result = Ok(());
    if !parked.is_empty() {
        result = db.execute(sql!("control_wake"), &[&parked]).await.map(drop);
    }
    if result.is_ok() && !inserted.released.is_empty() {
        result = permits::promote_released(db, &inserted.released).await;
    }
    if result.is_ok() && !names.is_empty() {
        result = topics::route(db, &names).await.map(drop);
    }
    if let Err(error) = result {
        tracing::debug!(%error, "left to the next sweep");
    }
}

/// Does the frame leave its execution unowned?
fn parks(append: &Append) -> bool {
    matches!(append.side.control, Some(ControlChange::Parked { .. } | ControlChange::Held { .. }))
}
