//! The machine of executions: owners, pauses, ends, and what a retry reopens.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::edges::{count, edge_end};
use super::{GRACE, Step, refuse};
use crate::event::{CancelReason, EndCause, MessageId, PauseReason, RunEvent};
use crate::id::InstanceId;
use crate::plan::{ConcurrencyPolicy, Plan};
use crate::planted::{Bug, is_planted};
use crate::state::{EarlySignal, End, Place, Quarantine, State, Timer};
use crate::status::{NodeStatus, Status};
use crate::time::Timestamp;

/// Every status in which an execution is neither ending nor over.
const OPEN: &[Status] = &[
    Status::Requested,
    Status::Scheduling,
    Status::Scheduled,
    Status::Running,
    Status::Waiting,
    Status::Paused,
    Status::Quarantined,
    Status::Resuming,
];

/// Those in which a pause or a quarantine stops it: all but the queue for a concurrency permit.
const BEGUN: &[Status] = &[
    Status::Requested,
    Status::Scheduled,
    Status::Running,
    Status::Waiting,
    Status::Paused,
    Status::Quarantined,
    Status::Resuming,
];

pub(super) fn apply(plan: &Plan, state: &mut State, event: &RunEvent, at: Timestamp) -> Step {
    match event {
        RunEvent::Owned { instance, epoch } => owned(state, *instance, *epoch),
        RunEvent::Queued { key, limit, policy } => queued(state, key, *limit, *policy),
        RunEvent::Admitted {} => admitted(state),
        RunEvent::PauseRequested { origin, reason, .. } => {
            pause_requested(state)?;
            state.pause_reason.clone_from(reason);
            remember(state, origin.message.as_ref())
        }
        RunEvent::Paused { reason } => paused(state, *reason),
        RunEvent::Resumed { origin, .. } => {
            resumed(state)?;
            remember(state, origin.message.as_ref())
        }
        RunEvent::Quarantined { reason } => quarantined(state, reason, at),
        RunEvent::Ending { cause, grace } => ending(state, cause, *grace, at),
        RunEvent::Completed { output } => {
            expect_not_held(state)?;
            expect_status(state, &[Status::Running, Status::Scheduled, Status::Resuming])?;
            end(state, Status::Completed, End { at, output: Some(output.clone()), failure: None })
        }
        RunEvent::Failed { failure, output, .. } => {
            match state.status {
                Status::Ending => expect_cause(state, |cause| {
                    matches!(cause, EndCause::Failure { .. } | EndCause::NotQueued { .. })
                })?,
                _ => expect_not_held(state)?,
            }
            expect_status(state, &[Status::Ending, Status::Running, Status::Resuming])?;
            let (output, failure) = (output.clone(), Some(failure.clone()));
            end(state, Status::Failed, End { at, output, failure })
        }
        RunEvent::Cancelled { .. } => {
            expect_status(state, &[Status::Ending])?;
            expect_cause(state, |cause| matches!(cause, EndCause::Cancel { .. }))?;
            end(state, Status::Cancelled, End { at, output: None, failure: None })
        }
        RunEvent::TimedOut {} => {
            expect_status(state, &[Status::Ending])?;
            expect_cause(state, |cause| matches!(cause, EndCause::Deadline))?;
            end(state, Status::TimedOut, End { at, output: None, failure: None })
        }
        RunEvent::Reopened { generation, nodes, deadline, origin, .. } => {
            reopened(plan, state, *generation, nodes, (*deadline, at))?;
            remember(state, origin.message.as_ref())
        }
        RunEvent::SignalReceived { name, body, origin } => {
            expect_status(state, OPEN)?;
            let message = origin.message.clone().ok_or("a signal has a message id")?;
            let (name, body) = (Arc::clone(name), body.clone());
            state.early.push_back(EarlySignal { message, name, body });
            remember(state, origin.message.as_ref())
        }
        RunEvent::MessageIgnored { message, .. } => {
            expect_open_or_ending(state)?;
            remember(state, Some(message))
        }
        RunEvent::Created(_) => refuse("an execution is created once"),
    }
}

fn owned(state: &mut State, instance: InstanceId, epoch: u32) -> Step {
    expect_open_or_ending(state)?;
    if epoch != state.epoch + 1 {
        return Err(format!("epoch {epoch} does not follow {}", state.epoch));
    }
    state.epoch = epoch;
    state.owner = Some(instance);
    match state.status {
        Status::Requested => state.status = Status::Scheduled,
        parked if parked.is_parked() => state.status = Status::Resuming,
        Status::Ending if is_planted(Bug::CancelForgotten) => {
            state.status = Status::Running;
            state.cause = None;
        }
        _ => {}
    }
    Ok(())
}

/// It goes to the end of the line, or, where it stood in it before, back to its place.
fn queued(state: &mut State, key: &Arc<str>, limit: u32, policy: ConcurrencyPolicy) -> Step {
    let place = Place { key: Arc::clone(key), limit, policy, admitted: false };
    match (state.status, &state.place) {
        (Status::Scheduled, None) if state.queued == 0 && state.running == 0 => {}
        (Status::Scheduling, Some(before)) if *before == place && state.owner.is_some() => {}
        (Status::Scheduling, _) => return refuse("it stands in another place"),
        _ => return Err(format!("the execution is {}, or has begun", state.status)),
    }
    state.place = Some(place);
    state.status = Status::Scheduling;
    state.owner = None;
    Ok(())
}

fn admitted(state: &mut State) -> Step {
    expect_status(state, &[Status::Scheduling])?;
    if state.owner.is_none() {
        return refuse("it has no owner");
    }
    let place = state.place.as_mut().ok_or("it stands in no line")?;
    place.admitted = true;
    state.status = Status::Scheduled;
    Ok(())
}

