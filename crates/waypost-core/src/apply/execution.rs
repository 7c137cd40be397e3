//! The machine of executions: owners, pauses, ends, and what a retry reopens.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::body::close_settled;
use super::edges::{count, edge_end};
use super::waits::take_signal;
use super::{GRACE, Step, budget, refuse};
use crate::event::{CancelReason, EndCause, MessageId, PauseReason, RunEvent, Wait};
use crate::id::InstanceId;
use crate::json::Json;
use crate::plan::{ConcurrencyPolicy, Plan};
use crate::planted::{Bug, is_planted};
use crate::state::{EarlySignal, End, NodeState, Place, Quarantine, State, Timer};
use crate::status::NodeStatus;
use crate::time::Timestamp;
use crate::transitions::RunPhase;

pub(super) fn apply(plan: &Plan, state: &mut State, event: &RunEvent, at: Timestamp) -> Step {
    let phase = state.phase();
    let next = event.row().from(phase);
    let mut next = next.ok_or_else(|| format!("the execution is {}", phase.name()))?;
    match event {
        RunEvent::Created(_) => {}
        RunEvent::Owned { instance, epoch } => {
            owned(state, *instance, *epoch)?;
            if phase == RunPhase::Ending && is_planted(Bug::CancelForgotten) {
                (next, state.cause) = (RunPhase::Running, None);
            }
            forget_timers(state);
        }
        RunEvent::Queued { key, limit, policy } => queued(state, key, *limit, *policy)?,
        RunEvent::Admitted {} => admitted(state)?,
        RunEvent::PauseRequested { origin, reason, .. } => {
            state.pause_reason.clone_from(reason);
            if next == RunPhase::Paused {
                // It was parked: there is nothing to await.
                state.paused = Some(PauseReason::User);
            }
            remember(state, origin.message.as_ref());
        }
        RunEvent::BudgetExhausted { node, reason } => budget::exhausted(state, node, reason),
        RunEvent::BudgetSet { limits, origin, .. } => {
            budget::set(plan, state, *limits)?;
            remember(state, origin.message.as_ref());
        }
        RunEvent::Paused { reason } => paused(state, *reason)?,
        RunEvent::Resumed { origin, .. } => {
            resumed(state);
            remember(state, origin.message.as_ref());
        }
        RunEvent::Quarantined { reason } => {
            expect_nothing_runs(state)?;
            state.quarantine = Some(Quarantine { reason: reason.clone(), since: at });
            state.owner = None;
        }
        RunEvent::Ending { cause, grace } => ending(plan, state, (cause, *grace), at),
        RunEvent::Completed { output } => {
            end(state, End { at, output: Some(output.clone()), failure: None })?;
        }
        RunEvent::Failed { failure, output, .. } => {
            if phase == RunPhase::Ending {
                expect_cause(state, |cause| {
                    matches!(cause, EndCause::Failure { .. } | EndCause::NotQueued { .. })
                })?;
            }
            end(state, End { at, output: output.clone(), failure: Some(failure.clone()) })?;
        }
        RunEvent::Cancelled { .. } => {
            expect_cause(state, |cause| matches!(cause, EndCause::Cancel { .. }))?;
            end(state, End { at, output: None, failure: None })?;
        }
        RunEvent::TimedOut {} => {
            expect_cause(state, |cause| matches!(cause, EndCause::Deadline))?;
            end(state, End { at, output: None, failure: None })?;
        }
        RunEvent::Reopened { generation, nodes, deadline, origin, .. } => {
            reopened(plan, state, *generation, nodes, (*deadline, at))?;
            remember(state, origin.message.as_ref());
        }
        RunEvent::SignalReceived { name, body, origin } => {
            let message = origin.message.as_ref().ok_or("a signal has a message id")?;
            signalled(state, message, name, body);
        }
        RunEvent::SignalDelivered { message } => take_signal(state, message, false),
        RunEvent::MessageIgnored { message, repeatable, .. } => ignore(state, message, *repeatable),
    }
    state.enter(next);
    Ok(())
}

fn owned(state: &mut State, instance: InstanceId, epoch: u32) -> Step {
    if epoch != state.epoch + 1 {
        return Err(format!("epoch {epoch} does not follow {}", state.epoch));
    }
    state.epoch = epoch;
    state.owner = Some(instance);
    Ok(())
}

/// It goes to the end of the queue, or, where it was queued before, back to its place.
fn queued(state: &mut State, key: &Arc<str>, limit: u32, policy: ConcurrencyPolicy) -> Step {
    let place = Place { key: Arc::clone(key), limit, policy, admitted: false };
    match &state.place {
        Some(before) if *before == place && state.owner.is_some() => {}
        Some(_) => return refuse("it has another place in the queue"),
        None if state.queued == 0 && state.running == 0 => {}
        None => return refuse("it has begun"),
    }
    state.place = Some(place);
    state.owner = None;
    Ok(())
}

fn admitted(state: &mut State) -> Step {
    if state.owner.is_none() {
        return refuse("it has no owner");
    }
    state.place.as_mut().ok_or("it is in no queue")?.admitted = true;
    Ok(())
}

fn paused(state: &mut State, reason: PauseReason) -> Step {
    expect_nothing_runs(state)?;
    match reason {
        PauseReason::Children if state.owner.is_none() || state.children_open == 0 => {
            return refuse("it is unowned, or waits for no execution");
        }
        PauseReason::Children => {}
        PauseReason::Waits | PauseReason::User => state.paused = Some(reason),
    }
    state.owner = None;
    Ok(())
}

