//! Ends: cancel, failure, deadline; the grace time; nothing after the end.

use super::script::{Case, case, check};

#[test]
fn the_first_cause_fixes_the_end() {
    check(CASES);
}

pub(crate) const CASES: &[Case] = &[
    case("a cancel stops what runs and awaits it", "a; b needs a; w = signal(go)", "
        start
        cancel     -> execution ENDING, logs RunEnding NodeCancelled, a RUNNING, b+w CANCELLED, stops a, due 10s
        stopped a  -> a CANCELLED, execution CANCELLED, logs NodeCancelled RunCancelled, due never
    "),
    case("before hand-off no worker hears of it", "a; b", "
        start slots 1 -> b QUEUED
        cancel        -> b CANCELLED, stops a
    "),
    case("what is queued alone ends at once", "a", "
        start slots 0
        cancel -> a CANCELLED, execution CANCELLED, stops
    "),
    case("reports in ENDING are facts", "a; b; c; d retry 3; after needs a", "
        start
        cancel
        complete a 1    -> a COMPLETED, after CANCELLED, execution ENDING
        fail b broken   -> b FAILED, execution ENDING
        mark c 1        -> c RUNNING
        lose c          -> c CANCELLED
        fail d x retry  -> d FAILED, execution CANCELLED, failure none
    "),
    case("the grace time ends", "a; b", "
        start
        cancel
        wait 9s    -> nothing
        complete b -> b COMPLETED
        wait 1s    -> a CANCELLED, execution CANCELLED
        complete a -> refused ended
    "),
    case("a silent attempt in ENDING", "a timeout 1s; b", "
        start
        cancel
        wait 6s -> a TIMED_OUT, execution ENDING, due 4s
    "),
    case("an evaluation in ENDING does not happen", "a; c = if(true) needs a", "
        start
        hold
        complete a -> c RUNNING
        cancel     -> c CANCELLED, execution CANCELLED
        evaluate c -> nothing
    "),
    case("later causes are noted, not obeyed", "a; b", "
        start within 5s
        fail a broken -> execution ENDING, stops b
        cancel        -> refused already ending
        cancel #m     -> logs MessageIgnored
        pause         -> refused already ending
        pause #n      -> logs MessageIgnored
        resume        -> refused already ending
        signal go     -> refused already ending
        signal go #p  -> logs MessageIgnored, early 0
        park          -> refused something to do
        reopen        -> refused only an execution that failed
        reopen #o     -> logs MessageIgnored
        wait 5s       -> nothing
        wait 5s       -> b CANCELLED, execution FAILED, failure broken
    "),
    case("a failure stops the others", "a; b; c needs b", "
        start
        fail a broken -> execution ENDING, c CANCELLED, stops b, logs NodeFailed RunEnding
        stopped b     -> execution FAILED, failure broken
    "),
    case("the deadline of an execution", "a; w = signal(go)", "
        start within 1m -> due 1m
        wait 1m         -> execution ENDING, w CANCELLED, stops a
        stopped a       -> execution TIMED_OUT
    "),
    case("the deadline strikes while a user holds", "d = delay(5s); w = signal(go)", "
        start within 1m
        pause     -> execution PAUSED, due 1m
        later 1m
        take-over -> execution TIMED_OUT, d+w CANCELLED
    "),
    case("the deadline strikes while pausing", "a", "
        start within 1m
        pause     -> execution PAUSING, due 1m
        wait 1m   -> execution ENDING
    "),
    case("the deadline strikes in quarantine", "a", "
        start within 1h
        lose-4 a
        lose a     -> execution QUARANTINED, due 40m
        wait 40m   -> execution TIMED_OUT
    "),
    case("the deadline strikes while parked", "w = signal(go)", "
        start within 1m
        park       -> due 1m
        wait 1m    -> execution TIMED_OUT
    "),
    case("bug: an owner would spin on a node's deadline that may not strike while ending", "a deadline 3s", "
        start
        cancel  -> due 10s
        wait 3s -> nothing
    "),
    case("a cancel while pausing, held, parked, before it is owned", "a; w = signal(go)", "
        start
        pause     -> execution PAUSING
        cancel    -> execution ENDING
        stopped a -> execution CANCELLED
    "),
    case("a cancel of what is held", "w = signal(go)", "
        start
        pause     -> execution PAUSED
        cancel    -> execution CANCELLED, logs RunEnding NodeCancelled RunCancelled
    "),
    case("a cancel of what is parked", "w = signal(go)", "
        start
        park
        cancel    -> execution CANCELLED
    "),
    case("a cancel of an execution without an owner", "a", "
        born      -> execution REQUESTED
        cancel    -> execution CANCELLED, a CANCELLED
    "),
    case("an execution without an owner records requests and waits", "a", "
        born
        signal go  -> early 1, execution REQUESTED
        wait 1m    -> nothing
        recover    -> nothing
        park       -> refused something to do
        resume #m  -> logs MessageIgnored
        pause      -> execution PAUSED
        resume     -> execution RUNNING, runs a
    "),
    case("an execution that was just taken over accepts every request", "a", "
        born
        own        -> execution SCHEDULED
        own        -> execution SCHEDULED
        signal go  -> execution SCHEDULED
        resume #m  -> logs MessageIgnored, execution SCHEDULED
        pause      -> execution PAUSED
        own        -> execution RESUMING(paused)
        own        -> execution RESUMING(paused)
        signal go  -> execution RESUMING(paused)
        pause #n   -> logs MessageIgnored
        resume     -> execution RUNNING
    "),
    case("bug: what was just taken could be parked with nothing to wake it", "a", "
        born
        own
        park       -> refused something to do
        recover    -> execution RUNNING, runs a
    "),
    case("what is held and was just taken can be cancelled", "w = signal(go)", "
        start
        pause
        own        -> execution RESUMING(paused)
        cancel     -> execution CANCELLED
    "),
    case("what was just taken can be cancelled", "a", "
        born
        own
        cancel     -> execution CANCELLED
    "),
    case("an execution in quarantine, just taken, can be cancelled", "a", "
        start
        lose-4 a
        lose a     -> execution QUARANTINED
        own        -> execution RESUMING(quarantined)
        cancel     -> execution CANCELLED
    "),
    case("an execution of nothing, taken over", "", "
        born -> execution REQUESTED
        wait 1s -> nothing
        own  -> execution COMPLETED
    "),
    case("after the end there is nothing", "a", "
        start
        complete a -> execution COMPLETED
        complete a -> refused ended
        cancel     -> refused ended
        cancel #m  -> refused ended
        pause      -> refused ended
        resume     -> refused ended
        signal go  -> refused ended
        park       -> refused something to do
        own        -> refused ended
        reopen     -> refused only an execution that failed
        recover    -> nothing
        evaluate a -> nothing
        start-queued a -> nothing
        wait 1h    -> nothing
    "),
];
