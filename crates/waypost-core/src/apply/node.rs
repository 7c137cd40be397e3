//! The machine of nodes: attempts, waits, and how a node settles.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::edges::{count, edge_end};
use super::waits::{Answers, open_wait, reminded, requeued, resumed, signalled, waiting};
use super::{SILENCE, Step, body, budget, children, refuse};
use crate::ended::{Ended, Said};
use crate::event::{AttemptReserved, AttemptUsed, FailureEnd, NodeEvent, Wait};
use crate::failure::Failure;
use crate::id::{NodeIx, Token, WorkerId};
use crate::json::Json;
use crate::kind::Behaviour;
use crate::limits::ENDS_REMEMBERED_MAX;
use crate::path::{At, ScopeNo};
use crate::plan::{FailurePolicy, OnError, Plan};
use crate::planted::{Bug, is_planted};
use crate::state::{Scheduled, State, Timer};
use crate::status::{NodeStatus, Status};
use crate::time::Timestamp;
use crate::transitions::NodePhase;

pub(super) fn apply(
    plan: &Plan,
    state: &mut State,
    at: At,
    event: &NodeEvent,
    now: Timestamp,
) -> Step {
    let row = event.row();
    let during = state.phase();
    if !row.during.contains(&during) {
        return Err(format!("the execution is {}", during.name()));
    }
    let phase = state.node(at).phase();
    let next = row.from(phase);
    let next =
        next.ok_or_else(|| format!("node {:?} is {}", plan.node(at.node).id, phase.name()))?;
    expect_attempt(plan, state, at, attempt_of(event))?;
    let answers = Answers::of(plan, state, at, event);
    match event {
        NodeEvent::Scheduled { attempt, deadline, .. } => {
            scheduled(plan, state, at, (*attempt, *deadline), now)?;
        }
        NodeEvent::Reserved(AttemptReserved { amount, .. }) => {
            budget::reserved(state, at, *amount)?
        }
        NodeEvent::Used(AttemptUsed { usage, cost, .. }) => budget::used(state, at, *usage, *cost)?,
        NodeEvent::Started { token, remote, due, .. } => {
            if remote.is_some() && token.is_none() {
                return refuse("an attempt that is made remotely has a token");
            }
            started(plan, state, at, (*token, *remote, *due), now);
        }
        NodeEvent::Checkpointed { data, number, .. } => marked(state, at, data, *number),
        NodeEvent::Completed { output, branch, variables, .. } => {
            completed(state, at, output.as_ref(), branch.as_ref());
            settle(plan, state, at, next, now);
            set_variables(state, at, variables);
        }
        NodeEvent::Failed { failure, end, .. } => {
            remember_end(state, at, || Said::failed(failure));
            state.node_mut(at).details_mut().failure = Some(Box::new(failure.clone()));
            failed(plan, state, at, (*end, next), now);
        }
        NodeEvent::Waiting { wait, .. } => waiting(state, at, wait)?,
        NodeEvent::Signalled { which, message, more, .. } => {
            signalled(state, at, *which, (message, *more))?;
        }
        NodeEvent::Reminded { escalated, .. } => reminded(state, at, *escalated)?,
        NodeEvent::Resumed { message, origin, more, .. } => {
            resumed(state, at, next, (message.as_ref(), *more, origin.message.as_ref()), now);
        }
        NodeEvent::Requeued { origin, .. } => {
            requeued(plan, state, at, origin.message.as_ref())?;
        }
        NodeEvent::BodyOpened { .. }
        | NodeEvent::MapOpened { .. }
        | NodeEvent::ItemsOpened { .. }
        | NodeEvent::BodyEnding { .. }
        | NodeEvent::Tuned { .. } => {
            body::apply(plan, state, at, event, now)?;
        }
        NodeEvent::ChildStarted { .. }
        | NodeEvent::ChildReopened { .. }
        | NodeEvent::ChildEnded { .. } => {
            children::apply(state, at, event)?;
        }
        NodeEvent::SignalSent { .. } => {}
        NodeEvent::Skipped { .. } => settle(plan, state, at, next, now),
        NodeEvent::Cancelled { reason, .. } => {
            remember_end(state, at, || Said::Cancelled);
            state.node_mut(at).cancelled = Some(*reason);
            settle(plan, state, at, next, now);
        }
    }
    answers.forget(state);
    body::close_if_settled(plan, state, at.scope);
    Ok(())
}

