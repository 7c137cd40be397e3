//! When to project: a thread that sleeps until something was appended, lets a little more come, and
//! works it off. Appending costs it one short lock, and a wake-up once a batch at most.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use waypost_core::id::ExecutionNo;
use waypost_ports::store::StoreError;

use super::projector::{FRAMES_MAX, Projector};
use crate::connection::normalise;

/// How long frames may gather before they are projected.
const GATHER: Duration = Duration::from_millis(100);

/// How often to look for frames that another process appended, and to retry after an error.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The thread that writes the projections.
pub(super) struct ProjectorThread {
    shared: Arc<ProjectorShared>,
    handle: Option<JoinHandle<()>>,
}

struct ProjectorShared {
    projector: Mutex<Projector>,
    progress: Mutex<ThreadProgress>,
    /// There is something to do.
    wake: Condvar,
    /// The cursor moved, or will not any more.
    moved: Condvar,
}

struct ThreadProgress {
    /// How far the log goes, as far as is known here.
    head: i64,
    /// How far the rows go.
    cursor: i64,
    /// The head from which on an append must wake the thread; none while it works.
    wake_at: i64,
    /// A caller waits: do not gather.
    hurry: bool,
    stop: bool,
    skipped: u64,
}

enum Work {
    Project,
    LookForMore,
    Stop,
}

impl ProjectorThread {
    pub(super) fn start(projector: Projector) -> Result<Self, StoreError> {
        let progress = ThreadProgress {
            head: projector.head().map_err(normalise)?,
            cursor: projector.cursor(),
            wake_at: i64::MAX,
            hurry: true,
            stop: false,
            skipped: 0,
        };
        let shared = Arc::new(ProjectorShared {
            projector: Mutex::new(projector),
            progress: Mutex::new(progress),
            wake: Condvar::new(),
            moved: Condvar::new(),
        });
        let worker = Arc::clone(&shared);
        let handle = std::thread::Builder::new()
            .name("projector".to_owned())
            .spawn(move || worker.run())
            .map_err(|error| StoreError::Unavailable(format!("cannot start a thread: {error}")))?;
        Ok(Self { shared, handle: Some(handle) })
    }

    /// Sets the end of the log.
    pub(super) fn wake(&self, head: i64) {
        let mut progress = self.shared.progress.lock();
        progress.head = progress.head.max(head);
        if progress.head >= progress.wake_at {
            progress.wake_at = i64::MAX;
            self.shared.wake.notify_one();
        }
    }

    /// Blocks until the rows show the log up to here, or the time is up.
    pub(super) fn wait(&self, head: i64, limit: Option<Duration>) {
        let until = limit.map(|limit| Instant::now() + limit);
        let mut progress = self.shared.progress.lock();
        while progress.cursor < head && !progress.stop {
            progress.head = progress.head.max(head);
            progress.hurry = true;
            self.shared.wake.notify_one();
            match until {
                None => self.shared.moved.wait(&mut progress),
                Some(until) if self.shared.moved.wait_until(&mut progress, until).timed_out() => {
                    return;
                }
                Some(_) => {}
            }
        }
    }

    pub(super) fn skipped(&self) -> u64 {
        self.shared.progress.lock().skipped
    }

    /// Derives all rows again, on the caller's thread.
    pub(super) fn rebuild(
        &self,
        head: i64,
        progress: &mut dyn FnMut(u64, u64),
    ) -> rusqlite::Result<u64> {
        let mut projector = self.shared.projector.lock();
        let result = projector.rebuild(head, progress);
        self.shared.settle(&projector);
        result
    }

    /// Derives the rows of one execution again, on the caller's thread.
    pub(super) fn reproject(&self, execution: ExecutionNo) -> rusqlite::Result<()> {
        self.shared.projector.lock().reproject(execution)
    }

    pub(super) fn stop(&mut self) {
        {
            let mut progress = self.shared.progress.lock();
            progress.stop = true;
            self.shared.wake.notify_all();
            self.shared.moved.notify_all();
        }
        if let Some(handle) = self.handle.take()
            && handle.join().is_err()
        {
            tracing::error!(
                "the projector panicked; lists may be out of date until the next start"
            );
        }
    }
}

impl Drop for ProjectorThread {
    fn drop(&mut self) {
        self.stop();
    }
}

impl ProjectorShared {
    fn run(&self) {
        loop {
            let result = match self.await_work() {
                Work::Project => self.project(),
                Work::LookForMore => self.look_for_more().map_err(|error| error.to_string()),
                Work::Stop => break,
            };
            if let Err(error) = result {
                tracing::warn!(%error, "the projections could not be written; trying again");
                let mut progress = self.progress.lock();
                // A caller that waits for rows wakes it each time it finds none.
                self.wake.wait_while_for(&mut progress, |progress| !progress.stop, LOOK_AGAIN);
            }
        }
        self.projector.lock().close();
    }

    /// Runs a step. A panic is retried like an error: lists must not stand still for as long as the
    /// process lives.
    fn project(&self) -> Result<(), String> {
        let mut projector = self.projector.lock();
        let stepped = catch_unwind(AssertUnwindSafe(|| projector.step()));
        let result = match stepped {
            Ok(result) => result.map_err(|error| error.to_string()),
            Err(_) => {
                projector.forget_names();
                Err("it panicked".to_owned())
            }
        };
        self.settle(&projector);
        result
    }

    /// Blocks until there is something to do.
    fn await_work(&self) -> Work {
        let mut progress = self.progress.lock();
        while progress.head <= progress.cursor && !progress.stop {
            progress.hurry = false;
            progress.wake_at = progress.cursor + 1;
            if self.wake.wait_for(&mut progress, LOOK_AGAIN).timed_out() {
                progress.wake_at = i64::MAX;
                return Work::LookForMore;
            }
        }
        if !progress.hurry && !progress.stop && progress.head - progress.cursor < FRAMES_MAX {
            progress.wake_at = progress.cursor + FRAMES_MAX;
            self.wake.wait_for(&mut progress, GATHER);
        }
        progress.wake_at = i64::MAX;
        match progress.stop {
            true => Work::Stop,
            false => Work::Project,
        }
    }

    fn look_for_more(&self) -> rusqlite::Result<()> {
        let mut projector = self.projector.lock();
        let head = projector.head()?;
        projector.release_if_quiet();
        drop(projector);
        let mut progress = self.progress.lock();
        progress.head = progress.head.max(head);
        Ok(())
    }

    /// Takes over how far the projector got.
    fn settle(&self, projector: &Projector) {
        let mut progress = self.progress.lock();
        progress.cursor = projector.cursor();
        progress.skipped = projector.skipped();
        self.moved.notify_all();
    }
}
