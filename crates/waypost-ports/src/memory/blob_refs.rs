//! Which executions name a blob.

use std::collections::BTreeSet;

use waypost_core::blob::BlobDigest;
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_core::time::{Millis, Timestamp};

use super::{MemoryStore, Tables};
use crate::blobs::BlobRefs;
use crate::store::StoreError;

/// The rows about blobs.
#[derive(Clone, Default)]
pub(super) struct BlobTables {
    refs: BTreeSet<(BlobDigest, ExecutionNo)>,
    /// Which instance sweeps, and until when.
    sweep: Option<(InstanceId, Timestamp)>,
}

impl BlobTables {
    /// An execution names these blobs.
    pub(super) fn reference(&mut self, execution: ExecutionNo, digests: &[BlobDigest]) {
        self.refs.extend(digests.iter().map(|digest| (*digest, execution)));
    }
}

impl Tables {
    /// Those of these blobs that an execution names.
    pub fn referenced(&self, digests: &[BlobDigest]) -> Vec<BlobDigest> {
        let known = |digest: &BlobDigest| self.named_by(digest).is_some();
        digests.iter().copied().filter(known).collect()
    }

    /// Blobs that executions name, each once, in the order of their digests, after this one.
    pub fn named_blobs(&self, after: Option<&BlobDigest>, limit: usize) -> Vec<BlobDigest> {
        let later = |digest: &BlobDigest| after.is_none_or(|after| digest > after);
        let mut found: Vec<_> =
            self.blobs.refs.iter().map(|(digest, _)| *digest).filter(later).collect();
        found.dedup();
        found.truncate(limit);
        found
    }

    /// An execution that names this blob.
    pub fn named_by(&self, digest: &BlobDigest) -> Option<ExecutionNo> {
        let by = self.blobs.refs.iter().find(|(named, _)| named == digest);
        by.map(|(_, execution)| *execution)
    }

    /// Takes or renews the lease on sweeping.
    pub fn take_blob_sweep(&mut self, instance: InstanceId, lease: Millis, now: Timestamp) -> bool {
        let taken = self.blobs.sweep.is_some_and(|(by, until)| by != instance && until > now);
        if !taken {
            self.blobs.sweep = Some((instance, now.plus(lease)));
        }
        !taken
    }
}

impl BlobRefs for MemoryStore {
    fn referenced(&self, digests: &[BlobDigest]) -> Result<Vec<BlobDigest>, StoreError> {
        self.with(|tables, _| Ok(tables.referenced(digests)))
    }

    fn named_blobs(
        &self,
        after: Option<&BlobDigest>,
        limit: usize,
    ) -> Result<Vec<BlobDigest>, StoreError> {
        self.with(|tables, _| Ok(tables.named_blobs(after, limit)))
    }

    fn named_by(&self, digest: &BlobDigest) -> Result<Option<ExecutionNo>, StoreError> {
        self.with(|tables, _| Ok(tables.named_by(digest)))
    }

    fn take_blob_sweep(&self, instance: InstanceId, lease: Millis) -> Result<bool, StoreError> {
        self.with(|tables, now| Ok(tables.take_blob_sweep(instance, lease, now)))
    }
}
