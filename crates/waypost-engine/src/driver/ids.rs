//! Where a driver's ids, keys and tokens come from: one seed, so that a simulation can be repeated.

use uuid::Uuid;
use waypost_core::id::ExecutionKey;
use waypost_core::time::Timestamp;

/// An odd constant with its bits well spread (the golden ratio in 128 bits).
const MIX: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;

pub(super) struct Ids {
    seed: u128,
    counter: u128,
}

impl Ids {
    pub(super) fn new(seed: u128) -> Self {
        Self { seed, counter: 0 }
    }

    /// Numbers that never repeat within a driver and, for different seeds, practically never at
    /// all: a counter through the finaliser of a 128-bit mixer.
    pub(super) fn random(&mut self) -> u128 {
        self.counter += 1;
        let mut z = self.seed.wrapping_add(self.counter.wrapping_mul(MIX));
        z = (z ^ (z >> 64)).wrapping_mul(MIX);
        z = (z ^ (z >> 59)).wrapping_mul(MIX);
        z ^ (z >> 64)
    }

    pub(super) fn uuid(&mut self) -> Uuid {
        Uuid::from_u128(self.random())
    }

    /// A key for an execution, in the order of time.
    pub(super) fn key(&mut self, now: Timestamp) -> ExecutionKey {
        let random = self.random().to_le_bytes();
        let mut bits = [0; 10];
        bits.iter_mut().zip(random).for_each(|(bit, byte)| *bit = byte);
        let ms = u64::try_from(now.0).unwrap_or(0);
        ExecutionKey::from_uuid(uuid::Builder::from_unix_timestamp_millis(ms, &bits).into_uuid())
    }
}
