//! `apply`: one event folded into the state. Evaluates nothing and reads no clock: every outcome is
//! in the event. Refuses arrows that the state machines do not have, so that a damaged log is
//! noticed and not believed.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::event::{CancelReason, EndCause, Event, FailureEnd, PauseReason, Wait};
use crate::frame::Parent;
use crate::id::{ExecutionId, NodeIx};
use crate::plan::{Condition, FailurePolicy, OnError, Plan, PlanNode};
use crate::state::{EarlySignal, End, NodeState, Scheduled, State, Timer};
use crate::status::{NodeStatus, Status};
use crate::time::{Millis, Timestamp};

/// How long attempts that were cancelled are awaited when an execution ends.
pub const GRACE: Millis = Millis::from_secs(10);
/// How long beyond its timeout a silent attempt is awaited.
pub const SILENCE: Millis = Millis::from_secs(5);

/// An event that the state machines have no arrow for.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{event} is not possible at seq {seq}: {why}")]
pub struct Illegal {
    /// The event's type.
    pub event: &'static str,
    /// Where it would have gone.
    pub seq: u64,
    /// Why not.
    pub why: String,
}

/// Folds one event, decided at `at`, into the state.
pub fn apply(plan: &Plan, state: &mut State, event: &Event, at: Timestamp) -> Result<(), Illegal> {
    let step = match event.node() {
        Some(path) => match plan.find(path) {
            Some(node) => apply_node(plan, state, node, event, at),
            None => Err(format!("the definition has no node {path:?}")),
        },
        None => apply_run(plan, state, event, at),
    };
    step.map_err(|why| Illegal { event: event.name(), seq: state.seq + 1, why })?;
    state.seq += 1;
    state.updated_at = at;
    Ok(())
}

/// A log, folded.
#[derive(Debug)]
pub struct Folded {
    /// The state.
    pub state: State,
    /// The last frame.
    pub parent: Parent,
}

/// Starts a fold with the first event of a log.
pub fn begin(
    plan: &Plan,
    execution: ExecutionId,
    first: &Event,
    at: Timestamp,
) -> Result<State, Illegal> {
    let Event::RunCreated(created) = first else {
        let why = "a log begins with RunCreated".to_owned();
        return Err(Illegal { event: first.name(), seq: 1, why });
    };
    let mut state = State::new(plan, execution, Arc::new((**created).clone()), at);
    state.seq = 1;
    Ok(state)
}

type Step = Result<(), String>;

fn expect_status(state: &State, allowed: &[Status]) -> Step {
    if allowed.contains(&state.status) {
        return Ok(());
    }
    Err(format!("the execution is {}", state.status))
}

