//! What wakes the trigger runner of an instance: changes of triggers that were made here, events that were put
//! into windows here, and the ends of executions that times of schedules wait for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use waypost_core::event::{Event, RunEvent};
use waypost_core::id::ExecutionNo;
use waypost_core::time::Millis;
use waypost_core::trigger::WindowMode;

use crate::driver::Committed;

/// How soon to look for groups after an event for a batch: it may have filled its group. Events that arrive
/// meanwhile are found by the same look.
const FULL_WITHIN: Millis = Millis(50);

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
    /// When to look for groups of windows that may be due, as far as the runner does not know of them.
    look_at: Mutex<Option<Instant>>,
    looks: Notify,
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

    /// An event was put into a window: its group may be due sooner than anything that the runner knows of.
    pub fn arrived(&self, rule: WindowMode) {
        let within = match rule {
            WindowMode::Debounce { period, max } => period.min(max),
            WindowMode::Batch { wait, .. } => wait.min(FULL_WITHIN),
            WindowMode::Throttle(throttle) => throttle.per.min(FULL_WITHIN),
        };
        let at = Instant::now() + within.to_std();
        let mut look_at = self.0.look_at.lock();
        if look_at.is_none_or(|known| at < known) {
            *look_at = Some(at);
            drop(look_at);
            self.0.looks.notify_one();
        }
    }

    /// Waits until it is time to look for due triggers and groups. Cancel-safe.
    pub async fn woken(&self) {
        loop {
            let look_at = *self.0.look_at.lock();
            let looked = async {
                match look_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! { // all may be dropped: what they wait for stays where it is
                () = self.0.notify.notified() => return,
                () = looked => {
                    self.0.look_at.lock().take();
                    return;
                }
                () = self.0.looks.notified() => {}
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    async fn woken_after(wakeups: &TriggerWakeups) -> Millis {
        let began = Instant::now();
        wakeups.woken().await;
        Millis(began.elapsed().as_millis().try_into().expect("a short time"))
    }

    #[tokio::test(start_paused = true)]
    async fn events_in_windows_wake_when_their_groups_may_be_due() {
        let wakeups = TriggerWakeups::default();
        let debounce =
            |ms| WindowMode::Debounce { period: Millis(ms), max: Millis(ms.saturating_mul(10)) };
        wakeups.arrived(debounce(900));
        wakeups.arrived(debounce(700));
        wakeups.arrived(debounce(800));
        assert_eq!(woken_after(&wakeups).await, Millis(700));
        wakeups.arrived(WindowMode::Batch { size: 9, wait: Millis(60_000) });
        assert_eq!(woken_after(&wakeups).await, FULL_WITHIN);
        wakeups.arrived(WindowMode::Batch { size: 9, wait: Millis(20) });
        let sooner = async {
            tokio::task::yield_now().await;
            wakeups.arrived(debounce(5));
        };
        let (after, ()) = tokio::join!(woken_after(&wakeups), sooner);
        assert_eq!(after, Millis(5));
        wakeups.arrived(debounce(900));
        wakeups.wake();
        assert_eq!(woken_after(&wakeups).await, Millis(0));
    }
}
