//! Which executions name a blob.

use std::collections::BTreeSet;

use waypost_core::blob::BlobDigest;
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_core::time::{Millis, Timestamp};

use super::MemoryStore;
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

impl BlobRefs for MemoryStore {
    fn referenced(&self, digests: &[BlobDigest]) -> Result<Vec<BlobDigest>, StoreError> {
        let known = |digest: &BlobDigest| self.named_by(digest).is_ok_and(|by| by.is_some());
        Ok(digests.iter().copied().filter(known).collect())
    }

    fn named_blobs(
        &self,
        after: Option<&BlobDigest>,
        limit: usize,
    ) -> Result<Vec<BlobDigest>, StoreError> {
        self.with(|tables, _| {
            let later = |digest: &BlobDigest| after.is_none_or(|after| digest > after);
            let mut found: Vec<_> =
                tables.blobs.refs.iter().map(|(digest, _)| *digest).filter(later).collect();
            found.dedup();
            found.truncate(limit);
            Ok(found)
        })
    }

    fn named_by(&self, digest: &BlobDigest) -> Result<Option<ExecutionNo>, StoreError> {
        self.with(|tables, _| {
            let by = tables.blobs.refs.iter().find(|(named, _)| named == digest);
            Ok(by.map(|(_, execution)| *execution))
        })
    }

    fn take_blob_sweep(&self, instance: InstanceId, lease: Millis) -> Result<bool, StoreError> {
        self.with(|tables, now| {
            let taken = tables.blobs.sweep.is_some_and(|(by, until)| by != instance && until > now);
            if !taken {
                tables.blobs.sweep = Some((instance, now.plus(lease)));
            }
            Ok(!taken)
        })
    }
}
