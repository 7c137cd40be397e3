//! From frames to changes: reads the log in the order of commits, folds its frames by execution,
//! and writes the result in one transaction together with the position it reached.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;
use std::time::Instant;

use rusqlite::{Connection, OptionalExtension};
use waypost_core::event::Event;
use waypost_core::frame;
use waypost_core::id::ExecutionNo;
use waypost_core::projection::columns::VIEW;
use waypost_core::projection::{Changes, Stamp};
use waypost_core::time::Timestamp;
use waypost_ports::store::StoreError;

use super::rows::{Names, Rows};
use super::{cells, file, queries};
use crate::cache::{self, PageCache};
use crate::connection::{Readers, checkpoint, from_stored, is_intact, normalise};
use crate::lock::FolderLock;
use crate::options::Families;
use crate::queries::{FRAMES_HEAD, FRAMES_SHOWN, FRAMES_TAIL, STORE_ID};

/// Frames in one transaction. Enough for a chain's frames to coalesce, and few enough to keep the
/// changes of a batch in the processor's cache and a reader of the log short.
pub(super) const FRAMES_MAX: i64 = 5_000;

/// Bytes of frames from which on a transaction takes no more of them. The frames of wide executions
/// have a thousand nodes each, and their changes take about as much memory again as the frames.
const BYTES_MAX: usize = 32 << 20;

/// Writes the projections of one folder. There is never more than one.
pub(super) struct Projector {
    log: Connection,
    rows: Connection,
    cursor: i64,
    names: Names,
    skipped: u64,
    cache: PageCache,
    _lock: FolderLock,
}

/// An execution that a batch touches.
pub(super) struct Touched {
    pub(super) changes: Changes,
    /// Constant columns of its row; absent where it has none yet.
    pub(super) row: Option<ConstantColumns>,
}

/// Columns of an execution's row that never change.
#[derive(Clone, Copy)]
pub(super) struct ConstantColumns {
    pub(super) definition: i64,
    pub(super) created_at: Timestamp,
}

/// The last frame of a batch.
#[derive(Clone, Copy)]
struct LastRead {
    place: i64,
    at: Timestamp,
}

impl Projector {
    /// Opens the projections' file, made anew where it has to be.
    pub(super) fn open(
        folder: &Path,
        log: &Readers,
        families: Families,
        lock: FolderLock,
    ) -> Result<Self, StoreError> {
        let open = || {
            let log = log.open()?;
            let store: Vec<u8> = log.query_row(STORE_ID, [], |row| row.get(0))?;
            let head = log.query_row(FRAMES_HEAD, [], |row| row.get(0))?;
            let rows = file::open(folder, &store, head)?;
            let cursor = file::progress(&rows)?.cursor;
            Ok((log, rows, cursor))
        };
        let (log, rows, cursor) = open().map_err(normalise)?;
        let names = Names::new(families);
        let cache = PageCache::new(Instant::now());
        Ok(Self { log, rows, cursor, names, skipped: 0, cache, _lock: lock })
    }

    /// The last frame of the log.
    pub(super) fn head(&self) -> rusqlite::Result<i64> {
        self.log.prepare_cached(FRAMES_HEAD)?.query_row([], |row| row.get(0))
    }

    /// The last frame that the rows show.
    pub(super) fn cursor(&self) -> i64 {
        self.cursor
    }

    /// How many frames could not be read.
    pub(super) fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Projects the next frames, as many as go into one transaction.
    pub(super) fn step(&mut self) -> rusqlite::Result<()> {
        let mut batch = BTreeMap::new();
        let Some(last) = self.read(&mut batch)? else { return Ok(()) };
        let written = self.write(batch, last);
        match written {
            Ok(()) => self.moved_to(last.place),
            Err(_) => self.forget_names(),
        }
        written
    }

    fn moved_to(&mut self, place: i64) {
        let frames = from_stored(place - self.cursor);
        self.cursor = place;
        self.release_after(frames);
    }

    /// Releases memory if little was written for a while.
    pub(super) fn release_if_quiet(&mut self) {
        self.release_after(0);
    }

    fn release_after(&mut self, frames: u64) {
        if self.cache.wrote(frames, Instant::now()) {
            cache::release(&self.rows);
            cache::release(&self.log);
        }
    }

    /// Numbers that were given in a transaction are gone with it.
    pub(super) fn forget_names(&mut self) {
        self.names.forget();
    }

    /// Projects everything up to a frame.
    pub(super) fn catch_up(
        &mut self,
        head: i64,
        progress: &mut dyn FnMut(u64, u64),
    ) -> rusqlite::Result<u64> {
        while self.cursor < head {
            let before = self.cursor;
            self.step()?;
            if self.cursor == before {
                break;
            }
            progress(from_stored(self.cursor.min(head)), from_stored(head));
        }
        Ok(from_stored(self.cursor))
    }

