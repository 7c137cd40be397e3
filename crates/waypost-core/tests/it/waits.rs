//! Waits: delays and signals.

use waypost_core::apply::SILENCE;
use waypost_core::command::{Command, Outcome, Request};
use waypost_core::event::{Origin, Wait};
use waypost_core::failure::Failure;
use waypost_core::flow::plan;
use waypost_core::json::Json;
use waypost_core::limits::{EARLY_SIGNALS_BYTES_MAX, EARLY_SIGNALS_MAX};
use waypost_core::state::Timer;
use waypost_core::status::{NodeStatus, Status};
use waypost_core::time::Millis;

use super::run::{EPOCH, Run};
use super::script::{Case, case, check};

#[test]
fn waits_end_once_and_never_early() {
    check(CASES);
}

#[test]
fn bug_a_flood_of_unwanted_signals_kept_out_the_awaited_one() {
    let plan = plan("w = signal(go)");
    let mut run = Run::start(&plan, "{}", None, 1);
    let signal = |name: &str| {
        Command::Request(
            Request::Signal { name: name.into(), body: Json::null() },
            Origin::default(),
        )
    };
    for _ in 0..EARLY_SIGNALS_MAX {
        run.command(signal("spam")).unwrap();
    }
    assert!(run.command(signal("spam")).unwrap_err().to_string().contains("1000"));
    run.command(signal("go")).unwrap();
    assert_eq!(run.state.status, Status::Completed);
}

/// What is due is judged by the earliest time that it may be, and what lasts for a span counts from the
/// latest: a decider whose time is behind the store's cuts nothing short.
#[test]
fn bug_spans_that_began_while_the_time_was_behind_were_cut_short() {
    let mut plan = plan(
        "d = delay(10s); w = signal(go, within 5s); u = until(2001-09-09T01:46:50Z); n = delay(0s);
         a timeout 2s deadline 1m retry 3 wait 1s",
    );
    plan.timeout = Some(Millis::from_secs(3_600));
    let mut run = Run::born(&plan, "{}", None);
    run.behind = Millis(4_000);
    run.command(Command::TakeOver).unwrap();
    run.command(Command::Recover).unwrap();
    let behind = |ms: u64| Some(EPOCH.plus(Millis(4_000 + ms)));
    let due = |run: &Run<'_>, id: &str| run.node(id).wait.as_ref().and_then(Wait::due);
    assert_eq!(due(&run, "d"), behind(10_000), "a delay");
    assert_eq!(due(&run, "w"), behind(5_000), "a signal's timeout");
    assert_eq!(due(&run, "u"), Some(EPOCH.plus(Millis(10_000))), "a time is a time");
    assert_eq!(run.node("n").status, NodeStatus::Completed, "nothing is not waited for");
    assert_eq!(run.node("a").deadline, behind(60_000), "a node's deadline");
    assert_eq!(run.node("a").attempt_due, behind(2_000 + SILENCE.0), "an attempt's timeout");
    let failed = Outcome::Failed(Failure::transient("http", "not yet"));
    run.command(Command::Report(run.report("a", None, failed))).unwrap();
    assert_eq!(due(&run, "a"), behind(1_000), "a retry");
    run.command(Command::Tick).unwrap();
    assert_eq!(run.node("u").status, NodeStatus::Waiting, "nothing is early");
    let cancel = Command::Request(Request::Cancel { reason: None }, Origin::default());
    run.command(cancel).unwrap();
    run.command(Command::Request(Request::Retry { reason: None }, Origin::default())).unwrap();
    let deadline = run.state.timers.iter().find(|(_, timer)| *timer == Timer::Deadline);
    assert_eq!(deadline.map(|(due, _)| *due), behind(3_600_000), "the next generation's deadline");
}

#[test]
fn signals_that_are_kept_have_a_bounded_number_of_bytes() {
    let plan = plan("w = signal(go)");
    let mut run = Run::start(&plan, "{}", None, 1);
    let signal = |name: &str, bytes: usize| {
        Command::Request(
            Request::Signal {
                name: name.into(),
                body: Json::from_value(&serde_json::json!("x".repeat(bytes - 2))),
            },
            Origin::default(),
        )
    };
    let large = 1 << 20;
    for _ in 0..EARLY_SIGNALS_BYTES_MAX / large {
        run.command(signal("spam", large)).unwrap();
    }
    // Not a byte more, for any sender: a request is refused, and mail is consumed without an effect.
    let refused = run.command(signal("spam", 3)).unwrap_err().to_string();
    assert!(refused.contains(&EARLY_SIGNALS_BYTES_MAX.to_string()), "{refused}");
    assert!(refused.contains("early_signals_bytes_max"), "{refused}");
    let kept: usize = run.state.early.iter().map(|kept| kept.body.bytes()).sum();
    assert_eq!(kept, EARLY_SIGNALS_BYTES_MAX);
    // One that a node waits for is not kept, and so is taken whatever is.
    run.command(signal("go", large)).unwrap();
    assert_eq!(run.state.status, Status::Completed);
}

