//! Executions that `workflow` nodes start: their beginning, their end, and the end of their parent.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use super::Decider;
use crate::child::{
    Birth, Callee, ChildEnd, ChildState, Launch, NewChild, ParentLink, SentBody, SentMessage,
};
use crate::command::{Refusal, Request};
use crate::event::{
    CancelReason, EndCause, FailureEnd, NodeEvent, Origin, PauseReason, RunCreated, RunEvent, Wait,
};
use crate::failure::{Failure, kind};
use crate::id::{ExecutionId, ExecutionNo};
use crate::json::Json;
use crate::kind::Behaviour;
use crate::limits::CHILD_DEPTH_MAX;
use crate::path::At;
use crate::planted::{Bug, is_planted};
use crate::status::{NodeStatus, Status};

impl Decider<'_> {
    /// What a node starts was found. Anything but a node that still asks for it is an echo from before a
    /// cancel or a take-over.
    pub(super) fn launch(&mut self, at: At, attempt: u32, launch: Result<Launch, Failure>) {
        let asks = self.is_at(at, NodeStatus::Running, attempt) && !self.state.is_ending(at);
        if !asks {
            return;
        }
        let behaviour = &self.plan_node(at).behaviour;
        if let Behaviour::Emit(spec) = behaviour {
            return self.emit_signal(at, spec, launch);
        }
        let Behaviour::Workflow(call) = behaviour else { return };
        let child = self.node(at).child.as_ref().map(|child| (child.execution, child.key.clone()));
        match (launch, child) {
            (Ok(Launch::New(new)), _) if self.depth() >= CHILD_DEPTH_MAX => {
                let message = format!(
                    "workflow {:?} was not started: {CHILD_DEPTH_MAX} executions are above it, which is \
                     the limit",
                    new.callee.workflow
                );
                self.attempt_failed(at, Failure::permanent(kind::TOO_DEEP, message));
            }
            (Ok(Launch::New(new)), _) => self.give_birth(at, *new, (call.detached, call.leave)),
            (Ok(Launch::Again), Some(child)) => {
                self.decision.reopened.push(child.0);
                self.await_again(at, child);
            }
            (Ok(Launch::Ended(end)), Some(child)) if end.child == child.0 => {
                self.await_again(at, child);
                self.take_end(at, *end);
            }
            (Ok(Launch::Again | Launch::Ended(_) | Launch::Signal(_)), _) => {}
            (Err(failure), _) => self.attempt_failed(at, failure),
        }
    }

    fn depth(&self) -> u32 {
        self.state.created.parent.as_ref().map_or(0, |parent| parent.depth)
    }

    fn give_birth(&mut self, at: At, new: NewChild, (detached, leave): (bool, bool)) {
        let (node, attempt) = (self.path(at), self.node(at).attempt);
        let parent = ParentLink {
            execution: self.state.execution,
            key: self.state.created.key.clone(),
            node: Arc::clone(&node),
            awaits: !detached,
            root: self.root(),
            depth: self.depth() + 1,
            keys: self.held_keys(),
        };
        let NewChild { execution, key, callee } = new;
        let Callee { workflow, version, definition, input, timeout, requires } = callee;
        let actor = self.state.created.origin.actor.clone();
        let created = RunCreated {
            key: key.clone(),
            workflow: Arc::clone(&workflow),
            version,
            definition,
            input,
            labels: self.state.created.labels.clone(),
            deadline: timeout.map(|span| self.env.now_max.plus(span)),
            origin: Origin { message: None, actor },
            parent: Some(Box::new(parent)),
            trigger: None,
        };
        self.emit_at(
            at,
            NodeEvent::ChildStarted {
                node,
                attempt,
                execution,
                child: key.clone(),
                workflow,
                version,
                definition,
                detached,
                leave,
            },
        );
        self.decision.births.push(Birth { execution, created, requires });
        if detached {
            let output = Json::from_value(&json!({ "execution": key }));
            self.complete_or_fail(at, Some(output));
        }
    }

    /// The id of the execution at the top of the tree.
    fn root(&self) -> ExecutionId {
        let created = &self.state.created;
        created.parent.as_ref().map_or(&created.key, |parent| &parent.root).clone()
    }

    /// The concurrency keys whose permits this execution and those above it hold.
    fn held_keys(&self) -> Vec<Arc<str>> {
        let above = self.state.created.parent.iter().flat_map(|parent| parent.keys.iter().cloned());
        above.chain(self.state.permit_request().map(|request| request.key)).collect()
    }

    /// Does an execution above this one hold the permit of this key?
    pub(super) fn is_held_above(&self, key: &str) -> bool {
        let key = format!("{}/{key}", self.state.created.workflow);
        let parent = self.state.created.parent.as_ref();
        parent.is_some_and(|parent| parent.keys.iter().any(|held| **held == *key))
    }

    /// The store rejected its place in the queue: others hold all permits.
    pub(super) fn reject(&mut self, holding: u64) {
        if self.state.status == Status::Scheduled {
            let message = format!(
                "{holding} executions hold all permits of the concurrency key, and the policy is to \
                 reject"
            );
            let failure = Failure::permanent(kind::CONCURRENCY_REJECTED, message);
            self.end_for(EndCause::NotQueued { failure });
        }
    }

    fn await_again(&mut self, at: At, (execution, child): (ExecutionNo, ExecutionId)) {
        let (node, attempt) = (self.path(at), self.node(at).attempt);
        self.emit_at(at, NodeEvent::ChildReopened { node, attempt, execution, child });
    }

    /// A child ended. An end that no node waits for is consumed and changes nothing.
    pub(super) fn child_ended(&mut self, end: ChildEnd) -> Result<(), Refusal> {
        self.refuse_ended()?;
        let at = self.state.find(self.plan, &end.node).filter(|at| {
            let child = self.awaited_child(*at);
            child.is_some_and(|child| child.execution == end.child && child.ended < end.generation)
        });
        let at = at.ok_or(Refusal::NotAwaited)?;
        if end.status == Status::Completed && !self.has_variables_of(at, end.output.as_ref()) {
            return Ok(());
        }
        if !self.state.status.is_parked() {
            self.take_end(at, end);
            return Ok(());
        }
        // The pause that this very frame completed came first, but the end is a fact.
        self.take_over()?;
        self.take_end(at, end);
        self.park_again();
        Ok(())
    }

    /// The child that a node waits for.
    fn awaited_child(&self, at: At) -> Option<&ChildState> {
        let node = self.state.get(at)?;
        matches!(node.wait, Some(Wait::Child { .. })).then_some(())?;
        node.child.as_deref()
    }

    fn take_end(&mut self, at: At, end: ChildEnd) {
        let Some(child) = self.node(at).child.as_ref().map(|child| child.key.clone()) else {
            return;
        };
        let (node, attempt) = (self.path(at), self.node(at).attempt);
        let ChildEnd { child: execution, generation, status, output, failure, .. } = end;
        self.emit_at(at, NodeEvent::ChildEnded { node, attempt, execution, generation, status });
        let ending = self.state.is_ending(at);
        if status == Status::Completed {
            self.complete_or_fail(at, output);
        } else if status == Status::Cancelled && ending {
            let whole = self.state.status == Status::Ending;
            let reason = if whole { CancelReason::Ending } else { CancelReason::Body };
            self.cancel_node(at, reason);
        } else {
            let of_node = failure_of_child(&child, status, failure.as_ref());
            match is_beyond_limits(failure.as_ref()) {
                true => self.fail_for_good(at, of_node, FailureEnd::Final),
                false => self.attempt_failed(at, of_node),
            }
        }
    }

    /// Starts the children that had no room, if there is some now: a child has ended, or will not begin.
    pub(super) fn start_crowded_out(&mut self) {
        let may_wait = self.crowded_out && self.state.queued > 0;
        if !may_wait || !self.state.has_room_for_child() || !self.state.acts() {
            return;
        }
        let waits = |at: &At| {
            let starts = matches!(self.plan_node(*at).behaviour, Behaviour::Workflow(_));
            starts && self.is_in(*at, NodeStatus::Queued)
        };
        let waiting: Vec<At> = self.state.positions().into_iter().filter(waits).collect();
        for at in waiting {
            if !self.state.has_room_for_child() {
                return;
            }
            self.start(at);
        }
    }

    /// Must this node wait for its child although its execution or its body is ending?
    pub(super) fn awaits_cancelled_child(&self, at: At) -> bool {
        self.awaited_child(at).is_some_and(|child| !child.leave) && !is_planted(Bug::ChildForgotten)
    }

    /// Tells the child of a node that its parent does not need it any more.
    pub(super) fn cancel_child(&mut self, at: At) {
        let Some(child) = self.awaited_child(at).filter(|child| !child.leave) else { return };
        let to = child.execution;
        let created = &self.state.created;
        let reason = format!("{} no longer needs it (node {})", created.key, self.path(at));
        let message = format!("parent-{}-{}", self.state.execution.0, self.state.seq).into();
        let body = SentBody::Request(Request::Cancel { reason: Some(reason) });
        self.decision.sent.push(SentMessage { to, message, body });
    }

    /// Waits for no child any more; they were cancelled.
    pub(super) fn leave_children(&mut self) {
        for at in self.state.positions() {
            if self.awaited_child(at).is_some() {
                self.cancel_node(at, CancelReason::Ending);
            }
        }
    }

    /// Tells the node that started this execution how it ended.
    pub(super) fn tell_parent(&mut self) {
        let parent = self.state.created.parent.as_ref().filter(|parent| parent.awaits);
        let parent = parent.filter(|_| !is_planted(Bug::ParentNotTold));
        let (Some(parent), Some(end)) = (parent, self.state.end_for_parent()) else { return };
        let message = format!("child-{}-{}", end.child.0, end.generation).into();
        let body = SentBody::ChildEnded(Box::new(end));
        self.decision.sent.push(SentMessage { to: parent.execution, message, body });
    }

    /// Leaves memory although it is ending: only executions that it started keep it.
    pub(super) fn park_for_children(&mut self) -> Result<(), Refusal> {
        if self.state.running > 0 || self.state.children_open == 0 {
            return Err(Refusal::Busy);
        }
        self.emit(RunEvent::Paused { reason: PauseReason::Children });
        Ok(())
    }
}

