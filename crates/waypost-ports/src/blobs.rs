//! Blobs: payloads that are too large for the log, by the digest of their content.
//!
//! Content is kept in parts of 1 MiB, each compressed where that helps. The index of a blob has one
//! digest per part. They are the subtrees of BLAKE3's own tree, so together they must give the
//! digest by which the blob is named. A reader verifies the index when it opens the blob, and each
//! part before it returns a byte of it: ranges are verified as strictly as whole blobs, and a range
//! costs at most two parts more than it asks for.
//!
//! Calls block, as those of a store. Neither side holds more than a few parts in memory.
//!
//! A blob is durable before the frame or the mail that names it is committed. Between the two, only
//! its age protects it: [`Blobs::put`] of known content makes a blob young again, and the sweep takes
//! only blobs that are old ([`waypost_core::blob`], [`BlobRefs`]).
//!
//! | file | owns |
//! | --- | --- |
//! | `format` | parts and index: how content is cut, compressed and verified |
//! | `reader` | reading a blob or a range of it |
//! | `inline` | references replaced by contents |
//! | `memory` | blobs without a disk, for tests |

pub mod format;
mod inline;
mod memory;
mod reader;

use std::io::Read;

use waypost_core::blob::{BlobDigest, BlobRef};
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_core::time::{Millis, Timestamp};

use crate::store::StoreError;

pub use inline::{INLINE_BYTES_MAX, NotInlined, inline, inline_up_to};
pub use memory::MemoryBlobs;
pub use reader::{BlobBytes, BlobReader, ReadPart};

/// A place for blobs.
pub trait Blobs: Send + Sync {
    /// Stores content of unknown length and returns its reference once it is durable. Content that is
    /// known already is stored once and made young ([`touch`](Self::touch)). Content of more than
    /// `limit` bytes, or that cannot be read to its end, leaves nothing behind.
    fn put(&self, content: &mut dyn Read, limit: u64) -> Result<BlobRef, BlobError>;

    /// Opens a blob for reading.
    fn open(&self, digest: &BlobDigest) -> Result<BlobReader, BlobError>;

    /// What is known about a blob, without its content.
    fn stat(&self, digest: &BlobDigest) -> Result<BlobStat, BlobError>;

    /// Makes a blob young, as if it were put now.
    fn touch(&self, digest: &BlobDigest) -> Result<(), BlobError>;

    /// Blobs in the order of their digests, after this one.
    fn list(&self, after: Option<&BlobDigest>, limit: usize) -> Result<Vec<ListedBlob>, BlobError>;

    /// Deletes a blob if it was last put or touched before this time, in one step: one that is put
    /// or touched meanwhile stays. Returns whether it was deleted.
    fn delete(&self, digest: &BlobDigest, before: Timestamp) -> Result<bool, BlobError>;

    /// Deletes what uploads that were last active before this time, and never completed, have left
    /// behind; returns how many there were.
    fn discard_uploads(&self, before: Timestamp) -> Result<u64, BlobError>;

    /// The time by which it measures ages.
    fn now(&self) -> Result<Timestamp, BlobError>;

    /// The whole content of a blob that is small enough to be in memory.
    fn get(&self, digest: &BlobDigest, limit: u64) -> Result<Vec<u8>, BlobError> {
        let reader = self.open(digest)?;
        if reader.bytes() > limit {
            return Err(BlobError::TooLarge { limit });
        }
        let mut content = Vec::with_capacity(usize::try_from(reader.bytes()).unwrap_or(0));
        for piece in reader.read(..) {
            content.extend_from_slice(&piece?);
        }
        Ok(content)
    }
}

/// What a store knows about the blobs that its executions name. The rows are written by
/// [`Store::append`](crate::store::Store::append) and [`Store::deliver`](crate::store::Store::deliver).
pub trait BlobRefs: Send + Sync {
    /// Those of these blobs that an execution names.
    fn referenced(&self, digests: &[BlobDigest]) -> Result<Vec<BlobDigest>, StoreError>;

    /// Blobs that executions name, each once, in the order of their digests, after this one.
    fn named_blobs(
        &self,
        after: Option<&BlobDigest>,
        limit: usize,
    ) -> Result<Vec<BlobDigest>, StoreError>;

    /// An execution that names this blob, for messages.
    fn named_by(&self, digest: &BlobDigest) -> Result<Option<ExecutionNo>, StoreError>;

    /// Takes or renews the lease on sweeping for this long. Of the instances of a cluster, one
    /// holds it at a time.
    fn take_blob_sweep(&self, instance: InstanceId, lease: Millis) -> Result<bool, StoreError>;
}

/// What is known about a blob without reading its content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlobStat {
    pub blob: BlobRef,
    /// With its index, and compressed where that helped.
    pub stored_bytes: u64,
    /// When it was last put or touched.
    pub touched_at: Timestamp,
}

/// A blob in a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListedBlob {
    pub digest: BlobDigest,
    pub stored_bytes: u64,
    /// When it was last put or touched.
    pub touched_at: Timestamp,
}

/// Why a call failed. Variants are named for what the caller does about it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlobError {
    /// Try again: busy, out of reach, timed out.
    #[error("the blob store is unavailable: {0}")]
    Unavailable(String),
    /// No space is left; try again when there is.
    #[error("the blob store is full: {0}")]
    Full(String),
    /// The stored bytes differ from what was put. Trying again gives the same.
    #[error("blob {digest} is damaged: {reason}")]
    Corrupt { digest: BlobDigest, reason: String },
    /// There is no such blob.
    #[error("there is no blob {0}")]
    NotFound(BlobDigest),
    /// The content has more bytes than it may have.
    #[error("the blob has more than {limit} bytes")]
    TooLarge { limit: u64 },
    /// The content that was to be put could not be read to its end; put it again.
    #[error("the content could not be read: {0}")]
    Interrupted(String),
}

impl BlobError {
    /// Would the same call succeed later?
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Full(_) | Self::Interrupted(_))
    }
}

impl From<StoreError> for BlobError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Full(reason) => Self::Full(reason),
            other => Self::Unavailable(other.to_string()),
        }
    }
}
