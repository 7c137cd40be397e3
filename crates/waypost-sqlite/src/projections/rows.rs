//! From changes to rows. What many rows share (paths, workflows, definitions) is given a number
//! once.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};
use serde::Deserialize;
use waypost_core::event::{RunCreated, Wait};
use waypost_core::failure::Failure;
use waypost_core::id::DefinitionHash;
use waypost_core::json::Json;
use waypost_core::projection::{Changes, Created, NodeChange, Retry, WaitChange, WaitEnd};
use waypost_core::status::NodeStatus;
use waypost_core::time::Timestamp;

use super::projector::Touched;
use super::queries;
use crate::connection::to_stored;
use crate::definitions;
use crate::options::Families;

/// Paths remembered; a map over many items has a path for each.
const PATHS_MAX: usize = 100_000;

/// Numbers that were given to names, remembered.
pub(super) struct Names {
    families: Families,
    paths: HashMap<Arc<str>, i64>,
    definitions: HashMap<DefinitionHash, DefinitionNumbers>,
}

#[derive(Clone, Copy)]
struct DefinitionNumbers {
    definition: i64,
    workflow: i64,
}

/// A node as a definition's canonical form has it.
#[derive(Deserialize)]
struct CanonicalNode {
    id: Arc<str>,
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

impl Names {
    pub(super) fn new(families: Families) -> Self {
        Self { families, paths: HashMap::new(), definitions: HashMap::new() }
    }

    /// Remembers nothing any more.
    pub(super) fn forget(&mut self) {
        self.paths.clear();
        self.definitions.clear();
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
        batch.retain(|_, touched| touched.known || touched.changes.created.is_some());
        for (execution, touched) in &batch {
            match &touched.changes.created {
                Some(created) => self.insert_execution(*execution, created, &touched.changes)?,
                None => self.update_execution(*execution, &touched.changes)?,
            }
        }
        let mut upsert = self.tx.prepare_cached(queries::NODE_UPSERT)?;
        for (execution, touched) in &batch {
            for (path, change) in &touched.changes.nodes {
                let path = self.path(path)?;
                if change.reset {
                    let mut reset = self.tx.prepare_cached(queries::NODE_RESET)?;
                    reset.execute([*execution, path])?;
                }
                upsert_node(&mut upsert, *execution, path, change)?;
            }
        }
        for (execution, touched) in &batch {
            for change in &touched.changes.waits {
                self.write_wait(*execution, change)?;
            }
        }
        Ok(())
    }

    fn insert_execution(
        &mut self,
        execution: i64,
        created: &Created,
        changes: &Changes,
    ) -> rusqlite::Result<()> {
        let run = &created.run;
        let numbers = self.definition(run)?;
        let view = &changes.view;
        let current_path = view.current_node.as_ref().map(|path| self.path(path)).transpose()?;
        let labels = (!run.labels.is_empty()).then(|| json(&run.labels));
        let end = changes.end.as_ref();
        let mut insert = self.tx.prepare_cached(queries::EXECUTION_INSERT)?;
        insert.execute(params![
            execution,
            run.key.as_str(),
            numbers.definition,
            numbers.workflow,
            created.at.0,
            millis(run.deadline),
            labels,
            run.input.text(),
            to_stored(view.seq)?,
            view.status as u8,
            view.generation,
            view.epoch,
            millis(view.started_at),
            millis(view.completed_at),
            view.updated_at.0,
            millis(view.resumed_at),
            view.resumed_by.as_deref(),
            to_stored(view.nodes_executed)?,
            current_path,
            view.waited,
            view.error,
            end.and_then(|end| end.failure.as_ref()).map(json::<Failure>),
            end.and_then(|end| end.output.as_ref()).map(Json::text),
        ])?;
        Ok(())
    }

