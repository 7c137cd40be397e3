//! `waypost worker` against a server that a test plays.

use std::time::Duration;

use serde_json::{Value, json};
use waypost_testbed::{Process, Received, Sink, wait_until};

use crate::program::Program;

/// How long anything may take. Reaching it is a failure.
const LONG: Duration = Duration::from_secs(120);

/// A task under a token of its own.
fn task(token: u128, attempt: u32, url: &str) -> Value {
    json!({
        "token": format!("{token:032x}"), "execution": "exe_1", "workflow": "calls", "node": "call",
        "attempt": attempt, "handler": "api-call", "input": { "method": "POST", "url": url },
        "idempotencyKey": "exe_1/call",
    })
}

/// A server that gives out these tasks, each when it has a report on the one before, and takes all reports.
fn server(tasks: Vec<Value>) -> Sink {
    let server = Sink::start();
    let (mut tasks, mut reported) = (tasks.into_iter(), true);
    server.answer_by(move |request| {
        if !request.path.contains("/poll") {
            reported |= request.path.ends_with("/report");
            return (200, json!({ "committed": true }).to_string());
        }
        let task = if reported { tasks.next() } else { None };
        match task {
            Some(task) => {
                reported = false;
                (200, json!({ "tasks": [task], "cancel": [] }).to_string())
            }
            // Nothing for now: it pauses, and asks again.
            None => (503, "{}".to_owned()),
        }
    });
    server
}

/// Where the answer to a report is lost together with the instance that knew of the start, the same attempt
/// comes once more, under another token: it is reported once more, and not made again.
#[test]
fn an_attempt_that_is_delivered_twice_is_made_once() {
    let program = Program::new();
    let world = Sink::start();
    let mut calls = 0;
    world.answer_by(move |_| {
        calls += 1;
        (200, json!({ "call": calls }).to_string())
    });
    let url = world.url("/call");
    // The last is the next attempt: that one is made.
    let server = server(vec![task(1, 1, &url), task(2, 1, &url), task(3, 2, &url)]);
    let mut command = program.command(&["worker", "--handler", "api-call", "--log", "info"]);
    command.args(["--server", &server.url(""), "--allow-egress", "127.0.0.1/32"]);
    let mut worker = Process::start(&command, &program.path().join("worker.log"));
    let told = |what: &str| -> Vec<(String, Value)> {
        let of = |request: &Received| {
            let token = request.path.strip_prefix("/v1/tasks/")?.strip_suffix(what)?;
            Some((
                token.trim_start_matches('0').to_owned(),
                serde_json::from_slice(&request.body).ok()?,
            ))
        };
        server.received().iter().filter_map(of).collect()
    };
    wait_until("three reports", LONG, || told("/report").len() == 3);
    worker.terminate();
    assert!(worker.wait(LONG).success(), "{}", worker.output());

    assert_eq!(world.received().len(), 2, "one call for each attempt");
    let begun: Vec<_> = told("/start").into_iter().map(|(token, _)| token).collect();
    assert_eq!(begun, ["1", "3"], "what was made before does not begin");
    let reports = told("/report");
    let outcome = |at: usize| (reports[at].0.as_str(), &reports[at].1["output"]["body"]["call"]);
    assert_eq!(outcome(0), ("1", &json!(1)), "{reports:?}");
    assert_eq!(outcome(1), ("2", &json!(1)), "{reports:?}");
    assert_eq!(outcome(2), ("3", &json!(2)), "{reports:?}");
    assert_eq!(reports[0].1, reports[1].1, "the same is reported");
}
