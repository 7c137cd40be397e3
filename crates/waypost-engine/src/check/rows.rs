//! The control row and the mail of an execution, as they must be for its state.
//!
//! The row is written at transitions only; between two of them, claims, mail and expired leases
//! change it. The check therefore compares little of an owned execution, and everything of an
//! unowned one: there the row alone decides whether and when an instance claims it.

use waypost_core::check::Invariant;
use waypost_core::event::Wait;
use waypost_core::frame::FrameHeader;
use waypost_core::plan::Plan;
use waypost_core::state::{NodeState, State};
use waypost_core::status::Status;
use waypost_core::time::Timestamp;
use waypost_ports::inspect::{DerivedPermit, DerivedRow, Examined, Ownership, Remedy, Standing};
use waypost_ports::store::{Control, Permit, Subscription, Urgency};

type BrokenRule = (Invariant, String);

/// The row as derived from a log, as of its last transition.
fn derive(state: &State) -> DerivedRow {
    let next_due = state.next_due();
    match state.status {
        Status::Waiting => DerivedRow::Parked { next_due },
        // It left memory until its children have ended.
        Status::Ending if state.owner.is_none() && state.children_open > 0 => {
            DerivedRow::Parked { next_due }
        }
        _ => match state.held_for() {
            Some(reason) => DerivedRow::Held { reason, next_due },
            None => DerivedRow::Ready,
        },
    }
}

/// Its place in that queue, as derived from its log.
fn derive_permit(state: &State) -> Option<DerivedPermit> {
    let admitted = state.place.as_ref().is_some_and(|place| place.admitted);
    state.permit_request().map(|request| DerivedPermit { request, admitted })
}

/// Its waits for signals by key, as derived from its log.
fn derive_subscriptions(state: &State, plan: &Plan) -> Vec<Subscription> {
    let waits = state.subscriptions(plan).into_iter();
    waits.map(|(wait, name)| Subscription { wait, name }).collect()
}

/// The repair of the rows beside a log; `requires` is the log format that its last frame needs.
pub(super) fn remedy(state: &State, plan: Option<&Plan>, requires: u16) -> Remedy {
    if state.status.is_end() {
        return Remedy::Nothing;
    }
    let permit = derive_permit(state);
    let subscriptions = plan.map(|plan| derive_subscriptions(state, plan)).unwrap_or_default();
    Remedy::Control { row: derive(state), epoch: state.epoch, requires, permit, subscriptions }
}

/// Compares the rows beside a log with its state, and with the header of its last frame.
pub(super) fn check(
    examined: &Examined,
    (state, plan): (&State, Option<&Plan>),
    last: &FrameHeader,
) -> Vec<BrokenRule> {
    let ended = state.status.is_end();
    let mut faults = check_row(examined, state, last);
    // Without a control row, that is the fault.
    if ended || examined.history.control.is_some() {
        faults.extend(has_another_place(examined.permit.as_ref(), state));
        faults.extend(plan.and_then(|plan| waits_otherwise(examined, state, plan)));
    }
    faults
}

fn check_row(examined: &Examined, state: &State, last: &FrameHeader) -> Vec<BrokenRule> {
    let history = &examined.history;
    let ended = state.status.is_end();
    match (&history.control, &examined.standing) {
        (None, _) if !ended => {
            let what = format!("it is {} and has no control row", state.status);
            vec![(Invariant::ReasonToWake, what)]
        }
        (None, _) if !history.mail.is_empty() => {
            vec![(Invariant::ControlAgrees, "it has ended and mail is left".to_owned())]
        }
        (Some(_), _) if ended => {
            let what = format!("it is {} and still has a control row", state.status);
            vec![(Invariant::ControlAgrees, what)]
        }
        (Some(control), Some(standing)) => {
            let mut faults = Vec::new();
            faults.extend(is_behind(control, standing, state, last.requires));
            if !begins_now(control, state, last) {
                faults.extend(has_no_reason_to_wake(control, standing, state));
            }
            faults.extend(has_mail_without_wake_up(examined, control, standing));
            faults
        }
        _ => Vec::new(),
    }
}

/// Compares what it is subscribed to with the waits of its log.
fn waits_otherwise(examined: &Examined, state: &State, plan: &Plan) -> Option<BrokenRule> {
    let derived = derive_subscriptions(state, plan);
    let found = &examined.subscriptions;
    let missing = derived.iter().find(|wait| !found.contains(wait));
    let what = match (missing, found.iter().find(|wait| !derived.contains(wait))) {
        (Some(wait), _) => format!("it waits for signal {:?} and is not subscribed", wait.name),
        (None, Some(wait)) => format!("it is subscribed to signal {:?} without a wait", wait.name),
        (None, None) => return None,
    };
    Some((Invariant::ReasonToWake, what))
}

/// Compares its place in the queue of its concurrency key with its log. A permit that it has got
/// and not used yet is not in its log.
fn has_another_place(found: Option<&Permit>, state: &State) -> Option<BrokenRule> {
    let derived = derive_permit(state).filter(|_| !state.status.is_end());
    let what = match (found, derived) {
        (None, None) => return None,
        (Some(permit), None) => format!("it has a place in the queue of {:?}", permit.key),
        (None, Some(of)) => format!("it has no place in the queue of {:?}", of.request.key),
        (Some(permit), Some(of)) if permit.key != of.request.key => {
            format!("it stands in the queue of {:?}, not of {:?}", permit.key, of.request.key)
        }
        (Some(permit), Some(of)) if of.admitted && !permit.holding => {
            format!("it has begun and holds no permit of {:?}", permit.key)
        }
        (Some(_), Some(_)) => return None,
    };
    Some((Invariant::PermitsHold, what))
}

