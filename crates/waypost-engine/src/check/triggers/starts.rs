//! The rule about starts, without I/O: an execution and the item that started it name each other.

use std::sync::Arc;

use waypost_core::check::Invariant;
use waypost_core::time::Timestamp;
use waypost_ports::inspect::NamedFire;
use waypost_ports::triggers::{FireOutcome, ITEM_KEPT};

use super::rules::{SLACK, TriggerFault};

/// How an execution began.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Begun {
    pub(crate) workflow: Arc<str>,
    /// When its first frame was stored.
    pub(crate) at: Timestamp,
    pub(crate) fired: Option<BegunByTrigger>,
}

/// The fire that an execution says it began with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct BegunByTrigger {
    pub(crate) name: Arc<str>,
    pub(crate) label: Arc<str>,
    pub(crate) at: Timestamp,
}

/// What is wrong with the items that name an execution. `now` is not before they were read.
pub(crate) fn start_fault(
    begun: &Begun,
    fires: &[NamedFire],
    now: Timestamp,
) -> Option<TriggerFault> {
    let rule = Invariant::TriggerItemsOnce;
    let Begun { workflow, at, fired } = begun;
    let what = match (fired, fires) {
        (None, []) => return None,
        (Some(fired), []) => {
            let is_remembered = *at > now.minus(ITEM_KEPT).plus(SLACK);
            let what = || {
                let BegunByTrigger { name, label, .. } = fired;
                format!(
                    "trigger {workflow}/{name} started it with {label:?}, and no item names it: that item could start another one"
                )
            };
            return is_remembered.then(|| TriggerFault::new(rule, what()));
        }
        (_, [_, _, ..]) => format!("{} items of triggers name it", fires.len()),
        (None, [fire]) => format!(
            "item {:?} of trigger {} names it, and no trigger started it",
            fire.fire.label,
            named(fire)
        ),
        (Some(fired), [fire]) => {
            return differs(workflow, fired, fire).map(|what| TriggerFault::new(rule, what));
        }
    };
    Some(TriggerFault::new(rule, what))
}

fn differs(workflow: &Arc<str>, fired: &BegunByTrigger, named_fire: &NamedFire) -> Option<String> {
    let BegunByTrigger { name, label, at } = fired;
    let fire = &named_fire.fire;
    let is_same = |names: &(Arc<str>, Arc<str>)| names.0 == *workflow && names.1 == *name;
    if !named_fire.names.as_ref().is_some_and(is_same) {
        let other = named(named_fire);
        return Some(format!(
            "trigger {workflow}/{name} started it, and an item of {other} names it"
        ));
    }
    if fire.outcome != FireOutcome::Started {
        return Some(format!("its item {label:?} is {}, and not started", fire.outcome.name()));
    }
    if fire.label != *label {
        return Some(format!("it began with {label:?}, and item {:?} names it", fire.label));
    }
    let nominal = fire.nominal.filter(|nominal| nominal != at)?;
    Some(format!("it began with the time {at}, and its item is of {nominal}"))
}

/// The trigger of an item, for people.
fn named(fire: &NamedFire) -> String {
    match &fire.names {
        Some((workflow, name)) => format!("{workflow}/{name}"),
        None => format!("number {}, which has no row", fire.trigger.0),
    }
}
