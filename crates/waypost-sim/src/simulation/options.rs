//! What to simulate: all of a seed, or a part of it.

use std::collections::{BTreeMap, BTreeSet};

use crate::fault::Fault;

/// What to simulate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorldOptions {
    /// Where everything comes from.
    pub seed: u64,
    /// Of the seed's submissions, none but these.
    pub keep: Option<BTreeSet<usize>>,
    /// Which of its smaller versions to submit instead of a program, step by step.
    pub shrink: BTreeMap<usize, Vec<usize>>,
    /// Faults that do not strike.
    pub without: BTreeSet<Fault>,
    /// End all faults after so many events.
    pub events_max: Option<u64>,
    /// Keep the trace as text?
    pub trace: bool,
    /// Keep the logs?
    pub record: bool,
}

impl WorldOptions {
    /// Everything of a seed.
    pub fn seed(seed: u64) -> Self {
        Self {
            seed,
            keep: None,
            shrink: BTreeMap::new(),
            without: BTreeSet::new(),
            events_max: None,
            trace: false,
            record: false,
        }
    }
}
