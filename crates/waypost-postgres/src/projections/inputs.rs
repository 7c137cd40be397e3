//! The inputs of tasks, rendered from logs and plans.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tokio_postgres::Row;
use waypost_core::frame;
use waypost_core::id::{DefinitionHash, ExecutionNo};
use waypost_core::plan::Plan;
use waypost_core::projection::inputs::{Describe, Inputs, Rendered, renders_tasks};

use super::fold::Touched;
use super::portion::Portion;
use super::queries::sql;
use super::queue::Frame;
use super::rows::read_log;
use crate::connection::Connection;
use crate::error::Result;
use crate::text::get;

/// Executions whose tasks are rendered from where the last round ended. Of others the whole log is read.
const INPUTS_MAX: usize = 512;

/// Renders tasks.
#[derive(Default)]
pub(super) struct RenderedTasks {
    /// Nothing where a definition has no tasks to render.
    plans: HashMap<DefinitionHash, Option<Arc<Plan>>>,
    inputs: HashMap<i64, Inputs>,
}

impl RenderedTasks {
    /// The inputs of tasks that changes schedule, by execution.
    pub(super) async fn render(
        &mut self,
        db: &mut Connection,
        definitions: &dyn Describe,
        batch: &BTreeMap<i64, Touched>,
        portion: Portion,
    ) -> Result<HashMap<i64, Rendered>> {
        let mut rendered = HashMap::new();
        let mut folds: BTreeMap<i64, Inputs> = BTreeMap::new();
        let scheduling = batch.iter().filter(|(_, touched)| touched.changes.schedules());
        for (execution, touched) in scheduling {
            let Some(definition) = touched.definition() else { continue };
            let Some(plan) = self.plan(db, definitions, definition).await? else {
                continue;
            };
            // Changes that were written before are derived again from the beginning.
            let kept = self.inputs.remove(execution).filter(|kept| kept.seq() <= touched.since);
            folds.insert(*execution, kept.unwrap_or_else(|| Inputs::new(plan)));
        }
        let mut from = i64::MIN;
        while folds.range(from..).next().is_some() {
            let behind = folds.range(from..).map(|(e, inputs)| (*e, inputs.seq()));
            let page = read_log(db, behind, portion).await?;
            for frame in &page.frames {
                let last = batch.get(&frame.execution).map_or(0, |touched| touched.projected);
                if frame.last_seq <= last
                    && let Some(inputs) = folds.get_mut(&frame.execution)
                    && !fold(inputs, frame, rendered.entry(frame.execution).or_default())
                {
                    folds.remove(&frame.execution);
                }
            }
            // There may be more of the last execution, unless its last frame was not folded.
            let (Some(cut), Some(last)) = (page.cut_in, page.frames.last()) else { break };
            let is_folded = folds.get(&cut).is_some_and(|inputs| inputs.seq() == last.last_seq);
            from = if is_folded { cut } else { cut + 1 };
        }
        self.keep(folds, batch);
        Ok(rendered)
    }

    fn keep(&mut self, folds: BTreeMap<i64, Inputs>, batch: &BTreeMap<i64, Touched>) {
        for (execution, inputs) in folds {
            if batch.get(&execution).is_some_and(|t| !t.changes.view.status.is_end()) {
                if self.inputs.len() >= INPUTS_MAX {
                    self.inputs.clear();
                }
                self.inputs.insert(execution, inputs);
            }
        }
    }

    /// The plan of a definition that has tasks to render.
    async fn plan(
        &mut self,
        db: &mut Connection,
        definitions: &dyn Describe,
        definition: DefinitionHash,
    ) -> Result<Option<Arc<Plan>>> {
        if let Some(plan) = self.plans.get(&definition) {
            return Ok(plan.clone());
        }
        let hash = definition.0.as_slice();
        let read = |row: &Row| Ok(definitions.plan(get(row, 0)?));
        let plan = db.query_opt(sql!("definition_canonical"), &[&hash], read).await?.flatten();
        let plan = plan.filter(renders_tasks).map(Arc::new);
        self.plans.insert(definition, plan.clone());
        Ok(plan)
    }
}

/// Folds a frame; false where it cannot be. Such a log runs no tasks either, and a check reports it.
fn fold(inputs: &mut Inputs, frame: &Frame, rendered: &mut Rendered) -> bool {
    let events = frame.body.as_deref().map(frame::decode);
    let Some(Ok(events)) = events else { return false };
    inputs.fold(ExecutionNo(frame.execution), frame.decided_at, &events, rendered).is_ok()
}
