//! Writes the projections of frames that this process committed, and of frames that dead processes left.
//!
//! **Why no row is lost.** Every process that appends has a row in `projectors`, inserted before its first
//! append. Its `done` is a place in the log: every frame of the process before it is projected. Let a
//! frame be committed.
//!
//! * While its process lives, the frame or its execution is in the queue until its rows are written. A
//!   failed write is queued again. Every write compares `projected` with the value it continues from, so
//!   it notices rows that another process has written.
//! * `done` passes the frame's place only after that. The new value is a place before which, when it was
//!   read, no frame could appear any more. It is stored when every append that had begun by then has
//!   returned and its frames are projected. Rows and mark are committed in this order on one connection,
//!   without waiting for the disk: a server that loses the end of its log loses the mark before the rows.
//!   A lost connection may mean just that, so the process then compares everything since the stored mark
//!   with the log again.
//! * When the process dies, its row stays and its lease ends. The process that notices compares all frames
//!   from `done` to the end of the visible log with their rows, and only then deletes the row. A frame that
//!   becomes visible later, before that end, is not of the dead process. If the process was slow and not
//!   dead, its row has changed meanwhile, and stays.
//!
//! One gap remains: a process that froze for longer than its lease, appended after its row was deleted, and
//! died before its next round leaves an execution that only `waypost check` finds.

mod debts;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use uuid::Uuid;
use waypost_ports::store::LEASE;

use super::fold::{Base, Folded, Touched};
use super::portion::Pace;
use super::queries;
use super::queue::{Frame, Queue, Work};
use super::rows::{Rows, first_of, load_bases, read_log};
use super::write::Documents;
use crate::connection::{Connection, Home, Role};
use crate::error::DbError;
use crate::options::Families;

/// Executions whose rows are remembered in order to go on from them.
const BASES_MAX: usize = 200_000;

/// The lease, in milliseconds.
pub(super) const LEASE_MS: i64 = LEASE.0.cast_signed();

/// What this process knows of its row in `projectors`.
#[derive(Debug, Default)]
pub(super) struct Lease {
    /// Everything before this place is shown; nothing as long as there is no row.
    pub(super) done: Option<i64>,
    /// When it was last known to be there.
    pub(super) confirmed: Option<Instant>,
}

/// Writes the rows of what one process commits.
pub(super) struct Projector {
    home: Arc<Home>,
    id: Uuid,
    lease: Arc<Mutex<Lease>>,
    rows: Rows,
    connection: Option<Connection>,
    bases: HashMap<i64, Base>,
    mark: Option<Mark>,
    /// Rows were written and no mark says so yet.
    unsettled: bool,
    connected_before: bool,
    /// Is there nothing that an earlier connection may have lost?
    compared: bool,
    caution: Caution,
    pace: Pace,
    /// The same for what others owed.
    pace_of_debts: Pace,
    /// Executions whose rows the database refuses.
    refused: BTreeSet<i64>,
}

/// A place that can be marked once every append before this one was heard of.
#[derive(Clone, Copy, Debug)]
struct Mark {
    place: i64,
    appends_before: u64,
}

/// What is done about rows that the database refuses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Caution {
    None,
    /// Only documents can be refused for what is in them.
    WithoutDocuments,
    /// In order to find the one that is refused.
    OneByOne,
}

impl Projector {
    pub(super) fn new(
        home: Arc<Home>,
        id: Uuid,
        lease: Arc<Mutex<Lease>>,
        families: Families,
        skipped: Arc<AtomicU64>,
    ) -> Self {
        Self {
            home,
            id,
            lease,
            rows: Rows::new(families, skipped),
            connection: None,
            bases: HashMap::new(),
            mark: None,
            unsettled: false,
            connected_before: false,
            compared: false,
            caution: Caution::None,
            pace: Pace::default(),
            pace_of_debts: Pace::default(),
            refused: BTreeSet::new(),
        }
    }

