//! Names of submissions.

/// The name of a submission that another execution has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TakenName {
    Id,
    /// Its idempotency key, for another submission.
    IdempotencyKey,
    /// Its idempotency key, for the same submission: it was accepted before.
    SameSubmission,
    /// The item of its fire: it was fired before. Looked at before all other names.
    Item,
}

impl TakenName {
    /// The idempotency key is taken; do the digests of the two submissions agree?
    pub fn key(same: bool) -> Self {
        if same { Self::SameSubmission } else { Self::IdempotencyKey }
    }
}
