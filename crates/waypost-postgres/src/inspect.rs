//! For a checker: everything of every execution, and repairs of rows.
//!
//! Reads are in chunks, each a snapshot of its own, so that no long snapshot keeps the server from
//! vacuuming.

use std::collections::{BTreeSet, HashMap};

use tokio_postgres::Row;
use uuid::Uuid;
use waypost_core::frame::Parent;
use waypost_core::id::{AppendId, ExecutionNo};
use waypost_ports::inspect::{
    Chunk, ChunkRequest, DerivedRow, EXAMINED_BYTES_MAX, Examined, Inspect, Ownership, PermitQueue,
    Remedy, Repair, Shown, Standing, Stray, StrayKind,
};
use waypost_ports::store::{Control, StoreError, Subscription, Urgency};

use crate::connection::{Connection, Params, Role};
use crate::error::Result;
use crate::projections::shown;
use crate::queries::sql;
use crate::store::PostgresStore;
use crate::text::{count, from_stored, get, limit, time, to_stored};
use crate::{history, permits, topics};

impl Inspect for PostgresStore {
    fn executions(&self, request: &ChunkRequest) -> Result<Chunk, StoreError> {
        self.run(Role::Api, async |db| {
            let after = request.after.map_or(i64::MIN, |after| after.0);
            let params: Params<'_> = &[&after, &limit(request.limit)];
            let read = |row: &Row| Ok((ExecutionNo(get(row, 0)?), time(row, 1)?));
            let mut all: Vec<_> = db.query_map(sql!("executions_after"), params, read).await?;
            let next = all.last().filter(|_| all.len() == request.limit).map(|(id, _)| *id);
            all.retain(|(_, moved)| request.since.is_none_or(|since| *moved >= Some(since)));
            Ok(Chunk { executions: all.into_iter().map(|(id, _)| id).collect(), next })
        })
    }

    fn examine(&self, executions: &[ExecutionNo]) -> Result<Vec<Examined>, StoreError> {
        self.run(Role::Api, async |db| {
            let some = first_bytes(db, executions).await?;
            examine(db, &some).await
        })
    }

    fn shown(&self, executions: &[ExecutionNo]) -> Result<Vec<Shown>, StoreError> {
        self.run(Role::Api, async |db| shown::rows(db, executions).await)
    }

    fn catch_up(&self) -> Result<(), StoreError> {
        self.wait_projected()
    }

    fn strays(&self) -> Result<Vec<Stray>, StoreError> {
        let tables = [
            (StrayKind::Control, sql!("stray_control")),
            (StrayKind::Mail, sql!("stray_mail")),
            (StrayKind::Snapshot, sql!("stray_snapshot")),
            (StrayKind::Permit, sql!("stray_permit")),
        ];
        let mut strays = Vec::new();
        for (kind, sql) in tables {
            let read = |row: &Row| Ok(Stray { execution: ExecutionNo(get(row, 0)?), kind });
            let found: Vec<_> =
                self.run(Role::Api, async |db| db.query_map(sql, &[], read).await)?;
            strays.extend(found);
        }
        let kind = StrayKind::Projection;
        let shown = self.projections.strays()?;
        strays.extend(shown.into_iter().map(|execution| Stray { execution, kind }));
        strays.sort_unstable();
        Ok(strays)
    }

    fn repair(&self, repair: &Repair) -> Result<bool, StoreError> {
        self.run(Role::Api, async |db| apply_repair(db, repair).await)
    }

    fn permit_queues(&self) -> Result<Vec<PermitQueue>, StoreError> {
        self.run(Role::Api, async |db| permits::permit_queues(db).await)
    }

    fn promote(&self) -> Result<(), StoreError> {
        self.run(Role::Api, async |db| permits::sweep(db).await)
    }

    fn reproject(&self, executions: &[ExecutionNo]) -> Result<(), StoreError> {
        self.projections.derive_again(executions)
    }
}

/// As many as may be examined at once, and at least one.
async fn first_bytes(db: &mut Connection, executions: &[ExecutionNo]) -> Result<Vec<ExecutionNo>> {
    let numbers: Vec<i64> = executions.iter().map(|execution| execution.0).collect();
    let read = |row: &Row| Ok((get(row, 0)?, count(row, 1)?));
    let sizes: HashMap<i64, u64> = db.query_map(sql!("frames_sizes"), &[&numbers], read).await?;
    let mut bytes = 0;
    let mut some = Vec::new();
    for execution in executions {
        some.push(*execution);
        bytes += sizes.get(&execution.0).copied().unwrap_or(0);
        if bytes > EXAMINED_BYTES_MAX as u64 {
            break;
        }
    }
    Ok(some)
}

