//! Who of n has come: tells whether waking the one that waits for all of them is worth it. The rows
//! in its inbox are the truth; this saves looking at them n times.

use waypost_core::time::Millis;

use crate::ask::{ARRIVE, Ask, number};
use crate::wire::Redis;

/// Counts arrivals.
#[derive(Clone, Debug)]
pub struct Arrivals {
    redis: Redis,
    kept: Millis,
}

/// What an arrival means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrived {
    /// All have arrived, and this one was the last.
    Last,
    /// So many are missing.
    Missing(u64),
    /// This one had arrived before.
    Again,
    /// Redis does not say. Whoever wants to be sure looks, as if it were the last.
    Unknown,
}

impl Arrivals {
    /// Remembers who has arrived for so long after the last one did.
    pub fn new(redis: &Redis, kept: Millis) -> Self {
        Self { redis: redis.clone(), kept }
    }

    /// Records that `member` of the `of` members of a group has arrived. Repeats change nothing.
    pub fn arrive(&self, group: &str, member: &str, of: u64) -> Arrived {
        let wire = self.redis.wire();
        let member = wire.sealer.digest(&[group.as_bytes(), member.as_bytes()]);
        let ask = Ask::script(&ARRIVE).key(&wire.keys.arrivals(group)).arg(member);
        let said = match wire.ask_one(ask.number(self.kept.0.max(1))) {
            Ok(answer) => wire.read(answer),
            Err(_) => None,
        };
        let numbers = said.and_then(|said| Some((number(said.first()?)?, number(said.get(1)?)?)));
        match numbers {
            None => Arrived::Unknown,
            Some((0, _)) => Arrived::Again,
            // A set with strangers in it has too many: better to look too often than not at all.
            Some((_, count)) => match of.saturating_sub(u64::try_from(count).unwrap_or(0)) {
                0 => Arrived::Last,
                missing => Arrived::Missing(missing),
            },
        }
    }
}