    /// Is there a mark to set soon?
    pub(super) fn is_unsettled(&self) -> bool {
        self.unsettled
    }

    /// Shows some work. Says whether nothing of it is left to do; on an error all of it is queued again.
    pub(super) async fn round(&mut self, queue: &Queue, work: Work) -> Result<bool, DbError> {
        let mut all = work.behind.clone();
        all.extend(work.frames.iter().map(|frame| frame.execution));
        let result = match self.connect().await {
            Ok(()) => self.show(queue, work).await,
            // A server that is away says nothing about how much it can take.
            Err(error) => Err(error),
        };
        if let Err(error) = &result {
            queue.owe(all);
            self.connection = None;
            if matches!(error, DbError::Data(_)) {
                self.caution = match self.caution {
                    Caution::None => Caution::WithoutDocuments,
                    _ => Caution::OneByOne,
                };
            }
        } else {
            self.caution = Caution::None;
        }
        result
    }

    async fn show(&mut self, queue: &Queue, work: Work) -> Result<bool, DbError> {
        self.rows.portion = self.pace.portion();
        let result = self.show_work(queue, work).await;
        self.pace.judge(&result);
        result
    }

    async fn show_work(&mut self, queue: &Queue, work: Work) -> Result<bool, DbError> {
        self.rows.documents = match self.caution {
            Caution::None => Documents::Written,
            Caution::WithoutDocuments | Caution::OneByOne => Documents::LeftOut,
        };
        let Work { frames, mut behind, heard_before } = work;
        let any = !frames.is_empty() || !behind.is_empty();
        if !self.compared {
            self.compare_again().await?;
        }
        if self.caution == Caution::OneByOne {
            behind.extend(frames.iter().map(|frame| frame.execution));
        } else {
            unless_it_panics(self.show_frames(frames, &mut behind)).await?;
        }
        let mut left = self.catch_up(behind).await?;
        left.retain(|execution| !self.refused.contains(execution));
        let clear = left.is_empty();
        queue.owe(left);
        if clear {
            self.advance(queue, heard_before).await?;
        }
        self.unsettled |= any;
        Ok(clear)
    }

