//! Connections: the pragmas that durability hangs on, a few readers, and errors made plain.

use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::config::DbConfig;
use rusqlite::types::FromSql;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Params, Row};
use waypost_ports::store::StoreError;

use crate::cache;
use crate::options::Options;

/// The first SQLite without the bug that could lose commits when a WAL was reset.
const SQLITE_VERSION_MIN: i32 = 3_051_003;

/// How long to wait for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Pages in the log's WAL before they are copied back (`checkpoint`): 4 MiB of 8 KiB. Appends wait for the
/// disk during a copy, so that many small copies delay a caller less than a few large ones: of small
/// executions beside a map, the 99th of 100 took 8 ms instead of 13 with 4,000 pages. Neither made batches
/// faster.
pub(crate) const CHECKPOINT_PAGES: u32 = 500;

/// The same for the projections, which no caller's commit waits for. Fewer copy the hot pages of the
/// indexes over and over.
const PROJECTION_PAGES: u32 = 4_000;

/// KiB of pages that a connection which writes may keep in memory, until it is quiet (`cache`).
const CACHE_KIB: i32 = 16_000;

/// Prepared statements in the cache; more than there are in `queries`.
const STATEMENTS: usize = 220;

/// Idle readers that stay open. More may be in use at a time.
const READERS_IDLE: usize = 4;

/// Opens the log's file for writing, with every commit synced.
pub(crate) fn open_log(path: &Path, options: &Options) -> Result<Connection, StoreError> {
    let connection = open(path, options.page_bytes).map_err(normalise)?;
    tune_writer(&connection, "FULL", 0).map_err(normalise)?;
    if let Some(pages) = options.pages_max {
        connection.pragma_update(None, "max_page_count", pages).map_err(normalise)?;
    }
    Ok(connection)
}

/// Opens the projections' file for writing. Commits are consistent but not synced: rows lost in a
/// power cut are derived again.
pub(crate) fn open_projections(path: &Path) -> rusqlite::Result<Connection> {
    let connection = open(path, Options::guest().page_bytes)?;
    tune_writer(&connection, "NORMAL", PROJECTION_PAGES)?;
    Ok(connection)
}

/// Fails when the SQLite in this binary can lose commits.
pub(crate) fn check_version() -> Result<(), StoreError> {
    if rusqlite::version_number() >= SQLITE_VERSION_MIN {
        return Ok(());
    }
    let version = rusqlite::version();
    Err(StoreError::Refused(format!("SQLite {version} can lose commits; 3.51.3 is needed")))
}

/// Creates the file for its owner alone, if there is none: SQLite would let everyone read it, and
/// its other files copy its mode. If that fails, SQLite reports why.
fn make_private(path: &Path) {
    use std::os::unix::fs::OpenOptionsExt;
    let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    drop(made);
}

fn open(path: &Path, page_bytes: u32) -> rusqlite::Result<Connection> {
    make_private(path);
    let connection = connect(path, OpenFlags::SQLITE_OPEN_CREATE)?;
    connection.pragma_update(None, "page_size", page_bytes)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    Ok(connection)
}

fn connect(path: &Path, more: OpenFlags) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | more;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Without this SQLite plans a statement anew when a parameter changes, which costs more than
    // most of ours take to run.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(connection)
}

/// The WAL keeps its size for good (`journal_size_limit` -1): overwriting is cheaper to sync than
/// growing. SQLite checkpoints it at a commit that finds that many pages; never if that is 0: a
/// guest's commit must not be delayed by a checkpoint, and the engine has a thread for it
/// (`checkpoint`).
fn tune_writer(connection: &Connection, synchronous: &str, pages: u32) -> rusqlite::Result<()> {
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.pragma_update(None, "journal_size_limit", -1)?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    connection.pragma_update(None, "wal_autocheckpoint", pages)
}

/// A connection that copies the WAL back and does nothing else.
pub(crate) fn open_copier(path: &Path) -> rusqlite::Result<Connection> {
    let connection = connect(path, OpenFlags::empty())?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(connection)
}

/// Copies the pages that can be copied without waiting for a reader or writer.
pub(crate) fn copy_wal(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
}

