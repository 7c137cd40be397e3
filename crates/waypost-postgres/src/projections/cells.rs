//! Cells as PostgreSQL has them: arrays of a statement's parameters, and columns of its rows. Text is
//! stored as bytes.

use std::borrow::Cow;
use std::error::Error;

use bytes::BytesMut;
use tokio_postgres::Row;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use waypost_core::projection::columns::{Cell, Column, ColumnKind};

use crate::error::{DbError, Result};
use crate::text::get;

/// The cells of one column, as a parameter.
#[derive(Debug)]
pub(super) struct Array<'a> {
    kind: ColumnKind,
    cells: Vec<Cell<'a>>,
}

/// The cells of some rows, column by column.
pub(super) fn arrays<'a, T>(columns: &[Column<T>], rows: &[&'a T]) -> Vec<Array<'a>> {
    let array = |column: &Column<T>| Array {
        kind: column.kind,
        cells: rows.iter().map(|row| column.get(row)).collect(),
    };
    columns.iter().map(array).collect()
}

/// Parameters: first those that only this store has, then arrays.
pub(super) fn parameters<'a>(
    first: &[&'a (dyn ToSql + Sync)],
    arrays: &'a [Array<'a>],
) -> Vec<&'a (dyn ToSql + Sync)> {
    let arrays = arrays.iter().map(|array| -> &(dyn ToSql + Sync) { array });
    first.iter().copied().chain(arrays).collect()
}

/// The type of a column's elements.
pub(super) fn type_name(kind: ColumnKind) -> &'static str {
    match kind {
        ColumnKind::Number | ColumnKind::Time => "bigint",
        ColumnKind::Code => "smallint",
        ColumnKind::Flag => "boolean",
        ColumnKind::Text | ColumnKind::Path => "bytea",
    }
}

impl Array<'_> {
    fn numbers(&self) -> impl Iterator<Item = Option<i64>> + '_ {
        self.cells.iter().map(|cell| match cell {
            Cell::Number(number) => Some(*number),
            Cell::Null | Cell::Flag(_) | Cell::Text(_) => None,
        })
    }
}

impl ToSql for Array<'_> {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self.kind {
            ColumnKind::Number | ColumnKind::Time => {
                self.numbers().collect::<Vec<_>>().to_sql(ty, out)
            }
            ColumnKind::Code => {
                let codes = self.numbers().map(|code| code.map(i16::try_from).transpose());
                codes.collect::<Result<Vec<_>, _>>()?.to_sql(ty, out)
            }
            ColumnKind::Flag => {
                let flags = self.cells.iter().map(|cell| *cell == Cell::Flag(true));
                flags.collect::<Vec<_>>().to_sql(ty, out)
            }
            ColumnKind::Text | ColumnKind::Path => {
                let texts = self.cells.iter().map(|cell| match cell {
                    Cell::Text(text) => Some(text.as_bytes()),
                    Cell::Null | Cell::Number(_) | Cell::Flag(_) => None,
                });
                texts.collect::<Vec<_>>().to_sql(ty, out)
            }
        }
    }

    fn accepts(ty: &Type) -> bool {
        <Vec<i64> as ToSql>::accepts(ty)
            || <Vec<i16> as ToSql>::accepts(ty)
            || <Vec<bool> as ToSql>::accepts(ty)
            || <Vec<&[u8]> as ToSql>::accepts(ty)
    }

    to_sql_checked!();
}

pub(super) fn cell(row: &Row, at: usize, kind: ColumnKind) -> Result<Cell<'_>> {
    let cell = match kind {
        ColumnKind::Number | ColumnKind::Time => get::<Option<i64>>(row, at)?.map(Cell::Number),
        ColumnKind::Code => get::<Option<i16>>(row, at)?.map(|code| Cell::Number(code.into())),
        ColumnKind::Flag => get::<Option<bool>>(row, at)?.map(Cell::Flag),
        ColumnKind::Text | ColumnKind::Path => {
            let text = get::<Option<&[u8]>>(row, at)?.map(std::str::from_utf8).transpose();
            let text = text.map_err(|error| DbError::Corrupt(format!("not UTF-8: {error}")))?;
            text.map(|text| Cell::Text(Cow::Borrowed(text)))
        }
    };
    Ok(cell.unwrap_or(Cell::Null))
}

/// Reads back the columns with which a row begins.
pub(super) fn read<T: Default>(row: &Row, columns: &[Column<T>]) -> Result<T> {
    let mut read = T::default();
    for (at, column) in columns.iter().enumerate() {
        let cell = cell(row, at, column.kind)?;
        if !column.set(&mut read, cell.clone()) {
            return Err(DbError::Corrupt(format!("{} cannot be {cell:?}", column.name)));
        }
    }
    Ok(read)
}
