//! Rows of webhook triggers, for a short while: a request needs no read of the store for each. A row that is
//! out of date starts nothing and turns nothing away: its revision is compared with that of the store, and it
//! is read again then.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use waypost_ports::triggers::{TriggerRow, TriggerState};

/// How long a row is used.
const USED_FOR: Duration = Duration::from_secs(1);
/// Rows in memory; above it all are dropped.
const ROWS_MAX: usize = 10_000;

type Name = (String, String);

/// Rows of active triggers that were read lately.
#[derive(Debug, Default)]
pub(crate) struct HookRows(Mutex<HashMap<Name, (Instant, Arc<TriggerRow>)>>);

impl HookRows {
    /// The row of a trigger, if it was read lately.
    pub(crate) fn get(&self, name: &Name, now: Instant) -> Option<Arc<TriggerRow>> {
        let rows = self.0.lock();
        let (read_at, row) = rows.get(name)?;
        let is_recent = now.saturating_duration_since(*read_at) < USED_FOR;
        is_recent.then(|| Arc::clone(row))
    }

    /// Keeps a row that was read at this time; drops the one before.
    pub(crate) fn keep(&self, name: &Name, row: Option<&Arc<TriggerRow>>, read_at: Instant) {
        let mut rows = self.0.lock();
        match row.filter(|row| row.state == TriggerState::Active) {
            Some(row) => {
                if rows.len() >= ROWS_MAX {
                    rows.clear();
                }
                rows.insert(name.clone(), (read_at, Arc::clone(row)));
            }
            None => drop(rows.remove(name)),
        }
    }
}
