//! Blobs in a bucket of S3, or of a service that is compatible with it.
//!
//! ```text
//!   <prefix>/blobs/<digest>/<copy>.whole    a copy of up to 8 MiB: parts and index
//!   <prefix>/blobs/<digest>/<copy>.index    the index of a larger copy
//!   <prefix>/content/<copy>                 its parts
//! ```
//!
//! The digest of content is known at its end, and an object cannot be renamed: so the parts of a large blob
//! have a key of their own, and the blob exists once its index does.
//!
//! S3 cannot touch an object, nor delete one only if it is old. So nothing is ever touched: a blob is made
//! young by a further copy, and each copy is deleted by its own age. A copy that is younger than [`FRESH`]
//! is young enough to count as just put, half a day before the sweep would take it. No race is left: the
//! sweep never deletes a copy that a writer relied on.
//!
//! An upload that fails is aborted. What the parts of an upload whose process died cost, a lifecycle rule of
//! the bucket limits (`AbortIncompleteMultipartUpload`): S3 does not list them with its objects.

mod copies;
mod upload;

use std::collections::HashSet;
use std::future::Future;
use std::io::Read;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use object_store::aws::AmazonS3Builder;
use object_store::path::Path;
use object_store::{ClientOptions, ObjectMeta, ObjectStore, ObjectStoreExt as _, RetryConfig};
use tokio::runtime::Runtime;
use uuid::Uuid;
use waypost_core::blob::{BlobDigest, BlobRef};
use waypost_core::time::{Millis, Timestamp};
use waypost_ports::blobs::{BlobError, BlobReader, BlobStat, Blobs, ListedBlob};
use waypost_ports::clock::Clock;

use upload::Sending;

/// A copy that is younger than this counts as just put.
const FRESH: Millis = Millis::from_secs(12 * 3_600);

/// Bytes of a request of an upload. All but the last are equally long, as some services require.
const CHUNK_BYTES: usize = 8 * 1024 * 1024;
/// More bytes than the index of the largest blob has.
const INDEX_BYTES_MAX: u64 = 256 * 1024;
/// How long one request may take, such as the copy of 5 GiB within S3.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
/// How long a request is repeated while S3 fails.
const RETRY_TIMEOUT: Duration = Duration::from_secs(30);
const RETRIES: usize = 4;

/// Where a bucket is, and who uses it.
#[derive(Clone, Default)]
pub struct S3Options {
    pub bucket: String,
    /// What all keys begin with; may be empty.
    pub prefix: String,
    /// Where it is, if not in AWS.
    pub endpoint: Option<String>,
    pub region: Option<String>,
    /// Id and secret of an access key. Without one, credentials are found as the tools of AWS find them:
    /// variables such as `AWS_ACCESS_KEY_ID`, a web identity, or the machine's role.
    pub access_key: Option<(String, String)>,
}

/// Blobs in a bucket.
#[derive(Clone)]
pub struct S3Blobs(Arc<Inner>);

struct Inner {
    store: Arc<dyn ObjectStore>,
    prefix: String,
    clock: Arc<dyn Clock>,
    runtime: Option<Runtime>,
}

impl S3Blobs {
    /// Uses a bucket. Makes no request yet.
    pub fn open(options: &S3Options, clock: Arc<dyn Clock>) -> Result<Self, BlobError> {
        let failed = |error: &dyn std::fmt::Display| BlobError::Unavailable(error.to_string());
        // The client uses the process's default provider; one that was installed before is fine, too.
        drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
        let retry = RetryConfig {
            max_retries: RETRIES,
            retry_timeout: RETRY_TIMEOUT,
            ..RetryConfig::default()
        };
        let client = ClientOptions::new().with_timeout(REQUEST_TIMEOUT).with_allow_http(true);
        let mut builder = AmazonS3Builder::from_env()
            .with_bucket_name(&options.bucket)
            .with_client_options(client)
            .with_retry(retry);
        if let Some(endpoint) = &options.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        if let Some(region) = &options.region {
            builder = builder.with_region(region);
        }
        if let Some((id, secret)) = &options.access_key {
            builder = builder.with_access_key_id(id).with_secret_access_key(secret);
        }
        let store = Arc::new(builder.build().map_err(|error| failed(&error))?);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("waypost-s3")
            .enable_all()
            .build();
        let runtime = Some(runtime.map_err(|error| failed(&error))?);
        let prefix = match options.prefix.trim_matches('/') {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        };
        Ok(Self(Arc::new(Inner { store, prefix, clock, runtime })))
    }

    /// Waits for a request, on any thread.
    fn run<T: Send + 'static>(
        &self,
        request: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> object_store::Result<T> {
        let gone = || object_store::Error::Generic { store: "S3", source: "it is closing".into() };
        let (sender, receiver) = mpsc::channel();
        let runtime = self.0.runtime.as_ref().ok_or_else(gone)?;
        // Nothing receives it if the caller is gone.
        runtime.spawn(async move { sender.send(request.await).ok() });
        receiver.recv().map_err(|_| gone())?
    }

    fn with_store<T, F>(
        &self,
        request: impl FnOnce(Arc<dyn ObjectStore>) -> F,
    ) -> object_store::Result<T>
    where
        T: Send + 'static,
        F: Future<Output = object_store::Result<T>> + Send + 'static,
    {
        self.run(request(Arc::clone(&self.0.store)))
    }

    fn path(&self, rest: &str) -> Path {
        Path::from(format!("{}{rest}", self.0.prefix))
    }

    fn read(
        &self,
        path: Path,
        range: std::ops::Range<u64>,
        digest: &BlobDigest,
    ) -> Result<Bytes, BlobError> {
        self.with_store(|store| async move { store.get_range(&path, range).await })
            .map_err(|error| failed(&error, digest))
    }

