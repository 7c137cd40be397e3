//! From changes to rows. Values that many rows share (paths, workflows, definitions) are numbered
//! once.

use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use rusqlite::{Connection, OptionalExtension, Statement, params};
use waypost_core::event::RunCreated;
use waypost_core::id::{DefinitionHash, ExecutionNo};
use waypost_core::json::Json;
use waypost_core::plan::Plan;
use waypost_core::projection::columns::{CREATED, Cell, Column, ColumnKind, END, NODE, VIEW};
use waypost_core::projection::inputs::{Inputs, Rendered, renders_tasks};
use waypost_core::projection::{
    Changes, Created, End, WaitChange, WaitDetail, WaitTerms, canonical_nodes,
};
use waypost_core::time::Timestamp;

use super::cells::Param;
use super::projector::{Touched, decode};
use super::queries;
use crate::connection::to_stored;
use crate::definitions;
use crate::options::Families;
use crate::queries::FRAMES_BETWEEN;

/// Paths remembered; a map over many items has a path for each.
const PATHS_MAX: usize = 100_000;

/// Executions whose tasks are rendered from where the last batch ended. Of others the whole log is read.
const INPUTS_MAX: usize = 512;

/// The rows of executions have times of the clock. Those of nodes count from the creation of their
/// execution, which takes 1 to 4 bytes instead of 6.
const ABSOLUTE: Timestamp = Timestamp(0);

/// Numbers that were given to names, remembered.
pub(super) struct Names {
    families: Families,
    paths: HashMap<Arc<str>, i64>,
    definitions: HashMap<DefinitionHash, DefinitionNumbers>,
    /// By the number of the definition; nothing where it has no tasks to render.
    plans: HashMap<i64, Option<Arc<Plan>>>,
    inputs: HashMap<i64, Inputs>,
}

#[derive(Clone, Copy)]
struct DefinitionNumbers {
    definition: i64,
    workflow: i64,
}

impl Names {
    pub(super) fn new(families: Families) -> Self {
        Self {
            families,
            paths: HashMap::new(),
            definitions: HashMap::new(),
            plans: HashMap::new(),
            inputs: HashMap::new(),
        }
    }

    /// Remembers nothing any more.
    pub(super) fn forget(&mut self) {
        self.paths.clear();
        self.definitions.clear();
        self.plans.clear();
        self.inputs.clear();
    }
}

/// A transaction on the rows.
pub(super) struct Rows<'a> {
    pub(super) tx: &'a Connection,
    pub(super) log: &'a Connection,
    pub(super) names: &'a mut Names,
}

