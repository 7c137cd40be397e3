//! Maps, read a second time: which items may be open, and how people change that.

use super::attempts::Seen;
use super::invariant::Invariant::{BodiesInOrder, CauseDecides, Justified, Limits};
use super::nodes::Nodes;
use super::{Verdict, require, require_with};
use crate::kind::{Behaviour, Container, MapSpec, Tolerate};
use crate::limits::{ITEMS_MAX, MAP_CONCURRENCY_MAX, MAP_RESULTS_BYTES_MAX};
use crate::path::At;
use crate::plan::Plan;

/// What was seen of a map.
#[derive(Clone, Debug, Default)]
pub(super) struct MapSeen {
    pub(super) count: u64,
    pub(super) tolerated: u64,
    pub(super) failed: u64,
    /// Does a person hold it?
    held: bool,
    /// How many items may be open at once, where a person changed that.
    concurrency: Option<u32>,
}

impl MapSeen {
    fn is_stopped(&self, spec: &MapSpec) -> bool {
        spec.stop_on_failure && self.failed > self.tolerated
    }

    fn places(&self, spec: &MapSpec) -> u64 {
        let most = u64::from(self.concurrency.unwrap_or(spec.concurrency));
        if self.held { 0 } else { most }
    }
}

impl Seen {
    /// The failures that an event counts are those that were seen. Older logs count none.
    pub(super) fn has_failures(&self, failed: u64) -> Verdict {
        let seen = self.body.map.as_ref().map_or(failed, |map| map.failed);
        require_with(failed == 0 || failed == seen, BodiesInOrder, || {
            format!("it counts {failed} items that failed, and {seen} did")
        })
    }
}

impl Nodes {
    /// Has a container nothing left to wait for, or a map items to open and places for them?
    pub(super) fn has_turn_in_body(&self, plan: &Plan, at: At, seen: &Seen) -> bool {
        if !seen.waits_for_body() {
            return false;
        }
        let (Behaviour::Map(spec), Some(map)) = (&plan.node(at.node).behaviour, &seen.body.map)
        else {
            return seen.body.open == 0;
        };
        let left = seen.body.opened < map.count && !map.is_stopped(spec) && !seen.body.whole;
        match left && !self.is_ending_scope(Some(at)) {
            true => seen.body.open < map.places(spec),
            false => seen.body.open == 0,
        }
    }

    /// A map has no more items than are allowed, and tolerates what its definition says.
    pub(super) fn may_map(
        &self,
        at: Option<At>,
        (count, tolerated): (u64, u64),
        results_max: Option<u64>,
    ) -> Verdict {
        let (Some(plan), Some(at)) = (&self.plan, at) else { return Ok(()) };
        require_with(count <= ITEMS_MAX, Limits, || format!("it has {count} items"))?;
        let small = results_max.is_none_or(|bytes| bytes < MAP_RESULTS_BYTES_MAX);
        require(small, Limits, "its output may have too large results")?;
        let fits = match plan.node(at.node).behaviour.container() {
            Some(Container::Map(spec)) => match spec.tolerate {
                Tolerate::Count(most) => tolerated == most,
                Tolerate::Percent(percent) => {
                    let exact = count as f64 * percent / 100.0;
                    (exact - tolerated as f64) < 1.0 && tolerated as f64 <= exact + 1e-6
                }
            },
            _ => false,
        };
        require(fits, BodiesInOrder, "it is no map, or tolerates another number of failures")
    }

    /// Items are opened in order, once, and no more at a time than the map allows.
    pub(super) fn may_open_items(
        &self,
        at: Option<At>,
        seen: &Seen,
        from: u64,
        count: u64,
    ) -> Verdict {
        let (Some(plan), Some(at), Some(map)) = (&self.plan, at, &seen.body.map) else {
            return require(self.plan.is_none(), BodiesInOrder, "the map has no items");
        };
        let Behaviour::Map(spec) = &plan.node(at.node).behaviour else {
            return require(false, BodiesInOrder, "it is no map");
        };
        let last = from.saturating_add(count);
        let next = from == seen.body.opened && count > 0 && last <= map.count;
        require(next, BodiesInOrder, "these are not its next items")?;
        let open = seen.body.open.saturating_add(count);
        require(!map.held, BodiesInOrder, "the map is held")?;
        require(open <= map.places(spec), BodiesInOrder, "too many items are open")?;
        let stopped = seen.body.whole || map.is_stopped(spec);
        require(
            !stopped,
            BodiesInOrder,
            "too many items have failed to open more, or it is too late",
        )
    }

    /// A map that is under way is held or released, or gets another window.
    pub(super) fn may_tune(
        &self,
        at: Option<At>,
        seen: &Seen,
        held: Option<bool>,
        concurrency: Option<u32>,
    ) -> Verdict {
        let known = self.plan.is_none() || seen.body.map.is_some();
        require(known, BodiesInOrder, "the map has no items")?;
        require(!self.is_ending_scope(at), CauseDecides, "after the end of its body was fixed")?;
        let fits = concurrency.is_none_or(|count| (1..=MAP_CONCURRENCY_MAX).contains(&count));
        require(fits, Limits, "its concurrency is out of range")?;
        require(held.is_some() || concurrency.is_some(), Justified, "it changes nothing")
    }

    pub(super) fn tuned(&mut self, at: At, held: Option<bool>, concurrency: Option<u32>) {
        if let Some(map) = self.seen_mut(at).and_then(|seen| seen.body.map.as_mut()) {
            map.held = held.unwrap_or(map.held);
            map.concurrency = concurrency.or(map.concurrency);
        }
    }

    pub(super) fn mapped(&mut self, at: At, count: u64, tolerated: u64) {
        if let Some(seen) = self.seen_mut(at) {
            seen.body.map = Some(MapSeen { count, tolerated, ..MapSeen::default() });
        }
    }

    pub(super) fn items_opened(&mut self, at: At, path: &str, from: u64, count: u64) {
        // A damaged log may name any number; one frame opens few.
        for index in from..from.saturating_add(count.min(u64::from(MAP_CONCURRENCY_MAX))) {
            self.body_opened(at, path, Some(index));
        }
    }
}
