//! Payloads that are too large for the log: into the blob store, and out of it.
//!
//! A blob is durable before any event names it: outputs are put before they are reported, inputs and
//! signals before they are accepted. Calls to the blob store block, so they run beside the runtime, a
//! few at a time.

use std::io::Cursor;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::warn;
use waypost_core::blob::BlobRef;
use waypost_core::command::Outcome;
use waypost_core::event::BLOBS_LOG_FORMAT;
use waypost_core::expr::FetchedContent;
use waypost_core::failure::{Failure, kind};
use waypost_core::json::Json;
use waypost_core::limits::{BLOB_BYTES_MAX, MAP_RESULTS_BYTES_MAX, PAYLOAD_BYTES_MAX};
use waypost_ports::blobs::{BlobError, Blobs, NotInlined, inline};
use waypost_ports::store::Store;

use super::Plans;
use super::items::{BadItems, ItemLists};
use super::results::{ResultsOf, put_results};

/// Calls to the blob store at once: each may have a content in memory.
const CALLS_MAX: usize = 8;
/// Waits between tries while the blob store does not answer.
const AGAIN: Duration = Duration::from_millis(200);
const AGAIN_MAX: Duration = Duration::from_secs(5);

/// Why a payload was not kept.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotKept {
    #[error(
        "the payload has {bytes} bytes; at most {PAYLOAD_BYTES_MAX} are kept as long as an older instance of this cluster runs"
    )]
    ClusterTooOld { bytes: u64 },
    #[error(
        "the payload has {bytes} bytes of references to blobs; at most {PAYLOAD_BYTES_MAX} are kept"
    )]
    TooManyReferences { bytes: u64 },
    #[error(transparent)]
    Blob(#[from] BlobError),
}

/// The way of payloads to the blob store and back. Copies share its places.
#[derive(Clone)]
pub(crate) struct Payloads {
    blobs: Arc<dyn Blobs>,
    inline_max: usize,
    /// The newest log format that every live instance reads.
    readable: Arc<AtomicU16>,
    calls: Arc<Semaphore>,
    lists: ItemLists,
}

impl Payloads {
    pub(crate) fn new(blobs: Arc<dyn Blobs>, inline_max: usize) -> Self {
        let inline_max = inline_max.min(PAYLOAD_BYTES_MAX);
        let calls = Arc::new(Semaphore::new(CALLS_MAX));
        Self { blobs, inline_max, readable: Arc::default(), calls, lists: ItemLists::default() }
    }

    /// Every live instance reads this log format.
    pub(crate) fn readable(&self, format: u16) {
        self.readable.store(format, Ordering::Relaxed);
    }

