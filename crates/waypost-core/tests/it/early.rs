//! Signals that are kept until a node waits for them: which ones count against the limits, what is done with
//! those beyond them, and when they are dropped.

use std::sync::Arc;

use waypost_core::callback::{Callback, CallbackOutcome, OperationRef};
use waypost_core::command::{Command, Outcome, Refusal, Request};
use waypost_core::event::Origin;
use waypost_core::flow::plan;
use waypost_core::json::Json;
use waypost_core::limits::EARLY_SIGNALS_BYTES_MAX;
use waypost_core::status::NodeStatus;

use super::check::Logbook;
use super::run::Run;
use super::script::{Case, case, check};

fn sent(request: Request, message: &str) -> Command {
    Command::Request(request, Origin { message: Some(message.into()), actor: None })
}

fn signal_of(name: &str, bytes: usize, message: &str) -> Command {
    let body = Json::from_value(&serde_json::json!("x".repeat(bytes - 2)));
    sent(Request::Signal { name: name.into(), body }, message)
}

fn signal(name: &str, message: &str) -> Command {
    signal_of(name, 3, message)
}

/// As many bytes of signals as are kept.
fn fill(run: &mut Run<'_>, name: &str) {
    for number in 0..FILLING {
        let bytes = EARLY_SIGNALS_BYTES_MAX / FILLING;
        run.command(signal_of(name, bytes, &format!("{name}-{number}"))).expect("it is kept");
    }
}

const FILLING: usize = 8;

/// The sender of a callback has one message id, and the store one result: neither comes again.
#[test]
fn bug_callbacks_and_results_in_a_pause_were_lost_behind_a_flood_of_signals() {
    let plan = plan("p = operation {s}; n = notify(hello); z needs p, n");
    let mut run = Run::start(&plan, "{}", None, 9);
    let started = run.report("p/s", None, Outcome::Completed(Json::null()));
    run.command(Command::Report(started)).unwrap();
    run.command(sent(Request::Pause { now: false, reason: None }, "pause")).unwrap();
    fill(&mut run, "spam");
    let of = OperationRef { node: "p".into(), operation: "p/1".into() };
    let body = Json::parse("7").unwrap();
    let outcome = CallbackOutcome::Completed;
    let callback = Callback { of, outcome, body: body.clone() };
    run.command(sent(Request::Callback(Box::new(callback)), "callback")).unwrap();
    let wait = run.node("n").wait_seq;
    let settled = Request::MessageSettled { wait, delivered: 1, failed: 0 };
    run.command(sent(settled, "settled")).unwrap();
    assert_eq!(run.state.early.len(), FILLING + 2);
    run.command(sent(Request::Resume { reason: None }, "resume")).unwrap();
    assert_eq!(run.node("p").output, Some(body));
    assert_eq!(run.node("n").status, NodeStatus::Completed);
    assert_eq!(run.state.early.len(), FILLING);
}

#[test]
fn signal_beyond_the_limit_is_refused_without_a_trace_and_taken_when_there_is_room() {
    let plan = plan("w = signal(go); v = signal(later) needs w; x = signal(end)");
    let mut run = Run::start(&plan, "{}", None, 1);
    fill(&mut run, "later");
    let seq = run.state.seq;
    for _ in 0..2 {
        let refusal = run.command(signal("later", "m")).unwrap_err();
        assert!(refusal.is_passing(), "{refusal}");
        assert_eq!(run.state.seq, seq, "its message is not consumed");
    }
    // A wait takes one of them.
    run.command(signal("go", "go")).unwrap();
    run.command(signal("later", "m")).unwrap();
    assert_eq!(run.state.early.len(), FILLING);
}