/// Copies the WAL back and empties it, at a clean end.
pub(crate) fn checkpoint(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

/// Connections that only read. In WAL mode they neither block the writer nor wait for it.
pub(crate) struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    /// Readers of a file that exists by the time they are used.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, idle: Mutex::default() }
    }

    /// A connection that the caller keeps.
    pub(crate) fn open(&self) -> rusqlite::Result<Connection> {
        let connection = connect(&self.path, OpenFlags::empty())?;
        connection.pragma_update(None, "query_only", true)?;
        Ok(connection)
    }

    /// Reads from one state of the file.
    pub(crate) fn read<T>(
        &self,
        action: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let kept = self.idle.lock().pop();
        let connection = kept.map_or_else(|| self.open(), Ok).map_err(normalise)?;
        let result = connection.unchecked_transaction().and_then(|snapshot| action(&snapshot));
        let mut idle = self.idle.lock();
        if idle.len() < READERS_IDLE {
            idle.push(connection);
        }
        result.map_err(normalise)
    }

    /// Releases the page memory of idle readers.
    pub(crate) fn release(&self) {
        self.idle.lock().iter().for_each(cache::release);
    }

    /// Closes those that are not in use.
    pub(crate) fn close(&self) {
        self.idle.lock().clear();
    }
}

/// Runs a statement; returns how many rows it changed.
pub(crate) fn run(
    connection: &Connection,
    sql: &str,
    params: impl Params,
) -> rusqlite::Result<usize> {
    connection.prepare_cached(sql)?.execute(params)
}

/// Reads the first row of a query, if it has one.
pub(crate) fn first<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Option<T>> {
    connection.prepare_cached(sql)?.query_row(params, read).optional()
}

/// Reads the first column of a query that has a row.
pub(crate) fn value<T: FromSql>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
) -> rusqlite::Result<T> {
    connection.prepare_cached(sql)?.query_row(params, |row| row.get(0))
}

/// Reads all rows of a query.
pub(crate) fn all<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    connection.prepare_cached(sql)?.query_map(params, read)?.collect()
}

/// Is it the data of one row that the database refuses? Then others may go in.
pub(crate) fn is_about_data(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::ToSqlConversionFailure(_) => true,
        other => matches!(
            other.sqlite_error_code(),
            Some(
                ErrorCode::TooBig
                    | ErrorCode::ConstraintViolation
                    | ErrorCode::TypeMismatch
                    | ErrorCode::ParameterOutOfRange
            )
        ),
    }
}

/// Maps an error to the variant for what the caller does about it.
#[expect(clippy::needless_pass_by_value, reason = "made to stand alone in `map_err`")]
pub(crate) fn normalise(error: rusqlite::Error) -> StoreError {
    let message = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full(message),
        Some(ErrorCode::ReadOnly) => StoreError::ReadOnly(message),
        _ if is_corrupt(&error) => StoreError::Corrupt(message),
        _ => StoreError::Unavailable(message),
    }
}

/// Does the stored data differ from what was written?
pub(crate) fn is_corrupt(error: &rusqlite::Error) -> bool {
    let of_file = [ErrorCode::DatabaseCorrupt, ErrorCode::NotADatabase];
    error.sqlite_error_code().is_some_and(|code| of_file.contains(&code))
        || matches!(
            error,
            rusqlite::Error::FromSqlConversionFailure(..)
                | rusqlite::Error::IntegralValueOutOfRange(..)
                | rusqlite::Error::InvalidColumnType(..)
        )
}

/// A count or seq as SQLite stores it.
pub(crate) fn to_stored(value: u64) -> rusqlite::Result<i64> {
    i64::try_from(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

/// A count or seq as it was stored; these are never negative.
pub(crate) fn from_stored(value: i64) -> u64 {
    u64::try_from(value).unwrap_or_default()
}

/// One more row than asked for: it shows whether there is another page.
pub(crate) fn limit_and_one(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1)
}

/// A checksum that is stored beside bytes to detect changes.
pub(crate) fn checksum(bytes: &[u8]) -> i64 {
    xxhash_rust::xxh3::xxh3_64(bytes).cast_signed()
}

/// Do the bytes match their checksum?
pub(crate) fn is_intact(bytes: &[u8], stored: i64) -> bool {
    checksum(bytes) == stored
}
