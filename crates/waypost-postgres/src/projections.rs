//! Rows for readers: lists, searches, views for people with an SQL shell.
//!
//! ```text
//!   append ──▶ queue ──▶ projector ──▶ rows
//!                           ▲ what the queue could not hold, what others left behind
//!                          log
//! ```
//!
//! Whoever commits frames shows them, from its memory, gathered over many of them; appending leaves a copy
//! and never waits. The rows of one execution are written by one process at a time because each write says
//! which seq it goes on from. They are never the truth: they can be derived again from the log at any time.
//!
//! | file | owns |
//! | --- | --- |
//! | `queue` | what was committed and is not shown |
//! | `fold` | from frames to changes |
//! | `write`, `cells`, `document` | from changes to columns |
//! | `rows` | reading logs and rows, writing batches |
//! | `portion` | how much of that at once |
//! | `projector` | what to write next; why nothing is lost |
//! | `thread` | when to do it |
//! | `list`, `shown` | reading rows: pages of them, all of one execution |

mod cells;
mod document;
mod fold;
pub(crate) mod list;
mod portion;
mod projector;
mod queries;
mod queue;
mod rows;
pub(crate) mod shown;
mod thread;
mod write;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use uuid::Uuid;
use waypost_core::id::ExecutionNo;
use waypost_core::time::Timestamp;
use waypost_ports::query::ProjectionLag;
use waypost_ports::store::{Append, Appended, StoreError};

use crate::connection::{Connection, Home, Role};
use crate::error::{DbError, in_spite_of_others};
use crate::options::Families;
use crate::pool::Pool;
use crate::text::{checksum, count, get};
use crate::waiting::wait;
use projector::{LEASE_MS, Lease, Projector};
use queue::Queue;
use rows::Rows;
use thread::ProjectorThread;

/// Connections for what is asked of the projections besides: registering, deriving again.
const CONNECTIONS: usize = 2;

/// How long a caller waits for one of them.
const WAIT: Duration = Duration::from_secs(15);

/// How long a row in `projectors` is relied on without a sign that it is there.
const CONFIRMED_FOR: Duration = Duration::from_secs(10);

/// How long [`Projections::wait`] waits for transactions of others that keep a mark back.
const MARK_WAIT: Duration = Duration::from_secs(2);

/// Executions that are derived again with one connection, in portions.
const DERIVED_AT_ONCE: usize = 200;

/// Frames that are counted one by one; more are simply many.
const LAG_FRAMES_MAX: i64 = 100_000;