fn resumed(state: &mut State) {
    if !state.moves() {
        // A person looked: losses are counted anew.
        let nodes = state.scopes_mut().flat_map(|scope| &mut scope.nodes);
        nodes.filter_map(NodeState::known_details_mut).for_each(|details| details.abandoned = 0);
    }
    state.paused = None;
    state.pause_reason = None;
    state.spending.exhausted = None;
    state.quarantine = None;
}

fn ending(
    plan: &Plan,
    state: &mut State,
    (cause, grace): (&EndCause, Option<Timestamp>),
    at: Timestamp,
) {
    state.paused = None;
    state.quarantine = None;
    state.timers.retain(|(_, timer)| *timer != Timer::Deadline);
    state.timers.insert((grace.unwrap_or_else(|| at.plus(GRACE)), Timer::Grace));
    state.cause = Some(cause.clone());
    let seq = state.seq + 1;
    state.scopes_mut().for_each(|scope| scope.cancel_pending(seq, at, CancelReason::Ending));
    close_settled(plan, state);
    if let EndCause::Cancel { origin, .. } = cause {
        remember(state, origin.message.as_ref());
    }
}

fn end(state: &mut State, end: End) -> Step {
    if state.root.unsettled > 0 {
        return Err(format!("{} nodes are not settled", state.root.unsettled));
    }
    state.paused = None;
    state.timers.clear();
    state.end = Some(end);
    state.owner = None;
    Ok(())
}

/// Makes the named nodes PENDING again and counts their conditions anew. The new generation has as
/// long as the first one had.
fn reopened(
    plan: &Plan,
    state: &mut State,
    generation: u32,
    nodes: &[Arc<str>],
    (deadline, now): (Option<Timestamp>, Timestamp),
) -> Step {
    if generation != state.generation + 1 {
        return Err(format!("generation {generation} does not follow the last"));
    }
    let mut again = BTreeSet::new();
    for path in nodes {
        let at = plan.find(path).ok_or_else(|| format!("no node {path:?}"))?;
        if state.node(at).status == NodeStatus::Completed || !again.insert(at) {
            return Err(format!("node {path:?} cannot run again"));
        }
    }
    for at in &again {
        let conditions = plan.node(*at).needs.len();
        state.node_mut((*at).into()).reset(conditions);
        state.root.unsettled += 1;
    }
    for at in &again {
        for condition in &plan.node(*at).needs {
            let source = state.node(condition.source);
            if source.status.is_settled() {
                let edge = edge_end(plan.node(condition.source), source, condition);
                count(state.node_mut((*at).into()), edge);
            }
        }
    }
    // Logs of older builds do not have the time.
    let first = state.created.deadline.map(|first| first.since(state.created_at));
    if let Some(due) = deadline.or_else(|| first.map(|span| now.plus(span))) {
        state.timers.insert((due, Timer::Deadline));
    }
    state.generation = generation;
    state.pause_reason = None;
    state.spending.exhausted = None;
    state.cause = None;
    state.end = None;
    state.place = None;
    state.root.unhandled.clear();
    Ok(())
}

fn expect_cause(state: &State, fits: impl Fn(&EndCause) -> bool) -> Step {
    let fits = state.cause.as_ref().is_some_and(fits);
    if fits { Ok(()) } else { refuse("its cause fixes another end") }
}

fn expect_nothing_runs(state: &State) -> Step {
    if state.running == 0 { Ok(()) } else { refuse("attempts are running") }
}

/// Keeps a signal until a node waits for it.
fn signalled(state: &mut State, message: &MessageId, name: &Arc<str>, body: &Json) {
    let (name, body) = (Arc::clone(name), body.clone());
    let early = EarlySignal { message: Arc::clone(message), name, body, spread_since: 0 };
    state.early.push_back(early);
    remember(state, Some(message));
}

/// A message changed nothing. One that may come again is not remembered.
fn ignore(state: &mut State, message: &MessageId, repeatable: bool) {
    if !repeatable {
        remember(state, Some(message));
    }
}

/// Notes that a message was consumed; the last thing that its event does.
fn remember(state: &mut State, message: Option<&MessageId>) {
    if let Some(message) = message {
        state.messages.remember(message);
    }
}

/// What a take-over forgets, where a planted bug has it so.
fn forget_timers(state: &mut State) {
    if is_planted(Bug::ReminderForgotten) {
        state.timers.retain(|(_, timer)| !matches!(timer, Timer::Reminder(_)));
    }
    let forgets = |wait: Option<&Wait>| match wait {
        Some(Wait::Approval(_)) => is_planted(Bug::ExpiryForgotten),
        Some(Wait::Breaker(_)) => is_planted(Bug::BreakerNeverAsked),
        Some(Wait::Callback { .. }) => is_planted(Bug::OperationNeverExpires),
        Some(_) | None => false,
    };
    let is_wait = |timer: &Timer| {
        if let Timer::Wait(at) = timer { forgets(state.node(*at).wait.as_ref()) } else { false }
    };
    let forgotten = state.timers.iter().filter(|(_, timer)| is_wait(timer)).copied();
    for timer in forgotten.collect::<Vec<_>>() {
        state.timers.remove(&timer);
    }
}
