//! A report is kept until it is answered, and given up only where the attempt is not the worker's any
//! more.

use waypost_server::problem::Code;
use waypost_testbed::{PendingRequest, Sink, Stub};

use super::rig::{
    A, C, LONG, Server as _, answer, body, committed, idle, is_task_request, next_at, refuse, task,
    worker,
};
use crate::program::Program;

fn report(servers: &mut [Stub]) -> (usize, PendingRequest) {
    next_at(servers, "a report", |request| is_task_request(request, "report", A))
}

#[test]
fn report_refused_by_all_servers_is_kept_and_sent_to_each() {
    let program = Program::new();
    let (mut servers, sink) = ([Stub::start(), Stub::start()], Sink::start());
    let mut process = worker(&program, &[&servers[0].url(), &servers[1].url()]);
    servers[0].give(&[task(A, &sink)]);
    let refusals = [
        Code::Unauthenticated,
        Code::Forbidden,
        Code::NotFound,
        Code::ForeignOrigin,
        Code::BadRequest,
        Code::RateLimited,
        Code::Internal,
        Code::StoreUnavailable,
    ];
    let mut asked = Vec::new();
    for code in refusals {
        let (at, refused) = report(&mut servers);
        assert_eq!(body(&refused.request)["status"], "completed", "before {code:?}");
        refuse(refused, code);
        asked.push(at);
    }
    for at in [0, 1] {
        assert!(asked.contains(&at), "{asked:?}: all servers are asked");
    }
    // Neither is this an answer of ours.
    report(&mut servers).1.answer(404, "<html>no such page</html>");
    committed(report(&mut servers).1);
    process.wait_for_line("a report is not answered; kept", LONG);
    idle(&mut servers);
    assert_eq!(sink.received().len(), 1);
}

#[test]
fn worker_whose_attempt_is_over_drops_start_and_report() {
    let program = Program::new();
    let (mut server, sink) = (Stub::start(), Sink::start());
    let _worker = worker(&program, &[&server.url()]);
    let over = [
        Code::StaleAttempt,
        Code::ForeignToken,
        Code::ExecutionEnded,
        Code::IllegalTransition,
        Code::UnknownExecution,
    ];
    for (n, code) in over.into_iter().enumerate() {
        let token = format!("{n:032x}");
        let other = format!("{:032x}", n + 100);
        // One is refused when it begins, the other when it is done.
        let poll = idle(std::slice::from_mut(&mut server));
        answer(poll, &[task(&token, &sink), task(&other, &sink)]);
        refuse(server.await_request("start", &other), code);
        committed(server.await_request("start", &token));
        refuse(server.await_request("report", &token), code);
    }
    idle(std::slice::from_mut(&mut server));
    assert_eq!(sink.received().len(), over.len(), "what was refused was not begun");
}

#[test]
fn report_refused_for_its_content_is_sent_as_a_failure_and_kept() {
    let program = Program::new();
    let (mut server, sink) = (Stub::start(), Sink::start());
    let _worker = worker(&program, &[&server.url()]);
    server.give(&[task(C, &sink)]);
    refuse(server.await_request("report", C), Code::BodyTooLarge);
    for _ in 0..2 {
        let failed = server.await_request("report", C);
        assert_eq!(body(&failed.request)["failure"]["kind"], "too_large");
        refuse(failed, Code::BodyTooLarge);
    }
    committed(server.await_request("report", C));
}

#[test]
fn worker_with_a_wrong_key_logs_the_refusal() {
    let program = Program::new();
    let away = Stub::start();
    let url = away.url();
    drop(away);
    // Whichever is asked last: that one is away tells less than that the other refuses the key.
    for away_first in [0, 1] {
        let mut server = Stub::start();
        let mut servers = [server.url(), url.clone()];
        servers.rotate_left(away_first);
        let mut process = worker(&program, &[&servers[0], &servers[1]]);
        refuse(server.poll(2), Code::Unauthenticated);
        let line = process.wait_for_line("could not poll for tasks", LONG);
        assert!(line.contains("because the test says so"), "{line}");
        process.wait_for_line("set WAYPOST_KEY to a key", LONG);
        process.kill();
        std::fs::remove_file(program.path().join("worker.log")).unwrap();
    }
}
