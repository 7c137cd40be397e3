//! The line for a permit of the concurrency key: what stands in it has not begun.

use super::run::Run;
use super::script::{Case, case, check};
use waypost_core::command::Command;
use waypost_core::event::{Event, RunEvent};
use waypost_core::flow::plan;
use waypost_core::limits::CONCURRENCY_KEY_BYTES_MAX;
use waypost_core::why::why;

#[test]
fn queued_execution_without_a_permit_starts_no_node() {
    check(CASES);
}

pub(crate) const CASES: &[Case] = &[
    case("nothing begins before the slot", "keyed k; a; b needs a", "
        start      -> logs RunCreated RunOwned RunQueued, execution SCHEDULING, a+b PENDING, runs, due never
        own        -> execution SCHEDULING, logs RunOwned
        recover    -> nothing
        admit      -> logs RunAdmitted NodeScheduled NodeStarted, execution RUNNING, runs a
        complete a -> runs b
        complete b -> execution COMPLETED
    "),
    case("a slot is given once", "keyed k; a", "
        start
        own
        admit
        admit      -> refused does not wait
        complete a -> execution COMPLETED
        admit      -> refused has ended
    "),
    case("what has no key is not admitted", "a", "
        start
        admit -> refused does not wait
    "),
    case("it goes back to its place where something else had woken it", "keyed k; a", "
        start
        park      -> refused something to do
        own
        resume #r -> logs MessageIgnored
        park      -> logs RunQueued, execution SCHEDULING
        park      -> refused something to do
        take-over -> execution SCHEDULING, logs RunOwned
        admit     -> runs a
    "),
    case("a cancel ends it, and no node ever moves", "keyed k; a; b needs a", "
        start
        own
        cancel    -> execution CANCELLED, logs RunEnding RunCancelled, a+b CANCELLED, runs
        admit     -> refused has ended
    "),
    case("its deadline ends it", "keyed k; a", "
        start within 1m -> due 1m
        later 1m
        take-over -> execution TIMED_OUT, logs RunOwned RunEnding RunTimedOut, a CANCELLED
    "),
    case("a slot that comes with the end is not used", "keyed k; a", "
        start
        own
        cancel
        admit -> refused has ended
    "),
    case("signals are kept for what will wait", "keyed k; w = signal(go); a needs w", "
        start
        own
        signal go 1 #s -> early 1, execution SCHEDULING, logs SignalReceived
        admit          -> w COMPLETED, w gives 1, runs a
    "),
    case("there is nothing to pause, to resume, or to end", "keyed k; a", "
        start
        own
        pause       -> refused has not started
        pause #p    -> logs MessageIgnored, execution SCHEDULING
        pause-now   -> refused has not started
        resume      -> refused not paused
        end-wait 3  -> refused no wait
        reopen      -> refused only an execution that failed
        admit       -> runs a
        pause       -> execution PAUSING
        complete a  -> execution COMPLETED
    "),
    case("a slot is held through pauses, waits and take-overs", "keyed k; w = signal(go); a needs w", "
        start
        own
        admit     -> w WAITING
        park      -> execution WAITING
        take-over -> execution RUNNING, logs RunOwned RunResumed
        pause     -> execution PAUSED
        own
        resume    -> execution RUNNING
        admit     -> refused does not wait
    "),
    case("what is reopened goes to the end of the line", "keyed k; a; b needs a", "
        start
        own
        admit
        complete a
        fail b    -> execution FAILED
        reopen    -> logs RunReopened RunOwned RunQueued, execution SCHEDULING, a COMPLETED, b PENDING, runs
        park      -> refused something to do
        own
        admit     -> runs b
    "),
    case("cancelled in the queue, reopened, admitted", "keyed k; a", "
        start within 1m
        own
        cancel -> execution CANCELLED
        later 5m
        reopen -> execution SCHEDULING, a PENDING, due 1m
        own
        admit  -> runs a
    "),
    case("a key from the input", "keyed 'user-${{ input.user }}'; a", "
        start {\"user\": 7} -> execution SCHEDULING
    "),
    case("a key that cannot be evaluated fails the execution", "keyed '${{ input.user }}'; a", "
        start   -> logs RunCreated RunOwned RunEnding RunFailed, execution FAILED, failure expression, a CANCELLED, runs
        reopen  -> logs RunReopened RunOwned RunEnding RunFailed, execution FAILED
    "),
    case("a key that is no name fails the execution", "keyed '${{ input.user }}'; a", "
        start {\"user\": null} -> execution FAILED, failure invalid_config
    "),
    case("nor is a list one", "keyed '${{ input.user }}'; a", "
        start {\"user\": [1]} -> execution FAILED, failure invalid_config
    "),
    case("nor is nothing", "keyed '${{ input.user }}'; a", "
        start {\"user\": \"\"} -> execution FAILED, failure invalid_config
    "),
];

/// The keys that inputs give, and that each is told apart by its workflow.
#[test]
fn keys_are_texts() {
    let plan = plan("keyed '${{ input.k }}'; a");
    let longest = "k".repeat(CONCURRENCY_KEY_BYTES_MAX);
    let keys = [
        ("\"ann\"".to_owned(), Some("ann".to_owned())),
        ("7".to_owned(), Some("7".to_owned())),
        ("100000000000000000001".to_owned(), Some("100000000000000000001".to_owned())),
        ("1E400".to_owned(), Some("1E400".to_owned())),
        ("true".to_owned(), Some("true".to_owned())),
        (format!("{longest:?}"), Some(longest.clone())),
        (format!("\"{longest}k\""), None),
    ];
    for (input, expected) in keys {
        let run = Run::start(&plan, &format!("{{\"k\": {input}}}"), None, 1);
        let key = run.log.iter().find_map(|(_, event)| match event {
            Event::Run(RunEvent::Queued { key, .. }) => Some(key.to_string()),
            _ => None,
        });
        assert_eq!(key, expected);
        let scoped = expected.map(|key| format!("test/{key}"));
        let request = run.state.permit_request();
        assert_eq!(request.map(|request| request.key).as_deref(), scoped.as_deref());
    }
}

#[test]
fn why_names_the_setting_that_limits_a_queued_attempt() {
    for (flow, setting) in [("a", "slots"), ("a = call", "io_slots")] {
        let plan = plan(flow);
        let run = Run::start(&plan, "{}", None, 0);
        let [reason] = why(&plan, &run.state, None).try_into().expect("one node waits");
        let expected = format!("waits for a free slot for attempt 1 (setting {setting})");
        assert_eq!(reason.what, expected);
    }
}

#[test]
fn why_names_the_key_and_the_place() {
    let plan = plan("keyed k 3; a");
    let mut run = Run::start(&plan, "{}", None, 1);
    let says = |run: &Run<'_>, before| {
        let reasons = why(&plan, &run.state, before);
        reasons.into_iter().map(|reason| reason.what).collect::<Vec<_>>().join(", ")
    };
    let waits = "waits for a permit of concurrency key \"k\" (limit 3)";
    assert_eq!(says(&run, None), waits);
    assert_eq!(says(&run, Some(5)), format!("{waits}; 5 executions are ahead of it"));
    assert_eq!(says(&run, Some(0)), format!("{waits}; it is next"));
    run.command(Command::TakeOver).expect("it has not ended");
    run.command(Command::Admit).expect("it waits");
    assert_eq!(says(&run, Some(0)), "runs attempt 1");
}