fn pause_requested(state: &mut State) -> Step {
    expect_status(state, BEGUN)?;
    if !state.moves() {
        return refuse("it is paused already");
    }
    if state.status == Status::Waiting {
        // It was parked: there is nothing to await.
        state.status = Status::Paused;
        state.paused = Some(PauseReason::User);
    } else {
        state.pausing = true;
    }
    Ok(())
}

fn paused(state: &mut State, reason: PauseReason) -> Step {
    match reason {
        PauseReason::Waits => expect_status(state, &[Status::Running])?,
        PauseReason::User if state.status.is_parked() => {
            return Err(format!("it is {}", state.status));
        }
        PauseReason::User => expect_status(state, BEGUN)?,
    }
    if state.moves() != (reason == PauseReason::Waits) {
        return refuse("its reason is not why it stands still");
    }
    expect_nothing_runs(state)?;
    state.status = match reason {
        PauseReason::Waits => Status::Waiting,
        PauseReason::User if state.quarantine.is_some() => Status::Quarantined,
        PauseReason::User => Status::Paused,
    };
    state.paused = Some(reason);
    state.pausing = false;
    state.owner = None;
    Ok(())
}

fn resumed(state: &mut State) -> Step {
    expect_status(
        state,
        &[Status::Waiting, Status::Paused, Status::Quarantined, Status::Resuming, Status::Running],
    )?;
    let by_itself = state.moves();
    if by_itself && state.status != Status::Resuming {
        return refuse("it is not paused");
    }
    if !by_itself {
        // A person looked: losses are counted anew.
        state.nodes.iter_mut().for_each(|node| node.abandoned = 0);
    }
    state.paused = None;
    state.pausing = false;
    state.pause_reason = None;
    state.quarantine = None;
    state.status = Status::Running;
    Ok(())
}

fn quarantined(state: &mut State, reason: &str, at: Timestamp) -> Step {
    expect_status(state, &[Status::Running])?;
    expect_nothing_runs(state)?;
    state.status = Status::Quarantined;
    state.quarantine = Some(Quarantine { reason: reason.to_owned(), since: at });
    state.pausing = false;
    state.owner = None;
    Ok(())
}

fn ending(state: &mut State, cause: &EndCause, grace: Option<Timestamp>, at: Timestamp) -> Step {
    expect_status(state, OPEN)?;
    state.status = Status::Ending;
    state.paused = None;
    state.pausing = false;
    state.quarantine = None;
    state.timers.retain(|(_, timer)| *timer != Timer::Deadline);
    state.timers.insert((grace.unwrap_or_else(|| at.plus(GRACE)), Timer::Grace));
    state.cause = Some(cause.clone());
    let seq = state.seq + 1;
    for node in &mut state.nodes {
        if node.status == NodeStatus::Pending {
            node.status = NodeStatus::Cancelled;
            node.settled_seq = seq;
            node.settled_at = Some(at);
            node.cancelled = Some(CancelReason::Ending);
            state.unsettled -= 1;
        }
    }
    match cause {
        EndCause::Cancel { origin, .. } => remember(state, origin.message.as_ref()),
        EndCause::Failure { .. } | EndCause::NotQueued { .. } | EndCause::Deadline => Ok(()),
    }
}

fn end(state: &mut State, status: Status, end: End) -> Step {
    if state.unsettled > 0 {
        return Err(format!("{} nodes are not settled", state.unsettled));
    }
    state.status = status;
    state.paused = None;
    state.pausing = false;
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
    expect_status(state, &[Status::Failed, Status::Cancelled, Status::TimedOut])?;
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
        state.node_mut(*at).reset(conditions);
        state.unsettled += 1;
    }
    for at in &again {
        for condition in &plan.node(*at).needs {
            let source = state.node(condition.source);
            if source.status.is_settled() {
                let edge = edge_end(plan.node(condition.source), source, condition);
                count(state.node_mut(*at), edge);
            }
        }
    }
    // Logs of older builds do not have the time.
    let first = state.created.deadline.map(|first| first.since(state.created_at));
    if let Some(due) = deadline.or_else(|| first.map(|span| now.plus(span))) {
        state.timers.insert((due, Timer::Deadline));
    }
    state.generation = generation;
    state.status = Status::Scheduled;
    state.pause_reason = None;
    state.cause = None;
    state.end = None;
    state.place = None;
    state.unhandled.clear();
    Ok(())
}

fn expect_status(state: &State, allowed: &[Status]) -> Step {
    if allowed.contains(&state.status) {
        return Ok(());
    }
    Err(format!("the execution is {}", state.status))
}

fn expect_open_or_ending(state: &State) -> Step {
    match state.status {
        Status::Ending => Ok(()),
        _ => expect_status(state, OPEN),
    }
}

/// What a user holds, or a person must look at, does not end by itself; a pause that is not
/// complete yet may find that everything is done.
fn expect_not_held(state: &State) -> Step {
    if state.moves() || state.pausing {
        return Ok(());
    }
    refuse("it is paused")
}

fn expect_cause(state: &State, fits: impl Fn(&EndCause) -> bool) -> Step {
    if state.cause.as_ref().is_some_and(fits) {
        return Ok(());
    }
    refuse("its cause fixes another end")
}

fn expect_nothing_runs(state: &State) -> Step {
    if state.running > 0 {
        return refuse("attempts are running");
    }
    Ok(())
}

/// Notes that a message was consumed; the last thing that its event does.
#[expect(clippy::unnecessary_wraps, reason = "a step that cannot be refused is a step")]
fn remember(state: &mut State, message: Option<&MessageId>) -> Step {
    if let Some(message) = message {
        state.messages.remember(message);
    }
    Ok(())
}
