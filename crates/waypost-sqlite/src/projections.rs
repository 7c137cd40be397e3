//! The second file: rows for readers, and their writer.
//!
//! In the engine's process a thread follows the log and writes rows, gathered over many frames. A
//! guest catches up by itself before it lists, if no engine runs. The file is never the truth: if
//! it is missing, foreign or of another layout, it is created again.
//!
//! | file | owns |
//! | --- | --- |
//! | `file` | making and recognising the file |
//! | `projector` | from frames to changes |
//! | `rows` | from changes to rows |
//! | `cells` | values of columns as SQLite has them |
//! | `thread` | when to do it |
//! | `list`, `shown` | reading rows: pages of them, all of one execution |

mod cells;
mod file;
mod list;
mod projector;
mod queries;
mod rows;
mod shown;
mod thread;
mod waits;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use waypost_core::id::ExecutionNo;
use waypost_ports::inspect::ShownRows;
use waypost_ports::query::{ExecutionPage, ListRequest, ProjectionLag, WaitPage, WaitsRequest};
use waypost_ports::store::StoreError;

use crate::connection::{Readers, normalise};
use crate::lock::FolderLock;
use crate::options::Families;
use crate::queries::{FRAME_LATEST, FRAMES_HEAD};
use file::CursorRow;
use projector::Projector;
use thread::ProjectorThread;

/// Executions looked for in the log at a time.
const STRAYS_AT_ONCE: i64 = 1_000;

/// The projections of a folder.
pub(crate) struct Projections {
    folder: PathBuf,
    families: Families,
    rows: Readers,
    /// Absent for a guest.
    thread: Option<ProjectorThread>,
}

impl Projections {
    /// For the engine's process: starts the thread.
    pub(crate) fn engine(
        folder: &Path,
        log: &Readers,
        families: Families,
    ) -> Result<Self, StoreError> {
        let lock = FolderLock::projector(folder)?;
        let projector = Projector::open(folder, log, Arc::clone(&families), lock)?;
        let thread = ProjectorThread::start(projector)?;
        Ok(Self { thread: Some(thread), ..Self::guest(folder, families) })
    }

    /// For any other process.
    pub(crate) fn guest(folder: &Path, families: Families) -> Self {
        let rows = Readers::new(folder.join(file::NAME));
        Self { folder: folder.to_owned(), families, rows, thread: None }
    }

    /// Wakes the thread with the end of the log.
    pub(crate) fn wake(&self, head: Option<i64>) {
        if let (Some(thread), Some(head)) = (&self.thread, head) {
            thread.wake(head);
        }
    }

    /// Blocks until rows show the log as it is now, or the time is up.
    pub(crate) fn wait(&self, log: &Readers, limit: Option<Duration>) -> Result<(), StoreError> {
        match &self.thread {
            Some(thread) => thread.wait(head(log)?, limit),
            None => self.catch_up(log)?,
        }
        Ok(())
    }

    /// How many frames could not be projected.
    pub(crate) fn skipped(&self) -> u64 {
        self.thread.as_ref().map_or(0, ProjectorThread::skipped)
    }

    /// Releases the page memory of idle readers.
    pub(crate) fn release(&self) {
        self.rows.release();
    }

    /// Ends the thread. Rows that are missing are written at the next start.
    pub(crate) fn stop(&mut self) {
        if let Some(thread) = &mut self.thread {
            thread.stop();
        }
        self.rows.close();
    }

    /// A page of executions.
    pub(crate) fn list(
        &self,
        request: &ListRequest,
        log: &Readers,
    ) -> Result<ExecutionPage, StoreError> {
        if self.thread.is_none() {
            self.catch_up(log)?;
        }
        // First the log, then the rows: the lag may be overstated, never understated.
        let head = head(log)?;
        self.rows.read(|connection| list::page(connection, request, head))
    }

