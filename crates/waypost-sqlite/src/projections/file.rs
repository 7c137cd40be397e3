//! Making and recognising the projections' file.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, params};
use waypost_core::status::{NodeStatus, Status};
use waypost_core::time::Timestamp;
use waypost_ports::query::ProjectionLag;

use super::queries;
use crate::connection::{checksum, from_stored, open_projections};

/// The file, in its folder.
pub(super) const NAME: &str = "projections.db";

/// Raised when rows mean something else, although `schema.sql` is the same.
const MEANING: u8 = 7;

/// The number of this layout, which follows from `schema.sql` and [`MEANING`]. Files of another layout are
/// deleted.
fn layout() -> i32 {
    let bytes = checksum(format!("{MEANING} {}", queries::SCHEMA).as_bytes()).to_le_bytes();
    let [first, second, third, ..] = bytes;
    i32::from_le_bytes([first, second, third, 0])
}

/// Opens the projections of a store, made anew unless they are usable.
pub(super) fn open(folder: &Path, store: &[u8], head: i64) -> rusqlite::Result<Connection> {
    let path = folder.join(NAME);
    match open_usable(&path, store, head) {
        Ok(Some(connection)) => return Ok(connection),
        Ok(None) => {}
        Err(error) => tracing::warn!(%error, "the projections cannot be read; rebuilding them"),
    }
    for suffix in ["", "-wal", "-shm"] {
        // A missing file needs no removal; one that cannot be removed fails when it is opened.
        drop(std::fs::remove_file(folder.join(format!("{NAME}{suffix}"))));
    }
    create(&path, store)
}

/// How far the rows go.
#[derive(Clone, Copy, Default)]
pub(super) struct CursorRow {
    /// The last frame that they show.
    pub(super) cursor: i64,
    pub(super) shown_at: Option<Timestamp>,
}

impl CursorRow {
    /// How far that is behind a log that goes up to `head`.
    pub(super) fn lag(self, head: i64) -> ProjectionLag {
        ProjectionLag { frames: from_stored(head - self.cursor), as_of: self.shown_at }
    }
}

/// How far the rows go.
pub(super) fn progress(connection: &Connection) -> rusqlite::Result<CursorRow> {
    connection.prepare_cached(queries::META_LOAD)?.query_row([], |row| {
        let shown_at = row.get::<_, Option<i64>>(2)?.map(Timestamp);
        Ok(CursorRow { cursor: row.get(1)?, shown_at })
    })
}

/// Does the file have this layout? If not, the next writer creates it again.
pub(super) fn is_current(connection: &Connection) -> rusqlite::Result<bool> {
    let found: i32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    Ok(found == layout())
}

/// Opens the file if it has this layout and is derived from this store, and from no future of it: a
/// store that was restored from a backup continues differently.
fn open_usable(path: &Path, store: &[u8], head: i64) -> rusqlite::Result<Option<Connection>> {
    if !path.exists() {
        return Ok(None);
    }
    let connection = open_projections(path)?;
    if !is_current(&connection)? {
        return Ok(None);
    }
    let meta = connection.query_row(queries::META_LOAD, [], |row| {
        Ok(row.get_ref(0)?.as_blob()? == store && row.get::<_, i64>(1)? <= head)
    });
    Ok(meta.optional()?.filter(|usable| *usable).map(|_| connection))
}

fn create(path: &Path, store: &[u8]) -> rusqlite::Result<Connection> {
    let mut connection = open_projections(path)?;
    let tx = connection.transaction()?;
    tx.execute_batch(queries::SCHEMA)?;
    for status in Status::ALL {
        tx.execute(queries::STATUS_ADD, params![status as u8, status.name()])?;
    }
    for status in NodeStatus::ALL {
        tx.execute(queries::NODE_STATUS_ADD, params![status as u8, status.name()])?;
    }
    tx.execute(queries::META_CREATE, [store])?;
    tx.pragma_update(None, "user_version", layout())?;
    tx.commit()?;
    Ok(connection)
}