async fn examine(db: &mut Connection, executions: &[ExecutionNo]) -> Result<Vec<Examined>> {
    let more = [
        sql!("snapshots_load"),
        sql!("control_standing"),
        sql!("permit_load"),
        sql!("subscriptions_load"),
    ];
    let (mut histories, [snapshots, standing, places, waits]) =
        history::load_with(db, executions, more).await?;
    let mut standings = HashMap::new();
    for row in &standing {
        standings.insert(get::<i64>(row, 0)?, read_standing(row)?);
    }
    let mut permits = places.iter().map(permits::read).collect::<Result<HashMap<_, _>, _>>()?;
    let mut subscriptions: HashMap<ExecutionNo, Vec<Subscription>> = HashMap::new();
    for row in &waits {
        let (execution, subscription) = topics::read(row)?;
        subscriptions.entry(execution).or_default().push(subscription);
    }
    for row in &snapshots {
        let number: i64 = get(row, 0)?;
        // As it is stored, damaged or not.
        if let Some(history) = histories.iter_mut().find(|history| history.execution.0 == number) {
            history.snapshot = Some(history::read_snapshot(row)?);
        }
    }
    let examined = histories.into_iter().map(|history| {
        let standing = standings.remove(&history.execution.0);
        let permit = permits.remove(&history.execution);
        let subscriptions = subscriptions.remove(&history.execution).unwrap_or_default();
        Examined { history, standing, permit, subscriptions }
    });
    Ok(examined.collect())
}

fn read_standing(row: &Row) -> Result<Standing> {
    let ownership = match (get::<Option<Uuid>>(row, 1)?, get(row, 2)?) {
        (None, _) => Ownership::Unowned,
        (Some(_), true) => Ownership::Held,
        // Claims consider every owner that is not alive, also an unknown one.
        (Some(_), false) => Ownership::Expired,
    };
    let wakes_from = match get::<i16>(row, 3)? {
        0 => Urgency::Ordinary,
        1 => Urgency::Cancel,
        _ => Urgency::Resume,
    };
    let requires: i32 = get(row, 4)?;
    Ok(Standing { ownership, wakes_from, requires: u16::try_from(requires).unwrap_or(u16::MAX) })
}

/// Repairs rows in a transaction that locks the log's end and the control row, so that what was
/// compared still holds when it commits.
async fn apply_repair(db: &mut Connection, repair: &Repair) -> Result<bool> {
    let execution = repair.execution.0;
    db.begin().await?;
    if let Remedy::Control { permit: Some(derived), .. } = &repair.remedy {
        // Before anything else, as appends do: its row may have to be inserted.
        permits::lock(db, &BTreeSet::from([&*derived.request.key])).await?;
    }
    let read = |row: &Row| {
        let (first_seq, append_id) = (from_stored(get(row, 0)?), AppendId(get(row, 1)?));
        Ok((Parent { first_seq, append_id }, get::<i64>(row, 2)? + 1))
    };
    let (last, next) = db.query_opt(sql!("log_last"), &[&execution], read).await?.unzip();
    let params: Params<'_> = &[&execution, &next.unwrap_or(1), &Uuid::new_v4()];
    let guarded = db.execute(sql!("log_guard"), params).await?;
    db.query(sql!("control_lock"), &[&execution]).await?;
    let seen =
        db.query_opt(sql!("control_load"), &[&vec![execution]], history::read_control).await?;
    // How many stand before it changes without it.
    let apart = |control: Option<Control>| control.map(|row| Control { permit: None, ..row });
    let same = last == repair.last && (last.is_none() || apart(seen) == apart(repair.seen.clone()));
    if guarded == 0 || !same {
        db.roll_back().await?;
        return Ok(false);
    }
    apply(db, execution, &repair.remedy).await?;
    db.execute(sql!("log_unguard"), params).await?;
    db.commit().await?;
    Ok(true)
}

async fn apply(db: &mut Connection, execution: i64, remedy: &Remedy) -> Result<()> {
    let sql: &[&'static str] = match remedy {
        Remedy::Control { row, epoch, requires, permit, subscriptions } => {
            derive(db, execution, row, *epoch, *requires).await?;
            topics::replace(db, ExecutionNo(execution), subscriptions).await?;
            return permits::repair(db, ExecutionNo(execution), permit.as_ref()).await;
        }
        Remedy::Nothing => {
            permits::repair(db, ExecutionNo(execution), None).await?;
            topics::replace(db, ExecutionNo(execution), &[]).await?;
            &[sql!("control_forget"), sql!("mail_forget"), sql!("snapshot_forget")]
        }
        Remedy::NoSnapshot => &[sql!("snapshot_forget")],
    };
    for sql in sql {
        db.execute(sql, &[&execution]).await?;
    }
    Ok(())
}

async fn derive(
    db: &mut Connection,
    execution: i64,
    row: &DerivedRow,
    epoch: u32,
    requires: u16,
) -> Result<()> {
    let (next_due, held, wakes_from) = match row {
        DerivedRow::Ready => (None, None, Urgency::Ordinary),
        DerivedRow::Parked { next_due } => (*next_due, None, Urgency::Ordinary),
        DerivedRow::Held { reason, next_due } => (*next_due, Some(reason), Urgency::Cancel),
    };
    let params: Params<'_> = &[
        &execution,
        &(*row == DerivedRow::Ready),
        &to_stored(u64::from(epoch))?,
        &next_due.map(|due| due.0),
        &held.map(|reason| reason.as_bytes()),
        &(wakes_from as i16),
        &i32::from(requires),
    ];
    db.execute(sql!("control_derive"), params).await?;
    Ok(())
}
