//! Pages of rows, newest first.
//!
//! Status and workflow use indexes: each status is a walk of its own along one of them, and the
//! walks are merged, so that a page costs as much as it contains. All other filters are tested row
//! by row, within a budget. All in one snapshot, or an execution whose status changes meanwhile
//! would appear twice, or not at all.

use std::collections::VecDeque;

use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use waypost_core::id::ExecutionNo;
use waypost_core::projection::columns::VIEW;
use waypost_core::status::Status;
use waypost_core::time::Timestamp;
use waypost_ports::query::{ExecutionPage, ExecutionRow, Filter, ListRequest, Looked, PageBudget};

use super::queries::{self, sql};
use super::{cells, lag, name_hash};
use crate::connection::{Connection, Params};
use crate::error::{DbError, Result};
use crate::text::{get, limit_and_one, narrow, text, text_or_none, time};

/// Rows that are read at a time. Of filtered lists, inputs are read with them, so that it is not many.
const ROWS_AT_ONCE: usize = 256;

pub(crate) async fn page(db: &mut Connection, request: &ListRequest) -> Result<ExecutionPage> {
    db.begin_snapshot().await?;
    let lag = lag(db).await?;
    let (rows, next) = rows(db, &request.narrowed(), PageBudget::PAGE).await?;
    db.commit().await?;
    Ok(ExecutionPage { rows, next, lag })
}

/// The rows of a page, and where the next one starts.
async fn rows(
    db: &mut Connection,
    request: &ListRequest,
    mut budget: PageBudget,
) -> Result<(Vec<ExecutionRow>, Option<ExecutionNo>)> {
    let mut walks = Walks::of(request);
    let filter = Filter::of(request);
    let (mut found, mut seen) = (Vec::new(), None);
    'walk: while found.len() <= request.limit {
        // One more than fits shows whether there is a next page.
        let wanted = match &filter {
            Some(_) => ROWS_AT_ONCE,
            None => request.limit.saturating_add(1).min(ROWS_AT_ONCE),
        };
        let chunk = walks.next(db, wanted).await?;
        if chunk.is_empty() {
            break;
        }
        let Some(filter) = &filter else {
            found.extend(chunk);
            continue;
        };
        let payloads: Params<'_> = &[&chunk, &filter.reads_input(), &filter.reads_output()];
        let looks = db.query(sql!("listed_look"), payloads).await?;
        // Both are of one snapshot, and the newest come first.
        let mut listed = match &request.condition {
            Some(_) => read_rows(db, &chunk).await?.into_iter(),
            None => Vec::new().into_iter(),
        };
        for row in &looks {
            let listed = listed.next();
            if budget.is_spent() {
                return Ok((read_rows(db, &found).await?, seen));
            }
            let execution: i64 = get(row, 0)?;
            seen = Some(ExecutionNo(execution));
            if fits(row, filter, &mut budget, listed)? {
                found.push(execution);
                if found.len() > request.limit {
                    break 'walk;
                }
            }
        }
    }
    let more = found.len() > request.limit;
    found.truncate(request.limit);
    let next = found.last().filter(|_| more).copied().map(ExecutionNo);
    Ok((read_rows(db, &found).await?, next))
}

async fn read_rows(db: &mut Connection, executions: &[i64]) -> Result<Vec<ExecutionRow>> {
    db.query_map(&queries::LISTED_ROWS, &[&executions], read).await
}

/// Several walks along indexes, each newest first, as one.
struct Walks {
    workflow: Option<String>,
    walks: Vec<Walk>,
}

struct Walk {
    /// Of this status; of any, for the only one of its kind.
    status: Option<Status>,
    ahead: VecDeque<i64>,
    /// Where it continues.
    before: i64,
    at_end: bool,
}