fn apply_run(plan: &Plan, state: &mut State, event: &Event, at: Timestamp) -> Step {
    use Status::{Ending, Paused, Requested, Resuming, Running, Scheduled, Scheduling};
    match event {
        Event::RunOwned { instance, epoch } => {
            if state.status.is_end() {
                return Err(format!("the execution is {}", state.status));
            }
            if *epoch != state.epoch + 1 {
                return Err(format!("epoch {epoch} does not follow {}", state.epoch));
            }
            state.epoch = *epoch;
            state.owner = Some(*instance);
            match state.status {
                Requested | Scheduling => state.status = Scheduled,
                Paused => state.status = Resuming,
                _ => {}
            }
        }
        Event::RunPauseRequested { origin, .. } => {
            expect_status(state, &[Requested, Scheduling, Scheduled, Running, Paused, Resuming])?;
            if !state.moves() {
                return Err("it is paused already".into());
            }
            if state.status == Paused {
                // It was parked: there is nothing to await.
                state.paused = Some(PauseReason::User);
            } else {
                state.pausing = true;
            }
            remember(state, origin.message.as_ref());
        }
        Event::RunPaused { reason } => {
            match reason {
                PauseReason::Waits => expect_status(state, &[Running])?,
                PauseReason::User => {
                    expect_status(state, &[Requested, Scheduling, Scheduled, Running, Resuming])?
                }
            }
            if state.moves() != (*reason == PauseReason::Waits) {
                return Err("its reason is not why it stands still".into());
            }
            expect_nothing_runs(state)?;
            state.status = Paused;
            state.paused = Some(*reason);
            state.pausing = false;
            state.owner = None;
        }
        Event::RunResumed { origin } => {
            expect_status(state, &[Paused, Resuming, Running])?;
            let parked = state.status == Resuming;
            if state.moves() && !parked {
                return Err("nobody paused it".into());
            }
            // A person looked: losses are counted anew. A park that ends by itself is no such look.
            if !state.moves() {
                state.nodes.iter_mut().for_each(|node| node.abandoned = 0);
            }
            state.paused = None;
            state.pausing = false;
            state.quarantine = None;
            state.status = Running;
            remember(state, origin.message.as_ref());
        }
        Event::RunQuarantined { reason } => {
            expect_status(state, &[Requested, Scheduling, Scheduled, Running, Paused, Resuming])?;
            expect_nothing_runs(state)?;
            if state.quarantine.is_some() {
                return Err("it is in quarantine already".into());
            }
            state.status = Paused;
            state.quarantine = Some(reason.clone());
            state.pausing = false;
            state.owner = None;
        }
        Event::RunEnding { cause } => {
            expect_status(state, &[Requested, Scheduling, Scheduled, Running, Paused, Resuming])?;
            state.status = Ending;
            state.paused = None;
            state.pausing = false;
            state.quarantine = None;
            state.timers.retain(|(_, timer)| *timer != Timer::Deadline);
            state.timers.insert((at.plus(GRACE), Timer::Grace));
            if let EndCause::Cancel { origin, .. } = cause {
                remember(state, origin.message.as_ref());
            }
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
        }
        Event::RunCompleted { output } => {
            expect_not_held(state)?;
            expect_status(state, &[Running, Scheduled, Resuming])?;
            end(state, Status::Completed, at, Some(output), None)?;
        }
        Event::RunFailed { failure, output, .. } => {
            if state.status == Ending {
                expect_cause(matches!(state.cause, Some(EndCause::Failure { .. })))?;
            } else {
                expect_not_held(state)?;
            }
            expect_status(state, &[Ending, Running, Resuming])?;
            end(state, Status::Failed, at, output.as_ref(), Some(failure.clone()))?;
        }
        Event::RunCancelled { .. } => {
            expect_status(state, &[Ending])?;
            expect_cause(matches!(state.cause, Some(EndCause::Cancel { .. })))?;
            end(state, Status::Cancelled, at, None, None)?;
        }
        Event::RunTimedOut {} => {
            expect_status(state, &[Ending])?;
            expect_cause(matches!(state.cause, Some(EndCause::Deadline)))?;
            end(state, Status::TimedOut, at, None, None)?;
        }
        Event::RunReopened { generation, nodes, origin } => {
            expect_status(state, &[Status::Failed, Status::Cancelled, Status::TimedOut])?;
            if *generation != state.generation + 1 {
                return Err(format!("generation {generation} does not follow the last"));
            }
            reopen(plan, state, nodes, at)?;
            state.generation = *generation;
            remember(state, origin.message.as_ref());
        }
        Event::SignalReceived { name, body, origin } => {
            if state.status.is_end() || state.status == Ending {
                return Err(format!("the execution is {}", state.status));
            }
            let message = origin.message.clone().ok_or("a signal has a message id")?;
            remember(state, Some(&message));
            state.early.push_back(EarlySignal {
                message,
                name: Arc::clone(name),
                body: body.clone(),
            });
        }
        Event::MessageIgnored { message, .. } => {
            if state.status.is_end() {
                return Err(format!("the execution is {}", state.status));
            }
            remember(state, Some(message));
        }
        Event::RunCreated(_) => return Err("an execution is created once".into()),
        Event::NodeScheduled { .. }
        | Event::NodeStarted { .. }
        | Event::NodeCheckpointed { .. }
        | Event::NodeCompleted { .. }
        | Event::NodeFailed { .. }
        | Event::NodeWaiting { .. }
        | Event::NodeResumed { .. }
        | Event::NodeSkipped { .. }
        | Event::NodeCancelled { .. } => return Err("it is about a node".into()),
    }
    Ok(())
}

/// What a user holds, or a person must look at, does not end by itself; a pause that is not
/// complete yet may find that everything is done.
fn expect_not_held(state: &State) -> Step {
    if state.moves() || state.pausing {
        return Ok(());
    }
    Err("it is paused".into())
}

fn expect_cause(fits: bool) -> Step {
    if fits { Ok(()) } else { Err("its cause fixes another end".into()) }
}

fn expect_nothing_runs(state: &State) -> Step {
    if state.running > 0 {
        return Err("attempts are running".into());
    }
    Ok(())
}

fn remember(state: &mut State, message: Option<&crate::event::MessageId>) {
    if let Some(message) = message {
        state.messages.remember(message);
    }
}

fn end(
    state: &mut State,
    status: Status,
    at: Timestamp,
    output: Option<&crate::json::Json>,
    failure: Option<crate::failure::Failure>,
) -> Step {
    if state.unsettled > 0 {
        return Err(format!("{} nodes are not settled", state.unsettled));
    }
    state.status = status;
    state.paused = None;
    state.pausing = false;
    state.timers.clear();
    state.end = Some(End { at, output: output.cloned(), failure });
    state.owner = None;
    Ok(())
}

