//! Spans: what the definition wants to last for a while is not due before that.
//!
//! A span begins when its frame is decided. When that was, by the store's time, no log says; but it was
//! after the store had kept the frame before, which the owner had seen. So a span that ends less than
//! its length after that frame was cut short. Older builds did not record their spans, and are not
//! judged.

use super::attempts::Seen;
use super::{EventAt, Invariant, Verdict, broken};
use crate::apply::{GRACE, SILENCE};
use crate::event::{Event, FailureEnd};
use crate::failure::Failure;
use crate::kind::{Behaviour, Delay, DurationTemplate};
use crate::plan::{Plan, PlanNode};
use crate::retry::RetryPolicy;
use crate::time::{Millis, Timestamp};

/// Does this event cut something short that begins no earlier than `since`? Says what, if so.
pub fn cut_short(plan: Option<&Plan>, event: &Event, since: Timestamp) -> Option<String> {
    let at = event.node().and_then(|path| plan?.find(path));
    let node = plan.zip(at).map(|(plan, at)| plan.node(at));
    let timeout = plan.and_then(|plan| plan.timeout);
    let (what, due, span) = match event {
        Event::RunCreated(created) => ("its deadline", created.deadline, timeout),
        Event::RunReopened { deadline, .. } => ("its deadline", *deadline, timeout),
        Event::RunEnding { grace, .. } => ("its grace time", *grace, Some(GRACE)),
        Event::NodeScheduled { deadline, .. } => {
            ("the node's deadline", *deadline, node.and_then(|node| node.deadline))
        }
        Event::NodeStarted { due, .. } => {
            let timeout = node.and_then(|node| node.timeout);
            let patience = timeout.map(|span| Millis(span.0.saturating_add(SILENCE.0)));
            ("the attempt's timeout", *due, patience)
        }
        Event::NodeWaiting { wait, span, .. } => ("the wait", wait.due(), *span),
        Event::NodeFailed { end, wait, .. } => {
            let due = match end {
                FailureEnd::RetryAt(due) | FailureEnd::Abandoned(due) => Some(*due),
                FailureEnd::Final | FailureEnd::TimedOut => None,
            };
            ("the next try", due, *wait)
        }
        _ => return None,
    };
    let (due, span) = due.zip(span).filter(|(due, span)| *due < since.plus(*span))?;
    Some(format!("{what} is due at {due}, less than {} ms after {since}", span.0))
}

/// Is this a span that the definition wants, and does it last?
pub(super) fn judge(place: EventAt, event: &Event, plan: Option<&Plan>, seen: &Seen) -> Verdict {
    if let Some(what) = cut_short(plan, event, place.earliest) {
        return broken(Invariant::WaitsEndInTime, what);
    }
    let at = event.node().and_then(|path| plan?.find(path));
    let Some(node) = plan.zip(at).map(|(plan, at)| plan.node(at)) else { return Ok(()) };
    let (span, wanted) = match event {
        Event::NodeWaiting { span: Some(span), .. } => {
            (span, fixed_span(node).map(|wanted| (wanted, wanted)))
        }
        Event::NodeFailed { failure, end, wait: Some(wait), .. } => match end {
            FailureEnd::RetryAt(_) => {
                let policy = node.retry.as_ref();
                (wait, policy.map(|policy| waits_of(policy, seen.tries, failure)))
            }
            FailureEnd::Abandoned(_) => {
                let before = seen.abandoned.saturating_sub(1);
                (wait, Some(waits_of(&RetryPolicy::default(), before, failure)))
            }
            FailureEnd::Final | FailureEnd::TimedOut => return Ok(()),
        },
        _ => return Ok(()),
    };
    match wanted {
        Some((least, most)) if !(least..=most).contains(span) => {
            let (span, least, most) = (span.0, least.0, most.0);
            let what = format!("it waits {span} ms, where {least} to {most} ms are right");
            broken(Invariant::WaitsEndInTime, what)
        }
        _ => Ok(()),
    }
}

/// How long the definition has a node wait, where no expression says so.
fn fixed_span(node: &PlanNode) -> Option<Millis> {
    match &node.behaviour {
        Behaviour::Delay(Delay::For(DurationTemplate::Fixed(span)))
        | Behaviour::Signal { timeout: Some(DurationTemplate::Fixed(span)), .. } => Some(*span),
        _ => None,
    }
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
