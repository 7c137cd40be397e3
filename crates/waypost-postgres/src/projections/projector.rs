//! Writes the projections of frames that this process committed, and of frames that the sweeper finds
//! missing.
//!
//! **Why no row is lost.** `sweeper.place` is a place in the log: the rows show every frame before it. Let a
//! frame be committed.
//!
//! * Its process usually projects it from memory, within a fraction of a second. Every write compares
//!   `projected` with the value it continues from, so it does no harm if another process was faster. If the
//!   write fails, it is repeated; if the process dies or drops the frame, nothing but time is lost.
//! * `place` passes the frame only when no frame can appear before it any more and its execution's row was
//!   compared with it: the row shows the frame, or could not be written for a reason that is logged. Until
//!   then each sweep finds the frame again, whichever process wrote it and whether that process lives.
//! * Rows are committed without waiting for the disk. A crash of the server loses the end of its log, and
//!   with it `place` before the rows that were there when it was written. After a lost connection the
//!   sweeper reads `place` again.
//!
//! What is refused by the database for its data, or cannot be folded, is tried without documents, then
//! execution by execution, and the one at fault is left out.

mod sweep;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use futures_util::FutureExt as _;

use super::fold::{Base, Folded, Touched};
use super::portion::PortionSize;
use super::queries::sql;
use super::queue::{Frame, Queue, Work};
use super::rows::{Rows, first_of, load_bases, read_log};
use super::write::Documents;
use crate::connection::{Connection, Home, Role};
use crate::error::{DbError, Result};
use crate::options::Families;
use sweep::Sweep;
pub(super) use sweep::TICK;

/// Executions whose row state is in memory, to continue from it.
const BASES_MAX: usize = 200_000;

/// Writes rows: those of this process' commits, and what the sweeper finds.
pub(super) struct Projector {
    home: Arc<Home>,
    rows: Rows,
    connection: Option<Connection>,
    bases: HashMap<i64, Base>,
    sweep: Sweep,
    rejected: Rejection,
    pace: PortionSize,
    /// Executions whose rows the database refuses.
    refused: BTreeSet<i64>,
}

/// The handling of rows that the database rejects.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Rejection {
    None,
    /// Rows are written without documents: nothing else can be refused for its content.
    WithoutDocuments,
    /// One execution at a time, in order to find the one that is refused.
    OneByOne,
}

impl Projector {
    pub(super) fn new(home: Arc<Home>, families: Families, skipped: Arc<AtomicU64>) -> Self {
        Self {
            home,
            rows: Rows::new(families, skipped),
            connection: None,
            bases: HashMap::new(),
            sweep: Sweep::new(),
            rejected: Rejection::None,
            pace: PortionSize::default(),
            refused: BTreeSet::new(),
        }
    }

    /// Projects some work, and what the sweeper finds. Returns whether nothing of it is left to do;
    /// on an error all of it is queued again.
    pub(super) async fn round(&mut self, queue: &Queue, work: Work) -> Result<bool> {
        let mut all = work.behind.clone();
        all.extend(work.frames.iter().map(|frame| frame.execution));
        let result = match self.connect().await {
            Ok(()) => {
                self.rows.portion = self.pace.portion();
                let result = self.show(queue, work, &mut all).await;
                self.pace.judge(&result);
                result
            }
            // An unreachable server is no evidence of how much it can take.
            Err(error) => Err(error),
        };
        if let Err(error) = &result {
            queue.owe(all);
            self.connection = None;
            if matches!(error, DbError::Data(_)) {
                self.rejected = match self.rejected {
                    Rejection::None => Rejection::WithoutDocuments,
                    _ => Rejection::OneByOne,
                };
            }
        } else {
            self.rejected = Rejection::None;
        }
        result
    }

    /// Projects what is left, and lets another process sweep at once.
    pub(super) async fn end(&mut self, queue: &Queue) -> Result<()> {
        let rest = queue.rest();
        if !rest.frames.is_empty() || !rest.behind.is_empty() {
            self.round(queue, rest).await?;
        }
        self.release().await
    }

