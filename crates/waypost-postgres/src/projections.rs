//! Rows for readers: lists, searches, views for people with an SQL shell.
//!
//! ```text
//!   append ──▶ queue ──▶ projector ──▶ rows
//!                           ▲             ╎
//!              log ──▶ sweeper ◀╌╌╌╌╌╌╌╌╌╌┘ compares
//! ```
//!
//! Each process projects its own commits from memory, many at a time; an append leaves a copy and never
//! waits. One sweeper per cluster follows the log and projects what is missing. The rows of one execution
//! are written by one process at a time, since each write names the seq that it continues from. They are
//! never the truth: they can be derived again from the log at any time.
//!
//! | file | owns |
//! | --- | --- |
//! | `queue` | what was committed and is not projected |
//! | `fold` | from frames to changes |
//! | `write`, `cells`, `document` | from changes to columns |
//! | `inputs` | the inputs of tasks, from logs and plans |
//! | `rows` | reading logs and rows, writing batches |
//! | `portion` | how much of that at once |
//! | `projector` | what to write next; why nothing is lost |
//! | `projector/sweep` | finding what is behind |
//! | `thread` | when to do it |
//! | `list`, `shown` | reading rows: pages of them, all of one execution |

mod cells;
mod document;
mod fold;
mod inputs;
pub(crate) mod list;
mod portion;
mod projector;
mod queries;
mod queue;
mod rows;
pub(crate) mod shown;
mod thread;
pub(crate) mod waits;
mod write;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use waypost_core::id::ExecutionNo;
use waypost_ports::query::ProjectionLag;
use waypost_ports::store::{Append, Appended, StoreError};

use crate::connection::{Connection, Home, Role};
use crate::error::{Result, in_spite_of_others};
use crate::options::Families;
use crate::pool::Pool;
use crate::text::{checksum, count, get, time};
use crate::waiting::wait;
use projector::Projector;
use queries::sql;
use queue::Queue;
use rows::Rows;
use thread::ProjectorThread;

/// Connections for other work on the projections: waiting for them, deriving again.
const CONNECTIONS: usize = 2;

/// How long a caller waits for one of them.
const WAIT: Duration = Duration::from_secs(15);

/// How long [`Projections::wait`] waits for transactions of other clients that keep the sweeper back.
const SWEEP_WAIT: Duration = Duration::from_secs(2);

/// Executions that are derived again with one connection, in portions.
const DERIVED_AT_ONCE: usize = 200;

/// Frames that are compared with their rows to compute the lag.
const LAG_FRAMES_COMPARED: i64 = 10_000;

/// Frames after those that are counted one by one; more are simply many.
const LAG_FRAMES_MAX: i64 = 100_000;

pub(crate) struct Projections {
    runtime: Handle,
    pool: Pool,
    queue: Arc<Queue>,
    families: Families,
    /// Frames that could not be read.
    skipped: Arc<AtomicU64>,
    thread: Option<ProjectorThread>,
}

impl Projections {
    /// Starts the thread that writes them.
    pub(crate) fn start(
        home: &Arc<Home>,
        runtime: &Handle,
        families: Families,
    ) -> Result<Self, StoreError> {
        let (queue, skipped) = (Arc::new(Queue::default()), Arc::default());
        let projector =
            Projector::new(Arc::clone(home), Arc::clone(&families), Arc::clone(&skipped));
        let thread = ProjectorThread::start(runtime, Arc::clone(&queue), projector)?;
        Ok(Self {
            runtime: runtime.clone(),
            pool: Pool::new(home, Role::Projections, CONNECTIONS, WAIT),
            queue,
            families,
            skipped,
            thread: Some(thread),
        })
    }

    /// Takes note of what an append committed.
    pub(crate) fn appended(&self, batch: &[Append], outcomes: &[Appended]) {
        self.queue.appended(batch, outcomes);
    }

