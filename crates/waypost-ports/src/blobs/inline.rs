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
