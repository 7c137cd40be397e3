//! Attempts that remote workers make: who may say what of one, before it has started, while it
//! runs, and when it is long over.

use super::script::{Case, case, check};

#[test]
fn an_attempt_remote_is_held_by_one() {
    check(CASES);
}

pub(crate) const CASES: &[Case] = &[
    case("never in a slot", "a = worker; b", "
        start          -> offers a, runs b, a QUEUED
        start-queued a -> offers a, a QUEUED
    "),
    case("a start, a mark and an end", "a = worker; b needs a", "
        start              -> offers a
        far 1 start a      -> logs NodeStarted, a RUNNING, a is at 1
        far 1 start a      -> nothing
        far 1 mark a 5     -> a marked 5
        far 1 mark a 5     -> nothing
        far 1 complete a 7 -> a COMPLETED, a gives 7, runs b
    "),
    case("marks that were counted stay in order", "a = worker", "
        start
        far 1 mark a 5 1  -> logs NodeStarted NodeCheckpointed, a marked 5
        far 1 mark a 6 2  -> a marked 6
        far 1 mark a 5 1  -> nothing
        far 1 mark a 7 2  -> nothing
        far 1 mark a 5 3  -> logs NodeCheckpointed, a marked 5
        far 1 lose a      -> a WAITING
        wait 0s           -> a attempt 2, offers a
        far 2 mark a 8 1  -> logs NodeStarted NodeCheckpointed, a marked 8
    "),
    case("an at-most-once attempt that was given up before anything was sent", "a = worker once", "
        start
        far 1 start a                  -> a is at 1
        far 1 give-up a x retry unsent -> a WAITING, a lost 1
        wait 0s                        -> a attempt 2, offers a
        far 1 give-up a x retry        -> a FAILED, a failed outcome_unknown
    "),
    case("an end before any start is both", "a = worker retry 2; b = worker; c = worker; d = worker; e", "
        start
        far 1 complete b 3   -> logs NodeStarted NodeCompleted, b gives 3
        far 1 fail a x retry -> logs NodeStarted NodeFailed, a WAITING
        far 1 lose c         -> logs NodeStarted NodeFailed, c WAITING, c lost 1
        far 1 stopped d      -> logs NodeStarted NodeFailed, d WAITING, d lost 1
        wait 0s              -> c+d QUEUED, c attempt 2, d attempt 2, offers c d
        far 1 mark c 4       -> logs NodeStarted NodeCheckpointed, c marked 4, c is at 1
    "),
    case("another worker's start, mark and end", "a = worker", "
        start
        far 1 start a    -> a is at 1
        far 2 start a    -> refused another worker
        far 2 mark a 1   -> refused another worker
        far 2 complete a -> refused another worker
        far 2 fail a     -> refused another worker
        far 1 complete a -> execution COMPLETED
    "),
    case("an attempt in a slot is not held by a remote worker", "a", "
        start
        far 1 start a    -> refused another worker
        far 1 complete a -> refused another worker
        complete a       -> execution COMPLETED
    "),
    case("an attempt that waits for a slot may be taken by a remote worker", "a; b needs a", "
        start slots 0
        far 1 start a      -> a RUNNING, a is at 1
        slots 1
        start-queued a     -> nothing
        far 1 complete a 2 -> a gives 2, runs b
    "),
    case("a slot was faster", "a", "
        start slots 0
        slots 1
        start-queued a   -> runs a
        far 1 start a    -> refused another worker
    "),
    case("the same end again, and another one", "a = worker; b", "
        start
        far 1 complete a 7 -> a COMPLETED
        far 1 complete a 7 -> nothing
        far 1 start a      -> nothing
        far 1 complete a 8 -> refused stale
        far 1 fail a       -> refused stale
        far 1 mark a 1     -> refused stale
        far 2 complete a 7 -> refused stale
        complete b         -> execution COMPLETED
        far 1 complete a 7 -> nothing
        far 1 complete a 8 -> refused ended
    "),
    case("the same end again, when later attempts are made", "a = worker retry 3 after 1s", "
        start
        far 1 fail a x retry   -> a WAITING
        far 1 fail a x retry   -> nothing
        wait 1s                -> a QUEUED, a attempt 2, offers a
        far 1 fail a@1 x retry -> nothing
        far 1 complete a@1     -> refused stale
        far 2 start a          -> a is at 2
        far 1 fail a@1 x retry -> nothing
        far 1 start a@1        -> nothing
        far 2 lose a           -> a lost 1
        wait 0s                -> a attempt 3
        far 2 lose a@2         -> nothing
        far 3 stopped a        -> a lost 2
        far 3 stopped a@3      -> nothing
    "),
    case("an end that was recorded as something else comes again", "a = worker once error x; b needs a:x", "
        start
        far 1 fail a timeout -> a FAILED, a failed outcome_unknown, runs b
        far 1 fail a timeout -> nothing
        far 1 complete a     -> refused stale
    "),
    case("variables that cannot be computed", "a = worker set v = output.x.y error x always; b needs a:x", "
        start
        far 1 complete a 1 -> a FAILED, runs b
        far 1 complete a 1 -> nothing
    "),
    case("a take-over leaves it alone", "a = worker; b; c = worker", "
        start
        far 1 start a
        take-over        -> a RUNNING, a is at 1, a attempt 1, b attempt 2, b lost 1, c attempt 1, offers c
        far 1 mark a 3   -> a marked 3
        far 1 complete a -> a COMPLETED
        far 2 complete c -> c COMPLETED
        complete b       -> execution COMPLETED
    "),
    case("a take-over while it is being cancelled", "a = worker; b", "
        start
        far 1 start a
        cancel          -> execution ENDING, stops a b
        take-over       -> execution ENDING, a RUNNING, b CANCELLED
        far 1 stopped a -> a CANCELLED, execution CANCELLED
        far 1 stopped a -> nothing
        far 1 lose a    -> nothing
        far 1 complete a -> refused ended
    "),
    case("the grace time ends, and its worker has not spoken", "a = worker", "
        start
        far 1 start a
        cancel           -> stops a
        wait 10s         -> a CANCELLED, execution CANCELLED
        far 1 complete a -> refused ended
    "),
    case("cancelled before anybody took it", "a = worker", "
        start
        cancel           -> execution CANCELLED, stops
        far 1 start a    -> refused ended
    "),
    case("silent beyond its time", "a = worker timeout 10s retry 2 after 1s", "
        start
        later 1h
        far 1 start a    -> due 15s
        wait 14s         -> nothing
        wait 1s          -> a WAITING, a failed timeout, stops a
        far 1 complete a -> refused stale
    "),
    case("a take-over goes on counting its time", "a = worker timeout 10s", "
        start
        far 1 start a
        later 9s
        take-over -> due 6s
        wait 6s   -> a TIMED_OUT, execution FAILED
    "),
    case("a pause awaits it, and nothing else begins", "a = worker; b = worker; c = worker", "
        start
        far 1 start a
        pause              -> execution PAUSING
        far 2 start b      -> refused paused
        far 2 mark b 1     -> refused paused
        far 2 stopped b    -> refused paused
        far 2 lose b       -> refused paused
        far 2 complete b 5 -> logs NodeStarted NodeCompleted, b gives 5
        far 1 complete a 1 -> execution PAUSED
        far 1 complete a 1 -> nothing
        resume             -> offers c
        far 2 complete c   -> execution COMPLETED
    "),
    case("what was done before a pause is a fact", "a = worker; b needs a", "
        start
        pause              -> execution PAUSED
        far 1 start a      -> refused paused
        far 1 complete a 7 -> logs RunOwned NodeStarted NodeCompleted RunPaused, a gives 7, b PENDING, execution PAUSED
        resume             -> runs b
    "),
    case("what is done while it is held ends when it goes on", "a = worker", "
        start
        pause              -> execution PAUSED
        far 1 complete a 7 -> a COMPLETED, execution PAUSED
        resume             -> execution COMPLETED
    "),
    case("what failed before a pause ends it", "a = worker; b = worker", "
        start
        pause        -> execution PAUSED
        far 1 fail a -> a FAILED, b CANCELLED, execution FAILED
    "),
    case("what was stopped before it was set aside changes nothing", "a = worker; b", "
        start
        lose-4 b
        lose b          -> execution QUARANTINED
        far 1 stopped a -> refused paused
        far 1 lose a    -> refused paused
        resume          -> offers a
    "),
    case("what was done before it was set aside is a fact", "a = worker; b needs a; c", "
        start
        lose-4 c
        lose c             -> execution QUARANTINED
        far 1 complete a 7 -> a gives 7, b PENDING, execution QUARANTINED
        resume             -> runs b
    "),
    case("a pause at once closes it", "a = worker; b", "
        start
        far 1 start a
        pause-now        -> a WAITING, stops a b, execution PAUSED
        far 1 complete a -> refused stale
    "),
    case("a quarantine closes it", "a = worker; b", "
        start
        far 1 start a
        lose-4 b
        lose b           -> stops a, execution QUARANTINED, a WAITING
        far 1 complete a -> refused stale
    "),
    case("lost too often", "a = worker", "
        start
        far 1 lose a -> a lost 1
        wait 5m
        far 1 lose a
        wait 5m
        wait 5m
        far 1 lose a
        wait 5m
        far 1 lose a
        wait 5m
        far 1 lose a -> execution QUARANTINED
    "),
    case("it never waits parked", "a = worker", "
        start
        park             -> refused something to do
        far 1 start a
        park             -> refused something to do
    "),
    case("a mark is there for the next attempt", "a = worker retry 2 after 1s", "
        start
        far 1 mark a 5
        far 1 fail a x retry
        wait 1s -> a attempt 2, a marked 5
    "),
    case("a config that cannot be rendered", "a = worker error x always; b needs a:x; c = worker retry 2 after 1s", "
        start
        unofferable a   -> logs NodeStarted NodeFailed NodeScheduled NodeStarted, a FAILED, runs b
        unofferable a   -> nothing
        unofferable c@2 -> nothing
        far 1 start c
        unofferable c   -> nothing
    "),
    case("a mistake in the definition that passed onError by is known when it is said again", "a = worker error x; b needs a:x", "
        start
        far 1 fail a expression -> a FAILED, b CANCELLED, execution FAILED
        far 1 fail a expression -> nothing
    "),
    case("a repair remembers", "a = worker", "
        start
        far 1 fail a     -> execution FAILED
        reopen           -> a QUEUED, a attempt 2, offers a
        far 1 fail a@1   -> nothing
        far 1 complete a -> execution COMPLETED
    "),
    case("a control node belongs to no worker", "w = signal(go)", "
        start
        far 1 complete w -> refused stale
    "),
];
