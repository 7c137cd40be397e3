//! The backend of executions: a data folder of this machine, or a database that many machines
//! share. The settings choose one; both have the same operations.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use waypost_blobs::{FolderBlobs, S3Blobs, S3Options};
use waypost_ports::blobs::Blobs;
use waypost_ports::clock::SystemClock;
use waypost_ports::inspect::InspectTriggers;
use waypost_ports::mirror::Mirror;
use waypost_ports::nudge::Nudges;
use waypost_ports::query::Query as _;
use waypost_ports::store::{Store, StoreError};
use waypost_ports::tasks::Tasks;
use waypost_postgres::{PostgresBlobs, PostgresStore};
use waypost_sqlite::SqliteStore;

use crate::settings::{BlobPlace, Database, Settings};
use crate::wiring;

/// A store as commands see it.
pub trait Backend: waypost_server::server::Backend + InspectTriggers {
    /// The process that drives executions there, in words; `None` if there is none.
    fn engine(&self) -> Option<String>;

    /// Returns when the read tables show everything that is in the log now.
    fn wait_projected(&self) -> Result<(), StoreError>;

    /// Where tasks for remote workers wait, where several instances share the backend.
    fn tasks(self: Arc<Self>) -> Option<Arc<dyn Tasks>>;

    /// The key of links and of tokens for workers.
    fn cluster_key(&self) -> Result<[u8; 32], StoreError>;

    /// Blobs in the backend itself, where it has room for them.
    fn blobs(self: Arc<Self>) -> Option<Arc<dyn Blobs>>;

    /// How these instances nudge each other.
    fn nudges(&self) -> Option<Arc<dyn Nudges>>;

    /// Where to look for copies of parked executions, before they are read from the backend itself.
    fn use_mirror(&self, mirror: Arc<dyn Mirror>);
}

impl Backend for SqliteStore {
    fn engine(&self) -> Option<String> {
        self.engine_process()
    }

    fn wait_projected(&self) -> Result<(), StoreError> {
        Self::wait_projected(self)
    }

    fn tasks(self: Arc<Self>) -> Option<Arc<dyn Tasks>> {
        None
    }

    fn cluster_key(&self) -> Result<[u8; 32], StoreError> {
        Self::cluster_key(self)
    }

    fn blobs(self: Arc<Self>) -> Option<Arc<dyn Blobs>> {
        None
    }

    fn nudges(&self) -> Option<Arc<dyn Nudges>> {
        None
    }

    fn use_mirror(&self, _: Arc<dyn Mirror>) {}
}

impl Backend for PostgresStore {
    fn engine(&self) -> Option<String> {
        let alive = self.instances().ok()?.into_iter().filter(|row| row.alive).count();
        match alive {
            0 => None,
            1 => Some("one instance".to_owned()),
            more => Some(format!("{more} instances")),
        }
    }

    fn wait_projected(&self) -> Result<(), StoreError> {
        Self::wait_projected(self)
    }

    fn tasks(self: Arc<Self>) -> Option<Arc<dyn Tasks>> {
        Some(self)
    }

    fn cluster_key(&self) -> Result<[u8; 32], StoreError> {
        Tasks::cluster_key(self)
    }

    fn blobs(self: Arc<Self>) -> Option<Arc<dyn Blobs>> {
        Some(Arc::new(PostgresBlobs::new(self)))
    }

    fn nudges(&self) -> Option<Arc<dyn Nudges>> {
        Some(Arc::new(Self::nudges(self)))
    }

    fn use_mirror(&self, mirror: Arc<dyn Mirror>) {
        Self::use_mirror(self, mirror);
    }
}

/// Opens the configured backend for reading and for delivering mail, also while other processes
/// drive its executions.
pub fn open(settings: &Settings) -> Result<Arc<dyn Backend>> {
    match &settings.cluster.database {
        Some(database) => Ok(Arc::new(open_database(database)?)),
        None => Ok(Arc::new(wiring::open_store(&settings.data)?)),
    }
}

/// As `open`, to run executions in it. A folder has one such process; a database any number.
pub fn open_engine(settings: &Settings) -> Result<Arc<dyn Backend>> {
    match &settings.cluster.database {
        Some(database) => Ok(Arc::new(open_database(database)?)),
        None => Ok(Arc::new(wiring::open_engine_store(&settings.data)?)),
    }
}

/// Opens a database, and brings its layout up to date.
pub fn open_database(database: &Database) -> Result<PostgresStore> {
    PostgresStore::open(&database.url.0, wiring::database_options(database))
        .with_context(|| format!("the database {} cannot be opened", database.url))
}

/// The place of blobs in a data folder, unless the settings name another one.
pub fn folder_blobs(data: &Path) -> Arc<dyn Blobs> {
    Arc::new(FolderBlobs::new(data.join("blobs"), Arc::new(SystemClock)))
}

/// Opens the configured place of blobs.
pub fn open_blobs(backend: &Arc<dyn Backend>, settings: &Settings) -> Result<Arc<dyn Blobs>> {
    match &settings.blobs {
        BlobPlace::Folder(folder) => Ok(Arc::new(FolderBlobs::new(folder, Arc::new(SystemClock)))),
        BlobPlace::Postgres => Arc::clone(backend)
            .blobs()
            .context("blobs = \"postgres\" is for a cluster, which needs database_url as well"),
        BlobPlace::S3(s3) => {
            let options = S3Options {
                bucket: s3.bucket.clone(),
                prefix: s3.prefix.clone(),
                endpoint: s3.endpoint.clone(),
                region: s3.region.clone(),
                access_key: None,
            };
            let blobs = S3Blobs::open(&options, Arc::new(SystemClock))
                .with_context(|| format!("cannot use the bucket {}", s3.bucket))?;
            Ok(Arc::new(blobs))
        }
    }
}

/// Makes a backend where there is none yet.
pub fn create(settings: &Settings) -> Result<()> {
    if settings.cluster.database.is_some() || has_data(&settings.data) {
        return Ok(());
    }
    Ok(wiring::open_engine_store(&settings.data)?.close()?)
}

/// Its name for people.
pub fn name(settings: &Settings) -> String {
    match &settings.cluster.database {
        Some(database) => format!("database {}", database.url),
        None => format!("data folder {}", settings.data.display()),
    }
}

/// Is there anything in a folder?
fn has_data(folder: &Path) -> bool {
    folder.join("log.db").exists()
}

/// The store alone.
pub(crate) fn store(backend: &Arc<dyn Backend>) -> Arc<dyn Store> {
    Arc::clone(backend) as Arc<dyn Store>
}