/// The attempt under way that an event is about.
fn attempt_of(event: &NodeEvent) -> Option<u32> {
    match event {
        NodeEvent::Scheduled { .. } | NodeEvent::Skipped { .. } | NodeEvent::Cancelled { .. } => {
            None
        }
        NodeEvent::Reserved(AttemptReserved { attempt, .. })
        | NodeEvent::Used(AttemptUsed { attempt, .. })
        | NodeEvent::Started { attempt, .. }
        | NodeEvent::Checkpointed { attempt, .. }
        | NodeEvent::Completed { attempt, .. }
        | NodeEvent::Failed { attempt, .. }
        | NodeEvent::Waiting { attempt, .. }
        | NodeEvent::Signalled { attempt, .. }
        | NodeEvent::Reminded { attempt, .. }
        | NodeEvent::Resumed { attempt, .. }
        | NodeEvent::Requeued { attempt, .. }
        | NodeEvent::BodyOpened { attempt, .. }
        | NodeEvent::MapOpened { attempt, .. }
        | NodeEvent::ItemsOpened { attempt, .. }
        | NodeEvent::BodyEnding { attempt, .. }
        | NodeEvent::Tuned { attempt, .. }
        | NodeEvent::ChildStarted { attempt, .. }
        | NodeEvent::ChildReopened { attempt, .. }
        | NodeEvent::ChildEnded { attempt, .. }
        | NodeEvent::SignalSent { attempt, .. } => Some(*attempt),
    }
}

fn expect_attempt(plan: &Plan, state: &State, at: At, attempt: Option<u32>) -> Step {
    let current = state.node(at).attempt;
    let stale = || format!("node {:?} is at attempt {current}", plan.node(at.node).id);
    if attempt.is_none_or(|attempt| attempt == current) { Ok(()) } else { Err(stale()) }
}

fn marked(state: &mut State, at: At, data: &Json, number: u32) {
    let details = state.node_mut(at).details_mut();
    details.checkpoint = Some(data.clone());
    details.marks = details.marks.max(number);
}

fn completed(state: &mut State, at: At, output: Option<&Json>, branch: Option<&Arc<str>>) {
    remember_end(state, at, || Said::completed(output));
    let node = state.node_mut(at);
    node.output = output.cloned();
    if let Some(details) = node.known_details_mut() {
        (details.branch, details.failure) = (None, None);
    }
    if branch.is_some() {
        node.details_mut().branch = branch.cloned();
    }
}

fn scheduled(
    plan: &Plan,
    state: &mut State,
    at: At,
    (attempt, deadline): (u32, Option<Timestamp>),
    now: Timestamp,
) -> Step {
    let last = state.node(at).attempt;
    if attempt != last + 1 {
        return Err(format!("attempt {attempt} does not follow {last}"));
    }
    move_to(state, at, NodeStatus::Queued);
    budget::scheduled(plan, state, at);
    if matches!(state.status, Status::Scheduled | Status::Resuming) {
        state.status = Status::Running;
        state.paused = None;
    }
    let seq = state.seq + 1;
    let first = state.node(at).scheduled.is_none();
    let scheduled = first.then(|| Scheduled {
        at: now,
        seq,
        variables: Arc::clone(state.variables(at.scope)),
        unsettled: unsettled_mentions(plan, state, at).into(),
    });
    let generation = state.generation;
    let node = state.node_mut(at);
    if first {
        node.generation = generation;
    }
    node.attempt = attempt;
    if let Some(details) = node.known_details_mut() {
        details.marks = 0;
    }
    if let Some(scheduled) = scheduled {
        node.scheduled = Some(scheduled);
        // Logs of older builds do not have the time.
        let counted = || plan.node(at.node).deadline.map(|span| now.plus(span));
        if let Some(due) = deadline.or_else(counted) {
            node.details_mut().deadline = Some(due);
            state.timers.insert((due, Timer::Node(at)));
        }
    }
    Ok(())
}

