//! Blobs in a bucket: the promises of every place for blobs, uploads in several parts, and copies.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use waypost_blobs::{S3Blobs, S3Options};
use waypost_core::blob::BlobDigest;
use waypost_core::time::Millis;
use waypost_ports::blobs::{BlobError, Blobs};
use waypost_ports::clock::{Clock as _, SystemClock};
use waypost_ports::conformance::blobs::BlobsBackend;
use waypost_testbed::Bucket;

struct InBucket(Bucket);

impl InBucket {
    fn new() -> Self {
        Self(Bucket::start())
    }

    fn key(&self, digest: &BlobDigest) -> String {
        let named = |key: &&String| key.contains(&digest.to_string());
        self.0.keys().iter().find(named).unwrap().clone()
    }
}

impl BlobsBackend for InBucket {
    type Blobs = S3Blobs;

    fn open(&self) -> S3Blobs {
        let options = S3Options {
            bucket: "bucket".to_owned(),
            prefix: "some/prefix".to_owned(),
            endpoint: Some(self.0.url()),
            region: Some("eu-test-1".to_owned()),
            access_key: Some(("id".to_owned(), "secret".to_owned())),
        };
        S3Blobs::open(&options, Arc::new(SystemClock)).unwrap()
    }

    fn pass(&self, span: Millis) {
        self.0.age(span.to_std());
    }

    fn damage(&self, digest: &BlobDigest) {
        let index = if self.open().stat(digest).unwrap().blob.bytes > 1 << 20 { 96 } else { 60 };
        self.0.change(&self.key(digest), |body| {
            let at = body.len() - index - 1;
            body[at] ^= 1;
        });
    }

    fn stored(&self) -> usize {
        self.0.keys().len() + self.0.open_uploads()
    }
}

waypost_ports::blobs_conformance_tests!(InBucket::new);

/// Content that does not compress.
fn noise(bytes: usize) -> Vec<u8> {
    let mut noise = vec![0; bytes];
    std::fs::File::open("/dev/urandom").unwrap().read_exact(&mut noise).unwrap();
    noise
}

const DAY: Duration = Duration::from_secs(24 * 3_600);

#[test]
fn large_blob_is_uploaded_in_parts_read_touched_and_deleted() {
    let bucket = InBucket::new();
    let blobs = bucket.open();
    let content = noise((17 << 20) + 5);
    let blob = blobs.put(&mut &content[..], u64::MAX).unwrap();
    assert_eq!((bucket.0.uploads_begun(), bucket.0.open_uploads()), (1, 0));
    assert_eq!(bucket.0.keys().len(), 2);
    assert!(blobs.get(&blob.digest, u64::MAX).unwrap() == content);
    let pieces = blobs.open(&blob.digest).unwrap().read((9 << 20)..(9 << 20) + 7);
    let range: Vec<u8> = pieces.flat_map(Result::unwrap).collect();
    assert_eq!(range, content[9 << 20..(9 << 20) + 7]);
    bucket.0.age(DAY);
    blobs.touch(&blob.digest).unwrap();
    assert_eq!(bucket.0.keys().len(), 4, "a second copy");
    let now = SystemClock.now();
    assert_eq!(blobs.delete(&blob.digest, now.minus(Millis::from_secs(3_600))), Ok(false));
    assert_eq!(bucket.0.keys().len(), 2, "the old copy is gone");
    assert!(blobs.get(&blob.digest, u64::MAX).unwrap() == content);
    bucket.0.age(DAY);
    assert_eq!(blobs.delete(&blob.digest, now), Ok(true));
    assert!(bucket.0.keys().is_empty());
}

#[test]
fn known_large_content_aborts_its_upload() {
    let bucket = InBucket::new();
    let blobs = bucket.open();
    let content = noise(9 << 20);
    blobs.put(&mut &content[..], u64::MAX).unwrap();
    blobs.put(&mut &content[..], u64::MAX).unwrap();
    assert_eq!((bucket.0.uploads_begun(), bucket.0.open_uploads()), (2, 0));
    assert_eq!(bucket.0.keys().len(), 2);
}

#[test]
fn large_upload_above_the_limit_is_aborted() {
    let bucket = InBucket::new();
    let put = bucket.open().put(&mut &noise(20 << 20)[..], 19 << 20);
    assert_eq!(put, Err(BlobError::TooLarge { limit: 19 << 20 }));
    assert_eq!(bucket.0.uploads_begun(), 1);
    assert_eq!(bucket.stored(), 0);
}

#[test]
fn content_without_a_blob_is_discarded_when_it_is_old() {
    let bucket = InBucket::new();
    let blobs = bucket.open();
    let blob = blobs.put(&mut &noise(9 << 20)[..], u64::MAX).unwrap();
    bucket.0.add("some/prefix/content/orphan", b"content");
    bucket.0.age(DAY);
    bucket.0.add("some/prefix/content/young", b"content");
    let before = SystemClock.now().minus(Millis::from_secs(3_600));
    assert_eq!(blobs.discard_uploads(before), Ok(1));
    assert_eq!(bucket.0.keys().len(), 3);
    assert!(blobs.get(&blob.digest, u64::MAX).is_ok());
}

#[test]
fn bucket_that_refuses_is_unavailable() {
    let bucket = InBucket::new();
    let blobs = bucket.open();
    bucket.0.fail(true);
    let put = blobs.put(&mut &b"content"[..], u64::MAX);
    assert!(matches!(put, Err(BlobError::Unavailable(_))), "{put:?}");
}
