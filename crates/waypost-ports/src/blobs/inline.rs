//! References replaced by the contents of their blobs.

use waypost_core::blob::BlobDigest;
use waypost_core::failure::{Failure, kind};
use waypost_core::json::{BadJson, Json};

use super::{BlobError, Blobs};

/// Bytes that a config may have once the blobs it refers to are in it.
pub const INLINE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Why references could not be replaced.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotInlined {
    #[error(
        "it refers to blobs of {0} bytes; a handler is given at most {INLINE_BYTES_MAX} (`| ref` gives it their addresses instead)"
    )]
    TooLarge(u64),
    #[error("blob {digest} is not JSON ({error}); `| ref` gives a handler its address")]
    NotJson { digest: BlobDigest, error: BadJson },
    #[error("with the contents of its blobs: {0}")]
    Deep(#[from] BadJson),
    #[error(transparent)]
    Blob(#[from] BlobError),
}

/// The payload with the content of each blob in place of its reference.
pub fn inline(blobs: &dyn Blobs, payload: &Json) -> Result<Json, NotInlined> {
    let bytes: u64 = payload.references().map(|blob| blob.bytes).sum();
    if bytes > INLINE_BYTES_MAX {
        return Err(NotInlined::TooLarge(bytes));
    }
    payload.resolve(|blob| {
        let content = blobs.get(&blob.digest, INLINE_BYTES_MAX)?;
        Json::parse_bytes(&content)
            .map_err(|error| NotInlined::NotJson { digest: blob.digest, error })
    })
}

/// The payload with the content of each blob in place of its reference, if it is JSON and as long as the
/// contents have at most `limit` bytes together. Other references stay.
pub fn inline_up_to(blobs: &dyn Blobs, payload: &Json, limit: u64) -> Result<Json, NotInlined> {
    let mut left = limit;
    payload.resolve(|blob| {
        let reference = Json::reference(blob);
        if blob.bytes > left {
            return Ok(reference);
        }
        left -= blob.bytes;
        let content = blobs.get(&blob.digest, blob.bytes)?;
        Ok(Json::parse_bytes(&content).unwrap_or(reference))
    })
}

impl From<NotInlined> for Failure {
    /// The failure of an attempt that did not begin.
    fn from(error: NotInlined) -> Self {
        let message = format!("the config cannot be made: {error}");
        let failure = match &error {
            NotInlined::TooLarge(_) => Self::permanent(kind::TOO_LARGE, message),
            NotInlined::NotJson { .. } | NotInlined::Deep(_) => {
                Self::permanent(kind::INVALID_CONFIG, message)
            }
            NotInlined::Blob(error) if error.is_passing() => Self::transient(kind::BLOB, message),
            NotInlined::Blob(_) => Self::permanent(kind::BLOB, message),
        };
        Self { unsent: true, ..failure }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::blobs::MemoryBlobs;
    use crate::clock::SystemClock;

    #[test]
    fn contents_are_put_in_place_up_to_the_limit_and_where_they_are_json() {
        let blobs = MemoryBlobs::new(Arc::new(SystemClock));
        let put = |content: &str| Json::reference(blobs.put(&mut content.as_bytes(), 100).unwrap());
        let (five, list, lines) = (put("5"), put("[1, 2]"), put("1\n2"));
        let forged = put(five.text());
        for (parts, limit, expected) in [
            (vec![&five, &list], 7, "[5,[1, 2]]".to_owned()),
            (vec![&five, &list], 6, format!("[5,{list}]")),
            (vec![&list, &five], 6, format!("[[1, 2],{five}]")),
            (vec![&list, &five], 0, format!("[{list},{five}]")),
            (vec![&lines, &five], 9, format!("[{lines},5]")),
            (vec![], 9, "[]".to_owned()),
        ] {
            let payload = Json::list(parts.into_iter()).unwrap();
            let found = inline_up_to(&blobs, &payload, limit).unwrap();
            assert_eq!(found.text(), expected);
        }
        let found = inline_up_to(&blobs, &forged, 1000).unwrap();
        assert_eq!(found.references().count(), 0, "a blob cannot name another one");
        let missing = BlobDigest::of(b"missing");
        let missing = Json::reference(waypost_core::blob::BlobRef { digest: missing, bytes: 7 });
        let found = inline_up_to(&blobs, &missing, 7);
        assert!(matches!(found, Err(NotInlined::Blob(BlobError::NotFound(_)))), "{found:?}");
    }
}
