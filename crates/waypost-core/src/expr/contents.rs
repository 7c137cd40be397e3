//! The contents of blobs that expressions look into.
//!
//! A reference goes through expressions as it is: `${{ nodes.fetch.output }}` gives it to the next
//! node without a look at the content. Only an expression that looks inside, `nodes.fetch.output.id`,
//! needs it. If it is not at hand, the evaluation stops and notes which blob it missed; whoever decides
//! fetches the content and evaluates again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::budget::{Budget, Stop};
use super::read;
use super::value::Value;
use crate::blob::{BlobDigest, BlobRef};
use crate::failure::{Failure, kind};
use crate::json::Json;
use crate::limits::BLOB_IN_EXPRESSION_BYTES_MAX;

/// Bytes of memory that the values of one content may take.
const CONTENT_MEMORY_MAX: u64 = 256 * 1024 * 1024;

/// The content of a blob, read into values; or why it cannot be had.
#[derive(Clone, Debug)]
pub struct Content(Result<Value, Failure>);

impl Content {
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
        Self(read::json(json.text(), &budget).map_err(|_| too_large(blob)))
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
    known: BTreeMap<BlobDigest, Content>,
    missed: Mutex<Vec<BlobRef>>,
}

impl Contents {
    /// These contents are at hand.
    pub fn of(known: BTreeMap<BlobDigest, Content>) -> Self {
        Self(Some(Arc::new(AtHand { known, missed: Mutex::default() })))
    }

    /// The blobs whose content was missed so far, each once.
    pub fn missed(&self) -> Vec<BlobRef> {
        let lock = |at_hand: &Arc<AtHand>| {
            at_hand.missed.lock().unwrap_or_else(PoisonError::into_inner).clone()
        };
        self.0.as_ref().map(lock).unwrap_or_default()
    }

    /// Was a content missed? Then failures of evaluations mean nothing.
    pub fn has_missed(&self) -> bool {
        !self.missed().is_empty()
    }

    /// Forgets what was missed.
    pub fn forgive(&self) {
        if let Some(at_hand) = &self.0 {
            at_hand.missed.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
    }

    pub(super) fn get(&self, blob: BlobRef) -> Result<Value, Stop> {
        let known = self.0.as_ref().and_then(|at_hand| at_hand.known.get(&blob.digest));
        match known {
            Some(Content(Ok(value))) => return Ok(value.clone()),
            Some(Content(Err(failure))) => return Err(Stop::Blob(Box::new(failure.clone()))),
            None => {}
        }
        if let Some(Content(Err(failure))) = Content::refuse(blob) {
            return Err(Stop::Blob(Box::new(failure)));
        }
        if let Some(at_hand) = &self.0 {
            let mut missed = at_hand.missed.lock().unwrap_or_else(PoisonError::into_inner);
            if !missed.contains(&blob) {
                missed.push(blob);
            }
        }
        let message = format!("the content of blob {} is not at hand here", blob.digest);
        Err(Stop::Blob(Box::new(Failure::transient(kind::BLOB, message))))
    }
}
