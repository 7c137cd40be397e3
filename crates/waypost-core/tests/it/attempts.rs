//! Attempts: retries, timeouts, deadlines.

use super::script::{Case, case, check};

#[test]
fn attempts_are_retried_and_bounded() {
    check(CASES);
}

pub(crate) const CASES: &[Case] = &[
    case(
        "a failed attempt is not a failed node",
        "a retry 3 wait 1s",
        "
        start
        fail a http retry -> a WAITING, execution RUNNING, due 1s, runs, a attempt 1
        wait 999ms        -> nothing
        wait 1ms          -> a RUNNING, a attempt 2, runs a
        fail a http retry -> due 2s
        wait 2s           -> a attempt 3, runs a
        fail a http retry -> a FAILED, a failed http, execution FAILED, failure http
    ",
    ),
    case(
        "an attempt that succeeds forgets the failures before it",
        "a retry 3",
        "
        start
        fail a http retry
        wait 1s
        complete a 1      -> a COMPLETED, a failed none, execution COMPLETED
    ",
    ),
    case(
        "a failure that trying again will not mend is not retried",
        "a retry 3",
        "
        start
        fail a broken -> a FAILED, execution FAILED
    ",
    ),
    case(
        "without a policy nothing is retried",
        "a",
        "
        start
        fail a http retry -> a FAILED, execution FAILED
    ",
    ),
    case(
        "Retry-After wins over the backoff",
        "a retry 3 wait 1s",
        "
        start
        fail a http retry after 7s -> due 7s
    ",
    ),
    case(
        "Retry-After is held to the cap",
        "a retry 3 wait 1s",
        "
        start
        fail a http retry after 1h -> due 5m
    ",
    ),
    case(
        "a retry beyond the node's deadline is none",
        "a retry 9 wait 4s deadline 10s",
        "
        start             -> due 10s
        fail a http retry -> a WAITING, due 4s
        wait 4s           -> a RUNNING, due 6s
        fail a http retry -> a FAILED, a failed http, execution FAILED
    ",
    ),
    case(
        "the node's deadline ends a running attempt",
        "a deadline 10s error late; b needs a:late",
        "
        start
        wait 10s   -> a TIMED_OUT, a failed timeout, stops a, runs b
        complete a -> refused stale
    ",
    ),
    case(
        "the node's deadline ends a wait",
        "a = signal(go) deadline 10s error late; b needs a:late",
        "
        start    -> a WAITING, due 10s
        wait 10s -> a TIMED_OUT, stops, runs b
    ",
    ),
    case(
        "the node's deadline ends a wait for a retry that a pause has delayed",
        "a retry 3 wait 1s deadline 10s",
        "
        start
        fail a http retry -> a WAITING
        pause             -> execution PAUSED, due never
        later 1m
        take-over         -> a WAITING, execution RESUMING(paused)
        resume            -> execution RUNNING, a WAITING
        wait 0s           -> a TIMED_OUT, runs, stops, execution FAILED, failure timeout
    ",
    ),
    case(
        "the node's deadline ends a wait for an attempt after a loss",
        "a deadline 100ms",
        "
        start
        lose a
        wait 0s
        lose a            -> a WAITING, due 100ms
        wait 100ms        -> a TIMED_OUT, execution FAILED
    ",
    ),
    case(
        "the node's deadline ends a queue",
        "a deadline 10s",
        "
        start slots 0 -> a QUEUED, offers a
        wait 10s      -> a TIMED_OUT, stops, execution FAILED, failure timeout
    ",
    ),
    case(
        "a timeout that a worker reports",
        "a timeout 5s retry 2 wait 1s",
        "
        start                -> due 10s
        fail a timeout retry -> a WAITING, due 1s
        wait 1s              -> a RUNNING, a attempt 2
        fail a timeout retry -> a TIMED_OUT, execution FAILED, failure timeout
    ",
    ),
    case(
        "a worker that is silent beyond its time",
        "a timeout 5s retry 2 wait 1s",
        "
        start
        wait 9999ms -> nothing
        wait 1ms    -> a WAITING, a failed timeout, stops a
        complete a  -> refused stale
        wait 1s     -> a RUNNING, a attempt 2, runs a
        wait 10s    -> a TIMED_OUT, execution FAILED
    ",
    ),
    case(
        "bug: an at-most-once attempt was retried after its worker fell silent",
        "a once timeout 5s retry 3",
        "
        start
        wait 10s -> a FAILED, a failed outcome_unknown, stops a, execution FAILED
    ",
    ),
    case(
        "bug: an at-most-once attempt without an answer was retried",
        "a once retry 3",
        "
        start
        fail a timeout retry -> a FAILED, a failed outcome_unknown, execution FAILED
    ",
    ),
    case(
        "an at-most-once attempt that was refused is retried",
        "a once retry 3",
        "
        start
        fail a http retry -> a WAITING
        wait 1s           -> a attempt 2, runs a
    ",
    ),
    case(
        "an at-most-once attempt that never went out is retried",
        "a once retry 3",
        "
        start
        fail a connection retry unsent -> a WAITING
        wait 1s                        -> a attempt 2, runs a
        fail a connection retry        -> a FAILED, a failed outcome_unknown
    ",
    ),
    case(
        "a signal that does not come is a timeout, which trying again will not mend",
        "w = signal(go, within 5s) retry 3; x needs w",
        "
        start   -> w WAITING, due 5s
        wait 5s -> w TIMED_OUT, execution FAILED, failure timeout
    ",
    ),
    case(
        "control nodes are retried where the policy names their failure",
        "w = signal(go, within 5s) retry 2 wait 1s on=timeout",
        "
        start   -> w WAITING, due 5s
        wait 5s -> w WAITING, due 1s
        wait 1s -> w WAITING, w attempt 2, due 5s
        signal go -> execution COMPLETED
    ",
    ),
    case(
        "a lost attempt is not a try",
        "a retry 1",
        "
        start
        lose a  -> a WAITING, a lost 1, due 0s
        wait 0s -> a RUNNING, a attempt 2, runs a
        complete a -> execution COMPLETED
    ",
    ),
    case(
        "a worker that stopped by itself has lost the attempt",
        "a",
        "
        start
        stopped a -> a WAITING, a lost 1
    ",
    ),
    case(
        "later losses wait, and the fifth is for a person",
        "a; b",
        "
        start
        lose a     -> due 0s
        wait 0s
        lose a
        wait 5m    -> a RUNNING, a attempt 3
        lose a
        wait 5m
        lose a
        wait 5m    -> a attempt 5
        lose a     -> execution QUARANTINED, a WAITING, b WAITING, stops b, a lost 5
        take-over  -> execution RESUMING(quarantined), logs RunOwned
        resume     -> execution RUNNING, a lost 0, b lost 0
        wait 5m    -> a+b RUNNING, a attempt 6, b attempt 2
    ",
    ),
    case(
        "an attempt that its worker gives back is made again at once and not counted",
        "a retry 1",
        "
        start
        give-back a -> a WAITING, a lost 0, due 0s
        wait 0s     -> a RUNNING, a attempt 2, runs a
        give-back a
        wait 0s     -> a RUNNING, a attempt 3, a lost 0
    ",
    ),
    case(
        "an attempt that could not use the blob store waits for it, longer each time, and is not counted",
        "a retry 2 wait 9s",
        "
        start
        fail a blob_store retry -> a WAITING, a failed blob_store, a lost 0, runs
        wait 999ms              -> nothing
        wait 1s                 -> a RUNNING, a attempt 2, runs a
        fail a blob_store retry
        wait 1999ms             -> nothing
        wait 1s                 -> a attempt 3
        fail a blob_store retry
        wait 5s                 -> a attempt 4
        fail a blob_store retry
        wait 10s                -> a attempt 5
        fail a blob_store retry
        wait 20s                -> a attempt 6
        fail a blob_store retry
        wait 40s                -> a attempt 7
        fail a blob_store retry
        wait 72s                -> a attempt 8
        fail a blob_store retry -> a lost 0, execution RUNNING
        wait 59s                -> nothing
        wait 13s                -> a attempt 9
        fail a http retry       -> a WAITING, due 9s
        wait 9s                 -> a attempt 10
        fail a http retry       -> a FAILED, a failed http
    ",
    ),
    case(
        "a wait for the blob store ends with the node's deadline",
        "a deadline 10s error late; b needs a:late",
        "
        start
        fail a blob_store retry
        wait 2s                 -> a RUNNING, due 8s
        fail a blob_store retry
        wait 3s
        fail a blob_store retry
        wait 4900ms             -> a RUNNING, due 100ms
        fail a blob_store retry -> a WAITING, due 100ms
        wait 100ms              -> a TIMED_OUT, a failed timeout, runs b
    ",
    ),
    case(
        "a wait for the blob store ends with a cancellation",
        "a; b needs a",
        "
        start
        fail a blob_store retry -> a WAITING
        cancel                  -> execution CANCELLED, a CANCELLED
    ",
    ),
    case(
        "an at-most-once attempt that could not use the blob store has failed, unless nothing was sent",
        "a once error lost; b needs a:lost; c once",
        "
        start
        fail a blob_store retry        -> a FAILED, a failed blob_store, runs b
        fail c blob_store retry unsent -> c WAITING
    ",
    ),
    case(
        "an at-most-once attempt that is given back has an unknown outcome",
        "a once error unsure; b needs a:unsure",
        "
        start
        give-back a -> a FAILED, a failed outcome_unknown, runs b
    ",
    ),
    case(
        "an at-most-once attempt that is lost has an unknown outcome",
        "a once error unsure; b needs a:unsure",
        "
        start
        lose a -> a FAILED, a failed outcome_unknown, runs b
    ",
    ),
    case(
        "a mark is kept for later attempts",
        "a retry 2",
        r#"
        start
        mark a {"page":3} -> a RUNNING, a marked {"page":3}
        mark a {"page":3} -> nothing
        fail a x retry
        wait 1s           -> a marked {"page":3}, a attempt 2
    "#,
    ),
    case(
        "bug: a mark of null was read back from a snapshot as none",
        "a",
        "
        start
        mark a null -> a RUNNING, a marked null
    ",
    ),
];
