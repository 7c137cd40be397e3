//! Why an execution makes no progress: what it waits for, since when, until when, and what would
//! unblock it. Computed from the state alone, so that it can never disagree with the engine.

use std::sync::Arc;

use serde::Serialize;

use crate::breaker::BreakerCause;
use crate::event::{ApprovalWait, BreakerWait, EndCause, PauseReason, Wait};
use crate::id::ExecutionId;
use crate::kind::{Behaviour, Container};
use crate::limits::CHILDREN_OPEN_MAX;
use crate::path::At;
use crate::plan::Plan;
use crate::slot::SlotClass;
use crate::state::{MapHold, NodeState, Place, Quarantine, State, Timer};
use crate::status::{NodeStatus, Status};
use crate::time::Timestamp;

/// One reason why an execution is not further than it is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reason {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Arc<str>>,
    /// The reason: a clause without a subject, "waits for signal …".
    pub what: String,
    pub since: Timestamp,
    /// When time alone will change it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    pub unblocked_by: UnblockedBy,
    /// The event that opened the node's wait: its id, for completing the wait by hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<u64>,
}

/// What would unblock an execution.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum UnblockedBy {
    Time,
    Signal(Arc<str>),
    /// A person: approve or reject.
    Decision,
    /// A person: resume or cancel.
    Resume,
    Attempt,
    /// A free slot of this class.
    Slot(SlotClass),
    /// A permit of its concurrency key, when its turn comes.
    Permit,
    /// A worker that serves this handler.
    Worker(Arc<str>),
    Engine,
    Retry,
    /// A person: release the map.
    Release,
    /// A circuit breaker that closes: by time and a probe, or by a reset.
    Breaker(Arc<str>),
    /// An outside system that calls back.
    Callback,
    /// The end of an execution that it started.
    Execution(ExecutionId),
    /// Webhook endpoints that accept a message, or its last attempt.
    Delivery,
    /// A person: a larger budget, and resume.
    Budget,
    Nothing,
}

/// Every reason, the most important first. `before` is how many are before it in the queue of its
/// concurrency key, from the store: the state does not have it.
pub fn why(plan: &Plan, state: &State, before: Option<u64>) -> Vec<Reason> {
    let run = |what: String, unblocked_by: UnblockedBy| Reason {
        node: None,
        what,
        since: state.updated_at,
        until: None,
        unblocked_by,
        wait: None,
    };
    if let Some(end) = &state.end {
        return vec![ended(plan, state, end.at)];
    }
    if let Some(Quarantine { reason, since }) = &state.quarantine {
        let reason = run(format!("is quarantined: {reason}"), UnblockedBy::Resume);
        return vec![Reason { since: *since, ..reason }];
    }
    if state.paused == Some(PauseReason::User) {
        let until = state.next_due();
        if state.spending.exhausted.is_some() {
            let what = format!("is paused{}", because(state));
            return vec![Reason { until, ..run(what, UnblockedBy::Budget) }];
        }
        return vec![Reason {
            until,
            ..run(format!("is paused by a user{}", because(state)), UnblockedBy::Resume)
        }];
    }
    if state.status == Status::Scheduling
        && let Some(place) = &state.place
    {
        let reason = run(in_queue(place, before), UnblockedBy::Permit);
        return vec![Reason { until: state.next_due(), ..reason }];
    }
    let mut reasons = Vec::new();
    if state.pausing {
        let because = because(state);
        let what = format!("is being paused{because} and waits for running attempts to end");
        reasons.push(run(what, UnblockedBy::Attempt));
    }
    if let Some(cause) = &state.cause {
        let what = match cause {
            EndCause::Cancel { .. } => "is being cancelled".to_owned(),
            EndCause::Failure { node, .. } => format!("is ending because node {node} failed"),
            EndCause::NotQueued { .. } => {
                "is ending because its concurrency key cannot be evaluated".to_owned()
            }
            EndCause::Deadline => "is ending because its timeout has passed".to_owned(),
        };
        let grace = state.timers.iter().find(|(_, timer)| *timer == Timer::Grace);
        let until = grace.map(|(due, _)| *due);
        reasons.push(Reason { until, ..run(what, UnblockedBy::Attempt) });
    }
    reasons.extend(state.current().map(|(at, node)| node_reason(plan, state, (at, node))));
    if reasons.is_empty() {
        reasons.push(run("is about to take its next step".to_owned(), UnblockedBy::Engine));
    }
    reasons
}

