//! Cells as SQLite has them: parameters of a statement, and columns of its rows.

use std::borrow::Cow;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Row, ToSql};
use waypost_core::projection::columns::{Cell, Column, ColumnKind};

/// A cell as a parameter.
pub(super) struct Param<'a>(pub(super) Cell<'a>);

impl ToSql for Param<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match &self.0 {
            Cell::Null => ValueRef::Null,
            Cell::Number(number) => ValueRef::Integer(*number),
            Cell::Flag(flag) => ValueRef::Integer((*flag).into()),
            Cell::Text(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}

/// The cell in a row's column.
pub(super) fn cell<'a>(
    row: &'a Row<'_>,
    at: usize,
    kind: ColumnKind,
) -> rusqlite::Result<Cell<'a>> {
    let value = row.get_ref(at)?;
    Ok(match (value, kind) {
        (ValueRef::Null, _) => Cell::Null,
        (_, ColumnKind::Flag) => Cell::Flag(value.as_i64()? != 0),
        (_, ColumnKind::Number | ColumnKind::Time | ColumnKind::Code) => {
            Cell::Number(value.as_i64()?)
        }
        (_, ColumnKind::Text | ColumnKind::Path) => Cell::Text(Cow::Borrowed(value.as_str()?)),
    })
}

/// Reads back the columns with which a row begins.
pub(super) fn read<T: Default>(row: &Row<'_>, columns: &[Column<T>]) -> rusqlite::Result<T> {
    let mut read = T::default();
    for (at, column) in columns.iter().enumerate() {
        if !column.set(&mut read, cell(row, at, column.kind)?) {
            let kind = row.get_ref(at)?.data_type();
            return Err(rusqlite::Error::InvalidColumnType(at, column.name.to_owned(), kind));
        }
    }
    Ok(read)
}
