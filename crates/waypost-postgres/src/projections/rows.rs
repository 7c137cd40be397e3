//! Reading what rows are made from, and making them: by whoever writes projections, on any connection.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Deserialize;
use tokio_postgres::Row;
use waypost_core::id::DefinitionHash;
use waypost_core::json::Json;
use waypost_core::projection::ExecutionView;
use waypost_core::status::Status;
use waypost_core::time::Timestamp;

use super::fold::{Base, Folded, Touched};
use super::queue::Frame;
use super::write::{Documents, write};
use super::{name_hash, queries};
use crate::connection::Connection;
use crate::error::DbError;
use crate::options::Families;
use crate::text::{count, get, is_intact, narrow, text_or_none, to_stored};

/// Frames that are read at a time.
pub(super) const FRAMES_AT_ONCE: i64 = 5_000;

/// Makes rows. Remembers which definitions it has seen.
pub(super) struct Rows {
    families: Families,
    definitions: HashSet<DefinitionHash>,
    pub(super) documents: Documents,
    /// Frames that could not be read.
    skipped: Arc<AtomicU64>,
}

/// A node as a definition's canonical form has it.
#[derive(Deserialize)]
struct CanonicalNode {
    id: String,
    #[serde(rename = "type")]
    kind: Option<String>,
    label: Option<String>,
    #[serde(rename = "registryId")]
    registry: Option<String>,
    config: Option<Json>,
}

#[derive(Deserialize)]
struct Canonical {
    #[serde(default)]
    nodes: Vec<CanonicalNode>,
}

impl Rows {
    pub(super) fn new(families: Families, skipped: Arc<AtomicU64>) -> Self {
        let definitions = HashSet::new();
        Self { families, definitions, documents: Documents::Written, skipped }
    }

    /// Takes a frame into what a round touches.
    pub(super) fn fold(&mut self, touched: &mut Touched, frame: &Frame) -> Folded {
        let folded = touched.fold(frame);
        if folded == Folded::Unreadable {
            self.skipped.fetch_add(1, Ordering::Relaxed);
            let (execution, seq) = (frame.execution, frame.first_seq);
            tracing::warn!(execution, seq, "frame left out of the projections");
        }
        folded
    }

    /// Writes changes in a transaction of their own; gives the executions whose rows were written.
    pub(super) async fn write(
        &mut self,
        connection: &mut Connection,
        batch: &BTreeMap<i64, Touched>,
    ) -> Result<BTreeSet<i64>, DbError> {
        self.add_definitions(connection, batch).await?;
        connection.begin().await?;
        let written = write(connection, batch, self.documents).await?;
        connection.commit().await?;
        Ok(written)
    }

    /// Forgets the rows of executions and derives them again from their whole logs, in one transaction.
    /// Whoever goes on from the old rows is refused. Gives the number of frames.
    pub(super) async fn derive_again(
        &mut self,
        connection: &mut Connection,
        executions: &[i64],
    ) -> Result<u64, DbError> {
        connection.begin().await?;
        // First these, which locks them: the log that is read after that is at least as new.
        for sql in [
            queries::EXECUTIONS_FORGET,
            queries::NODES_FORGET,
            queries::WAITS_FORGET,
            queries::DOCUMENTS_FORGET,
        ] {
            connection.execute(sql, &[&executions]).await?;
        }
        let mut batch: BTreeMap<i64, Touched> =
            executions.iter().map(|e| (*e, Touched::on(Base::default()))).collect();
        let frames = self.fold_log(connection, &mut batch).await?;
        self.add_definitions(connection, &batch).await?;
        write(connection, &batch, self.documents).await?;
        connection.commit().await?;
        Ok(frames)
    }

    /// Takes in everything that the log has beyond what rows show. Gives the number of frames.
    async fn fold_log(
        &mut self,
        connection: &mut Connection,
        batch: &mut BTreeMap<i64, Touched>,
    ) -> Result<u64, DbError> {
        let mut total = 0;
        let mut from = i64::MIN;
        loop {
            let behind = batch.range(from..).map(|(e, touched)| (*e, touched.projected));
            let frames = read_log(connection, behind).await?;
            for frame in &frames {
                if let Some(touched) = batch.get_mut(&frame.execution) {
                    self.fold(touched, frame);
                }
            }
            total += frames.len() as u64;
            match frames.last() {
                Some(last) if frames.len() as u64 == FRAMES_AT_ONCE.unsigned_abs() => {
                    from = last.execution;
                }
                _ => return Ok(total),
            }
        }
    }

