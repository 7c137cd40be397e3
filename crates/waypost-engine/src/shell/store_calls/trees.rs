//! How many executions a tree has: those that were started below one root, whether or not they go on.
//!
//! Parents of one tree are in the hands of many instances, and no parent knows what the others start. A
//! row that each start increments would be locked by all of them. So an instance counts the starts of a
//! tree in memory, and reserves places in the tree's row by blocks:
//!
//! ```text
//!   starts here   1 … 256          257                     258 … 320      321
//!   the row       none             + 320: those before,    –              + 64
//!                                  and the next 64
//! ```
//!
//! Small trees, nearly all there are, have no row. The count is approximate, within bounds: a start that
//! is decided again after a crash counts again; what an instance has reserved and not used counts; and the
//! first starts of each instance (256 at most, again after each of its restarts) count only when it goes
//! beyond them. A row is deleted when the root has ended and the tree has not grown for a week
//! ([`TREE_KEPT`](waypost_ports::store::TREE_KEPT)): children may outlive their root, and a tree that starts
//! without end needs more places much sooner.

use std::collections::HashMap;

use parking_lot::Mutex;
use waypost_core::id::ExecutionId;
use waypost_ports::store::{Store, StoreError};

/// Starts of a tree by one instance before its row is written.
const UNCOUNTED_MAX: u64 = 256;
/// Places that are reserved at once.
const BLOCK: u64 = 64;
/// Trees that are remembered as long as others are not started from more than so many others.
const TREES_MAX: usize = 5_000;

/// The trees that this instance has started executions of.
#[derive(Default)]
pub struct TreeCounts(Mutex<Generations>);

/// Trees leave memory when many others have come since: [`TREES_MAX`] to twice as many.
#[derive(Default)]
struct Generations {
    young: HashMap<ExecutionId, TreeCount>,
    old: HashMap<ExecutionId, TreeCount>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct TreeCount {
    /// Starts that are not in the row.
    uncounted: u64,
    /// Places that are reserved and free.
    left: u64,
    /// Has this instance written its row?
    has_row: bool,
    full: bool,
}

impl TreeCounts {
    /// Counts one more start. Returns whether the tree has room for it, with at most `max` executions.
    pub(super) fn admit(
        &self,
        store: &dyn Store,
        root: &ExecutionId,
        max: u64,
    ) -> Result<bool, StoreError> {
        let count = self.0.lock().get(root);
        let (next, admitted) = count.step(max, |places| store.reserve_births(root, places))?;
        self.0.lock().keep(root, next);
        Ok(admitted)
    }
}

impl Generations {
    fn get(&mut self, root: &ExecutionId) -> TreeCount {
        self.young.get(root).or_else(|| self.old.get(root)).copied().unwrap_or_default()
    }

    fn keep(&mut self, root: &ExecutionId, count: TreeCount) {
        if self.young.len() >= TREES_MAX && !self.young.contains_key(root) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(root.clone(), count);
    }
}

impl TreeCount {
    /// The count after one more start, and whether there is room. `reserve` adds places to the row, and
    /// returns how many it had before.
    fn step(
        self,
        max: u64,
        reserve: impl FnOnce(u64) -> Result<u64, StoreError>,
    ) -> Result<(Self, bool), StoreError> {
        // In proportion, so that the bounds hold for small limits, too.
        let (free, block) = (UNCOUNTED_MAX.min(max / 100), BLOCK.min(max / 100).max(1));
        if self.full {
            return Ok((self, false));
        }
        if self.left > 0 {
            return Ok((Self { left: self.left - 1, ..self }, true));
        }
        if self.uncounted < free && !self.has_row {
            return Ok((Self { uncounted: self.uncounted + 1, ..self }, true));
        }
        let wanted = self.uncounted + block;
        let before = reserve(wanted)?;
        // The root is one of them.
        let room = max.saturating_sub(1).saturating_sub(before).min(wanted);
        let counted = Self { uncounted: 0, left: 0, has_row: true, full: false };
        if room <= self.uncounted {
            return Ok((Self { full: true, ..counted }, false));
        }
        Ok((Self { left: room - self.uncounted - 1, ..counted }, true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Instances that start executions of one tree in turn, each until it has no room: how many in all.
    fn started(instances: usize, max: u64) -> (u64, u64) {
        let (mut row, mut reservations, mut started) = (0, 0, 0);
        let mut counts = vec![TreeCount::default(); instances];
        let mut open = true;
        while open {
            open = false;
            for count in &mut counts {
                let reserve = |places: u64| {
                    reservations += 1;
                    row += places;
                    Ok(row - places)
                };
                let (next, admitted) = count.step(max, reserve).unwrap();
                *count = next;
                started += u64::from(admitted);
                open |= admitted;
            }
        }
        (started, reservations)
    }

    #[test]
    fn tree_has_as_many_executions_as_it_may() {
        for (instances, max) in [(1, 5), (1, 100), (1, 1_000), (1, 100_000), (3, 100), (3, 100_000)]
        {
            let (started, reservations) = started(instances, max);
            let (free, block) = (UNCOUNTED_MAX.min(max / 100), BLOCK.min(max / 100).max(1));
            let slack = (instances as u64 - 1) * (free + block);
            let all = started + 1;
            assert!((max - slack..=max + slack).contains(&all), "{instances} of {max}: {all}");
            assert!(reservations <= max / block + instances as u64 + 1, "{reservations}");
        }
    }

    #[test]
    fn small_tree_needs_no_row() {
        let mut count = TreeCount::default();
        for _ in 0..UNCOUNTED_MAX {
            let never = |_| unreachable!("nothing is reserved");
            count = count.step(100_000, never).unwrap().0;
        }
        let reserve = |places: u64| {
            assert_eq!(places, UNCOUNTED_MAX + BLOCK);
            Ok(0)
        };
        let (after, admitted) = count.step(100_000, reserve).unwrap();
        assert!(admitted);
        let counted = TreeCount { uncounted: 0, left: BLOCK - 1, has_row: true, full: false };
        assert_eq!(after, counted);
    }

    #[test]
    fn store_that_does_not_answer_changes_nothing() {
        let fails = |_| Err(StoreError::Unavailable("away".to_owned()));
        let count = TreeCount { uncounted: 1, ..TreeCount::default() };
        assert!(count.step(100, fails).is_err());
        assert!(count.step(100, |_| Ok(0)).unwrap().1);
    }
}
