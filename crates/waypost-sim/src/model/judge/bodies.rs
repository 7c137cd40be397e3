//! Did each container open the scopes that it had to, and end as they did?

use serde_json::Value as Json;
use waypost_core::failure::kind;
use waypost_core::status::NodeStatus;

use super::outcomes::expect;
use super::{Judge, has_failed};
use crate::model::foretell::{go_on_test, has_ample_time};
use crate::model::values::Facts;
use crate::model::{BodyRan, NodeRan, Steered};
use crate::program::{Kind, Loop, Node, RetryOn, RetryRule, Test};

/// The failure that a scope ended with.
pub(super) struct Unhandled {
    pub(super) kind: String,
    pub(super) status: Option<u16>,
    pub(super) retryable: bool,
}

impl Judge<'_> {
    /// Judges the scopes that a container opened.
    pub(super) fn bodies(&mut self, at: usize) {
        let (node, ran) = self.node(at);
        let path = self.path(at);
        let Some(nodes) = node.body() else {
            return self.expect(ran.bodies.is_empty(), || format!("{path}: has no body"));
        };
        let mut complaints = Vec::new();
        let mut previous = self.previous.clone();
        for (place, body) in ran.bodies.iter().enumerate() {
            let mut inside = self.inside(at, body, nodes);
            if matches!(node.kind, Kind::Loop(_)) {
                let first = body.index == Some(1);
                inside.previous = if first { Json::Null } else { previous };
            }
            for id in body.nodes.keys().filter(|id| !nodes.iter().any(|node| node.id == **id)) {
                inside.complaints.push(format!("{path}: there is no node {id} in its body"));
            }
            inside.nodes();
            // The last one may be open, and so may any item of a map.
            let followed = place + 1 < ran.bodies.len() && !matches!(node.kind, Kind::Map(_));
            let over = followed || ran.status.is_settled();
            inside.end_of_body(over && !inside.dropped);
            inside.forecast_body();
            previous = inside.expected_output();
            complaints.append(&mut inside.complaints);
        }
        self.complaints.append(&mut complaints);
    }

    /// Did a scope end as its nodes and its container require?
    fn end_of_body(&mut self, over: bool) {
        let Some((body, (outer, container))) = self.body.zip(self.outer) else { return };
        let scope = outer.path(container);
        for at in 0..self.nodes.len() {
            let (path, ran) = (self.path(at), self.nodes[at].clone());
            self.expect(!over || ran.status.is_settled(), || {
                format!("{path}: {} in a body that is over", ran.status)
            });
            // The last node to settle ends the scope by itself; otherwise the failure does, at once.
            let Some(settled) = ran.settled.filter(|_| self.is_unhandled(at)) else { continue };
            let is_last = (0..self.nodes.len()).all(|of| of == at || self.settled_by(of, settled));
            let ends = body.ending == Some(settled + 1) || is_last || self.is_cut_short(&ran);
            self.expect(ends, || format!("{path}: its failure did not end its body"));
        }
        if let Some(ending) = body.ending {
            let failed = (0..self.nodes.len())
                .any(|at| self.is_unhandled(at) && self.nodes[at].settled == Some(ending - 1));
            let late = outer.may_strike(&outer.scope.nodes[container]);
            let stopped = outer.is_stopped(container, ending);
            let asked = body.cancelled && self.was_cancelled();
            self.expect(failed || late || stopped || asked, || {
                format!("{scope}: nothing ended its body")
            });
        }
    }

    /// Did a person ask to cancel the item that this scope is?
    fn was_cancelled(&self) -> bool {
        let path = self.prefixes.path.trim_end_matches('/').to_owned();
        self.ran.world.steered.contains(&Steered::ItemCancelled(path))
    }

    /// May the deadline of a node have struck?
    pub(super) fn may_strike(&self, node: &Node) -> bool {
        node.deadline_ms.is_some() && (self.ran.world.is_disturbed() || !has_ample_time(node))
    }

    /// Why a scope failed: its first failure that nothing handled, or the container's deadline.
    pub(super) fn failure_of(&self, at: usize, body: &BodyRan) -> Option<Unhandled> {
        let inside = self.inside(at, body, self.scope.nodes[at].body().unwrap_or_default());
        let unhandled = (0..inside.nodes.len()).filter(|at| inside.is_unhandled(*at));
        let first = unhandled.min_by_key(|at| inside.nodes[*at].settled);
        let settled = first.and_then(|at| inside.nodes[at].settled).unwrap_or(u64::MAX);
        if let Some(ending) = body.ending.filter(|ending| *ending < settled) {
            let stopped = self.is_stopped(at, ending);
            let kind = match (body.cancelled, stopped) {
                (true, _) => kind::CANCELLED,
                (false, true) => kind::TOO_MANY_FAILURES,
                (false, false) => kind::TIMEOUT,
            };
            return Some(Unhandled { kind: kind.to_owned(), status: None, retryable: false });
        }
        let failed = &inside.nodes[first?];
        Some(Unhandled {
            kind: failed.failure.clone().unwrap_or_default(),
            status: failed.failure_status,
            retryable: failed.retryable,
        })
    }

    /// The value of a scope.
    pub(super) fn value_of(&self, at: usize, body: &BodyRan) -> Json {
        let nodes = self.scope.nodes[at].body().unwrap_or_default();
        self.inside(at, body, nodes).expected_output()
    }

    /// The output of a container that completed.
    pub(super) fn container_output(&self, at: usize) -> Json {
        if let Kind::Map(each) = &self.scope.nodes[at].kind {
            return self.map_output(at, each);
        }
        let mut values = self.nodes[at].bodies.iter().map(|body| self.value_of(at, body));
        match &self.scope.nodes[at].kind {
            Kind::Loop(Loop { all: true, .. }) => values.collect(),
            _ => values.next_back().unwrap_or_default(),
        }
    }

    /// May a container have ended like this?
    pub(super) fn is_container_allowed(
        &self,
        at: usize,
        node: &Node,
        ran: &NodeRan,
    ) -> Result<(), String> {
        if let Kind::Operation(operation) = &node.kind
            && !operation.polls()
        {
            return self.is_operation_allowed(at, (node, operation), ran);
        }
        expect(ran.branch.is_none(), "it has no branches")?;
        let timed_out = ran.failure.as_deref() == Some(kind::TIMEOUT);
        if has_failed(ran) {
            expect(timed_out == (ran.status == NodeStatus::TimedOut), "a timeout is TIMED_OUT")?;
        }
        match &node.kind {
            Kind::Loop(spec) => self.is_loop_allowed(at, spec, ran),
            Kind::Map(each) => self.is_map_allowed(at, each, ran),
            _ => self.is_group_allowed(at, node, ran),
        }
    }

    fn is_group_allowed(&self, at: usize, node: &Node, ran: &NodeRan) -> Result<(), String> {
        let struck = has_failed(ran)
            && ran.failure.as_deref() == Some(kind::TIMEOUT)
            && self.may_strike(node);
        let count = u32::try_from(ran.bodies.len()).unwrap_or(u32::MAX);
        let unopened = struck && self.ran.world.is_disturbed() && ran.tries == count + 1;
        expect(ran.tries == count || unopened, "each try runs its body")?;
        for (place, body) in (1..).zip(&ran.bodies) {
            let failure = self.failure_of(at, body);
            let last = place == count;
            let Some(failure) = failure else {
                expect(last, "its body completed, and ran again")?;
                let completed = ran.status == NodeStatus::Completed || struck;
                return expect(completed, "its body completed");
            };
            let again = place < node.tries_max() && node.retry.is_some_and(|r| covers(r, &failure));
            if !last {
                expect(again, "it is not tried again")?;
                continue;
            }
            expect(ran.status != NodeStatus::Completed, "its body failed")?;
            if struck {
                return Ok(());
            }
            let same = ran.failure.as_ref() == Some(&failure.kind);
            expect(same, &format!("its body failed with {}", failure.kind))?;
            // A retry that would begin after the deadline is none.
            let spared = self.is_cut_short(ran) || self.may_strike(node);
            expect(!again || spared, "it is tried again")?;
        }
        expect(count > 0 || struck, "it runs its body")
    }

    fn is_loop_allowed(&self, at: usize, spec: &Loop, ran: &NodeRan) -> Result<(), String> {
        let node = &self.scope.nodes[at];
        let failure = ran.failure.as_deref();
        let struck = has_failed(ran) && failure == Some(kind::TIMEOUT) && self.may_strike(node);
        expect(ran.tries == 1, "it is tried once")?;
        let mut previous = Json::Null;
        let mut done = 0;
        for body in &ran.bodies {
            expect(body.index == Some(done + 1), "its iterations are not in order")?;
            match self.goes_on(spec, (done, &previous), body.decided) {
                Ok(true) if done < spec.max => {}
                Ok(true) => return Err(format!("it has at most {} iterations", spec.max)),
                Ok(false) => return Err(format!("it ends after {done} iterations")),
                Err(failure) => return Err(format!("its test fails with {failure}")),
            }
            let waited = body.decided < body.opened;
            expect(waited == (done > 0 && spec.delay_ms > 0), "its delay is not kept")?;
            done += 1;
            let Some(failed) = self.failure_of(at, body) else {
                previous = self.value_of(at, body);
                continue;
            };
            let last = done == u64::try_from(ran.bodies.len()).unwrap_or(u64::MAX);
            expect(last && ran.status != NodeStatus::Completed, "an iteration failed")?;
            let same = failure == Some(&*failed.kind);
            return expect(same || struck, &format!("an iteration failed with {}", failed.kind));
        }
        if struck {
            return Ok(());
        }
        let settled = ran.settled.unwrap_or_default();
        match self.goes_on(spec, (done, &previous), settled) {
            Ok(false) => expect(ran.status == NodeStatus::Completed, "it ends"),
            Ok(true) if done < spec.max => Err("it goes on".into()),
            Ok(true) => expect(failure == Some(kind::LOOP_LIMIT), "it reached its limit"),
            Err(kind) => expect(failure == Some(kind), &format!("its test fails with {kind}")),
        }
    }

    /// Does a loop go on after so many iterations, as of an event?
    fn goes_on(
        &self,
        spec: &Loop,
        (done, previous): (u64, &Json),
        seq: u64,
    ) -> Result<bool, &'static str> {
        let (test, wanted) = go_on_test(spec.ends);
        if done == 0 && !wanted {
            return Ok(true);
        }
        let facts = Facts { iteration: done, ..self.facts };
        let held = |test| match test {
            Test::Previous => !previous.is_null(),
            Test::Done => previous["body"]["done"] == true,
            test => self.held(test, seq),
        };
        facts.holds(test, &held).map(|holds| holds == wanted)
    }
}

/// Does a policy cover the failure of a body?
pub(super) fn covers(retry: RetryRule, failure: &Unhandled) -> bool {
    let class = failure.status.map(|status| status / 100);
    match retry.on {
        RetryOn::Transient => failure.retryable,
        RetryOn::ServerErrors => class == Some(5),
        RetryOn::ClientErrors => class == Some(4),
        RetryOn::Timeouts => failure.kind == kind::TIMEOUT,
    }
}