fn unsettled_mentions(plan: &Plan, state: &State, at: At) -> Vec<(NodeIx, NodeStatus)> {
    let mentions = plan.node(at.node).mentions.iter();
    let visible = mentions.filter_map(|mentioned| state.visible(at.scope, *mentioned));
    let statuses = visible.map(|mentioned| (mentioned.node, state.node(mentioned).status));
    statuses.filter(|(_, status)| !status.is_settled()).collect()
}

fn started(
    plan: &Plan,
    state: &mut State,
    at: At,
    (token, remote, due): (Option<Token>, Option<WorkerId>, Option<Timestamp>),
    now: Timestamp,
) {
    move_to(state, at, NodeStatus::Running);
    // Only a worker can be silent: a node that the engine evaluates has no token and takes no time.
    // Logs of older builds do not have the time.
    let counted = || plan.node(at.node).timeout.map(|span| now.plus(span).plus(SILENCE));
    let due = token.and_then(|_| due.or_else(counted));
    let epoch = state.epoch;
    let node = state.node_mut(at);
    node.started_at = Some(now);
    node.started_epoch = epoch;
    if token.is_some() {
        let details = node.details_mut();
        (details.token, details.remote, details.attempt_due) = (token, remote, due);
    }
    if let Some(due) = due {
        state.timers.insert((due, Timer::Attempt(at)));
    }
    budget::started(plan, state, at);
    if matches!(plan.node(at.node).behaviour, Behaviour::Workflow(_)) {
        state.node_mut(at).details_mut().launching = true;
        state.launching += 1;
    }
}

/// Comes after its node has settled and so let go of its own view of the variables: a chain of
/// nodes that set some then changes them in place instead of copying them all each time.
fn set_variables(state: &mut State, at: At, variables: &BTreeMap<Arc<str>, Json>) {
    if !variables.is_empty() {
        if is_planted(Bug::VariablesStayInside) {
            let copy = Arc::clone(state.variables(at.scope));
            if let Some(scope) = state.scope_mut(at.scope) {
                scope.variables.get_or_insert(copy);
            }
        }
        let all = Arc::make_mut(state.variables_mut(at.scope));
        all.extend(variables.iter().map(|(name, value)| (Arc::clone(name), value.clone())));
    }
}

/// Ends an attempt that failed: the next one waits, or the node settles.
fn failed(
    plan: &Plan,
    state: &mut State,
    at: At,
    (end, next): (FailureEnd, NodePhase),
    now: Timestamp,
) {
    let failure = state.node(at).failure.as_deref();
    let (due, abandoned) = match end {
        FailureEnd::RetryAt(due) => (due, false),
        FailureEnd::Abandoned(due) => (due, true),
        FailureEnd::Final | FailureEnd::TimedOut => {
            let unhandled = *plan.node(at.node).error_handling(failure) == OnError::Fail;
            if unhandled && at.scope != ScopeNo::ROOT {
                body::failed(plan, state, at, now);
            } else if unhandled && plan.failure_policy == FailurePolicy::Partial {
                state.root.unhandled.push(at.node);
            }
            return settle(plan, state, at, next, now);
        }
    };
    let uncounted = abandoned && failure.is_some_and(Failure::is_uncounted);
    let counts = !uncounted || is_planted(Bug::HandedOverCounts);
    move_to(state, at, next.shown());
    body::drop_scopes(state, at);
    let details = state.node_mut(at).details_mut();
    if counts && abandoned && !is_planted(Bug::AbandonedCounts) {
        details.abandoned += 1;
    } else if counts {
        details.tries += 1;
    }
    open_wait(state, at, Wait::Retry { due });
}

