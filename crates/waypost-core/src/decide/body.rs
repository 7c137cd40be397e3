//! Containers: `group`, `loop` and `map` open their bodies, and go on when a scope has closed.
//!
//! ```text
//!   RUNNING ─ evaluate ─▶ BodyOpened ─▶ WAITING, while the nodes of the scope work
//!                             ▲                       │ the last of them settles: the scope closes
//!                             └── next iteration ──── go_on_with_bodies ─▶ NodeCompleted, NodeFailed
//! ```
//!
//! A failure in a body that is not handled ends its scope (`BodyEnding`), as a failure of the
//! definition's own nodes ends the execution: nothing more begins, running attempts are cancelled
//! and awaited, and what they report is recorded. Then the container fails.

use std::sync::Arc;

use super::Decider;
use super::evaluate::duration;
use crate::apply::GRACE;
use crate::event::{CancelReason, NodeEvent, Origin, Wait};
use crate::failure::{Failure, kind};
use crate::json::Json;
use crate::kind::{Behaviour, Collect, Container, Loop, LoopTest};
use crate::limits::PAYLOAD_BYTES_MAX;
use crate::path::{At, ScopeNo};
use crate::planted::{Bug, is_planted};
use crate::state::State;
use crate::status::{NodeStatus, Status};

impl Decider<'_> {
    /// Gives the containers their turn that have something to do. That may give others something to
    /// do: a loop in a group.
    pub(super) fn go_on_with_bodies(&mut self) {
        while let Some(at) = self.next_body() {
            match self.go_on_with(at) {
                Err(_) if self.env.contents.has_missed() => self.put_off.push(at),
                Err(failure) => self.attempt_failed(at, failure),
                Ok(()) => {}
            }
        }
    }

    /// Settles the containers in bodies that end, if nothing is left in them: before the execution is
    /// parked, since no node moves after that.
    pub(super) fn settle_in_ending_bodies(&mut self) {
        let next = |state: &State| {
            let settles = |at: &&At| {
                let body = state.node(**at).body.as_ref();
                state.is_ending(**at) && body.is_none_or(|body| body.open.is_empty())
            };
            state.due_bodies.iter().find(settles).copied()
        };
        while let Some(at) = next(self.state) {
            self.cancel_node(at, CancelReason::Body);
        }
    }

    /// A container that has something to do, and may. Maps that only have items to open are left to
    /// `Command::OpenItems`: it comes once a frame, so that one event opens all that fit.
    fn next_body(&self) -> Option<At> {
        let may = |at: &At| self.state.acts() || self.state.is_ending(*at);
        let mut due = self.state.due_bodies.iter().copied();
        let waits = |at: &At| self.put_off.contains(at) || self.state.awaits_scopes(*at);
        due.find(|at| may(at) && !self.opens_items(*at) && !waits(at))
    }

    /// Evaluates a container that is RUNNING.
    pub(super) fn open_container(&mut self, at: At) -> Result<(), Failure> {
        match self.plan_node(at).behaviour.container() {
            Some(Container::Loop(spec)) => self.next_iteration(at, spec),
            Some(Container::Map(spec)) => self.open_map(at, spec),
            Some(Container::Group | Container::Operation(_)) | None => {
                self.open_body(at);
                Ok(())
            }
        }
    }

    fn go_on_with(&mut self, at: At) -> Result<(), Failure> {
        if self.state.is_ending(at) {
            let whole = self.state.status == Status::Ending;
            self.cancel_node(at, if whole { CancelReason::Ending } else { CancelReason::Body });
            return Ok(());
        }
        let body = self.node(at).body.as_deref();
        if let Behaviour::Polled(branch) = &self.plan_node(at).behaviour
            && body.is_some_and(|body| body.late)
        {
            return self.complete(at, None, Some(Arc::clone(branch)));
        }
        if let Some(failure) = body.and_then(|body| body.failure.clone()) {
            return Err(*failure);
        }
        match self.plan_node(at).behaviour.container() {
            Some(Container::Loop(spec)) => self.next_iteration(at, spec),
            Some(Container::Map(_)) if body.is_some_and(|body| !body.open.is_empty()) => {
                self.stop_map(at);
                Ok(())
            }
            Some(Container::Map(spec)) => self.end_map(at, spec),
            Some(Container::Operation(spec)) => self.await_callback(at, spec),
            Some(Container::Group) | None => {
                let output = body.and_then(|body| body.output.clone());
                self.complete(at, output, None)
            }
        }
    }

    /// Ends the loop, or begins its next iteration, after its delay.
    fn next_iteration(&mut self, at: At, spec: &Loop) -> Result<(), Failure> {
        let done = self.iterations(at);
        let bytes = self.node(at).body.as_ref().map_or(0, |body| body.collected_bytes);
        if bytes > PAYLOAD_BYTES_MAX {
            let message = format!(
                "the outputs of {done} iterations have {bytes} bytes; at most {PAYLOAD_BYTES_MAX} \
                 are kept (`collect: last` keeps the last one only)"
            );
            return Err(Failure::permanent(kind::TOO_LARGE, message));
        }
        let scope = self.scope(at);
        let ends = match &spec.test {
            LoopTest::While(holds) => !holds.eval_bool(&scope)?,
            LoopTest::Until(holds) => done > 0 && holds.eval_bool(&scope)?,
        };
        if ends {
            let output = self.loop_output(at, spec.collect)?;
            return self.complete(at, output, None);
        }
        let more = u64::from(is_planted(Bug::LoopOffByOne));
        if done >= spec.iterations_max + more {
            let message = format!(
                "the loop has not ended after {done} iterations, which is its `maxIterations` (`maxPolls` of \
                 an `async-operation`)"
            );
            return Err(Failure::permanent(kind::LOOP_LIMIT, message));
        }
        let delay = spec.delay.as_ref().filter(|_| done > 0);
        let delay = delay.map(|delay| duration(delay, &scope)).transpose()?;
        match delay.filter(|span| span.0 > 0) {
            Some(span) => {
                let wait = Wait::Delay { due: self.env.now_max.plus(span) };
                self.wait(at, wait, Some(span));
            }
            None => self.open_body(at),
        }
        Ok(())
    }

    fn iterations(&self, at: At) -> u64 {
        self.node(at).body.as_ref().map_or(0, |body| body.opened)
    }

    fn loop_output(&self, at: At, collect: Collect) -> Result<Option<Json>, Failure> {
        let Some(body) = &self.node(at).body else {
            return Ok(match collect {
                Collect::Last => None,
                Collect::All => Some(Json::list([].iter())?),
            });
        };
        match collect {
            Collect::Last => Ok(body.output.clone()),
            Collect::All => Ok(Some(Json::list(body.collected.iter())?)),
        }
    }

    /// Opens the next scope of a container, and its first nodes.
    pub(super) fn open_body(&mut self, at: At) {
        let is_loop = matches!(self.plan_node(at).behaviour, Behaviour::Loop(_));
        let index = is_loop.then(|| self.iterations(at) + 1);
        let (node, attempt) = (self.path(at), self.node(at).attempt);
        self.emit_at(at, NodeEvent::BodyOpened { node, attempt, index });
        let scope = ScopeNo(self.state.scopes_opened);
        self.open_scope(scope);
    }

    /// A failure in a body that nothing handles, or the request of `origin`: its scope ends.
    pub(super) fn end_scope(
        &mut self,
        scope: ScopeNo,
        failure: Failure,
        whole: bool,
        origin: Origin,
    ) {
        let Some((at, index)) = self.state.scope(scope).and_then(|s| Some((s.container?, s.index)))
        else {
            return;
        };
        let (node, attempt) = (self.path(at), self.node(at).attempt);
        let grace = self.env.now_max.plus(GRACE);
        let ending = NodeEvent::BodyEnding { node, attempt, index, failure, whole, grace, origin };
        self.emit_at(at, ending);
        let ending = self.state.scopes_in(scope);
        let not_handed_off = self.withdraw(|at| ending.contains(&at.scope));
        for number in ending {
            let Some(scope) = self.state.scope(number) else { continue };
            let open = scope.iter().filter(|(_, node)| !node.status.is_settled());
            let open: Vec<At> = open.map(|(node, _)| At { scope: number, node }).collect();
            for at in open {
                self.stop_node(at, not_handed_off.contains(&at), CancelReason::Body);
            }
        }
    }

    /// Stops a node of an end: a running attempt is cancelled and awaited, a container awaits what
    /// is in it, anything else is cancelled at once.
    pub(super) fn stop_node(&mut self, at: At, not_handed_off: bool, reason: CancelReason) {
        let node = self.node(at);
        let runs = node.token.is_some() && !not_handed_off;
        let holds = node.body.as_ref().is_some_and(|body| !body.open.is_empty());
        if runs || self.awaits_cancelled_child(at) {
            self.tell_to_stop(at);
        } else if !holds || is_planted(Bug::BodyForgotten) {
            self.cancel_node(at, reason);
        }
    }

    /// Stops the attempts in a body that no longer counts, without awaiting them.
    pub(super) fn stop_body(&mut self, container: At) {
        let scopes = self.state.scopes_of(container);
        if scopes.is_empty() {
            return;
        }
        let not_handed_off = self.withdraw(|at| scopes.contains(&at.scope));
        let inside = self.state.positions().into_iter().filter(|at| scopes.contains(&at.scope));
        for at in inside {
            if !not_handed_off.contains(&at) {
                self.tell_to_stop(at);
            }
        }
    }

    /// The patience with the cancelled attempts of a scope is over.
    pub(super) fn give_up_on_body(&mut self, scope: ScopeNo) {
        for number in self.state.scopes_in(scope) {
            let Some(scope) = self.state.scope(number) else { continue };
            let running = scope.iter().filter(|(_, node)| node.status == NodeStatus::Running);
            let running: Vec<At> = running.map(|(node, _)| At { scope: number, node }).collect();
            for at in running {
                self.cancel_node(at, CancelReason::Grace);
            }
        }
    }

    /// A container took longer than its deadline: its scopes end first. False if it has none.
    pub(super) fn deadline_of_body(&mut self, at: At) -> bool {
        let body = self.node(at).body.as_ref();
        let open: Vec<ScopeNo> = body.map_or_else(Vec::new, |b| b.open.values().copied().collect());
        for scope in &open {
            if !self.state.is_scope_ending(*scope) {
                self.end_scope(*scope, deadline_passed(), true, Origin::default());
            }
        }
        !open.is_empty()
    }
}

pub(super) fn deadline_passed() -> Failure {
    Failure::permanent(kind::TIMEOUT, "the node's deadline has passed")
}
