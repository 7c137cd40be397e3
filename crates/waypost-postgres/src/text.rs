//! Values on their way into rows and back: text as bytes, counts as they fit, checksums.

use std::sync::Arc;

use tokio_postgres::Row;
use tokio_postgres::types::FromSql;
use waypost_core::time::Timestamp;

use crate::error::{DbError, Result};

pub(crate) fn get<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Result<T> {
    row.try_get(column).map_err(|error| DbError::Corrupt(error.to_string()))
}

/// Text that was stored as bytes.
pub(crate) fn text(row: &Row, column: usize) -> Result<Arc<str>> {
    read_text(get(row, column)?)
}

/// As `text`, for a column that may be NULL.
pub(crate) fn text_or_none(row: &Row, column: usize) -> Result<Option<Arc<str>>> {
    get::<Option<&[u8]>>(row, column)?.map(read_text).transpose()
}

pub(crate) fn read_text(bytes: &[u8]) -> Result<Arc<str>> {
    let text = std::str::from_utf8(bytes);
    text.map(Into::into).map_err(|error| DbError::Corrupt(format!("a text is not UTF-8: {error}")))
}

/// A count or seq, which is never negative.
pub(crate) fn count(row: &Row, column: usize) -> Result<u64> {
    Ok(from_stored(get(row, column)?))
}

/// A time that may be missing.
pub(crate) fn time(row: &Row, column: usize) -> Result<Option<Timestamp>> {
    Ok(get::<Option<i64>>(row, column)?.map(Timestamp))
}

/// A whole number that is stored in a wider column than it needs.
pub(crate) fn narrow<T: TryFrom<i64>>(row: &Row, column: usize) -> Result<T> {
    let wide: i64 = get(row, column)?;
    T::try_from(wide).map_err(|_| DbError::Corrupt(format!("{wide} is out of range")))
}

/// Bytes of a fixed length.
pub(crate) fn array<const N: usize>(row: &Row, column: usize) -> Result<[u8; N]> {
    let bytes: &[u8] = get(row, column)?;
    let expected = || DbError::Corrupt(format!("{} bytes instead of {N}", bytes.len()));
    bytes.try_into().map_err(|_| expected())
}

/// A count or seq as it was stored; these are never negative.
pub(crate) fn from_stored(value: i64) -> u64 {
    u64::try_from(value).unwrap_or_default()
}

/// A count or seq as it is stored. A value too large for PostgreSQL is rejected as data.
pub(crate) fn to_stored(value: u64) -> Result<i64> {
    i64::try_from(value).map_err(|_| DbError::Data(format!("{value} is too large to be stored")))
}

pub(crate) fn limit(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

/// One more row than asked for: it shows whether there is another page.
pub(crate) fn limit_and_one(rows: usize) -> i64 {
    limit(rows).saturating_add(1)
}

/// A checksum that is stored beside bytes to detect changes.
pub(crate) fn checksum(bytes: &[u8]) -> i64 {
    xxhash_rust::xxh3::xxh3_64(bytes).cast_signed()
}

/// Do the bytes match their checksum?
pub(crate) fn is_intact(bytes: &[u8], stored: i64) -> bool {
    checksum(bytes) == stored
}