fn in_queue(place: &Place, before: Option<u64>) -> String {
    let Place { key, limit, .. } = place;
    let what = format!("waits for a permit of concurrency key {key:?} (limit {limit})");
    match before {
        Some(0) => format!("{what}; it is next"),
        Some(1) => format!("{what}; 1 execution is ahead of it"),
        Some(before) => format!("{what}; {before} executions are ahead of it"),
        None => what,
    }
}

fn ended(plan: &Plan, state: &State, at: Timestamp) -> Reason {
    let retry = UnblockedBy::Retry;
    let (what, unblocked_by) = match state.status {
        Status::Completed => ("completed", UnblockedBy::Nothing),
        Status::Cancelled => ("was cancelled", retry),
        Status::TimedOut => ("took longer than its timeout", retry),
        Status::Failed
        | Status::Requested
        | Status::Scheduling
        | Status::Scheduled
        | Status::Running
        | Status::Paused
        | Status::Resuming
        | Status::Ending
        | Status::Waiting
        | Status::Quarantined => ("failed", retry),
    };
    let culprit = match &state.cause {
        Some(EndCause::Failure { node, .. }) => Some(Arc::clone(node)),
        _ => state.root.unhandled.first().map(|at| Arc::clone(&plan.node(*at).id)),
    };
    let failure = state.end.as_ref().and_then(|end| end.failure.as_ref());
    let what = match failure {
        Some(failure) => format!("{what}: {} ({})", failure.message, failure.kind),
        None => what.to_owned(),
    };
    Reason { node: culprit, what, since: at, until: None, unblocked_by, wait: None }
}

/// The user's reason of a pause.
fn because(state: &State) -> String {
    state.pause_reason.as_ref().map_or_else(String::new, |reason| format!(" ({reason})"))
}

/// Who holds a map.
fn held(node: &NodeState) -> Option<&MapHold> {
    node.body.as_ref()?.map.as_ref()?.held.as_ref()
}

/// How far a map is.
fn progress_of(node: &NodeState) -> String {
    let map = node.body.as_ref().and_then(|body| body.map.as_ref());
    map.map_or_else(String::new, |map| {
        let failed =
            if map.failed > 0 { format!(", {} failed", map.failed) } else { String::new() };
        format!("runs its items: {} of {} are done{failed}", map.done, map.count)
    })
}

/// What a node waits for that starts an execution.
fn child_reason(node: &NodeState) -> (String, Option<Timestamp>, UnblockedBy) {
    match (&node.wait, node.status) {
        (Some(Wait::Child { child }), _) => {
            let what = format!("waits for execution {child}, which it started, to end");
            (what, node.deadline, UnblockedBy::Execution(child.clone()))
        }
        (_, NodeStatus::Queued) => {
            let what = format!(
                "waits until fewer than {CHILDREN_OPEN_MAX} executions that this one started are open"
            );
            (what, None, UnblockedBy::Engine)
        }
        _ => ("is about to start an execution".to_owned(), None, UnblockedBy::Engine),
    }
}

