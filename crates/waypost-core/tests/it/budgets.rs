//! Budgets: attempts reserve before they start, wait for each other, and count what they used.

use waypost_core::event::{BUDGETS_LOG_FORMAT, Event, NodeEvent};
use waypost_core::flow::plan;

use super::script::{Case, case, check};

#[rustfmt::skip]
pub(crate) const CASES: &[Case] = &[
    case(
        "one attempt",
        "budget 100\na meter 10 5",
        r#"
        start -> a RUNNING, runs a, reserved 15, spent 0
        complete a {"usage":{"inputTokens":3,"outputTokens":2}} -> reserved 0, spent 5, cost 0.000007, logs NodeUsed NodeCompleted RunCompleted
    "#,
    ),
    case(
        "the second waits until the first has given back",
        "budget 20\na meter 10 5; b meter 10 5",
        r#"
        start -> a RUNNING, b QUEUED, runs a, reserved 15, why runs
        start-queued b -> b QUEUED, nothing
        complete a {"usage":{"inputTokens":3,"outputTokens":2}} -> b RUNNING, runs b, reserved 15, spent 5
        complete b {"usage":{"inputTokens":3,"outputTokens":2}} -> execution COMPLETED, reserved 0, spent 10
    "#,
    ),
    case(
        "an attempt that waits for a circuit breaker gives back what it reserved",
        "budget 20\na meter 10 5 breaker k",
        r#"
        start      -> a RUNNING, reserved 15
        block a 5s -> a WAITING, reserved 0, spent 0
        wait 5s    -> a RUNNING, runs a, reserved 15
        complete a {"usage":{"inputTokens":3,"outputTokens":2}} -> execution COMPLETED, reserved 0, spent 5
    "#,
    ),
    case(
        "a small one does not overtake",
        "budget 40\na meter 20 10; b meter 20 10; c meter 1 1",
        r#"
        start -> a RUNNING, b QUEUED, c QUEUED, reserved 30
        complete a {"usage":{"inputTokens":1,"outputTokens":1}} -> runs b c
    "#,
    ),
    case(
        "money alone limits",
        "budget x money 0.00004\na meter 10 5; b meter 10 5; c meter 10 5",
        r#"
        start -> a RUNNING, b RUNNING, c QUEUED, reserved 30
        complete a {"usage":{"inputTokens":10,"outputTokens":5}} -> c QUEUED, cost 0.00002
        complete b {"usage":{"inputTokens":10,"outputTokens":6}} -> c failed budget_exhausted, cost 0.000042, execution FAILED
    "#,
    ),
    case(
        "a map reserves item by item",
        "budget 45\nm = map(5) {x meter 10 5}",
        r#"
        start -> m[0]/x+m[1]/x+m[2]/x RUNNING, m[3]/x+m[4]/x QUEUED, reserved 45
        complete m[1]/x {"usage":{"inputTokens":1,"outputTokens":1}} -> m[3]/x QUEUED, reserved 30
        complete m[0]/x {"usage":{"inputTokens":1,"outputTokens":1}} -> m[3]/x RUNNING, reserved 30, spent 4
    "#,
    ),
    case(
        "a slot that is taken does not take the reservation back",
        "budget 100\na meter 10 5; b meter 10 5",
        r#"
        start slots 1 -> a RUNNING, b QUEUED, runs a, offers b, reserved 30
        complete a {"usage":{"inputTokens":1,"outputTokens":1}} -> b QUEUED
        start-queued b -> b RUNNING, reserved 15
    "#,
    ),
    case(
        "without a budget nothing is reserved, and usage is counted",
        "a meter 10 5; b meter 10 5",
        r#"
        start -> a+b RUNNING, reserved 0
        complete a {"usage":{"inputTokens":1,"outputTokens":1}} -> spent 2
        complete b -> lost 0 of 1
    "#,
    ),
    case("a failure with usage, and a retry", "budget 100\na meter 10 5 retry 2 wait 1s", r#"
        start -> a RUNNING
        fail a llm_output retry {"usage":{"inputTokens":9,"outputTokens":5}} -> a WAITING, spent 14, reserved 0, lost 0 of 0
        wait 1s -> a RUNNING, reserved 15
        complete a {"usage":{"inputTokens":9,"outputTokens":5}} -> spent 28, execution COMPLETED
    "#),
    case("no usage in the output", "budget 100\na meter 10 5", "
        start -> a RUNNING
        complete a -> execution COMPLETED, spent 0, reserved 0, lost 15 of 1
    "),
    case("a timeout leaves it unknown", "budget 100\na meter 10 5 retry 2 wait 1s", "
        start -> a RUNNING
        fail a timeout retry -> a WAITING, lost 15 of 1, reserved 0
    "),
    case("an error status is not charged", "budget 100\na meter 10 5 retry 5 wait 1s", "
        start -> a RUNNING
        fail a http retry status=429 -> a WAITING, lost 0 of 0, reserved 0, logs NodeUsed NodeFailed
        wait 1s -> a RUNNING
        fail a http retry status=504 -> a WAITING, lost 15 of 1
    "),
    case("an attempt of a dead process is lost, and made again", "budget 40\na meter 10 5", r#"
        start -> a RUNNING
        take-over -> a RUNNING, lost 15 of 1, reserved 15
        complete a {"usage":{"inputTokens":1,"outputTokens":1}} -> spent 2, lost 15 of 1, execution COMPLETED
    "#),
    case("bug: a reservation that waits for a slot is not lost with its owner", "budget 40\na meter 10 5; b meter 10 5", "
        start slots 1 -> a RUNNING, b QUEUED, reserved 30
        take-over -> lost 15 of 1, reserved 15, a QUEUED, b RUNNING
    "),
    case("cancelled before it started", "budget 40\na meter 10 5; b meter 10 5", "
        start slots 1 -> b QUEUED, reserved 30
        cancel -> b CANCELLED, reserved 15, lost 0 of 0
        stopped a -> reserved 0, lost 15 of 1, execution CANCELLED
    "),
    case("a body that no longer counts", "budget 60\ng = group {x meter 10 5}; b; j = pass needs g, b join any cancel-rest", "
        start -> g/x RUNNING, reserved 15
        complete b -> execution COMPLETED, reserved 0, lost 15 of 1
    "),
    case("a config that cannot be rendered uses nothing", "budget 40\na meter 10 5", "
        start slots 0 -> a QUEUED, reserved 15
        unofferable a -> a FAILED, lost 0 of 0, reserved 0
    "),
    case("a remote worker", "budget 20\na = worker meter 10 5; b = worker meter 10 5", r#"
        start -> offers a, reserved 15
        far 1 start a -> a RUNNING, reserved 15
        far 1 complete a {"usage":{"inputTokens":1,"outputTokens":1}} -> spent 2, offers b
    "#),
    case(
        "too small from the start",
        "budget 10\na meter 10 5",
        "
        start -> execution FAILED, failure budget_exhausted, reserved 0
    ",
    ),
    case(
        "the failure can be handled",
        "budget 10\na meter 10 5 error continue; b needs a",
        "
        start -> a FAILED, b RUNNING
    ",
    ),
    case(
        "an item fails, and others go on",
        "budget 33\nm = map(3, tolerate 2) {x meter 10 5}",
        r#"
        start -> m[0]/x+m[1]/x RUNNING, m[2]/x QUEUED
        complete m[0]/x {"usage":{"inputTokens":9,"outputTokens":5}} -> m[2]/x QUEUED
        complete m[1]/x {"usage":{"inputTokens":9,"outputTokens":5}} -> execution COMPLETED, spent 28
    "#,
    ),
    case(
        "a chain that nothing is left for fails node by node",
        "budget 1\na meter 10 5 error continue; b meter 10 5 error continue needs a; c needs b",
        "
        start -> a+b FAILED, c RUNNING
    ",
    ),
    case(
        "a retry with a larger budget",
        "budget 20\na meter 10 5; b meter 10 5 needs a",
        r#"
        start -> a RUNNING
        complete a {"usage":{"inputTokens":10,"outputTokens":5}} -> execution FAILED, failure budget_exhausted
        budget 40 -> refused together with a retry
        reopen -> execution FAILED, failure budget_exhausted
        reopen budget 40 #m1 -> b RUNNING, reserved 15, spent 15, logs RunReopened RunOwned RunBudgetSet NodeScheduled NodeReserved NodeStarted
        complete b {"usage":{"inputTokens":10,"outputTokens":5}} -> execution COMPLETED, spent 30
    "#,
    ),
    case(
        "a retry with a budget where there is none",
        "a",
        "
        start -> a RUNNING
        fail a boom -> execution FAILED
        reopen budget 40 -> refused no `budget`
        reopen -> a RUNNING
    ",
    ),
    case(
        "pause, a larger budget, resume",
        "budget 20 pause\na meter 10 5; b meter 10 5 needs a",
        r#"
        start -> a RUNNING
        complete a {"usage":{"inputTokens":10,"outputTokens":5}} -> execution PAUSED, b QUEUED, why exhausted, logs NodeUsed NodeCompleted NodeScheduled RunBudgetExhausted RunPaused
        take-over -> execution RESUMING(paused)
        resume -> execution PAUSED, why exhausted
        take-over -> execution RESUMING(paused)
        budget 40 #m1 -> execution RESUMING(paused)
        budget 40 #m1 -> refused already
        resume -> b RUNNING, reserved 15
    "#,
    ),
    case(
        "a pause awaits what runs",
        "budget 40 pause\na meter 10 5; b meter 30 10",
        r#"
        start -> a RUNNING, b QUEUED, execution RUNNING
        complete a {"usage":{"inputTokens":1,"outputTokens":0}} -> execution PAUSED, b QUEUED
    "#,
    ),
    case(
        "a larger budget starts what waits, without a pause",
        "budget 20\na meter 10 5; b meter 10 5",
        "
        start -> a RUNNING, b QUEUED
        budget 30 -> b RUNNING, reserved 30
    ",
    ),
    case(
        "no budget to change",
        "a",
        "
        start -> a RUNNING
        budget 30 -> refused no `budget`
    ",
    ),
    case(
        "a retry goes on with what was spent",
        "budget 20\na meter 10 5; b meter 10 5 needs a",
        r#"
        start -> a RUNNING
        complete a {"usage":{"inputTokens":10,"outputTokens":5}} -> execution FAILED
        reopen -> execution FAILED, generation 2, spent 15
    "#,
    ),
    case("limits change in every phase that an owner may be in", "budget 20; s = signal(go); a meter 10 5 needs s", r#"
        born -> execution REQUESTED
        own -> execution SCHEDULED
        budget 30 -> execution SCHEDULED
        recover -> s WAITING
        park -> execution WAITING
        own -> execution RESUMING
        budget 20 -> execution RESUMING
        recover -> execution RUNNING
        signal go -> a RUNNING
        pause -> execution PAUSING
        budget 40 -> execution PAUSING
    "#),
    case("limits change in the queue of a key", "keyed k; budget 20; a meter 10 5", "
        start -> execution SCHEDULING
        own -> execution SCHEDULING
        budget 30 -> execution SCHEDULING
    "),
    case("limits change in a quarantine", "budget 200; a meter 10 5", "
        start -> a RUNNING
        lose-4 a
        lose a -> execution QUARANTINED, lost 75 of 5
        own -> execution RESUMING(quarantined)
        budget 30 -> execution RESUMING(quarantined)
    "),
];

#[test]
fn budgets_are_reserved_settled_and_exhausted() {
    check(CASES);
}

#[test]
fn a_plan_that_uses_tokens_needs_the_format_of_budgets() {
    assert_eq!(plan("a meter 1 1").requires(), BUDGETS_LOG_FORMAT);
    assert_eq!(plan("budget 10\na").requires(), BUDGETS_LOG_FORMAT);
    assert_eq!(plan("a").requires(), 1);
    let text = r#"{"NodeUsed":{"node":"a","attempt":1,"input":3,"output":2,"cost":7}}"#;
    let event: Event = serde_json::from_str(text).expect("as the log has it");
    assert!(matches!(&event, Event::Node(NodeEvent::Used(used)) if used.usage.tokens() == 5));
    assert_eq!(serde_json::to_string(&event).expect("JSON"), text);
}
