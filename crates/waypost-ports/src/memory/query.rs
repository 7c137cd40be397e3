//! Lists and logs of the store in memory, folded anew for each question.

use std::collections::BTreeMap;
use std::sync::Arc;

use waypost_core::frame;
use waypost_core::id::{ExecutionId, ExecutionKey};
use waypost_core::projection::{Changes, Stamp, WaitChange};
use waypost_core::time::Timestamp;

use super::{MemoryStore, Tables};
use crate::query::{
    EventRow, EventsRequest, ExecutionPage, ExecutionRow, ListRequest, ProjectionLag, Query,
    read_events,
};
use crate::store::{StoreError, StoredFrame};

impl Query for MemoryStore {
    fn find(&self, key: Option<&str>) -> Result<Option<ExecutionId>, StoreError> {
        self.with(|data, _| {
            Ok(match key {
                Some(key) => data.keys.get(&ExecutionKey(key.into())).copied(),
                None => data.frames.keys().next_back().map(|(execution, _)| *execution),
            })
        })
    }

    fn list(&self, request: &ListRequest) -> Result<ExecutionPage, StoreError> {
        self.with(|data, _| {
            let mut rows: Vec<_> = data
                .rows()
                .into_values()
                .rev()
                .filter(|row| request.status.is_none_or(|status| row.status == status))
                .filter(|row| request.workflow.as_deref().is_none_or(|name| *row.workflow == *name))
                .filter(|row| request.before.is_none_or(|before| row.execution < before))
                .take(request.limit.saturating_add(1))
                .collect();
            let more = rows.len() > request.limit;
            rows.truncate(request.limit);
            let next = rows.last().filter(|_| more).map(|row| row.execution);
            Ok(ExecutionPage { rows, next, lag: ProjectionLag::default() })
        })
    }

    fn events(&self, request: &EventsRequest) -> Result<Vec<EventRow>, StoreError> {
        self.with(|data, _| {
            let frames = data.frames_from(request.execution, 0);
            let mut rows = Vec::new();
            for stored in frames.filter(|stored| stored.header.last_seq > request.after) {
                read_events(stored, request, &mut rows);
            }
            Ok(rows)
        })
    }

    fn lag(&self) -> Result<ProjectionLag, StoreError> {
        Ok(ProjectionLag::default())
    }

    fn rebuild(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<u64, StoreError> {
        let frames = self.with(|data, _| data.frames.len() as u64);
        progress(frames, frames);
        Ok(frames)
    }
}

impl Tables {
    fn rows(&self) -> BTreeMap<ExecutionId, ExecutionRow> {
        let mut changes: BTreeMap<ExecutionId, Changes> = BTreeMap::new();
        for ((execution, _), stored) in &self.frames {
            fold(changes.entry(*execution).or_default(), stored);
        }
        changes.iter().filter_map(|(id, changes)| Some((*id, row(*id, changes)?))).collect()
    }
}

fn fold(changes: &mut Changes, stored: &StoredFrame) {
    let Some(events) = stored.body.as_ref().ok().and_then(|body| frame::decode(body).ok()) else {
        return;
    };
    for (seq, event) in (stored.header.first_seq..).zip(events) {
        changes.apply(Stamp { seq, at: stored.at }, event);
    }
}

fn row(execution: ExecutionId, changes: &Changes) -> Option<ExecutionRow> {
    let created = changes.created.as_ref()?;
    let view = &changes.view;
    Some(ExecutionRow {
        execution,
        key: Arc::clone(&created.run.key.0),
        workflow: Arc::clone(&created.run.workflow),
        version: created.run.version,
        status: view.status,
        created_at: created.at,
        completed_at: view.completed_at,
        nodes_executed: view.nodes_executed,
        error: view.error.clone(),
        current_node: view.current_node.as_deref().map(str::to_owned),
        resume_at: resume_at(&changes.waits),
    })
}

/// The earliest due time of the waits that are open.
fn resume_at(waits: &[WaitChange]) -> Option<Timestamp> {
    let mut open = BTreeMap::new();
    for change in waits {
        match change {
            WaitChange::Opened { node, wait, .. } => drop(open.insert(node, wait.due())),
            WaitChange::Closed { node: Some(node), .. } => drop(open.remove(node)),
            WaitChange::Closed { node: None, .. } => open.clear(),
        }
    }
    open.into_values().flatten().min()
}
