//! Why a call of a store failed.

/// Why a store call failed. Variants are named for what the caller does about it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Try again: busy, out of reach, timed out.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// No space is left; try again when there is.
    #[error("the store is full: {0}")]
    Full(String),
    /// It can be read and not written to; try again when it can.
    #[error("the store is read-only: {0}")]
    ReadOnly(String),
    /// The stored data differs from what was written.
    #[error("the store is damaged: {0}")]
    Corrupt(String),
    /// Another process uses it, or its layout is from a newer version.
    #[error("{0}")]
    Refused(String),
}

impl StoreError {
    /// Does it last until a person or another process has done something, so that there is no use in
    /// waiting for the next try?
    pub fn is_lasting(&self) -> bool {
        matches!(self, Self::Full(_) | Self::ReadOnly(_))
    }
}
