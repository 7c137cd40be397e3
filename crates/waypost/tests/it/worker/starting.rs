//! A start that was accepted lies in an inbox, and reserves nothing: it is said again until it is in the
//! log or refused.

use serde_json::json;
use waypost_server::problem::Code;
use waypost_testbed::{Process, Sink, Stub, wait_until};

use super::rig::{
    A, B, LONG, Server as _, accepted, body, committed, idle, is_task_request, named, refuse, task,
    worker,
};
use crate::program::Program;

/// A worker that was given one task, and whose start was accepted.
fn accepted_once(program: &Program, sink: &Sink) -> (Stub, Process) {
    let mut server = Stub::start();
    let process = worker(program, &[&server.url()]);
    server.hand(&[task(A, sink)]);
    accepted(server.await_request("start", A));
    (server, process)
}

#[test]
fn task_started_by_another_worker_does_not_run() {
    let (program, sink) = (Program::new(), Sink::start());
    let (mut server, _worker) = accepted_once(&program, &sink);
    let again = server.await_request("start", A);
    assert!(sink.received().is_empty(), "begun before it was in the log");
    refuse(again, Code::StaleAttempt);
    idle(std::slice::from_mut(&mut server));
    assert!(sink.received().is_empty(), "started although another worker has it");
}

#[test]
fn task_whose_start_is_committed_runs_once() {
    let (program, sink) = (Program::new(), Sink::start());
    let (mut server, _worker) = accepted_once(&program, &sink);
    accepted(server.await_request("start", A));
    let again = server.await_request("start", A);
    assert!(sink.received().is_empty(), "begun before it was in the log");
    committed(again);
    committed(server.await_request("report", A));
    idle(std::slice::from_mut(&mut server));
    assert_eq!(sink.received().len(), 1);
    assert!(server.look(|request| is_task_request(request, "start", A)).is_none());
}

#[test]
fn task_whose_owner_is_unreachable_runs_unless_at_most_once() {
    let (program, sink) = (Program::new(), Sink::start());
    let mut server = Stub::start();
    let _worker = worker(&program, &[&server.url()]);
    let mut once = task(B, &sink);
    once["atMostOnce"] = json!(true);
    server.hand(&[once]);
    accepted(server.await_request("start", B));
    // It waits for longer than the other one from here on.
    let again = server.await_request("start", B);
    server.hand(&[task(A, &sink)]);
    accepted(again);
    wait_until("the handler runs", LONG, || {
        let is_start = |request: &_| {
            is_task_request(request, "start", A) || is_task_request(request, "start", B)
        };
        std::iter::from_fn(|| server.look(is_start)).for_each(accepted);
        !sink.received().is_empty()
    });
    committed(server.await_request("report", A));
    accepted(server.await_request("start", B));
    refuse(server.await_request("start", B), Code::ForeignToken);
    idle(std::slice::from_mut(&mut server));
    assert_eq!(sink.counts().into_keys().collect::<Vec<_>>(), [A]);
}

#[test]
fn task_cancelled_before_its_start_is_committed_does_not_run() {
    let (program, sink) = (Program::new(), Sink::start());
    let (mut server, _worker) = accepted_once(&program, &sink);
    let again = server.await_request("start", A);
    let poll = server.poll(1);
    assert_eq!(named(&poll), [A]);
    poll.answer(200, &json!({ "tasks": [], "cancel": [A] }).to_string());
    // When it polls again, it has received the cancellation.
    drop(server.poll(1));
    accepted(again);
    let report = server.await_request("report", A);
    assert_eq!(body(&report.request)["status"], "cancelled");
    committed(report);
    assert!(sink.received().is_empty(), "begun although it was to stop");
}
