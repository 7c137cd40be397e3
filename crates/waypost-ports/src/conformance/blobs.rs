//! What every place for blobs promises: content under its digest, verified at every read; ages; and
//! nothing left behind by what failed.

use std::io::{self, Read};
use std::sync::Arc;

use waypost_core::blob::{BlobDigest, BlobRef};
use waypost_core::time::Millis;

use crate::blobs::format::PART_BYTES;
use crate::blobs::{BlobError, Blobs};

/// Implemented by a backend's test binary: a place for blobs, empty at first.
pub trait BlobsBackend {
    /// The implementation under test.
    type Blobs: Blobs + 'static;

    /// Opens it. Called again for the same data.
    fn open(&self) -> Self::Blobs;

    /// Lets this much time pass for the blobs; a backend with a server's time moves its rows back
    /// instead.
    fn pass(&self, span: Millis);

    /// Changes a stored byte of the last part of a blob.
    fn damage(&self, digest: &BlobDigest);

    /// How many things are stored, finished or not: files, rows, objects.
    fn stored(&self) -> usize;
}

/// Makes one test for each case, from a function that makes a
/// [`BlobsBackend`](crate::conformance::blobs::BlobsBackend).
#[macro_export]
macro_rules! blobs_conformance_tests {
    ($make:path) => {
        $crate::blobs_conformance_tests! { @cases $make;
            content_put_is_read_back_exactly,
            blob_survives_reopening,
            range_is_read_across_parts,
            equal_content_is_stored_once,
            unknown_blob_is_not_found,
            damaged_blob_is_named_by_whole_and_ranged_reads,
            undamaged_part_of_a_damaged_blob_is_read,
            content_above_the_limit_leaves_nothing,
            interrupted_content_leaves_nothing,
            blob_larger_than_wanted_in_memory_is_refused,
            put_and_touch_make_a_blob_young,
            delete_takes_only_old_blobs,
            blob_deleted_and_put_again_is_there,
            concurrent_puts_of_equal_content_both_succeed,
            blobs_are_listed_in_order_and_pages,
            compressible_content_is_stored_in_less_space,
        }
    };
    (@cases $make:path; $($case:ident),* $(,)?) => {
        mod blobs {
            #[expect(unused_imports, reason = "a path that is absolute needs none of them")]
            use super::*;
            $(
                #[test]
                fn $case() {
                    $crate::conformance::blobs::$case(&$make());
                }
            )*
        }
    };
}

const HOUR: Millis = Millis::from_secs(3_600);
const DAY: Millis = Millis::from_secs(24 * 3_600);

/// Content that does not compress, different for each seed.
fn noise(seed: u8, bytes: usize) -> Vec<u8> {
    let mut content = vec![0; bytes];
    blake3::Hasher::new().update(&[seed]).finalize_xof().fill(&mut content);
    content
}

fn put(blobs: &impl Blobs, mut content: &[u8]) -> BlobRef {
    blobs.put(&mut content, u64::MAX).expect("it is answered")
}

fn get(blobs: &impl Blobs, blob: &BlobRef) -> Vec<u8> {
    blobs.get(&blob.digest, u64::MAX).expect("it is answered")
}

/// A content that breaks off after so many bytes.
struct Interrupted(usize);

impl Read for Interrupted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.0.min(buffer.len());
        self.0 -= bytes;
        if bytes == 0 {
            return Err(io::Error::other("the caller hung up"));
        }
        buffer[..bytes].fill(b'x');
        Ok(bytes)
    }
}

pub fn content_put_is_read_back_exactly(backend: &impl BlobsBackend) {
    let blobs = backend.open();
    for bytes in [0, 1, 1_000, PART_BYTES, PART_BYTES + 1, 3 * PART_BYTES + 17] {
        let content = noise(1, bytes);
        let blob = put(&blobs, &content);
        assert_eq!(blob, BlobRef { digest: BlobDigest::of(&content), bytes: bytes as u64 });
        assert!(get(&blobs, &blob) == content, "{bytes} bytes");
        let stat = blobs.stat(&blob.digest).expect("it is answered");
        assert_eq!(stat.blob, blob);
        assert!(stat.stored_bytes >= bytes as u64);
    }
}

pub fn blob_survives_reopening(backend: &impl BlobsBackend) {
    let content = noise(1, 2 * PART_BYTES + 3);
    let blob = put(&backend.open(), &content);
    assert!(get(&backend.open(), &blob) == content);
}

