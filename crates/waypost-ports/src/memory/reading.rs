//! Reads of the store in memory, and its definitions.

use std::sync::Arc;

use waypost_core::id::{ExecutionId, ExecutionNo, InstanceId};
use waypost_core::time::Timestamp;

use super::Tables;
use super::tables::{KeptDefinition, KeptSnapshot};
use crate::store::{
    Control, Defined, Definition, DefinitionRef, History, LOG_PAGE_BYTES, MAIL_PAGE_MAX, Mail,
    MailOf, NewDefinition, Receiver, Snapshot, StoredFrame, TREE_KEPT, TREES_FORGOTTEN_MAX,
};

/// How much of an execution is read at once.
#[derive(Clone, Copy, Debug)]
pub struct Pages {
    /// A page of a log ends with the frame that reaches so many bytes.
    pub log_bytes: usize,
    /// Messages that are read together with a log.
    pub mail: usize,
}

impl Default for Pages {
    fn default() -> Self {
        Self { log_bytes: LOG_PAGE_BYTES, mail: MAIL_PAGE_MAX }
    }
}

impl Tables {
    /// An execution from its newest snapshot on.
    pub fn load(&self, execution: ExecutionNo) -> Option<History> {
        let kept = self.snapshots.get(&execution);
        let from = kept.map_or(0, |kept| kept.first_seq);
        self.history(execution, from, kept.map(|kept| kept.snapshot.clone()))
    }

    /// A page of its frames after a seq.
    pub fn load_after(&self, execution: ExecutionNo, after: u64) -> Vec<StoredFrame> {
        self.page(execution, after.saturating_add(1))
    }

    fn page(&self, execution: ExecutionNo, from: u64) -> Vec<StoredFrame> {
        let mut bytes = 0;
        let fits = |frame: &&StoredFrame| {
            let before = bytes;
            bytes += frame.body.as_ref().map_or(0, Vec::len);
            before < self.pages.log_bytes
        };
        self.frames_from(execution, from).take_while(fits).cloned().collect()
    }

    pub(super) fn history(
        &self,
        execution: ExecutionNo,
        from: u64,
        snapshot: Option<Snapshot>,
    ) -> Option<History> {
        let frames = self.page(execution, from);
        let read = frames.last()?.header.last_seq;
        let last = self.frames_from(execution, from).next_back()?.header;
        let mut mail = self.collect(MailOf::Execution(execution), self.pages.mail + 1);
        let mail_waits = mail.len() > self.pages.mail;
        mail.truncate(self.pages.mail);
        Some(History {
            execution,
            control: self.control.get(&execution).map(|row| {
                let permit = self.permit(execution);
                Control { permit, ..row.control.clone() }
            }),
            snapshot,
            frames,
            last: (last.last_seq > read).then_some(last),
            mail,
            mail_waits,
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
        if new.make_current || previous.is_none() {
            for endpoint in self.triggers.register(new, &definition, now) {
                // Refused where it is known.
                self.add_endpoint(&endpoint, now).unwrap_or_default();
            }
        }
        Defined { definition, created, previous, current }
    }

    /// Finds an execution by its id.
    pub fn receiver(&self, key: &str) -> Option<Receiver> {
        let execution = *self.keys.get(&ExecutionId(key.into()))?;
        Some(Receiver { execution, ended: !self.control.contains_key(&execution) })
    }

    /// Which instances own these executions.
    pub fn owners(&self, executions: &[ExecutionNo]) -> Vec<(ExecutionNo, InstanceId)> {
        let owner = |execution: &ExecutionNo| {
            let row = self.control.get(execution)?;
            row.control.owner.map(|owner| (*execution, owner))
        };
        executions.iter().filter_map(owner).collect()
    }

    /// Reserves places in the tree below a root; returns how many were reserved before.
    pub fn reserve_births(&mut self, root: &ExecutionId, count: u64, now: Timestamp) -> u64 {
        let (reserved, used_at) = self.trees.entry(root.clone()).or_default();
        let before = std::mem::replace(reserved, reserved.saturating_add(count));
        *used_at = now;
        if before == 0 {
            self.forget_trees(now);
        }
        before
    }

    /// Deletes the rows of trees that have not grown for long and whose root has ended.
    fn forget_trees(&mut self, now: Timestamp) {
        let Self { trees, keys, control, .. } = self;
        let is_old = |root: &ExecutionId, used_at: Timestamp| {
            let open = keys.get(root).is_some_and(|number| control.contains_key(number));
            now.since(used_at) > TREE_KEPT && !open
        };
        let old = trees.iter().filter(|(root, (_, used_at))| is_old(root, *used_at));
        let old: Vec<_> = old.map(|(root, _)| root.clone()).take(TREES_FORGOTTEN_MAX).collect();
        for root in old {
            trees.remove(&root);
        }
    }

    /// Finds a definition.
    pub fn definition(&self, which: &DefinitionRef) -> Option<Definition> {
        let matches = |known: &&Definition| match which {
            DefinitionRef::Hash(hash) => known.hash == *hash,
            DefinitionRef::Version(name, version) => {
                known.name == *name && known.version == *version
            }
            DefinitionRef::Current(name) => {
                known.name == *name && self.current_versions.get(name) == Some(&known.version)
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