    async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&dyn Blobs) -> Result<T, BlobError> + Send + 'static,
    ) -> Result<T, BlobError> {
        let stopped = || BlobError::Unavailable("the process is stopping".to_owned());
        let place = Arc::clone(&self.calls).acquire_owned().await.map_err(|_| stopped())?;
        let blobs = Arc::clone(&self.blobs);
        let called = tokio::task::spawn_blocking(move || {
            let _place = place;
            call(&*blobs)
        });
        called.await.unwrap_or_else(|_| Err(stopped()))
    }

    /// The payload as the log has it: a reference, if it is too large to be inline. Where it has
    /// references in it, these stay in the log, and its largest parts become blobs.
    pub(crate) async fn keep(&self, payload: Json) -> Result<Json, NotKept> {
        if payload.bytes() <= self.inline_max {
            return Ok(payload);
        }
        let bytes = payload.bytes() as u64;
        if self.readable.load(Ordering::Relaxed) < BLOBS_LOG_FORMAT {
            return match payload.bytes() <= PAYLOAD_BYTES_MAX {
                true => Ok(payload),
                false => Err(NotKept::ClusterTooOld { bytes }),
            };
        }
        let inline_max = self.inline_max;
        let put = move |blobs: &dyn Blobs| {
            payload.split(inline_max, &mut |part: &Json| {
                let mut text = Cursor::new(part.text().as_bytes());
                Ok::<_, BlobError>(Json::reference(blobs.put(&mut text, BLOB_BYTES_MAX)?))
            })
        };
        let kept = self.call(put).await?;
        match kept.bytes() <= PAYLOAD_BYTES_MAX {
            true => Ok(kept),
            false => Err(NotKept::TooManyReferences { bytes: kept.bytes() as u64 }),
        }
    }

    /// As [`keep`](Self::keep), for the output of an attempt that was made: tries until the blob store
    /// answers, or the attempt is cancelled.
    pub(crate) async fn keep_outcome(
        &self,
        outcome: Outcome,
        cancel: &CancellationToken,
    ) -> Outcome {
        let Outcome::Completed(output) = outcome else { return outcome };
        let kept = self.until_answered(
            cancel,
            || self.keep(output.clone()),
            |error| match error {
                NotKept::Blob(error) => error.is_passing(),
                NotKept::ClusterTooOld { .. } | NotKept::TooManyReferences { .. } => false,
            },
        );
        match kept.await {
            Some(Ok(output)) => Outcome::Completed(output),
            Some(Err(error)) => {
                let kind = match &error {
                    NotKept::ClusterTooOld { .. } | NotKept::TooManyReferences { .. } => {
                        kind::TOO_LARGE
                    }
                    NotKept::Blob(_) => kind::BLOB,
                };
                let message = format!("the output cannot be kept: {error}");
                Outcome::Failed(Failure::permanent(kind, message))
            }
            None => Outcome::Cancelled,
        }
    }

    /// The config with the content of each blob in place of its reference.
    pub(crate) async fn inline(
        &self,
        config: &Json,
        cancel: &CancellationToken,
    ) -> Option<Result<Json, Failure>> {
        if config.references().next().is_none() {
            return Some(Ok(config.clone()));
        }
        let read = || {
            let config = config.clone();
            self.call(move |blobs| match inline(blobs, &config) {
                Err(NotInlined::Blob(error)) => Err(error),
                inlined => Ok(inlined),
            })
        };
        let read = self.until_answered(cancel, read, BlobError::is_passing).await?;
        Some(read.unwrap_or_else(|error| Err(error.into())).map_err(Failure::from))
    }

    /// The content of a blob that an expression looks into. Tries until the blob store answers.
    pub(crate) async fn content(
        &self,
        blob: BlobRef,
        over: &CancellationToken,
    ) -> Option<FetchedContent> {
        let read = || {
            self.call(move |blobs| {
                let content = blobs.get(&blob.digest, blob.bytes)?;
                Ok(FetchedContent::read(blob, &content))
            })
        };
        let read = self.until_answered(over, read, BlobError::is_passing).await?;
        Some(read.unwrap_or_else(|error| {
            FetchedContent::failed(Failure::permanent(kind::BLOB, error.to_string()))
        }))
    }

    /// How many items a blob has.
    pub(crate) async fn count(
        &self,
        blob: BlobRef,
        over: &CancellationToken,
    ) -> Option<FetchedContent> {
        let lists = self.lists.clone();
        self.of_items(over, move |blobs| Ok(FetchedContent::count(lists.count(blobs, blob)?))).await
    }

    /// A page of its items.
    pub(crate) async fn items(
        &self,
        blob: BlobRef,
        page: u64,
        over: &CancellationToken,
    ) -> Option<FetchedContent> {
        let lists = self.lists.clone();
        self.of_items(over, move |blobs| Ok(FetchedContent::items(lists.page(blobs, blob, page)?)))
            .await
    }

    async fn of_items(
        &self,
        over: &CancellationToken,
        read: impl Fn(&dyn Blobs) -> Result<FetchedContent, BadItems> + Clone + Send + 'static,
    ) -> Option<FetchedContent> {
        let call = || {
            let read = read.clone();
            self.call(move |blobs| match read(blobs) {
                Err(BadItems::Blob(error)) => Err(error),
                read => Ok(read),
            })
        };
        Some(match self.until_answered(over, call, BlobError::is_passing).await? {
            Ok(Ok(content)) => content,
            Ok(Err(error)) => FetchedContent::failed(error.into()),
            Err(error) => FetchedContent::failed(BadItems::Blob(error).into()),
        })
    }

    /// The results of a map, read from the log and kept as a blob.
    pub(crate) async fn results(
        &self,
        store: Arc<dyn Store>,
        plans: Arc<Plans>,
        of: ResultsOf,
        over: &CancellationToken,
    ) -> Option<FetchedContent> {
        if self.readable.load(Ordering::Relaxed) < BLOBS_LOG_FORMAT {
            let message = format!(
                "the results have more than {MAP_RESULTS_BYTES_MAX} bytes, and cannot be kept as a \
                 blob as long as an older instance of this cluster runs"
            );
            return Some(FetchedContent::failed(Failure::permanent(kind::TOO_LARGE, message)));
        }
        let put = || {
            let (store, plans) = (Arc::clone(&store), Arc::clone(&plans));
            self.call(move |blobs| put_results(blobs, &*store, &plans, of))
        };
        Some(match self.until_answered(over, put, BlobError::is_passing).await? {
            Ok(Ok(blob)) => FetchedContent::results(blob),
            Ok(Err(damage)) => {
                let message = format!("the results cannot be read from the log: {damage}");
                FetchedContent::failed(Failure::permanent(kind::BLOB, message))
            }
            Err(error @ BlobError::TooLarge { .. }) => {
                FetchedContent::failed(Failure::permanent(kind::TOO_LARGE, error.to_string()))
            }
            Err(error) => FetchedContent::failed(Failure::permanent(kind::BLOB, error.to_string())),
        })
    }

    /// Calls again while the failure is a passing one; `None` if it was cancelled.
    async fn until_answered<T, E: std::fmt::Display, F: Future<Output = Result<T, E>>>(
        &self,
        cancel: &CancellationToken,
        call: impl Fn() -> F,
        is_passing: impl Fn(&E) -> bool,
    ) -> Option<Result<T, E>> {
        let mut wait = AGAIN;
        loop {
            let answer = tokio::select! {
                answer = call() => answer,
                () = cancel.cancelled() => return None,
            };
            match answer {
                Err(error) if is_passing(&error) => {
                    warn!(%error, "the blob store fails; trying again")
                }
                answer => return Some(answer),
            }
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = cancel.cancelled() => return None,
            }
            wait = (wait * 2).min(AGAIN_MAX);
        }
    }
}