    /// Takes what the views show of nodes from definitions, once for all executions of them.
    async fn add_definitions(
        &mut self,
        connection: &mut Connection,
        batch: &BTreeMap<i64, Touched>,
    ) -> Result<(), DbError> {
        let created = batch.values().filter_map(|touched| touched.changes.created.as_ref());
        let new: BTreeSet<[u8; 32]> = created
            .map(|created| created.run.definition)
            .filter(|hash| !self.definitions.contains(hash))
            .map(|hash| hash.0)
            .collect();
        for hash in new {
            let stored =
                connection.query_opt(queries::DEFINITION_CANONICAL, &[&hash.as_slice()]).await?;
            let Some(stored) = stored else { continue };
            let canonical: &[u8] = get(&stored, 0)?;
            let Canonical { nodes } =
                serde_json::from_slice(canonical).unwrap_or(Canonical { nodes: Vec::new() });
            let families = Arc::clone(&self.families);
            let family = |node: &CanonicalNode| {
                node.kind.as_deref().and_then(|kind| families(kind)).map(|family| family.name())
            };
            let bytes = |of: fn(&CanonicalNode) -> Option<&str>| -> Vec<Option<&[u8]>> {
                nodes.iter().map(|node| of(node).map(str::as_bytes)).collect()
            };
            connection
                .execute(
                    queries::DEFINITION_NODES_ADD,
                    &[
                        &hash.as_slice(),
                        &nodes.iter().map(|n| name_hash(n.id.as_bytes())).collect::<Vec<_>>(),
                        &bytes(|node| node.label.as_deref()),
                        &nodes.iter().map(family).collect::<Vec<_>>(),
                        &bytes(|node| node.kind.as_deref()),
                        &bytes(|node| node.registry.as_deref()),
                        &bytes(|node| node.config.as_ref().map(Json::text)),
                    ],
                )
                .await?;
            self.definitions.insert(DefinitionHash(hash));
        }
        Ok(())
    }
}

/// The frames of executions after what their rows show, by execution and seq; not all where there are
/// many.
pub(super) async fn read_log(
    connection: &mut Connection,
    behind: impl Iterator<Item = (i64, u64)>,
) -> Result<Vec<Frame>, DbError> {
    let (mut executions, mut projected) = (Vec::new(), Vec::new());
    for (execution, shown) in behind {
        executions.push(execution);
        projected.push(to_stored(shown)?);
    }
    let rows = connection
        .query(queries::FRAMES_AFTER, &[&executions, &projected, &FRAMES_AT_ONCE])
        .await?;
    rows.iter().map(read_frame).collect()
}

fn read_frame(row: &Row) -> Result<Frame, DbError> {
    let body: &[u8] = get(row, 5)?;
    Ok(Frame {
        execution: get(row, 0)?,
        first_seq: count(row, 1)?,
        last_seq: count(row, 2)?,
        at: Timestamp(get(row, 3)?),
        body: is_intact(body, get(row, 4)?).then(|| body.to_vec()),
    })
}

/// Where the rows of executions stand; those that have none are left out.
pub(super) async fn load_bases(
    connection: &mut Connection,
    executions: &[i64],
) -> Result<HashMap<i64, Base>, DbError> {
    let rows = connection.query(queries::EXECUTION_VIEWS, &[&executions]).await?;
    let base = |row: &Row| {
        let base = Base { projected: count(row, 1)?, view: read_view(row)?, known: true };
        Ok((get(row, 0)?, base))
    };
    rows.iter().map(base).collect()
}

/// The view in a row of `execution_views`.
pub(super) fn read_view(row: &Row) -> Result<ExecutionView, DbError> {
    Ok(ExecutionView {
        seq: count(row, 2)?,
        status: status(row, 3)?,
        generation: narrow(row, 4)?,
        epoch: narrow(row, 5)?,
        started_at: time(row, 6)?,
        completed_at: time(row, 7)?,
        updated_at: Timestamp(get(row, 8)?),
        resumed_at: time(row, 9)?,
        resumed_by: text_or_none(row, 10)?,
        nodes_executed: count(row, 11)?,
        current_node: text_or_none(row, 12)?,
        waited: get(row, 13)?,
        error: text_or_none(row, 14)?.map(|error| error.to_string()),
    })
}

/// A time that may be missing.
pub(super) fn time(row: &Row, column: usize) -> Result<Option<Timestamp>, DbError> {
    Ok(get::<Option<i64>>(row, column)?.map(Timestamp))
}

/// The status of an execution in a column.
pub(super) fn status(row: &Row, column: usize) -> Result<Status, DbError> {
    let code: i16 = get(row, column)?;
    let status = usize::try_from(code).ok().and_then(|code| Status::ALL.get(code));
    status.copied().ok_or_else(|| DbError::Corrupt(format!("{code} is no status")))
}