    /// Deletes everything and projects it again.
    pub(super) fn rebuild(
        &mut self,
        head: i64,
        progress: &mut dyn FnMut(u64, u64),
    ) -> rusqlite::Result<u64> {
        self.names.forget();
        let tx = self.rows.transaction()?;
        tx.execute_batch(queries::CLEAR)?;
        tx.commit()?;
        self.cursor = 0;
        progress(0, from_stored(head));
        self.catch_up(head, progress)
    }

    /// Deletes one execution's rows and projects them again, up to the frame that all rows have
    /// reached.
    pub(super) fn reproject(&mut self, execution: ExecutionNo) -> rusqlite::Result<()> {
        let ExecutionNo(execution) = execution;
        let mut changes = Changes::default();
        {
            let mut select = self.log.prepare_cached(FRAMES_SHOWN)?;
            let mut frames = select.query([execution, self.cursor])?;
            while let Some(row) = frames.next()? {
                let (first_seq, at) = (from_stored(row.get(0)?), Timestamp(row.get(1)?));
                let events = decode(row.get_ref(3)?.as_blob()?, row.get(2)?);
                for (seq, event) in (first_seq..).zip(events.into_iter().flatten()) {
                    changes.apply(Stamp { seq, at }, event);
                }
            }
        }
        let written = self.write_anew(execution, changes);
        if written.is_err() {
            self.names.forget();
        }
        written
    }

    fn write_anew(&mut self, execution: i64, changes: Changes) -> rusqlite::Result<()> {
        let tx = self.rows.transaction()?;
        for sql in [
            queries::EXECUTION_FORGET,
            queries::INPUTS_FORGET,
            queries::NODES_FORGET,
            queries::WAITS_FORGET,
            queries::VARIABLES_FORGET,
        ] {
            tx.prepare_cached(sql)?.execute([execution])?;
        }
        let batch = BTreeMap::from([(execution, Touched { changes, row: None })]);
        Rows { tx: &tx, log: &self.log, names: &mut self.names }.write(batch)?;
        tx.commit()
    }

    /// Empties the WAL at a clean end.
    pub(super) fn close(&self) {
        if let Err(error) = checkpoint(&self.rows) {
            tracing::debug!(%error, "the projections were not closed cleanly");
        }
    }

    /// Folds the next frames; returns the last one, if there is any.
    fn read(&mut self, batch: &mut BTreeMap<i64, Touched>) -> rusqlite::Result<Option<LastRead>> {
        let mut last = None;
        let mut bytes = 0;
        let mut tail = self.log.prepare_cached(FRAMES_TAIL)?;
        let mut frames = tail.query([self.cursor, FRAMES_MAX])?;
        while bytes < BYTES_MAX
            && let Some(row) = frames.next()?
        {
            let execution: i64 = row.get(1)?;
            let first_seq = from_stored(row.get(2)?);
            let at = Timestamp(row.get(3)?);
            last = Some(LastRead { place: row.get(0)?, at });
            let body = row.get_ref(5)?.as_blob()?;
            bytes += body.len();
            let events = match decode(body, row.get(4)?) {
                Ok(events) => events,
                Err(error) => {
                    self.skipped += 1;
                    tracing::warn!(execution, seq = first_seq, %error, "frame left out of the projections");
                    continue;
                }
            };
            let touched = match batch.entry(execution) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => entry.insert(touch(&self.rows, execution, first_seq)?),
            };
            let at = Timestamp(row.get(6)?);
            for (seq, event) in (first_seq..).zip(events) {
                touched.changes.apply(Stamp { seq, at }, event);
            }
            // A commit that waits for this processor goes first: lists can wait, callers cannot.
            std::thread::yield_now();
        }
        Ok(last)
    }

    fn write(&mut self, batch: BTreeMap<i64, Touched>, last: LastRead) -> rusqlite::Result<()> {
        let tx = self.rows.transaction()?;
        Rows { tx: &tx, log: &self.log, names: &mut self.names }.write(batch)?;
        tx.prepare_cached(queries::CURSOR_ADVANCE)?.execute([last.place, last.at.0])?;
        tx.commit()
    }
}

/// The events of a frame, if its bytes are those that were written.
pub(super) fn decode(body: &[u8], checksum: i64) -> Result<Vec<Event>, frame::BadFrame> {
    match is_intact(body, checksum) {
        true => frame::decode(body),
        false => Err(frame::BadFrame("its checksum does not match".to_owned())),
    }
}

/// The row to continue from.
fn touch(rows: &Connection, execution: i64, first_seq: u64) -> rusqlite::Result<Touched> {
    let new = Touched { changes: Changes::default(), row: None };
    if first_seq == 1 {
        return Ok(new);
    }
    let mut select = rows.prepare_cached(&queries::EXECUTION_VIEW)?;
    let known = select.query_row([execution], |row| {
        let changes = Changes::resume(cells::read(row, &VIEW)?);
        let created_at = Timestamp(row.get(VIEW.len() + 1)?);
        let definition = row.get(VIEW.len() + 3)?;
        Ok(Touched { changes, row: Some(ConstantColumns { definition, created_at }) })
    });
    Ok(known.optional()?.unwrap_or(new))
}
