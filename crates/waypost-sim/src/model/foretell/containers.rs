//! The possible outcomes of containers: those of their scopes, put together.

use std::collections::BTreeSet;

use waypost_core::status::Status;

use super::{Own, foretell_scope, has_ample_time};
use crate::model::Outcome;
use crate::model::graph::Siblings;
use crate::model::values::{Facts, are_sound, is_unknown, plain};
use crate::program::{
    Each, Ends, ITEMS_MAX, ItemSource, Kind, LATE, Loop, Node, Operation, Test, Value,
};

/// A container ends as its scopes do. A group that is tried again has the same ends to choose from.
pub(super) fn container_outcomes(
    (siblings, node): (&[Node], &Node),
    facts: Facts,
    known: &[BTreeSet<Outcome>],
) -> Own {
    let mut own = Own { outcomes: BTreeSet::new(), waits: false };
    if !has_ample_time(node) {
        own.outcomes.insert(Outcome::TimedOut);
    }
    let completes = |body: &[Node], facts: Facts, own: &mut Own| {
        let inside = foretell_scope(Siblings::of_body(body), facts);
        own.waits |= inside.waits;
        own.outcomes.extend(inside.fails);
        inside.ends.contains(&Status::Completed)
    };
    match &node.kind {
        Kind::Group(body) => {
            let done = completes(body, facts, &mut own).then_some(Outcome::Completed(None));
            own.outcomes.extend(done);
        }
        Kind::Operation(operation) => {
            let started = completes(&operation.body, facts, &mut own);
            await_operation(operation, started, &mut own);
        }
        Kind::Loop(Loop { body, ends, max, .. }) => {
            for done in 0..=*max {
                let facts = Facts { iteration: done, ..facts };
                if done > 0 && !completes(body, facts, &mut own) {
                    break;
                }
                let go_on = may_go_on(*ends, facts);
                let stops = done > 0 || matches!(ends, Ends::While(_));
                match go_on {
                    Err(_) if stops => {
                        own.outcomes.insert(Outcome::Mistaken);
                        break;
                    }
                    Ok(ways) if ways.contains(&false) && stops => {
                        own.outcomes.insert(Outcome::Completed(None));
                        if ways.len() == 1 {
                            break;
                        }
                    }
                    _ => {}
                }
                if done == *max {
                    own.outcomes.insert(Outcome::Failed);
                }
            }
        }
        Kind::Map(each) => map_outcomes((siblings, each), facts, known, &mut own),
        _ => {}
    }
    own
}

/// A service calls back as done or as failed, too late or never.
fn await_operation(operation: &Operation, started: bool, own: &mut Own) {
    own.outcomes.extend(started.then_some(Outcome::Completed(None)));
    if operation.polls() || !started {
        return;
    }
    let late = match (operation.timeout_ms, operation.late) {
        (None, _) => {
            own.waits = true;
            None
        }
        (Some(_), true) => Some(Outcome::Completed(Some(LATE.into()))),
        (Some(_), false) => Some(Outcome::TimedOut),
    };
    own.outcomes.extend(late.into_iter().chain([Outcome::Failed]));
}

/// Whether a loop may go on with one more iteration, or the kind of the failure of its test.
fn may_go_on(ends: Ends, facts: Facts) -> Result<BTreeSet<bool>, &'static str> {
    let (test, wanted) = go_on_test(ends);
    if is_unknown(test) {
        return Ok(BTreeSet::from([false, true]));
    }
    facts.holds(test, &|_| false).map(|holds| BTreeSet::from([holds == wanted]))
}

/// The test of a loop, and whether it must hold for another iteration.
pub(in crate::model) fn go_on_test(ends: Ends) -> (Test, bool) {
    match ends {
        Ends::Until(test) => (test, false),
        Ends::While(test) => (test, true),
    }
}

/// How many items a map may have; `Err`: it fails without any.
fn counts(
    items: &ItemSource,
    siblings: &[Node],
    facts: Facts,
    known: &[BTreeSet<Outcome>],
) -> Vec<Result<u64, Outcome>> {
    let length = |values: &[Value]| Ok(u64::try_from(values.len()).unwrap_or(u64::MAX));
    if !are_sound(items.values()) {
        return vec![Err(Outcome::Mistaken)];
    }
    match items {
        ItemSource::List(values) => vec![length(values)],
        ItemSource::Of(Value::OutputOf(of)) => {
            let completes = known[*of].iter().any(|end| matches!(end, Outcome::Completed(_)));
            let counts = match &siblings[*of].kind {
                Kind::Transform(values) | Kind::Output(values) => vec![length(values)],
                Kind::Group(_) | Kind::Loop(_) => (0..=ITEMS_MAX).map(Ok).collect(),
                _ => Vec::new(),
            };
            // Where it has not completed, or not yet, there is no list.
            let missing = Err(Outcome::Mistaken);
            counts.into_iter().filter(|_| completes).chain([missing]).collect()
        }
        // Where the other map has given none, there is no list.
        ItemSource::Of(Value::ResultsOf(_)) => {
            (0..=ITEMS_MAX).map(Ok).chain([Err(Outcome::Mistaken)]).collect()
        }
        ItemSource::Of(value) => {
            let number = plain(*value, facts).and_then(|value| value.as_u64());
            vec![number.ok_or(Outcome::Mistaken)]
        }
    }
}

/// A map runs all its items, unless it stops; it fails where more of them fail than are tolerated.
fn map_outcomes(
    (siblings, each): (&[Node], &Each),
    facts: Facts,
    known: &[BTreeSet<Outcome>],
    own: &mut Own,
) {
    for count in counts(&each.items, siblings, facts, known) {
        let count = match count {
            Ok(count) => count,
            Err(failed) => {
                own.outcomes.insert(failed);
                continue;
            }
        };
        let (mut surely, mut maybe) = (0, 0);
        for index in 0..count {
            let facts = Facts { index, ..facts };
            let inside = foretell_scope(Siblings::of_body(&each.body), facts);
            own.waits |= inside.waits;
            let fails = inside.ends.contains(&Status::Failed);
            surely += u64::from(fails && !inside.ends.contains(&Status::Completed));
            maybe += u64::from(fails);
        }
        let tolerated = each.tolerated.of(count);
        if surely <= tolerated {
            own.outcomes.insert(Outcome::Completed(None));
        }
        if maybe > tolerated {
            own.outcomes.insert(Outcome::Failed);
        }
    }
}