/// Mail that is refused for want of room is consumed by an event, and its id is not used up.
#[test]
fn bug_signal_refused_as_mail_used_up_its_message_id() {
    let plan = Arc::new(plan("w = signal(go); v = signal(later) needs w; x = signal(end)"));
    let mut run = Run::start(&plan, "{}", None, 1);
    fill(&mut run, "later");
    let ignored = || {
        let (message, reason) = ("m".into(), "no room".to_owned());
        Command::Ignore { message, reason, repeatable: true }
    };
    for _ in 0..2 {
        assert!(run.command(signal("later", "m")).unwrap_err().is_passing());
        run.command(ignored()).unwrap();
    }
    run.command(signal("go", "go")).unwrap();
    run.command(signal("later", "m")).unwrap();
    assert_eq!(run.state.early.len(), FILLING);
    // From now on it counts as received, however often its mail is read.
    assert_eq!(run.command(signal("later", "m")), Err(Refusal::Duplicate));
    let seq = run.state.seq;
    run.command(ignored()).unwrap();
    assert_eq!(run.state.seq, seq);
    let mut logbook = Logbook::new(Arc::clone(&plan));
    run.log.iter().for_each(|event| logbook.read(std::slice::from_ref(event)));
    assert_eq!(logbook.check.violations(), []);
}

/// A wait with a filter gets one signal by key after the other, and those that it rejects are kept.
#[test]
fn bug_signals_by_key_that_a_filter_rejects_kept_out_all_others() {
    let plan = plan("w = signal(paid, by 7, where false); v = signal(go); x = signal(end)");
    let mut run = Run::start(&plan, "{}", None, 1);
    fill(&mut run, "paid[7]");
    assert!(run.command(signal("paid[7]", "m")).unwrap_err().is_passing());
    fill(&mut run, "other");
    assert!(run.command(signal("other", "m")).unwrap_err().is_passing());
    run.command(signal("go", "go")).unwrap();
    assert_eq!(run.node("v").status, NodeStatus::Completed);
}

#[test]
fn what_is_kept_for_one_wait_ends_with_it() {
    check(CASES);
}

pub(crate) const CASES: &[Case] = &[
    case(
        "a callback is dropped if its operation fails to start, and the next operation waits for its own",
        "p = operation {s} retry 2 wait 1s; z needs p",
        "
        start               -> runs p/s
        callback p p/1 7 #m -> early 1
        fail p/s http retry -> p WAITING, early 0
        wait 1m             -> runs p/s
        complete p/s        -> p WAITING
        callback p p@2/1 8  -> p COMPLETED, p gives 8
    ",
    ),
    case(
        "a callback is dropped with the item that it was for",
        "m = map([1,2]) {p = operation {s}}",
        "
        start
        complete m[0]/p/s
        complete m[1]/p/s
        pause
        callback m[0]/p m[0]/p/1 1 -> early 1
        callback m[1]/p m[1]/p/1 1 -> early 2
        cancel-item m[0]           -> refused paused
        resume                     -> m COMPLETED, early 0
    ",
    ),
    case(
        "a callback that fails its operation is not kept",
        "p = operation {s} error continue; z needs p",
        "
        start
        callback-failed p p/1 7 -> early 1
        complete p/s            -> p FAILED, early 0, runs z
    ",
    ),
    case(
        "a callback that came early is dropped when its operation is cancelled",
        "p = operation {s}; w = signal(go)",
        "
        start
        callback p p/1 7 -> early 1
        cancel
        complete p/s     -> execution CANCELLED, early 0
    ",
    ),
    case(
        "the result of a message is ignored after the wait for it",
        "n = notify(hello, within 9s) error continue; w = signal(go)",
        "
        start
        wait 9s          -> n TIMED_OUT
        settled 5 1 0    -> refused no wait 5, early 0
        settled 5 1 0 #m -> logs MessageIgnored, early 0
        settled 5 1 0 #m -> refused already received
    ",
    ),
    case(
        "the result of a message is dropped with the wait that it was kept for",
        "n = notify(hello); w = signal(go)",
        "
        start
        pause
        settled n 1 0 -> early 1
        cancel        -> execution CANCELLED, early 0
    ",
    ),
    case(
        "only the store says what became of a message",
        "n = notify(hello); w = signal(go)",
        r#"
        start                                   -> n WAITING
        signal waypost.delivery.5 {"delivered":9} -> refused reserved, n WAITING, early 0
        signal waypost.delivery.5 {"delivered":9} #m -> logs MessageIgnored, n WAITING
        settled w 1 0                           -> refused no wait
        settled n 1 0                           -> n COMPLETED
    "#,
    ),
    case(
        "a wait for a reserved name fails",
        "w = signal(waypost.delivery.5); v = signals(waypost/callback:p/1)",
        "
        start -> w FAILED, w failed invalid_config
    ",
    ),
];