/// Which of several signals have not come; and the first of them.
fn open_signals(names: &[Arc<str>], need: u32, node: &NodeState) -> (String, Arc<str>) {
    let open = names.iter().zip(&node.arrived).filter(|(_, came)| came.is_none());
    let open: Vec<&Arc<str>> = open.map(|(name, _)| name).collect();
    let (all, came) = (names.len(), names.len() - open.len());
    let list: Vec<String> = open.iter().map(|name| format!("{name:?}")).collect();
    let list = list.join(", ");
    let what = format!("waits for {need} of {all} signals, {came} came; open: {list}");
    (what, open.first().map_or_else(|| "".into(), |name| Arc::clone(name)))
}

/// An approval that is open.
fn undecided(approval: &ApprovalWait) -> (String, Option<Timestamp>, UnblockedBy) {
    let by = match approval.approvers.is_empty() {
        true => String::new(),
        false => format!(" by {}", approval.approvers.join(" or ")),
    };
    let what = format!("waits for a decision{by}: {:?}", approval.title);
    (what, approval.due, UnblockedBy::Decision)
}

/// An attempt that has no reservation.
fn waits_for_budget(plan: &Plan, state: &State, at: At) -> String {
    let amount = plan.reservation(at.node).unwrap_or_default();
    let limits = state.budget_limits(plan).unwrap_or_default();
    let (spent, reserved) = (state.spending.spent(), state.spending.reserved);
    format!(
        "waits for the budget: attempt {} may use {amount}, {spent} of {limits} are spent, and attempts \
         under way may use {reserved}",
        state.node(at).attempt
    )
}

/// The wait for the next attempt.
fn next_attempt(node: &NodeState) -> String {
    let attempt = node.attempt;
    match &node.failure {
        Some(failure) if failure.is_blob_store() => format!(
            "waits for the blob store to work; attempt {attempt} ended: {}",
            failure.message
        ),
        failure => {
            let last = failure.as_ref().map_or("", |failure| &failure.message);
            format!("waits for its next attempt; attempt {attempt} failed: {last}")
        }
    }
}

/// The wait for a circuit breaker.
fn waits_for_breaker(wait: &BreakerWait) -> (String, Option<Timestamp>, UnblockedBy) {
    let key = &wait.key;
    let because = |last: &Option<Arc<str>>| {
        last.as_ref().map_or_else(String::new, |last| format!(", last: {last}"))
    };
    let what = match &wait.cause {
        BreakerCause::Open { until, failures, period, last } => {
            let last = because(last);
            let times = if *failures == 1 { "1 failure" } else { &format!("{failures} failures") };
            format!("waits: breaker {key:?} is open until {until}, {times} within {period}{last}")
        }
        BreakerCause::Probing { last } => {
            let last = because(last);
            format!("waits: breaker {key:?} is half-open, and another attempt is its probe{last}")
        }
        BreakerCause::Crowded => {
            format!("waits: breaker {key:?} lets few calls through until some are answered")
        }
        BreakerCause::Unknown => {
            format!("waits: the store could not be asked about breaker {key:?}")
        }
    };
    (what, Some(wait.due), UnblockedBy::Breaker(Arc::clone(key)))
}

fn awaited_signal(
    plan: &Plan,
    at: At,
    name: &Arc<str>,
    due: Option<Timestamp>,
) -> (String, Option<Timestamp>, UnblockedBy) {
    if matches!(plan.node(at.node).behaviour, Behaviour::Notify(_)) {
        let what = "waits until its message is delivered or given up".to_owned();
        return (what, due, UnblockedBy::Delivery);
    }
    (format!("waits for signal {name:?}"), due, UnblockedBy::Signal(Arc::clone(name)))
}

/// Since when a node has been where it is.
fn since(state: &State, node: &NodeState) -> Timestamp {
    let scheduled = node.scheduled.as_ref().map_or(state.updated_at, |first| first.at);
    held(node).map_or(node.started_at.unwrap_or(scheduled), |held| held.since)
}

