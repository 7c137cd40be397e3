//! From changes to rows: arrays for a handful of statements, whatever the number of rows.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use waypost_core::event::Wait;
use waypost_core::json::Json;
use waypost_core::projection::columns::{CREATED, END, NODE, VIEW};
use waypost_core::projection::inputs::Rendered;
use waypost_core::projection::{End, NodeChange, WaitDetail, WaitTerms};
use waypost_core::time::Timestamp;

use super::cells::{arrays, parameters};
use super::fold::{Closed, Touched, Waits};
use super::queries::{self, sql};
use super::{document, name_hash};
use crate::connection::{Connection, Params};
use crate::error::Result;
use crate::text::{get, to_stored};

/// Bytes counted for a failure besides its message and its details.
const FAILURE_BYTES: usize = 200;

/// Are documents written? Not in a second try after the database refused something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Documents {
    Written,
    LeftOut,
}

/// Writes changes inside of a transaction, and returns the executions whose rows were written; rows
/// that another process has advanced meanwhile are not. Nodes, of which one execution can have more
/// than fit into a statement, are written in pieces of about `bytes`.
pub(super) async fn write(
    db: &mut Connection,
    batch: &BTreeMap<i64, Touched>,
    inputs: &HashMap<i64, Rendered>,
    documents: Documents,
    bytes: usize,
) -> Result<BTreeSet<i64>> {
    // First the rows that exist, then those that do not, each in the order of their keys, as
    // deriving rows again does: two writers wait for each other, but never in a cycle.
    let mut written = update(db, batch).await?;
    written.append(&mut insert(db, batch).await?);
    let rows = batch.iter().filter(|(execution, _)| written.contains(*execution));
    let rows: Vec<(i64, &Touched)> =
        rows.map(|(execution, touched)| (*execution, touched)).collect();
    cancel_pending(db, &rows).await?;
    write_nodes(db, &rows, inputs, bytes).await?;
    write_waits(db, &rows).await?;
    write_variables(db, &rows).await?;
    if documents == Documents::Written {
        write_documents(db, &rows).await?;
    }
    Ok(written)
}

/// Rows of executions that have none.
async fn insert(db: &mut Connection, batch: &BTreeMap<i64, Touched>) -> Result<BTreeSet<i64>> {
    let new = batch.iter().filter(|(_, touched)| !touched.known && touched.is_visible());
    let new: Vec<_> = new.filter_map(|(e, t)| Some((*e, t, t.changes.created.as_ref()?))).collect();
    if new.is_empty() {
        return Ok(BTreeSet::new());
    }
    let runs = || new.iter().map(|(_, _, created)| &created.run);
    let projected: Result<Vec<i64>, _> = new.iter().map(|row| to_stored(row.1.projected)).collect();
    let workflows: Vec<&[u8]> = runs().map(|run| run.workflow.as_bytes()).collect();
    let ends: Vec<&End> = new.iter().map(|row| end_of(row.1)).collect();
    let mut columns = arrays(&CREATED, &new.iter().map(|row| row.2).collect::<Vec<_>>());
    let views: Vec<_> = new.iter().map(|row| &row.1.changes.view).collect();
    columns.extend(arrays(&VIEW, &views));
    columns.extend(arrays(&END, &ends));
    let own: Params<'_> = &[
        &new.iter().map(|row| row.0).collect::<Vec<_>>(),
        &projected?,
        &workflows.iter().map(|workflow| name_hash(workflow)).collect::<Vec<_>>(),
        &runs().map(|run| i64::from(run.version)).collect::<Vec<_>>(),
        &runs().map(|run| run.definition.0.as_slice()).collect::<Vec<_>>(),
        &workflows,
    ];
    let params = parameters(own, &columns);
    db.query_map(&queries::EXECUTION_INSERT, &params, |row| get(row, 0)).await
}