    /// A page of open waits.
    pub(crate) fn waits(
        &self,
        request: &WaitsRequest,
        log: &Readers,
    ) -> Result<WaitPage, StoreError> {
        if self.thread.is_none() {
            self.catch_up(log)?;
        }
        let head = head(log)?;
        self.rows.read(|connection| waits::page(connection, request, head))
    }

    /// How far the rows are behind.
    pub(crate) fn lag(&self, log: &Readers) -> Result<ProjectionLag, StoreError> {
        let head = head(log)?;
        let progress = match self.can_be_read()? {
            true => self.rows.read(file::progress)?,
            false => CursorRow::default(),
        };
        Ok(progress.lag(head))
    }

    /// Derives all rows again.
    pub(crate) fn rebuild(
        &self,
        log: &Readers,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<u64, StoreError> {
        let head = head(log)?;
        let result = match &self.thread {
            Some(thread) => thread.rebuild(head, progress),
            None => {
                let Some(lock) = FolderLock::projector_if_free(&self.folder)? else {
                    return Err(StoreError::Refused(
                        "the process that runs the engine writes the projections: ask it, or stop \
                         it first"
                            .to_owned(),
                    ));
                };
                self.projector(log, lock)?.rebuild(head, progress)
            }
        };
        result.map_err(normalise)
    }

    /// The rows of some executions, and the last frame that all rows show.
    pub(crate) fn shown(
        &self,
        executions: &[ExecutionNo],
    ) -> Result<(Vec<Option<ShownRows>>, i64), StoreError> {
        if !self.can_be_read()? {
            return Ok((vec![None; executions.len()], 0));
        }
        self.rows.read(|connection| {
            let rows = executions.iter().map(|execution| shown::rows(connection, *execution));
            Ok((rows.collect::<Result<_, _>>()?, file::progress(connection)?.cursor))
        })
    }

    /// Executions that have rows and no log. First the rows, then the log, which is never behind.
    pub(crate) fn without_log(&self, log: &Readers) -> Result<Vec<ExecutionNo>, StoreError> {
        let mut strays = Vec::new();
        let mut after = i64::MIN;
        while self.can_be_read()? {
            let chunk =
                self.rows.read(|connection| shown::after(connection, after, STRAYS_AT_ONCE))?;
            let Some(last) = chunk.last() else { break };
            after = last.0;
            log.read(|connection| {
                let mut latest = connection.prepare_cached(FRAME_LATEST)?;
                for execution in chunk {
                    if !latest.exists([execution.0])? {
                        strays.push(execution);
                    }
                }
                Ok(())
            })?;
        }
        Ok(strays)
    }

    /// Derives the rows of some executions again.
    pub(crate) fn reproject(&self, executions: &[ExecutionNo]) -> Result<(), StoreError> {
        let Some(thread) = &self.thread else { return Ok(()) };
        executions.iter().try_for_each(|execution| thread.reproject(*execution)).map_err(normalise)
    }

    /// Are there rows, of a layout that is known here?
    fn can_be_read(&self) -> Result<bool, StoreError> {
        let known = self.folder.join(file::NAME).exists() && self.rows.read(file::is_current)?;
        if !known {
            // The file will be created again, and an open reader would stay with the old one.
            self.rows.close();
        }
        Ok(known)
    }

    /// Does the thread's work, unless there is one in another process.
    fn catch_up(&self, log: &Readers) -> Result<(), StoreError> {
        if let Some(lock) = FolderLock::projector_if_free(&self.folder)? {
            let head = head(log)?;
            self.projector(log, lock)?.catch_up(head, &mut |_, _| {}).map_err(normalise)?;
        }
        Ok(())
    }

    fn projector(&self, log: &Readers, lock: FolderLock) -> Result<Projector, StoreError> {
        Projector::open(&self.folder, log, Arc::clone(&self.families), lock)
    }
}

/// The last frame of the log.
fn head(log: &Readers) -> Result<i64, StoreError> {
    log.read(|connection| connection.prepare_cached(FRAMES_HEAD)?.query_row([], |row| row.get(0)))
}
