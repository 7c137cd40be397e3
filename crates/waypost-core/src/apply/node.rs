//! The machine of nodes: attempts, waits, and how a node settles.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::edges::{count, edge_end};
use super::{SILENCE, Step, refuse};
use crate::ended::{Ended, Said};
use crate::event::{FailureEnd, MessageId, NodeEvent, Wait};
use crate::failure::Failure;
use crate::id::{NodeIx, Token, WorkerId};
use crate::json::Json;
use crate::limits::ENDS_REMEMBERED_MAX;
use crate::plan::{FailurePolicy, OnError, Plan};
use crate::planted::{Bug, is_planted};
use crate::state::{Scheduled, State, Timer};
use crate::status::{NodeStatus, Status};
use crate::time::Timestamp;

pub(super) fn apply(
    plan: &Plan,
    state: &mut State,
    at: NodeIx,
    event: &NodeEvent,
    now: Timestamp,
) -> Step {
    use NodeStatus::{Cancelled, Completed, Pending, Queued, Running, Skipped, Waiting};
    expect_possible(state, event)?;
    let from = |state: &State, allowed: &[NodeStatus]| expect_status(plan, state, at, allowed);
    match event {
        NodeEvent::Scheduled { attempt, deadline, .. } => {
            from(state, &[Pending, Waiting])?;
            expect_turn(state)?;
            scheduled(plan, state, at, (*attempt, *deadline), now)?;
        }
        NodeEvent::Started { attempt, token, remote, due, .. } => {
            from(state, &[Queued])?;
            expect_attempt(plan, state, at, *attempt)?;
            match remote {
                // A remote worker starts without asking whether it is the execution's turn.
                Some(_) if token.is_some() => {}
                Some(_) => return refuse("an attempt that is made remotely has a token"),
                None => expect_turn(state)?,
            }
            started(plan, state, at, (*token, *remote, *due), now);
        }
        NodeEvent::Checkpointed { attempt, data, number, .. } => {
            from(state, &[Running])?;
            expect_attempt(plan, state, at, *attempt)?;
            let node = state.node_mut(at);
            node.checkpoint = Some(data.clone());
            node.marks = node.marks.max(*number);
        }
        NodeEvent::Completed { attempt, output, branch, variables, .. } => {
            from(state, &[Running])?;
            expect_attempt(plan, state, at, *attempt)?;
            remember_end(state, at, || Said::completed(output.as_ref()));
            let node = state.node_mut(at);
            node.output = output.clone();
            node.branch = branch.clone();
            node.failure = None;
            settle(plan, state, at, Completed, now);
            set_variables(state, variables);
        }
        NodeEvent::Failed { attempt, failure, end, .. } => {
            from(state, failure_sources(*end))?;
            expect_attempt(plan, state, at, *attempt)?;
            failed(plan, state, at, (failure, *end), now)?;
        }
        NodeEvent::Waiting { attempt, wait, .. } => {
            from(state, &[Running])?;
            expect_attempt(plan, state, at, *attempt)?;
            waiting(state, at, wait)?;
        }
        NodeEvent::Resumed { attempt, message, origin, .. } => {
            from(state, &[Waiting])?;
            expect_attempt(plan, state, at, *attempt)?;
            if origin.message.is_some() {
                expect_turn(state)?;
            }
            resumed(state, at, (message.as_ref(), origin.message.as_ref()), now)?;
        }
        NodeEvent::Skipped { .. } => {
            from(state, &[Pending])?;
            expect_turn(state)?;
            settle(plan, state, at, Skipped, now);
        }
        NodeEvent::Cancelled { reason, .. } => {
            from(state, &[Pending, Queued, Running, Waiting])?;
            remember_end(state, at, || Said::Cancelled);
            state.node_mut(at).cancelled = Some(*reason);
            settle(plan, state, at, Cancelled, now);
        }
    }
    Ok(())
}

/// Nothing happens to nodes while the execution is unowned, and nothing new once it ends.
fn expect_possible(state: &State, event: &NodeEvent) -> Step {
    let possible = match event {
        NodeEvent::Checkpointed { .. }
        | NodeEvent::Completed { .. }
        | NodeEvent::Failed { .. }
        | NodeEvent::Cancelled { .. } => state.is_awake() || state.status == Status::Ending,
        NodeEvent::Scheduled { .. }
        | NodeEvent::Started { .. }
        | NodeEvent::Waiting { .. }
        | NodeEvent::Resumed { .. }
        | NodeEvent::Skipped { .. } => state.is_awake(),
    };
    if possible { Ok(()) } else { Err(format!("the execution is {}", state.status)) }
}

fn expect_turn(state: &State) -> Step {
    if state.acts() { Ok(()) } else { refuse("nothing may start") }
}

fn expect_status(plan: &Plan, state: &State, at: NodeIx, allowed: &[NodeStatus]) -> Step {
    let status = state.node(at).status;
    if allowed.contains(&status) {
        return Ok(());
    }
    Err(format!("node {:?} is {status}", plan.node(at).id))
}

