//! Timers of live executions: one entry each, its next due time.

use std::collections::BTreeSet;

use foldhash::HashMap;
use waypost_core::id::ExecutionNo;
use waypost_core::time::Timestamp;

use crate::room::shrink;

#[derive(Default)]
pub(super) struct Wheel {
    due: BTreeSet<(Timestamp, ExecutionNo)>,
    armed: HashMap<ExecutionNo, Timestamp>,
}

impl Wheel {
    /// Sets, moves or removes an execution's timer.
    pub(super) fn arm(&mut self, execution: ExecutionNo, due: Option<Timestamp>) {
        let old = match due {
            Some(due) => self.armed.insert(execution, due),
            // Most executions never wait: do not touch the maps for them.
            None if self.armed.is_empty() => None,
            None => self.armed.remove(&execution),
        };
        if old == due {
            return;
        }
        if let Some(old) = old {
            self.due.remove(&(old, execution));
        }
        if let Some(due) = due {
            self.due.insert((due, execution));
        }
    }

    pub(super) fn pop_due(&mut self, now: Timestamp) -> Option<(Timestamp, ExecutionNo)> {
        let (due, execution) = *self.due.first()?;
        if due > now {
            return None;
        }
        self.due.pop_first();
        self.armed.remove(&execution);
        Some((due, execution))
    }

    pub(super) fn shrink(&mut self) {
        shrink!(self.armed);
    }

    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.due.first().map(|(due, _)| *due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_entry_an_execution_earliest_first() {
        let (mut wheel, a, b) = (Wheel::default(), ExecutionNo(1), ExecutionNo(2));
        wheel.arm(a, Some(Timestamp(30)));
        wheel.arm(b, Some(Timestamp(20)));
        wheel.arm(a, Some(Timestamp(10)));
        assert_eq!(wheel.next_due(), Some(Timestamp(10)));
        assert_eq!(wheel.pop_due(Timestamp(9)), None);
        assert_eq!(wheel.pop_due(Timestamp(50)), Some((Timestamp(10), a)));
        wheel.arm(b, None);
        assert_eq!(wheel.pop_due(Timestamp(50)), None);
        assert_eq!(wheel.next_due(), None);
    }
}
