//! Making and recognising the projections' file.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, params};
use waypost_core::status::{NodeStatus, Status};

use super::queries;
use crate::connection::open_projections;

/// The file, in its folder.
pub(super) const NAME: &str = "projections.db";

/// Raised with every change of `schema.sql` or of what rows mean; files of another layout are thrown
/// away.
const LAYOUT: i64 = 1;

/// Opens the projections of a store, made anew unless they are usable.
pub(super) fn open(folder: &Path, store: &[u8], head: i64) -> rusqlite::Result<Connection> {
    let path = folder.join(NAME);
    match open_usable(&path, store, head) {
        Ok(Some(connection)) => return Ok(connection),
        Ok(None) => {}
        Err(error) => tracing::warn!(%error, "the projections cannot be read and are made again"),
    }
    for suffix in ["", "-wal", "-shm"] {
        // What is not there need not go; what cannot go shows when the file is opened.
        drop(std::fs::remove_file(folder.join(format!("{NAME}{suffix}"))));
    }
    create(&path, store)
}

/// The last frame that the rows show.
pub(super) fn cursor(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached(queries::META_LOAD)?.query_row([], |row| row.get(1))
}

/// Nothing unless the file is of this layout and was made from this store, and from no future of it:
/// a store that was restored from a backup goes on differently.
fn open_usable(path: &Path, store: &[u8], head: i64) -> rusqlite::Result<Option<Connection>> {
    if !path.exists() {
        return Ok(None);
    }
    let connection = open_projections(path)?;
    let layout: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if layout != LAYOUT {
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
    tx.pragma_update(None, "user_version", LAYOUT)?;
    tx.commit()?;
    Ok(connection)
}