/// The projections of a store.
pub(crate) struct Projections {
    id: Uuid,
    runtime: Handle,
    pool: Pool,
    queue: Arc<Queue>,
    lease: Arc<Mutex<Lease>>,
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
        let id = Uuid::new_v4();
        let (queue, lease, skipped) = (Arc::new(Queue::default()), Arc::default(), Arc::default());
        let projector = Projector::new(
            Arc::clone(home),
            id,
            Arc::clone(&lease),
            Arc::clone(&families),
            Arc::clone(&skipped),
        );
        let thread = ProjectorThread::start(runtime, Arc::clone(&queue), projector)?;
        Ok(Self {
            id,
            runtime: runtime.clone(),
            pool: Pool::new(home, Role::Projections, CONNECTIONS, WAIT),
            queue,
            lease,
            families,
            skipped,
            thread: Some(thread),
        })
    }

    /// Runs an append and takes note of what it committed. Every append of a store must go through here.
    pub(crate) fn appending(
        &self,
        batch: &[Append],
        append: impl FnOnce() -> Result<Vec<Appended>, StoreError>,
    ) -> Result<Vec<Appended>, StoreError> {
        self.register()?;
        let mut under_way =
            UnderWay { queue: &self.queue, number: self.queue.begin(), batch: Some(batch) };
        let outcomes = append()?;
        under_way.batch = None;
        self.queue.answered(under_way.number, batch, &outcomes);
        Ok(outcomes)
    }

    /// Blocks until everything that was committed here is shown.
    pub(crate) fn wait(&self) -> Result<(), StoreError> {
        let until = Instant::now() + MARK_WAIT;
        loop {
            self.queue.wait();
            let row = self.run(async |connection| {
                connection.query_one(queries::PLACE_WAIT, &[&self.id]).await
            })?;
            let (last, done): (i64, Option<i64>) = (get(&row, 0)?, get(&row, 1)?);
            // Somebody else's transaction may keep the mark back for as long as it likes.
            if done.is_none_or(|done| done > last) || Instant::now() >= until {
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

    /// Derives all rows again; others go on meanwhile.
    pub(crate) fn rebuild(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<u64, StoreError> {
        let row =
            self.run(async |connection| connection.query_one(queries::FRAMES_COUNT, &[]).await)?;
        let all = count(&row, 0)?;
        progress(0, all);
        let mut rows = self.rows();
        let (mut frames, mut after) = (0, i64::MIN);
        let at_once = i64::try_from(DERIVED_AT_ONCE).unwrap_or(i64::MAX);
        loop {
            let next = self.run(async |connection| {
                connection.query(queries::EXECUTIONS_NEXT, &[&after, &at_once]).await
            })?;
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

    /// Derives some rows again, which somebody else may be writing.
    fn derive(&self, rows: &mut Rows, executions: &[i64]) -> Result<u64, StoreError> {
        Ok(in_spite_of_others(|| {
            let derive =
                async |connection: &mut Connection| rows.derive_again(connection, executions).await;
            wait(&self.runtime, self.pool.with(derive))
        })?)
    }

    /// Executions that have rows and no log.
    pub(crate) fn strays(&self) -> Result<Vec<ExecutionNo>, StoreError> {
        let mut strays = Vec::new();
        let mut after = i64::MIN;
        loop {
            let row = self.run(async |connection| {
                connection.query_one(queries::SHOWN_STRAYS, &[&after, &1_000_i64]).await
            })?;
            strays.extend(get::<Vec<i64>>(&row, 1)?.into_iter().map(ExecutionNo));
            match get(&row, 0)? {
                Some(last) => after = last,
                None => return Ok(strays),
            }
        }
    }

    /// Makes sure that others know of this process before it commits anything.
    fn register(&self) -> Result<(), StoreError> {
        let mut lease = self.lease.lock();
        if lease.confirmed.is_some_and(|confirmed| confirmed.elapsed() < CONFIRMED_FOR) {
            return Ok(());
        }
        let (asked, known) = (Instant::now(), lease.done);
        let row = self.run(async |connection| {
            connection.query_one(queries::PROJECTOR_REGISTER, &[&self.id, &LEASE_MS, &known]).await
        })?;
        *lease = Lease { done: Some(get(&row, 0)?), confirmed: Some(asked) };
        Ok(())
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
        action: impl AsyncFnOnce(&mut Connection) -> Result<T, DbError>,
    ) -> Result<T, StoreError> {
        Ok(wait(&self.runtime, self.pool.with(action))?)
    }
}

impl Drop for Projections {
    fn drop(&mut self) {
        self.stop();
    }
}

/// An append whose outcome is not known: not yet, or never where it is dropped like this.
struct UnderWay<'a> {
    queue: &'a Queue,
    number: u64,
    batch: Option<&'a [Append]>,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(batch) = self.batch {
            self.queue.unknown(self.number, batch);
        }
    }
}

/// How far the rows of all processes are behind the log.
pub(crate) async fn lag(connection: &mut Connection) -> Result<ProjectionLag, DbError> {
    let row = connection.query_one(queries::PROGRESS, &[&LAG_FRAMES_MAX]).await?;
    let as_of = get::<Option<i64>>(&row, 1)?.map(Timestamp);
    Ok(ProjectionLag { frames: count(&row, 2)?, as_of })
}

/// The hash of a name, for an index.
fn name_hash(name: &[u8]) -> i64 {
    checksum(name)
}
