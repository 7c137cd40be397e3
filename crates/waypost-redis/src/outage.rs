//! Which failures of an outage are logged: the first, each whose reason is another than that of the line
//! before, and of those that repeat themselves one a minute, with their number. And how long to wait before
//! the next attempt.

use std::time::Duration;

use waypost_core::time::Millis;

/// How long a reason that stays the same is not logged again.
pub(crate) const REPEATED_EVERY: Millis = Millis::from_secs(60);

/// An outage so far.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    failures: u64,
    /// The last line: its reason, and when it was written.
    logged: Option<(String, Millis)>,
}

impl Outage {
    /// Counts a failure. Returns how many there were so far, if it is to be logged.
    pub(crate) fn failed(&mut self, reason: &str, now: Millis) -> Option<u64> {
        self.failures += 1;
        let known = self.logged.as_ref().is_some_and(|(logged, at)| {
            logged == reason && now.0 < at.0.saturating_add(REPEATED_EVERY.0)
        });
        if known {
            return None;
        }
        self.logged = Some((reason.to_owned(), now));
        Some(self.failures)
    }

    /// How many failures there were.
    pub(crate) fn failures(&self) -> u64 {
        self.failures
    }
}

/// Between a half and the whole of a wait, so that instances do not come all at once.
pub(crate) fn jittered(wait: Duration) -> Duration {
    let mut byte = [0];
    aws_lc_rs::rand::fill(&mut byte).unwrap_or(());
    wait / 2 + wait.mul_f64(f64::from(byte[0]) / 512.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outage_logs_each_change_of_reason_and_repeats_once_a_minute() {
        let mut outage = Outage::default();
        let second = |second: u64| Millis::from_secs(second);
        for (reason, at, expected) in [
            ("refused", 0, Some(1)),
            ("refused", 1, None),
            ("refused", 59, None),
            ("wrong password", 59, Some(4)),
            ("wrong password", 60, None),
            ("refused", 61, Some(6)),
            ("refused", 120, None),
            ("refused", 121, Some(8)),
            ("refused", 122, None),
        ] {
            assert_eq!(outage.failed(reason, second(at)), expected, "{reason} at {at} s");
        }
        assert_eq!(outage.failures(), 9);
    }
}
