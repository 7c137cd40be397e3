//! Payloads of callers: kept as blobs, and read where a start needs their contents.

use std::collections::BTreeMap;

use waypost_core::blob::BlobDigest;
use waypost_core::expr::{Contents, FetchedContent, Wanted};
use waypost_core::id::Token;
use waypost_core::json::Json;

use super::{Engine, EngineError};
use crate::shell::NotKept;

impl Engine {
    /// The payload as an execution keeps it: in the blob store, if it is too large for the log.
    pub async fn keep(&self, payload: Json) -> Result<Json, NotKept> {
        self.payloads.keep(payload).await
    }

    /// Proves that a blob was uploaded for the task of this token.
    pub fn upload_receipt(&self, token: Token, digest: &BlobDigest) -> String {
        self.issuer.receipt(token, digest)
    }

    /// The contents of the blobs that a payload refers to, as far as expressions can look into them.
    pub(super) async fn contents_of(&self, payload: &Json) -> Result<Contents, EngineError> {
        let mut contents = BTreeMap::new();
        for blob in payload.references() {
            let content = match FetchedContent::refuse(blob) {
                Some(refused) => Some(refused),
                None => self.payloads.content(blob, &self.shared.over).await,
            };
            contents.insert(Wanted::Content(blob), content.ok_or(EngineError::Stopping)?);
        }
        Ok(Contents::of(contents))
    }
}
