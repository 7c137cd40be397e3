//! Where a driver's ids, keys and tokens come from: one seed, so that a simulation can be repeated.
//!
//! Ids are public (an append's id is in the log, a sender gets its message's id), and tokens must
//! not follow from them: each is a hash of its number under a key derived from the seed.

use uuid::Uuid;
use waypost_core::id::ExecutionId;
use waypost_core::time::Timestamp;

/// The purpose of the derived key, so that the seed has one use only.
const PURPOSE: &str = "waypost driver ids 1";

pub(super) struct Ids {
    key: [u8; 32],
    counter: u64,
}

impl Ids {
    pub(super) fn new(seed: u128) -> Self {
        Self { key: blake3::derive_key(PURPOSE, &seed.to_le_bytes()), counter: 0 }
    }

    /// Numbers that never repeat within a driver nor, for different seeds, at all; none of them
    /// reveals anything about the others.
    pub(super) fn random(&mut self) -> u128 {
        self.counter += 1;
        let hash = blake3::keyed_hash(&self.key, &self.counter.to_le_bytes());
        u128::from_le_bytes(std::array::from_fn(|at| hash.as_bytes()[at]))
    }

    pub(super) fn uuid(&mut self) -> Uuid {
        Uuid::from_u128(self.random())
    }

    /// A key for an execution, in the order of time.
    pub(super) fn key(&mut self, now: Timestamp) -> ExecutionId {
        let random = self.random().to_le_bytes();
        let bits = std::array::from_fn(|at| random[at]);
        let ms = u64::try_from(now.0).unwrap_or(0);
        ExecutionId::from_uuid(uuid::Builder::from_unix_timestamp_millis(ms, &bits).into_uuid())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_gives_the_same_again_and_another_seed_nothing_of_it() {
        let draw = |seed| {
            let mut ids = Ids::new(seed);
            (0..1_000).map(|_| ids.random()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        let all: BTreeSet<u128> =
            draw(1).into_iter().chain(draw(2)).chain(draw(1 << 127)).collect();
        assert_eq!(all.len(), 3_000);
    }
}
