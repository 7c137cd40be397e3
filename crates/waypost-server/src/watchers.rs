//! Who watches: whoever waits for something new in the log is woken by commits of this process, and
//! then reads the log. Nothing is handed over in memory, so nothing can overflow, get lost or come
//! twice; a wake-up that never comes (another instance wrote) costs a moment, see [`LOOK_EVERY`].

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use waypost_core::id::ExecutionId;
use waypost_engine::Observer;
use waypost_engine::driver::Committed;

/// How often watchers look without having been woken.
pub const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Everyone who watches.
#[derive(Default)]
pub struct Watchers {
    one: Mutex<HashMap<ExecutionId, Watched>>,
    /// How many watch one execution each; spares the engine's thread the lock when nobody does.
    ones: AtomicUsize,
    all: Arc<Notify>,
}

struct Watched {
    notify: Arc<Notify>,
    watchers: usize,
}

impl Watchers {
    /// For the engine: tells everyone whom a commit concerns.
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
    pub fn watch(self: &Arc<Self>, execution: ExecutionId) -> Watch {
        self.ones.fetch_add(1, Ordering::SeqCst);
        let mut one = self.one.lock();
        let fresh = || Watched { notify: Arc::default(), watchers: 0 };
        let watched = one.entry(execution).or_insert_with(fresh);
        watched.watchers += 1;
        let notify = Arc::clone(&watched.notify);
        Watch { of: Some((Arc::clone(self), execution)), notify }
    }

    /// Begins to watch everything.
    pub fn watch_all(&self) -> Watch {
        Watch { of: None, notify: Arc::clone(&self.all) }
    }
}

/// Somebody who watches. Dropping it is how they go away.
pub struct Watch {
    of: Option<(Arc<Watchers>, ExecutionId)>,
    notify: Arc<Notify>,
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
        loop {
            let woken = self.notify.notified();
            tokio::pin!(woken);
            woken.as_mut().enable();
            if let Some(found) = look().await? {
                return Ok(found);
            }
            // Elapsed or woken is all the same: either way it is time to look.
            drop(tokio::time::timeout(LOOK_EVERY, woken).await);
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
