//! Take-overs: another instance goes on from the log.

use super::script::{Case, case, check};

#[test]
fn execution_taken_over_by_an_instance_continues() {
    check(CASES);
}

pub(crate) const CASES: &[Case] = &[
    case("scheduled and not started: the same attempt", "a", "
        start slots 0 -> offers a
        take-over     -> a QUEUED, a attempt 1, offers a
        slots 1
        take-over     -> a RUNNING, a attempt 1, runs a
    "),
    case("started: the attempt is lost, the next begins", "a retry 1", "
        start
        take-over    -> logs RunOwned NodeFailed NodeScheduled NodeStarted, a RUNNING, a attempt 2, a lost 1, runs a
        complete a@1 -> refused stale
        complete a@2 -> execution COMPLETED
    "),
    case("a control node is evaluated again, as the same attempt", "a; c = if(true) needs a", "
        start
        hold
        complete a -> c RUNNING
        take-over  -> c RUNNING, c attempt 1, evaluates c, logs RunOwned
        evaluate c -> execution COMPLETED
    "),
    case("an at-most-once attempt has an unknown outcome", "a once error unsure; b needs a:unsure", "
        start
        take-over -> a FAILED, a failed outcome_unknown, runs b
    "),
    case("an at-most-once attempt that nothing handles", "a once; b", "
        start
        take-over -> execution FAILED, a FAILED, b CANCELLED
    "),
    case("lost too often: a person has to look", "a; b", "
        start
        take-over -> a+b RUNNING, a lost 1
        take-over -> a+b WAITING, a lost 2
        wait 5m   -> a+b RUNNING
        take-over
        wait 5m
        take-over
        wait 5m   -> a attempt 5, b attempt 5
        take-over -> execution QUARANTINED, a lost 5, a+b WAITING
        take-over -> execution RESUMING(quarantined)
        resume    -> a lost 0
        wait 5m   -> a+b RUNNING
    "),
    case("an orderly stop is no loss, however often", "a retry 1; b", "
        start
        hand-over -> logs NodeFailed NodeFailed, a+b WAITING, a failed handed_over, a lost 0, stops a b, due 0s
        take-over -> a+b RUNNING, a attempt 2, runs a b
        hand-over
        take-over -> a attempt 3
        hand-over
        take-over -> a attempt 4
        hand-over
        take-over -> a attempt 5
        hand-over
        take-over -> a attempt 6
        hand-over
        take-over -> execution RUNNING, a+b RUNNING, a attempt 7, a lost 0, b lost 0
        complete a
        complete b -> execution COMPLETED
    "),
    case("losses between orderly stops are counted", "a", "
        start
        lose a
        wait 0s
        lose a
        wait 5m
        lose a
        wait 5m
        lose a
        wait 5m   -> a attempt 5, a lost 4
        hand-over -> a lost 4, due 0s
        take-over -> a RUNNING, a attempt 6
        lose a    -> execution QUARANTINED, a lost 5
    "),
    case("an orderly stop leaves an at-most-once attempt to the next owner", "a once error unsure; b needs a:unsure", "
        start
        hand-over -> nothing
        take-over -> a FAILED, a failed outcome_unknown, runs b
    "),
    case("an orderly stop of an execution that is ending", "a; b", "
        start
        cancel
        hand-over -> nothing
        take-over -> a+b CANCELLED, execution CANCELLED
    "),
    case("an orderly stop of an execution that is pausing", "a", "
        start
        pause
        hand-over -> a WAITING, a lost 0, execution PAUSED
    "),
    case("ENDING is brought to its end", "a; b", "
        start
        cancel    -> execution ENDING
        take-over -> a+b CANCELLED, execution CANCELLED
    "),
    case("PAUSING is brought to its pause", "a; c = if(true) needs d; d", "
        start
        hold
        complete d -> c RUNNING
        pause      -> execution PAUSING
        take-over  -> a WAITING, c RUNNING, evaluates c, execution PAUSING
        evaluate c -> execution PAUSED
    "),
    case("held stays held", "a; d = delay(1s)", "
        start
        pause-now -> execution PAUSED
        later 1h
        take-over -> execution RESUMING(paused), logs RunOwned, a+d WAITING, due never
        park      -> execution PAUSED
    "),
    case("parked, with what is due", "d = delay(5s); a needs d; w = signal(go)", "
        start
        park      -> execution WAITING, due 5s
        later 5s
        take-over -> logs RunOwned RunResumed NodeResumed NodeCompleted NodeScheduled NodeStarted, runs a, execution RUNNING
    "),
    case("parked, taken over too early, parked again", "d = delay(5s)", "
        start
        park
        take-over -> execution RUNNING, d WAITING, due 5s
        park      -> execution WAITING
        own       -> execution RESUMING
        park      -> refused something to do
    "),
    case("parked with a retry to come", "a retry 2 wait 1m", "
        start
        fail a x retry
        park      -> execution WAITING, due 1m
        later 1m
        take-over -> a RUNNING, a attempt 2
    "),
    case("bug: what mail had started after a take-over was closed as lost", "w = signal(go); a needs w", "
        start
        park
        own
        signal go -> a RUNNING, runs a, execution RUNNING, paused no
        recover   -> a RUNNING, a attempt 1, a lost 0, runs
        complete a -> execution COMPLETED
    "),
    case("bug: what a resume had started after a take-over was closed as lost", "a", "
        start slots 0
        pause     -> execution PAUSED
        slots 1
        own       -> execution RESUMING(paused)
        resume #m -> a RUNNING, runs a
        recover   -> a RUNNING, a attempt 1, runs
    "),
    case("mail may end what is being taken over", "w = signal(go)", "
        start
        park
        own
        signal go -> execution COMPLETED, paused no
        recover   -> nothing
    "),
    case("mail may fail what is being taken over", "partial; w = signal(go); a error continue", "
        start
        fail a
        park
        own
        signal go -> execution COMPLETED
    "),
    case("mail may bring a failed end to what is being taken over", "partial; w = signal(go); a", "
        start
        fail a
        park
        own       -> execution RESUMING
        signal go -> execution FAILED
    "),
    case("mail may be ignored by, or cancel, what is being taken over", "w = signal(go)", "
        start
        park
        own        -> execution RESUMING
        own        -> execution RESUMING
        signal halt -> execution RESUMING
        resume #m  -> logs MessageIgnored, execution RESUMING
        cancel     -> execution CANCELLED
    "),
    case("the report of a worker that outlived its owner", "a; b needs a", "
        start
        own
        complete a -> a COMPLETED, runs b
        recover    -> b RUNNING, b attempt 1, runs
    "),
    case("completions while pausing open their successors on resume", "a; b needs a; c = if(false) needs a; d needs c:true", "
        start
        pause
        complete a -> execution PAUSED
        own
        resume     -> runs b, c COMPLETED, d SKIPPED
        recover    -> runs
    "),
    case("a deadline that passed meanwhile", "a; w = signal(go)", "
        start within 1m
        later 2m
        take-over -> execution TIMED_OUT, a CANCELLED, runs
    "),
    case("a node's deadline that passed meanwhile", "a deadline 1m error late; b needs a:late", "
        start slots 0
        slots 1
        later 2m
        take-over -> a TIMED_OUT, runs b, stops
    "),
    case("a recovery without a take-over changes nothing", "a; c = if(true) needs d; d; w = signal(go)", "
        start
        recover -> a RUNNING, a attempt 1, runs, w WAITING
    "),
];
