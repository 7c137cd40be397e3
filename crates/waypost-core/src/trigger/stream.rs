//! Triggers that fire with the entries of a stream or the rows of a table: where these are, and what makes
//! reading them safe.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::expr::Expression;
use crate::limits::SOURCE_NAME_CHARS_MAX;
use crate::time::Millis;

/// Fires with the entries of a stream or the rows of a table.
#[derive(Debug)]
pub struct StreamTrigger {
    pub source: StreamSource,
    /// How often the source is read where it has nothing new.
    pub every: Millis,
    /// What identifies an entry, which it sees as `item`; by default its place in the source.
    pub key: Option<Expression>,
    /// Where it begins.
    pub from: StreamStart,
}

/// What is read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StreamSource {
    /// A stream of Redis.
    Redis {
        /// The name of the source in the settings.
        source: Arc<str>,
        stream: Arc<str>,
    },
    /// A table of PostgreSQL.
    Postgres {
        /// The name of the source in the settings.
        source: Arc<str>,
        table: TableName,
        /// The column that identifies a row.
        key: Arc<str>,
        safety: TableSafety,
    },
}

/// A table and its schema, spelled as the database spells them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableName {
    pub schema: Arc<str>,
    pub table: Arc<str>,
}

/// What keeps rows from being passed over whose transactions commit late.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TableSafety {
    /// A row is marked when it has fired; rows without the mark are read.
    Mark {
        mark: RowMark,
        /// The column that rows are read in the order of; by default the key.
        order: Option<Arc<str>>,
    },
    /// Rows are read in the order of the transactions that wrote them, up to the oldest one that has not
    /// ended.
    Xid {
        /// The column of type `xid8`.
        column: Arc<str>,
    },
}

/// How a row is marked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RowMark {
    /// It is deleted.
    Delete,
    /// A column of it is set: to true, or to the time.
    Column(Arc<str>),
}

/// Where a stream begins.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum StreamStart {
    /// With what is added after the first read.
    #[default]
    Now,
    /// With the oldest entry that is there.
    Beginning,
    /// After the entry at this place.
    After(Arc<str>),
}

impl StreamSource {
    /// Can a source of the settings be called so?
    pub fn is_name(text: &str) -> bool {
        text.len() <= SOURCE_NAME_CHARS_MAX
            && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    }

    /// The name of the source in the settings.
    pub fn name(&self) -> &Arc<str> {
        match self {
            Self::Redis { source, .. } | Self::Postgres { source, .. } => source,
        }
    }

    /// What identifies it: another one has other places.
    pub fn identity(&self) -> Value {
        match self {
            Self::Redis { source, stream } => json!(["redis", source, stream]),
            Self::Postgres { source, table, key, safety } => {
                let safety = match safety {
                    TableSafety::Mark { .. } => json!(["mark"]),
                    TableSafety::Xid { column } => json!(["xid", column]),
                };
                json!(["postgres", source, table.schema, table.table, key, safety])
            }
        }
    }
}

impl StreamStart {
    /// As definitions and people write it.
    pub fn parse(text: &str) -> Self {
        match text {
            "now" => Self::Now,
            "beginning" => Self::Beginning,
            place => Self::After(place.into()),
        }
    }

    /// As definitions write it.
    pub fn name(&self) -> &str {
        match self {
            Self::Now => "now",
            Self::Beginning => "beginning",
            Self::After(place) => place,
        }
    }

    /// Is it a place of a stream of Redis, or none in particular?
    pub fn is_for_redis(&self) -> bool {
        match self {
            Self::Now | Self::Beginning => true,
            Self::After(place) => entry_id(place).is_some(),
        }
    }
}

/// The two numbers of the id of an entry of Redis: `1700000000000-0`.
pub fn entry_id(text: &str) -> Option<(u64, u64)> {
    let (time, count) = text.split_once('-')?;
    let number = |text: &str| {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
        if is_plain { text.parse().ok() } else { None }
    };
    Some((number(time)?, number(count)?))
}

impl TableName {
    /// The longest name that PostgreSQL keeps, in bytes.
    const BYTES_MAX: usize = 63;

    /// `schema.table`, or a table of the schema `public`.
    pub fn parse(text: &str) -> Option<Self> {
        let (schema, table) = text.split_once('.').unwrap_or(("public", text));
        let fits = Self::is_name(schema) && Self::is_name(table) && !table.contains('.');
        fits.then(|| Self { schema: schema.into(), table: table.into() })
    }

    /// Can this be the name of a schema, a table or a column?
    pub fn is_name(text: &str) -> bool {
        (1..=Self::BYTES_MAX).contains(&text.len()) && !text.contains('\0')
    }
}

impl std::fmt::Display for TableName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.schema, self.table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_id_of_another_shape_is_refused() {
        assert_eq!(entry_id("1700000000000-12"), Some((1_700_000_000_000, 12)));
        for text in ["", "1", "-", "1-", "-1", "+1-0", "1-0-0", "a-b", "99999999999999999999-0"] {
            assert_eq!(entry_id(text), None, "{text:?}");
        }
    }

    #[test]
    fn table_name_has_a_schema_and_one_table() {
        let name = TableName::parse("orders").unwrap();
        assert_eq!((&*name.schema, &*name.table), ("public", "orders"));
        assert_eq!(TableName::parse("Sales.Or\"ders").unwrap().to_string(), "Sales.Or\"ders");
        for text in ["", ".", "a.", ".b", "a.b.c", "a\0", &"x".repeat(64)] {
            assert_eq!(TableName::parse(text), None, "{text:?}");
        }
    }
}
