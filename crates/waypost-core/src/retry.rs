//! Whether and when a failed attempt is tried again.
//!
//! Pure: jitter comes from a hash of the execution, node and attempt, so that replaying a decision
//! gives the same delay and a thousand executions still spread out.

use serde::{Deserialize, Serialize};

use crate::failure::{Failure, kind};
use crate::planted::{Bug, is_planted};
use crate::time::{DURATION_MAX, Millis};

/// A node's `retry` block with its defaults filled in.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RetryPolicy {
    /// Total tries, the first included.
    pub max_attempts: u32,
    /// Wait before the second try.
    pub wait: Millis,
    pub exponential: bool,
    /// By how much, from try to try.
    pub multiplier: f64,
    /// The wait never grows beyond this; a server's `Retry-After` is held to it too. Jitter comes on top.
    pub wait_max: Millis,
    /// How much is added to the wait at random: up to this share of it, 0 to 1.
    pub jitter: f64,
    /// Only these are retried; empty means every failure that its handler calls retryable.
    pub retry_on: Vec<Matcher>,
    /// These are not, unless `retry_on` names them more exactly.
    pub ignore: Vec<Matcher>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            wait: Millis(1000),
            exponential: true,
            multiplier: 2.0,
            wait_max: Millis::from_secs(300),
            jitter: 0.2,
            retry_on: Vec::new(),
            ignore: Vec::new(),
        }
    }
}

/// One entry of `retryOn` or `ignoreExceptions`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Matcher {
    /// `429`
    Status(u16),
    /// `5xx`
    StatusClass(u8),
    /// `timeout`, `connection`, or a handler's own name.
    Kind(String),
}

impl Matcher {
    /// Reads an entry; `IOException` and its kin are names that other engines use for our kinds.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Ok(status) = text.parse::<u16>() {
            return (100..=599).contains(&status).then_some(Self::Status(status));
        }
        if let Some(class) = text.to_ascii_lowercase().strip_suffix("xx") {
            return match class.parse::<u8>() {
                Ok(class @ 1..=5) => Some(Self::StatusClass(class)),
                _ => None,
            };
        }
        let name = match text {
            "" => return None,
            "IOException" => kind::CONNECTION,
            "TimeoutException" => kind::TIMEOUT,
            "IllegalArgumentException" => kind::INVALID_CONFIG,
            other => other,
        };
        let valid = name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.:".contains(c));
        valid.then(|| Self::Kind(name.to_owned()))
    }

    /// How exactly this entry names the failure: an exact code or name beats a class.
    fn rank(&self, failure: &Failure) -> Option<u8> {
        match self {
            Self::Status(status) => (failure.status == Some(*status)).then_some(2),
            Self::StatusClass(class) => {
                failure.status.is_some_and(|status| status / 100 == u16::from(*class)).then_some(1)
            }
            Self::Kind(name) => (failure.kind == name.as_str()).then_some(2),
        }
    }
}

impl RetryPolicy {
    /// Does the policy retry this failure, regardless of the number of attempts?
    pub fn covers(&self, failure: &Failure) -> bool {
        let best = |entries: &[Matcher]| entries.iter().filter_map(|m| m.rank(failure)).max();
        match (best(&self.retry_on), best(&self.ignore)) {
            (Some(wanted), Some(ignored)) => wanted > ignored,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            // The node's own `retryWhen` has decided that it is retried.
            (None, None) if failure.kind == kind::RETRY_WHEN => true,
            (None, None) => self.retry_on.is_empty() && failure.retryable,
        }
    }

    /// The wait after the `tries`-th counted try (from 1) failed: never shorter than
    /// [`least_wait_after`](Self::least_wait_after), and longer by a random part of the jitter's share.
    /// Jitter comes after the cap, so that executions that all wait as long as they may spread out too.
    pub fn wait_after(&self, tries: u32, failure: &Failure, jitter_seed: u64) -> Millis {
        let least = self.least_wait_after(tries, failure);
        let share = unit_interval(jitter_seed) * self.jitter;
        if is_planted(Bug::JitterSubtracts) {
            let varied = least.0 as f64 * (1.0 + 2.0 * share - self.jitter);
            return Millis::from_f64(varied, 1.0).unwrap_or(least);
        }
        let added = Millis::from_f64(least.0 as f64 * share, 1.0).unwrap_or(Millis(0));
        Millis(least.0.saturating_add(added.0).min(DURATION_MAX.0))
    }

