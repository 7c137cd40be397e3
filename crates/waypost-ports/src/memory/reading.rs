//! Reads of the store in memory, and its definitions.

use std::sync::Arc;

use waypost_core::id::ExecutionNo;
use waypost_core::time::Timestamp;

use super::Tables;
use super::tables::{KeptDefinition, KeptSnapshot};
use crate::store::{
    Control, Defined, Definition, DefinitionRef, History, Mail, NewDefinition, Snapshot,
    StoredFrame,
};

impl Tables {
    /// An execution from its newest snapshot on.
    pub fn load(&self, execution: ExecutionNo) -> Option<History> {
        let kept = self.snapshots.get(&execution);
        let from = kept.map_or(0, |kept| kept.first_seq);
        self.history(execution, from, kept.map(|kept| kept.snapshot.clone()))
    }

    /// An execution from its first frame on.
    pub fn load_all(&self, execution: ExecutionNo) -> Option<History> {
        self.history(execution, 0, None)
    }

    fn history(
        &self,
        execution: ExecutionNo,
        from: u64,
        snapshot: Option<Snapshot>,
    ) -> Option<History> {
        let frames: Vec<_> = self.frames_from(execution, from).cloned().collect();
        if frames.is_empty() {
            return None;
        }
        Some(History {
            execution,
            control: self.control.get(&execution).map(|row| {
                let permit = self.permit(execution);
                Control { permit, ..row.control.clone() }
            }),
            snapshot,
            frames,
            mail: self.inbox.iter().filter(|mail| mail.execution == execution).cloned().collect(),
        })
    }

    /// Frames of an execution from a seq on, in order.
    pub fn frames_from(
        &self,
        execution: ExecutionNo,
        first_seq: u64,
    ) -> impl DoubleEndedIterator<Item = &StoredFrame> {
        self.frames.range((execution, first_seq)..=(execution, u64::MAX)).map(|(_, frame)| frame)
    }

    /// Keeps a definition.
    pub fn define(&mut self, new: &NewDefinition, now: Timestamp) -> Defined {
        let known = self.definitions.iter().map(|kept| &kept.definition);
        let same = known.clone().find(|known| known.hash == new.hash).cloned();
        let created = same.is_none();
        let definition = same.unwrap_or_else(|| {
            let latest = known.filter(|known| known.name == new.name).map(|known| known.version);
            Definition {
                name: Arc::clone(&new.name),
                version: latest.max().unwrap_or(0) + 1,
                hash: new.hash,
                canonical: Arc::clone(&new.canonical),
            }
        });
        if created {
            let definition = definition.clone();
            self.definitions.push(KeptDefinition { definition, created_at: now });
        }
        let previous = self.current_versions.get(&definition.name).copied();
        let current = match previous {
            Some(previous) if !new.make_current => previous,
            _ => definition.version,
        };
        self.current_versions.insert(Arc::clone(&definition.name), current);
        Defined { definition, created, previous, current }
    }

    /// Finds a definition.
    pub fn definition(&self, which: &DefinitionRef) -> Option<Definition> {
        let matches = |known: &&Definition| match which {
            DefinitionRef::Hash(hash) => known.hash == *hash,
            DefinitionRef::Version(name, version) => {
                known.name == *name && known.version == *version
            }
        };
        self.definitions.iter().map(|kept| &kept.definition).find(matches).cloned()
    }

    /// Loses or changes the snapshot of an execution: it is a cache, and nothing may depend on it.
    pub fn spoil_snapshot(
        &mut self,
        execution: ExecutionNo,
        spoil: impl FnOnce(Snapshot) -> Option<Snapshot>,
    ) {
        if let Some(kept) = self.snapshots.remove(&execution)
            && let Some(snapshot) = spoil(kept.snapshot)
        {
            self.snapshots.insert(execution, KeptSnapshot { first_seq: kept.first_seq, snapshot });
        }
    }

    /// The control row of an execution.
    pub fn control(&self, execution: ExecutionNo) -> Option<&Control> {
        self.control.get(&execution).map(|row| &row.control)
    }

    /// Every control row.
    pub fn controls(&self) -> impl Iterator<Item = (ExecutionNo, &Control)> {
        self.control.iter().map(|(execution, row)| (*execution, &row.control))
    }

    /// All mail that waits.
    pub fn mail(&self) -> Vec<Mail> {
        self.inbox.clone()
    }

    /// Every execution that has a log.
    pub fn executions(&self) -> Vec<ExecutionNo> {
        let mut all: Vec<_> = self.frames.keys().map(|(execution, _)| *execution).collect();
        all.dedup();
        all
    }
}
