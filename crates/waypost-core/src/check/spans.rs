//! Spans: durations of the definition do not end early.
//!
//! A span begins when its frame is decided. The log does not have that time by the store's clock;
//! but it was after the store had committed the frame before, which the owner had seen. So a span
//! that ends less than its length after that frame was cut short. Older builds did not record their
//! spans, and are not judged.

use super::attempts::Seen;
use super::invariant::Invariant::WaitsEndInTime;
use super::{EventAt, Verdict, broken, require_with};
use crate::apply::{GRACE, SILENCE};
use crate::event::{Event, FailureEnd, NodeEvent, RunEvent};
use crate::failure::Failure;
use crate::kind::{Behaviour, Delay, DurationTemplate, Loop, OperationSpec, SignalsSpec};
use crate::plan::{Plan, PlanNode};
use crate::retry::RetryPolicy;
use crate::time::{Millis, Timestamp};

/// A span's name, when it is due, and its length.
type RunSpan = (&'static str, Option<Timestamp>, Option<Millis>);

/// Does this event cut a span short that begins no earlier than `since`? Returns which one.
pub fn cut_short(plan: Option<&Plan>, event: &Event, since: Timestamp) -> Option<String> {
    match event {
        Event::Run(event) => is_early(run_span(event, plan)?, since),
        Event::Node(event) => is_early(node_span(event, node_of(plan, event))?, since),
    }
}

fn is_early((what, due, span): RunSpan, since: Timestamp) -> Option<String> {
    let (due, span) = due.zip(span).filter(|(due, span)| *due < since.plus(*span))?;
    Some(format!("{what} is due at {due}, less than {} ms after {since}", span.0))
}

fn node_of<'a>(plan: Option<&'a Plan>, event: &NodeEvent) -> Option<&'a PlanNode> {
    plan.and_then(|plan| Some(plan.node(plan.locate(event.node())?)))
}

fn run_span(event: &RunEvent, plan: Option<&Plan>) -> Option<RunSpan> {
    let timeout = plan.and_then(|plan| plan.timeout);
    if let RunEvent::Ending { grace, .. } = event {
        return Some(("its grace time", *grace, Some(GRACE)));
    }
    let deadline = if let RunEvent::Created(created) = event {
        created.deadline
    } else if let RunEvent::Reopened { deadline, .. } = event {
        *deadline
    } else {
        return None;
    };
    Some(("its deadline", deadline, timeout))
}

fn node_span(event: &NodeEvent, node: Option<&PlanNode>) -> Option<RunSpan> {
    if let NodeEvent::Scheduled { deadline, .. } = event {
        return Some(("the node's deadline", *deadline, node.and_then(|node| node.deadline)));
    }
    if let NodeEvent::Started { due, .. } = event {
        let timeout = node.and_then(|node| node.timeout);
        let patience = timeout.map(|span| Millis(span.0.saturating_add(SILENCE.0)));
        return Some(("the attempt's timeout", *due, patience));
    }
    if let NodeEvent::Waiting { wait, span, .. } = event {
        return Some(("the wait", wait.due(), *span));
    }
    let NodeEvent::Failed { end, wait, .. } = event else { return None };
    let due = match end {
        FailureEnd::RetryAt(due) | FailureEnd::Abandoned(due) => Some(*due),
        FailureEnd::Final | FailureEnd::TimedOut => None,
    };
    Some(("the next try", due, *wait))
}

/// Does what an event of the execution begins last?
pub(super) fn judge_run(place: EventAt, event: &RunEvent, plan: Option<&Plan>) -> Verdict {
    lasts(run_span(event, plan), place)
}

fn lasts(span: Option<RunSpan>, place: EventAt) -> Verdict {
    let early = span.and_then(|span| is_early(span, place.earliest));
    early.map_or(Ok(()), |what| broken(WaitsEndInTime, what))
}

/// Is this a span that the definition wants, and does it last?
pub(super) fn judge(
    place: EventAt,
    event: &NodeEvent,
    plan: Option<&Plan>,
    seen: &Seen,
) -> Verdict {
    let node = node_of(plan, event);
    lasts(node_span(event, node), place)?;
    let Some(node) = node else { return Ok(()) };
    let (span, wanted) = if let NodeEvent::Waiting { span: Some(span), .. } = event {
        (span, fixed_span(node).map(|wanted| (wanted, wanted)))
    } else if let NodeEvent::Failed { failure, end, wait: Some(wait), .. } = event {
        match end {
            FailureEnd::RetryAt(_) => {
                let policy = node.retry.as_ref();
                (wait, policy.map(|policy| waits_of(policy, seen.tries, failure)))
            }
            FailureEnd::Abandoned(_) => {
                let before = seen.abandoned.saturating_sub(1);
                (wait, Some(waits_of(&RetryPolicy::default(), before, failure)))
            }
            FailureEnd::Final | FailureEnd::TimedOut => return Ok(()),
        }
    } else {
        return Ok(());
    };
    let Some((least, most)) = wanted else { return Ok(()) };
    require_with((least..=most).contains(span), WaitsEndInTime, || {
        let (span, least, most) = (span.0, least.0, most.0);
        format!("it waits {span} ms, where {least} to {most} ms are right")
    })
}

/// The duration of a node's wait, if it is a constant.
fn fixed_span(node: &PlanNode) -> Option<Millis> {
    if let Behaviour::Delay(Delay::For(DurationTemplate::Fixed(span)))
    | Behaviour::Loop(Loop { delay: Some(DurationTemplate::Fixed(span)), .. })
    | Behaviour::Signal { timeout: Some(DurationTemplate::Fixed(span)), .. }
    | Behaviour::Signals(SignalsSpec {
        timeout: Some(DurationTemplate::Fixed(span)), ..
    })
    | Behaviour::Operation(OperationSpec {
        timeout: Some(DurationTemplate::Fixed(span)),
        ..
    }) = &node.behaviour
    {
        return Some(*span);
    }
    if let Behaviour::Notify(spec) = &node.behaviour
        && let Some(DurationTemplate::Fixed(span)) = &spec.timeout
    {
        return Some(*span);
    }
    if let Behaviour::Approval(spec) = &node.behaviour
        && let Some(DurationTemplate::Fixed(span)) = &spec.timeout
    {
        return Some(*span);
    }
    None
}

/// The shortest and the longest wait after so many earlier tries and this failure.
fn waits_of(policy: &RetryPolicy, earlier: u32, failure: &Failure) -> (Millis, Millis) {
    let mut wait = policy.wait.0 as f64;
    // Twenty doublings reach any cap that is not absurd; the loop must end whatever a log holds.
    for _ in 0..earlier.min(2_000) {
        if policy.exponential && wait < policy.wait_max.0 as f64 {
            wait *= policy.multiplier;
        }
    }
    let wait = failure.retry_after.map_or(wait, |asked| asked.0 as f64);
    let wait = wait.min(policy.wait_max.0 as f64);
    // A millisecond either way for rounding.
    let whole = |ms: f64| Millis::from_f64(ms.max(0.0), 1.0).unwrap_or(Millis(u64::MAX));
    (whole(wait - 1.0), whole(wait * (1.0 + policy.jitter) + 1.0))
}
