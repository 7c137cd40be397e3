//! Reading rows.

use rusqlite::{Connection, OptionalExtension, Row, params};
use waypost_core::id::ExecutionId;
use waypost_core::status::Status;
use waypost_core::time::Timestamp;
use waypost_ports::query::{ExecutionPage, ExecutionRow, ListRequest, ProjectionLag};

use super::{file, queries};
use crate::connection::from_stored;

/// A page of executions, newest first; `head` is how far the log goes.
pub(super) fn page(
    connection: &Connection,
    request: &ListRequest,
    head: i64,
) -> rusqlite::Result<ExecutionPage> {
    let lag = ProjectionLag { frames: from_stored(head - file::cursor(connection)?) };
    let workflow = match &request.workflow {
        Some(name) => match workflow_number(connection, name)? {
            Some(number) => Some(number),
            None => return Ok(ExecutionPage { rows: Vec::new(), next: None, lag }),
        },
        None => None,
    };
    let sql = match (workflow, request.status) {
        (None, None) => queries::LIST,
        (None, Some(_)) => queries::LIST_BY_STATUS,
        (Some(_), None) => queries::LIST_BY_WORKFLOW,
        (Some(_), Some(_)) => queries::LIST_BY_WORKFLOW_STATUS,
    };
    let before = request.before.map_or(i64::MAX, |before| before.0);
    // One more than asked for, in order to tell whether there is another page.
    let limit = i64::try_from(request.limit).unwrap_or(i64::MAX).saturating_add(1);
    let status = request.status.map(|status| status as u8);
    let mut select = connection.prepare_cached(sql)?;
    let rows = select.query_map(params![before, limit, status, workflow], read)?;
    let mut rows = rows.collect::<Result<Vec<_>, _>>()?;
    let more = rows.len() > request.limit;
    rows.truncate(request.limit);
    let next = rows.last().filter(|_| more).map(|row| row.execution);
    Ok(ExecutionPage { rows, next, lag })
}

fn workflow_number(connection: &Connection, name: &str) -> rusqlite::Result<Option<i64>> {
    let mut find = connection.prepare_cached(queries::WORKFLOW_FIND)?;
    find.query_row([name], |row| row.get(0)).optional()
}

fn read(row: &Row<'_>) -> rusqlite::Result<ExecutionRow> {
    let (key, workflow): (String, String) = (row.get(2)?, row.get(3)?);
    let time = |column| -> rusqlite::Result<Option<Timestamp>> {
        Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp))
    };
    Ok(ExecutionRow {
        execution: ExecutionId(row.get(0)?),
        key: key.into(),
        workflow: workflow.into(),
        version: row.get(4)?,
        status: status(row, 1)?,
        created_at: Timestamp(row.get(5)?),
        completed_at: time(6)?,
        nodes_executed: from_stored(row.get(7)?),
        error: row.get(8)?,
        current_node: row.get(9)?,
        resume_at: time(10)?,
    })
}

/// The status of an execution in a column.
pub(super) fn status(row: &Row<'_>, column: usize) -> rusqlite::Result<Status> {
    let code: i64 = row.get(column)?;
    let status = usize::try_from(code).ok().and_then(|code| Status::ALL.get(code));
    status.copied().ok_or(rusqlite::Error::IntegralValueOutOfRange(column, code))
}
