//! From changes to rows: arrays for a handful of statements, whatever the number of rows.

use std::collections::{BTreeMap, BTreeSet};

use waypost_core::event::Wait;
use waypost_core::failure::Failure;
use waypost_core::json::Json;
use waypost_core::projection::{Changes, NodeChange, Retry, WaitEnd};
use waypost_core::status::NodeStatus;
use waypost_core::time::Timestamp;

use super::fold::{Closed, Touched, Waits};
use super::{document, name_hash, queries};
use crate::connection::Connection;
use crate::error::DbError;
use crate::text::{get, to_stored};

/// Are documents written? Not in a second try after the database refused something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Documents {
    Written,
    LeftOut,
}

/// Writes changes inside of a transaction, and gives the executions whose rows were written. Where
/// somebody else was faster nothing is. Nodes, of which one execution can have more than a statement can
/// carry, go in pieces of about `bytes`.
pub(super) async fn write(
    connection: &mut Connection,
    batch: &BTreeMap<i64, Touched>,
    documents: Documents,
    bytes: usize,
) -> Result<BTreeSet<i64>, DbError> {
    // First what exists, then what does not, each in the order of their keys, as whoever derives rows again
    // does: they wait for each other, and not both at once.
    let mut written = update(connection, batch).await?;
    written.append(&mut insert(connection, batch).await?);
    let rows =
        || batch.iter().filter(|(execution, _)| written.contains(*execution)).map(|(e, t)| (*e, t));
    write_nodes(connection, rows(), bytes).await?;
    write_waits(connection, rows()).await?;
    if documents == Documents::Written {
        write_documents(connection, rows()).await?;
    }
    Ok(written)
}

type Bytes<'a> = Option<&'a [u8]>;

/// Rows of executions that have none.
async fn insert(
    connection: &mut Connection,
    batch: &BTreeMap<i64, Touched>,
) -> Result<BTreeSet<i64>, DbError> {
    let new = batch.iter().filter(|(_, touched)| !touched.known && touched.is_visible());
    let new: Vec<_> = new.filter_map(|(e, t)| Some((*e, t, t.changes.created.as_ref()?))).collect();
    if new.is_empty() {
        return Ok(BTreeSet::new());
    }
    let numbers =
        |of: fn(&Touched) -> i64| -> Vec<i64> { new.iter().map(|row| of(row.1)).collect() };
    let times = |of: fn(&Changes) -> Option<Timestamp>| -> Vec<Option<i64>> {
        new.iter().map(|(_, touched, _)| of(&touched.changes).map(|time| time.0)).collect()
    };
    let seqs = |of: fn(&Touched) -> u64| -> Result<Vec<i64>, DbError> {
        new.iter().map(|(_, touched, _)| to_stored(of(touched))).collect()
    };
    let runs = || new.iter().map(|(_, _, created)| &created.run);
    let labels = runs().map(|run| (!run.labels.is_empty()).then(|| json(&run.labels)));
    let workflows = || runs().map(|run| run.workflow.as_bytes());
    let changes = || new.iter().map(|(_, touched, _)| &touched.changes);
    let rows = connection
        .query(
            queries::EXECUTION_INSERT,
            &[
                &new.iter().map(|row| row.0).collect::<Vec<_>>(),
                &seqs(|touched| touched.projected)?,
                &seqs(|touched| touched.changes.view.seq)?,
                &workflows().map(name_hash).collect::<Vec<_>>(),
                &seqs(|touched| touched.changes.view.nodes_executed)?,
                &new.iter().map(|(_, _, created)| created.at.0).collect::<Vec<_>>(),
                &numbers(|touched| touched.changes.view.updated_at.0),
                &times(|changes| changes.view.started_at),
                &times(|changes| changes.view.completed_at),
                &times(|changes| changes.view.resumed_at),
                &runs().map(|run| run.deadline.map(|time| time.0)).collect::<Vec<_>>(),
                &runs().map(|run| i64::from(run.version)).collect::<Vec<_>>(),
                &numbers(|touched| i64::from(touched.changes.view.generation)),
                &numbers(|touched| i64::from(touched.changes.view.epoch)),
                &changes().map(|changes| changes.view.status as i16).collect::<Vec<_>>(),
                &changes().map(|changes| changes.view.waited).collect::<Vec<_>>(),
                &runs().map(|run| run.definition.0.as_slice()).collect::<Vec<_>>(),
                &runs().map(|run| run.key.as_str().as_bytes()).collect::<Vec<_>>(),
                &workflows().collect::<Vec<_>>(),
                &changes().map(current_node).collect::<Vec<_>>(),
                &changes().map(resumed_by).collect::<Vec<_>>(),
                &changes().map(error).collect::<Vec<_>>(),
                &changes().map(failure).collect::<Vec<_>>(),
                &labels.collect::<Vec<_>>(),
                &runs().map(|run| run.input.text().as_bytes()).collect::<Vec<_>>(),
                &changes().map(output).collect::<Vec<_>>(),
            ],
        )
        .await?;
    rows.iter().map(|row| get(row, 0)).collect()
}

