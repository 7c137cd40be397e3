//! Delivery: when a message is sent, sent again and given up, and when an endpoint is left alone. Pure: the
//! stores read rows, ask here, and write what was decided; the dispatcher only sends.
//!
//! ```text
//!   message   pending ── 2xx ─────────────────▶ delivered
//!                │  ▲                             │ replay: pending again, with the same id
//!                │  └─ any other result, by SCHEDULE
//!                └──── the schedule is over, or 410 ─▶ dead
//!
//!   endpoint  healthy ── COOLS_AFTER failures in a row ─▶ cooling: one probe at a time, with backoff
//!                ▲                                           │
//!                └──────────────── 2xx ──────────────────────┘
//! ```
//!
//! While an endpoint cools, a message is a probe, or waits and spends no attempt. A probe is the message
//! that is due first, so that over a long outage the probes are spread over the messages.

use crate::planted::{Bug, is_planted};
use crate::time::{Millis, Timestamp};

/// The waits between the attempts at one message, each with jitter. After the attempt that follows the last
/// one, the message is dead.
pub const SCHEDULE: [Millis; 9] = [
    Millis::from_secs(5),
    Millis::from_secs(5 * 60),
    Millis::from_secs(30 * 60),
    Millis::from_secs(2 * 3_600),
    Millis::from_secs(5 * 3_600),
    Millis::from_secs(10 * 3_600),
    Millis::from_secs(14 * 3_600),
    Millis::from_secs(20 * 3_600),
    Millis::from_secs(24 * 3_600),
];

/// A wait is this much shorter or longer at most, in percent.
pub const JITTER_PERCENT: u64 = 20;

/// The longest `Retry-After` that is honoured.
pub const RETRY_AFTER_MAX: Millis = Millis::from_secs(24 * 3_600);

/// Failures in a row after which an endpoint cools.
pub const COOLS_AFTER: u32 = 5;

/// The wait before the first probe; each failed probe doubles it.
pub const PROBE_AFTER: Millis = Millis::from_secs(10);

/// The longest wait before a probe, unless the endpoint asked for more.
pub const PROBE_AFTER_MAX: Millis = Millis::from_secs(15 * 60);

/// Messages under way to one endpoint.
pub const IN_FLIGHT_MAX: usize = 8;

/// How an endpoint does. Kept with it, so that all instances share it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EndpointHealth {
    /// Failures since the last success.
    pub failures: u32,
    /// While it cools: when the next probe may be sent.
    pub probe_at: Option<Timestamp>,
    /// Is a probe under way? Its claim ends at `probe_at`.
    pub probing: bool,
}

impl EndpointHealth {
    /// How many more messages may be claimed, where so many are under way.
    pub fn room(&self, in_flight: usize, now: Timestamp) -> usize {
        match self.probe_at.filter(|_| !is_planted(Bug::CoolingIgnored)) {
            None => IN_FLIGHT_MAX.saturating_sub(in_flight),
            Some(at) if at <= now => 1,
            Some(_) => 0,
        }
    }

    /// After messages were claimed: where it cools, that was the probe. Others may send one only when the
    /// claim is over.
    #[must_use]
    pub fn claimed(self, claim_ends: Timestamp) -> Self {
        match self.probe_at {
            None => self,
            Some(_) => Self { probe_at: Some(claim_ends), probing: true, ..self },
        }
    }

    /// After claims of a dead instance that end then are released: a probe among them was not answered, and the
    /// next one may be sent.
    #[must_use]
    pub fn released(self, claim_ends: Timestamp, now: Timestamp) -> Self {
        match self.probing && self.probe_at == Some(claim_ends) {
            true => Self { probe_at: Some(now), probing: false, ..self },
            false => self,
        }
    }

    fn failed(self, now: Timestamp, floor: Millis, jitter: Jitter) -> Self {
        let failures = self.failures.saturating_add(1);
        let cools = failures >= COOLS_AFTER;
        // Failures of what was under way when the cooling began say nothing new.
        if !cools || (self.probe_at.is_some() && !self.probing) {
            return Self { failures, ..self };
        }
        let probes = match self.probe_at {
            None => 0,
            Some(_) => failures.saturating_sub(COOLS_AFTER).min(16),
        };
        let wait = Millis(PROBE_AFTER.0 << probes).0.min(PROBE_AFTER_MAX.0);
        let wait = Millis(jitter.apply(Millis(wait)).0.min(PROBE_AFTER_MAX.0).max(floor.0));
        // One probe, one step: what failed besides does not count.
        let failures = if self.probe_at.is_none() { COOLS_AFTER } else { failures };
        Self { failures, probe_at: Some(now.plus(wait)), probing: false }
    }
}

/// A number between 0 and 1 as a fraction of `u32::MAX`: where in its range a wait falls.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Jitter(pub u32);

impl Jitter {
    /// The middle: waits are exact.
    pub const NONE: Self = Self(u32::MAX / 2);

    /// A wait, up to [`JITTER_PERCENT`] shorter or longer.
    pub fn apply(self, wait: Millis) -> Millis {
        let range = u128::from(wait.0) * u128::from(JITTER_PERCENT) * 2 / 100;
        let least = u128::from(wait.0) - range / 2;
        let share = range * u128::from(self.0) / u128::from(u32::MAX - 1);
        Millis(u64::try_from(least + share.min(range)).unwrap_or(u64::MAX))
    }
}

/// What became of an attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Delivered {
    /// 2xx.
    Yes { status: u16 },
    /// 410: the endpoint wants no more messages.
    Gone,
    /// Everything else: other statuses, redirects among them, and requests without a response.
    No { status: Option<u16>, retry_after: Option<Millis>, reason: String },
}

impl Delivered {
    /// The HTTP status, when a server answered.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Yes { status } => Some(*status),
            Self::Gone => Some(410),
            Self::No { status, .. } => *status,
        }
    }

    /// Why it failed.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Yes { .. } => None,
            Self::Gone => Some("the endpoint answered 410 Gone and was disabled"),
            Self::No { reason, .. } => Some(reason),
        }
    }
}

/// What becomes of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageNext {
    Delivered,
    /// It is due again.
    Retry {
        due: Timestamp,
    },
    Dead,
}

/// What follows an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verdict {
    pub message: MessageNext,
    /// Attempts at the message so far.
    pub attempts: u32,
    pub health: EndpointHealth,
    /// Is the endpoint disabled from now on?
    pub disables: bool,
}

/// Judges one attempt at a message that had `attempts` before it.
pub fn judge(
    health: EndpointHealth,
    attempts: u32,
    result: &Delivered,
    now: Timestamp,
    jitter: Jitter,
) -> Verdict {
    let spent = attempts.saturating_add(1);
    let (message, health, disables) = match result {
        Delivered::Yes { .. } => (MessageNext::Delivered, EndpointHealth::default(), false),
        Delivered::Gone => (MessageNext::Dead, EndpointHealth::default(), true),
        Delivered::No { retry_after, .. } => {
            let floor = Millis(retry_after.unwrap_or_default().0.min(RETRY_AFTER_MAX.0));
            let wait = usize::try_from(attempts).ok().and_then(|at| SCHEDULE.get(at));
            let message = match wait {
                None => MessageNext::Dead,
                Some(wait) => {
                    let wait = Millis(jitter.apply(*wait).0.max(floor.0));
                    MessageNext::Retry { due: now.plus(wait) }
                }
            };
            (message, health.failed(now, floor, jitter), false)
        }
    };
    Verdict { message, attempts: spent, health, disables }
}

#[cfg(test)]
mod tests;
