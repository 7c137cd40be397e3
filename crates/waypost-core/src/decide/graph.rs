//! The graph: what follows when nodes settle. Rules 1 to 3 of the language, and the end.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Decider;
use crate::apply::{GRACE, SILENCE, is_taken};
use crate::command::Effect;
use crate::event::{CancelReason, EndCause, FailureEnd, NodeEvent, Origin, PauseReason, RunEvent};
use crate::failure::{Failure, kind};
use crate::id::{InstanceId, Token, WorkerId};
use crate::json::{BadJson, Json};
use crate::kind::Behaviour;
use crate::path::{At, ScopeNo};
use crate::plan::{FailurePolicy, Join, OnError, Plan};
use crate::state::{Scope, State, output_of as value_of};
use crate::status::NodeStatus;

enum Turn {
    NotYet,
    Run,
    Skip,
    Unsatisfiable,
}

impl Decider<'_> {
    /// Opens every node whose conditions allow it: at the start, and after a pause, a repair or a
    /// take-over.
    pub(super) fn open_all(&mut self) {
        for at in self.state.positions() {
            // Positions are in the order of the definition: a successor may come before.
            if self.open(at) {
                self.follow(at);
            }
        }
    }

    /// Opens the first nodes of a body.
    pub(super) fn open_scope(&mut self, scope: ScopeNo) {
        let nodes = self.state.scope(scope).into_iter().flat_map(Scope::iter);
        let nodes: Vec<At> = nodes.map(|(node, _)| At { scope, node }).collect();
        for at in nodes {
            if self.open(at) {
                self.follow(at);
            }
        }
    }

    /// Opens what a settled node allows. That may settle nodes at once, and so on, so this is a
    /// list and not a recursion: a chain of ten thousand skipped nodes must not need ten thousand
    /// stack frames.
    pub(super) fn follow(&mut self, settled: At) {
        let mut settled = vec![settled];
        while let Some(source) = settled.pop() {
            for outgoing in &self.plan_node(source).successors {
                let next = source.sibling(outgoing.node);
                if self.open(next) {
                    settled.push(next);
                }
            }
        }
    }

    /// Gives a PENDING node its turn, if it has come. True if that settled the node, so that its
    /// successors must be opened too.
    fn open(&mut self, at: At) -> bool {
        // Its scope may have closed, if it has settled.
        let pending = self.is_in(at, NodeStatus::Pending);
        if !pending || !self.state.acts() {
            return false;
        }
        match self.turn(at) {
            Turn::NotYet => false,
            Turn::Skip => {
                let cause = self.causes(at);
                self.emit_at(at, NodeEvent::Skipped { node: self.path(at), cause });
                true
            }
            Turn::Run => {
                self.schedule(at);
                self.cancel_rest(at);
                false
            }
            Turn::Unsatisfiable => {
                // Scheduled, because only a scheduled node has an attempt to fail; never started.
                self.schedule_attempt(at);
                let message = "too few of the join's sources were taken";
                let failure = Failure::permanent(kind::JOIN_UNSATISFIABLE, message);
                self.node_failed(at, failure, FailureEnd::Final)
            }
        }
    }

    fn turn(&self, at: At) -> Turn {
        let node = self.node(at);
        match self.plan_node(at).join {
            _ if !self.plan.begins_at(at.node, self.state.created.trigger.as_deref()) => Turn::Skip,
            _ if self.plan_node(at).needs.is_empty() => Turn::Run,
            Join::All if node.open > 0 => Turn::NotYet,
            Join::All if node.dead > 0 || node.taken == 0 => Turn::Skip,
            Join::All => Turn::Run,
            Join::Count { count, .. } if node.taken >= count => Turn::Run,
            Join::Count { count, .. } if node.taken + node.open >= count => Turn::NotYet,
            Join::Count { .. } if node.taken == 0 => Turn::Skip,
            Join::Count { .. } => Turn::Unsatisfiable,
        }
    }

    /// The events that settled a node's conditions so far.
    fn causes(&self, at: At) -> Vec<u64> {
        self.plan_node(at)
            .needs
            .iter()
            .map(|condition| self.node(at.sibling(condition.source)).settled_seq)
            .filter(|seq| *seq > 0)
            .collect()
    }

    /// Schedules a node's next attempt and starts it where it can be started at once.
    pub(super) fn schedule(&mut self, at: At) {
        self.schedule_attempt(at);
        self.start(at);
    }

    fn schedule_attempt(&mut self, at: At) {
        let attempt = self.node(at).attempt + 1;
        let first = self.node(at).scheduled.is_none();
        let cause = if first { self.causes(at) } else { Vec::new() };
        let deadline = self.plan_node(at).deadline.filter(|_| first);
        let deadline = deadline.map(|span| self.env.now_max.plus(span));
        self.emit_at(at, NodeEvent::Scheduled { node: self.path(at), attempt, cause, deadline });
    }

    /// Starts a QUEUED node: control nodes at once, tasks where a slot is free.
    pub(super) fn start(&mut self, at: At) {
        let attempt = self.node(at).attempt;
        match self.plan_node(at).behaviour {
            // It is started when it has reserved: at the end of the decision.
            Behaviour::Task { .. } if self.must_reserve(at) => {}
            Behaviour::Task { slot, .. } => {
                let free = slot.map(|class| self.slots.of(class)).filter(|free| **free > 0);
                let Some(free) = free else {
                    return self.effect(Effect::Offer { node: at, attempt });
                };
                *free -= 1;
                let token = self.token(at, attempt);
                self.started(at, Some(self.env.instance), None, Some(token));
                self.effect(Effect::Run { node: at, attempt, token });
            }
            Behaviour::Workflow(_) if !self.state.has_room_for_child() => self.crowded_out = true,
            Behaviour::Workflow(_) | Behaviour::Emit(_) => {
                self.started(at, None, None, None);
                self.effect(Effect::Launch { node: at, attempt });
            }
            Behaviour::Pass
            | Behaviour::Input
            | Behaviour::Trigger { .. }
            | Behaviour::Gather
            | Behaviour::Value { .. }
            | Behaviour::Condition(_)
            | Behaviour::Switch { .. }
            | Behaviour::Fail(_)
            | Behaviour::Delay(_)
            | Behaviour::Signal { .. }
            | Behaviour::Signals(_)
            | Behaviour::Approval(_)
            | Behaviour::Notify(_)
            | Behaviour::Group
            | Behaviour::Polled(_)
            | Behaviour::Operation(_)
            | Behaviour::Loop(_)
            | Behaviour::Map(_) => {
                self.started(at, None, None, None);
                self.effect(Effect::Evaluate { node: at, attempt });
            }
        }
    }

    /// Records that an attempt is made. One with a token is abandoned if its worker starts it now and
    /// then stays silent.
    pub(super) fn started(
        &mut self,
        at: At,
        worker: Option<InstanceId>,
        remote: Option<WorkerId>,
        token: Option<Token>,
    ) {
        let (node, attempt) = (self.path(at), self.node(at).attempt);
        let timeout = self.plan_node(at).timeout.filter(|_| token.is_some());
        let due = timeout.map(|span| self.env.now_max.plus(span).plus(SILENCE));
        self.emit_at(at, NodeEvent::Started { node, attempt, worker, remote, token, due });
    }

    /// A slot came free for a node that was offered one. Where it is gone again, the node is
    /// offered once more.
    pub(super) fn start_queued(&mut self, at: At, attempt: u32) {
        if self.is_at(at, NodeStatus::Queued, attempt) && self.state.acts() {
            self.start(at);
        }
    }

    /// A queued attempt cannot be handed to any worker. It counts as one that ran.
    pub(super) fn unofferable(&mut self, at: At, attempt: u32, failure: Failure) {
        if self.is_at(at, NodeStatus::Queued, attempt) && self.state.acts() {
            self.started(at, Some(self.env.instance), None, None);
            self.used_nothing(at);
            self.attempt_failed(at, failure);
        }
    }

    /// Withdraws the effects of this very decision for some nodes. Returns those whose attempt was
    /// about to be handed off: no worker receives it.
    pub(super) fn withdraw(&mut self, concerned: impl Fn(At) -> bool) -> BTreeSet<At> {
        let mut not_handed_off = BTreeSet::new();
        self.decision.effects.retain(|effect| match effect {
            Effect::Run { node, .. } if concerned(*node) => {
                not_handed_off.insert(*node);
                if let Some(class) = self.plan.node(node.node).behaviour.slot() {
                    *self.slots.of(class) += 1;
                }
                false
            }
            Effect::Evaluate { node, .. }
            | Effect::Offer { node, .. }
            | Effect::Launch { node, .. } => !concerned(*node),
            Effect::Run { .. } | Effect::Cancel { .. } => true,
        });
        not_handed_off
    }

    /// Cancels a node's attempt at the worker that holds it, if one does, or the execution that it waits
    /// for.
    pub(super) fn tell_to_stop(&mut self, at: At) {
        self.cancel_child(at);
        let node = self.node(at);
        let worker = node.remote;
        if let Some(token) = node.token {
            self.effect(Effect::Cancel { token, worker });
        }
    }

    /// A join with `cancelRest` has fired: stop what leads only to it.
    fn cancel_rest(&mut self, join: At) {
        let rest = &self.plan_node(join).only_here;
        if rest.is_empty() {
            return;
        }
        let is_rest = |at: At| at.scope == join.scope && rest.binary_search(&at.node).is_ok();
        let not_handed_off = self.withdraw(is_rest);
        for at in rest.iter().map(|node| join.sibling(*node)) {
            if self.node(at).status.is_settled() {
                continue;
            }
            self.stop_body(at);
            if !not_handed_off.contains(&at) {
                self.tell_to_stop(at);
            }
            self.cancel_node(at, CancelReason::Join);
        }
    }

    /// The node has failed for good: its error handling decides what follows.
    pub(super) fn fail_for_good(&mut self, at: At, failure: Failure, end: FailureEnd) {
        if self.node_failed(at, failure, end) {
            self.follow(at);
        }
    }

    /// Records that the node has failed for good, and ends the execution if nothing handles it.
    /// True if the graph continues after it.
    pub(super) fn node_failed(&mut self, at: At, failure: Failure, end: FailureEnd) -> bool {
        let attempt = self.node(at).attempt;
        let node = self.path(at);
        let failure = match self.plan_node(at).skips_on_error(&failure) {
            true => failure.past_on_error(),
            false => failure,
        };
        let recorded = failure.clone();
        self.emit_at(at, NodeEvent::Failed { node, attempt, failure: recorded, end, wait: None });
        if self.state.is_ending(at) {
            return false;
        }
        let unhandled = *self.plan_node(at).error_handling(Some(&failure)) == OnError::Fail;
        if unhandled && at.scope != ScopeNo::ROOT {
            self.end_scope(at.scope, failure, false, Origin::default());
            return false;
        }
        if unhandled && self.plan.failure_policy == FailurePolicy::FailFast {
            self.end_for(EndCause::Failure { node: self.path(at), failure });
            return false;
        }
        true
    }

    /// Fixes the end. Attempts that have not been handed off are cancelled here; running ones are
    /// cancelled at their workers.
    pub(super) fn end_for(&mut self, cause: EndCause) {
        let grace = Some(self.env.now_max.plus(GRACE));
        self.emit(RunEvent::Ending { cause, grace });
        let not_handed_off = self.withdraw(|_| true);
        for at in self.state.positions() {
            // The last node of a scope closes it.
            let node = self.state.get(at);
            if node.is_some_and(|node| !node.status.is_settled()) {
                self.stop_node(at, not_handed_off.contains(&at), CancelReason::Ending);
            }
        }
    }

    /// Ends the decision: bodies that have come to an end, an execution that is over, a pause that is
    /// complete. In this order: where every node is settled there is nothing left to pause.
    pub(super) fn finish(&mut self) {
        self.go_on_with_bodies();
        while self.make_reservations() {
            self.go_on_with_bodies();
        }
        self.start_crowded_out();
        let state = &*self.state;
        if state.status.is_end() {
            return;
        }
        // A paused execution does not end by itself, even if all its nodes are settled.
        let may_end = state.is_awake() && (state.moves() || state.pausing);
        let over = state.root.unsettled == 0 && (state.cause.is_some() || may_end);
        if !over {
            if state.pausing && state.running == 0 {
                self.emit(RunEvent::Paused { reason: PauseReason::User });
            }
            return;
        }
        let output = value_of(self.plan, &state.root, &self.plan.root().outputs);
        let failed = |failure: &Failure, nodes: Vec<Arc<str>>, output: Option<Json>| {
            RunEvent::Failed { failure: failure.clone(), nodes, output }
        };
        let unhandled = &state.root.unhandled;
        let event = match (&state.cause, unhandled.first()) {
            (None, None) => RunEvent::Completed { output },
            (None, Some(first)) => {
                let nodes = unhandled.iter().map(|node| self.path((*node).into())).collect();
                let unknown = Failure::permanent("unknown", "unknown");
                let failure = self.node((*first).into()).failure.as_deref().unwrap_or(&unknown);
                failed(failure, nodes, Some(output))
            }
            (Some(EndCause::Failure { node, failure }), _) => {
                failed(failure, vec![node.clone()], None)
            }
            (Some(EndCause::NotQueued { failure }), _) => failed(failure, Vec::new(), None),
            (Some(EndCause::Cancel { reason, .. }), _) => {
                RunEvent::Cancelled { reason: reason.clone() }
            }
            (Some(EndCause::Deadline), _) => RunEvent::TimedOut {},
        };
        self.emit(event);
        self.tell_parent();
    }

    /// A node's input: the outputs of the sources that were taken when it was scheduled.
    pub(super) fn input_of(&self, at: At) -> Result<Json, BadJson> {
        let scheduled_at = self.node(at).scheduled.as_ref().map_or(u64::MAX, |s| s.seq);
        let taken = self.plan_node(at).needs.iter().filter(|condition| {
            let source = at.sibling(condition.source);
            is_taken(self.plan, self.state, source, condition)
                && self.node(source).settled_seq < scheduled_at
        });
        Json::object(taken.map(|condition| {
            let source = at.sibling(condition.source);
            (&*self.plan_node(source).id, output_of(self.plan, self.state, source))
        }))
    }
}

/// A node's output, as others see it: an ignored failure is the node's output.
pub(super) fn output_of(plan: &Plan, state: &State, at: At) -> Json {
    let node = state.node(at);
    let failure = node.failure.as_deref();
    match (plan.node(at.node).error_handling(failure), node.status, failure) {
        (OnError::Continue, NodeStatus::Failed | NodeStatus::TimedOut, Some(failure)) => {
            Json::from_value(&serde_json::json!({ "failure": failure }))
        }
        _ => node.output.clone().unwrap_or_else(Json::null),
    }
}