/// Rows of executions that have one.
async fn update(
    connection: &mut Connection,
    batch: &BTreeMap<i64, Touched>,
) -> Result<BTreeSet<i64>, DbError> {
    let known = || batch.iter().filter(|(_, touched)| touched.known && touched.is_visible());
    if known().next().is_none() {
        return Ok(BTreeSet::new());
    }
    let since: Result<Vec<i64>, _> = known().map(|(_, t)| to_stored(t.since)).collect();
    let executions: Vec<i64> = known().map(|(execution, _)| *execution).collect();
    let rows = connection.query(queries::EXECUTION_LOCK, &[&executions, &since?]).await?;
    let locked = rows.iter().map(|row| get(row, 0)).collect::<Result<BTreeSet<i64>, _>>()?;
    let rows: Vec<&Touched> =
        known().filter(|(execution, _)| locked.contains(execution)).map(|(_, t)| t).collect();
    let executions: Vec<i64> = locked.iter().copied().collect();
    let seqs = |of: fn(&Touched) -> u64| -> Result<Vec<i64>, DbError> {
        rows.iter().map(|touched| to_stored(of(touched))).collect()
    };
    let times = |of: fn(&Changes) -> Option<Timestamp>| -> Vec<Option<i64>> {
        rows.iter().map(|touched| of(&touched.changes).map(|time| time.0)).collect()
    };
    let changes = || rows.iter().map(|touched| &touched.changes);
    connection
        .execute(
            queries::EXECUTION_UPDATE,
            &[
                &executions,
                &seqs(|touched| touched.projected)?,
                &seqs(|touched| touched.changes.view.seq)?,
                &seqs(|touched| touched.changes.view.nodes_executed)?,
                &times(|changes| Some(changes.view.updated_at)),
                &times(|changes| changes.view.started_at),
                &times(|changes| changes.view.completed_at),
                &times(|changes| changes.view.resumed_at),
                &seqs(|touched| u64::from(touched.changes.view.generation))?,
                &seqs(|touched| u64::from(touched.changes.view.epoch))?,
                &changes().map(|changes| changes.view.status as i16).collect::<Vec<_>>(),
                &changes().map(|changes| changes.view.waited).collect::<Vec<_>>(),
                &changes().map(current_node).collect::<Vec<_>>(),
                &changes().map(resumed_by).collect::<Vec<_>>(),
                &changes().map(error).collect::<Vec<_>>(),
                &changes().map(|changes| changes.end.is_some()).collect::<Vec<_>>(),
                &changes().map(failure).collect::<Vec<_>>(),
                &changes().map(output).collect::<Vec<_>>(),
            ],
        )
        .await?;
    Ok(locked)
}