fn expect_attempt(plan: &Plan, state: &State, at: NodeIx, attempt: u32) -> Step {
    let current = state.node(at).attempt;
    if attempt == current {
        return Ok(());
    }
    Err(format!("node {:?} is at attempt {current}", plan.node(at).id))
}

fn waits_for_retry(state: &State, at: NodeIx) -> bool {
    matches!(state.node(at).wait, Some(Wait::Retry { .. }))
}

fn scheduled(
    plan: &Plan,
    state: &mut State,
    at: NodeIx,
    (attempt, deadline): (u32, Option<Timestamp>),
    now: Timestamp,
) -> Step {
    let node = state.node(at);
    if node.status == NodeStatus::Waiting && !waits_for_retry(state, at) {
        return refuse("it does not wait for a retry");
    }
    if attempt != node.attempt + 1 {
        return Err(format!("attempt {attempt} does not follow {}", node.attempt));
    }
    move_to(state, at, NodeStatus::Queued);
    if matches!(state.status, Status::Scheduled | Status::Resuming) {
        state.status = Status::Running;
        state.paused = None;
    }
    let seq = state.seq + 1;
    let first = state.node(at).scheduled.is_none();
    let scheduled = first.then(|| Scheduled {
        at: now,
        seq,
        variables: Arc::clone(&state.variables),
        unsettled: unsettled_mentions(plan, state, at),
    });
    let node = state.node_mut(at);
    node.attempt = attempt;
    node.marks = 0;
    if let Some(scheduled) = scheduled {
        node.scheduled = Some(scheduled);
        // Logs of older builds do not have the time.
        let counted = || plan.node(at).deadline.map(|span| now.plus(span));
        if let Some(due) = deadline.or_else(counted) {
            node.deadline = Some(due);
            state.timers.insert((due, Timer::Node(at)));
        }
    }
    Ok(())
}

fn unsettled_mentions(plan: &Plan, state: &State, at: NodeIx) -> Vec<(NodeIx, NodeStatus)> {
    let mentions = plan.node(at).mentions.iter();
    let statuses = mentions.map(|mentioned| (*mentioned, state.node(*mentioned).status));
    statuses.filter(|(_, status)| !status.is_settled()).collect()
}

fn started(
    plan: &Plan,
    state: &mut State,
    at: NodeIx,
    (token, remote, due): (Option<Token>, Option<WorkerId>, Option<Timestamp>),
    now: Timestamp,
) {
    move_to(state, at, NodeStatus::Running);
    // Only a worker can be silent: a node that the engine evaluates has no token and takes no time.
    // Logs of older builds do not have the time.
    let counted = || plan.node(at).timeout.map(|span| now.plus(span).plus(SILENCE));
    let due = token.and_then(|_| due.or_else(counted));
    let epoch = state.epoch;
    let node = state.node_mut(at);
    node.token = token;
    node.remote = remote;
    node.started_at = Some(now);
    node.started_epoch = epoch;
    node.attempt_due = due;
    if let Some(due) = due {
        state.timers.insert((due, Timer::Attempt(at)));
    }
}

/// Comes after its node has settled and so let go of its own view of the variables: a chain of
/// nodes that set some then changes them in place instead of copying them all each time.
fn set_variables(state: &mut State, variables: &BTreeMap<Arc<str>, Json>) {
    if !variables.is_empty() {
        let all = Arc::make_mut(&mut state.variables);
        all.extend(variables.iter().map(|(name, value)| (Arc::clone(name), value.clone())));
    }
}

fn waiting(state: &mut State, at: NodeIx, wait: &Wait) -> Step {
    if matches!(wait, Wait::Retry { .. }) {
        return refuse("a retry is opened by NodeFailed");
    }
    move_to(state, at, NodeStatus::Waiting);
    if let Some(due) = wait.due() {
        state.timers.insert((due, Timer::Wait(at)));
    }
    let seq = state.seq + 1;
    let node = state.node_mut(at);
    node.wait = Some(wait.clone());
    node.wait_seq = seq;
    Ok(())
}

/// Ends a wait, by the message of a signal, that of a person, or time. A retry is due now, and ends
/// with the NodeScheduled that follows; only a person has it come sooner.
fn resumed(
    state: &mut State,
    at: NodeIx,
    (signal, person): (Option<&MessageId>, Option<&MessageId>),
    now: Timestamp,
) -> Step {
    if !waits_for_retry(state, at) {
        move_to(state, at, NodeStatus::Running);
    } else if person.is_some() {
        move_to(state, at, NodeStatus::Waiting);
        wait_for_retry(state, at, now);
    } else {
        return refuse("a retry ends with NodeScheduled");
    }
    if let Some(signal) = signal {
        state.early.retain(|early| early.message != *signal);
    }
    if let Some(person) = person {
        state.messages.remember(person);
    }
    Ok(())
}