/// What the end of a child means for the node that started it. Where the child only failed because of one that it
/// started, the message names that one: a chain of sixteen messages would hide why.
fn failure_of_child(child: &ExecutionId, status: Status, failure: Option<&Failure>) -> Failure {
    let why = match failure.map(|failure| (failure, Origins::of(failure).last())) {
        None => String::new(),
        Some((_, Some((below, cause)))) => {
            format!(" because of execution {below} below it: {}: {}", cause.kind, cause.message)
        }
        Some((failure, None)) => format!(": {}: {}", failure.kind, failure.message),
    };
    let (kind, how) = if status == Status::TimedOut {
        (kind::TIMEOUT, "took longer than its timeout")
    } else if status == Status::Cancelled {
        (kind::CHILD_CANCELLED, "was cancelled")
    } else {
        (kind::CHILD_FAILED, "failed")
    };
    let message = format!("execution {child} {how}{why}");
    let details = Json::from_value(&json!({ "execution": child, "failure": failure }));
    let retryable = status != Status::Cancelled;
    Failure { retryable, details: Some(details), ..Failure::permanent(kind, message) }
}

/// Is it of no use to open the child again, whatever `retry` says? Each level of a tree that has reached its limits
/// would multiply the retries of the level below: three attempts at each of sixteen levels are fourteen million.
fn is_beyond_limits(failure: Option<&Failure>) -> bool {
    let Some(failure) = failure else { return false };
    let limits = [kind::TOO_DEEP, kind::TREE_TOO_LARGE];
    let origin = Origins::of(failure).last().map(|(_, cause)| cause.kind);
    limits.contains(&&*origin.unwrap_or_else(|| failure.kind.clone()))
}

/// The failures that a failure comes from, each with the execution in which it happened: what `workflow` nodes
/// keep in the details of theirs.
struct Origins(Option<Json>);

impl Origins {
    fn of(failure: &Failure) -> Self {
        let of_child = [kind::CHILD_FAILED, kind::CHILD_CANCELLED, kind::TIMEOUT];
        Self(failure.details.clone().filter(|_| of_child.contains(&&*failure.kind)))
    }
}

impl Iterator for Origins {
    type Item = (ExecutionId, Failure);

    fn next(&mut self) -> Option<Self::Item> {
        #[derive(Deserialize)]
        struct OfChild {
            execution: ExecutionId,
            failure: Option<Failure>,
        }
        let OfChild { execution, failure } = serde_json::from_str(self.0.take()?.text()).ok()?;
        let failure = failure?;
        self.0 = Self::of(&failure).0;
        Some((execution, failure))
    }
}