fn is_behind(
    control: &Control,
    standing: &Standing,
    state: &State,
    requires: u16,
) -> Option<BrokenRule> {
    let what = if control.epoch < state.epoch {
        format!("its row is at epoch {}, its log at {}", control.epoch, state.epoch)
    } else if standing.requires < requires {
        format!("its row asks for fold {}, its log for {requires}", standing.requires)
    } else {
        return None;
    };
    Some((Invariant::ControlAgrees, what))
}

/// Did it begin, or was it opened again, with a frame of its parent? Its row is due since then.
fn begins_now(control: &Control, state: &State, last: &FrameHeader) -> bool {
    let due = control.owner.is_none() && control.next_due == Some(last.decided_at);
    due && state.owner.is_none() && state.created.parent.is_some()
}

fn has_no_reason_to_wake(
    control: &Control,
    standing: &Standing,
    state: &State,
) -> Option<BrokenRule> {
    match standing.ownership {
        Ownership::Held | Ownership::Expired => return None,
        Ownership::Lost => {
            let what = "its owner is gone, and no instance will take it over";
            return Some((Invariant::ReasonToWake, what.to_owned()));
        }
        Ownership::Unowned if control.ready || is_quarantined(control, standing) => return None,
        Ownership::Unowned => {}
    }
    if state.status == Status::Scheduling
        && control.permit.as_ref().is_some_and(|permit| permit.holding)
    {
        let what = "it holds a permit of its concurrency key, and no instance will start it";
        return Some((Invariant::ReasonToWake, what.to_owned()));
    }
    match derive(state) {
        DerivedRow::Ready => {
            let what = format!("it is {}, has no owner and is not ready", state.status);
            Some((Invariant::ReasonToWake, what))
        }
        DerivedRow::Parked { next_due } => {
            let held = control.held.as_ref().map(|reason| format!("held ({reason})"));
            let deaf = (standing.wakes_from != Urgency::Ordinary).then(|| "deaf".to_owned());
            match held.or(deaf) {
                Some(how) => {
                    let what = format!("its row is {how}, its log says that it waits");
                    Some((Invariant::ControlAgrees, what))
                }
                None => is_due_otherwise(control.next_due, next_due, waits_for_outside(state)),
            }
        }
        DerivedRow::Held { reason, next_due } => {
            let same = control.held.as_deref() == Some(reason.as_str());
            if same && standing.wakes_from == Urgency::Cancel {
                return is_due_otherwise(control.next_due, next_due, true);
            }
            let row = control.held.as_deref().unwrap_or("not held");
            let what = format!("its row says {row:?}, its log {reason:?}");
            Some((Invariant::ControlAgrees, what))
        }
    }
}

/// Compares due times. Without one, something outside has to be able to wake it.
fn is_due_otherwise(
    row: Option<Timestamp>,
    log: Option<Timestamp>,
    woken_from_outside: bool,
) -> Option<BrokenRule> {
    match (row, log) {
        (None, None) if !woken_from_outside => {
            let what = "it waits for no time and for nothing from outside";
            Some((Invariant::ReasonToWake, what.to_owned()))
        }
        (None, Some(log)) => {
            let what = format!("it is due at {log}, and its row says never");
            Some((Invariant::ReasonToWake, what))
        }
        (Some(row), log) if Some(row) != log => {
            let log = log.map_or("never".to_owned(), |log| log.to_string());
            let what = format!("its row is due at {row}, its log says {log}");
            Some((Invariant::ControlAgrees, what))
        }
        _ => None,
    }
}

/// Does it wait for a signal, for a child, or for a person to release a map?
fn waits_for_outside(state: &State) -> bool {
    let is_held = |node: &NodeState| {
        let map = node.body.as_ref().and_then(|body| body.map.as_ref());
        map.is_some_and(|map| map.held.is_some())
    };
    let waits = |node: &NodeState| {
        let wait = node.wait.as_ref();
        let child = matches!(wait, Some(Wait::Child { .. }));
        wait.is_some_and(Wait::is_answered) || child || is_held(node)
    };
    state.nodes().any(|(_, node)| waits(node))
}

/// Quarantined by the store because its log cannot be extended: until it is resumed, no due time
/// and no mail counts.
fn is_quarantined(control: &Control, standing: &Standing) -> bool {
    control.held.is_some() && standing.wakes_from == Urgency::Resume
}

fn has_mail_without_wake_up(
    examined: &Examined,
    control: &Control,
    standing: &Standing,
) -> Option<BrokenRule> {
    let asleep = standing.ownership == Ownership::Unowned && !control.ready;
    if !asleep || is_quarantined(control, standing) {
        return None;
    }
    let wakes = |mail: &&waypost_ports::store::Mail| mail.body.urgency() >= standing.wakes_from;
    let mail = examined.history.mail.iter().find(wakes)?;
    let what = format!("message {:?} waits, has no owner and is not ready", mail.message);
    Some((Invariant::MailWakes, what))
}
