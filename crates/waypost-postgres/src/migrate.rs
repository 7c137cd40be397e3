//! The layouts of the database. Migrations go forward only, are applied when a store is opened, each in
//! a transaction of its own, and are never edited once released.
//!
//! Any number of instances may start at once: one of them applies, the others wait for it.

use waypost_ports::migration::{Layout, Migration, Migrations};
use waypost_ports::store::StoreError;

use crate::connection::{Connection, Home, Role};
use crate::error::Result;
use crate::options::Options;
use crate::queries::sql;
use crate::store;
use crate::text::get;
use crate::waiting::wait;

/// Every layout of this build.
const KNOWN: &[Migration] = &[
    Migration::new(1, "log", include_str!("../migrations/0001_log.sql")),
    Migration::new(2, "projections", include_str!("../migrations/0002_projections.sql")),
    Migration::new(3, "current", include_str!("../migrations/0003_current.sql")),
    Migration::new(4, "crashes", include_str!("../migrations/0004_crashes.sql")),
    Migration::new(5, "names", include_str!("../migrations/0005_names.sql")),
    Migration::new(6, "sweeper", include_str!("../migrations/0006_sweeper.sql")),
    Migration::new(7, "true rows", include_str!("../migrations/0007_true_rows.sql")),
    Migration::new(8, "node ends", include_str!("../migrations/0008_node_ends.sql")),
    Migration::new(9, "blobs", include_str!("../migrations/0009_blobs.sql")).additive(),
    Migration::new(10, "progress", include_str!("../migrations/0010_progress.sql")).additive(),
    Migration::new(11, "outbox", include_str!("../migrations/0011_outbox.sql")).additive(),
    Migration::new(12, "waits", include_str!("../migrations/0012_waits.sql")).additive(),
    Migration::new(13, "breakers", include_str!("../migrations/0013_breakers.sql")).additive(),
    Migration::new(14, "topics", include_str!("../migrations/0014_topics.sql")).additive(),
    Migration::new(15, "notifications", include_str!("../migrations/0015_notifications.sql"))
        .additive(),
    Migration::new(16, "approval links", include_str!("../migrations/0016_approval_links.sql"))
        .additive(),
    Migration::new(17, "trees", include_str!("../migrations/0017_trees.sql")).additive(),
    Migration::new(18, "awaited", include_str!("../migrations/0018_awaited.sql")).additive(),
    Migration::new(19, "turns", include_str!("../migrations/0019_turns.sql")).additive(),
    Migration::new(20, "tree use", include_str!("../migrations/0020_tree_use.sql")).additive(),
    Migration::new(21, "publisher", include_str!("../migrations/0021_publisher.sql")).additive(),
    Migration::new(22, "triggers", include_str!("../migrations/0022_triggers.sql")).additive(),
    Migration::new(23, "fired", include_str!("../migrations/0023_fired.sql")).additive(),
    Migration::new(24, "claimers", include_str!("../migrations/0024_claimers.sql")).additive(),
    Migration::new(25, "awaited counts", include_str!("../migrations/0025_awaited_counts.sql"))
        .additive(),
    Migration::new(26, "throttles", include_str!("../migrations/0026_throttles.sql")).additive(),
    Migration::new(27, "started", include_str!("../migrations/0027_started.sql")).additive(),
];

/// The layout of a database, without changing it.
pub fn migrations(url: &str, options: &Options) -> Result<Migrations, StoreError> {
    let (threads, home) = store::prepare(url, options)?;
    let layout = wait(threads.handle(), async {
        let mut db = Connection::open(&home, Role::Migration).await?;
        layout(&mut db).await
    })?;
    Ok(Migrations::of(KNOWN, layout.current))
}

/// Migrates a database to the newest layout; returns the applied migrations. Opening a store does
/// so, too.
pub fn migrate(url: &str, options: &Options) -> Result<Vec<Migration>, StoreError> {
    let (threads, home) = store::prepare(url, options)?;
    wait(threads.handle(), apply(&home))
}

pub(crate) async fn apply(home: &Home) -> Result<Vec<Migration>, StoreError> {
    let mut db = Connection::open(home, Role::Migration).await?;
    db.query(sql!("migration_lock"), &[]).await?;
    let before = layout(&mut db).await?;
    Migrations::refuse_newer(KNOWN, before)?;
    let pending = Migrations::of(KNOWN, before.current).pending;
    for next in &pending {
        apply_one(&mut db, home, next).await?;
        tracing::info!(layout = next.version, name = next.name, "store migrated");
    }
    db.execute(sql!("place_base_raise"), &[]).await?;
    Ok(pending)
}

/// A migration and the note that it was applied are one transaction.
async fn apply_one(db: &mut Connection, home: &Home, migration: &Migration) -> Result<()> {
    db.begin().await?;
    // Created only if it is missing: a user without the right to create schemas can continue.
    let exists = db.query_one(sql!("schema_exists"), &[]).await?;
    if !get::<bool>(&exists, 0)? {
        let create = sql!("schema_create").replace("{schema}", &home.schema);
        db.run_all(&create).await?;
    }
    db.run_all(sql!("migrations_create")).await?;
    db.run_all(migration.sql).await?;
    db.execute(sql!("migration_insert"), &[&migration.recorded(), &migration.name]).await?;
    db.commit().await
}

async fn layout(db: &mut Connection) -> Result<Layout> {
    let exist = db.query_one(sql!("migrations_exist"), &[]).await?;
    if !get::<bool>(&exist, 0)? {
        return Ok(Layout::default());
    }
    let row = db.query_one(sql!("migration_current"), &[]).await?;
    let (current, required): (i32, i32) = (get(&row, 0)?, get(&row, 1)?);
    let version = |version: i32| u32::try_from(version).unwrap_or(0);
    Ok(Layout { current: version(current), required: version(required) })
}
