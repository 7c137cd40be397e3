//! Repairs: an execution that ended badly is reopened.

use super::script::{Case, case, check};

#[test]
fn a_repair_runs_again_what_did_not_complete() {
    check(CASES);
}

pub(crate) const CASES: &[Case] = &[
    case("what failed runs again, what completed does not", "a; b needs a; c needs b", "
        start
        complete a 1
        fail b       -> execution FAILED, c CANCELLED
        reopen       -> logs RunReopened RunOwned NodeScheduled NodeStarted, execution RUNNING, generation 2, a COMPLETED, a gives 1, b RUNNING, b attempt 2, c PENDING, runs b
        complete b@1 -> refused stale
        complete b   -> runs c
        complete c   -> execution COMPLETED
    "),
    case("an attempt of the generation before does not fit", "a", "
        start
        cancel
        wait 10s   -> execution CANCELLED
        reopen     -> a RUNNING, a attempt 2
        complete a@1 -> refused stale
        complete a@2 -> execution COMPLETED
    "),
    case("tries are counted anew", "a retry 2", "
        start
        fail a x retry
        wait 1s
        fail a x retry -> execution FAILED
        reopen
        fail a x retry -> a WAITING
    "),
    case("what was skipped behind a failure gets its turn", "partial; a; b needs a; c; m needs b, c", "
        start
        complete c
        fail a     -> b SKIPPED, m RUNNING
        complete m -> execution FAILED
        reopen     -> a RUNNING, b PENDING, m COMPLETED
        complete a -> runs b
        complete b -> execution COMPLETED
    "),
    case("a handled failure stays as it was", "a error continue; b needs a", "
        start
        fail a
        fail b -> execution FAILED
        reopen -> a FAILED, b RUNNING
    "),
    case("bug: what a join had not needed ran in the next generation", "a; b; j needs a, b join any cancel-rest; k needs j", "
        start
        complete a -> b CANCELLED
        complete j
        fail k     -> execution FAILED
        reopen     -> b CANCELLED, k RUNNING, runs k
        complete k -> execution COMPLETED
    "),
    case("a join that failed fires again with what it had", "a; b; j needs a, b join any cancel-rest", "
        start
        complete a -> b CANCELLED, j RUNNING
        fail j     -> execution FAILED
        reopen     -> j RUNNING, j attempt 2, b CANCELLED, runs j
        complete j -> execution COMPLETED
    "),
    case("a timed-out execution can be reopened, and has its time again", "a; b needs a", "
        start within 1m
        wait 1m
        stopped a  -> execution TIMED_OUT
        reopen     -> execution RUNNING, a RUNNING, due 1m
        wait 1m    -> execution ENDING
        stopped a  -> execution TIMED_OUT
    "),
    case("all that was left had completed", "a", "
        start
        cancel
        complete a -> execution CANCELLED
        reopen     -> execution COMPLETED, logs RunReopened RunOwned RunCompleted
    "),
    case("bug: a request to reopen that came a second time reopened again", "a", "
        start
        fail a
        reopen #m  -> generation 2
        fail a     -> execution FAILED
        reopen #m  -> refused already received
        reopen #n  -> generation 3, a attempt 3
    "),
    case("bug: a cancel that came a second time cancelled the next generation", "a", "
        start
        cancel #m
        stopped a  -> execution CANCELLED
        reopen     -> execution RUNNING
        cancel #m  -> refused already received
    "),
    case("waits and signals of the next generation", "w = signal(go); a needs w", "
        start
        signal halt
        cancel      -> execution CANCELLED
        reopen      -> w WAITING, w attempt 2, early 1
        signal go 1 -> runs a
    "),
    case("a reopened execution can be paused, taken over and cancelled", "a", "
        start
        fail a
        reopen
        pause      -> execution PAUSING
        take-over  -> execution PAUSED
        resume
        cancel     -> execution CANCELLED
    "),
    case("a parked execution that was cancelled is reopened awake", "w = signal(go)", "
        start
        park
        cancel -> execution CANCELLED, paused no
        reopen -> execution RUNNING, w WAITING
    "),
];