    /// Shows frames that are at hand. Executions whose rows do not end where these begin are added to
    /// those that are behind.
    async fn show_frames(
        &mut self,
        mut frames: Vec<Frame>,
        behind: &mut BTreeSet<i64>,
    ) -> Result<(), DbError> {
        let portion = self.rows.portion;
        frames.retain(|frame| !self.refused.contains(&frame.execution));
        frames.sort_by_key(|frame| (frame.execution, frame.first_seq));
        let mut frames = frames.into_iter().peekable();
        while frames.peek().is_some() {
            let mut some: BTreeMap<i64, Vec<Frame>> = BTreeMap::new();
            let mut bytes = 0;
            // Frames of one execution may come apart: the second part goes on where the first ends.
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
    ) -> Result<(), DbError> {
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

    /// Shows what the log has of executions. Gives those that have to be looked at again.
    async fn catch_up(&mut self, mut behind: BTreeSet<i64>) -> Result<BTreeSet<i64>, DbError> {
        let mut again = BTreeSet::new();
        behind.retain(|execution| !self.refused.contains(execution));
        let at_once = match self.caution {
            Caution::OneByOne => 1,
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
    ) -> Result<(), DbError> {
        // What is remembered may be just what turned out to be wrong.
        chunk.iter().for_each(|execution| drop(self.bases.remove(execution)));
        let Some(connection) = &mut self.connection else { return Ok(()) };
        let mut rest: Vec<i64> = chunk.iter().copied().collect();
        let mut bases = load_bases(connection, &rest).await?;
        while !rest.is_empty() {
            let Some(connection) = &mut self.connection else { return Ok(()) };
            let portion = self.rows.portion;
            let shown = |execution: &i64| bases.get(execution).map_or(0, |base| base.projected);
            let behind = rest.iter().map(|execution| (*execution, shown(execution)));
            let some = first_of(connection, behind, portion).await?;
            let now = rest.iter().take(some);
            let now =
                now.map(|execution| (*execution, bases.remove(execution).unwrap_or_default()));
            let mut batch: BTreeMap<i64, Touched> =
                now.map(|(execution, base)| (execution, Touched::on(base))).collect();
            let behind = batch.iter().map(|(e, touched)| (*e, touched.projected));
            let page = read_log(connection, behind, portion).await?;
            for frame in &page.frames {
                if let Some(touched) = batch.get_mut(&frame.execution) {
                    self.rows.fold(touched, frame);
                }
            }
            let next = page.next(&batch);
            self.write(batch, again).await?;
            // Those that were cut go on where they are now.
            let mut cut = rest.iter().take(some).copied().collect::<BTreeSet<_>>();
            cut.retain(|execution| next.is_some_and(|first| *execution >= first));
            rest.drain(..some - cut.len());
            bases.extend(self.take_bases(&cut).await?);
        }
        Ok(())
    }

    /// Where the rows of some executions stand, from memory or from the database.
    async fn take_bases(
        &mut self,
        executions: &BTreeSet<i64>,
    ) -> Result<Vec<(i64, Base)>, DbError> {
        let missing = executions.iter().filter(|execution| !self.bases.contains_key(*execution));
        let missing: Vec<i64> = missing.copied().collect();
        self.load(&missing).await?;
        let known = executions.iter().filter_map(|e| Some((*e, self.bases.remove(e)?)));
        Ok(known.collect())
    }

    /// Writes changes. Those of executions whose rows somebody else has written are not, and are added
    /// to `again`.
    async fn write(
        &mut self,
        batch: BTreeMap<i64, Touched>,
        again: &mut BTreeSet<i64>,
    ) -> Result<(), DbError> {
        let (anew, batch): (BTreeMap<_, _>, BTreeMap<_, _>) =
            batch.into_iter().partition(|(_, touched)| touched.starts_anew());
        let Some(connection) = &mut self.connection else { return Ok(()) };
        let visible = batch.values().any(Touched::is_visible);
        let written = match visible {
            true => self.rows.write(connection, &batch).await?,
            false => BTreeSet::new(),
        };
        if !anew.is_empty() {
            let executions: Vec<i64> = anew.keys().copied().collect();
            self.rows.derive_again(connection, &executions).await?;
        }
        if self.bases.len() + batch.len() > BASES_MAX {
            self.bases.clear();
        }
        for (execution, touched) in batch {
            if touched.is_visible() && !written.contains(&execution) {
                again.insert(execution);
            } else if !touched.known || !touched.changes.view.status.is_end() {
                // What has no row, since its beginning cannot be read, would be read from there again.
                self.bases.insert(execution, touched.into_base());
            }
        }
        Ok(())
    }

    async fn load(&mut self, executions: &[i64]) -> Result<(), DbError> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        if !executions.is_empty() {
            self.bases.extend(load_bases(connection, executions).await?);
        }
        Ok(())
    }

    async fn connect(&mut self) -> Result<(), DbError> {
        if let Some(connection) = self.connection.as_mut().filter(|known| known.is_usable()) {
            return connection.tell_time().await;
        }
        // The first connection of a process cannot have lost anything.
        (self.compared, self.mark) = (!self.connected_before, None);
        self.bases.clear();
        self.rows.definitions.clear();
        let mut connection = Connection::open(&self.home, Role::Projections).await?;
        connection.query(queries::RELAX, &[]).await?;
        connection.tell_time().await?;
        (self.connection, self.connected_before) = (Some(connection), true);
        Ok(())
    }
}

/// A panic concerns what was being shown, as data does that the database refuses.
async fn unless_it_panics<T>(
    showing: impl Future<Output = Result<T, DbError>>,
) -> Result<T, DbError> {
    let shown = AssertUnwindSafe(showing).catch_unwind().await;
    shown.unwrap_or_else(|_| Err(DbError::Data("it panicked".to_owned())))
}
