//! Tasks for remote workers, where there is nothing faster to carry them. Hints: whatever is lost here
//! is offered again by its owner, so that the tables are not even written to the database's own log.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio_postgres::Row;
use uuid::Uuid;
use waypost_core::id::{ExecutionNo, InstanceId, Token, WorkerId};
use waypost_core::time::{Millis, Timestamp};
use waypost_ports::store::StoreError;
use waypost_ports::tasks::{
    Depth, Holds, Offer, OfferId, SignOfLife, Tasks, WORKER_LEASE, WorkerRow,
};

use crate::connection::{Connection, Params, Role};
use crate::error::Result;
use crate::queries::sql;
use crate::store::PostgresStore;
use crate::text::{array, count, get, limit, narrow, read_text, text};

impl Tasks for PostgresStore {
    fn offer(&self, offers: &[Offer]) -> Result<(), StoreError> {
        if offers.is_empty() {
            return Ok(());
        }
        self.run(Role::Engine, async |db| offer(db, offers).await)
    }

    fn withdraw(&self, offers: &[OfferId]) -> Result<(), StoreError> {
        if offers.is_empty() {
            return Ok(());
        }
        let executions: Vec<i64> = offers.iter().map(|offer| offer.execution.0).collect();
        let attempts: Vec<i64> = offers.iter().map(|offer| offer.attempt.into()).collect();
        let paths: Vec<&[u8]> = offers.iter().map(|offer| offer.path.as_bytes()).collect();
        self.run(Role::Engine, async |db| {
            db.execute(sql!("offers_delete"), &[&executions, &attempts, &paths]).await
        })?;
        Ok(())
    }

    fn take(&self, handlers: &[Arc<str>], most: usize) -> Result<Vec<Offer>, StoreError> {
        let handlers: Vec<&[u8]> = handlers.iter().map(|handler| handler.as_bytes()).collect();
        self.run(Role::Engine, async |db| {
            db.query_map(sql!("offers_take"), &[&handlers, &limit(most)], read_offer).await
        })
    }

    /// With a connection of the engine's: workers must not look dead because people read.
    fn record_presence(&self, sign: &SignOfLife) -> Result<Vec<Token>, StoreError> {
        self.run(Role::Engine, async |db| record_presence(db, sign).await)
    }

    fn cancel(&self, cancels: &[(WorkerId, Token)]) -> Result<Vec<InstanceId>, StoreError> {
        if cancels.is_empty() {
            return Ok(Vec::new());
        }
        let (workers, tokens) = columns(cancels);
        let read = |row: &Row| get(row, 0).map(InstanceId);
        self.run(Role::Engine, async |db| {
            db.query_map(sql!("cancels_insert"), &[&workers, &tokens], read).await
        })
    }

    fn who_holds(&self, asked: &[(WorkerId, Token)]) -> Result<Vec<Holds>, StoreError> {
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        let (workers, tokens) = columns(asked);
        let living: HashMap<_, _> = self.run(Role::Engine, async |db| {
            db.query_map(sql!("workers_hold"), &[&workers, &tokens], read_living).await
        })?;
        let holds = |(worker, token): &(WorkerId, Token)| match living.get(worker) {
            None => Holds::Gone,
            Some(None) => Holds::Unsaid,
            Some(Some((sent_ago, missing))) if missing.contains(token) => {
                Holds::No { sent_ago: *sent_ago }
            }
            Some(Some(_)) => Holds::Yes,
        };
        Ok(asked.iter().map(holds).collect())
    }

    fn workers(&self) -> Result<Vec<WorkerRow>, StoreError> {
        self.run(Role::Api, async |db| {
            db.execute(sql!("workers_forget"), &[]).await?;
            db.query_map(sql!("workers_list"), &[], read_worker).await
        })
    }

    fn depths(&self) -> Result<Vec<Depth>, StoreError> {
        let read = |row: &Row| {
            let (waiting, oldest) = (count(row, 1)?, Millis(count(row, 2)?));
            Ok(Depth { handler: text(row, 0)?, waiting, oldest })
        };
        self.run(Role::Api, async |db| db.query_map(sql!("offers_depth"), &[], read).await)
    }