    /// Blocks until everything that was committed is projected, whichever process committed it.
    pub(crate) fn wait(&self) -> Result<(), StoreError> {
        let (mut until, mut wanted) = (None, None);
        loop {
            self.queue.wait();
            let until = *until.get_or_insert_with(|| Instant::now() + SWEEP_WAIT);
            let row = self.run(async |db| db.query_one(sql!("place_wait"), &[]).await)?;
            let (last, place): (i64, i64) = (get(&row, 0)?, get(&row, 1)?);
            // A transaction of another client may keep the sweeper back for as long as it is open.
            if place > *wanted.get_or_insert(last) || Instant::now() >= until {
                return Ok(());
            }
        }
    }

    /// Ends the thread, after it has shown what there is.
    pub(crate) fn stop(&mut self) {
        self.queue.stop();
        if let Some(mut thread) = self.thread.take() {
            thread.join();
        }
        self.pool.close();
    }

    /// Derives the rows of some executions again; of those without a log, none are left.
    pub(crate) fn derive_again(&self, executions: &[ExecutionNo]) -> Result<(), StoreError> {
        let mut numbers: Vec<i64> = executions.iter().map(|execution| execution.0).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut rows = self.rows();
        for chunk in numbers.chunks(DERIVED_AT_ONCE) {
            self.derive(&mut rows, chunk)?;
        }
        Ok(())
    }

    /// Derives all rows again; other processes continue meanwhile.
    pub(crate) fn rebuild(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<u64, StoreError> {
        let row = self.run(async |db| db.query_one(sql!("frames_count"), &[]).await)?;
        let all = count(&row, 0)?;
        progress(0, all);
        let mut rows = self.rows();
        let (mut frames, mut after) = (0, i64::MIN);
        let at_once = i64::try_from(DERIVED_AT_ONCE).unwrap_or(i64::MAX);
        loop {
            let next =
                self.run(async |db| db.query(sql!("executions_next"), &[&after, &at_once]).await)?;
            let chunk: Vec<i64> = next.iter().map(|row| get(row, 0)).collect::<Result<_, _>>()?;
            let Some(last) = chunk.last() else { break };
            frames += self.derive(&mut rows, &chunk)?;
            after = *last;
            // More may have been committed since they were counted.
            progress(frames, all.max(frames));
        }
        let strays = self.strays()?;
        self.derive_again(&strays)?;
        Ok(frames)
    }

    /// Derives some rows again, while another process may be writing them.
    fn derive(&self, rows: &mut Rows, executions: &[i64]) -> Result<u64, StoreError> {
        Ok(in_spite_of_others(|| {
            let derive = async |db: &mut Connection| rows.derive_again(db, executions).await;
            wait(&self.runtime, self.pool.with(derive))
        })?)
    }

    /// Executions that have rows and no log.
    pub(crate) fn strays(&self) -> Result<Vec<ExecutionNo>, StoreError> {
        let mut strays = Vec::new();
        let mut after = i64::MIN;
        loop {
            let row = self
                .run(async |db| db.query_one(sql!("shown_strays"), &[&after, &1_000_i64]).await)?;
            strays.extend(get::<Vec<i64>>(&row, 1)?.into_iter().map(ExecutionNo));
            match get(&row, 0)? {
                Some(last) => after = last,
                None => return Ok(strays),
            }
        }
    }

    /// Frames that were left out because they could not be read.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    fn rows(&self) -> Rows {
        Rows::new(Arc::clone(&self.families), Arc::clone(&self.skipped))
    }

    fn run<T>(
        &self,
        action: impl AsyncFnOnce(&mut Connection) -> Result<T>,
    ) -> Result<T, StoreError> {
        Ok(wait(&self.runtime, self.pool.with(action))?)
    }
}

impl Drop for Projections {
    fn drop(&mut self) {
        self.stop();
    }
}

/// How far the rows of all processes are behind the log.
pub(crate) async fn lag(db: &mut Connection) -> Result<ProjectionLag> {
    let row = db.query_one(sql!("progress"), &[&LAG_FRAMES_COMPARED, &LAG_FRAMES_MAX]).await?;
    let as_of = time(&row, 1)?;
    Ok(ProjectionLag { frames: count(&row, 0)?, as_of })
}

/// The hash of a name, for an index.
fn name_hash(name: &[u8]) -> i64 {
    checksum(name)
}
