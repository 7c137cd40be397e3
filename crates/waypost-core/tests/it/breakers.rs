//! Circuit breakers: attempts that wait for one, and go on.

use waypost_core::flow::plan;
use waypost_core::why::why;

use super::run::Run;
use super::script::{Case, case, check};

#[test]
fn attempts_wait_for_circuit_breakers() {
    check(CASES);
}

#[test]
fn why_names_the_breaker() {
    let plan = plan("a breaker k");
    let mut run = Run::start(&plan, "{}", None, 100);
    super::script::drive(&mut run, "block a 5s");
    let reasons = why(&plan, &run.state, None);
    let found: Vec<&str> = reasons.iter().map(|reason| &*reason.what).collect();
    let until = run.state.next_due().expect("it is due");
    let expected = format!(
        "waits: breaker \"k\" is open until {until}, 3 failures within 1m, last: http: 503"
    );
    assert_eq!(found, [expected]);
    assert_eq!(reasons[0].until, Some(until));
    assert!(reasons[0].wait.is_some(), "it can be ended by hand");
}

pub(crate) const CASES: &[Case] = &[
    case(
        "an attempt that waits for a breaker keeps its number and is made later",
        "a breaker k",
        "
        start      -> runs a
        block a 5s -> logs NodeWaiting, a WAITING, a attempt 1, due 5s, runs
        wait 4s    -> nothing
        wait 1s    -> logs NodeRequeued NodeStarted, a RUNNING, a attempt 1, runs a
        block a 2s -> a WAITING, a attempt 1
        wait 2s    -> a RUNNING
        complete a -> a COMPLETED, execution COMPLETED
    ",
    ),
    case(
        "a wait for a breaker is no try: the retries are all left",
        "a breaker k retry 2 wait 1s",
        "
        start
        block a 5s
        wait 5s
        fail a http retry -> a WAITING, a attempt 1, due 1s
        wait 1s           -> a RUNNING, a attempt 2
        block a 5s        -> a attempt 2
        wait 5s           -> a RUNNING, a attempt 2
        fail a http retry -> a FAILED, execution FAILED, failure http
    ",
    ),
    case(
        "an attempt that must not run twice may wait for a breaker, since it was not made",
        "a breaker k once",
        "
        start
        block a 1s -> a WAITING
        wait 1s    -> a RUNNING
        complete a -> execution COMPLETED
    ",
    ),
    case(
        "an execution whose attempts all wait for breakers leaves memory",
        "a breaker k; b breaker k",
        "
        start
        block a 5s
        block b 6s
        park       -> execution WAITING
        take-over  -> execution RUNNING, a+b WAITING
        wait 5s    -> a RUNNING, b WAITING, runs a
        wait 1s    -> b RUNNING, runs b
    ",
    ),
    case(
        "an attempt waits for a slot after a breaker",
        "a breaker k",
        "
        start slots 1
        block a 1s
        slots 0
        wait 1s        -> logs NodeRequeued, a QUEUED, offers a
        slots 1
        start-queued a -> a RUNNING, runs a
    ",
    ),
    case(
        "a person makes an attempt ask its breaker again",
        "a breaker k",
        "
        start
        block a 5s
        end-wait a null #m -> logs NodeRequeued NodeStarted, a RUNNING, runs a
        block a 5s         -> a WAITING
        end-wait a null #m -> nothing, refused
    ",
    ),
    case(
        "a pause while an attempt asks its breaker lets it wait",
        "a breaker k",
        "
        start
        pause      -> execution PAUSING
        block a 5s -> logs NodeWaiting RunPaused, execution PAUSED
        later 5s
        resume     -> a WAITING
        wait 0s    -> a RUNNING
    ",
    ),
    case(
        "an attempt that asks its breaker while the execution ends is cancelled",
        "a breaker k",
        "
        start
        cancel     -> a RUNNING, stops a
        block a 5s -> a CANCELLED, execution CANCELLED
    ",
    ),
    case(
        "a wait for a breaker is cancelled with the execution",
        "a breaker k",
        "
        start
        block a 5s
        cancel     -> a CANCELLED, execution CANCELLED
    ",
    ),
    case(
        "an attempt in a body that is ending does not wait for its breaker",
        "g = group {a breaker k; b}",
        "
        start
        fail g/b    -> g/a RUNNING
        block g/a 1s -> g FAILED, execution FAILED
    ",
    ),
    case(
        "the deadline of a node holds while it waits for a breaker",
        "a breaker k deadline 3s",
        "
        start
        block a 5s -> due 3s
        wait 3s    -> a TIMED_OUT, execution FAILED, failure timeout
    ",
    ),
    case(
        "a late report of an attempt that waits is refused",
        "a breaker k",
        "
        start
        block a 5s
        complete a -> refused
    ",
    ),
];
