//! Circuit breakers. A change locks the row of its key; a question about a breaker that has no row, or whose
//! answer changes nothing, locks nothing.

use std::sync::Arc;

use tokio_postgres::Row;
use waypost_core::breaker::{BreakerChange, BreakerState};
use waypost_core::time::Timestamp;
use waypost_ports::breakers::{BreakerAnswer, BreakerRow, Breakers};
use waypost_ports::store::StoreError;

use crate::connection::{Connection, Params, Role};
use crate::error::Result;
use crate::queries::sql;
use crate::store::PostgresStore;
use crate::text::{get, limit as rows, text};

impl Breakers for PostgresStore {
    fn change_breaker(
        &self,
        key: &str,
        change: &BreakerChange,
    ) -> Result<BreakerAnswer, StoreError> {
        let role = match change {
            BreakerChange::Reset => Role::Api,
            _ => Role::Engine,
        };
        self.run(role, async |db| {
            let fails = matches!(change, BreakerChange::Failed { .. });
            if !fails {
                let found = db.query_one(sql!("breaker_load"), &[&key.as_bytes()]).await?;
                let (before, at) = read(&found)?;
                let step = BreakerState::step(key, before.clone(), change, at);
                if !step.changed {
                    return Ok(BreakerAnswer::of(before.as_ref(), &step, at));
                }
            }
            let answer = apply(db, key, change).await?;
            if fails {
                db.execute(sql!("breakers_expire"), &[]).await?;
            }
            Ok(answer)
        })
    }

    fn list_breakers(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<BreakerRow>, StoreError> {
        self.run(Role::Api, async |db| {
            let after = after.map(str::as_bytes);
            let params: Params<'_> = &[&after, &rows(limit)];
            let row = |row: &Row| {
                let at = Timestamp(get(row, 2)?);
                let state = parse(get(row, 1)?);
                Ok((text(row, 0)?, state, at))
            };
            let rows: Vec<(Arc<str>, _, _)> =
                db.query_map(sql!("breakers_list"), params, row).await?;
            let known = |(key, state, at)| Some(BreakerRow { key, state: state?, at });
            Ok(rows.into_iter().filter_map(known).collect())
        })
    }
}

async fn apply(db: &mut Connection, key: &str, change: &BreakerChange) -> Result<BreakerAnswer> {
    let name = key.as_bytes();
    db.begin().await?;
    if matches!(change, BreakerChange::Failed { .. }) {
        // There must be a row to lock, or the first failures of two instances would count as one.
        db.execute(sql!("breaker_insert"), &[&name]).await?;
    }
    let (before, at) = match db.query_opt(sql!("breaker_lock"), &[&name], read).await? {
        Some(found) => found,
        None => read(&db.query_one(sql!("breaker_load"), &[&name]).await?)?,
    };
    let step = BreakerState::step(key, before.clone(), change, at);
    match &step.state {
        Some(state) => {
            let text = serde_json::json!(state).to_string();
            let params: Params<'_> = &[&name, &text.as_bytes(), &state.expires_at.0];
            db.execute(sql!("breaker_save"), params).await?;
        }
        None => drop(db.execute(sql!("breaker_delete"), &[&name]).await?),
    }
    db.commit().await?;
    Ok(BreakerAnswer::of(before.as_ref(), &step, at))
}

/// A row with a state, or none, and the store's time.
fn read(row: &Row) -> Result<(Option<BreakerState>, Timestamp)> {
    let state = get::<Option<&[u8]>>(row, 0)?.and_then(parse);
    Ok((state, Timestamp(get(row, 1)?)))
}

/// A state that cannot be read counts as none: the breaker is closed, and failures open it again.
fn parse(bytes: &[u8]) -> Option<BreakerState> {
    serde_json::from_slice(bytes).ok()
}
