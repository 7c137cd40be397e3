//! Waits for signals by their key.

use waypost_core::command::{Command, Request};
use waypost_core::event::{KEYS_LOG_FORMAT, Origin};
use waypost_core::flow::plan;
use waypost_core::limits::{FAILURE_MESSAGE_BYTES_MAX, SIGNAL_KEY_CHARS_MAX};
use waypost_core::status::NodeStatus;

use super::run::Run;
use super::waits::signal;

#[test]
fn signals_by_key_need_their_log_format() {
    for definition in
        ["w = signal(a, by 7)", "w = signals(a by 7, b)", "m = map(2) {e = emit(key 7, a)}"]
    {
        assert_eq!(plan(definition).requires(), KEYS_LOG_FORMAT, "{definition}");
    }
}

/// The names of what an execution waits for by key, in the order of its waits.
fn wanted(run: &Run<'_>) -> Vec<String> {
    run.state.subscriptions(run.plan).values().map(ToString::to_string).collect()
}

#[test]
fn wait_by_key_is_for_the_signal_of_that_key_alone() {
    let plan = plan("v = value(7); w = signal(paid, by ${{ nodes.v.output }}) needs v");
    let mut run = Run::start(&plan, "{}", None, 1);
    assert_eq!(wanted(&run), ["paid[7]"]);
    for other in ["paid", "paid[8]", "paid[77]"] {
        run.command(signal(other, "1")).unwrap();
    }
    assert_eq!(run.node("w").status, NodeStatus::Waiting);
    run.command(signal("paid[7]", r#"{"ok":true}"#)).unwrap();
    assert_eq!(run.node("w").output.as_ref().unwrap().text(), r#"{"ok":true}"#);
    assert_eq!(wanted(&run), [""; 0]);
}

#[test]
fn waits_by_key_are_wanted_until_their_signal_came() {
    let plan = plan("w = signals(a by 1, b, c by x, need 3); p = signal(plain)");
    let mut run = Run::start(&plan, "{}", None, 1);
    assert_eq!(wanted(&run), ["a[1]", "c[x]"]);
    run.command(signal("c[x]", "1")).unwrap();
    assert_eq!(wanted(&run), ["a[1]"]);
    run.command(Command::Request(Request::Cancel { reason: None }, Origin::default())).unwrap();
    assert_eq!(wanted(&run), [""; 0]);
}

#[test]
fn wait_without_a_usable_key_fails() {
    for (key, why) in [("${{ none }}", "not null"), ("${{ [1] }}", "not [1]")] {
        let plan = plan(&format!("w = signal(paid, by {key})"));
        let run = Run::start(&plan, "{}", None, 1);
        let failure = run.node("w").failure.clone().expect("it failed");
        assert_eq!(failure.kind, "invalid_config");
        assert!(failure.message.contains(why), "{}", failure.message);
    }
}

/// A value of a million bytes was quoted in the message, which the log, every ancestor and every message had.
#[test]
fn bug_a_failure_quoted_all_of_a_huge_value() {
    for definition in ["w = delay(${{ input }})", "w = signal(a, by ${{ [input] }})"] {
        let plan = plan(definition);
        let run = Run::start(&plan, &format!("\"{}\"", "é".repeat(500_000)), None, 1);
        let failure = run.node("w").failure.clone().expect("it failed");
        let bytes = failure.message.len();
        assert!((1_000..=FAILURE_MESSAGE_BYTES_MAX).contains(&bytes), "{definition}: {bytes}");
        assert!(failure.message.ends_with('…'), "{}", failure.message);
    }
}

#[test]
fn bug_a_node_waited_for_a_signal_whose_name_no_request_may_have() {
    let plan = plan("w = signal(${{ input }})");
    let name = |count: usize| format!("\"{}\"", "é".repeat(count));
    let run = Run::start(&plan, &name(SIGNAL_KEY_CHARS_MAX), None, 1);
    assert_eq!(run.node("w").status, NodeStatus::Waiting);
    let run = Run::start(&plan, &name(SIGNAL_KEY_CHARS_MAX + 1), None, 1);
    let failure = run.node("w").failure.clone().expect("it failed");
    assert_eq!(failure.kind, "invalid_config");
    assert!(failure.message.contains("has 257"), "{}", failure.message);
}