    /// The wait without its jitter.
    pub fn least_wait_after(&self, tries: u32, failure: &Failure) -> Millis {
        if let Some(asked) = failure.retry_after {
            return asked.min(self.wait_max);
        }
        let growth = if self.exponential {
            self.multiplier.powi(i32::try_from(tries.saturating_sub(1)).unwrap_or(i32::MAX))
        } else {
            1.0
        };
        let grown = Millis::from_f64(self.wait.0 as f64 * growth, 1.0);
        grown.map_or(self.wait_max, |grown| grown.min(self.wait_max))
    }
}

/// A number in [0, 1) from a seed (the finaliser of splitmix64).
fn unit_interval(seed: u64) -> f64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) as f64 / 18_446_744_073_709_551_616.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http(status: u16) -> Failure {
        Failure {
            status: Some(status),
            retryable: status >= 500,
            ..Failure::permanent(kind::HTTP, format!("status {status}"))
        }
    }

    fn policy(retry_on: &[&str], ignore: &[&str]) -> RetryPolicy {
        let parse = |list: &[&str]| list.iter().map(|t| Matcher::parse(t).unwrap()).collect();
        RetryPolicy { retry_on: parse(retry_on), ignore: parse(ignore), ..RetryPolicy::default() }
    }

    #[test]
    fn exact_codes_beat_classes_and_ignoring_wins_ties() {
        for (retry_on, ignore, status, expected) in [
            (&["5xx", "408", "429"][..], &["4xx"][..], 408, true),
            (&["5xx", "408", "429"], &["4xx"], 404, false),
            (&["5xx"], &["503"], 503, false),
            (&["5xx"], &["503"], 500, true),
            (&["503"], &["503"], 503, false),
            (&["503"], &[], 500, false),
            (&[], &[], 500, true),
            (&[], &[], 404, false),
            (&[], &["5xx"], 500, false),
            (&["4xx"], &[], 404, true),
        ] {
            let covers = policy(retry_on, ignore).covers(&http(status));
            assert_eq!(covers, expected, "{retry_on:?} {ignore:?} {status}");
        }
    }

    #[test]
    fn names_of_other_engines_are_aliases() {
        let policy = policy(&["IOException", "TimeoutException"], &["IllegalArgumentException"]);
        assert!(policy.covers(&Failure::permanent(kind::TIMEOUT, "")));
        assert!(policy.covers(&Failure::permanent(kind::CONNECTION, "")));
        assert!(!policy.covers(&Failure::transient(kind::INVALID_CONFIG, "")));
    }

    #[test]
    fn waits_grow_spread_and_stop_at_the_cap() {
        let policy = RetryPolicy { wait_max: Millis(5000), ..RetryPolicy::default() };
        let asked = |span| Failure { retry_after: Some(Millis(span)), ..http(429) };
        for (tries, failure, least) in [
            (1, http(500), 1000),
            (3, http(500), 4000),
            (4, http(500), 5000),
            (u32::MAX, http(500), 5000),
            (1, asked(0), 0),
            (1, asked(3000), 3000),
            (1, asked(60_000), 5000),
        ] {
            let waits: Vec<u64> =
                (0..200).map(|seed| policy.wait_after(tries, &failure, seed).0).collect();
            let most = least + least / 5;
            assert!(waits.iter().all(|wait| (least..=most).contains(wait)), "{tries}: {waits:?}");
            let early = waits.iter().filter(|wait| **wait < least + least / 10).count();
            assert!(
                least == 0 || (60..140).contains(&early),
                "{tries}: {early} of 200 in one half"
            );
        }
    }

    #[test]
    fn bug_a_wait_was_shorter_than_its_policy_says() {
        for jitter in [0.0, 0.01, 0.5, 1.0] {
            for (wait, multiplier) in [(1, 1.0), (3, 1.5), (200, 2.0), (60_000, 100.0)] {
                let policy = RetryPolicy {
                    wait: Millis(wait),
                    multiplier,
                    jitter,
                    ..RetryPolicy::default()
                };
                for (tries, seed) in
                    (1..40).flat_map(|tries| (0..20).map(move |seed| (tries, seed)))
                {
                    let waits = policy.wait_after(tries, &http(500), seed).0;
                    let grown = (wait as f64 * multiplier.powi(tries as i32 - 1)).min(300_000.0);
                    let range = grown - 0.5..=grown * (1.0 + jitter) + 1.0;
                    assert!(range.contains(&(waits as f64)), "{policy:?} {tries}: {waits}");
                    assert!(waits >= wait, "{policy:?} {tries}: {waits}");
                }
            }
        }
    }
}
