//! How content becomes parts and an index, and how both are verified. No I/O but the content's.
//!
//! ```text
//!   content ─▶ parts of 1 MiB ─▶ each compressed with zstd, or as it is where that saves little
//!                   │
//!                   └─▶ index: an entry per part (digest 32, stored length 4), then
//!                       content length 8, checksum of the above 8, "waypblb1"
//! ```
//!
//! Numbers are little-endian. In a file or an object the index follows the parts, because it is known
//! last; it is read from the end.

use std::io::Read;
use std::ops::Range;

use blake3::Hasher;
use blake3::hazmat::{
    ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root,
};
use waypost_core::blob::{BlobDigest, BlobRef};
use waypost_core::limits::BLOB_BYTES_MAX;

use super::BlobError;

/// Bytes of content in a part; the last part may have fewer. A power of two, as BLAKE3's subtrees are.
pub const PART_BYTES: usize = 1024 * 1024;

/// Bytes of the end of an index, from which its length is known.
pub const FOOTER_BYTES: usize = 24;

const ENTRY_BYTES: usize = 36;
const MAGIC: &[u8; 8] = b"waypblb1";
/// In a stored length: the part is not compressed.
const PLAIN: u32 = 1 << 31;
/// The fastest level of zstd: an upload should be as fast as its disk.
const LEVEL: i32 = 1;

/// What is stored besides the parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Index {
    pub bytes: u64,
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    /// The digest of the subtree; of the content itself where there is but one part.
    digest: ChainingValue,
    /// Bytes as stored, and [`PLAIN`].
    stored: u32,
}

/// Reads content to its end and passes its parts, in their order, to `store`.
pub fn encode(
    content: &mut dyn Read,
    limit: u64,
    mut store: impl FnMut(&[u8]) -> Result<(), BlobError>,
) -> Result<(BlobRef, Index), BlobError> {
    let limit = limit.min(BLOB_BYTES_MAX);
    let mut index = Index { bytes: 0, entries: Vec::new() };
    // Grows with the content: most blobs are smaller than a part.
    let mut part = Vec::new();
    let mut only = blake3::hash(&[]);
    loop {
        part.clear();
        let read = content.take(PART_BYTES as u64).read_to_end(&mut part);
        read.map_err(|error| BlobError::Interrupted(error.to_string()))?;
        if part.is_empty() {
            break;
        }
        let offset = index.bytes;
        index.bytes += part.len() as u64;
        if index.bytes > limit {
            return Err(BlobError::TooLarge { limit });
        }
        if offset == 0 {
            only = blake3::hash(&part);
        }
        let compressed = compress(&part)?;
        let (stored, plain) = match &compressed {
            Some(compressed) => (&compressed[..], 0),
            None => (&part[..], PLAIN),
        };
        let length = u32::try_from(stored.len()).unwrap_or(PLAIN - 1);
        index.entries.push(Entry { digest: subtree(&part, offset), stored: length | plain });
        store(stored)?;
        if part.len() < PART_BYTES {
            break;
        }
    }
    if let [entry] = &mut index.entries[..] {
        entry.digest = *only.as_bytes();
    }
    let digest = index.root().unwrap_or_else(|| BlobDigest(*only.as_bytes()));
    Ok((BlobRef { digest, bytes: index.bytes }, index))
}

/// The compressed form, where it saves an eighth or more.
fn compress(part: &[u8]) -> Result<Option<Vec<u8>>, BlobError> {
    let compressed = zstd::bulk::compress(part, LEVEL)
        .map_err(|error| BlobError::Unavailable(format!("could not compress: {error}")))?;
    Ok(Some(compressed).filter(|compressed| compressed.len() <= part.len() - part.len() / 8))
}

fn subtree(part: &[u8], offset: u64) -> ChainingValue {
    Hasher::new().set_input_offset(offset).update(part).finalize_non_root()
}

impl Index {
    /// Parts of the content.
    pub fn parts(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of all parts as they are stored.
    pub fn stored_bytes(&self) -> u64 {
        self.entries.iter().map(|entry| u64::from(entry.stored & !PLAIN)).sum()
    }

    /// Where a part is stored, if the parts follow each other.
    pub fn stored_at(&self, part: usize) -> Range<u64> {
        let length = |entry: &Entry| u64::from(entry.stored & !PLAIN);
        let start = self.entries.iter().take(part).map(length).sum();
        start..start + self.entries.get(part).map_or(0, length)
    }

    /// As it is stored.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.entries.len() * ENTRY_BYTES + FOOTER_BYTES);
        for entry in &self.entries {
            bytes.extend_from_slice(&entry.digest);
            bytes.extend_from_slice(&entry.stored.to_le_bytes());
        }
        bytes.extend_from_slice(&self.bytes.to_le_bytes());
        let check = checksum(&bytes);
        bytes.extend_from_slice(&check);
        bytes.extend_from_slice(MAGIC);
        bytes
    }

