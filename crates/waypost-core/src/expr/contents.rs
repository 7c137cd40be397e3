//! The contents of blobs that expressions look into.
//!
//! A reference goes through expressions as it is: `${{ nodes.fetch.output }}` gives it to the next
//! node without a look at the content. Only an expression that looks inside, `nodes.fetch.output.id`,
//! needs it. If it is not at hand, the evaluation stops and notes which blob it missed; the driver
//! fetches the content and evaluates again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::budget::{Budget, Stop};
use super::read;
use super::value::Value;
use crate::blob::BlobRef;
use crate::failure::{Failure, kind};
use crate::json::Json;
use crate::limits::BLOB_IN_EXPRESSION_BYTES_MAX;
use crate::path::At;

/// Bytes of memory that the values of one content may take.
const CONTENT_MEMORY_MAX: u64 = 256 * 1024 * 1024;

/// Something that a decision needs and the core cannot read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Wanted {
    /// The content of a blob, for an expression that looks into it.
    Content(BlobRef),
    /// How many items the list in a blob has.
    Count(BlobRef),
    /// Items of that list: those from `page` times [`ITEMS_PAGE`] on.
    Items { blob: BlobRef, page: u64 },
    /// The results of the `count` items of a map, as a blob with a list of them.
    Results { map: At, attempt: u32, count: u64 },
}

/// Items of a list in a blob that are read at once.
pub const ITEMS_PAGE: u64 = 256;

/// What was wanted; or why it cannot be had.
#[derive(Clone, Debug)]
pub struct FetchedContent(Result<Found, Failure>);

#[derive(Clone, Debug)]
enum Found {
    Value(Value),
    Count(u64),
    Items(Arc<[Json]>),
    Results(BlobRef),
}

impl FetchedContent {
    /// Reads a content of JSON. What fails here fails each time.
    pub fn read(blob: BlobRef, content: &[u8]) -> Self {
        let digest = blob.digest;
        // What looks like a reference in it was written outside.
        let Ok(json) = Json::parse_bytes(content) else {
            let message = format!(
                "blob {digest} is not JSON, so no expression can look into it; `| ref` gives a \
                 handler its digest and its address"
            );
            return Self::failed(Failure::permanent(kind::EXPRESSION, message));
        };
        let budget = Budget::of_memory(u64::MAX, CONTENT_MEMORY_MAX);
        Self(read::json(json.text(), &budget).map(Found::Value).map_err(|_| too_large(blob)))
    }

    /// The answer to [`Wanted::Count`].
    pub fn count(count: u64) -> Self {
        Self(Ok(Found::Count(count)))
    }

    /// The answer to [`Wanted::Items`].
    pub fn items(items: impl Into<Arc<[Json]>>) -> Self {
        Self(Ok(Found::Items(items.into())))
    }

    /// The answer to [`Wanted::Results`].
    pub fn results(blob: BlobRef) -> Self {
        Self(Ok(Found::Results(blob)))
    }

    /// The content cannot be had.
    pub fn failed(failure: Failure) -> Self {
        Self(Err(failure))
    }

    /// Why this blob is too large to be looked into; absent if it is not.
    pub fn refuse(blob: BlobRef) -> Option<Self> {
        let large = blob.bytes > BLOB_IN_EXPRESSION_BYTES_MAX;
        large.then(|| Self::failed(too_large(blob)))
    }
}

fn too_large(blob: BlobRef) -> Failure {
    let message = format!(
        "blob {} has {} bytes; an expression can look into at most {BLOB_IN_EXPRESSION_BYTES_MAX}, \
         and into fewer if it consists of many small values",
        blob.digest, blob.bytes
    );
    Failure::permanent(kind::TOO_LARGE_FOR_EXPRESSION, message)
}

/// The contents that are at hand, and those that were missed. Copies share both.
#[derive(Clone, Debug, Default)]
pub struct Contents(Option<Arc<AtHand>>);

#[derive(Debug, Default)]
struct AtHand {
    known: BTreeMap<Wanted, FetchedContent>,
    missed: Mutex<Vec<Wanted>>,
    /// May payloads refer to blobs?
    references: bool,
}

impl AtHand {
    fn missed(&self) -> MutexGuard<'_, Vec<Wanted>> {
        self.missed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Contents {
    /// These contents are at hand.
    pub fn of(known: BTreeMap<Wanted, FetchedContent>) -> Self {
        Self(Some(Arc::new(AtHand { known, references: true, ..AtHand::default() })))
    }

    /// Nothing is at hand, for an execution without references to blobs: all that it can miss are the
    /// results of its maps.
    pub fn without_references() -> Self {
        Self(Some(Arc::default()))
    }

    /// Can an expression miss something?
    pub(crate) fn has_references(&self) -> bool {
        self.0.as_ref().is_some_and(|at_hand| at_hand.references)
    }

    /// What was missed so far, each once.
    pub fn missed(&self) -> Vec<Wanted> {
        self.0.as_ref().map(|at_hand| at_hand.missed().clone()).unwrap_or_default()
    }

    /// Was a content missed? Then failures of evaluations mean nothing.
    pub fn has_missed(&self) -> bool {
        self.0.as_ref().is_some_and(|at_hand| !at_hand.missed().is_empty())
    }

    /// Forgets what was missed.
    pub fn forgive(&self) {
        if let Some(at_hand) = &self.0 {
            at_hand.missed().clear();
        }
    }

    pub(super) fn get(&self, blob: BlobRef) -> Result<Value, Stop> {
        let stop = |failure| Err(Stop::Blob(Box::new(failure)));
        if let Some(FetchedContent(Err(failure))) = FetchedContent::refuse(blob) {
            return stop(failure);
        }
        match self.find(Wanted::Content(blob)) {
            Ok(Found::Value(value)) => Ok(value),
            Ok(_) => stop(missing()),
            Err(failure) => stop(failure),
        }
    }

    /// How many items the list in a blob has.
    pub(crate) fn count(&self, blob: BlobRef) -> Result<u64, Failure> {
        match self.find(Wanted::Count(blob))? {
            Found::Count(count) => Ok(count),
            _ => Err(missing()),
        }
    }

    /// A page of these items.
    pub(crate) fn items(&self, blob: BlobRef, page: u64) -> Result<Arc<[Json]>, Failure> {
        match self.find(Wanted::Items { blob, page })? {
            Found::Items(items) => Ok(items),
            _ => Err(missing()),
        }
    }

    /// The results of a map.
    pub(crate) fn results(&self, map: At, attempt: u32, count: u64) -> Result<BlobRef, Failure> {
        match self.find(Wanted::Results { map, attempt, count })? {
            Found::Results(blob) => Ok(blob),
            _ => Err(missing()),
        }
    }

    fn find(&self, wanted: Wanted) -> Result<Found, Failure> {
        let known = self.0.as_ref().and_then(|at_hand| at_hand.known.get(&wanted));
        if let Some(FetchedContent(found)) = known {
            return found.clone();
        }
        if let Some(at_hand) = &self.0 {
            let mut missed = at_hand.missed();
            if !missed.contains(&wanted) {
                missed.push(wanted);
            }
        }
        Err(missing())
    }
}

fn missing() -> Failure {
    Failure::transient(kind::BLOB, "the content of a blob is not at hand here")
}