fn runs_body(plan: &Plan, at: At, node: &NodeState) -> String {
    let opened = node.body.as_ref().map_or(0, |body| body.opened);
    match plan.node(at.node).behaviour.container() {
        Some(Container::Loop(_)) => format!("runs iteration {opened}"),
        Some(Container::Map(_)) => progress_of(node),
        Some(Container::Operation(_)) => "starts its operation".to_owned(),
        Some(Container::Group) | None => "runs its body".to_owned(),
    }
}

fn node_reason(plan: &Plan, state: &State, (at, node): (At, &NodeState)) -> Reason {
    let since = since(state, node);
    let (what, until, unblocked_by) = match (&node.wait, node.status) {
        (Some(Wait::Delay { due }), _) => {
            ("waits for its delay to pass".to_owned(), Some(*due), UnblockedBy::Time)
        }
        (Some(Wait::Signal { name, due }), _) => awaited_signal(plan, at, name, *due),
        (Some(Wait::Signals { names, need, due }), _) => {
            let (what, next) = open_signals(names, *need, node);
            (what, *due, UnblockedBy::Signal(next))
        }
        (Some(Wait::Approval(approval)), _) => undecided(approval),
        (Some(Wait::Callback { due, .. }), _) => {
            ("waits for the callback of its operation".to_owned(), *due, UnblockedBy::Callback)
        }
        (Some(Wait::Retry { due }), _) => (next_attempt(node), Some(*due), UnblockedBy::Time),
        (Some(Wait::Breaker(breaker)), _) => waits_for_breaker(breaker),
        (Some(Wait::Body), _) if let Some(held) = held(node) => {
            let what =
                format!("is {} and opens no items; it {}", held.describe(), progress_of(node));
            (what, node.deadline, UnblockedBy::Release)
        }
        (Some(Wait::Body), _) => (runs_body(plan, at, node), node.deadline, UnblockedBy::Attempt),
        (Some(Wait::Child { .. }) | None, _)
            if matches!(plan.node(at.node).behaviour, Behaviour::Workflow(_)) =>
        {
            child_reason(node)
        }
        (Some(Wait::Child { .. }), _) => child_reason(node),
        (None, NodeStatus::Queued) if state.spending.waiting.contains(&at) => {
            (waits_for_budget(plan, state, at), None, UnblockedBy::Attempt)
        }
        (None, NodeStatus::Queued)
            if let Behaviour::Task { handler, slot, .. } = &plan.node(at.node).behaviour =>
        {
            match slot {
                Some(class) => {
                    let setting = class.setting();
                    let what = format!(
                        "waits for a free slot for attempt {} (setting {setting})",
                        node.attempt
                    );
                    (what, None, UnblockedBy::Slot(*class))
                }
                None => {
                    let what = waits_for_worker(handler, &plan.node(at.node).behaviour);
                    (what, None, UnblockedBy::Worker(Arc::clone(handler)))
                }
            }
        }
        (None, _) if let Some(worker) = node.remote => {
            let what = format!("runs attempt {} on worker {worker}", node.attempt);
            (what, node.attempt_due, UnblockedBy::Attempt)
        }
        (None, _) if node.token.is_some() => {
            (format!("runs attempt {}", node.attempt), node.attempt_due, UnblockedBy::Attempt)
        }
        (None, _) => ("is about to be evaluated".to_owned(), None, UnblockedBy::Engine),
    };
    // The wait for an execution ends with that execution.
    let by_hand = node.wait.as_ref().filter(|wait| !matches!(wait, Wait::Child { .. }));
    let wait = by_hand.map(|_| node.wait_seq).filter(|seq| *seq > 0);
    Reason { node: Some(state.path(plan, at)), what, since, until, unblocked_by, wait }
}

fn waits_for_worker(handler: &str, behaviour: &Behaviour) -> String {
    let key = if behaviour.sends_secrets() {
        ", sends a public key, because the task has secrets, and polls with an API key that they are granted to"
    } else {
        ""
    };
    format!("waits for a worker that runs {handler:?}{key}")
}
