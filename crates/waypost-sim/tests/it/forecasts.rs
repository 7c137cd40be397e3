//! Forecasts of small programs, worked out by hand.

use serde_json::json;
use waypost_sim::model::{Forecast, foretell};
use waypost_sim::program::{
    DelaySpan, FailurePolicy, Join, Kind, Need, Node, OnError, Operation, Program, RetryOn,
    RetryRule, Script, Signal, Test, Value,
};

/// `needs` as in `a, c.true`.
fn node(id: &str, kind: Kind, needs: &str) -> Node {
    let need = |need: &str| {
        let (source, branch) = need.split_once('.').map_or((need, None), |(s, b)| (s, Some(b)));
        // The tests below name their nodes a, b, c, … in order.
        let source = usize::from(source.as_bytes()[0] - b'a');
        Need { source, branch: branch.map(Into::into) }
    };
    Node::plain(id, kind, needs.split(", ").filter(|text| !text.is_empty()).map(need).collect())
}

fn task(id: &str, script: Script, needs: &str) -> Node {
    node(id, Kind::Task(script), needs)
}

fn first(count: usize, cancel_rest: bool, of: Node) -> Node {
    Node { join: Join::Count { count, cancel_rest }, ..of }
}

fn program(nodes: Vec<Node>) -> Program {
    Program {
        nodes,
        failure_policy: FailurePolicy::FailFast,
        timeout_ms: None,
        keyed: None,
        budget: None,
    }
}

/// `a COMPLETED, b FAILED|SKIPPED = FAILED`, with `…` where it may wait for ever.
fn text(program: &Program, forecast: &Forecast) -> String {
    let nodes = program.nodes.iter().zip(&forecast.nodes).map(|(node, outcomes)| {
        let outcomes: Vec<String> = outcomes.iter().map(ToString::to_string).collect();
        format!("{} {}", node.id, outcomes.join("|"))
    });
    let nodes: Vec<String> = nodes.collect();
    let ends: Vec<&str> = forecast.ends.iter().map(|end| end.name()).collect();
    let waits = if forecast.waits { "…" } else { "" };
    format!("{} = {}{waits}", nodes.join(", "), ends.join("|"))
}

#[track_caller]
fn check(program: &Program, expected: &str) {
    let definition = program.definition();
    waypost_lang::parse(definition.as_bytes(), &waypost_nodes::catalog()).expect("it is valid");
    let forecast = foretell(program, &json!({ "n": 5, "sink": "" }));
    assert_eq!(text(program, &forecast), expected, "{program}");
}

#[test]
fn forecast_of_a_choice_is_exact() {
    let nodes = vec![
        node("a", Kind::Condition(Test::AtLeast(5)), ""),
        task("b", Script::Good, "a.true"),
        task("c", Script::Bad, "a.false"),
        node("d", Kind::Join, "b, c"),
        node("e", Kind::Output(vec![Value::OutputOf(3)]), "d"),
    ];
    check(
        &program(nodes),
        "a COMPLETED(true), b COMPLETED, c SKIPPED, d COMPLETED, e COMPLETED = COMPLETED",
    );
}

#[test]
fn forecast_of_an_operation_has_its_callbacks_and_its_expiry() {
    for (timeout_ms, late, expected) in [
        (None, false, "a COMPLETED|FAILED, b COMPLETED = COMPLETED…"),
        (Some(50), false, "a COMPLETED|FAILED|TIMED_OUT, b COMPLETED = COMPLETED"),
        (Some(50), true, "a COMPLETED|COMPLETED(late)|FAILED, b COMPLETED|SKIPPED = COMPLETED"),
    ] {
        let operation = Operation { timeout_ms, late, ..Operation::simplest() };
        let on_error = OnError::Continue;
        let a = Node { on_error, ..node("a", Kind::Operation(operation), "") };
        check(&program(vec![a, task("b", Script::Good, "a")]), expected);
    }
}

