//! Claiming, and quarantining.
//!
//! A claim is one statement that waits for no lock; the histories are read after it has committed.
//! If a copy of a parked execution's state is available and matches the digest it was parked with,
//! its log is not read at all.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio_postgres::Row;
use uuid::Uuid;
use waypost_core::id::{ExecutionId, ExecutionNo, InstanceId};
use waypost_core::time::Timestamp;
use waypost_ports::mirror::Mirror;
use waypost_ports::store::{
    ClaimRequest, Claims, History, Snapshot, StoreError, TREE_KEPT, TREES_FORGOTTEN_MAX,
};

use crate::connection::{Connection, Role};
use crate::error::{DbError, Result};
use crate::history::{self, From};
use crate::permits;
use crate::queries::sql;
use crate::store::PostgresStore;
use crate::text::{array, count, from_stored, get, limit, text, time};
use crate::topics;

/// How often claims look for work that a dead process left half done.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// How often they check all mail, however old.
const SWEEP_ALL_EVERY: Duration = Duration::from_secs(60);

/// How long the row of a stopped instance is kept: each start of a process leaves one.
const GONE_FOR_MS: i64 = 24 * 3_600_000;

/// How often copies of parked executions spared a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Copies {
    /// The copy matched the digest that the execution was parked with.
    pub hits: u64,
    /// There was none, or another.
    pub misses: u64,
}

