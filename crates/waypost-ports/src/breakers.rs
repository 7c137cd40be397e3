//! The states of circuit breakers, which all instances share.
//!
//! What becomes of a breaker is decided by [`waypost_core::breaker`]; a store reads its state, changes it and
//! writes it back as one step, at its own time, and keeps no row for a breaker that is closed and had no
//! failure of late.

use std::sync::Arc;

use waypost_core::breaker::{BreakerChange, BreakerState, BreakerStep, BreakerVerdict};
use waypost_core::time::Timestamp;

use crate::store::StoreError;

/// Breakers that one page of a list has at most.
pub const BREAKERS_PAGE_MAX: usize = 1_000;

/// The interface of the engine and of the API to circuit breakers.
pub trait Breakers: Send + Sync {
    /// Asks a breaker, reports to it, or resets it; see [`BreakerState::step`].
    fn change_breaker(
        &self,
        key: &str,
        change: &BreakerChange,
    ) -> Result<BreakerAnswer, StoreError>;

    /// Breakers that are not closed, or had a failure of late, by key: those after `after`.
    fn list_breakers(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<BreakerRow>, StoreError>;
}

/// The answer of a store to a [`BreakerChange`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BreakerAnswer {
    pub verdict: BreakerVerdict,
    /// Did the store have a state of it before?
    pub known: bool,
    /// The store's time.
    pub at: Timestamp,
}

impl BreakerAnswer {
    /// The answer of a step, at the store's time.
    pub fn of(before: Option<&BreakerState>, step: &BreakerStep, at: Timestamp) -> Self {
        Self { verdict: step.verdict.clone(), known: before.is_some(), at }
    }
}

/// A breaker, as a store has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BreakerRow {
    pub key: Arc<str>,
    pub state: BreakerState,
    /// The store's time.
    pub at: Timestamp,
}
