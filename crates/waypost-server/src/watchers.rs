//! Watchers: tasks that wait for new events are woken by commits of this process, and then read the
//! log. Nothing is passed in memory, so nothing can overflow, get lost or come twice; a missing
//! wake-up (another instance wrote) costs a moment, see [`Watchers::among_others`].

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use waypost_core::id::ExecutionNo;
use waypost_engine::Observer;
use waypost_engine::driver::Committed;

/// How often watchers look without having been woken, where this process alone writes.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The interval if other instances write as well, whose commits wake no watcher here: short at
/// first, then longer …
const LOOK_AMONG_OTHERS_MIN: Duration = Duration::from_millis(20);
/// … down to this.
const LOOK_AMONG_OTHERS_MAX: Duration = Duration::from_secs(1);

/// All watchers.
#[derive(Default)]
pub struct Watchers {
    one: Mutex<HashMap<ExecutionNo, Watched>>,
    /// How many watch single executions; at zero the engine's thread need not take the lock.
    ones: AtomicUsize,
    all: Arc<Notify>,
    /// Do other instances write, too?
    among_others: bool,
}

struct Watched {
    notify: Arc<Notify>,
    watchers: usize,
}

impl Watchers {
    /// Those of a server that is not the only one on its backend.
    pub fn among_others() -> Self {
        Self { among_others: true, ..Self::default() }
    }

    /// How long to wait before the first read without a wake-up, and at most.
    fn patience(&self) -> (Duration, Duration) {
        match self.among_others {
            true => (LOOK_AMONG_OTHERS_MIN, LOOK_AMONG_OTHERS_MAX),
            false => (LOOK_EVERY, LOOK_EVERY),
        }
    }

    /// For the engine: wakes the watchers that a commit concerns.
    pub fn observer(self: &Arc<Self>) -> Observer {
        let watchers = Arc::clone(self);
        Arc::new(move |committed: &Committed| {
            watchers.all.notify_waiters();
            if watchers.ones.load(Ordering::SeqCst) > 0
                && let Some(watched) = watchers.one.lock().get(&committed.execution)
            {
                watched.notify.notify_waiters();
            }
        })
    }

    /// Begins to watch one execution.
    pub fn watch(self: &Arc<Self>, execution: ExecutionNo) -> Watch {
        self.ones.fetch_add(1, Ordering::SeqCst);
        let mut one = self.one.lock();
        let fresh = || Watched { notify: Arc::default(), watchers: 0 };
        let watched = one.entry(execution).or_insert_with(fresh);
        watched.watchers += 1;
        let notify = Arc::clone(&watched.notify);
        let patience = self.patience();
        Watch { of: Some((Arc::clone(self), execution)), notify, patience }
    }

    /// Begins to watch everything.
    pub fn watch_all(&self) -> Watch {
        Watch { of: None, notify: Arc::clone(&self.all), patience: self.patience() }
    }
}

/// One watcher. Dropping it unregisters it.
pub struct Watch {
    of: Option<(Arc<Watchers>, ExecutionNo)>,
    notify: Arc<Notify>,
    patience: (Duration, Duration),
}

impl Watch {
    /// Waits until `look` finds something, looking again after each commit.
    ///
    /// A commit between a look and the wait for the next one is not missed: one is listened for
    /// before each look.
    pub async fn until<T, E, F>(&self, mut look: impl FnMut() -> F) -> Result<T, E>
    where
        F: Future<Output = Result<Option<T>, E>>,
    {
        let (mut pause, longest) = self.patience;
        loop {
            let woken = self.notify.notified();
            tokio::pin!(woken);
            woken.as_mut().enable();
            if let Some(found) = look().await? {
                return Ok(found);
            }
            // Elapsed or woken: either way it is time to read.
            drop(tokio::time::timeout(pause, woken).await);
            pause = longest.min(pause * 2);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Some((watchers, execution)) = &self.of else { return };
        let mut one = watchers.one.lock();
        if let Some(watched) = one.get_mut(execution) {
            watched.watchers -= 1;
            if watched.watchers == 0 {
                one.remove(execution);
            }
        }
        watchers.ones.fetch_sub(1, Ordering::SeqCst);
    }
}
