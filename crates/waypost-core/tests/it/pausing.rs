//! Pauses, by users and by waits, and what is set aside.

use super::script::{Case, case, check};

#[test]
fn paused_execution_starts_nothing_until_it_is_resumed() {
    check(CASES);
}

pub(crate) const CASES: &[Case] = &[
    case(
        "a pause awaits what runs and opens nothing",
        "a; b needs a; c",
        "
        start      -> a+c RUNNING
        pause      -> execution PAUSING, logs RunPauseRequested, stops
        complete a -> a COMPLETED, b PENDING, execution PAUSING, runs
        complete c -> execution PAUSED, logs NodeCompleted RunPaused
        resume     -> execution RUNNING, runs b
    ",
    ),
    case(
        "a pause with nothing running is complete at once",
        "w = signal(go)",
        "
        start
        pause -> execution PAUSED, logs RunPauseRequested RunPaused
    ",
    ),
    case(
        "a pause now stops what runs, and it is tried again",
        "a retry 1; b",
        "
        start
        pause-now  -> execution PAUSED, a+b WAITING, stops a b
        complete a -> refused stale
        resume     -> execution RUNNING, a lost 0
        wait 0s    -> a+b RUNNING, a attempt 2, runs a b
    ",
    ),
    case(
        "bug: a pause now started an at-most-once attempt a second time",
        "a once; b",
        "
        start
        pause-now  -> execution PAUSING, a RUNNING, b WAITING, stops b
        complete a -> execution PAUSED, a COMPLETED
    ",
    ),
    case(
        "bug: a pause that was taken back at once counted as a loss",
        "a; c = if(true) needs a; b",
        "
        start
        hold
        complete a -> c RUNNING
        pause-now  -> execution PAUSING, b lost 1
        resume     -> execution RUNNING, b lost 0, evaluates c
    ",
    ),
    case(
        "a failure while pausing is retried after the pause",
        "a retry 3",
        "
        start
        pause
        fail a x retry -> execution PAUSED, a WAITING, due never
        wait 1m        -> nothing
        resume         -> execution RUNNING
        wait 0s        -> a RUNNING, a attempt 2
    ",
    ),
    case(
        "a failure while pausing that ends the execution",
        "a; b",
        "
        start
        pause
        fail a -> execution ENDING, stops b
    ",
    ),
    case(
        "nothing starts while pausing, from a queue either",
        "a; b",
        "
        start slots 1  -> b QUEUED
        pause          -> execution PAUSING
        slots 1
        start-queued b -> nothing
        complete a     -> execution PAUSED
        resume         -> runs b
    ",
    ),
    case(
        "time and signals are noted while a user holds",
        "d = delay(5s); w = signal(go, within 20s); x needs d, w",
        "
        start
        pause     -> execution PAUSED, due never
        wait 10s  -> nothing
        signal go -> w WAITING, early 1
        resume    -> w COMPLETED, d WAITING, execution RUNNING
        wait 0s   -> d COMPLETED, runs x
    ",
    ),
    case(
        "bug: a signal that came during a pause went to one wait only",
        "v = signal(go); w = signal(go)",
        "
        start
        pause
        signal go 1
        signal go 2
        resume    -> v+w COMPLETED, v gives 1, w gives 1, early 1, execution COMPLETED
    ",
    ),
    case(
        "bug: nodes that a skip opens at a resume were forgotten when they stand before it",
        "last needs mid; mid needs c:true; c = if(false) needs a; a",
        "
        start
        pause
        complete a -> execution PAUSED, c PENDING
        resume     -> c COMPLETED, mid+last SKIPPED, execution COMPLETED
    ",
    ),
    case(
        "bug: what a skip opens while resuming stands before it",
        "last needs mid, b; mid needs c:true; c = if(false); b",
        "
        start      -> mid SKIPPED, last PENDING
        pause
        complete b -> execution PAUSED, last PENDING
        resume     -> last RUNNING
    ",
    ),
    case(
        "bug: skips that a resume finds in a definition written backwards",
        "z needs y; y needs x:yes; x; w",
        "
        start
        pause
        complete x -> execution PAUSING
        complete w -> execution PAUSED, y+z PENDING
        resume     -> y+z SKIPPED, execution COMPLETED
    ",
    ),
    case(
        "bug: an owner would spin on a wait that may not end while pausing",
        "a; d = delay(5s)",
        "
        start   -> due 5s
        pause   -> execution PAUSING, due never
        wait 5s -> nothing
        resume  -> due 0s
    ",
    ),
    case(
        "an evaluation is finished before the pause is",
        "a; c = if(true) needs a; x needs c:true",
        "
        start
        hold
        complete a -> evaluates c
        pause      -> execution PAUSING
        evaluate c -> c COMPLETED, x PENDING, execution PAUSED
    ",
    ),
    case(
        "an evaluation that begins to wait is finished too",
        "a; d = delay(5s) needs a",
        "
        start
        hold
        complete a
        pause
        evaluate d -> d WAITING, execution PAUSED
        resume
        wait 5s    -> execution COMPLETED
    ",
    ),
    case(
        "every node settled: there is nothing to pause",
        "a",
        "
        start
        pause      -> execution PAUSING
        complete a -> execution COMPLETED
    ",
    ),
    case(
        "every node settled, one unhandled: nothing to pause either",
        "partial; a",
        "
        start
        pause
        fail a     -> execution FAILED
    ",
    ),
    case(
        "pausing twice",
        "a",
        "
        start
        pause      -> execution PAUSING
        pause      -> refused already paused
        pause #l   -> logs MessageIgnored, execution PAUSING
        signal go  -> execution PAUSING, early 1
        lose a     -> execution PAUSED
        pause      -> refused already paused
        pause #m   -> logs MessageIgnored, execution PAUSED
    ",
    ),
    case(
        "resuming what is not paused",
        "a; w = signal(go) needs a",
        "
        start
        resume     -> refused not paused
        resume #m  -> logs MessageIgnored, execution RUNNING
        resume #m  -> refused already received
        complete a
        park       -> execution WAITING
        resume     -> refused nothing to resume
        resume #n  -> logs MessageIgnored, execution WAITING
    ",
    ),
    case(
        "bug: a pause that came a second time paused again",
        "a",
        "
        start
        pause #m1  -> execution PAUSING
        resume #m2 -> execution RUNNING
        pause #m1  -> refused already received
        resume #m2 -> refused already received
    ",
    ),
    case(
        "a pause of what is parked",
        "w = signal(go); d = delay(5s)",
        "
        start
        park       -> execution WAITING, due 5s
        pause      -> execution PAUSED, due never
        take-over  -> execution RESUMING(paused)
        park       -> execution PAUSED
        take-over
        resume     -> execution RUNNING
        wait 5s    -> d COMPLETED
    ",
    ),
    case(
        "a pause as mail to what is parked",
        "w = signal(go)",
        "
        start
        park
        own        -> execution RESUMING
        pause #m   -> execution PAUSED
        recover    -> nothing
    ",
    ),
    case(
        "parking is refused while there is something to do",
        "a; w = signal(go) needs a",
        "
        start
        park       -> refused something to do
        pause
        park       -> refused something to do
        resume
        complete a
        park       -> execution WAITING, paused waits, due never
        park       -> refused something to do
        cancel     -> execution CANCELLED
        park       -> refused something to do
    ",
    ),
    case(
        "what is queued is something to do",
        "a",
        "
        start slots 0
        park       -> refused something to do
        pause      -> execution PAUSED
    ",
    ),
    case(
        "a parked execution acts on nothing until an instance takes it over",
        "w = signal(go); d = delay(5s); a needs w",
        "
        start
        park
        signal go  -> w WAITING, early 1, execution WAITING
        wait 5s    -> nothing
        take-over  -> w+d COMPLETED, runs a, execution RUNNING, paused no
    ",
    ),
    case(
        "set aside, with everything that runs",
        "a; b = if(true) needs c; c; w = signal(go); d",
        "
        start
        hold
        complete c -> b RUNNING
        lose-4 d
        lose d     -> execution QUARANTINED, a+b WAITING, w WAITING, stops a, due never
        evaluate b@1 -> nothing
        pause      -> refused already paused
        signal go  -> early 1
        pause #m   -> logs MessageIgnored, execution QUARANTINED
        own        -> execution RESUMING(quarantined)
        take-over  -> execution RESUMING(quarantined)
        signal halt -> early 2
        pause #n   -> logs MessageIgnored
        park       -> execution QUARANTINED
        resume     -> w COMPLETED, execution RUNNING
        wait 0s    -> a+b RUNNING, b attempt 2
    ",
    ),
    case(
        "set aside while pausing",
        "a; b",
        "
        start
        lose-4 a
        pause      -> execution PAUSING
        lose a     -> execution QUARANTINED, a+b WAITING, stops b
        resume     -> execution RUNNING
    ",
    ),
    case(
        "set aside with an at-most-once attempt, whose outcome is then unknown",
        "a; b once; c needs b",
        "
        start
        lose-4 a
        lose a     -> execution FAILED, b failed outcome_unknown, a CANCELLED
    ",
    ),
    case(
        "set aside with an at-most-once attempt that is handled",
        "a; b once error unsure; c needs b:unsure",
        "
        start
        lose-4 a
        lose a     -> execution QUARANTINED, b FAILED, c PENDING, runs
        resume     -> runs c
    ",
    ),
    case(
        "set aside, resumed and cancelled",
        "a",
        "
        start
        lose-4 a
        lose a     -> execution QUARANTINED
        resume     -> execution RUNNING
        wait 5m    -> a RUNNING
        lose-4 a
        lose a     -> execution QUARANTINED
        cancel     -> execution CANCELLED
    ",
    ),
];
