//! Attempts that wait for a circuit breaker. The worker asks the breaker once the attempt has a slot and is
//! recorded as started; where it must not be made, it waits durably and is queued again, with its number.

use super::Decider;
use crate::breaker::BreakerHold;
use crate::event::{BreakerWait, CancelReason, NodeEvent, Origin, Wait};
use crate::path::At;
use crate::status::Status;

impl Decider<'_> {
    /// The attempt was not made. That counts neither as a try nor as a loss.
    pub(super) fn blocked(&mut self, at: At, hold: BreakerHold) {
        if self.state.status == Status::Ending {
            return self.cancel_node(at, CancelReason::Ending);
        }
        if self.state.is_ending(at) {
            return self.cancel_node(at, CancelReason::Body);
        }
        let BreakerHold { key, until, spread, cause } = hold;
        // Not all at once, and in another order each time: the first one is the probe, and a probe that
        // fails is a try of its node.
        let entropy = u64::try_from(self.env.entropy >> 64).unwrap_or_default();
        let mixed = self.jitter(at, self.node(at).attempt) ^ entropy;
        let mut due = until.max(self.env.now);
        due.0 = due.0.saturating_add_unsigned(mixed % spread.0.max(1));
        self.wait(at, Wait::Breaker(Box::new(BreakerWait { key, due, cause })), None);
    }

    /// The wait is over, by time or by a person.
    pub(super) fn ask_breaker_again(&mut self, at: At, origin: Origin) {
        let (node, attempt) = (self.path(at), self.node(at).attempt);
        self.emit_at(at, NodeEvent::Requeued { node, attempt, origin });
        self.start(at);
    }
}
