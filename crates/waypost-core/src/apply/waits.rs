//! Waits of nodes: how they open, what comes for them, and how they end.

use std::sync::Arc;

use super::node::move_to;
use super::{Step, budget, refuse};
use crate::callback::{CallbackOutcome, operation_of};
use crate::event::{MessageId, NodeEvent, Wait};
use crate::kind::Behaviour;
use crate::path::At;
use crate::plan::Plan;
use crate::state::{Arrived, State, Timer};
use crate::status::NodeStatus;
use crate::time::Timestamp;
use crate::transitions::NodePhase;

pub(super) fn waiting(state: &mut State, at: At, wait: &Wait) -> Step {
    if matches!(wait, Wait::Retry { .. }) {
        return refuse("a retry is opened by NodeFailed");
    }
    if *wait == Wait::Body {
        return refuse("a body is opened by BodyOpened");
    }
    if matches!(wait, Wait::Child { .. }) {
        return refuse("a child is awaited from its ChildStarted on");
    }
    if matches!(wait, Wait::Breaker(_)) && state.node(at).token.is_none() {
        return refuse("only an attempt of a worker waits for a circuit breaker");
    }
    move_to(state, at, NodeStatus::Waiting);
    open_wait(state, at, wait.clone());
    if let Wait::Signals { names, .. } = wait {
        // A later attempt waits only for what has not come.
        let details = state.node_mut(at).details_mut();
        let mut before = std::mem::take(&mut details.arrived).into_iter();
        let kept = names.iter().map(|name| before.next()?.filter(|arrived| arrived.name == *name));
        details.arrived = kept.collect();
    }
    Ok(())
}

/// Keeps a signal with the node that waits for it and others.
pub(super) fn signalled(
    state: &mut State,
    at: At,
    which: u32,
    (message, more): (&MessageId, bool),
) -> Step {
    let kept = state.early.iter().find(|early| early.message == *message);
    let kept = kept.ok_or_else(|| format!("no signal with message {message:?} is kept"))?;
    let arrived = Arrived { name: Arc::clone(&kept.name), body: kept.body.clone() };
    let details = state.node_mut(at).details_mut();
    match details.arrived.get_mut(which as usize) {
        Some(place @ None) => *place = Some(arrived),
        Some(Some(_)) => return Err(format!("signal {which} has come before")),
        None => return Err(format!("it does not wait for a signal {which}")),
    }
    take_signal(state, message, more);
    Ok(())
}

/// People were reminded of an approval.
pub(super) fn reminded(state: &mut State, at: At, escalated: bool) -> Step {
    let details = state.node_mut(at).details_mut();
    let Some(Wait::Approval(approval)) = &mut details.wait else {
        return refuse("the node does not wait for an approval");
    };
    let due = if escalated { approval.escalate } else { approval.remind };
    let Some(due) = due else { return refuse("there is nothing to remind of") };
    approval.reminded(escalated);
    // Both may be due at the same time.
    if ![approval.remind, approval.escalate].contains(&Some(due)) {
        state.timers.remove(&(due, Timer::Reminder(at)));
    }
    Ok(())
}

/// What was kept for a node alone, and is of no use to any other after an event that ends its operation or
/// its wait: the callback, or the result of its message.
pub(super) enum Answers {
    None,
    Callback(Arc<str>),
    Result(Arc<str>),
}

impl Answers {
    /// Comes before the event: afterwards the node may be at another operation.
    pub(super) fn of(plan: &Plan, state: &State, at: At, event: &NodeEvent) -> Self {
        let ends = matches!(
            event,
            NodeEvent::Resumed { .. }
                | NodeEvent::Completed { .. }
                | NodeEvent::Failed { .. }
                | NodeEvent::Cancelled { .. }
        );
        if !ends || state.early.is_empty() {
            return Self::None;
        }
        let behaviour = &plan.node(at.node).behaviour;
        if matches!(behaviour, Behaviour::Operation(_)) {
            let of = operation_of(plan, state, at);
            return of.map_or(Self::None, |of| Self::Callback(of.operation));
        }
        match (&state.node(at).wait, behaviour) {
            (Some(Wait::Signal { name, .. }), Behaviour::Notify(_)) => {
                Self::Result(Arc::clone(name))
            }
            _ => Self::None,
        }
    }

    /// One that is marked as on its way to many is ended by its `SignalDelivered`.
    pub(super) fn forget(self, state: &mut State) {
        let is_it = |name: &str| match &self {
            Self::None => false,
            Self::Callback(operation) => CallbackOutcome::of(name, operation).is_some(),
            Self::Result(of) => **of == *name,
        };
        if !matches!(self, Self::None) {
            state.early.retain(|early| early.spread_since > 0 || !is_it(&early.name));
        }
    }
}

/// A node takes a signal that was kept; others may get it, too.
pub(super) fn take_signal(state: &mut State, message: &MessageId, more: bool) {
    let seq = state.seq + 1;
    let taken = state.early.iter_mut().find(|early| early.message == *message);
    match taken {
        Some(signal) if more && signal.spread_since == 0 => signal.spread_since = seq,
        Some(_) if more => {}
        _ => state.early.retain(|early| early.message != *message),
    }
}

pub(super) fn open_wait(state: &mut State, at: At, wait: Wait) {
    if let Some(due) = wait.due() {
        state.timers.insert((due, Timer::Wait(at)));
    }
    state.timers.extend(wait.reminders().map(|due| (due, Timer::Reminder(at))));
    let seq = state.seq + 1;
    let details = state.node_mut(at).details_mut();
    (details.wait, details.wait_seq) = (Some(wait), seq);
}

/// Queues an attempt again that waited for a circuit breaker.
pub(super) fn requeued(plan: &Plan, state: &mut State, at: At, person: Option<&MessageId>) -> Step {
    if !matches!(state.node(at).wait, Some(Wait::Breaker(_))) {
        return refuse("the node does not wait for a circuit breaker");
    }
    move_to(state, at, NodeStatus::Queued);
    budget::scheduled(plan, state, at);
    if let Some(person) = person {
        state.messages.remember(person);
    }
    Ok(())
}

/// Ends a wait, by the message of a person, a signal or time. A retry that a person ends is due now,
/// and ends with the NodeScheduled that follows.
pub(super) fn resumed(
    state: &mut State,
    at: At,
    next: NodePhase,
    (signal, more, person): (Option<&MessageId>, bool, Option<&MessageId>),
    now: Timestamp,
) {
    move_to(state, at, next.shown());
    if next == NodePhase::WaitingRetry {
        open_wait(state, at, Wait::Retry { due: now });
    }
    if let Some(signal) = signal {
        take_signal(state, signal, more);
    }
    if let Some(person) = person {
        state.messages.remember(person);
    }
}
