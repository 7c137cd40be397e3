//! Waits: delays and signals.

use waypost_core::apply::SILENCE;
use waypost_core::command::{Command, Outcome, Request};
use waypost_core::event::{Origin, WAITS_LOG_FORMAT, Wait};
use waypost_core::failure::Failure;
use waypost_core::flow::plan;
use waypost_core::json::Json;
use waypost_core::limits::{EARLY_SIGNALS_BYTES_MAX, EARLY_SIGNALS_MAX, TAKERS_BYTES_MAX};
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
    run.command(Command::Request(Request::Retry { reason: None, budget: None }, Origin::default()))
        .unwrap();
    let deadline = run.state.timers.iter().find(|(_, timer)| *timer == Timer::Deadline);
    assert_eq!(deadline.map(|(due, _)| *due), behind(3_600_000), "the next generation's deadline");
}

pub(crate) fn signal(name: &str, body: &str) -> Command {
    let body = Json::parse(body).expect("a body");
    Command::Request(Request::Signal { name: name.into(), body }, Origin::default())
}

/// How many events of this name a run has recorded.
fn count(run: &Run<'_>, name: &str) -> usize {
    run.log.iter().filter(|(_, event)| event.name() == name).count()
}

/// Ten thousand waits are no reason for a frame of ten thousand outputs.
#[test]
fn signal_for_many_items_takes_several_decisions_and_reaches_each_once() {
    let plan =
        plan("m = map(25, at 25) {w = signal(go); x = pass needs w; v = signal(go) needs x}");
    let mut run = Run::start(&plan, "{}", None, 1);
    (run.takers_max, run.evaluates) = (Some(10), false);
    run.command(signal("go", "1")).unwrap();
    assert_eq!(count(&run, "NodeResumed"), 10, "of 25");
    assert!(run.state.wants_delivery());
    run.evaluates = true;
    run.restart();
    run.command(Command::TakeOver).unwrap();
    run.command(Command::Recover).unwrap();
    assert_eq!(count(&run, "NodeResumed"), 25, "the next owner goes on");
    assert_eq!(count(&run, "SignalDelivered"), 1);
    assert!(run.state.early.is_empty());
    let waits =
        run.state.nodes().filter(|(_, node)| node.wait.as_ref().is_some_and(Wait::is_answered));
    assert_eq!(waits.count(), 25, "waits that opened since do not take it");
    run.command(signal("go", "2")).unwrap();
    assert_eq!(run.state.status, Status::Completed);
}

#[test]
fn signal_that_is_large_is_delivered_by_bytes() {
    let plan = plan("m = map(9, at 9, none) {w = signal(go)}");
    let mut run = Run::start(&plan, "{}", None, 1);
    run.evaluates = false;
    let large = format!("{:?}", "x".repeat((1 << 20) - 2));
    run.command(signal("go", &large)).unwrap();
    assert_eq!(count(&run, "NodeResumed"), TAKERS_BYTES_MAX >> 20);
    run.evaluates = true;
    run.deliver();
    assert_eq!(run.state.status, Status::Completed);
    assert_eq!(count(&run, "NodeResumed"), 9);
}

/// A signal that is on its way came before the timeouts that strike meanwhile.
#[test]
fn signal_on_its_way_comes_before_the_timeout_of_a_wait() {
    let plan = plan("m = map(5, at 5) {w = signals(go, stop, need 1, within 5s)}");
    let mut run = Run::start(&plan, "{}", None, 1);
    (run.takers_max, run.evaluates) = (Some(2), false);
    run.command(signal("go", "1")).unwrap();
    run.now = run.now.plus(Millis::from_secs(5));
    run.command(Command::Tick).unwrap();
    assert_eq!(count(&run, "NodeFailed"), 0);
    run.evaluates = true;
    run.deliver();
    assert_eq!(run.state.status, Status::Completed);
}

