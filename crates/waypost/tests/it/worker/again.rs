//! The same attempt once more, under another token.

use waypost_server::problem::Code;
use waypost_testbed::{PendingRequest, Sink, Stub};

use super::rig::{
    A, B, LONG, Server as _, accepted, answer, body, committed, idle, named, refuse, task_of,
    worker,
};
use crate::program::Program;

#[test]
fn what_may_not_be_in_the_log_is_reported_again_and_not_done_again() {
    let program = Program::new();
    let (mut server, sink) = (Stub::start(), Sink::start());
    let _worker = worker(&program, &[&server.url()]);
    server.give(&[task_of("e", A, &sink)]);
    accepted(server.told("report", A));
    server.hand(&[task_of("e", B, &sink)]);
    let report = server.told("report", B);
    assert_eq!(body(&report.request)["status"], "completed");
    committed(report);
    assert_eq!(sink.received().len(), 1);
}

#[test]
fn what_is_in_the_log_begins_again_only_where_the_log_says_so() {
    let program = Program::new();
    let (mut server, sink) = (Stub::start(), Sink::start());
    let _worker = worker(&program, &[&server.url()]);
    server.give(&[task_of("e", A, &sink)]);
    committed(server.told("report", A));
    // Only when the worker has read that answer does it know.
    answer(idle(std::slice::from_mut(&mut server)), &[task_of("e", B, &sink)]);
    accepted(server.told("start", B));
    refuse(server.told("start", B), Code::StaleAttempt);
    // A log that knows nothing of it, as after a restore, has it made once more.
    server.hand(&[task_of("e", A, &sink)]);
    assert_eq!(sink.received().len(), 1);
    committed(server.told("start", A));
    committed(server.told("report", A));
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
    let start = server.told("start", B);
    sink.release();
    answer_first(server.told("report", A));
    // Only when the worker has read that answer does it ask for more.
    assert_eq!(named(&server.poll(1)), [B]);
    committed(start);
    let report = server.told("report", B);
    assert_eq!(body(&report.request)["status"], "completed");
    committed(report);
    assert_eq!(sink.received().len(), 1);
}

#[test]
fn what_is_done_while_a_second_start_is_on_its_way_is_not_done_again() {
    begun_twice(committed);
}

#[test]
fn what_the_log_has_under_the_second_token_is_reported_under_that() {
    begun_twice(|report| refuse(report, Code::ForeignToken));
}

#[test]
fn what_runs_when_a_second_start_is_committed_is_awaited() {
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
        let report = server.told("report", token);
        let said = body(&report.request);
        assert_eq!(said["status"], "abandoned");
        assert_eq!(said["failure"]["kind"], "handed_over");
        assert!(said["failure"]["unsent"].as_bool() != Some(true), "{said}");
        committed(report);
    }
    assert_eq!(sink.received().len(), 1);
}