/// Remembers the end of a remote attempt: its worker may repeat its report, also after the
/// execution's end. An attempt in a slot reports once.
fn remember_end(state: &mut State, at: At, said: impl FnOnce() -> Said) {
    let node = state.node_mut(at);
    if let (Some(_), Some(token)) = (node.remote, node.token) {
        let attempt = node.attempt;
        let ended = &mut node.details_mut().ended;
        if ended.len() == ENDS_REMEMBERED_MAX {
            ended.pop_front();
        }
        ended.push_back(Ended { attempt, token, said: said() });
    }
}

/// Changes a node's status, keeping the counters and dropping what belonged to the old one.
pub(super) fn move_to(state: &mut State, at: At, to: NodeStatus) {
    let node = state.node_mut(at);
    let (mut old_wait, mut old_attempt_due, mut launched) = (None, None, false);
    let mut reserved = None;
    if let Some(details) = node.known_details_mut() {
        (details.token, details.remote, details.wait_seq) = (None, None, 0);
        (old_wait, old_attempt_due) = (details.wait.take(), details.attempt_due.take());
        launched = std::mem::take(&mut details.launching);
        reserved = details.reserved.take_if(|_| to != NodeStatus::Running);
    }
    let from = std::mem::replace(&mut node.status, to);
    state.due_bodies.remove(&at);
    state.spending.waiting.remove(&at);
    if let Some(amount) = reserved {
        let may_have_used = from == NodeStatus::Running && !is_planted(Bug::LostUsageFree);
        state.spending.release(amount, may_have_used);
    }
    state.launching -= u32::from(launched);
    state.children_open -= u32::from(matches!(old_wait, Some(Wait::Child { .. })));
    if let Some(wait) = old_wait {
        state.disarm(at, &wait);
    }
    if let Some(due) = old_attempt_due {
        state.timers.remove(&(due, Timer::Attempt(at)));
    }
    for (status, step) in [(from, -1), (to, 1)] {
        match status {
            NodeStatus::Queued => state.queued = state.queued.saturating_add_signed(step),
            NodeStatus::Running => state.running = state.running.saturating_add_signed(step),
            NodeStatus::Pending
            | NodeStatus::Waiting
            | NodeStatus::Completed
            | NodeStatus::Failed
            | NodeStatus::TimedOut
            | NodeStatus::Skipped
            | NodeStatus::Cancelled => {}
        }
    }
}

/// Settles a node, once, and with it the conditions of those that need it.
fn settle(plan: &Plan, state: &mut State, at: At, end: NodePhase, now: Timestamp) {
    move_to(state, at, end.shown());
    body::settled(plan, state, at);
    if let Some(scope) = state.scope_mut(at.scope) {
        scope.unsettled -= 1;
    }
    let seq = state.seq + 1;
    let node = state.node_mut(at);
    node.settled_seq = seq;
    node.settled_at = Some(now);
    if let Some(scheduled) = &mut node.scheduled {
        scheduled.variables = Arc::default();
    }
    let deadline = node.known_details_mut().and_then(|details| {
        details.arrived.clear();
        details.deadline.take()
    });
    node.trim();
    if let Some(due) = deadline {
        state.timers.remove(&(due, Timer::Node(at)));
    }
    let source = plan.node(at.node);
    for outgoing in &source.successors {
        let successor = plan.node(outgoing.node);
        let Some(condition) = successor.needs.get(outgoing.condition as usize) else { continue };
        let edge = edge_end(source, state.node(at), condition);
        count(state.node_mut(at.sibling(outgoing.node)), edge);
    }
}