impl Rows<'_> {
    /// Writes what changed, table by table and in the order of the keys.
    pub(super) fn write(&mut self, mut batch: BTreeMap<i64, Touched>) -> rusqlite::Result<()> {
        // Without a first event there is nothing to hang changes on: it could not be read.
        batch.retain(|_, touched| touched.row.is_some() || touched.changes.created.is_some());
        // Prepared once for a batch: finding a statement by its text costs as much as binding a row.
        let mut insert = self.tx.prepare_cached(&queries::EXECUTION_INSERT)?;
        let mut update = self.tx.prepare_cached(&queries::EXECUTION_UPDATE)?;
        let mut end = self.tx.prepare_cached(&queries::EXECUTION_END)?;
        for (execution, Touched { changes, .. }) in &batch {
            if let Some(created) = &changes.created {
                self.insert_execution(&mut insert, *execution, created, changes)?;
                continue;
            }
            self.update(&mut update, *execution, &VIEW, &changes.view)?;
            if let Some(ended) = &changes.end {
                self.update(&mut end, *execution, &END, ended)?;
            }
        }
        let mut upsert = self.tx.prepare_cached(&queries::NODE_UPSERT)?;
        for (execution, touched) in &batch {
            self.write_nodes(&mut upsert, *execution, touched)?;
        }
        for (execution, touched) in &batch {
            for change in &touched.changes.waits {
                self.write_wait(*execution, change)?;
            }
            for (name, value) in &touched.changes.variables {
                let mut set = self.tx.prepare_cached(queries::VARIABLE_SET)?;
                set.execute(params![execution, name, value.text()])?;
            }
        }
        Ok(())
    }

    fn insert_execution(
        &mut self,
        insert: &mut Statement<'_>,
        execution: i64,
        created: &Created,
        changes: &Changes,
    ) -> rusqlite::Result<()> {
        let numbers = self.definition(&created.run)?;
        let mut next = bind(insert, &[execution, numbers.definition, numbers.workflow])?;
        let end = changes.end.as_ref();
        self.bind(insert, &mut next, &CREATED, created, ABSOLUTE)?;
        self.bind(insert, &mut next, &VIEW, &changes.view, ABSOLUTE)?;
        self.bind(insert, &mut next, &END, end.unwrap_or(&End::default()), ABSOLUTE)?;
        insert.raw_execute().map(drop)
    }

    fn update<T>(
        &mut self,
        update: &mut Statement<'_>,
        execution: i64,
        columns: &[Column<T>],
        row: &T,
    ) -> rusqlite::Result<()> {
        let mut next = bind(update, &[execution])?;
        self.bind(update, &mut next, columns, row, ABSOLUTE)?;
        update.raw_execute().map(drop)
    }

    fn write_nodes(
        &mut self,
        upsert: &mut Statement<'_>,
        execution: i64,
        touched: &Touched,
    ) -> rusqlite::Result<()> {
        let Touched { changes, row } = touched;
        let created = changes.created.as_ref().map(|created| created.at);
        let since = created.or(row.map(|row| row.created_at)).unwrap_or(ABSOLUTE);
        if let Some(at) = changes.pending_cancelled {
            self.tx.prepare_cached(queries::NODES_CANCEL)?.execute([execution, at.0 - since.0])?;
        }
        let inputs = self.render(execution, touched)?;
        for (path, change) in &changes.nodes {
            let number = self.path(path)?;
            if change.reset {
                for sql in [queries::NODE_RESET, queries::INPUT_RESET] {
                    self.tx.prepare_cached(sql)?.execute([execution, number])?;
                }
            }
            let mut next = bind(upsert, &[execution, number])?;
            self.bind(upsert, &mut next, &NODE, change, since)?;
            upsert.raw_execute()?;
            if let Some(input) = inputs.get(path) {
                let mut set = self.tx.prepare_cached(queries::INPUT_SET)?;
                set.execute(params![execution, number, input])?;
            }
        }
        Ok(())
    }

    /// The inputs of tasks that these changes schedule, from the log and the plan.
    fn render(&mut self, execution: i64, touched: &Touched) -> rusqlite::Result<Rendered> {
        let mut rendered = Rendered::new();
        if !touched.changes.schedules() {
            return Ok(rendered);
        }
        let definition = match (&touched.changes.created, touched.row) {
            (Some(created), _) => self.definition(&created.run)?.definition,
            (None, Some(row)) => row.definition,
            (None, None) => return Ok(rendered),
        };
        let Some(plan) = self.plan(definition)? else { return Ok(rendered) };
        // An execution without a row is derived from its first event.
        let kept = self.names.inputs.remove(&execution).filter(|_| touched.row.is_some());
        let mut inputs = kept.unwrap_or_else(|| Inputs::new(plan));
        let mut select = self.log.prepare_cached(FRAMES_BETWEEN)?;
        let last = touched.changes.view.seq;
        let mut frames = select.query([execution, to_stored(inputs.seq())?, to_stored(last)?])?;
        while let Some(row) = frames.next()? {
            let at = Timestamp(row.get(1)?);
            let folded = decode(row.get_ref(3)?.as_blob()?, row.get(2)?).is_ok_and(|events| {
                inputs.fold(ExecutionNo(execution), at, &events, &mut rendered).is_ok()
            });
            if !folded {
                // A log that cannot be folded runs no tasks either; a check reports it.
                return Ok(rendered);
            }
        }
        if !touched.changes.view.status.is_end() {
            if self.names.inputs.len() >= INPUTS_MAX {
                self.names.inputs.clear();
            }
            self.names.inputs.insert(execution, inputs);
        }
        Ok(rendered)
    }

    /// The plan of a definition that has tasks to render.
    fn plan(&mut self, definition: i64) -> rusqlite::Result<Option<Arc<Plan>>> {
        if let Some(plan) = self.names.plans.get(&definition) {
            return Ok(plan.clone());
        }
        let mut find = self.tx.prepare_cached(queries::DEFINITION_HASH)?;
        let hash: [u8; 32] = find.query_row([definition], |row| row.get(0))?;
        let stored = definitions::by_hash(self.log, DefinitionHash(hash))?;
        let plan = stored.and_then(|stored| self.names.families.plan(stored.canonical.as_bytes()));
        let plan = plan.filter(renders_tasks).map(Arc::new);
        self.names.plans.insert(definition, plan.clone());
        Ok(plan)
    }

    /// Binds the values of columns to the next parameters; times count from `since`. Values that are
    /// absent are not bound: [`bind`] has cleared the row before.
    fn bind<T>(
        &mut self,
        statement: &mut Statement<'_>,
        next: &mut usize,
        columns: &[Column<T>],
        row: &T,
        since: Timestamp,
    ) -> rusqlite::Result<()> {
        for column in columns {
            match (column.kind, column.get(row)) {
                (_, Cell::Null) => {}
                (ColumnKind::Time, Cell::Number(time)) => {
                    statement.raw_bind_parameter(*next, time - since.0)?;
                }
                (ColumnKind::Path, Cell::Text(path)) => {
                    statement.raw_bind_parameter(*next, self.path(&path)?)?;
                }
                (_, cell) => statement.raw_bind_parameter(*next, Param(cell))?,
            }
            *next += 1;
        }
        Ok(())
    }

    fn write_wait(&mut self, execution: i64, change: &WaitChange) -> rusqlite::Result<()> {
        match change {
            WaitChange::Opened { stamp, node, wait } => {
                let path = self.path(node)?;
                let WaitTerms { kind, resume_at, expires_at } = WaitTerms::of(wait);
                let mut open = self.tx.prepare_cached(queries::WAIT_OPEN)?;
                open.execute(params![
                    execution,
                    to_stored(stamp.seq)?,
                    path,
                    kind,
                    stamp.at.0,
                    resume_at.map(|time| time.0),
                    expires_at.map(|time| time.0),
                    WaitDetail::text_of(wait),
                ])?;
            }
            WaitChange::Closed { at, node, end } => {
                let path = node.as_ref().map(|node| self.path(node)).transpose()?;
                let mut close = self.tx.prepare_cached(queries::WAIT_CLOSE)?;
                close.execute(params![execution, path, *end as i16, at.0])?;
            }
        }
        Ok(())
    }

    fn path(&mut self, path: &str) -> rusqlite::Result<i64> {
        if let Some(number) = self.names.paths.get(path) {
            return Ok(*number);
        }
        let number = self.number(queries::PATH_FIND, queries::PATH_ADD, path)?;
        if self.names.paths.len() >= PATHS_MAX {
            self.names.paths.clear();
        }
        self.names.paths.insert(path.into(), number);
        Ok(number)
    }

    fn number(&self, find: &str, add: &str, name: &str) -> rusqlite::Result<i64> {
        let mut find = self.tx.prepare_cached(find)?;
        match find.query_row([name], |row| row.get(0)).optional()? {
            Some(number) => Ok(number),
            None => self.tx.prepare_cached(add)?.insert([name]),
        }
    }

    fn definition(&mut self, run: &RunCreated) -> rusqlite::Result<DefinitionNumbers> {
        if let Some(numbers) = self.names.definitions.get(&run.definition) {
            return Ok(*numbers);
        }
        let hash = run.definition.0.as_slice();
        let mut find = self.tx.prepare_cached(queries::DEFINITION_FIND)?;
        let known = find.query_row([hash], |row| {
            Ok(DefinitionNumbers { definition: row.get(0)?, workflow: row.get(1)? })
        });
        let numbers = match known.optional()? {
            Some(numbers) => numbers,
            None => self.add_definition(run)?,
        };
        self.names.definitions.insert(run.definition, numbers);
        Ok(numbers)
    }

    /// Takes the node columns of the views from the definition, once for all executions of it.
    fn add_definition(&mut self, run: &RunCreated) -> rusqlite::Result<DefinitionNumbers> {
        let workflow = self.number(queries::WORKFLOW_FIND, queries::WORKFLOW_ADD, &run.workflow)?;
        let mut add = self.tx.prepare_cached(queries::DEFINITION_ADD)?;
        let definition = add.insert(params![run.definition.0.as_slice(), workflow, run.version])?;
        let stored = definitions::by_hash(self.log, run.definition)?;
        let nodes = stored.map(|stored| canonical_nodes(stored.canonical.as_bytes()));
        let families = Arc::clone(&self.names.families);
        for node in nodes.unwrap_or_default() {
            let path = self.path(&node.id)?;
            let family = node.kind.as_deref().and_then(|kind| families.family(kind));
            let mut add = self.tx.prepare_cached(queries::DEFINITION_NODE_ADD)?;
            add.execute(params![
                definition,
                path,
                node.label,
                family.map(|family| family.name()),
                node.kind,
                node.registry,
                node.config.as_ref().map(Json::text),
            ])?;
        }
        Ok(DefinitionNumbers { definition, workflow })
    }
}

/// Clears a statement and binds the numbers with which it begins; returns the next parameter.
fn bind(statement: &mut Statement<'_>, numbers: &[i64]) -> rusqlite::Result<usize> {
    statement.clear_bindings();
    for (parameter, number) in (1..).zip(numbers) {
        statement.raw_bind_parameter(parameter, number)?;
    }
    Ok(numbers.len() + 1)
}
