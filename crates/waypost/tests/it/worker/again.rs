//! The same attempt once more, under another token.

use waypost_server::problem::Code;
use waypost_testbed::{PendingRequest, Sink, Stub};

use super::rig::{
    A, B, LONG, Server as _, accepted, answer, body, committed, idle, named, refuse, task_of,
    worker,
};
use crate::program::Program;

#[test]
fn attempt_with_uncommitted_report_is_reported_again_and_not_rerun() {
    let program = Program::new();
    let (mut server, sink) = (Stub::start(), Sink::start());
    let _worker = worker(&program, &[&server.url()]);
    server.give(&[task_of("e", A, &sink)]);
    accepted(server.await_request("report", A));
    server.hand(&[task_of("e", B, &sink)]);
    let report = server.await_request("report", B);
    assert_eq!(body(&report.request)["status"], "completed");
    committed(report);
    assert_eq!(sink.received().len(), 1);
}

#[test]
fn attempt_with_committed_report_reruns_only_on_a_committed_start() {
    let program = Program::new();
    let (mut server, sink) = (Stub::start(), Sink::start());
    let _worker = worker(&program, &[&server.url()]);
    server.give(&[task_of("e", A, &sink)]);
    committed(server.await_request("report", A));
    // Only when the worker has read that answer does it know.
    answer(idle(std::slice::from_mut(&mut server)), &[task_of("e", B, &sink)]);
    accepted(server.await_request("start", B));
    refuse(server.await_request("start", B), Code::StaleAttempt);
    // A log that knows nothing of it, as after a restore, has it made once more.
    server.hand(&[task_of("e", A, &sink)]);
    assert_eq!(sink.received().len(), 1);
    committed(server.await_request("start", A));
    committed(server.await_request("report", A));
    sink.wait_for(2, LONG);
}

/// The second start is on its way while the first delivery is done, reported, and answered like this.
fn begun_twice(answer_first: impl Fn(PendingRequest)) {
    let program = Program::new();
    let (mut server, sink) = (Stub::start(), Sink::start());
    sink.hold();
    let _worker = worker(&program, &[&server.url()]);
    server.give(&[task_of("e", A, &sink)]);
    sink.wait_for(1, LONG);
    server.hand(&[task_of("e", B, &sink)]);
    let start = server.await_request("start", B);
    sink.release();
    answer_first(server.await_request("report", A));
    // Only when the worker has read that answer does it ask for more.
    assert_eq!(named(&server.poll(1)), [B]);
    committed(start);
    let report = server.await_request("report", B);
    assert_eq!(body(&report.request)["status"], "completed");
    committed(report);
    assert_eq!(sink.received().len(), 1);
}

#[test]
fn attempt_completed_during_a_second_start_is_not_rerun() {
    begun_twice(committed);
}

#[test]
fn attempt_logged_under_the_second_token_is_reported_under_it() {
    begun_twice(|report| refuse(report, Code::ForeignToken));
}

#[test]
fn attempt_running_at_a_second_committed_start_is_awaited() {
    let program = Program::new();
    let (mut server, sink) = (Stub::start(), Sink::start());
    sink.hold();
    let mut process = worker(&program, &[&server.url()]);
    server.give(&[task_of("e", A, &sink)]);
    sink.wait_for(1, LONG);
    server.give(&[task_of("e", B, &sink)]);
    // It leaves, and neither of the two says that nothing was sent.
    process.terminate();
    for token in [A, B] {
        let report = server.await_request("report", token);
        let said = body(&report.request);
        assert_eq!(said["status"], "abandoned");
        assert_eq!(said["failure"]["kind"], "handed_over");
        assert!(said["failure"]["unsent"].as_bool() != Some(true), "{said}");
        committed(report);
    }
    assert_eq!(sink.received().len(), 1);
}