    /// Bytes of a whole index that ends like this.
    pub fn length(footer: &[u8]) -> Option<usize> {
        let (bytes, rest) = footer.split_first_chunk()?;
        let bytes = u64::from_le_bytes(*bytes);
        let known = rest.ends_with(MAGIC) && bytes <= BLOB_BYTES_MAX;
        let parts = usize::try_from(bytes.div_ceil(PART_BYTES as u64)).ok()?;
        known.then_some(parts * ENTRY_BYTES + FOOTER_BYTES)
    }

    /// The index of a blob, if it is the one that was stored under this digest.
    pub fn decode(digest: &BlobDigest, stored: &[u8]) -> Result<Self, BlobError> {
        let read = || {
            let (body, footer) =
                stored.split_at_checked(stored.len().checked_sub(FOOTER_BYTES)?)?;
            let whole = Self::length(footer)? == stored.len();
            let (checked, check) = stored.split_at_checked(body.len() + 8)?;
            if !whole || !check.starts_with(&checksum(checked)) {
                return None;
            }
            let entries = body.chunks_exact(ENTRY_BYTES).map(|entry| {
                let (digest, stored) = entry.split_first_chunk()?;
                Some(Entry { digest: *digest, stored: u32::from_le_bytes(stored.try_into().ok()?) })
            });
            let bytes = u64::from_le_bytes(*footer.first_chunk()?);
            Some(Self { bytes, entries: entries.collect::<Option<_>>()? })
        };
        let corrupt = || BlobError::Corrupt {
            digest: *digest,
            reason: "its index is not the one that was stored".to_owned(),
        };
        let index = read().ok_or_else(corrupt)?;
        let root = index.root().unwrap_or_else(|| BlobDigest::of(b""));
        if root == *digest { Ok(index) } else { Err(corrupt()) }
    }

    /// The content of a part, if it is the one that was stored.
    pub fn open(
        &self,
        digest: &BlobDigest,
        part: usize,
        stored: Vec<u8>,
    ) -> Result<Vec<u8>, BlobError> {
        let corrupt = |reason: &str| BlobError::Corrupt {
            digest: *digest,
            reason: format!("part {} of {}: {reason}", part + 1, self.parts()),
        };
        let Some(entry) = self.entries.get(part) else {
            return Err(corrupt("there is no such part"));
        };
        let content = match entry.stored & PLAIN {
            PLAIN => stored,
            // Never grows beyond a part, whatever the bytes say.
            _ => zstd::bulk::decompress(&stored, PART_BYTES)
                .map_err(|_| corrupt("its bytes cannot be decompressed"))?,
        };
        let offset = part as u64 * PART_BYTES as u64;
        let whole = (self.bytes - offset).min(PART_BYTES as u64);
        let found = match self.entries.len() {
            1 => *blake3::hash(&content).as_bytes(),
            _ if content.is_empty() => [0; 32],
            _ => subtree(&content, offset),
        };
        if content.len() as u64 == whole && found == entry.digest {
            Ok(content)
        } else {
            Err(corrupt("its bytes do not hash to its digest"))
        }
    }

    /// The digest that the parts give together; none where there are no parts.
    fn root(&self) -> Option<BlobDigest> {
        match &self.entries[..] {
            [] => None,
            [only] => Some(BlobDigest(only.digest)),
            several => {
                let (left, right) = several.split_at(left_of(several.len()));
                let root = merge_subtrees_root(&merge(left), &merge(right), Mode::Hash);
                Some(BlobDigest(*root.as_bytes()))
            }
        }
    }
}

/// How many of so many parts are in the left subtree: the largest power of two that leaves some.
fn left_of(parts: usize) -> usize {
    parts.div_ceil(2).next_power_of_two()
}

fn merge(entries: &[Entry]) -> ChainingValue {
    match entries {
        [] => ChainingValue::default(),
        [only] => only.digest,
        several => {
            let (left, right) = several.split_at(left_of(several.len()));
            merge_subtrees_non_root(&merge(left), &merge(right), Mode::Hash)
        }
    }
}

fn checksum(bytes: &[u8]) -> [u8; 8] {
    let hash = blake3::hash(bytes);
    let mut checksum = [0; 8];
    checksum.iter_mut().zip(hash.as_bytes()).for_each(|(to, from)| *to = *from);
    checksum
}

#[cfg(test)]
mod tests;