pub fn range_is_read_across_parts(backend: &impl BlobsBackend) {
    let blobs = backend.open();
    let content = noise(1, 3 * PART_BYTES + 100);
    let blob = put(&blobs, &content);
    let (part, end) = (PART_BYTES as u64, blob.bytes);
    let ranges = [
        0..1,
        0..end,
        part - 1..part + 1,
        part..2 * part,
        part + 5..3 * part + 5,
        end - 1..end,
        end..end + 5,
        end - 3..end + 5,
        7..7,
    ];
    for range in ranges {
        let pieces = blobs.open(&blob.digest).expect("it is answered").read(range.clone());
        let read: Vec<u8> = pieces.flat_map(|piece| piece.expect("it is read")).collect();
        let at = |at: u64| usize::try_from(at.min(end)).expect("it is answered");
        assert!(read == content[at(range.start)..at(range.end)], "{range:?}");
    }
}

pub fn equal_content_is_stored_once(backend: &impl BlobsBackend) {
    let blobs = backend.open();
    let content = noise(1, PART_BYTES + 1);
    let first = put(&blobs, &content);
    let stored = backend.stored();
    assert_eq!(put(&blobs, &content), first);
    assert_eq!(backend.stored(), stored);
    assert!(get(&blobs, &first) == content);
}

pub fn unknown_blob_is_not_found(backend: &impl BlobsBackend) {
    let blobs = backend.open();
    put(&blobs, b"another");
    let digest = BlobDigest::of(b"never put");
    let unknown = BlobError::NotFound(digest);
    assert_eq!(blobs.open(&digest).err(), Some(unknown.clone()));
    assert_eq!(blobs.stat(&digest).err(), Some(unknown.clone()));
    assert_eq!(blobs.touch(&digest), Err(unknown));
    assert_eq!(blobs.delete(&digest, blobs.now().expect("it is answered").plus(DAY)), Ok(false));
}

fn is_corrupt<T>(result: &Result<T, BlobError>, blob: &BlobRef) -> bool {
    matches!(result, Err(BlobError::Corrupt { digest, .. }) if *digest == blob.digest)
}

pub fn damaged_blob_is_named_by_whole_and_ranged_reads(backend: &impl BlobsBackend) {
    let blobs = backend.open();
    for content in [noise(1, PART_BYTES + 1_000), vec![b'x'; 1_000], noise(2, 1_000)] {
        let blob = put(&blobs, &content);
        backend.damage(&blob.digest);
        assert!(is_corrupt(&blobs.get(&blob.digest, u64::MAX), &blob));
        // A byte that is itself as it was, in a part that is not.
        let at = blob.bytes - 500;
        let pieces = blobs.open(&blob.digest).expect("it is answered").read(at..at + 1);
        assert!(is_corrupt(&pieces.collect::<Result<Vec<_>, _>>(), &blob));
    }
}

pub fn undamaged_part_of_a_damaged_blob_is_read(backend: &impl BlobsBackend) {
    let blobs = backend.open();
    let content = noise(1, PART_BYTES + 1_000);
    let blob = put(&blobs, &content);
    backend.damage(&blob.digest);
    let mut pieces = blobs.open(&blob.digest).expect("it is answered").read(..);
    assert!(
        pieces.next().expect("it is answered").expect("it is answered") == content[..PART_BYTES]
    );
    assert!(is_corrupt(&pieces.next().expect("it is answered"), &blob));
    assert!(pieces.next().is_none());
}

pub fn content_above_the_limit_leaves_nothing(backend: &impl BlobsBackend) {
    let blobs = backend.open();
    put(&blobs, b"another");
    let stored = backend.stored();
    for limit in [0, 10, PART_BYTES as u64, 2 * PART_BYTES as u64] {
        let refused = blobs.put(&mut io::repeat(b'x'), limit);
        assert_eq!(refused, Err(BlobError::TooLarge { limit }));
    }
    assert_eq!(backend.stored(), stored);
    assert!(blobs.put(&mut &[b'x'; 10][..], 10).is_ok());
}

