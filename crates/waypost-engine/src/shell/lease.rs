//! How long this process may trust its lease, by a steady clock that cannot be set.
//!
//! The driver judges the lease by a lower bound of the store's time: late is safe for timers. For a
//! lease it is not: an instance that believes that it is earlier than it is acts when others have
//! taken over. So the shell measures separately, from *before* each renewal was sent, on a clock
//! that also runs while the machine sleeps, and reports when two thirds of the lease are over.

use std::sync::atomic::{AtomicU64, Ordering};

use waypost_core::time::Millis;
use waypost_ports::clock::Clock;

#[derive(Debug)]
pub(crate) struct Lease {
    /// When the last renewal that was confirmed had been sent, by the steady clock.
    sent: AtomicU64,
    span: Millis,
}

impl Lease {
    pub(crate) fn new(sent: Millis, span: Millis) -> Self {
        Self { sent: AtomicU64::new(sent.0), span }
    }

    pub(crate) fn confirmed(&self, sent: Millis) {
        self.sent.fetch_max(sent.0, Ordering::AcqRel);
    }

    pub(crate) fn span(&self) -> Millis {
        self.span
    }

    /// How much of it is left, at least.
    pub(crate) fn remaining(&self, clock: &dyn Clock) -> Millis {
        let passed = clock.steady().0.saturating_sub(self.sent.load(Ordering::Acquire));
        Millis(self.span.0.saturating_sub(passed))
    }

    pub(crate) fn is_trusted(&self, clock: &dyn Clock) -> bool {
        clock.steady().0.saturating_sub(self.sent.load(Ordering::Acquire)) < self.span.0 * 2 / 3
    }
}

#[cfg(test)]
mod tests {
    use waypost_core::time::Timestamp;
    use waypost_ports::clock::ManualClock;

    use super::*;

    const TRUSTED: u64 = 10_000;

    #[test]
    fn a_lease_is_trusted_for_two_thirds_from_before_its_renewal_was_sent() {
        let clock = ManualClock::at(Timestamp(0));
        let lease = Lease::new(clock.steady(), Millis(15_000));
        clock.advance(Millis(TRUSTED - 1));
        assert!(lease.is_trusted(&clock));
        let sent = clock.steady();
        clock.advance(Millis(4_000)); // the reply takes its time
        assert!(!lease.is_trusted(&clock));
        lease.confirmed(sent);
        assert!(lease.is_trusted(&clock));
        clock.advance(Millis(TRUSTED - 4_000));
        assert!(!lease.is_trusted(&clock));
        lease.confirmed(Millis(0)); // an older one that comes late changes nothing
        assert!(!lease.is_trusted(&clock));
    }
}