/// Each evaluation of this filter takes all the work that it may.
const COSTLY: &str = "([1.5] * 9999) | map('round', 1000) | sum > 0";

/// Signals that came during a pause are looked at in one decision when it ends, so their filters share
/// one budget, however many signals there are and however many nodes wait.
#[test]
fn filters_over_signals_kept_during_a_pause_share_one_budget() {
    let plan = plan(&format!("v = signal(go, where {COSTLY}); w = signal(go, where {COSTLY})"));
    for (signals, expected) in [(5, NodeStatus::Waiting), (6, NodeStatus::Failed)] {
        let mut run = Run::start(&plan, "{}", None, 1);
        run.command(Command::Request(
            Request::Pause { now: false, reason: None },
            Origin::default(),
        ))
        .unwrap();
        for _ in 0..signals {
            let signal = Command::Request(
                Request::Signal { name: "go".into(), body: Json::null() },
                Origin::default(),
            );
            run.command(signal).unwrap();
        }
        run.command(Command::Request(Request::Resume { reason: None }, Origin::default())).unwrap();
        // Two nodes and five signals are ten evaluations, each of which says no.
        assert_eq!(run.node("v").status, expected, "{signals} signals");
        assert_eq!(run.state.early.len(), signals, "none of them is lost");
        if expected == NodeStatus::Failed {
            let failure = run.node("v").failure.as_ref().unwrap();
            assert_eq!(failure.kind, "expression_limit");
        }
    }
}