    async fn show(&mut self, queue: &Queue, work: Work, all: &mut BTreeSet<i64>) -> Result<bool> {
        self.rows.documents = match self.rejected {
            Rejection::None => Documents::Written,
            Rejection::WithoutDocuments | Rejection::OneByOne => Documents::LeftOut,
        };
        let Work { frames, mut behind, awaited } = work;
        let page = self.next_page(awaited).await?;
        all.extend(&page.behind);
        behind.extend(&page.behind);
        if self.rejected == Rejection::OneByOne {
            behind.extend(frames.iter().map(|frame| frame.execution));
        } else {
            unless_it_panics(self.show_frames(frames, &mut behind)).await?;
        }
        let mut left = self.catch_up(behind).await?;
        left.retain(|execution| !self.refused.contains(execution));
        if left.is_empty() {
            self.pass(&page).await?;
        }
        let is_done = left.is_empty() && !page.is_full;
        queue.owe(left);
        Ok(is_done)
    }

    /// Projects frames from memory. Executions whose rows do not end where these begin are added to
    /// those that are behind.
    async fn show_frames(
        &mut self,
        mut frames: Vec<Frame>,
        behind: &mut BTreeSet<i64>,
    ) -> Result<()> {
        let portion = self.rows.portion;
        frames.retain(|frame| !self.refused.contains(&frame.execution));
        frames.sort_by_key(|frame| (frame.execution, frame.first_seq));
        let mut frames = frames.into_iter().peekable();
        while frames.peek().is_some() {
            let mut some: BTreeMap<i64, Vec<Frame>> = BTreeMap::new();
            let mut bytes = 0;
            // Frames of one execution may be split: the second part continues where the first ends.
            while let Some(frame) = frames.next_if(|next| {
                let has_room =
                    some.len() < portion.executions || some.contains_key(&next.execution);
                has_room && bytes < portion.bytes
            }) {
                bytes += frame.body.as_ref().map_or(0, Vec::len);
                some.entry(frame.execution).or_default().push(frame);
            }
            self.show_some(some, behind).await?;
        }
        Ok(())
    }

    async fn show_some(
        &mut self,
        by_execution: BTreeMap<i64, Vec<Frame>>,
        behind: &mut BTreeSet<i64>,
    ) -> Result<()> {
        let is_missing = |(execution, frames): &(&i64, &Vec<Frame>)| {
            let first = frames.first().map(|frame| frame.first_seq);
            !self.bases.contains_key(*execution) && first != Some(1)
        };
        let missing: Vec<i64> =
            by_execution.iter().filter(is_missing).map(|(execution, _)| *execution).collect();
        self.load(&missing).await?;
        let mut batch = BTreeMap::new();
        for (execution, frames) in by_execution {
            let base = self.bases.remove(&execution).unwrap_or_default();
            let mut touched = Touched::on(base);
            let gap = frames.iter().any(|frame| self.rows.fold(&mut touched, frame) == Folded::Gap);
            match gap {
                true => drop(behind.insert(execution)),
                false => drop(batch.insert(execution, touched)),
            }
        }
        self.write(batch, behind).await
    }

    /// Projects the log of executions. Returns those that have to be compared again.
    async fn catch_up(&mut self, mut behind: BTreeSet<i64>) -> Result<BTreeSet<i64>> {
        let mut again = BTreeSet::new();
        behind.retain(|execution| !self.refused.contains(execution));
        let at_once = match self.rejected {
            Rejection::OneByOne => 1,
            _ => self.rows.portion.executions,
        };
        while !behind.is_empty() {
            let rest = behind.iter().nth(at_once).copied();
            let rest = rest.map_or_else(BTreeSet::new, |first| behind.split_off(&first));
            let chunk = std::mem::replace(&mut behind, rest);
            let result = unless_it_panics(self.catch_up_some(&chunk, &mut again)).await;
            match (result, chunk.first()) {
                (Err(DbError::Data(reason)), Some(execution)) if at_once == 1 => {
                    tracing::error!(
                        execution,
                        reason,
                        "the database rejects the projections of this execution"
                    );
                    self.refused.insert(*execution);
                    self.connection = None;
                    self.connect().await?;
                }
                (result, _) => result?,
            }
        }
        Ok(again)
    }

