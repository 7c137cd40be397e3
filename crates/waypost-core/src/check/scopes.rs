//! Scopes, read a second time: which bodies are open, what may happen in them, and when they close.

use std::sync::Arc;

use super::attempts::{End, Phase, Seen};
use super::graph::Turn;
use super::invariant::Invariant::{BodiesInOrder, CauseDecides, Justified, WaitsEndInTime};
use super::maps::MapSeen;
use super::nodes::Nodes;
use super::{EventAt, Verdict, require, require_with};
use crate::event::{NodeEvent, Wait};
use crate::failure::{Failure, kind};
use crate::id::NodeIx;
use crate::kind::{Behaviour, Container};
use crate::path::{At, ScopeNo};
use crate::plan::{OnError, Plan};

/// The nodes of one scope that is open.
#[derive(Debug, Default)]
pub(super) struct ScopeSeen {
    pub(super) seen: Vec<Seen>,
    /// The position of its first node in the plan.
    first: u32,
    /// Its nodes' paths up to their ids.
    prefix: Arc<str>,
    container: Option<At>,
    unsettled: usize,
    ending: bool,
}

/// What was seen of a container's body, in its current attempt.
#[derive(Clone, Debug, Default)]
pub(super) struct BodySeen {
    pub(super) opened: u64,
    /// How many of its scopes are open.
    pub(super) open: u64,
    /// Has one of them ended as failed?
    failed: bool,
    /// Have the polls of an operation taken too long?
    late: bool,
    /// Will the container fail, whatever its other scopes do?
    pub(super) whole: bool,
    pub(super) map: Option<MapSeen>,
}

impl ScopeSeen {
    pub(super) fn of(plan: &Plan) -> Self {
        let count = plan.root().nodes.len();
        Self { seen: vec![Seen::default(); count], unsettled: count, ..Self::default() }
    }

    pub(super) fn get(&self, node: NodeIx) -> Option<&Seen> {
        self.seen.get(node.0.wrapping_sub(self.first) as usize)
    }

    /// Its nodes, with their positions in the plan.
    pub(super) fn iter(&self) -> impl Iterator<Item = (NodeIx, &Seen)> {
        (self.first..).map(NodeIx).zip(&self.seen)
    }

    pub(super) fn get_mut(&mut self, node: NodeIx) -> Option<&mut Seen> {
        self.seen.get_mut(node.0.wrapping_sub(self.first) as usize)
    }

    /// Settles what had no attempt. Returns how many nodes that were.
    pub(super) fn cancel_pending(&mut self, seq: u64) -> u64 {
        let mut count = 0;
        for seen in self.seen.iter_mut().filter(|seen| seen.phase == Phase::Pending) {
            seen.phase = Phase::Settled(End::Cancelled);
            seen.settled_seq = seq;
            count += 1;
            self.unsettled = self.unsettled.saturating_sub(1);
        }
        count
    }

    /// Has a node of it failed, with nothing to handle that?
    fn has_failed(&self, plan: &Plan) -> bool {
        self.nodes().any(|(node, seen)| {
            matches!(seen.phase, Phase::Settled(End::Failed { past_on_error })
                if past_on_error || plan.node(node).on_error == OnError::Fail)
        })
    }

    fn nodes(&self) -> impl Iterator<Item = (NodeIx, &Seen)> {
        (self.first..).map(NodeIx).zip(&self.seen)
    }
}

impl Nodes {
    /// The open node of a path; without a plan, the one of this name.
    pub(super) fn find(&self, path: &str) -> Option<At> {
        let Some(plan) = &self.plan else { return self.named.get(path).copied().map(At::from) };
        let (prefix, id) = path.split_at(path.rfind('/').map_or(0, |slash| slash + 1));
        let number = match prefix {
            "" => ScopeNo::ROOT,
            prefix => *self.by_prefix.get(prefix)?,
        };
        let container = self.scopes.get(&number)?.container;
        let scope = match container {
            None => plan.root(),
            Some(container) => plan.body(container.node)?,
        };
        Some(At { scope: number, node: plan.find_in(scope, id)? })
    }

    /// The path of a node, for people.
    pub(super) fn path(&self, plan: &Plan, at: At) -> String {
        let prefix = self.scopes.get(&at.scope).map_or("", |scope| &scope.prefix);
        format!("{prefix}{}", plan.node(at.node).id)
    }

    /// A node that has its turn, or a container with nothing left to wait for, and no event of it;
    /// unknown without a plan.
    pub(super) fn forgotten(&self) -> Option<String> {
        let plan = self.plan.as_ref()?;
        for (number, scope) in &self.scopes {
            for (node, seen) in scope.nodes() {
                let at = At { scope: *number, node };
                let has_turn = seen.phase == Phase::Pending
                    && super::graph::turn(plan, self, at) != Turn::NotYet;
                if has_turn || self.has_turn_in_body(plan, at, seen) {
                    return Some(self.path(plan, at));
                }
            }
        }
        None
    }