    /// Objects under a prefix, passed to `each` as they are listed.
    fn each_object(
        &self,
        under: Path,
        mut each: impl FnMut(ObjectMeta) + Send + 'static,
    ) -> Result<(), BlobError> {
        let listed = self.with_store(|store| async move {
            let mut objects = store.list(Some(&under));
            while let Some(object) = objects.next().await {
                each(object?);
            }
            Ok(())
        });
        listed.map_err(|error| unavailable(&error))
    }
}

impl Blobs for S3Blobs {
    fn put(&self, content: &mut dyn Read, limit: u64) -> Result<BlobRef, BlobError> {
        let id = Uuid::new_v4().simple().to_string();
        let mut sending = Sending { id, buffer: Vec::new(), upload: None };
        let put = self.upload(&mut sending, content, limit).and_then(|(blob, index)| {
            self.finish(&mut sending, &blob, &index)?;
            Ok(blob)
        });
        if put.is_err() {
            self.abort(&mut sending);
        }
        put
    }

    fn open(&self, digest: &BlobDigest) -> Result<BlobReader, BlobError> {
        let copy = self.newest(digest)?;
        let index = self.read_index(&copy)?;
        let path = match copy.is_whole {
            true => copy.object.location,
            false => self.content(&copy.id),
        };
        let (blobs, digest) = (self.clone(), *digest);
        let read = move |_, at| Ok(blobs.read(path.clone(), at, &digest)?.into());
        Ok(BlobReader::new(digest, index, Box::new(read)))
    }

    fn stat(&self, digest: &BlobDigest) -> Result<BlobStat, BlobError> {
        let copy = self.newest(digest)?;
        let index = self.read_index(&copy)?;
        let of_content = if copy.is_whole { 0 } else { index.stored_bytes() };
        Ok(BlobStat {
            blob: BlobRef { digest: *digest, bytes: index.bytes },
            stored_bytes: copy.object.size + of_content,
            touched_at: copy.touched_at(),
        })
    }

    fn touch(&self, digest: &BlobDigest) -> Result<(), BlobError> {
        let copy = self.newest(digest)?;
        if self.is_fresh(&copy) {
            return Ok(());
        }
        let id = Uuid::new_v4().simple().to_string();
        if !copy.is_whole {
            self.copy_object(self.content(&copy.id), self.content(&id), digest)?;
        }
        let to = self.copy_path(digest, &id, copy.is_whole);
        self.copy_object(copy.object.location, to, digest)
    }

    fn list(&self, after: Option<&BlobDigest>, limit: usize) -> Result<Vec<ListedBlob>, BlobError> {
        let under = self.path("blobs");
        // After all copies of that blob, whose names are hexadecimal.
        let offset = after.map(|after| self.path(&format!("blobs/{after}/z")));
        let blobs = self.clone();
        let listed = self.with_store(|store| async move {
            let mut objects = match &offset {
                Some(offset) => store.list_with_offset(Some(&under), offset),
                None => store.list(Some(&under)),
            };
            let mut listed: Vec<ListedBlob> = Vec::new();
            while let Some(object) = objects.next().await {
                let Some(copy) = blobs.read_copy(object?) else { continue };
                let (digest, touched_at) = (copy.digest, copy.touched_at());
                let stored_bytes = copy.object.size;
                if let Some(last) = listed.last_mut().filter(|last| last.digest == digest) {
                    last.stored_bytes += stored_bytes;
                    last.touched_at = last.touched_at.max(touched_at);
                } else if listed.len() < limit {
                    listed.push(ListedBlob { digest, stored_bytes, touched_at });
                } else {
                    break;
                }
            }
            Ok(listed)
        });
        listed.map_err(|error| unavailable(&error))
    }

    fn delete(&self, digest: &BlobDigest, before: Timestamp) -> Result<bool, BlobError> {
        let copies = self.copies(digest)?;
        let (old, young): (Vec<_>, Vec<_>) =
            copies.into_iter().partition(|copy| copy.touched_at() < before);
        // Old copies of a blob that has a young one go, too.
        old.iter().try_for_each(|copy| self.delete_copy(copy))?;
        Ok(young.is_empty() && !old.is_empty())
    }

    fn discard_uploads(&self, before: Timestamp) -> Result<u64, BlobError> {
        let (sender, old) = mpsc::channel();
        let content = format!("{}content/", self.0.prefix);
        self.each_object(self.path("content"), move |object| {
            let id = object.location.as_ref().strip_prefix(&content).map(str::to_owned);
            if object.last_modified.timestamp_millis() < before.0 {
                // The receiver is alive: it is read below.
                sender.send(id.unwrap_or_default()).ok();
            }
        })?;
        let mut orphans: HashSet<String> = old.into_iter().collect();
        if orphans.is_empty() {
            return Ok(0);
        }
        let (sender, named) = mpsc::channel();
        let blobs = self.clone();
        self.each_object(self.path("blobs"), move |object| {
            let copy = blobs.read_copy(object).filter(|copy| !copy.is_whole);
            copy.into_iter().for_each(|copy| drop(sender.send(copy.id)));
        })?;
        for id in named {
            orphans.remove(&id);
        }
        for id in &orphans {
            self.delete_object(self.content(id))?;
        }
        Ok(orphans.len() as u64)
    }

    fn now(&self) -> Result<Timestamp, BlobError> {
        Ok(self.0.clock.now())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // A runtime that is dropped where others run would panic.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn failed(error: &object_store::Error, digest: &BlobDigest) -> BlobError {
    match error {
        object_store::Error::NotFound { .. } => BlobError::NotFound(*digest),
        other => unavailable(other),
    }
}

fn unavailable(error: &object_store::Error) -> BlobError {
    BlobError::Unavailable(error.to_string())
}
