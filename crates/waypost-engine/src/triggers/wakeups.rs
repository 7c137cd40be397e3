//! What wakes the trigger runner of an instance: changes of triggers that were made here, and the ends of
//! executions that times of schedules wait for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use waypost_core::event::{Event, RunEvent};
use waypost_core::id::ExecutionNo;

use crate::driver::Committed;

/// A trigger by its names.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct TriggerName {
    pub(super) workflow: Arc<str>,
    pub(super) name: Arc<str>,
}

/// Wakes the trigger runner of this instance.
#[derive(Clone, Debug, Default)]
pub struct TriggerWakeups(Arc<WakeupState>);

#[derive(Debug, Default)]
struct WakeupState {
    notify: Notify,
    /// Without it, commits cost nothing.
    awaits: AtomicBool,
    ends: Mutex<AwaitedEnds>,
}

#[derive(Debug, Default)]
struct AwaitedEnds {
    by: BTreeMap<ExecutionNo, TriggerName>,
    ended: BTreeSet<TriggerName>,
}

impl TriggerWakeups {
    /// To be called after every commit.
    pub fn committed(&self, committed: &Committed) {
        if !self.0.awaits.load(Ordering::Relaxed) || !committed.events.iter().any(is_end) {
            return;
        }
        let mut ends = self.0.ends.lock();
        if let Some(trigger) = ends.by.remove(&committed.execution) {
            ends.ended.insert(trigger);
            drop(ends);
            self.wake();
        }
    }

    /// Looks for due triggers now: one was deployed, changed or resumed.
    pub fn wake(&self) {
        self.0.notify.notify_one();
    }

    pub(super) async fn woken(&self) {
        self.0.notify.notified().await;
    }

    /// Times of this trigger wait for these executions; none waits any more where the list is empty.
    pub(super) fn await_ends(&self, trigger: &TriggerName, executions: &[ExecutionNo]) {
        if executions.is_empty() && !self.0.awaits.load(Ordering::Relaxed) {
            return;
        }
        let mut ends = self.0.ends.lock();
        ends.by.retain(|_, of| of != trigger);
        ends.by.extend(executions.iter().map(|execution| (*execution, trigger.clone())));
        self.0.awaits.store(!ends.by.is_empty(), Ordering::Relaxed);
    }

    /// The triggers whose times waited for executions that have ended since.
    pub(super) fn take_ended(&self) -> BTreeSet<TriggerName> {
        match self.0.awaits.load(Ordering::Relaxed) {
            true => std::mem::take(&mut self.0.ends.lock().ended),
            false => BTreeSet::new(),
        }
    }
}

fn is_end(event: &Event) -> bool {
    matches!(
        event,
        Event::Run(
            RunEvent::Completed { .. }
                | RunEvent::Failed { .. }
                | RunEvent::Cancelled { .. }
                | RunEvent::TimedOut { .. }
        )
    )
}
