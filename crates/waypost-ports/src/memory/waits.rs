//! Open waits of the store in memory, folded anew for each question.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use waypost_core::id::ExecutionNo;
use waypost_core::projection::{Changes, WaitChange, WaitDetail, WaitTerms};

use super::Tables;
use super::query::fold;
use crate::inspect::open_waits;
use crate::query::WaitRow;

impl Tables {
    /// The open waits of all executions.
    pub(super) fn waits(&self) -> Vec<WaitRow> {
        let mut changes: BTreeMap<ExecutionNo, Changes> = BTreeMap::new();
        for ((execution, _), stored) in &self.frames {
            fold(changes.entry(*execution).or_default(), stored);
        }
        let of_one = |(execution, changes): (&ExecutionNo, &Changes)| {
            let run = changes.created.as_ref().map(|created| &created.run);
            let (key, workflow) = run.map(|run| (run.key.0.clone(), run.workflow.clone()))?;
            let open: BTreeSet<u64> =
                open_waits(&changes.waits).into_iter().map(|wait| wait.seq).collect();
            let row = |change: &WaitChange| match change {
                WaitChange::Opened { stamp, node, wait } if open.contains(&stamp.seq) => {
                    Some(WaitRow {
                        execution: *execution,
                        seq: stamp.seq,
                        key: Arc::clone(&key),
                        workflow: Arc::clone(&workflow),
                        node: Arc::clone(node),
                        kind: WaitTerms::of(wait).kind.into(),
                        since: stamp.at,
                        due: wait.due(),
                        detail: WaitDetail::of(wait).unwrap_or_default(),
                    })
                }
                WaitChange::Opened { .. } | WaitChange::Closed { .. } => None,
            };
            Some(changes.waits.iter().filter_map(row).collect::<Vec<_>>())
        };
        changes.iter().filter_map(of_one).flatten().collect()
    }
}
