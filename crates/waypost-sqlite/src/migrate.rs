//! The layouts of the log's file. Migrations go forward only, are applied when a store is opened,
//! each in a transaction of its own, and are never edited once released.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};
use waypost_ports::clock::{Clock, SystemClock};
use waypost_ports::migration::{Layout, Migration, Migrations};
use waypost_ports::store::StoreError;

use crate::connection::{self, normalise};
use crate::lock::{self, FolderLock};
use crate::options::Options;

/// Every layout of this build.
const KNOWN: &[Migration] = &[
    Migration::new(1, "log", include_str!("../migrations/0001_log.sql")),
    Migration::new(2, "access", include_str!("../migrations/0002_access.sql")),
    Migration::new(3, "slots", include_str!("../migrations/0003_slots.sql")),
    Migration::new(4, "current", include_str!("../migrations/0004_current.sql")),
    Migration::new(5, "crashes", include_str!("../migrations/0005_crashes.sql")),
    Migration::new(6, "names", include_str!("../migrations/0006_names.sql")),
    Migration::new(7, "blob refs", include_str!("../migrations/0007_blob_refs.sql")).additive(),
    Migration::new(8, "outbox", include_str!("../migrations/0008_outbox.sql")).additive(),
    Migration::new(9, "breakers", include_str!("../migrations/0009_breakers.sql")).additive(),
    Migration::new(10, "topics", include_str!("../migrations/0010_topics.sql")).additive(),
    Migration::new(11, "key", include_str!("../migrations/0011_key.sql")).additive(),
    Migration::new(12, "approval links", include_str!("../migrations/0012_approval_links.sql"))
        .additive(),
    Migration::new(13, "trees", include_str!("../migrations/0013_trees.sql")).additive(),
    Migration::new(14, "awaited", include_str!("../migrations/0014_awaited.sql")).additive(),
    Migration::new(15, "turns", include_str!("../migrations/0015_turns.sql")).additive(),
    Migration::new(16, "tree use", include_str!("../migrations/0016_tree_use.sql")).additive(),
    Migration::new(17, "publisher", include_str!("../migrations/0017_publisher.sql")).additive(),
    Migration::new(18, "triggers", include_str!("../migrations/0018_triggers.sql")).additive(),
    Migration::new(19, "claimers", include_str!("../migrations/0019_claimers.sql")).additive(),
    Migration::new(20, "awaited counts", include_str!("../migrations/0020_awaited_counts.sql"))
        .additive(),
    Migration::new(21, "throttles", include_str!("../migrations/0021_throttles.sql")).additive(),
    Migration::new(22, "started", include_str!("../migrations/0022_started.sql")).additive(),
];

/// The layout of a folder, without changing it.
pub fn migrations(folder: &Path) -> Result<Migrations, StoreError> {
    let path = folder.join(crate::store::LOG_FILE);
    if !path.exists() {
        return Ok(Migrations::of(KNOWN, 0));
    }
    let connection = connection::Readers::new(path).open().map_err(normalise)?;
    Ok(Migrations::of(KNOWN, layout(&connection).map_err(normalise)?.current))
}

/// Migrates a folder to the newest layout; returns the applied migrations. Opening a store does so,
/// too.
pub fn migrate(folder: &Path) -> Result<Vec<Migration>, StoreError> {
    lock::create_folder(folder)?;
    let _lock = FolderLock::engine(folder, SystemClock.now(), None)?;
    let path = folder.join(crate::store::LOG_FILE);
    let mut connection = connection::open_log(&path, &Options::engine())?;
    apply(&mut connection, KNOWN)
}

/// Applies missing migrations. Safe against another process that does so, and against a kill at any
/// point: a migration and its row in `migrations` are one transaction.
pub(crate) fn apply_known(connection: &mut Connection) -> Result<(), StoreError> {
    apply(connection, KNOWN).map(drop)
}

/// Would [`apply_known`] change anything?
pub(crate) fn is_current(connection: &Connection) -> Result<bool, StoreError> {
    let newest = KNOWN.last().map_or(0, |migration| migration.version);
    let Layout { current, required } = layout(connection).map_err(normalise)?;
    Ok(current >= newest && required <= newest)
}

/// A guest changes the layout only where no engine can be surprised by it.
pub(crate) fn update_layout(
    connection: &mut Connection,
    folder: &Path,
    engine: Option<&FolderLock>,
) -> Result<(), StoreError> {
    if engine.is_some() {
        return apply_known(connection);
    }
    if is_current(connection)? {
        return Ok(());
    }
    let Some(_lock) = FolderLock::engine_if_free(folder)? else {
        return Err(StoreError::Refused(
            "the store has another layout and its engine is running: use the same version".into(),
        ));
    };
    apply_known(connection)
}

fn apply(connection: &mut Connection, known: &[Migration]) -> Result<Vec<Migration>, StoreError> {
    let mut applied = Vec::new();
    loop {
        let layout = layout(connection).map_err(normalise)?;
        Migrations::refuse_newer(known, layout)?;
        let next = known.iter().find(|migration| migration.version == layout.current + 1);
        let Some(next) = next else {
            return Ok(applied);
        };
        if apply_one(connection, next).map_err(normalise)? {
            tracing::info!(layout = next.version, name = next.name, "store migrated");
            applied.push(*next);
        }
    }
}

/// Returns false if another process has applied it meanwhile.
fn apply_one(connection: &mut Connection, migration: &Migration) -> rusqlite::Result<bool> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if layout(&tx)?.current + 1 != migration.version {
        return Ok(false);
    }
    tx.execute_batch(
        "CREATE TABLE IF NOT EXISTS migrations (
             version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at TEXT NOT NULL
         ) STRICT",
    )?;
    tx.execute_batch(migration.sql)?;
    tx.execute(
        "INSERT INTO migrations (version, name, applied_at) VALUES (?1, ?2, datetime())",
        (migration.recorded(), migration.name),
    )?;
    tx.commit()?;
    Ok(true)
}

fn layout(connection: &Connection) -> rusqlite::Result<Layout> {
    if !connection.table_exists(None, "migrations")? {
        return Ok(Layout::default());
    }
    let select =
        "SELECT coalesce(max(abs(version)), 0), max(coalesce(max(version), 0), 0) FROM migrations";
    connection
        .query_row(select, [], |row| Ok(Layout { current: row.get(0)?, required: row.get(1)? }))
}

#[cfg(test)]
mod tests;