#[test]
fn forecast_of_retries_is_exact() {
    let retry = |max_attempts, on| RetryRule { max_attempts, wait_ms: 10, backoff: true, on };
    for (script, retry, expected) in [
        (Script::Flaky(2), Some(retry(3, RetryOn::Transient)), "a COMPLETED = COMPLETED"),
        (Script::Flaky(2), Some(retry(2, RetryOn::Transient)), "a FAILED = FAILED"),
        (Script::Flaky(1), None, "a FAILED = FAILED"),
        (Script::Flaky(1), Some(retry(3, RetryOn::Timeouts)), "a FAILED = FAILED"),
        (Script::Down, Some(retry(3, RetryOn::ServerErrors)), "a FAILED = FAILED"),
        (Script::Hang, Some(retry(3, RetryOn::Transient)), "a TIMED_OUT = FAILED"),
    ] {
        let timeout_ms = Some(100);
        check(&program(vec![Node { retry, timeout_ms, ..task("a", script, "") }]), expected);
    }
}

#[test]
fn forecast_of_a_failure_stops_only_later_nodes() {
    let nodes = vec![
        task("a", Script::Good, ""),
        task("b", Script::Bad, "a"),
        task("c", Script::Good, "a"),
        task("d", Script::Good, "b"),
    ];
    let fast = program(nodes);
    check(&fast, "a COMPLETED, b FAILED, c COMPLETED|CANCELLED, d CANCELLED = FAILED");
    let partial = Program { failure_policy: FailurePolicy::Partial, ..fast };
    check(&partial, "a COMPLETED, b FAILED, c COMPLETED, d SKIPPED = FAILED");
}

#[test]
fn a_handled_failure_is_none() {
    let on_error = OnError::Branch("oops".into());
    let nodes = vec![
        Node { on_error, ..task("a", Script::Bad, "") },
        node("b", Kind::Noop, "a"),
        node("c", Kind::Noop, "a.oops"),
        node("d", Kind::Noop, "b, c"),
    ];
    check(&program(nodes), "a FAILED, b SKIPPED, c COMPLETED, d COMPLETED = COMPLETED");
}

#[test]
fn a_race_may_cancel_its_losers() {
    let nodes = vec![
        task("a", Script::Good, ""),
        node("b", Kind::Delay(DelaySpan::Fixed(900)), ""),
        node("c", Kind::Delay(DelaySpan::Fixed(0)), "b"),
        first(1, true, node("d", Kind::Join, "a, c")),
    ];
    let expected = "a COMPLETED|CANCELLED, b COMPLETED|CANCELLED, c COMPLETED|CANCELLED, \
                    d COMPLETED = COMPLETED";
    check(&program(nodes), expected);
}

#[test]
fn a_join_that_cannot_be_met_is_skipped_or_fails_as_it_comes() {
    let bad = || Node { on_error: OnError::Branch("oops".into()), ..task("a", Script::Bad, "") };
    let join = |count| {
        let join = first(count, false, node("c", Kind::Join, "a, b"));
        Node { on_error: OnError::Continue, ..join }
    };
    let both = program(vec![bad(), task("b", Script::Good, ""), join(2)]);
    check(&both, "a FAILED, b COMPLETED, c FAILED|SKIPPED = COMPLETED");
    let any = program(vec![bad(), Node { id: "b".into(), ..bad() }, join(1)]);
    check(&any, "a FAILED, b FAILED, c SKIPPED = COMPLETED");
}

#[test]
fn waits_and_limits_leave_things_open() {
    let wait = |timeout_ms| Kind::Wait { signal: Signal::Go, timeout_ms };
    check(&program(vec![node("a", wait(None), "")]), "a COMPLETED = COMPLETED…");
    let timed = program(vec![node("a", wait(Some(500)), "")]);
    check(&timed, "a COMPLETED|TIMED_OUT = COMPLETED|FAILED");
    let delay = |deadline_ms| Node {
        deadline_ms: Some(deadline_ms),
        ..node("a", Kind::Delay(DelaySpan::Computed { times: 2_000, minus: 1_000 }), "")
    };
    check(&program(vec![delay(8_000)]), "a TIMED_OUT = FAILED");
    check(&program(vec![delay(30_000)]), "a COMPLETED = COMPLETED");
    let hurried = Program { timeout_ms: Some(5_000), ..program(vec![delay(30_000)]) };
    check(&hurried, "a COMPLETED|CANCELLED = COMPLETED|TIMED_OUT");
    let ample = Program { timeout_ms: Some(90_000), ..program(vec![delay(30_000)]) };
    check(&ample, "a COMPLETED = COMPLETED");
}