fn wait_for_retry(state: &mut State, at: NodeIx, due: Timestamp) {
    let seq = state.seq + 1;
    let node = state.node_mut(at);
    node.wait = Some(Wait::Retry { due });
    node.wait_seq = seq;
    state.timers.insert((due, Timer::Wait(at)));
}

/// What a node may fail from: an attempt that waits (for a signal) fails only by time, one that was
/// never started only for good.
fn failure_sources(end: FailureEnd) -> &'static [NodeStatus] {
    use NodeStatus::{Queued, Running, Waiting};
    match end {
        FailureEnd::RetryAt(_) => &[Running, Waiting],
        FailureEnd::Abandoned(_) => &[Running],
        FailureEnd::Final => &[Queued, Running],
        FailureEnd::TimedOut => &[Queued, Running, Waiting],
    }
}

fn failed(
    plan: &Plan,
    state: &mut State,
    at: NodeIx,
    (failure, end): (&Failure, FailureEnd),
    now: Timestamp,
) -> Step {
    let due = match end {
        FailureEnd::RetryAt(due) | FailureEnd::Abandoned(due) => Some(due),
        FailureEnd::Final | FailureEnd::TimedOut => None,
    };
    if due.is_some() && waits_for_retry(state, at) {
        return refuse("it waits for its next attempt already");
    }
    remember_end(state, at, || Said::failed(failure));
    state.node_mut(at).failure = Some(Box::new(failure.clone()));
    let Some(due) = due else {
        failed_for_good(plan, state, at, end, now);
        return Ok(());
    };
    move_to(state, at, NodeStatus::Waiting);
    let node = state.node_mut(at);
    match end {
        FailureEnd::Abandoned(_)
            if failure.is_handed_over() && !is_planted(Bug::HandedOverCounts) => {}
        FailureEnd::Abandoned(_) if !is_planted(Bug::AbandonedCounts) => node.abandoned += 1,
        _ => node.tries += 1,
    }
    wait_for_retry(state, at, due);
    Ok(())
}

fn failed_for_good(plan: &Plan, state: &mut State, at: NodeIx, end: FailureEnd, now: Timestamp) {
    let failure = state.node(at).failure.as_deref();
    let unhandled = *plan.node(at).error_handling(failure) == OnError::Fail;
    if unhandled && plan.failure_policy == FailurePolicy::Partial {
        state.unhandled.push(at);
    }
    let status = match end {
        FailureEnd::TimedOut => NodeStatus::TimedOut,
        _ => NodeStatus::Failed,
    };
    settle(plan, state, at, status, now);
}

/// Remembers the end of a remote attempt: its worker may repeat its report, also after the
/// execution's end. An attempt in a slot reports once.
fn remember_end(state: &mut State, at: NodeIx, said: impl FnOnce() -> Said) {
    let node = state.node_mut(at);
    if let (Some(_), Some(token)) = (node.remote, node.token) {
        if node.ended.len() == ENDS_REMEMBERED_MAX {
            node.ended.pop_front();
        }
        node.ended.push_back(Ended { attempt: node.attempt, token, said: said() });
    }
}

/// Changes a node's status, keeping the counters and dropping what belonged to the old one.
fn move_to(state: &mut State, at: NodeIx, to: NodeStatus) {
    let (old_wait, old_attempt_due) = {
        let node = state.node_mut(at);
        node.token = None;
        node.remote = None;
        node.wait_seq = 0;
        (node.wait.take(), node.attempt_due.take())
    };
    if let Some(due) = old_wait.and_then(|wait| wait.due()) {
        state.timers.remove(&(due, Timer::Wait(at)));
    }
    if let Some(due) = old_attempt_due {
        state.timers.remove(&(due, Timer::Attempt(at)));
    }
    let from = std::mem::replace(&mut state.node_mut(at).status, to);
    for (status, step) in [(from, -1), (to, 1)] {
        match status {
            NodeStatus::Queued => state.queued = state.queued.saturating_add_signed(step),
            NodeStatus::Running => state.running = state.running.saturating_add_signed(step),
            _ => {}
        }
    }
}

/// Settles a node, once, and with it the conditions of those that need it.
fn settle(plan: &Plan, state: &mut State, at: NodeIx, status: NodeStatus, now: Timestamp) {
    move_to(state, at, status);
    state.unsettled -= 1;
    let seq = state.seq + 1;
    let node = state.node_mut(at);
    node.settled_seq = seq;
    node.settled_at = Some(now);
    if let Some(scheduled) = &mut node.scheduled {
        scheduled.variables = Arc::default();
    }
    if let Some(due) = node.deadline.take() {
        state.timers.remove(&(due, Timer::Node(at)));
    }
    let source = plan.node(at);
    for outgoing in &source.successors {
        let successor = plan.node(outgoing.node);
        let Some(condition) = successor.needs.get(outgoing.condition as usize) else { continue };
        let edge = edge_end(source, state.node(at), condition);
        count(state.node_mut(outgoing.node), edge);
    }
}
