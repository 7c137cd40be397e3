//! The rows of single executions, for a comparison with the log.

use std::collections::HashMap;

use tokio_postgres::Row;
use waypost_core::id::ExecutionNo;
use waypost_core::projection::columns::{Cell, Column, NODE, VIEW};
use waypost_core::time::Timestamp;
use waypost_ports::inspect::{Shown, ShownNode, ShownRows, ShownWait};

use super::cells;
use super::queries::{self, sql};
use crate::connection::{Connection, Params};
use crate::error::Result;
use crate::text::{count, get, text, text_or_none, time};

/// The rows of executions, in the order of the request, all from one snapshot.
pub(crate) async fn rows(db: &mut Connection, executions: &[ExecutionNo]) -> Result<Vec<Shown>> {
    let numbers: Vec<i64> = executions.iter().map(|execution| execution.0).collect();
    let of_them: Params<'_> = &[&numbers];
    let with_output: Params<'_> = &[&numbers, &true];
    let [views, nodes, waits, due] = db
        .read([
            (&queries::EXECUTION_VIEWS, with_output),
            (&queries::SHOWN_NODES, of_them),
            (sql!("shown_waits"), of_them),
            (sql!("shown_due"), of_them),
        ])
        .await?;
    let mut shown: HashMap<i64, ShownRows> = HashMap::new();
    for row in &views {
        shown.insert(get(row, VIEW.len())?, execution(row)?);
    }
    for row in &nodes {
        if let Some(rows) = shown.get_mut(&get(row, NODE.len())?) {
            rows.nodes.push(node(row)?);
        }
    }
    for row in &waits {
        if let Some(rows) = shown.get_mut(&get(row, 0)?) {
            rows.waits.push(wait(row)?);
        }
    }
    let due: HashMap<i64, u64> =
        due.iter().map(|row| Ok((get(row, 0)?, count(row, 1)?))).collect::<Result<_>>()?;
    let one = |execution: &ExecutionNo| Shown {
        execution: *execution,
        due: due.get(&execution.0).copied().unwrap_or(0),
        rows: shown.get(&execution.0).cloned(),
    };
    Ok(executions.iter().map(one).collect())
}

fn execution(row: &Row) -> Result<ShownRows> {
    let output = text_or_none(row, VIEW.len() + 5)?;
    Ok(ShownRows {
        key: text(row, VIEW.len() + 2)?,
        created_at: Timestamp(get(row, VIEW.len() + 3)?),
        view: cells::read(row, &VIEW)?,
        output: output.map(|output| output.to_string()),
        nodes: Vec::new(),
        waits: Vec::new(),
    })
}

fn node(row: &Row) -> Result<ShownNode> {
    let read =
        |(at, column): (usize, &Column<_>)| cells::cell(row, at, column.kind).map(Cell::into_owned);
    let columns = NODE.iter().enumerate().filter(|(_, column)| column.is_folded());
    let cells = columns.map(read).collect::<Result<_, _>>()?;
    Ok(ShownNode { path: text(row, NODE.len() + 1)?.to_string(), cells })
}

fn wait(row: &Row) -> Result<ShownWait> {
    Ok(ShownWait { seq: count(row, 1)?, path: text(row, 2)?.to_string(), due: time(row, 3)? })
}
