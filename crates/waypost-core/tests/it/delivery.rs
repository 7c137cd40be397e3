//! Deliveries: slots, tokens, reports that are late, twice or from strangers.

use super::script::{Case, case, check};

#[test]
fn an_attempt_is_held_by_one() {
    check(CASES);
}

pub(crate) const CASES: &[Case] = &[
    case(
        "no slot: an offer, and a start when there is one",
        "a; b needs a",
        "
        start slots 0  -> a QUEUED, offers a, runs
        start-queued a -> a QUEUED, offers a
        slots 1
        start-queued a -> a RUNNING, runs a
        start-queued a -> nothing
        complete a     -> runs b
    ",
    ),
    case(
        "never more attempts than slots",
        "a; b; c",
        "
        start slots 2 -> runs a b, offers c
    ",
    ),
    case(
        "an offer of an attempt that is over",
        "a deadline 5s error late; b needs a:late",
        "
        start slots 0
        wait 5s        -> a TIMED_OUT, offers b
        slots 1
        start-queued a -> nothing
        start-queued b -> runs b
    ",
    ),
    case(
        "a start of another attempt",
        "a",
        "
        start slots 0
        slots 1
        start-queued a@2 -> nothing
    ",
    ),
    case(
        "an evaluation of another attempt, or of a task",
        "a; c = if(true) needs a",
        "
        start
        evaluate a   -> nothing
        hold
        complete a
        evaluate c@2 -> nothing
        evaluate c@1 -> c COMPLETED
    ",
    ),
    case(
        "a stranger's report",
        "a",
        "
        start
        forge a    -> refused another worker
        complete a -> execution COMPLETED
    ",
    ),
    case(
        "a report about a control node",
        "a; w = signal(go)",
        "
        start
        complete nowhere -> refused no node
    ",
    ),
    case(
        "a report that comes twice",
        "a; b",
        "
        start
        complete a 1 -> a COMPLETED
        complete a 2 -> refused stale, a gives 1
        fail a       -> refused stale
        fail b       -> execution FAILED
        fail b       -> refused ended
    ",
    ),
    case(
        "a report on an attempt that was given up",
        "a retry 2",
        "
        start
        fail a x retry -> a WAITING
        complete a     -> refused stale
        wait 1s        -> a attempt 2
        complete a@1   -> refused stale
        mark a@1 5     -> refused stale
        complete a@2   -> execution COMPLETED
    ",
    ),
    case(
        "an output beyond the limit is a failure",
        "a; b = value({\"x\": \"${{ 'x' * 2000000 }}\"})",
        "
        start -> b FAILED
    ",
    ),
];
