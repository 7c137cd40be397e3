//! The rows of single executions, for a comparison with the log.

use rusqlite::{Connection, OptionalExtension, Row};
use waypost_core::id::ExecutionNo;
use waypost_core::projection::columns::{Cell, Column, ColumnKind, NODE, VIEW};
use waypost_core::time::Timestamp;
use waypost_ports::inspect::{ShownNode, ShownRows, ShownWait};

use super::{cells, queries};
use crate::connection::from_stored;

/// The rows of one execution.
pub(super) fn rows(
    connection: &Connection,
    execution: ExecutionNo,
) -> rusqlite::Result<Option<ShownRows>> {
    let mut select = connection.prepare_cached(&queries::EXECUTION_VIEW)?;
    let shown = select.query_row([execution.0], |row| {
        let key: String = row.get(VIEW.len())?;
        Ok(ShownRows {
            key: key.into(),
            created_at: Timestamp(row.get(VIEW.len() + 1)?),
            view: cells::read(row, &VIEW)?,
            output: row.get(VIEW.len() + 2)?,
            nodes: Vec::new(),
            waits: Vec::new(),
        })
    });
    let Some(mut shown) = shown.optional()? else { return Ok(None) };
    let mut nodes = connection.prepare_cached(&queries::SHOWN_NODES)?;
    let mut waits = connection.prepare_cached(queries::SHOWN_WAITS)?;
    let since = shown.created_at;
    shown.nodes =
        nodes.query_map([execution.0], |row| node(row, since))?.collect::<Result<_, _>>()?;
    shown.waits = waits.query_map([execution.0], wait)?.collect::<Result<_, _>>()?;
    Ok(Some(shown))
}

/// Executions that have rows, by number.
pub(super) fn after(
    connection: &Connection,
    execution: i64,
    limit: i64,
) -> rusqlite::Result<Vec<ExecutionNo>> {
    let mut select = connection.prepare_cached(queries::SHOWN_AFTER)?;
    let numbers = select.query_map([execution, limit], |row| row.get(0))?;
    numbers.map(|number| number.map(ExecutionNo)).collect()
}

/// A node, whose times are stored as counted from the creation of its execution.
fn node(row: &Row<'_>, since: Timestamp) -> rusqlite::Result<ShownNode> {
    let read = |(at, column): (usize, &Column<_>)| {
        Ok(match (column.kind, cells::cell(row, at, column.kind)?) {
            (ColumnKind::Time, Cell::Number(time)) => Cell::Number(time + since.0),
            (_, cell) => cell.into_owned(),
        })
    };
    let columns = NODE.iter().enumerate().filter(|(_, column)| column.is_folded());
    let cells = columns.map(read).collect::<rusqlite::Result<_>>()?;
    Ok(ShownNode { path: row.get(NODE.len())?, cells })
}

fn wait(row: &Row<'_>) -> rusqlite::Result<ShownWait> {
    Ok(ShownWait {
        seq: from_stored(row.get(0)?),
        path: row.get(1)?,
        due: row.get::<_, Option<i64>>(2)?.map(Timestamp),
    })
}
