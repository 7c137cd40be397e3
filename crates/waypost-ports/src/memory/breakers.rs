//! Circuit breakers in memory.

use waypost_core::breaker::{BreakerChange, BreakerState};
use waypost_core::time::Timestamp;

use super::{MemoryStore, Tables};
use crate::breakers::{BreakerAnswer, BreakerRow, Breakers};
use crate::store::StoreError;

impl Tables {
    /// Changes a breaker.
    pub fn change_breaker(
        &mut self,
        key: &str,
        change: &BreakerChange,
        now: Timestamp,
    ) -> BreakerAnswer {
        let before = self.breakers.remove(key);
        let step = BreakerState::step(key, before.clone(), change, now);
        let answer = BreakerAnswer::of(before.as_ref(), &step, now);
        if let Some(state) = step.state {
            self.breakers.insert(key.into(), state);
        }
        if matches!(change, BreakerChange::Failed { .. }) {
            self.breakers.retain(|_, state| now < state.expires_at);
        }
        answer
    }

    /// A page of breakers.
    pub fn list_breakers(
        &self,
        after: Option<&str>,
        limit: usize,
        now: Timestamp,
    ) -> Vec<BreakerRow> {
        let row = |(key, state): (&_, &BreakerState)| BreakerRow {
            key: std::sync::Arc::clone(key),
            state: state.clone(),
            at: now,
        };
        let rows =
            self.breakers.iter().filter(|(key, _)| after.is_none_or(|after| &***key > after));
        rows.filter(|(_, state)| now < state.expires_at).map(row).take(limit).collect()
    }
}

impl Breakers for MemoryStore {
    fn change_breaker(
        &self,
        key: &str,
        change: &BreakerChange,
    ) -> Result<BreakerAnswer, StoreError> {
        self.with(|tables, now| Ok(tables.change_breaker(key, change, now)))
    }

    fn list_breakers(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<BreakerRow>, StoreError> {
        self.with(|tables, now| Ok(tables.list_breakers(after, limit, now)))
    }
}