    fn update_execution(&mut self, execution: i64, changes: &Changes) -> rusqlite::Result<()> {
        let view = &changes.view;
        let current_path = view.current_node.as_ref().map(|path| self.path(path)).transpose()?;
        let mut update = self.tx.prepare_cached(queries::EXECUTION_UPDATE)?;
        update.execute(params![
            execution,
            to_stored(view.seq)?,
            view.status as u8,
            view.generation,
            view.epoch,
            millis(view.started_at),
            millis(view.completed_at),
            view.updated_at.0,
            millis(view.resumed_at),
            view.resumed_by.as_deref(),
            to_stored(view.nodes_executed)?,
            current_path,
            view.waited,
            view.error,
        ])?;
        if let Some(end) = &changes.end {
            let mut update = self.tx.prepare_cached(queries::EXECUTION_END)?;
            let failure = end.failure.as_ref().map(json::<Failure>);
            update.execute(params![execution, failure, end.output.as_ref().map(Json::text)])?;
        }
        Ok(())
    }

    fn write_wait(&mut self, execution: i64, change: &WaitChange) -> rusqlite::Result<()> {
        match change {
            WaitChange::Opened { stamp, node, wait } => {
                let path = self.path(node)?;
                let (kind, resume_at, expires_at) = match wait {
                    Wait::Delay { due } => ("DELAY", Some(*due), None),
                    Wait::Signal { due, .. } => ("WAIT_EVENTS", None, *due),
                    Wait::Retry { due } => ("RETRY", Some(*due), None),
                };
                let mut open = self.tx.prepare_cached(queries::WAIT_OPEN)?;
                open.execute(params![
                    execution,
                    to_stored(stamp.seq)?,
                    path,
                    kind,
                    stamp.at.0,
                    millis(resume_at),
                    millis(expires_at),
                ])?;
            }
            WaitChange::Closed { at, node, end } => {
                let path = node.as_ref().map(|node| self.path(node)).transpose()?;
                let status = match end {
                    WaitEnd::Completed => 1,
                    WaitEnd::Timeout => 2,
                    WaitEnd::Failed => 3,
                };
                let mut close = self.tx.prepare_cached(queries::WAIT_CLOSE)?;
                close.execute(params![execution, path, status, at.0])?;
            }
        }
        Ok(())
    }

    fn path(&mut self, path: &Arc<str>) -> rusqlite::Result<i64> {
        if let Some(number) = self.names.paths.get(path) {
            return Ok(*number);
        }
        let number = self.number(queries::PATH_FIND, queries::PATH_ADD, path)?;
        if self.names.paths.len() >= PATHS_MAX {
            self.names.paths.clear();
        }
        self.names.paths.insert(Arc::clone(path), number);
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

    /// Takes what the views show of nodes from the definition, once for all executions of it.
    fn add_definition(&mut self, run: &RunCreated) -> rusqlite::Result<DefinitionNumbers> {
        let workflow = self.number(queries::WORKFLOW_FIND, queries::WORKFLOW_ADD, &run.workflow)?;
        let mut add = self.tx.prepare_cached(queries::DEFINITION_ADD)?;
        let definition = add.insert(params![run.definition.0.as_slice(), workflow, run.version])?;
        let stored = definitions::by_hash(self.log, run.definition)?;
        let canonical = stored.and_then(|stored| serde_json::from_str(&stored.canonical).ok());
        let Canonical { nodes } = canonical.unwrap_or(Canonical { nodes: Vec::new() });
        let families = Arc::clone(&self.names.families);
        for node in nodes {
            let path = self.path(&node.id)?;
            let family = node.kind.as_deref().and_then(|kind| families(kind));
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

fn upsert_node(
    upsert: &mut rusqlite::CachedStatement<'_>,
    execution: i64,
    path: i64,
    change: &NodeChange,
) -> rusqlite::Result<()> {
    let retries = (!change.retries.is_empty())
        .then(|| change.retries.iter().map(json::<Retry>).collect::<Vec<_>>().join(","));
    upsert.execute(params![
        execution,
        path,
        change.status.unwrap_or(NodeStatus::Pending) as u8,
        change.attempt,
        millis(change.started_at),
        millis(change.completed_at),
        change.output.as_ref().map(Json::text),
        change.branch.as_deref(),
        change.failure.as_ref().map(json::<Failure>),
        retries,
    ])?;
    Ok(())
}

fn millis(time: Option<Timestamp>) -> Option<i64> {
    time.map(|time| time.0)
}

fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("these values always serialise: their keys are strings")
}