    /// Nothing begins in a scope that is ending.
    pub(super) fn may_begin_in(&self, at: Option<At>, event: &NodeEvent) -> Verdict {
        let scope = at.and_then(|at| self.scopes.get(&at.scope));
        let begins = matches!(
            event,
            NodeEvent::Scheduled { .. }
                | NodeEvent::Started { .. }
                | NodeEvent::Skipped { .. }
                | NodeEvent::Waiting { .. }
                | NodeEvent::BodyOpened { .. }
                | NodeEvent::MapOpened { .. }
                | NodeEvent::ItemsOpened { .. }
        );
        let late = begins && scope.is_some_and(|scope| scope.ending);
        require(!late, CauseDecides, "after the end of its body was fixed")
    }

    /// A group opens its body once an attempt, a loop one iteration after the other.
    pub(super) fn may_open(&self, at: Option<At>, seen: &Seen, index: Option<u64>) -> Verdict {
        let (Some(plan), Some(at)) = (&self.plan, at) else { return Ok(()) };
        let starts = seen.phase == Phase::Running || seen.waits_for_body();
        require(starts && seen.body.open == 0, BodiesInOrder, "its last scope is still open")?;
        require(!seen.body.failed, BodiesInOrder, "its last scope has failed")?;
        let next = seen.body.opened.saturating_add(1);
        let fits = match plan.node(at.node).behaviour.container() {
            Some(Container::Group | Container::Operation(_)) => index.is_none() && next == 1,
            Some(Container::Loop(spec)) => index == Some(next) && next <= spec.iterations_max,
            _ => false,
        };
        require_with(fits, BodiesInOrder, || format!("scope {index:?} is not number {next}"))
    }

    /// A scope ends as failed for a failure in it that nothing handles, for a deadline, or, if it is an
    /// item of a map, on request.
    pub(super) fn may_end(
        &self,
        place: EventAt,
        (at, seen): (Option<At>, &Seen),
        (container, index): (&str, Option<u64>),
        asked: bool,
    ) -> Verdict {
        let (Some(plan), Some(_)) = (&self.plan, at) else { return Ok(()) };
        let number = self.by_prefix.get(prefix(container, index).as_str());
        let scope = number.and_then(|number| self.scopes.get(number));
        let Some(scope) = scope.filter(|scope| !scope.ending) else {
            return require(false, BodiesInOrder, "the scope is not open, or ends already");
        };
        let unhandled = scope.has_failed(plan);
        let late = seen.deadline.is_some_and(|deadline| deadline <= place.at);
        let stopped = seen.body.map.as_ref().is_some_and(|map| map.failed > map.tolerated);
        let cancelled = asked && seen.body.map.is_some();
        let justified = unhandled || late || stopped || cancelled;
        require(justified, Justified, "nothing in the scope has failed")
    }

    /// May a container settle, or begin again? What is in its body has to settle first, except
    /// where the container itself no longer counts.
    pub(super) fn may_leave_body(&self, seen: &Seen, event: &NodeEvent) -> Verdict {
        let forgotten =
            matches!(event, NodeEvent::Cancelled { reason: crate::event::CancelReason::Join, .. });
        let what = "nodes of its body have not settled";
        require(seen.body.open == 0 || forgotten, BodiesInOrder, what)
    }

    /// A container completes after its body has, and not as failed.
    pub(super) fn may_complete_body(&self, at: Option<At>, seen: &Seen) -> Verdict {
        let (Some(plan), Some(at)) = (&self.plan, at) else { return Ok(()) };
        let ran = match (&plan.node(at.node).behaviour, &seen.body.map) {
            (Behaviour::Polled(_), _) if seen.body.late => return Ok(()),
            (Behaviour::Group | Behaviour::Polled(_) | Behaviour::Operation(_), _) => {
                seen.body.opened == 1
            }
            (Behaviour::Map(_), Some(map)) => {
                seen.body.opened == map.count && map.failed <= map.tolerated
            }
            (Behaviour::Map(_), None) => false,
            _ => true,
        };
        require(ran && !seen.body.failed, BodiesInOrder, "its body has not completed")
    }

    /// A node of a body fails: the polls of an operation may be late.
    pub(super) fn note_late(&mut self, place: EventAt, at: At, failure: &Failure) {
        let is_late =
            self.seen(at).and_then(|seen| seen.deadline).is_some_and(|due| due <= place.at);
        let container = self.scopes.get(&at.scope).and_then(|scope| scope.container);
        let (Some(plan), Some(container)) = (&self.plan, container) else { return };
        let is_polled = plan.node(container.node).behaviour.is_late_with(plan.node(at.node));
        if is_late
            && is_polled
            && failure.kind == kind::TIMEOUT
            && let Some(seen) = self.seen_mut(container)
        {
            seen.body.late = true;
        }
    }

