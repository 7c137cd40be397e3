//! A cancellation is sent once: the server has deleted it by the time it answers a poll.

use serde_json::json;
use waypost_testbed::{Sink, Stub};

use super::rig::{A, B, C, Server as _, body, committed, named, task, worker};
use crate::program::Program;

#[test]
fn worker_with_new_capacity_still_receives_cancellations() {
    let (program, mut server) = (Program::new(), Stub::start());
    let (first, second) = (Sink::start(), Sink::start());
    first.hold();
    second.hold();
    let _worker = worker(&program, &[&server.url()]);
    server.give(&[task(A, &first), task(B, &second)]);
    // It is full, and listens.
    let listening = server.poll(0);
    assert_eq!(named(&listening), [A, B]);
    first.release();
    committed(server.await_request("report", A));
    // There is room, and it asks for more, before the answer of the listening poll has come.
    let asking = server.poll(1);
    assert_eq!(named(&asking), [B]);
    listening.answer(200, &json!({ "tasks": [], "cancel": [B] }).to_string());
    let report = server.await_request("report", B);
    assert_eq!(body(&report.request)["status"], "cancelled");
    committed(report);
}

#[test]
fn poll_repeated_at_the_next_server_lists_new_tasks() {
    let program = Program::new();
    let (mut here, mut there) = (Stub::start(), Stub::start());
    let (first, others) = (Sink::start(), Sink::start());
    first.hold();
    others.hold();
    let _worker = worker(&program, &[&here.url(), &there.url()]);
    here.give(&[task(A, &first), task(B, &others)]);
    let listening = here.poll(0);
    first.release();
    committed(here.await_request("report", A));
    here.give(&[task(C, &others)]);
    others.wait_for(2, super::rig::LONG);
    // One that listens is out, and there is no second.
    assert!(here.look(|request| super::rig::is_poll(request, 0)).is_none());
    drop(listening);
    assert_eq!(named(&there.poll(0)), [B, C]);
}