/// What changed in the row of a node.
struct NodeRow<'a> {
    execution: i64,
    path: &'a str,
    change: &'a NodeChange,
    failure: Option<Vec<u8>>,
    retries: Option<Vec<u8>>,
}

impl<'a> NodeRow<'a> {
    fn of(execution: i64, path: &'a str, change: &'a NodeChange) -> Self {
        let retries = change.retries.iter().map(json::<Retry>).collect::<Vec<_>>();
        Self {
            execution,
            path,
            change,
            failure: change.failure.as_ref().map(json::<Failure>),
            retries: (!retries.is_empty()).then(|| retries.join(&b',')),
        }
    }

    fn output(&self) -> Bytes<'_> {
        self.change.output.as_ref().map(json_bytes)
    }

    fn bytes(&self) -> usize {
        let parts = [self.output(), self.failure.as_deref(), self.retries.as_deref()];
        parts.iter().flatten().map(|part| part.len()).sum::<usize>() + self.path.len()
    }
}

async fn write_nodes<'a>(
    connection: &mut Connection,
    rows: impl Iterator<Item = (i64, &'a Touched)>,
    bytes_max: usize,
) -> Result<(), DbError> {
    let nodes = rows.flat_map(|(execution, touched)| {
        let changes = touched.changes.nodes.iter();
        changes.map(move |(path, change)| NodeRow::of(execution, path, change))
    });
    let (mut piece, mut bytes) = (Vec::new(), 0);
    for node in nodes {
        bytes += node.bytes();
        piece.push(node);
        if bytes >= bytes_max {
            write_piece(connection, &piece).await?;
            (piece, bytes) = (Vec::new(), 0);
        }
    }
    write_piece(connection, &piece).await
}

async fn write_piece(connection: &mut Connection, nodes: &[NodeRow<'_>]) -> Result<(), DbError> {
    if nodes.is_empty() {
        return Ok(());
    }
    let changes = || nodes.iter().map(|node| node.change);
    let status = |change: &NodeChange| change.status.unwrap_or(NodeStatus::Pending) as i16;
    connection
        .execute(
            queries::NODES_UPSERT,
            &[
                &nodes.iter().map(|node| node.execution).collect::<Vec<_>>(),
                &nodes.iter().map(|node| name_hash(node.path.as_bytes())).collect::<Vec<_>>(),
                &changes().map(|change| change.attempt.map(i64::from)).collect::<Vec<_>>(),
                &changes().map(|change| millis(change.started_at)).collect::<Vec<_>>(),
                &changes().map(|change| millis(change.completed_at)).collect::<Vec<_>>(),
                &changes().map(status).collect::<Vec<_>>(),
                &nodes.iter().map(|node| node.path.as_bytes()).collect::<Vec<_>>(),
                &changes().map(|c| c.branch.as_deref().map(str::as_bytes)).collect::<Vec<_>>(),
                &nodes.iter().map(NodeRow::output).collect::<Vec<_>>(),
                &nodes.iter().map(|node| node.failure.as_deref()).collect::<Vec<_>>(),
                &nodes.iter().map(|node| node.retries.as_deref()).collect::<Vec<_>>(),
            ],
        )
        .await?;
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
        self.ends.push(end_code(closed.end));
        self.times.push(closed.at.0);
    }

    async fn write(&self, connection: &mut Connection) -> Result<(), DbError> {
        if self.executions.is_empty() {
            return Ok(());
        }
        let Self { executions, nodes, ends, times } = self;
        connection.execute(queries::WAITS_CLOSE, &[executions, nodes, ends, times]).await?;
        Ok(())
    }
}

