//! Copying the WAL back into the log's file, without holding up appends.
//!
//! ```text
//!   appends ──▶ WAL has many pages ──▶ thread copies them and syncs ──▶ next append copies the few that
//!                                      (appends continue)               came meanwhile; the WAL restarts
//! ```
//!
//! A copy writes and syncs thousands of pages. If the append that happens to fill the WAL made it,
//! as SQLite does by itself, that append and all behind it would be delayed by tens of
//! milliseconds.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;
use waypost_ports::store::StoreError;

use crate::connection::{self, CHECKPOINT_PAGES, normalise};

/// The thread that copies.
pub(crate) struct Checkpoints {
    shared: Arc<CheckpointShared>,
    handle: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct CheckpointShared {
    stage: Mutex<Stage>,
    changed: Condvar,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Stage {
    #[default]
    Idle,
    /// The thread is to copy, or does so.
    Copying,
    /// It has copied all that was there when it began.
    Copied,
    Stop,
}

impl Stage {
    /// The next stage after a commit that leaves so many pages in the WAL, and whether the commit
    /// copies the rest itself.
    fn after_commit(self, pages: u32) -> (Self, bool) {
        match self {
            Self::Idle if pages >= CHECKPOINT_PAGES => (Self::Copying, false),
            Self::Copied => (Self::Idle, true),
            other => (other, false),
        }
    }
}

impl Checkpoints {
    /// Starts the thread, and installs a hook that lets the log's writer wake it.
    pub(crate) fn start(path: &Path, writer: &mut Connection) -> Result<Self, StoreError> {
        let shared = Arc::new(CheckpointShared::default());
        let copier = connection::open_copier(path).map_err(normalise)?;
        let worker = Arc::clone(&shared);
        let handle = std::thread::Builder::new()
            .name("checkpoints".to_owned())
            .spawn(move || worker.run(&copier))
            .map_err(|error| StoreError::Unavailable(format!("cannot start a thread: {error}")))?;
        let hooked = Arc::clone(&shared);
        let hook = move |wal: &mut rusqlite::hooks::Wal, pages| {
            // The commit has been made, whatever becomes of the copy.
            if hooked.is_rest_due(u32::try_from(pages).unwrap_or(0))
                && let Err(error) = wal.checkpoint()
            {
                tracing::debug!(%error, "the rest of the WAL was not copied back");
            }
            Ok(())
        };
        writer.wal_hook(Some(hook)).map_err(normalise)?;
        Ok(Self { shared, handle: Some(handle) })
    }

    /// Ends the thread after its current copy.
    pub(crate) fn stop(&mut self) {
        self.shared.move_to(Stage::Stop);
        if let Some(handle) = self.handle.take()
            && handle.join().is_err()
        {
            tracing::error!("the WAL checkpoint thread panicked");
        }
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.stop();
    }
}

impl CheckpointShared {
    /// Must the calling commit copy the rest?
    fn is_rest_due(&self, pages: u32) -> bool {
        let mut stage = self.stage.lock();
        let (next, rest_is_due) = stage.after_commit(pages);
        if next == Stage::Copying && *stage != next {
            self.changed.notify_all();
        }
        *stage = next;
        rest_is_due
    }

    fn run(&self, copier: &Connection) {
        while self.await_order() {
            // Pages that it leaves, because of an error or a reader, are copied by an append.
            if let Err(error) = connection::copy_wal(copier) {
                tracing::debug!(%error, "the WAL was not copied back");
            }
            let mut stage = self.stage.lock();
            if *stage == Stage::Copying {
                *stage = Stage::Copied;
            }
        }
    }

    /// Waits for something to copy; false when the thread is to end.
    fn await_order(&self) -> bool {
        let mut stage = self.stage.lock();
        while !matches!(*stage, Stage::Copying | Stage::Stop) {
            self.changed.wait(&mut stage);
        }
        *stage == Stage::Copying
    }

    fn move_to(&self, stage: Stage) {
        *self.stage.lock() = stage;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commit_that_fills_the_wal_leaves_the_copy_to_the_thread() {
        let idle = Stage::Idle;
        assert_eq!(idle.after_commit(CHECKPOINT_PAGES - 1), (Stage::Idle, false));
        assert_eq!(idle.after_commit(CHECKPOINT_PAGES), (Stage::Copying, false));
        let copying = Stage::Copying;
        assert_eq!(copying.after_commit(2 * CHECKPOINT_PAGES), (Stage::Copying, false));
        assert_eq!(Stage::Copied.after_commit(2 * CHECKPOINT_PAGES), (Stage::Idle, true));
        assert_eq!(Stage::Stop.after_commit(2 * CHECKPOINT_PAGES), (Stage::Stop, false));
    }
}