/// Makes the named nodes PENDING again and counts their conditions anew. The new generation has as
/// long as the first one had.
fn reopen(plan: &Plan, state: &mut State, nodes: &[Arc<str>], now: Timestamp) -> Step {
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
    if let Some(deadline) = state.created.deadline {
        let span = deadline.since(state.created_at);
        state.timers.insert((now.plus(span), Timer::Deadline));
    }
    state.status = Status::Scheduled;
    state.cause = None;
    state.end = None;
    state.unhandled.clear();
    Ok(())
}

fn apply_node(plan: &Plan, state: &mut State, at: NodeIx, event: &Event, now: Timestamp) -> Step {
    use NodeStatus::{Cancelled, Completed, Pending, Queued, Running, Skipped, Waiting};
    let node = state.node(at);
    let from = |allowed: &[NodeStatus]| {
        if allowed.contains(&node.status) {
            return Ok(());
        }
        Err(format!("node {:?} is {}", plan.node(at).id, node.status))
    };
    let same_attempt = |attempt: u32| {
        if attempt == node.attempt {
            return Ok(());
        }
        Err(format!("node {:?} is at attempt {}", plan.node(at).id, node.attempt))
    };
    // Nothing happens to nodes while nobody owns the execution, and nothing new once it ends.
    let possible = match event {
        Event::NodeCheckpointed { .. }
        | Event::NodeCompleted { .. }
        | Event::NodeFailed { .. }
        | Event::NodeCancelled { .. } => state.is_awake() || state.status == Status::Ending,
        _ => state.is_awake(),
    };
    if !possible {
        return Err(format!("the execution is {}", state.status));
    }
    match event {
        Event::NodeScheduled { attempt, .. } => {
            from(&[Pending, Waiting])?;
            if node.status == Waiting && !matches!(node.wait, Some(Wait::Retry { .. })) {
                return Err("it does not wait for a retry".into());
            }
            if *attempt != node.attempt + 1 {
                return Err(format!("attempt {attempt} does not follow {}", node.attempt));
            }
            if !state.acts() {
                return Err("nothing may start".into());
            }
            schedule(plan, state, at, *attempt, now);
        }
        Event::NodeStarted { attempt, token, .. } => {
            from(&[Queued])?;
            same_attempt(*attempt)?;
            if !state.acts() {
                return Err("nothing may start".into());
            }
            let task_due = token.and(plan.node(at).timeout).map(|t| now.plus(t).plus(SILENCE));
            move_to(state, at, Running);
            let epoch = state.epoch;
            let node = state.node_mut(at);
            node.token = *token;
            node.started_at = Some(now);
            node.started_epoch = epoch;
            node.attempt_due = task_due;
            if let Some(due) = task_due {
                state.timers.insert((due, Timer::Attempt(at)));
            }
        }
        Event::NodeCheckpointed { attempt, data, .. } => {
            from(&[Running])?;
            same_attempt(*attempt)?;
            state.node_mut(at).checkpoint = Some(data.clone());
        }
        Event::NodeCompleted { attempt, output, branch, variables, .. } => {
            from(&[Running])?;
            same_attempt(*attempt)?;
            let node = state.node_mut(at);
            node.output = output.clone();
            node.branch = branch.clone();
            node.failure = None;
            settle(plan, state, at, Completed, now);
            // After it has settled and so let go of its own view of the variables: a chain of
            // nodes that set some then changes them in place instead of copying them all each time.
            if !variables.is_empty() {
                let all = Arc::make_mut(&mut state.variables);
                all.extend(variables.iter().map(|(k, v)| (Arc::clone(k), v.clone())));
            }
        }
        Event::NodeFailed { attempt, failure, end, .. } => {
            from(failure_sources(*end))?;
            same_attempt(*attempt)?;
            let tried_again = matches!(end, FailureEnd::RetryAt(_) | FailureEnd::Abandoned(_));
            if tried_again && matches!(node.wait, Some(Wait::Retry { .. })) {
                return Err("it waits for its next attempt already".into());
            }
            fail(plan, state, at, failure, *end, now);
        }
        Event::NodeWaiting { attempt, wait, .. } => {
            from(&[Running])?;
            same_attempt(*attempt)?;
            if matches!(wait, Wait::Retry { .. }) {
                return Err("a retry is opened by NodeFailed".into());
            }
            move_to(state, at, Waiting);
            if let Some(due) = wait.due() {
                state.timers.insert((due, Timer::Wait(at)));
            }
            state.node_mut(at).wait = Some(wait.clone());
        }
        Event::NodeResumed { attempt, message, .. } => {
            from(&[Waiting])?;
            same_attempt(*attempt)?;
            if matches!(node.wait, Some(Wait::Retry { .. })) {
                return Err("a retry ends with NodeScheduled".into());
            }
            if let Some(message) = message {
                state.early.retain(|early| early.message != *message);
            }
            move_to(state, at, Running);
        }
        Event::NodeSkipped { .. } => {
            from(&[Pending])?;
            if !state.acts() {
                return Err("it is not its turn".into());
            }
            settle(plan, state, at, Skipped, now);
        }
        Event::NodeCancelled { reason, .. } => {
            from(&[Pending, Queued, Running, Waiting])?;
            state.node_mut(at).cancelled = Some(*reason);
            settle(plan, state, at, Cancelled, now);
        }
        _ => return Err("it is not about a node".into()),
    }
    Ok(())
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

fn schedule(plan: &Plan, state: &mut State, at: NodeIx, attempt: u32, now: Timestamp) {
    move_to(state, at, NodeStatus::Queued);
    if matches!(state.status, Status::Scheduled | Status::Resuming) {
        state.status = Status::Running;
        state.paused = None;
    }
    let seq = state.seq + 1;
    let variables = Arc::clone(&state.variables);
    let node = state.node_mut(at);
    node.attempt = attempt;
    if node.scheduled.is_none() {
        node.scheduled = Some(Scheduled { at: now, seq, variables });
        if let Some(span) = plan.node(at).deadline {
            let due = now.plus(span);
            node.deadline = Some(due);
            state.timers.insert((due, Timer::Node(at)));
        }
    }
}

fn fail(
    plan: &Plan,
    state: &mut State,
    at: NodeIx,
    failure: &crate::failure::Failure,
    end: FailureEnd,
    now: Timestamp,
) {
    state.node_mut(at).failure = Some(Box::new(failure.clone()));
    match end {
        FailureEnd::RetryAt(due) | FailureEnd::Abandoned(due) => {
            move_to(state, at, NodeStatus::Waiting);
            let node = state.node_mut(at);
            match end {
                FailureEnd::Abandoned(_) => node.abandoned += 1,
                _ => node.tries += 1,
            }
            node.wait = Some(Wait::Retry { due });
            state.timers.insert((due, Timer::Wait(at)));
        }
        FailureEnd::Final | FailureEnd::TimedOut => {
            let plan_node = plan.node(at);
            if plan_node.on_error == OnError::Fail && plan.failure_policy == FailurePolicy::Partial
            {
                state.unhandled.push(at);
            }
            let status = match end {
                FailureEnd::TimedOut => NodeStatus::TimedOut,
                _ => NodeStatus::Failed,
            };
            settle(plan, state, at, status, now);
        }
    }
}

/// Changes a node's status, keeping the counters and dropping what belonged to the old one.
fn move_to(state: &mut State, at: NodeIx, to: NodeStatus) {
    let (old_wait, old_attempt_due) = {
        let node = state.node_mut(at);
        node.token = None;
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

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum EdgeEnd {
    Taken,
    Dead,
    Neutral,
}

fn count(node: &mut NodeState, edge: EdgeEnd) {
    // Saturating: a source that a repair runs again settles a second time, and may then meet a
    // node that was not reset because it had completed through another source.
    node.open = node.open.saturating_sub(1);
    match edge {
        EdgeEnd::Taken => node.taken += 1,
        EdgeEnd::Dead => node.dead += 1,
        EdgeEnd::Neutral => {}
    }
}

/// What a settled source means for a condition on it: rule 1 of the graph.
fn edge_end(source: &PlanNode, state: &NodeState, condition: &Condition) -> EdgeEnd {
    let selected = |branch: Option<&Arc<str>>| {
        branch.is_some_and(|branch| condition.branches.contains(branch))
    };
    let taken = match state.status {
        NodeStatus::Completed => condition.unlabelled || selected(state.branch.as_ref()),
        NodeStatus::Failed | NodeStatus::TimedOut => match &source.on_error {
            OnError::Fail => false,
            OnError::Continue => condition.unlabelled,
            OnError::Branch(branch) => selected(Some(branch)),
        },
        NodeStatus::Skipped | NodeStatus::Cancelled => return EdgeEnd::Neutral,
        NodeStatus::Pending | NodeStatus::Queued | NodeStatus::Running | NodeStatus::Waiting => {
            unreachable!("edges end when their source settles")
        }
    };
    if taken { EdgeEnd::Taken } else { EdgeEnd::Dead }
}

/// Was this condition met by its source? Asked when a node's input is put together.
pub(crate) fn is_taken(plan: &Plan, state: &State, condition: &Condition) -> bool {
    let source = state.node(condition.source);
    source.status.is_settled()
        && edge_end(plan.node(condition.source), source, condition) == EdgeEnd::Taken
}