/// Signals that came during a pause are for all waits that were open, however many there are of each.
#[test]
fn signals_kept_during_a_pause_reach_all_waits_in_several_decisions() {
    let plan = plan("m = map(7, at 7) {v = signal(a); w = signals(b, a)}");
    for most in 1..=20 {
        let mut run = Run::start(&plan, "{}", None, 1);
        run.takers_max = Some(most);
        let request = |request| Command::Request(request, Origin::default());
        run.command(request(Request::Pause { now: false, reason: None })).unwrap();
        run.restart();
        run.command(Command::TakeOver).unwrap();
        run.command(signal("a", "1")).unwrap();
        run.command(signal("b", "2")).unwrap();
        run.command(request(Request::Resume { reason: None })).unwrap();
        assert_eq!(run.state.status, Status::Completed, "{most} a decision");
        assert_eq!(count(&run, "NodeSignalled"), 14);
    }
}

#[test]
fn waits_for_several_signals_need_their_log_format() {
    for (flow, format) in [
        ("w = signal(a, within 5s)", 1),
        ("w = signal(a, within 5s, else late)", WAITS_LOG_FORMAT),
        ("w = signals(a, b)", WAITS_LOG_FORMAT),
        ("g = group {w = signals(a, b)}", WAITS_LOG_FORMAT),
    ] {
        let plan = plan(flow);
        assert_eq!(plan.requires(), format, "{flow}");
        let mut run = Run::start(&plan, "{}", None, 1);
        run.command(signal("a", "1")).unwrap();
        run.now = run.now.plus(Millis::from_secs(5));
        run.command(Command::Tick).unwrap();
        run.command(signal("b", "1")).unwrap_or_default();
        let needed = run.log.iter().map(|(_, event)| event.requires()).max();
        let format = if flow.contains("else") { 1 } else { format };
        assert_eq!(needed, Some(format), "{flow}");
    }
    let plan = plan("w = signal(a, within 5s, else late)");
    let mut run = Run::start(&plan, "{}", None, 1);
    run.now = run.now.plus(Millis::from_secs(5));
    run.command(Command::Tick).unwrap();
    assert!(run.log.iter().any(|(_, event)| event.requires() == WAITS_LOG_FORMAT));
    assert_eq!(run.state.status, Status::Completed);
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
        "a message is awaited until the store says what became of it",
        "n = notify(hello, within 9s); a needs n",
        r#"
        start           -> n WAITING, due 9s
        settled 1 9 0   -> refused no wait 1
        settled 5 1 0   -> n COMPLETED, n gives {"delivered":1,"failed":0}, runs a, early 0
    "#,
    ),
    case(
        "a message that is settled in no time is a failure",
        "n = notify(hello, within 9s); a needs n",
        "
        start   -> n WAITING, due 9s
        wait 9s -> n TIMED_OUT, n failed timeout
    ",
    ),
    case(
        "what became of a message is kept while the execution is paused",
        "n = notify(hello); a needs n",
        r#"
        start   -> n WAITING, due never
        pause
        settled n 0 2   -> n WAITING, early 1
        settled n 9 0   -> refused already received
        resume  -> n COMPLETED, n gives {"delivered":0,"failed":2}, early 0, runs a
    "#,
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
        "all of several signals end a wait: its output is a list by position",
        "w = signals(a, b); x needs w",
        r#"
        start          -> w WAITING, due never
        signal b {"n":2} -> logs SignalReceived NodeSignalled, w WAITING, early 0
        signal b 3     -> w WAITING, early 1
        signal c       -> early 2
        signal a 1     -> logs SignalReceived NodeSignalled NodeResumed NodeCompleted NodeScheduled NodeStarted, w gives [1,{"n":2}], runs x, early 2
    "#,
    ),
    case(
        "any of several signals ends a wait",
        "w = signals(a, b, c, need 1)",
        "
        start
        signal b 2 -> w COMPLETED, w gives [null,2,null], execution COMPLETED
    ",
    ),
    case(
        "two of three signals end a wait",
        "w = signals(a, b, c, need 2)",
        "
        start
        signal c 3 -> w WAITING
        signal c 4 -> w WAITING, early 1
        signal a 1 -> w COMPLETED, w gives [1,null,3], execution COMPLETED
    ",
    ),
    case(
        "one name, twice: each signal is taken by one place",
        "w = signals(vote, vote)",
        "
        start
        signal vote 1 -> w WAITING
        signal vote 2 -> w COMPLETED, w gives [1,2]
    ",
    ),
    case(
        "filters choose the place of a signal",
        "w = signals(vote where signal.by == 1, vote where signal.by == 2, vote)",
        r#"
        start
        signal vote {"by":2} -> w WAITING, early 0
        signal vote {"by":2} -> w WAITING, early 0
        signal vote {"by":2} -> w WAITING, early 1
        signal vote {"by":1} -> w COMPLETED, w gives [{"by":1},{"by":2},{"by":2}]
    "#,
    ),
    case(
        "signals that came early count, oldest first",
        "a; w = signals(x, y, x) needs a; v = signal(x) needs w",
        "
        start
        signal x 1
        signal y 2
        signal x 3
        signal x 4
        complete a -> w COMPLETED, w gives [1,2,3], v COMPLETED, v gives 4, early 0
    ",
    ),
    case(
        "early signals do not end a wait that needs more",
        "a; w = signals(x, y) needs a",
        "
        start
        signal x 1
        complete a -> w WAITING, early 0
        signal y 2 -> w COMPLETED, w gives [1,2]
    ",
    ),
    case(
        "several signals that do not come in time are a failure",
        "w = signals(a, b, within 5s) error bad; x needs w:bad",
        "
        start      -> due 5s
        signal a 1
        wait 5s    -> w TIMED_OUT, w failed timeout, runs x
        signal b 2 -> early 1
    ",
    ),
    case(
        "a branch for a timeout: what came is the output, and edges without a branch are not taken",
        "w = signals(a, b, within 5s, else late); x needs w; l needs w:late",
        "
        start      -> due 5s
        signal a 1
        wait 5s    -> logs NodeResumed NodeCompleted NodeSkipped NodeScheduled NodeStarted, w COMPLETED, w gives [1,null], x SKIPPED, runs l
        signal b 2 -> early 1
    ",
    ),
    case(
        "a wait with a branch for a timeout that ends in time",
        "w = signals(a, b, within 5s, else late); x needs w; l needs w:late",
        "
        start
        signal a 1
        signal b 2 -> w COMPLETED, runs x, l SKIPPED, due never
    ",
    ),
    case(
        "a branch for the timeout of one signal",
        "w = signal(a, within 5s, else late); x needs w; l needs w:late",
        "
        start
        wait 5s -> w COMPLETED, w gives null, x SKIPPED, runs l
    ",
    ),
    case(
        "a later attempt waits only for what has not come",
        "w = signals(a, b, within 5s) retry 2 wait 1s on=timeout",
        "
        start
        signal a 1
        wait 5s    -> w WAITING, w failed timeout
        wait 1s    -> w WAITING, w attempt 2, due 5s
        signal b 2 -> w COMPLETED, w gives [1,2]
    ",
    ),
    case(
        "one signal goes to all waits that match, also to those for several",
        "v = signal(a); w = signals(a, b); u = signals(b, a)",
        "
        start
        signal a 1 -> logs SignalReceived NodeResumed NodeCompleted NodeSignalled NodeSignalled SignalDelivered, v gives 1, early 0
        signal b 2 -> w gives [1,2], u gives [2,1], execution COMPLETED
    ",
    ),
    case(
        "signals that came during a pause go to waits for several",
        "w = signals(a, b); v = signals(a, b)",
        "
        start
        pause      -> execution PAUSED
        own
        signal a 1 -> early 1
        signal b 2 -> early 2
        resume     -> w gives [1,2], v gives [1,2], early 0, execution COMPLETED
    ",
    ),
    case(
        "a signal to many comes before the recovery",
        "w = signals(a, b); v = signals(a, b)",
        "
        start
        park
        own
        signal a 1 -> logs SignalReceived NodeSignalled NodeSignalled SignalDelivered, execution RESUMING
        recover    -> execution RUNNING
        signal b 2 -> w gives [1,2], v gives [1,2], execution COMPLETED
    ",
    ),
    case(
        "a person ends a wait for several signals: its output is the given body",
        "w = signals(a, b)",
        "
        start
        signal a 1
        end-wait w 7 -> w COMPLETED, w gives 7
    ",
    ),
    case(
        "a signal and the timeout of a wait for several in one recovery: mail before timers",
        "w = signals(a, b, need 1, within 5s)",
        "
        start
        park     -> execution WAITING
        later 5s
        own
        signal a -> w COMPLETED, execution COMPLETED
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
