//! Circuit breakers. A change holds the file's write lock; a question about a breaker that has no row needs
//! none.

use rusqlite::{Connection, params};
use waypost_core::breaker::{BreakerChange, BreakerState};
use waypost_ports::breakers::{BreakerAnswer, BreakerRow, Breakers};
use waypost_ports::store::StoreError;

use crate::connection::{all, first, run};
use crate::queries;
use crate::store::{SqliteStore, Write};

impl Breakers for SqliteStore {
    fn change_breaker(
        &self,
        key: &str,
        change: &BreakerChange,
    ) -> Result<BreakerAnswer, StoreError> {
        if !matches!(change, BreakerChange::Failed { .. }) {
            let before = self.readers.read(|db| load(db, key))?;
            let at = self.time();
            let step = BreakerState::step(key, before.clone(), change, at);
            if !step.changed {
                return Ok(BreakerAnswer::of(before.as_ref(), &step, at));
            }
        }
        self.write(|write| apply(write, key, change))
    }

    fn list_breakers(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<BreakerRow>, StoreError> {
        let at = self.time();
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get(1)?));
        let rows = self
            .readers
            .read(|db| all(db, queries::BREAKERS_LIST, params![after, at.0, limit], read))?;
        let row = |(key, state): (String, String)| {
            Some(BreakerRow { key: key.into(), state: parse(&state)?, at })
        };
        Ok(rows.into_iter().filter_map(row).collect())
    }
}

fn apply(write: &Write<'_>, key: &str, change: &BreakerChange) -> rusqlite::Result<BreakerAnswer> {
    let before = load(&write.tx, key)?;
    let step = BreakerState::step(key, before.clone(), change, write.now);
    match &step.state {
        Some(state) => {
            let text = serde_json::json!(state).to_string();
            run(&write.tx, queries::BREAKER_SAVE, params![key, text, state.expires_at.0])?;
        }
        None => drop(run(&write.tx, queries::BREAKER_DELETE, [key])?),
    }
    if matches!(change, BreakerChange::Failed { .. }) {
        run(&write.tx, queries::BREAKERS_EXPIRE, [write.now.0])?;
    }
    Ok(BreakerAnswer::of(before.as_ref(), &step, write.now))
}

fn load(db: &Connection, key: &str) -> rusqlite::Result<Option<BreakerState>> {
    let text = first(db, queries::BREAKER_LOAD, [key], |row| row.get::<_, String>(0))?;
    Ok(text.and_then(|text| parse(&text)))
}

/// A state that cannot be read counts as none: the breaker is closed, and failures open it again.
fn parse(text: &str) -> Option<BreakerState> {
    serde_json::from_str(text).ok()
}
