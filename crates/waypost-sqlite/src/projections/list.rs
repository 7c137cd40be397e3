//! Pages of rows, newest first.
//!
//! Status and workflow use indexes: each status is a walk of its own along one of them, and the
//! walks are merged, so that a page costs as much as it contains. All other filters are tested row
//! by row, within a budget.

use rusqlite::types::Type;
use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, Rows, params};
use serde::de::DeserializeOwned;
use waypost_core::id::ExecutionNo;
use waypost_core::projection::columns::VIEW;
use waypost_core::status::Status;
use waypost_core::time::Timestamp;
use waypost_ports::query::{ExecutionPage, ExecutionRow, Filter, ListRequest, Looked, PageBudget};

use super::{cells, file, queries};

/// A page of executions; `head` is how far the log goes.
pub(super) fn page(
    connection: &Connection,
    request: &ListRequest,
    head: i64,
) -> rusqlite::Result<ExecutionPage> {
    let lag = file::progress(connection)?.lag(head);
    let (rows, next) = rows(connection, &request.narrowed(), PageBudget::PAGE)?;
    Ok(ExecutionPage { rows, next, lag })
}

/// The rows of a page, and where the next one starts.
fn rows(
    connection: &Connection,
    request: &ListRequest,
    mut budget: PageBudget,
) -> rusqlite::Result<(Vec<ExecutionRow>, Option<ExecutionNo>)> {
    let (mut rows, mut seen) = (Vec::new(), None);
    let Some(indexes) = indexes(connection, request)? else { return Ok((rows, None)) };
    let statements = indexes.iter().map(|index| connection.prepare_cached(index.sql));
    let mut statements = statements.collect::<Result<Vec<_>, _>>()?;
    let mut walks = Walks::begin(&mut statements, &indexes)?;
    let filter = Filter::of(request);
    let mut look = connection.prepare_cached(queries::LISTED_LOOK)?;
    let mut select = connection.prepare_cached(&queries::LISTED_ROW)?;
    while let Some(execution) = walks.next()? {
        if let Some(filter) = &filter {
            if budget.is_spent() {
                return Ok((rows, seen));
            }
            seen = Some(execution);
            let mut row = || select.query_row([execution.0], read);
            if !fits(&mut look, filter, execution, (&mut budget, &mut row))? {
                continue;
            }
        }
        if rows.len() == request.limit {
            let next = rows.last().map(|row: &ExecutionRow| row.execution);
            return Ok((rows, next));
        }
        rows.push(select.query_row([execution.0], read)?);
    }
    Ok((rows, None))
}

/// An index to walk along, with the values that choose a part of it.
struct Index {
    sql: &'static str,
    params: Vec<i64>,
}

/// One for each status; nothing where there is no such workflow.
fn indexes(connection: &Connection, request: &ListRequest) -> rusqlite::Result<Option<Vec<Index>>> {
    let before = request.before.map_or(i64::MAX, |before| before.0);
    let workflow = match &request.workflow {
        Some(name) => match workflow_number(connection, name)? {
            Some(number) => Some(number),
            None => return Ok(None),
        },
        None => None,
    };
    let mut statuses: Vec<Option<Status>> = request.statuses.iter().copied().map(Some).collect();
    statuses.sort_unstable();
    statuses.dedup();
    if statuses.is_empty() {
        statuses.push(None);
    }
    let index = |status: Option<Status>| {
        let (sql, params) = match (workflow, status.map(|status| status as i64)) {
            (None, None) => (queries::LIST, vec![before]),
            (None, Some(status)) => (queries::LIST_BY_STATUS, vec![before, status]),
            (Some(workflow), None) => (queries::LIST_BY_WORKFLOW, vec![before, workflow]),
            (Some(workflow), Some(status)) => {
                (queries::LIST_BY_WORKFLOW_STATUS, vec![before, workflow, status])
            }
        };
        Index { sql, params }
    };
    Ok(Some(statuses.into_iter().map(index).collect()))
}

/// Several walks, each newest first, as one.
struct Walks<'a>(Vec<Walk<'a>>);

struct Walk<'a> {
    rows: Rows<'a>,
    /// Its position; `None` at its end.
    at: Option<i64>,
}

impl<'a> Walks<'a> {
    fn begin(
        statements: &'a mut [CachedStatement<'_>],
        indexes: &[Index],
    ) -> rusqlite::Result<Self> {
        let walks = statements.iter_mut().zip(indexes).map(|(statement, index)| {
            let rows = statement.query(rusqlite::params_from_iter(&index.params))?;
            let mut walk = Walk { rows, at: None };
            walk.advance()?;
            Ok(walk)
        });
        walks.collect::<rusqlite::Result<_>>().map(Self)
    }

    fn next(&mut self) -> rusqlite::Result<Option<ExecutionNo>> {
        let newest = self.0.iter_mut().max_by_key(|walk| walk.at);
        let Some((walk, at)) = newest.and_then(|walk| walk.at.map(|at| (walk, at))) else {
            return Ok(None);
        };
        walk.advance()?;
        Ok(Some(ExecutionNo(at)))
    }
}

impl Walk<'_> {
    fn advance(&mut self) -> rusqlite::Result<()> {
        self.at = self.rows.next()?.map(|row| row.get(0)).transpose()?;
        Ok(())
    }
}

fn fits(
    look: &mut CachedStatement<'_>,
    filter: &Filter<'_>,
    execution: ExecutionNo,
    (budget, listed): (&mut PageBudget, &mut dyn FnMut() -> rusqlite::Result<ExecutionRow>),
) -> rusqlite::Result<bool> {
    look.query_row(params![execution.0, filter.reads_input(), filter.reads_output()], |row| {
        let looked = Looked {
            created_at: Timestamp(row.get(0)?),
            labels: &json(row, 3)?,
            key: row.get_ref(1)?.as_str()?,
            error: row.get_ref(2)?.as_str_or_null()?,
            input: row.get_ref(4)?.as_str()?,
            output: row.get_ref(5)?.as_str_or_null()?.unwrap_or_default(),
        };
        filter.fits(&looked, budget, listed)
    })
}

/// The JSON in a column; the default where there is none, as in most rows.
fn json<T: DeserializeOwned + Default>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let Some(text) = row.get_ref(column)?.as_str_or_null()? else { return Ok(T::default()) };
    serde_json::from_str(text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
    })
}

fn workflow_number(connection: &Connection, name: &str) -> rusqlite::Result<Option<i64>> {
    let mut find = connection.prepare_cached(queries::WORKFLOW_FIND)?;
    find.query_row([name], |row| row.get(0)).optional()
}

fn read(row: &Row<'_>) -> rusqlite::Result<ExecutionRow> {
    let at = |column| VIEW.len() + column;
    let (key, workflow): (String, String) = (row.get(at(1))?, row.get(at(2))?);
    Ok(ExecutionRow {
        execution: ExecutionNo(row.get(at(0))?),
        key: key.into(),
        workflow: workflow.into(),
        version: row.get(at(3))?,
        created_at: Timestamp(row.get(at(4))?),
        labels: json(row, at(5))?,
        failure: json(row, at(6))?,
        resume_at: row.get::<_, Option<i64>>(at(7))?.map(Timestamp),
        view: cells::read(row, &VIEW)?,
    })
}

#[cfg(test)]
mod tests;
