//! What the rows show of single executions, for whoever compares them with the log.

use std::collections::HashMap;

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use waypost_core::id::ExecutionNo;
use waypost_core::status::NodeStatus;
use waypost_core::time::Timestamp;
use waypost_ports::inspect::{Shown, ShownNode, ShownRows, ShownWait};

use super::queries;
use super::rows::{read_view, time};
use crate::connection::Connection;
use crate::error::DbError;
use crate::text::{count, get, text, text_or_none};

/// The rows of executions, in the order asked for, all from one moment.
pub(crate) async fn rows(
    connection: &mut Connection,
    executions: &[ExecutionNo],
) -> Result<Vec<Shown>, DbError> {
    let numbers: Vec<i64> = executions.iter().map(|execution| execution.0).collect();
    let of_them: [&(dyn ToSql + Sync); 1] = [&numbers];
    let with_output: [&(dyn ToSql + Sync); 2] = [&numbers, &true];
    let [views, nodes, waits, due] = connection
        .read([
            (queries::EXECUTION_VIEWS, &with_output),
            (queries::SHOWN_NODES, &of_them),
            (queries::SHOWN_WAITS, &of_them),
            (queries::SHOWN_DUE, &of_them),
        ])
        .await?;
    let mut shown: HashMap<i64, ShownRows> = HashMap::new();
    for row in &views {
        shown.insert(get(row, 0)?, execution(row)?);
    }
    for row in &nodes {
        if let Some(rows) = shown.get_mut(&get(row, 0)?) {
            rows.nodes.push(node(row)?);
        }
    }
    for row in &waits {
        if let Some(rows) = shown.get_mut(&get(row, 0)?) {
            rows.waits.push(wait(row)?);
        }
    }
    let due: HashMap<i64, u64> =
        due.iter().map(|row| Ok((get(row, 0)?, count(row, 1)?))).collect::<Result<_, DbError>>()?;
    let one = |execution: &ExecutionNo| Shown {
        execution: *execution,
        due: due.get(&execution.0).copied().unwrap_or(0),
        rows: shown.get(&execution.0).cloned(),
    };
    Ok(executions.iter().map(one).collect())
}

fn execution(row: &Row) -> Result<ShownRows, DbError> {
    Ok(ShownRows {
        key: text(row, 15)?,
        created_at: Timestamp(get(row, 16)?),
        view: read_view(row)?,
        output: owned(row, 17)?,
        nodes: Vec::new(),
        waits: Vec::new(),
    })
}

fn node(row: &Row) -> Result<ShownNode, DbError> {
    let code: i16 = get(row, 2)?;
    let status = usize::try_from(code).ok().and_then(|code| NodeStatus::ALL.get(code)).copied();
    let attempt: Option<i64> = get(row, 3)?;
    Ok(ShownNode {
        path: text(row, 1)?.to_string(),
        status: status.ok_or_else(|| DbError::Corrupt(format!("{code} is no status")))?,
        attempt: attempt.and_then(|attempt| u32::try_from(attempt).ok()),
        started_at: time(row, 4)?,
        completed_at: time(row, 5)?,
        output: owned(row, 6)?,
        branch: owned(row, 7)?,
    })
}

fn wait(row: &Row) -> Result<ShownWait, DbError> {
    Ok(ShownWait { seq: count(row, 1)?, path: text(row, 2)?.to_string(), due: time(row, 3)? })
}

fn owned(row: &Row, column: usize) -> Result<Option<String>, DbError> {
    Ok(text_or_none(row, column)?.map(|text| text.to_string()))
}