async fn write_waits<'a>(
    connection: &mut Connection,
    rows: impl Iterator<Item = (i64, &'a Touched)>,
) -> Result<(), DbError> {
    let waiting = rows.filter(|(_, touched)| !touched.changes.waits.is_empty());
    let all: Vec<(i64, bool, Waits<'_>)> = waiting
        .map(|(execution, touched)| (execution, touched.known, Waits::of(&touched.changes.waits)))
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
    // In this order: what a node's own end closed is not open for the end of all.
    of_nodes.write(connection).await?;
    of_executions.write(connection).await?;
    let opened = || all.iter().flat_map(|(e, _, waits)| waits.opened.iter().map(|o| (*e, o)));
    if opened().next().is_none() {
        return Ok(());
    }
    let seqs: Result<Vec<i64>, _> = opened().map(|(_, o)| to_stored(o.stamp.seq)).collect();
    let hash = |path: &str| name_hash(path.as_bytes());
    connection
        .execute(
            queries::WAITS_OPEN,
            &[
                &opened().map(|(execution, _)| execution).collect::<Vec<_>>(),
                &seqs?,
                &opened().map(|(_, o)| hash(o.path)).collect::<Vec<_>>(),
                &opened().map(|(_, o)| o.stamp.at.0).collect::<Vec<_>>(),
                &opened().map(|(_, o)| o.closed.map(|c| c.at.0)).collect::<Vec<_>>(),
                &opened().map(|(_, o)| millis(terms(o.wait).1)).collect::<Vec<_>>(),
                &opened().map(|(_, o)| millis(terms(o.wait).2)).collect::<Vec<_>>(),
                &opened().map(|(_, o)| o.closed.map_or(0, |c| end_code(c.end))).collect::<Vec<_>>(),
                &opened().map(|(_, o)| terms(o.wait).0).collect::<Vec<_>>(),
                &opened().map(|(_, o)| o.path.as_bytes()).collect::<Vec<_>>(),
            ],
        )
        .await?;
    Ok(())
}

async fn write_documents<'a>(
    connection: &mut Connection,
    rows: impl Iterator<Item = (i64, &'a Touched)>,
) -> Result<(), DbError> {
    let (executions, documents): (Vec<i64>, Vec<Vec<u8>>) = rows
        .filter_map(|(execution, touched)| {
            let created = touched.changes.created.as_ref().filter(|_| !touched.known);
            Some((execution, document::of(created, &touched.changes)?))
        })
        .unzip();
    if !executions.is_empty() {
        connection.execute(queries::DOCUMENTS_WRITE, &[&executions, &documents]).await?;
    }
    Ok(())
}

/// What a wait is for, when time ends it, and when it is given up.
fn terms(wait: &Wait) -> (&'static str, Option<Timestamp>, Option<Timestamp>) {
    match wait {
        Wait::Delay { due } => ("DELAY", Some(*due), None),
        Wait::Signal { due, .. } => ("WAIT_EVENTS", None, *due),
        Wait::Retry { due } => ("RETRY", Some(*due), None),
    }
}

fn end_code(end: WaitEnd) -> i16 {
    match end {
        WaitEnd::Completed => 1,
        WaitEnd::Timeout => 2,
        WaitEnd::Failed => 3,
    }
}

fn current_node(changes: &Changes) -> Bytes<'_> {
    changes.view.current_node.as_deref().map(str::as_bytes)
}

fn resumed_by(changes: &Changes) -> Bytes<'_> {
    changes.view.resumed_by.as_deref().map(str::as_bytes)
}

fn error(changes: &Changes) -> Bytes<'_> {
    changes.view.error.as_deref().map(str::as_bytes)
}

fn failure(changes: &Changes) -> Option<Vec<u8>> {
    changes.end.as_ref().and_then(|end| end.failure.as_ref()).map(json::<Failure>)
}

fn output(changes: &Changes) -> Bytes<'_> {
    changes.end.as_ref().and_then(|end| end.output.as_ref()).map(json_bytes)
}

fn json_bytes(json: &Json) -> &[u8] {
    json.text().as_bytes()
}

fn millis(time: Option<Timestamp>) -> Option<i64> {
    time.map(|time| time.0)
}

fn json<T: serde::Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("these values always serialise: their keys are strings")
}