/// Rows of executions that have one.
async fn update(db: &mut Connection, batch: &BTreeMap<i64, Touched>) -> Result<BTreeSet<i64>> {
    let known = || batch.iter().filter(|(_, touched)| touched.known && touched.is_visible());
    if known().next().is_none() {
        return Ok(BTreeSet::new());
    }
    let since: Result<Vec<i64>, _> = known().map(|(_, t)| to_stored(t.since)).collect();
    let executions: Vec<i64> = known().map(|(execution, _)| *execution).collect();
    let params: Params<'_> = &[&executions, &since?];
    let locked: BTreeSet<i64> =
        db.query_map(sql!("execution_lock"), params, |row| get(row, 0)).await?;
    let rows: Vec<&Touched> =
        known().filter(|(execution, _)| locked.contains(execution)).map(|(_, t)| t).collect();
    let executions: Vec<i64> = locked.iter().copied().collect();
    let projected: Result<Vec<i64>, _> = rows.iter().map(|t| to_stored(t.projected)).collect();
    let ends: Vec<&End> = rows.iter().map(|touched| end_of(touched)).collect();
    let views: Vec<_> = rows.iter().map(|touched| &touched.changes.view).collect();
    let mut columns = arrays(&VIEW, &views);
    columns.extend(arrays(&END, &ends));
    let own: Params<'_> = &[
        &executions,
        &projected?,
        &rows.iter().map(|touched| touched.changes.end.is_some()).collect::<Vec<_>>(),
    ];
    db.execute(&queries::EXECUTION_UPDATE, &parameters(own, &columns)).await?;
    Ok(locked)
}

/// The end that an execution has come to; an empty one where it has not.
fn end_of(touched: &Touched) -> &End {
    const NONE: &End = &End { output: None, failure: None };
    touched.changes.end.as_ref().unwrap_or(NONE)
}

struct NodeRow<'a> {
    execution: i64,
    path: &'a str,
    change: &'a NodeChange,
    input: Option<&'a [u8]>,
}

impl NodeRow<'_> {
    /// About how large it is.
    fn bytes(&self) -> usize {
        let failures = self.change.retries.iter().map(|retry| &retry.failure);
        let failures = failures.chain(self.change.failure.as_deref()).map(|failure| {
            failure.message.len() + failure.details.as_ref().map_or(0, Json::bytes) + FAILURE_BYTES
        });
        let output = self.change.output.as_ref().map_or(0, Json::bytes);
        failures.sum::<usize>() + output + self.path.len() + self.input.map_or(0, <[u8]>::len)
    }
}

/// Cancels nodes that earlier changes left PENDING.
async fn cancel_pending(db: &mut Connection, rows: &[(i64, &Touched)]) -> Result<()> {
    let ended = rows.iter().filter_map(|(e, t)| Some((*e, t.changes.pending_cancelled?.0)));
    let (executions, times): (Vec<i64>, Vec<i64>) = ended.unzip();
    if !executions.is_empty() {
        db.execute(sql!("nodes_cancel"), &[&executions, &times]).await?;
    }
    Ok(())
}

async fn write_variables(db: &mut Connection, rows: &[(i64, &Touched)]) -> Result<()> {
    let set: Vec<(i64, &str, &Json)> = rows
        .iter()
        .flat_map(|(e, touched)| touched.changes.variables.iter().map(|(n, v)| (*e, &**n, v)))
        .collect();
    if set.is_empty() {
        return Ok(());
    }
    let params: Params<'_> = &[
        &set.iter().map(|row| row.0).collect::<Vec<_>>(),
        &set.iter().map(|row| name_hash(row.1.as_bytes())).collect::<Vec<_>>(),
        &set.iter().map(|row| row.1.as_bytes()).collect::<Vec<_>>(),
        &set.iter().map(|row| row.2.text().as_bytes()).collect::<Vec<_>>(),
    ];
    db.execute(sql!("variables_set"), params).await?;
    Ok(())
}

async fn write_nodes(
    db: &mut Connection,
    rows: &[(i64, &Touched)],
    inputs: &HashMap<i64, Rendered>,
    bytes_max: usize,
) -> Result<()> {
    let nodes = rows.iter().flat_map(|(execution, touched)| {
        let inputs = inputs.get(execution);
        touched.changes.nodes.iter().map(move |(path, change)| {
            let input = inputs.and_then(|inputs| inputs.get(path)).map(String::as_bytes);
            NodeRow { execution: *execution, path, change, input }
        })
    });
    let (mut piece, mut bytes) = (Vec::new(), 0);
    for node in nodes {
        bytes += node.bytes();
        piece.push(node);
        if bytes >= bytes_max {
            write_piece(db, &piece).await?;
            (piece, bytes) = (Vec::new(), 0);
        }
    }
    write_piece(db, &piece).await
}

async fn write_piece(db: &mut Connection, nodes: &[NodeRow<'_>]) -> Result<()> {
    if nodes.is_empty() {
        return Ok(());
    }
    let own: Params<'_> = &[
        &nodes.iter().map(|node| node.execution).collect::<Vec<_>>(),
        &nodes.iter().map(|node| name_hash(node.path.as_bytes())).collect::<Vec<_>>(),
        &nodes.iter().map(|node| node.path.as_bytes()).collect::<Vec<_>>(),
        &nodes.iter().map(|node| node.input).collect::<Vec<_>>(),
    ];
    let columns = arrays(&NODE, &nodes.iter().map(|node| node.change).collect::<Vec<_>>());
    db.execute(&queries::NODES_UPSERT, &parameters(own, &columns)).await?;
    Ok(())
}

