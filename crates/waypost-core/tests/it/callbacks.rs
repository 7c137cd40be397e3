//! Operations that an outside system completes: before, while and after the node waits, and twice.

use super::script::{Case, case, check};

#[test]
fn callbacks_complete_operations_once() {
    check(CASES);
}

pub(crate) const CASES: &[Case] = &[
    case(
        "a callback during the wait is the output",
        "p = operation {s}; o = output(${{ nodes.p.output.id }}) needs p",
        r#"
        start                      -> p WAITING, runs p/s
        complete p/s 1             -> p WAITING, due never, logs NodeCompleted NodeWaiting
        callback p p/1 {"id":7} #m -> p COMPLETED, execution COMPLETED, output 7
    "#,
    ),
    case(
        "a callback that comes before the start was recorded is kept and taken",
        "p = operation {s}; z needs p",
        r#"
        start                      -> runs p/s
        callback p p/1 {"id":7} #m -> p WAITING, p/s RUNNING, logs SignalReceived
        callback p p/1 {"id":8} #k -> logs MessageIgnored
        callback p p/1 {"id":8}    -> refused already received
        complete p/s 1             -> p COMPLETED, p gives {"id":7}, runs z
    "#,
    ),
    case(
        "a kept callback survives a failed attempt of the start, and a take-over",
        "p = operation {s retry 3 wait 1s}; z needs p",
        "
        start                -> runs p/s
        callback p p/1 7 #m  -> logs SignalReceived
        fail p/s http retry
        take-over
        wait 10s             -> p/s RUNNING
        complete p/s         -> p COMPLETED, p gives 7
    ",
    ),
    case(
        "the second callback is refused",
        "p = operation {s}; z needs p",
        "
        start
        complete p/s
        callback p p/1 1 #m -> p COMPLETED, runs z
        callback p p/1 1 #m -> refused already received
        callback p p/1 2    -> refused is over
        callback p p/1 2 #k -> logs MessageIgnored, p gives 1
    ",
    ),
    case(
        "a callback after the timeout is refused",
        "p = operation(within 5s) {s} error continue; z needs p",
        "
        start
        complete p/s        -> due 5s
        wait 5s             -> p TIMED_OUT, runs z
        callback p p/1 1    -> refused is over
    ",
    ),
    case(
        "a timeout selects its branch, which others do not follow",
        "p = operation(within 5s, else late) {s}; l needs p:late; z needs p",
        "
        start
        complete p/s
        wait 4s             -> p WAITING
        wait 1s             -> p COMPLETED, runs l, z SKIPPED
        callback p p/1 1    -> refused is over
    ",
    ),
    case(
        "polls that take too long select the branch for that, while one is made",
        "p = polled(late) {s; q = loop(until previous > 2, delay 1s) {c} needs s deadline 5s}; l needs p:late; z needs p",
        "
        start
        complete p/s              -> runs p/q[1]/c
        complete p/q[1]/c 1
        wait 1s                   -> runs p/q[2]/c
        wait 4s                   -> p WAITING, stops p/q[2]/c
        stopped p/q[2]/c          -> p COMPLETED, runs l, z SKIPPED
    ",
    ),
    case(
        "polls that take too long select the branch for that, between two of them",
        "p = polled(late) {s; q = loop(until previous > 2, delay 4s) {c} needs s deadline 5s}; l needs p:late; z needs p",
        "
        start
        complete p/s
        complete p/q[1]/c 1
        wait 4s                   -> runs p/q[2]/c
        complete p/q[2]/c 2
        wait 1s                   -> p COMPLETED, runs l, z SKIPPED
    ",
    ),
    case(
        "polls that end in time select no branch",
        "p = polled(late) {s; q = loop(until previous > 2, delay 1s) {c} needs s deadline 5s}; l needs p:late; z needs p",
        "
        start
        complete p/s
        complete p/q[1]/c 3       -> p COMPLETED, l SKIPPED, runs z
    ",
    ),
    case(
        "a poll that itself takes too long is a failure",
        "p = polled(late) {s; q = loop(until previous > 2) {c deadline 1s} needs s deadline 5s} error continue; l needs p:late; z needs p",
        "
        start
        complete p/s
        wait 1s                   -> p TIMED_OUT, l SKIPPED, runs z
    ",
    ),
    case(
        "a callback after the end of the execution is refused",
        "p = operation {s}",
        "
        start
        complete p/s
        cancel              -> execution CANCELLED
        callback p p/1 1 #m -> refused has ended
    ",
    ),
    case(
        "a failed callback fails the node, and its retry starts another operation",
        "p = operation {s} retry 2 wait 1s; z needs p",
        r#"
        start                                      -> runs p/s
        complete p/s
        callback-failed p p/1 {"message":"no"} #m  -> p WAITING
        callback p p/1 1                           -> refused is over
        wait 1m                                    -> runs p/s
        callback p p/1 1                           -> refused is over
        complete p/s
        callback p p@2/1 2 #k                      -> p COMPLETED, p gives 2, runs z
    "#,
    ),
    case(
        "a failed callback that comes early fails the node when it waits",
        "p = operation {s} error continue; z needs p",
        "
        start                      -> runs p/s
        callback-failed p p/1 7 #m -> p/s RUNNING
        complete p/s               -> p FAILED, runs z
    ",
    ),
    case(
        "a retry of the execution makes the former callback worthless",
        "p = operation(within 5s) {s}",
        "
        start
        complete p/s
        wait 5s               -> execution FAILED
        reopen                -> runs p/s
        complete p/s
        callback p p/1 1      -> refused is over
        callback p p@2/2 2 #m  -> execution COMPLETED
    ",
    ),
    case(
        "callbacks of two items are distinguished",
        "m = map([1,2]) {p = operation {s}}",
        "
        start                         -> runs m[0]/p/s m[1]/p/s
        complete m[0]/p/s
        complete m[1]/p/s
        callback m[1]/p m[0]/p/1 1    -> refused is over
        callback m[1]/p m[1]/p/1 5 #a -> m WAITING
        callback m[0]/p m[0]/p/1 4 #b -> m COMPLETED
    ",
    ),
    case(
        "a callback in a pause is taken after it",
        "p = operation {s}; z needs p",
        "
        start
        complete p/s
        pause               -> execution PAUSED
        callback p p/1 1 #m -> p WAITING
        resume              -> p COMPLETED, p gives 1, runs z
    ",
    ),
    case(
        "a person completes the wait by hand",
        "p = operation {s}; z needs p",
        "
        start
        complete p/s
        end-wait p 9     -> p COMPLETED, p gives 9, runs z
        callback p p/1 1 -> refused is over
    ",
    ),
    case(
        "signals and other nodes are not mistaken for callbacks",
        "p = operation {s}; a; z needs p",
        "
        start
        complete p/s
        signal waypost/callback:p/1 1        -> refused reserved
        signal waypost/callback-failed:p/1 1 -> refused reserved
        callback a a/1 1                     -> refused is over
        callback x x/1 1                     -> refused is over
        callback p/s p/1 1                   -> refused is over
        callback p p/1 1 #m                  -> p COMPLETED
    ",
    ),
    case(
        "an operation whose start fails does not wait",
        "p = operation {s} error continue; z needs p",
        "
        start
        fail p/s broken  -> p FAILED, runs z
        callback p p/1 1 -> refused is over
    ",
    ),
];