impl Walks {
    fn of(request: &ListRequest) -> Self {
        let mut statuses: Vec<Option<Status>> =
            request.statuses.iter().copied().map(Some).collect();
        statuses.sort_unstable();
        statuses.dedup();
        if statuses.is_empty() {
            // The index by workflow goes by status, too.
            statuses = match request.workflow {
                Some(_) => Status::ALL.into_iter().map(Some).collect(),
                None => vec![None],
            };
        }
        let before = request.before.map_or(i64::MAX, |before| before.0);
        let walk = |status| Walk { status, ahead: VecDeque::new(), before, at_end: false };
        let walks = statuses.into_iter().map(walk).collect();
        Self { workflow: request.workflow.clone(), walks }
    }

    /// The next executions, at most so many; none at the end.
    async fn next(&mut self, db: &mut Connection, wanted: usize) -> Result<Vec<i64>> {
        let mut found = Vec::with_capacity(wanted);
        while found.len() < wanted {
            for walk in &mut self.walks {
                walk.read(db, self.workflow.as_deref(), wanted).await?;
            }
            let newest = self.walks.iter_mut().max_by_key(|walk| walk.ahead.front().copied());
            match newest.and_then(|walk| walk.ahead.pop_front()) {
                Some(execution) => found.push(execution),
                None => break,
            }
        }
        Ok(found)
    }
}

impl Walk {
    /// Ensures that its next step is read.
    async fn read(
        &mut self,
        db: &mut Connection,
        workflow: Option<&str>,
        wanted: usize,
    ) -> Result<()> {
        if self.at_end || !self.ahead.is_empty() {
            return Ok(());
        }
        let limit = limit_and_one(wanted);
        let status = self.status.map(|status| status as i16);
        let rows = match (workflow.map(str::as_bytes), status) {
            (None, None) => db.query(sql!("list"), &[&self.before, &limit]).await?,
            (None, Some(status)) => {
                db.query(sql!("list_by_status"), &[&self.before, &limit, &status]).await?
            }
            (Some(workflow), status) => {
                let (status, hash) = (status.unwrap_or_default(), name_hash(workflow));
                let params: Params<'_> = &[&self.before, &limit, &status, &hash, &workflow];
                db.query(sql!("list_by_workflow_status"), params).await?
            }
        };
        self.ahead = rows.iter().map(|row| get(row, 0)).collect::<Result<_, _>>()?;
        self.at_end = self.ahead.len() <= wanted;
        self.before = self.ahead.back().copied().unwrap_or(self.before);
        Ok(())
    }
}

fn fits(
    row: &Row,
    filter: &Filter<'_>,
    budget: &mut PageBudget,
    listed: Option<ExecutionRow>,
) -> Result<bool> {
    let (key, error, input) = (text(row, 2)?, text_or_none(row, 3)?, text(row, 5)?);
    let output = text_or_none(row, 6)?;
    let looked = Looked {
        created_at: Timestamp(get(row, 1)?),
        labels: &json(row, 4)?,
        key: &key,
        error: error.as_deref(),
        input: &input,
        output: output.as_deref().unwrap_or_default(),
    };
    let missing = || DbError::Corrupt(format!("the row of {key} is gone"));
    filter.fits(&looked, budget, || listed.ok_or_else(missing))
}

/// The JSON in a column; the default where there is none, as in most rows.
fn json<T: DeserializeOwned + Default>(row: &Row, column: usize) -> Result<T> {
    let Some(bytes) = get::<Option<&[u8]>>(row, column)? else { return Ok(T::default()) };
    serde_json::from_slice(bytes).map_err(|error| DbError::Corrupt(format!("JSON: {error}")))
}

fn read(row: &Row) -> Result<ExecutionRow> {
    let at = |column| VIEW.len() + column;
    Ok(ExecutionRow {
        execution: ExecutionNo(get(row, at(0))?),
        key: text(row, at(1))?,
        workflow: text(row, at(2))?,
        version: narrow(row, at(3))?,
        created_at: Timestamp(get(row, at(4))?),
        labels: json(row, at(5))?,
        failure: json(row, at(6))?,
        resume_at: time(row, at(7))?,
        view: cells::read(row, &VIEW)?,
    })
}
