//! Reading logs and rows, and writing rows: for the projector and for repairs, on any connection.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio_postgres::Row;
use waypost_core::id::DefinitionHash;
use waypost_core::json::Json;
use waypost_core::projection::columns::VIEW;
use waypost_core::projection::{CanonicalNode, canonical_nodes};
use waypost_core::time::Timestamp;

use super::fold::{Base, Folded, Touched};
use super::inputs::RenderedTasks;
use super::portion::Portion;
use super::queries::{self, sql};
use super::queue::Frame;
use super::write::{Documents, write};
use super::{cells, name_hash};
use crate::connection::{Connection, Params};
use crate::error::Result;
use crate::options::Families;
use crate::text::{array, count, get, is_intact, limit, narrow, to_stored};

pub(super) struct Rows {
    families: Families,
    /// Definitions whose nodes are stored. To be forgotten where that may have been undone.
    pub(super) definitions: HashSet<DefinitionHash>,
    pub(super) documents: Documents,
    pub(super) portion: Portion,
    inputs: RenderedTasks,
    /// Frames that could not be read.
    skipped: Arc<AtomicU64>,
}

struct Derived {
    frames: u64,
    /// Executions that had no rows at first, until another process wrote them.
    refused: Vec<i64>,
}

impl Rows {
    pub(super) fn new(families: Families, skipped: Arc<AtomicU64>) -> Self {
        let (definitions, portion) = (HashSet::new(), Portion::FULL);
        let (documents, inputs) = (Documents::Written, RenderedTasks::default());
        Self { families, definitions, documents, portion, inputs, skipped }
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

    /// Writes changes in a transaction of their own; returns the executions whose rows were
    /// written.
    pub(super) async fn write(
        &mut self,
        db: &mut Connection,
        batch: &BTreeMap<i64, Touched>,
    ) -> Result<BTreeSet<i64>> {
        self.add_definitions(db, batch).await?;
        db.begin().await?;
        let inputs = self.inputs.render(db, &*self.families, batch, self.portion).await?;
        let written = write(db, batch, &inputs, self.documents, self.portion.bytes).await?;
        db.commit().await?;
        Ok(written)
    }

    /// Deletes the rows of executions and derives them again from their whole logs, each in one
    /// transaction, small ones together. A process that continues from the old rows is rejected.
    /// Returns the number of frames.
    pub(super) async fn derive_again(
        &mut self,
        db: &mut Connection,
        executions: &[i64],
    ) -> Result<u64> {
        let mut frames = 0;
        let mut rest = executions;
        while !rest.is_empty() {
            let portion = self.portion;
            let some = first_of(db, rest.iter().map(|e| (*e, 0)), portion).await?;
            let (now, later) = rest.split_at(some);
            let mut left = now.to_vec();
            // Another process may have written rows from a shorter log: once more, from its rows.
            while !left.is_empty() {
                let derived = self.derive_some(db, &left).await;
                let derived = derived.inspect_err(|_| self.definitions.clear())?;
                frames += derived.frames;
                left = derived.refused;
            }
            rest = later;
        }
        Ok(frames)
    }

    async fn derive_some(&mut self, db: &mut Connection, executions: &[i64]) -> Result<Derived> {
        db.begin().await?;
        // First these, which locks them: the log that is read after that is at least as new.
        for sql in [
            sql!("executions_forget"),
            sql!("nodes_forget"),
            sql!("waits_forget"),
            sql!("variables_forget"),
            sql!("documents_forget"),
        ] {
            db.execute(sql, &[&executions]).await?;
        }
        let mut batch: BTreeMap<i64, Touched> =
            executions.iter().map(|e| (*e, Touched::on(Base::default()))).collect();
        let frames = self.fold_log(db, &mut batch).await?;
        self.add_definitions(db, &batch).await?;
        let inputs = self.inputs.render(db, &*self.families, &batch, self.portion).await?;
        let written = write(db, &batch, &inputs, self.documents, self.portion.bytes).await?;
        db.commit().await?;
        batch.retain(|execution, touched| touched.is_visible() && !written.contains(execution));
        Ok(Derived { frames, refused: batch.into_keys().collect() })
    }

    /// Folds everything that the log has beyond the rows. Returns the number of frames.
    async fn fold_log(
        &mut self,
        db: &mut Connection,
        batch: &mut BTreeMap<i64, Touched>,
    ) -> Result<u64> {
        let mut total = 0;
        let mut from = i64::MIN;
        loop {
            let behind = batch.range(from..).map(|(e, touched)| (*e, touched.projected));
            let page = read_log(db, behind, self.portion).await?;
            for frame in &page.frames {
                if let Some(touched) = batch.get_mut(&frame.execution) {
                    self.fold(touched, frame);
                }
            }
            total += page.frames.len() as u64;
            match page.next(batch) {
                Some(execution) => from = execution,
                None => return Ok(total),
            }
        }
    }

    /// Takes the node columns of the views from definitions, once for all executions of them.
    async fn add_definitions(
        &mut self,
        db: &mut Connection,
        batch: &BTreeMap<i64, Touched>,
    ) -> Result<()> {
        let created = batch.values().filter_map(|touched| touched.changes.created.as_ref());
        let new: BTreeSet<[u8; 32]> = created
            .map(|created| created.run.definition)
            .filter(|hash| !self.definitions.contains(hash))
            .map(|hash| hash.0)
            .collect();
        for hash in new {
            let read = |row: &Row| get(row, 0).map(canonical_nodes);
            let nodes =
                db.query_opt(sql!("definition_canonical"), &[&hash.as_slice()], read).await?;
            let Some(nodes) = nodes else { continue };
            let families = &self.families;
            let family =
                |node: &CanonicalNode| Some(families.family(node.kind.as_deref()?)?.name());
            let bytes = |of: fn(&CanonicalNode) -> Option<&str>| -> Vec<Option<&[u8]>> {
                nodes.iter().map(|node| of(node).map(str::as_bytes)).collect()
            };
            db.execute(
                sql!("definition_nodes_add"),
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

/// Frames by execution and seq.
pub(super) struct Page {
    pub(super) frames: Vec<Frame>,
    /// There may be more of this execution, and of those after it.
    pub(super) cut_in: Option<i64>,
}

impl Page {
    /// The execution to continue from, after these frames were folded. One of which none could be,
    /// because earlier ones are missing, is done.
    pub(super) fn next(&self, batch: &BTreeMap<i64, Touched>) -> Option<i64> {
        let cut = self.cut_in?;
        let last = self.frames.last().map(|frame| frame.last_seq);
        let is_taken = batch.get(&cut).is_some_and(|touched| Some(touched.projected) == last);
        Some(if is_taken { cut } else { cut + 1 })
    }
}

/// The frames of executions after what their rows show; a portion of them.
pub(super) async fn read_log(
    db: &mut Connection,
    behind: impl Iterator<Item = (i64, u64)>,
    portion: Portion,
) -> Result<Page> {
    let (executions, projected) = columns(behind)?;
    let (frames_max, bytes_max) = (limit(portion.frames), limit(portion.bytes));
    let params: Params<'_> = &[&executions, &projected, &frames_max, &bytes_max];
    let rows = db.query(sql!("frames_after"), params).await?;
    let mut bytes = 0;
    for row in &rows {
        bytes += get::<&[u8]>(row, 5)?.len();
    }
    let frames = rows.iter().map(read_frame).collect::<Result<Vec<_>, _>>()?;
    let is_cut = frames.len() >= portion.frames || bytes >= portion.bytes;
    let cut_in = frames.last().filter(|_| is_cut).map(|frame| frame.execution);
    Ok(Page { frames, cut_in })
}

/// How many executions, from the first on, make a portion; at least one, which may be more than that.
pub(super) async fn first_of(
    db: &mut Connection,
    behind: impl Iterator<Item = (i64, u64)>,
    portion: Portion,
) -> Result<usize> {
    let (executions, projected) = columns(behind.take(portion.executions))?;
    if executions.len() <= 1 {
        return Ok(executions.len());
    }
    let (frames_max, bytes_max) = (limit(portion.frames), limit(portion.bytes));
    let params: Params<'_> = &[&executions, &projected, &frames_max, &bytes_max];
    let row = db.query_one(sql!("frames_portion"), params).await?;
    Ok(narrow::<usize>(&row, 0)?.clamp(1, executions.len()))
}

fn columns(behind: impl Iterator<Item = (i64, u64)>) -> Result<(Vec<i64>, Vec<i64>)> {
    let (mut executions, mut projected) = (Vec::new(), Vec::new());
    for (execution, shown) in behind {
        executions.push(execution);
        projected.push(to_stored(shown)?);
    }
    Ok((executions, projected))
}

fn read_frame(row: &Row) -> Result<Frame> {
    let body: &[u8] = get(row, 5)?;
    Ok(Frame {
        execution: get(row, 0)?,
        first_seq: count(row, 1)?,
        last_seq: count(row, 2)?,
        decided_at: Timestamp(get(row, 3)?),
        body: is_intact(body, get(row, 4)?).then(|| body.to_vec()),
    })
}

/// The projected states of executions; those without rows are left out.
pub(super) async fn load_bases(
    db: &mut Connection,
    executions: &[i64],
) -> Result<HashMap<i64, Base>> {
    let base = |row: &Row| {
        let (execution, projected) = (get(row, VIEW.len())?, count(row, VIEW.len() + 1)?);
        let definition = Some(DefinitionHash(array(row, VIEW.len() + 4)?));
        Ok((execution, Base { projected, view: cells::read(row, &VIEW)?, definition, known: true }))
    };
    db.query_map(&queries::EXECUTION_VIEWS, &[&executions, &false], base).await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Selected again, it would be read for ever.
    #[test]
    fn a_log_without_its_beginning_is_not_asked_for_again() {
        for (first_seq, next) in [(1, 7), (4, 8)] {
            let decided_at = Timestamp(0);
            let last_seq = first_seq;
            let frame = Frame { execution: 7, first_seq, last_seq, decided_at, body: None };
            let mut touched = Touched::on(Base::default());
            touched.fold(&frame);
            let batch = BTreeMap::from([(7, touched)]);
            let page = Page { frames: vec![frame], cut_in: Some(7) };
            assert_eq!(page.next(&batch), Some(next), "{first_seq}");
        }
    }
}