/// The state of claims from one to the next.
#[derive(Default)]
pub(crate) struct Sweeps {
    last: Mutex<Option<(Instant, Instant)>>,
    /// Mail up to here was checked when it was old.
    seen: AtomicI64,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl Sweeps {
    /// Is it time to look, from which mail on, and at everything?
    fn due(&self) -> Option<(i64, bool)> {
        let mut last = self.last.lock();
        let now = Instant::now();
        let (swept, swept_all) = match *last {
            None => (true, true),
            Some((at, all_at)) => (now - at >= SWEEP_EVERY, now - all_at >= SWEEP_ALL_EVERY),
        };
        if !swept {
            return None;
        }
        let all_at = last.filter(|_| !swept_all).map_or(now, |(_, all_at)| all_at);
        *last = Some((now, all_at));
        Some((if swept_all { 0 } else { self.seen.load(Ordering::Relaxed) }, swept_all))
    }

    pub(crate) fn copies(&self) -> Copies {
        Copies {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
        }
    }
}

pub(crate) fn claim(store: &PostgresStore, request: &ClaimRequest) -> Result<Claims, StoreError> {
    let sweep = store.sweeps.due();
    if sweep.is_some_and(|(_, all)| all)
        && let Err(error) = store.run(Role::Engine, topics::sweep)
    {
        // Executions are claimed all the same; the next sweep tries again.
        tracing::warn!(%error, "signals by key could not be swept");
    }
    let (executions, mut claims, digests) = store.run(Role::Engine, async |db| {
        if let Some((from, all)) = sweep {
            let row = db.query_one(sql!("mail_sweep"), &[&from]).await?;
            store.sweeps.seen.store(get(&row, 0)?, Ordering::Relaxed);
            permits::sweep(db).await?;
            if all {
                db.execute(sql!("instances_forget"), &[&GONE_FOR_MS]).await?;
            }
        }
        let (executions, claims) = take(db, request).await?;
        let digests = match store.mirror().is_some() && !executions.is_empty() {
            true => digests(db, &executions, request.instance).await?,
            false => Vec::new(),
        };
        Ok((executions, claims, digests))
    })?;
    if executions.is_empty() {
        return Ok(claims);
    }
    // Outside of the connection's time limit: the mirror may be slow.
    let copies = match store.mirror() {
        Some(mirror) => find_copies(mirror.as_ref(), &digests),
        None => HashMap::new(),
    };
    let hits = store.sweeps.copies().hits;
    claims.claimed = store.run(Role::Engine, async |db| {
        read(db, &executions, request.instance, copies, &store.sweeps).await
    })?;
    claims.copied = store.sweeps.copies().hits.saturating_sub(hits);
    Ok(claims)
}

async fn take(db: &mut Connection, request: &ClaimRequest) -> Result<(Vec<ExecutionNo>, Claims)> {
    let numbers = |executions: &Vec<ExecutionNo>| -> Vec<i64> {
        executions.iter().map(|execution| execution.0).collect()
    };
    let only = request.only.as_ref().map(numbers);
    let held = request.held.as_ref().map(numbers);
    let fold = i32::from(request.fold);
    let (of, at) = request.share.modulo().unzip();
    let ahead = i64::try_from(request.ahead.0).unwrap_or(i64::MAX / 2);
    // Below the largest number: the statement adds one.
    let limit = limit(request.limit).min(1 << 20);
    let rows = db
        .query(
            sql!("claim_take"),
            &[
                &request.instance.0,
                &fold,
                &limit,
                &only,
                &held,
                &request.suspects,
                &ahead,
                &of,
                &at,
            ],
        )
        .await?;
    let mut executions = Vec::with_capacity(rows.len());
    let mut claims = Claims::default();
    for row in &rows {
        executions.extend(get::<Option<i64>>(row, 0)?.map(ExecutionNo));
        claims.more = count(row, 1)? > from_stored(limit) || get(row, 3)?;
        claims.next_due = time(row, 2)?;
        claims.lapsed = !get::<bool>(row, 4)?;
        claims.at = Timestamp(get(row, 5)?);
    }
    Ok((executions, claims))
}

/// The digest that an execution was parked with.
struct Digest {
    execution: ExecutionNo,
    key: ExecutionId,
    seq: u64,
    digest: [u8; 32],
}

async fn digests(
    db: &mut Connection,
    executions: &[ExecutionNo],
    instance: InstanceId,
) -> Result<Vec<Digest>> {
    let executions: Vec<i64> = executions.iter().map(|execution| execution.0).collect();
    let digest = |row: &Row| {
        Ok(Digest {
            execution: ExecutionNo(get(row, 0)?),
            seq: count(row, 1)?,
            digest: array(row, 2)?,
            key: ExecutionId(text(row, 3)?),
        })
    };
    db.query_map(sql!("claim_digests"), &[&executions, &instance.0], digest).await
}

/// Copies that are what their executions were parked with. They come from outside: nothing about them is
/// believed but their digest.
fn find_copies(mirror: &dyn Mirror, digests: &[Digest]) -> HashMap<ExecutionNo, Snapshot> {
    if digests.is_empty() {
        return HashMap::new();
    }
    let keys: Vec<ExecutionId> = digests.iter().map(|digest| digest.key.clone()).collect();
    let contexts = mirror.contexts(&keys);
    let exact = digests.iter().zip(contexts).filter_map(|(digest, context)| {
        let body = context.filter(|body| *blake3::hash(body).as_bytes() == digest.digest)?;
        Some((digest.execution, Snapshot { seq: digest.seq, body }))
    });
    exact.collect()
}

/// Reads the claimed executions that are still the claimer's.
async fn read(
    db: &mut Connection,
    executions: &[ExecutionNo],
    claimer: InstanceId,
    mut copies: HashMap<ExecutionNo, Snapshot>,
    sweeps: &Sweeps,
) -> Result<Vec<History>> {
    let wanted: Vec<(ExecutionNo, From)> = executions
        .iter()
        .map(|execution| match copies.contains_key(execution) {
            true => (*execution, From::End),
            false => (*execution, From::Snapshot),
        })
        .collect();
    let mut claimed = history::load_many(db, &wanted).await?;
    claimed
        .retain(|history| history.control.as_ref().is_some_and(|row| row.owner == Some(claimer)));
    for history in &mut claimed {
        let Some(copy) = copies.remove(&history.execution) else {
            sweeps.misses.fetch_add(1, Ordering::Relaxed);
            continue;
        };
        // A frame that came after the park makes the digest one of the past.
        let last = history.frames.last().map(|frame| frame.header.last_seq);
        let is_readable = history.frames.iter().all(|frame| frame.body.is_ok());
        if last == Some(copy.seq) && is_readable {
            sweeps.hits.fetch_add(1, Ordering::Relaxed);
            history.snapshot = Some(copy);
        } else {
            sweeps.misses.fetch_add(1, Ordering::Relaxed);
            let whole = history::load(db, history.execution, From::Snapshot).await?;
            *history = whole.ok_or_else(|| DbError::Corrupt("a log has gone".to_owned()))?;
        }
    }
    Ok(claimed)
}

/// Sets an execution of this owner aside.
pub(crate) async fn hold(
    db: &mut Connection,
    execution: ExecutionNo,
    owner: InstanceId,
    reason: &str,
) -> Result<()> {
    let reason = reason.as_bytes();
    db.execute(sql!("control_hold"), &[&execution.0, &owner.0, &reason]).await?;
    // Mail that came in meanwhile found the row locked.
    db.execute(sql!("control_wake"), &[&vec![execution.0]]).await?;
    Ok(())
}

/// Marks executions that this owner is about to decide.
pub(crate) async fn doubt(
    db: &mut Connection,
    owner: InstanceId,
    executions: &[ExecutionNo],
) -> Result<Vec<ExecutionNo>> {
    let executions: Vec<i64> = executions.iter().map(|execution| execution.0).collect();
    let read = |row: &Row| get(row, 0).map(ExecutionNo);
    db.query_map(sql!("control_doubt"), &[&owner.0, &executions], read).await
}

pub(crate) async fn owners(
    db: &mut Connection,
    executions: &[ExecutionNo],
) -> Result<Vec<(ExecutionNo, InstanceId)>> {
    let executions: Vec<i64> = executions.iter().map(|execution| execution.0).collect();
    let read = |row: &Row| Ok((ExecutionNo(get(row, 0)?), get::<Option<Uuid>>(row, 1)?));
    let rows: Vec<_> = db.query_map(sql!("control_owners"), &[&executions], read).await?;
    let owned = |(execution, owner): (_, Option<Uuid>)| Some((execution, InstanceId(owner?)));
    Ok(rows.into_iter().filter_map(owned).collect())
}

pub(crate) async fn reserve_births(
    db: &mut Connection,
    root: &ExecutionId,
    count: u64,
) -> Result<u64> {
    let more = i64::try_from(count).unwrap_or(i64::MAX);
    let row = db.query_one(sql!("tree_reserve"), &[&root.as_str().as_bytes(), &more]).await?;
    let reserved: i64 = get(&row, 0)?;
    if reserved == more {
        // Its row is new, which is rare: the time to look for old ones.
        let kept = i64::try_from(TREE_KEPT.0).unwrap_or(i64::MAX);
        let most = limit(TREES_FORGOTTEN_MAX);
        db.execute(sql!("trees_forget"), &[&kept, &most]).await?;
    }
    Ok(u64::try_from(reserved.saturating_sub(more)).unwrap_or(0))
}
