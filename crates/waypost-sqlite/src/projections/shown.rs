//! What the rows show of single executions, for whoever compares them with the log.

use rusqlite::{Connection, Row};
use waypost_core::id::ExecutionNo;
use waypost_core::status::NodeStatus;
use waypost_core::time::Timestamp;
use waypost_ports::inspect::{ShownNode, ShownRows, ShownWait};

use super::projector::load_view;
use super::queries;
use crate::connection::from_stored;

/// The rows of one execution.
pub(super) fn rows(
    connection: &Connection,
    execution: ExecutionNo,
) -> rusqlite::Result<Option<ShownRows>> {
    let Some(view) = load_view(connection, execution.0)? else { return Ok(None) };
    let mut select = connection.prepare_cached(queries::SHOWN_EXECUTION)?;
    let (key, created_at, output): (String, i64, Option<String>) =
        select.query_row([execution.0], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let mut nodes = connection.prepare_cached(queries::SHOWN_NODES)?;
    let mut waits = connection.prepare_cached(queries::SHOWN_WAITS)?;
    Ok(Some(ShownRows {
        key: key.into(),
        created_at: Timestamp(created_at),
        view,
        output,
        nodes: nodes.query_map([execution.0], node)?.collect::<Result<_, _>>()?,
        waits: waits.query_map([execution.0], wait)?.collect::<Result<_, _>>()?,
    }))
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

fn node(row: &Row<'_>) -> rusqlite::Result<ShownNode> {
    let code: i64 = row.get(1)?;
    let status = usize::try_from(code).ok().and_then(|code| NodeStatus::ALL.get(code));
    Ok(ShownNode {
        path: row.get(0)?,
        status: status.copied().ok_or(rusqlite::Error::IntegralValueOutOfRange(1, code))?,
        attempt: row.get(2)?,
        started_at: row.get::<_, Option<i64>>(3)?.map(Timestamp),
        completed_at: row.get::<_, Option<i64>>(4)?.map(Timestamp),
        output: row.get(5)?,
        branch: row.get(6)?,
    })
}

fn wait(row: &Row<'_>) -> rusqlite::Result<ShownWait> {
    Ok(ShownWait {
        seq: from_stored(row.get(0)?),
        path: row.get(1)?,
        due: row.get::<_, Option<i64>>(2)?.map(Timestamp),
    })
}