    async fn catch_up_some(
        &mut self,
        chunk: &BTreeSet<i64>,
        again: &mut BTreeSet<i64>,
    ) -> Result<()> {
        // The state in memory may be the one that turned out to be wrong.
        chunk.iter().for_each(|execution| drop(self.bases.remove(execution)));
        let Some(db) = &mut self.connection else { return Ok(()) };
        let mut rest: Vec<i64> = chunk.iter().copied().collect();
        let mut bases = load_bases(db, &rest).await?;
        while !rest.is_empty() {
            let Some(db) = &mut self.connection else { return Ok(()) };
            let portion = self.rows.portion;
            let shown = |execution: &i64| bases.get(execution).map_or(0, |base| base.projected);
            let behind = rest.iter().map(|execution| (*execution, shown(execution)));
            let some = first_of(db, behind, portion).await?;
            let now = rest.iter().take(some);
            let now =
                now.map(|execution| (*execution, bases.remove(execution).unwrap_or_default()));
            let mut batch: BTreeMap<i64, Touched> =
                now.map(|(execution, base)| (execution, Touched::on(base))).collect();
            let behind = batch.iter().map(|(e, touched)| (*e, touched.projected));
            let page = read_log(db, behind, portion).await?;
            for frame in &page.frames {
                if let Some(touched) = batch.get_mut(&frame.execution) {
                    self.rows.fold(touched, frame);
                }
            }
            let next = page.next(&batch);
            self.write(batch, again).await?;
            // Executions that were cut continue from their current position.
            let mut cut = rest.iter().take(some).copied().collect::<BTreeSet<_>>();
            cut.retain(|execution| next.is_some_and(|first| *execution >= first));
            rest.drain(..some - cut.len());
            bases.extend(self.take_bases(&cut).await?);
        }
        Ok(())
    }

    /// The projected states of some executions, from memory or from the database.
    async fn take_bases(&mut self, executions: &BTreeSet<i64>) -> Result<Vec<(i64, Base)>> {
        let missing = executions.iter().filter(|execution| !self.bases.contains_key(*execution));
        let missing: Vec<i64> = missing.copied().collect();
        self.load(&missing).await?;
        let known = executions.iter().filter_map(|e| Some((*e, self.bases.remove(e)?)));
        Ok(known.collect())
    }

    /// Writes changes. Executions whose rows another process has written meanwhile are added to `again`.
    async fn write(
        &mut self,
        batch: BTreeMap<i64, Touched>,
        again: &mut BTreeSet<i64>,
    ) -> Result<()> {
        let (anew, batch): (BTreeMap<_, _>, BTreeMap<_, _>) =
            batch.into_iter().partition(|(_, touched)| touched.starts_anew());
        let Some(db) = &mut self.connection else { return Ok(()) };
        let visible = batch.values().any(Touched::is_visible);
        let written = match visible {
            true => self.rows.write(db, &batch).await?,
            false => BTreeSet::new(),
        };
        if !anew.is_empty() {
            let executions: Vec<i64> = anew.keys().copied().collect();
            self.rows.derive_again(db, &executions).await?;
        }
        if self.bases.len() + batch.len() > BASES_MAX {
            self.bases.clear();
        }
        for (execution, touched) in batch {
            if touched.is_visible() && !written.contains(&execution) {
                again.insert(execution);
            } else if !touched.known || !touched.changes.view.status.is_end() {
                // An execution without a row, since its beginning cannot be read, would be read
                // from there again.
                self.bases.insert(execution, touched.into_base());
            }
        }
        Ok(())
    }

    async fn load(&mut self, executions: &[i64]) -> Result<()> {
        let Some(db) = &mut self.connection else { return Ok(()) };
        if !executions.is_empty() {
            self.bases.extend(load_bases(db, executions).await?);
        }
        Ok(())
    }

    async fn connect(&mut self) -> Result<()> {
        if let Some(db) = self.connection.as_mut().filter(|known| known.is_usable()) {
            return db.tell_time().await;
        }
        // The server may have lost what it committed last: nothing that was read before counts.
        self.sweep.forget();
        self.bases.clear();
        self.rows.definitions.clear();
        let mut db = Connection::open(&self.home, Role::Projections).await?;
        db.query(sql!("relax"), &[]).await?;
        db.tell_time().await?;
        self.connection = Some(db);
        Ok(())
    }
}

/// A panic concerns what was being projected, as data does that the database refuses.
async fn unless_it_panics<T>(showing: impl Future<Output = Result<T>>) -> Result<T> {
    let shown = AssertUnwindSafe(showing).catch_unwind().await;
    shown.unwrap_or_else(|_| Err(DbError::Data("it panicked".to_owned())))
}
