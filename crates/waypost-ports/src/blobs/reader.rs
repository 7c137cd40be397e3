//! Reading a blob or a range of it, part by part, each verified before a byte of it is returned.

use std::ops::{Bound, Range, RangeBounds};

use waypost_core::blob::{BlobDigest, BlobRef};

use super::BlobError;
use super::format::{Index, PART_BYTES};

/// Reads the stored bytes of a part: by its number, or by where it is.
pub type ReadPart = dyn FnMut(usize, Range<u64>) -> Result<Vec<u8>, BlobError> + Send;

/// A blob that can be read.
pub struct BlobReader {
    digest: BlobDigest,
    index: Index,
    read_part: Box<ReadPart>,
}

impl BlobReader {
    /// Over an index and the parts that it describes.
    pub fn new(digest: BlobDigest, index: Index, read_part: Box<ReadPart>) -> Self {
        Self { digest, index, read_part }
    }

    /// The blob.
    pub fn blob(&self) -> BlobRef {
        BlobRef { digest: self.digest, bytes: self.index.bytes }
    }

    /// Bytes of its content.
    pub fn bytes(&self) -> u64 {
        self.index.bytes
    }

    /// The content of a range, in pieces of at most [`PART_BYTES`]. What is beyond the end is left out.
    pub fn read(self, range: impl RangeBounds<u64>) -> BlobBytes {
        let start = match range.start_bound() {
            Bound::Included(at) => *at,
            Bound::Excluded(at) => at.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(at) => at.saturating_add(1),
            Bound::Excluded(at) => *at,
            Bound::Unbounded => u64::MAX,
        };
        BlobBytes { left: start..end.min(self.index.bytes), reader: self }
    }
}

/// The pieces of a range, in their order. Ends with the first error.
pub struct BlobBytes {
    reader: BlobReader,
    left: Range<u64>,
}

impl BlobBytes {
    fn piece(&mut self) -> Result<Vec<u8>, BlobError> {
        let BlobReader { digest, index, read_part } = &mut self.reader;
        let at = self.left.start;
        let number = usize::try_from(at / PART_BYTES as u64).unwrap_or(usize::MAX);
        let stored = read_part(number, index.stored_at(number))?;
        let mut part = index.open(digest, number, stored)?;
        let first = at - number as u64 * PART_BYTES as u64;
        let most = usize::try_from(self.left.end - at).unwrap_or(usize::MAX);
        part.drain(..usize::try_from(first).unwrap_or(usize::MAX).min(part.len()));
        part.truncate(most);
        Ok(part)
    }
}

impl Iterator for BlobBytes {
    type Item = Result<Vec<u8>, BlobError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left.is_empty() {
            return None;
        }
        let piece = self.piece();
        match &piece {
            Ok(piece) => self.left.start += piece.len() as u64,
            Err(_) => self.left = 0..0,
        }
        Some(piece)
    }
}