pub fn interrupted_content_leaves_nothing(backend: &impl BlobsBackend) {
    let blobs = backend.open();
    put(&blobs, b"another");
    let stored = backend.stored();
    for bytes in [0, 10, PART_BYTES, 2 * PART_BYTES + 1] {
        let interrupted = blobs.put(&mut Interrupted(bytes), u64::MAX);
        let reason = "the caller hung up".to_owned();
        assert_eq!(interrupted, Err(BlobError::Interrupted(reason)), "after {bytes} bytes");
    }
    assert_eq!(backend.stored(), stored);
}

pub fn blob_larger_than_wanted_in_memory_is_refused(backend: &impl BlobsBackend) {
    let blobs = backend.open();
    let blob = put(&blobs, &noise(1, 100));
    assert_eq!(blobs.get(&blob.digest, 99), Err(BlobError::TooLarge { limit: 99 }));
    assert_eq!(blobs.get(&blob.digest, 100), Ok(noise(1, 100)));
}

pub fn put_and_touch_make_a_blob_young(backend: &impl BlobsBackend) {
    let blobs = backend.open();
    let content = noise(1, 1_000);
    let blob = put(&blobs, &content);
    let age = || {
        let touched_at = blobs.stat(&blob.digest).expect("it is answered").touched_at;
        blobs.now().expect("it is answered").since(touched_at)
    };
    assert!(age() < HOUR);
    backend.pass(DAY);
    assert!(age() >= DAY);
    blobs.touch(&blob.digest).expect("it is answered");
    assert!(age() < HOUR);
    backend.pass(DAY);
    assert!(age() >= DAY);
    put(&blobs, &content);
    assert!(age() < HOUR);
}

pub fn delete_takes_only_old_blobs(backend: &impl BlobsBackend) {
    let blobs = backend.open();
    let blob = put(&blobs, &noise(1, PART_BYTES + 1));
    backend.pass(DAY);
    let before = blobs.now().expect("it is answered").minus(HOUR);
    blobs.touch(&blob.digest).expect("it is answered");
    assert_eq!(blobs.delete(&blob.digest, before), Ok(false));
    assert!(get(&blobs, &blob) == noise(1, PART_BYTES + 1));
    backend.pass(DAY);
    let before = blobs.now().expect("it is answered").minus(HOUR);
    assert_eq!(blobs.delete(&blob.digest, before), Ok(true));
    assert_eq!(blobs.delete(&blob.digest, before), Ok(false));
    assert_eq!(blobs.open(&blob.digest).err(), Some(BlobError::NotFound(blob.digest)));
    assert_eq!(blobs.list(None, 10), Ok(Vec::new()));
    assert_eq!(backend.stored(), 0);
}

pub fn blob_deleted_and_put_again_is_there(backend: &impl BlobsBackend) {
    let blobs = backend.open();
    let content = noise(1, 1_000);
    let blob = put(&blobs, &content);
    backend.pass(DAY);
    assert_eq!(blobs.delete(&blob.digest, blobs.now().expect("it is answered")), Ok(true));
    assert_eq!(put(&blobs, &content), blob);
    assert!(get(&blobs, &blob) == content);
}

pub fn concurrent_puts_of_equal_content_both_succeed(backend: &impl BlobsBackend) {
    let blobs = Arc::new(backend.open());
    let content = noise(1, 2 * PART_BYTES + 1);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let blob = put(&*blobs, &content);
                assert!(get(&*blobs, &blob) == content);
            });
        }
    });
    assert_eq!(blobs.list(None, 10).expect("it is answered").len(), 1);
}

pub fn blobs_are_listed_in_order_and_pages(backend: &impl BlobsBackend) {
    let blobs = backend.open();
    let mut digests: Vec<BlobDigest> =
        (0..9).map(|seed| put(&blobs, &noise(seed, 10)).digest).collect();
    digests.sort();
    let mut listed = Vec::new();
    loop {
        let page = blobs.list(listed.last(), 4).expect("it is answered");
        assert!(page.iter().all(|blob| blob.stored_bytes > 0));
        listed.extend(page.iter().map(|blob| blob.digest));
        if page.len() < 4 {
            break;
        }
    }
    assert_eq!(listed, digests);
}

pub fn compressible_content_is_stored_in_less_space(backend: &impl BlobsBackend) {
    let blobs = backend.open();
    let content = b"a line of a log\n".repeat(200_000);
    let blob = put(&blobs, &content);
    assert!(blobs.stat(&blob.digest).expect("it is answered").stored_bytes < blob.bytes / 10);
    assert!(get(&blobs, &blob) == content);
}
