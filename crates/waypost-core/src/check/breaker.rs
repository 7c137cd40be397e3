//! Waits for circuit breakers: which nodes have them, and how they end.

use super::attempts::{Phase, Seen, not_early};
use super::invariant::Invariant::WaitsEndInTime;
use super::nodes::Nodes;
use super::{EventAt, Verdict, broken, require};
use crate::event::Wait;
use crate::path::At;

impl Nodes {
    /// A node that has a breaker waits for nothing else with a NodeWaiting, and only such a node waits
    /// for one.
    pub(super) fn may_wait_for_breaker(&self, at: Option<At>, wait: &Wait) -> Verdict {
        let (Some(plan), Some(at)) = (&self.plan, at) else { return Ok(()) };
        let has_one = plan.node(at.node).breaker.is_some();
        let waits = matches!(wait, Wait::Breaker(_));
        require(has_one == waits, WaitsEndInTime, "the definition has no such wait for the node")
    }
}

impl Seen {
    /// An attempt asks its breaker again when its wait is due and not before, unless a person asks.
    pub(super) fn may_be_requeued(&self, place: EventAt, attempt: u32, by_hand: bool) -> Verdict {
        let Phase::Waiting { wait: Wait::Breaker(breaker), at_once, .. } = &self.phase else {
            return broken(WaitsEndInTime, "it does not wait for a circuit breaker");
        };
        if !by_hand {
            not_early(place, breaker.due, *at_once)?;
        }
        self.is_at(attempt)
    }
}
