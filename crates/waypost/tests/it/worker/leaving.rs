//! A worker that stops with unanswered reports.

use serde_json::json;
use waypost_server::problem::Code;
use waypost_testbed::{PendingRequest, Process, Proxy, Sink, Stub, free_port, wait_until};

use super::rig::{
    A, LONG, Server as _, accepted, body, committed, is_task_request, refuse, task, worker,
};
use crate::program::Program;

/// A worker that was stopped with a grace time of a moment, and whose report was refused long after.
fn stopped_with_a_report(program: &Program, server: &mut Stub) -> (Process, PendingRequest) {
    let sink = Sink::start();
    let mut process = worker(program, &[&server.url()]);
    server.give(&[task(A, &sink)]);
    refuse(server.await_request("report", A), Code::Unauthenticated);
    process.terminate();
    process.wait_for_line("stopping running attempts", LONG);
    // The pause between two tries alone is many times as long as the grace time.
    for _ in 0..3 {
        refuse(server.await_request("report", A), Code::Unauthenticated);
    }
    let report = server.await_request("report", A);
    (process, report)
}

#[test]
fn stopping_worker_after_grace_time_still_repeats_reports() {
    let (program, mut server) = (Program::new(), Stub::start());
    let (mut process, report) = stopped_with_a_report(&program, &mut server);
    assert_eq!(body(&report.request)["status"], "completed");
    committed(report);
    let leave = server.next("the farewell", LONG, |request| request.path.ends_with("/leave"));
    assert_eq!(body(&leave.request)["tasks"], json!([]));
    leave.answer(204, "");
    assert!(process.wait(LONG).success(), "{}", process.output());
    assert!(!process.output().contains("unanswered reports"), "{}", process.output());
}

#[test]
fn a_second_signal_gives_reports_up_and_says_how_many() {
    let (program, mut server) = (Program::new(), Stub::start());
    let (mut process, _report) = stopped_with_a_report(&program, &mut server);
    process.terminate();
    assert!(process.wait(LONG).success(), "{}", process.output());
    let line = process.wait_for_line("unanswered reports", LONG);
    assert!(line.contains("reports=1") && line.contains("tasks=0"), "{line}");
}

#[test]
fn a_handler_that_runs_is_stopped_after_the_grace_time() {
    let (program, mut server, sink) = (Program::new(), Stub::start(), Sink::start());
    sink.hold();
    let mut process = worker(&program, &[&server.url()]);
    server.give(&[task(A, &sink)]);
    sink.wait_for(1, LONG);
    process.terminate();
    let report = server.await_request("report", A);
    let said = body(&report.request);
    assert_eq!(said["status"], "abandoned");
    assert_eq!(said["failure"]["kind"], "handed_over");
    committed(report);
    // What listened meanwhile is not awaited.
    wait_until("it has left", LONG, || {
        match server.look(|request| request.path.ends_with("/leave")) {
            Some(leave) => leave.answer(204, ""),
            None => return false,
        }
        true
    });
    assert!(process.wait(LONG).success(), "{}", process.output());
    assert!(server.look(|request| is_task_request(request, "report", A)).is_none());
}

#[test]
fn a_real_server_that_is_away_meanwhile_hears_of_what_was_done() {
    let (program, sink, port) = (Program::new(), Sink::start(), free_port());
    sink.hold();
    let serve = program.command(&["serve", "--listen", &format!("127.0.0.1:{port}")]);
    let mut server = Process::start(&serve, &program.path().join("server.log"));
    server.wait_ready(port, LONG);
    let input = json!({ "method": "POST", "url": sink.url("/") });
    let node =
        json!({ "id": "n", "type": "worker", "config": { "handler": "api-call", "input": input } });
    let definition =
        program.file("far.yaml", json!({ "name": "far", "nodes": [node] }).to_string());
    assert_eq!(program.run(&["deploy", &definition.display().to_string()]).code, 0);
    let proxy = Proxy::start(port);
    let mut process = worker(&program, &[&format!("http://127.0.0.1:{}", proxy.port())]);
    assert_eq!(program.run(&["start", "far", "--id", "e"]).code, 0);
    sink.wait_for(1, LONG);
    proxy.refuse();
    sink.release();
    process.wait_for_line("a report is not answered; kept", LONG);
    process.terminate();
    process.wait_for_line("stopping running attempts", LONG);
    proxy.accept();
    assert!(process.wait(LONG).success(), "{}", process.output());
    let shown = program.json(&["show", "e"]);
    assert_eq!(shown["nodes"][0]["status"], "COMPLETED", "{shown}");
    assert_eq!(sink.received().len(), 1);
}

/// A start that is answered when the worker is already on its way out begins nothing.
fn not_begun(answer_start: impl Fn(&mut Stub, &mut Process)) {
    let (program, mut server, sink) = (Program::new(), Stub::start(), Sink::start());
    let mut process = worker(&program, &[&server.url()]);
    server.hand(&[task(A, &sink)]);
    answer_start(&mut server, &mut process);
    let report = server.await_request("report", A);
    let said = body(&report.request);
    assert_eq!((&said["status"], &said["failure"]["unsent"]), (&json!("abandoned"), &json!(true)));
    committed(report);
    let leave = server.next("the farewell", LONG, |request| request.path.ends_with("/leave"));
    leave.answer(204, "");
    assert!(process.wait(LONG).success(), "{}", process.output());
    assert!(sink.received().is_empty(), "the handler was never called");
}

#[test]
fn stopping_worker_before_start_is_answered_gives_up_the_task() {
    not_begun(|server, process| {
        let start = server.await_request("start", A);
        process.terminate();
        process.wait_for_line("stopping running attempts", LONG);
        committed(start);
    });
}

#[test]
fn stopping_worker_with_uncommitted_start_gives_up_the_task() {
    not_begun(|server, process| {
        accepted(server.await_request("start", A));
        let again = server.await_request("start", A);
        process.terminate();
        process.wait_for_line("stopping running attempts", LONG);
        accepted(again);
    });
}
