//! An instance's entries in a mirror: that it is alive, and which executions it owns.

use std::collections::BTreeSet;
use std::time::Instant;

use waypost_core::id::{ExecutionId, InstanceId};
use waypost_ports::mirror::{MIRROR_EVERY, Mirror};

#[derive(Default)]
pub(crate) struct Mirrored {
    written_at: Option<Instant>,
    owned: BTreeSet<ExecutionId>,
}

impl Mirrored {
    pub(crate) fn is_due(&self) -> bool {
        self.written_at.is_none_or(|at| at.elapsed() >= MIRROR_EVERY.to_std())
    }

    /// Writes what is owned now. An execution that was owned only in between is never shown: a lock
    /// that no reader could have seen is not worth two writes.
    pub(crate) fn write(
        &mut self,
        mirror: &dyn Mirror,
        instance: InstanceId,
        owned: &[ExecutionId],
    ) {
        let now: BTreeSet<_> = owned.iter().cloned().collect();
        let gone: Vec<_> = self.owned.difference(&now).cloned().collect();
        if !gone.is_empty() {
            mirror.released(instance, &gone);
        }
        if !owned.is_empty() {
            mirror.owned(instance, owned);
        }
        self.owned = now;
        self.written_at = Some(Instant::now());
    }

    /// Writes the ownership of executions with tasks for remote workers ahead of time: their
    /// reports may come to any instance, which needs the owner.
    pub(crate) fn offered(
        &mut self,
        mirror: &dyn Mirror,
        instance: InstanceId,
        executions: Vec<ExecutionId>,
    ) {
        let new = executions.into_iter().filter(|key| self.owned.insert(key.clone()));
        let new: Vec<_> = new.collect();
        if !new.is_empty() {
            mirror.owned(instance, &new);
        }
    }
}