/// Columns of waits that are over.
#[derive(Default)]
struct Closes {
    executions: Vec<i64>,
    nodes: Vec<Option<i64>>,
    ends: Vec<i16>,
    times: Vec<i64>,
}

impl Closes {
    fn push(&mut self, execution: i64, path: Option<&str>, closed: Closed) {
        self.executions.push(execution);
        self.nodes.push(path.map(|path| name_hash(path.as_bytes())));
        self.ends.push(closed.end as i16);
        self.times.push(closed.at.0);
    }

    async fn write(&self, db: &mut Connection) -> Result<()> {
        if self.executions.is_empty() {
            return Ok(());
        }
        let Self { executions, nodes, ends, times } = self;
        db.execute(sql!("waits_close"), &[executions, nodes, ends, times]).await?;
        Ok(())
    }
}

async fn write_waits(db: &mut Connection, rows: &[(i64, &Touched)]) -> Result<()> {
    let waiting = rows.iter().filter(|(_, touched)| !touched.changes.waits.is_empty());
    let all: Vec<(i64, bool, Waits<'_>)> = waiting
        .map(|(e, touched)| (*e, touched.known, Waits::of(&touched.changes.waits)))
        .collect();
    let (mut of_nodes, mut of_executions) = (Closes::default(), Closes::default());
    // An execution that had no rows has none to close.
    for (execution, _, waits) in all.iter().filter(|(_, known, _)| *known) {
        for (path, closed) in &waits.closed {
            of_nodes.push(*execution, Some(path), *closed);
        }
        if let Some(closed) = waits.all_closed {
            of_executions.push(*execution, None, closed);
        }
    }
    // In this order: a wait closed by its node's own end is not open for the end of all.
    of_nodes.write(db).await?;
    of_executions.write(db).await?;
    let opened = || all.iter().flat_map(|(e, _, waits)| waits.opened.iter().map(|o| (*e, o)));
    if opened().next().is_none() {
        return Ok(());
    }
    let seqs: Result<Vec<i64>, _> = opened().map(|(_, o)| to_stored(o.stamp.seq)).collect();
    let hash = |path: &str| name_hash(path.as_bytes());
    db.execute(
        sql!("waits_open"),
        &[
            &opened().map(|(execution, _)| execution).collect::<Vec<_>>(),
            &seqs?,
            &opened().map(|(_, o)| hash(o.path)).collect::<Vec<_>>(),
            &opened().map(|(_, o)| o.stamp.at.0).collect::<Vec<_>>(),
            &opened().map(|(_, o)| o.closed.map(|c| c.at.0)).collect::<Vec<_>>(),
            &opened().map(|(_, o)| millis(WaitTerms::of(o.wait).resume_at)).collect::<Vec<_>>(),
            &opened().map(|(_, o)| millis(WaitTerms::of(o.wait).expires_at)).collect::<Vec<_>>(),
            &opened().map(|(_, o)| o.closed.map_or(0, |c| c.end as i16)).collect::<Vec<_>>(),
            &opened().map(|(_, o)| WaitTerms::of(o.wait).kind).collect::<Vec<_>>(),
            &opened().map(|(_, o)| o.path.as_bytes()).collect::<Vec<_>>(),
            &opened().map(|(_, o)| detail(o.wait)).collect::<Vec<_>>(),
        ],
    )
    .await?;
    Ok(())
}

fn detail(wait: &Wait) -> Option<Vec<u8>> {
    WaitDetail::text_of(wait).map(String::into_bytes)
}

async fn write_documents(db: &mut Connection, rows: &[(i64, &Touched)]) -> Result<()> {
    let (executions, documents): (Vec<i64>, Vec<Vec<u8>>) = rows
        .iter()
        .filter_map(|(execution, touched)| {
            let created = touched.changes.created.as_ref().filter(|_| !touched.known);
            Some((*execution, document::of(created, &touched.changes)?))
        })
        .unzip();
    if !executions.is_empty() {
        db.execute(sql!("documents_write"), &[&executions, &documents]).await?;
    }
    Ok(())
}

fn millis(time: Option<Timestamp>) -> Option<i64> {
    time.map(|time| time.0)
}