    pub(super) fn is_ending_scope(&self, at: Option<At>) -> bool {
        at.and_then(|at| self.scopes.get(&at.scope)).is_some_and(|scope| scope.ending)
    }

    pub(super) fn body_opened(&mut self, at: At, path: &str, index: Option<u64>) {
        let Some(body) = self.plan.as_ref().and_then(|plan| plan.body(at.node)) else { return };
        let (first, count) = (body.nodes.start, body.nodes.len());
        self.scopes_opened += 1;
        let number = ScopeNo(self.scopes_opened);
        let prefix: Arc<str> = prefix(path, index).into();
        self.by_prefix.insert(Arc::clone(&prefix), number);
        let seen = vec![Seen::default(); count];
        let container = Some(at);
        let scope = ScopeSeen { seen, first, prefix, container, unsettled: count, ending: false };
        self.scopes.insert(number, scope);
        if let Some(seen) = self.seen_mut(at) {
            seen.body.opened = seen.body.opened.saturating_add(1);
            seen.body.open += 1;
        }
    }

    pub(super) fn body_ending(&mut self, place: EventAt, path: &str, index: Option<u64>) {
        let Some(number) = self.by_prefix.get(prefix(path, index).as_str()).copied() else {
            return;
        };
        for number in self.within(number) {
            if let Some(scope) = self.scopes.get_mut(&number) {
                scope.ending = true;
                self.settled += scope.cancel_pending(place.seq);
            }
        }
        self.close_settled();
    }

    /// A scope, and those in it, the outer ones first.
    fn within(&self, scope: ScopeNo) -> Vec<ScopeNo> {
        let mut found = vec![scope];
        // Scopes are numbered in the order in which they were opened: outer ones come first.
        for (number, inner) in self.scopes.range(scope..) {
            if inner.container.is_some_and(|container| found.contains(&container.scope)) {
                found.push(*number);
            }
        }
        found
    }

    /// Counts a node that has settled, and closes its scope with the last one.
    pub(super) fn settled_in(&mut self, at: At) {
        self.settled += 1;
        if let Some(scope) = self.scopes.get_mut(&at.scope) {
            scope.unsettled = scope.unsettled.saturating_sub(1);
        }
        self.close(at.scope);
    }

    pub(super) fn close_settled(&mut self) {
        for number in self.scopes.keys().copied().collect::<Vec<_>>() {
            self.close(number);
        }
    }

    fn close(&mut self, number: ScopeNo) {
        let closes = |scope: &ScopeSeen| scope.unsettled == 0 && scope.container.is_some();
        if !self.scopes.get(&number).is_some_and(closes) {
            return;
        }
        let Some(scope) = self.scopes.remove(&number) else { return };
        self.by_prefix.remove(&scope.prefix);
        let failed = scope.ending || self.plan.as_ref().is_some_and(|plan| scope.has_failed(plan));
        if let Some(container) = scope.container.and_then(|at| self.seen_mut(at)) {
            let body = &mut container.body;
            body.open = body.open.saturating_sub(1);
            match &mut body.map {
                Some(map) => map.failed += u64::from(failed),
                None => body.failed |= failed,
            }
        }
    }

    /// Drops what is left of a body whose container no longer counts.
    pub(super) fn drop_body(&mut self, at: At) {
        let open = self.scopes.iter().filter(|(_, scope)| scope.container == Some(at));
        let open: Vec<ScopeNo> = open.flat_map(|(number, _)| self.within(*number)).collect();
        for number in open {
            if let Some(scope) = self.scopes.remove(&number) {
                let running = scope.seen.iter().filter(|seen| seen.phase == Phase::Running).count();
                self.running = self.running.saturating_sub(running);
                self.by_prefix.remove(&scope.prefix);
            }
        }
    }

    pub(super) fn unsettled_in_root(&self) -> usize {
        self.scopes.get(&ScopeNo::ROOT).map_or(0, |root| root.unsettled)
    }

    pub(super) fn reopen_in_root(&mut self) {
        if let Some(root) = self.scopes.get_mut(&ScopeNo::ROOT) {
            root.unsettled += 1;
        }
    }
}

impl Seen {
    pub(super) fn waits_for_body(&self) -> bool {
        matches!(self.phase, Phase::Waiting { wait: Wait::Body, .. })
    }

    /// A wait that a container opens must not cut its body short.
    pub(super) fn may_wait_after_body(&self) -> Verdict {
        require(self.body.open == 0, WaitsEndInTime, "nodes of its body have not settled")
    }
}

fn prefix(container: &str, index: Option<u64>) -> String {
    match index {
        Some(index) => format!("{container}[{index}]/"),
        None => format!("{container}/"),
    }
}
