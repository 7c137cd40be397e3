//! Blobs without a disk, for tests.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use parking_lot::Mutex;
use waypost_core::blob::{BlobDigest, BlobRef};
use waypost_core::time::Timestamp;

use super::format::{self, Index};
use super::{BlobError, BlobReader, BlobStat, Blobs, ListedBlob};
use crate::clock::Clock;

/// Blobs in memory. Clones share their data.
#[derive(Clone)]
pub struct MemoryBlobs {
    clock: Arc<dyn Clock>,
    blobs: Arc<Mutex<BTreeMap<BlobDigest, Stored>>>,
}

#[derive(Clone)]
struct Stored {
    index: Index,
    parts: Arc<Vec<Vec<u8>>>,
    touched_at: Timestamp,
}

impl Stored {
    fn listed(&self, digest: &BlobDigest) -> ListedBlob {
        let stored_bytes = self.index.stored_bytes() + self.index.encode().len() as u64;
        ListedBlob { digest: *digest, stored_bytes, touched_at: self.touched_at }
    }
}

impl MemoryBlobs {
    /// Without any blobs.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, blobs: Arc::default() }
    }

    /// Changes the last stored byte of a blob, for tests.
    pub fn damage(&self, digest: &BlobDigest) {
        if let Some(stored) = self.blobs.lock().get_mut(digest)
            && let Some(byte) = Arc::make_mut(&mut stored.parts).iter_mut().flatten().last()
        {
            *byte ^= 1;
        }
    }

    fn find(&self, digest: &BlobDigest) -> Result<Stored, BlobError> {
        self.blobs.lock().get(digest).cloned().ok_or(BlobError::NotFound(*digest))
    }
}

impl Blobs for MemoryBlobs {
    fn put(&self, content: &mut dyn Read, limit: u64) -> Result<BlobRef, BlobError> {
        let mut parts = Vec::new();
        let (blob, index) = format::encode(content, limit, |part| {
            parts.push(part.to_vec());
            Ok(())
        })?;
        let touched_at = self.clock.now();
        let stored = Stored { index, parts: Arc::new(parts), touched_at };
        self.blobs.lock().entry(blob.digest).or_insert(stored).touched_at = touched_at;
        Ok(blob)
    }

    fn open(&self, digest: &BlobDigest) -> Result<BlobReader, BlobError> {
        let Stored { index, parts, .. } = self.find(digest)?;
        let read = move |number: usize, _| Ok(parts.get(number).cloned().unwrap_or_default());
        Ok(BlobReader::new(*digest, index, Box::new(read)))
    }

    fn stat(&self, digest: &BlobDigest) -> Result<BlobStat, BlobError> {
        let stored = self.find(digest)?;
        let ListedBlob { stored_bytes, touched_at, .. } = stored.listed(digest);
        let blob = BlobRef { digest: *digest, bytes: stored.index.bytes };
        Ok(BlobStat { blob, stored_bytes, touched_at })
    }

    fn touch(&self, digest: &BlobDigest) -> Result<(), BlobError> {
        let mut blobs = self.blobs.lock();
        let stored = blobs.get_mut(digest).ok_or(BlobError::NotFound(*digest))?;
        stored.touched_at = self.clock.now();
        Ok(())
    }

    fn list(&self, after: Option<&BlobDigest>, limit: usize) -> Result<Vec<ListedBlob>, BlobError> {
        let blobs = self.blobs.lock();
        let later = blobs.iter().filter(|(digest, _)| after.is_none_or(|after| *digest > after));
        Ok(later.take(limit).map(|(digest, stored)| stored.listed(digest)).collect())
    }

    fn delete(&self, digest: &BlobDigest, before: Timestamp) -> Result<bool, BlobError> {
        let mut blobs = self.blobs.lock();
        let old = blobs.get(digest).is_some_and(|stored| stored.touched_at < before);
        Ok(old && blobs.remove(digest).is_some())
    }

    fn discard_uploads(&self, _: Timestamp) -> Result<u64, BlobError> {
        Ok(0)
    }

    fn now(&self) -> Result<Timestamp, BlobError> {
        Ok(self.clock.now())
    }
}
