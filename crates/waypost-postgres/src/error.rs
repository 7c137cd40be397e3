//! Errors of the database, named for what the caller does about them.

use tokio_postgres::error::SqlState;
use waypost_ports::store::StoreError;

pub(crate) type Result<T, E = DbError> = std::result::Result<T, E>;

/// Why a statement failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) enum DbError {
    /// The data of a row is rejected; others may be inserted. The connection stays usable.
    Data(String),
    /// An execution that was to begin with a frame could not: its number or name is taken.
    #[error("the number or name of an execution is taken")]
    Unborn,
    /// Two transactions conflicted; a repeat of the statement may succeed.
    Conflict(String),
    /// Out of reach, too slow, or going down.
    Unavailable(String),
    /// No space is left.
    Full(String),
    /// A standby, or a database that was set so.
    ReadOnly(String),
    /// What is stored is not what was written.
    Corrupt(String),
    /// It is rejected, however often it is repeated.
    Refused(String),
}

impl DbError {
    /// May the connection be used again? Outside of a transaction, a statement that was refused for
    /// its data leaves nothing behind.
    pub(crate) fn is_clean(&self) -> bool {
        matches!(self, Self::Data(_) | Self::Corrupt(_))
    }
}

impl From<tokio_postgres::Error> for DbError {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(state) = error.code() else {
            return Self::Unavailable(with_cause(&error));
        };
        let message = error
            .as_db_error()
            .map_or_else(|| error.to_string(), |db| format!("{} ({})", db.message(), state.code()));
        if *state == SqlState::READ_ONLY_SQL_TRANSACTION {
            return Self::ReadOnly(message);
        }
        match state.code().get(..2).unwrap_or_default() {
            "22" | "23" | "54" => Self::Data(message),
            "40" => Self::Conflict(message),
            // Disk, memory, a limit of its settings. Connections come and go by themselves.
            "53" if *state != SqlState::TOO_MANY_CONNECTIONS => Self::Full(message),
            // Rights, names and syntax: a person has to do something.
            "28" | "3D" | "3F" | "42" | "0A" => Self::Refused(message),
            "XX" if state.code() != "XX000" => Self::Corrupt(message),
            _ => Self::Unavailable(message),
        }
    }
}

/// How often something is done again that lost against another one's locks.
const CONFLICTS_MAX: u32 = 10;

/// Does something again where it and something else have come to wait for each other, and the database has
/// ended it. Must be for something that can be done twice.
pub(crate) fn in_spite_of_others<T>(mut action: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 0..CONFLICTS_MAX {
        match action() {
            Err(DbError::Conflict(reason)) => tracing::debug!(reason, "once more"),
            result => return result,
        }
    }
    action()
}

/// The driver's errors are complete only together with their causes.
fn with_cause(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        let more = inner.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = inner.source();
    }
    text
}

impl From<DbError> for StoreError {
    fn from(error: DbError) -> Self {
        match error {
            DbError::Data(reason) | DbError::Refused(reason) => Self::Refused(reason),
            DbError::Conflict(reason) | DbError::Unavailable(reason) => Self::Unavailable(reason),
            // Answered by the append.
            DbError::Unborn => Self::Unavailable(error.to_string()),
            DbError::Full(reason) => Self::Full(reason),
            DbError::ReadOnly(reason) => Self::ReadOnly(reason),
            DbError::Corrupt(reason) => Self::Corrupt(reason),
        }
    }
}