    fn cluster_key(&self) -> Result<[u8; 32], StoreError> {
        self.run(Role::Api, async |db| array(&db.query_one(sql!("cluster_key"), &[]).await?, 0))
    }
}

fn columns(tokens: &[(WorkerId, Token)]) -> (Vec<Uuid>, Vec<Uuid>) {
    tokens.iter().map(|(worker, token)| (worker.0, Uuid::from_u128(token.0))).unzip()
}

async fn offer(db: &mut Connection, offers: &[Offer]) -> Result<()> {
    let executions: Vec<i64> = offers.iter().map(|offer| offer.id.execution.0).collect();
    let attempts: Vec<i64> = offers.iter().map(|offer| offer.id.attempt.into()).collect();
    let owners: Vec<Uuid> = offers.iter().map(|offer| offer.owner.0).collect();
    let paths: Vec<&[u8]> = offers.iter().map(|offer| offer.id.path.as_bytes()).collect();
    let handlers: Vec<&[u8]> = offers.iter().map(|offer| offer.handler.as_bytes()).collect();
    let bodies: Vec<&[u8]> = offers.iter().map(|offer| offer.body.as_slice()).collect();
    let params: Params<'_> = &[&executions, &attempts, &owners, &paths, &handlers, &bodies];
    db.execute(sql!("offers_insert"), params).await?;
    Ok(())
}

async fn record_presence(db: &mut Connection, sign: &SignOfLife) -> Result<Vec<Token>> {
    let lease = (!sign.leaving).then(|| i64::try_from(WORKER_LEASE.0).unwrap_or(i64::MAX));
    let handlers: Vec<&[u8]> = sign.handlers.iter().map(|handler| handler.as_bytes()).collect();
    let hand = sign.hand.as_ref();
    let tasks: Option<Vec<Uuid>> =
        hand.map(|hand| hand.tokens.iter().map(|token| Uuid::from_u128(token.0)).collect());
    let sent_ago = hand.map(|hand| i64::try_from(hand.sent_ago.0).unwrap_or(i64::MAX));
    let params: Params<'_> = &[
        &sign.worker.0,
        &lease,
        &sign.through.0,
        &i64::from(sign.capacity),
        &i64::from(sign.running),
        &sign.name.as_bytes(),
        &handlers,
        &tasks,
        &sent_ago,
    ];
    let token = |row: &Row| get::<Uuid>(row, 0).map(|token| Token(token.as_u128()));
    db.query_map(sql!("worker_hear"), params, token).await
}

fn read_offer(row: &Row) -> Result<Offer> {
    let id = OfferId {
        execution: ExecutionNo(get(row, 0)?),
        path: text(row, 3)?,
        attempt: narrow(row, 1)?,
    };
    let owner = InstanceId(get(row, 2)?);
    Ok(Offer { id, handler: text(row, 4)?, owner, body: get(row, 5)? })
}

/// How long ago a live worker listed its tasks, and which of the tokens in question are not in the
/// list.
type PresenceSeen = (Millis, HashSet<Token>);

fn read_living(row: &Row) -> Result<(WorkerId, Option<PresenceSeen>)> {
    let missing: Vec<Uuid> = get(row, 2)?;
    let missing = missing.iter().map(|token| Token(token.as_u128())).collect();
    let sent_ago: Option<i64> = get(row, 1)?;
    // After a clock was set back, a statement from the future counts as new.
    let sent_ago = sent_ago.map(|ms| Millis(u64::try_from(ms).unwrap_or(0)));
    Ok((WorkerId(get(row, 0)?), sent_ago.map(|ago| (ago, missing))))
}

fn read_worker(row: &Row) -> Result<WorkerRow> {
    let handlers: Vec<&[u8]> = get(row, 8)?;
    let sign = SignOfLife {
        worker: WorkerId(get(row, 0)?),
        name: text(row, 7)?,
        handlers: handlers.into_iter().map(read_text).collect::<Result<_, _>>()?,
        capacity: narrow(row, 5)?,
        running: narrow(row, 6)?,
        through: InstanceId(get(row, 1)?),
        leaving: get(row, 4)?,
        hand: None,
        thorough: false,
    };
    Ok(WorkerRow { sign, seen_at: Timestamp(get(row, 2)?), alive: get(row, 3)? })
}