pub(crate) const CASES: &[Case] = &[
    case(
        "a delay ends when it is due",
        "d = delay(10s); a needs d",
        "
        start     -> d WAITING, due 10s, execution RUNNING
        wait 9s   -> nothing
        wait 1s   -> logs NodeResumed NodeCompleted NodeScheduled NodeStarted, d COMPLETED, runs a
    ",
    ),
    case(
        "a delay of nothing completes at once",
        "d = delay(0s); n = delay(${{ 0 - 5 }}); a needs d, n",
        "
        start -> d+n COMPLETED, runs a
    ",
    ),
    case(
        "a computed delay",
        "d = delay(${{ input.s }})",
        r#"
        start {"s":90} -> d WAITING, due 90s
    "#,
    ),
    case(
        "a delay until a time",
        "d = until(2001-09-09T01:46:50Z)",
        "
        start -> d WAITING, due 10s
    ",
    ),
    case(
        "a delay until something that is no time",
        "d = until(tomorrow)",
        "
        start -> d FAILED, d failed invalid_config
    ",
    ),
    case(
        "a signal ends a wait and is its output",
        "w = signal(go); a needs w",
        r#"
        start                -> w WAITING, due never
        signal stop          -> w WAITING, early 1
        signal go {"by":"x"} -> w COMPLETED, w gives {"by":"x"}, early 1, runs a
    "#,
    ),
    case(
        "a signal goes to all waits that match",
        "v = signal(go); w = signal(go); x = signal(halt)",
        "
        start
        signal go 1 -> v+w COMPLETED, x WAITING, early 0
    ",
    ),
    case(
        "a filter decides what counts",
        "w = signal(go, where signal.n > 1)",
        r#"
        start
        signal go {"n":1} -> w WAITING, early 1
        signal go "odd"   -> w WAITING, early 2
        signal go {"n":2} -> w COMPLETED, execution COMPLETED
    "#,
    ),
    case(
        "early signals are taken oldest first, each once",
        "a; v = signal(go) needs a; w = signal(go) needs v; x = signal(go) needs w",
        "
        start
        signal go 1
        signal go 2 -> early 2
        complete a  -> v COMPLETED, v gives 1, w COMPLETED, w gives 2, x WAITING, early 0
    ",
    ),
    case(
        "an early signal that the filter refuses is kept for others",
        "a; v = signal(go, where signal == 2) needs a; w = signal(go) needs v",
        "
        start
        signal go 1
        signal go 2
        complete a  -> v gives 2, w gives 1
    ",
    ),
    case(
        "a signal's name may be computed",
        "w = signal(order-${{ input.id }})",
        r#"
        start {"id":7}
        signal order-7 -> execution COMPLETED
    "#,
    ),
    case(
        "a signal that does not come in time",
        "w = signal(go, within 5s) error late; a needs w:late",
        "
        start     -> due 5s
        wait 5s   -> w TIMED_OUT, w failed timeout, runs a
        signal go -> w TIMED_OUT, early 1
    ",
    ),
    case(
        "a signal and its timeout in one moment: mail before timers",
        "w = signal(go, within 5s)",
        "
        start
        later 5s
        signal go -> w COMPLETED
    ",
    ),
    case(
        "a signal and its timeout in one recovery: mail before timers",
        "w = signal(go, within 5s)",
        "
        start
        park      -> execution WAITING
        later 5s
        own
        signal go -> w COMPLETED, execution COMPLETED
    ",
    ),
    case(
        "the same message is received once",
        "v = signal(go); w = signal(go) needs v",
        "
        start
        signal go 1 #m1 -> v COMPLETED, w WAITING
        signal go 2 #m1 -> refused already received
        signal go 3 #m2 -> w COMPLETED, w gives 3
    ",
    ),
    case(
        "a person ends a delay: its output is the usual one",
        "d = delay(10h); a needs d",
        "
        start           -> d WAITING
        end-wait d 7 #m -> logs NodeResumed NodeCompleted NodeScheduled NodeStarted, d COMPLETED, d gives null, runs a, due never
        end-wait d 7 #m -> refused already received
    ",
    ),
    case(
        "a person ends a wait for a signal: its output is the given body, without the filter",
        "v = signal(go, where signal.ok); w = signal(go)",
        r#"
        start
        end-wait v {"by":"ann"} -> logs NodeResumed NodeCompleted, v COMPLETED, v gives {"by":"ann"}, w WAITING, early 0
        signal go {"ok":true}   -> w COMPLETED, execution COMPLETED
    "#,
    ),
    case(
        "a person ends the wait for a retry: it begins now",
        "a retry 3 wait 1h",
        "
        start
        fail a broken retry -> a WAITING
        end-wait a          -> logs NodeResumed NodeScheduled NodeStarted, a RUNNING, a attempt 2, runs a, due never
        fail a broken retry -> a WAITING
        end-wait a          -> a attempt 3
        fail a broken retry -> a FAILED, execution FAILED
    ",
    ),
    case(
        "a retry that is tried now waits for a slot like any other",
        "a retry 2 wait 1h",
        "
        start
        fail a broken retry
        slots 0
        end-wait a -> a QUEUED, offers a
    ",
    ),
    case(
        "a wait that is not open, or never was",
        "w = signal(go); d = delay(10s); a needs w",
        "
        start
        end-wait 999 -> refused no wait 999
        end-wait 0   -> refused no wait 0
        end-wait 1   -> refused no wait 1
        signal go
        end-wait w   -> refused no wait 0
        end-wait 999 #m -> logs MessageIgnored
        end-wait d #m   -> refused already received
    ",
    ),
    case(
        "no wait is ended by hand while paused, pausing or ending",
        "d = delay(10h); w = signal(go); a",
        "
        start
        pause
        end-wait d    -> refused paused
        complete a    -> execution PAUSED
        end-wait w    -> refused paused
        end-wait w #m -> logs MessageIgnored, w WAITING
        resume
        end-wait w    -> w COMPLETED
    ",
    ),
    case(
        "no wait is ended by hand while ending or after the end",
        "d = delay(10h); a",
        "
        start
        cancel        -> execution ENDING
        end-wait 5    -> refused ending
        end-wait 5 #m -> logs MessageIgnored
        stopped a     -> execution CANCELLED
        end-wait 5    -> refused ended
    ",
    ),
    case(
        "a person ends a wait of a parked execution before it is recovered",
        "d = delay(10h); w = signal(go)",
        "
        start
        park          -> execution WAITING
        own
        end-wait d #m -> d COMPLETED, execution RESUMING
        recover       -> execution RUNNING, w WAITING
    ",
    ),
    case(
        "a body given by a person is too large for the expressions that follow",
        "w = signal(go) set n = output.n",
        "
        start
        end-wait w 1 -> w FAILED, execution FAILED
    ",
    ),
    case(
        "a wait whose signal leads to a failure",
        "w = signal(go) set n = output.n",
        "
        start
        signal go 1 -> w FAILED, execution FAILED
    ",
    ),
    case(
        "one signal, the first taker of which ends the execution",
        "v = signal(go) set n = output.n; w = signal(go)",
        "
        start
        signal go 1 -> v FAILED, w CANCELLED, execution FAILED
    ",
    ),
    case(
        "one signal, the first taker of which ends the other's wait",
        "v = signal(go); w = signal(go); j needs v, w join any cancel-rest",
        "
        start
        signal go 1 -> v COMPLETED, w CANCELLED, j RUNNING
    ",
    ),
];
