//! A worker with two slots, and the servers that it talks to.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use waypost_server::problem::{Code, Problem};
use waypost_testbed::{PendingRequest, Process, Received, Sink, Stub, wait_until};

use crate::program::Program;

/// Far beyond what a test takes.
pub(super) const LONG: Duration = Duration::from_secs(60);
/// Tokens of tasks.
pub(super) const A: &str = "0000000000000000000000000000000a";
pub(super) const B: &str = "0000000000000000000000000000000b";
pub(super) const C: &str = "0000000000000000000000000000000c";

/// `waypost worker` with two slots, for calls. When it is to stop, its handlers have a moment.
pub(super) fn worker(program: &Program, servers: &[&str]) -> Process {
    let servers = servers.join(",");
    let mut command = program.command(&["worker", "--handler", "api-call", "--server", &servers]);
    command.args(["--slots", "2", "--allow-egress", "127.0.0.1/32", "--log", "info"]);
    command.env("WAYPOST_DRAIN_TIMEOUT", "10ms").env("NO_COLOR", "1");
    Process::start(&command, &program.path().join("worker.log"))
}

/// A task that calls a sink: the attempt is the first one, and the execution has the token's name
/// unless another one is given.
pub(super) fn task(token: &str, sink: &Sink) -> Value {
    task_of(token, token, sink)
}

pub(super) fn task_of(execution: &str, token: &str, sink: &Sink) -> Value {
    json!({
        "token": token,
        "execution": execution,
        "workflow": "w",
        "node": "call",
        "attempt": 1,
        "handler": "api-call",
        "input": { "method": "POST", "url": sink.url("/") },
        "idempotencyKey": execution,
    })
}

/// What requests are looked for.
pub(super) fn body(request: &Received) -> Value {
    serde_json::from_slice(&request.body).unwrap()
}

/// The tokens that a poll names, in order.
pub(super) fn named(poll: &PendingRequest) -> Vec<String> {
    let mut tokens: Vec<String> =
        serde_json::from_value(body(&poll.request)["tasks"].clone()).unwrap();
    tokens.sort_unstable();
    tokens
}

/// What a server may be asked.
pub(super) trait Server {
    /// The next poll for so many tasks.
    fn poll(&mut self, max: u32) -> PendingRequest;
    /// Hands these tasks to whoever asks for any.
    fn hand(&mut self, tasks: &[Value]);
    /// The same, and has their starts committed.
    fn give(&mut self, tasks: &[Value]);
    /// The next start or report of a task.
    fn await_request(&mut self, what: &str, token: &str) -> PendingRequest;
}

impl Server for Stub {
    fn poll(&mut self, max: u32) -> PendingRequest {
        self.next(&format!("a poll for {max}"), LONG, |request| is_poll(request, max))
    }

    fn hand(&mut self, tasks: &[Value]) {
        let asks = |request: &Received| request.path.contains("/poll?") && !is_poll(request, 0);
        answer(self.next("a poll for tasks", LONG, asks), tasks);
    }

    fn give(&mut self, tasks: &[Value]) {
        self.hand(tasks);
        for task in tasks {
            committed(self.await_request("start", task["token"].as_str().unwrap()));
        }
    }

    fn await_request(&mut self, what: &str, token: &str) -> PendingRequest {
        self.next(&format!("a {what} of {token}"), LONG, |request| {
            is_task_request(request, what, token)
        })
    }
}

/// What comes next at any of some servers; and at which.
pub(super) fn next_at(
    servers: &mut [Stub],
    what: &str,
    which: impl Fn(&Received) -> bool,
) -> (usize, PendingRequest) {
    let mut found = None;
    wait_until(what, LONG, || {
        let mut each = servers.iter_mut().enumerate();
        found = each.find_map(|(at, server)| Some((at, server.look(&which)?)));
        found.is_some()
    });
    found.unwrap()
}

/// Answers polls until one names nothing: all that the worker had is done with.
pub(super) fn idle(servers: &mut [Stub]) -> PendingRequest {
    let until = Instant::now() + LONG;
    loop {
        assert!(Instant::now() < until, "it does not get done with what it has");
        let (_, poll) = next_at(servers, "a poll", |request| request.path.contains("/poll?"));
        match named(&poll).is_empty() {
            true => return poll,
            false => answer(poll, &[]),
        }
    }
}

/// Answers a poll with tasks.
pub(super) fn answer(poll: PendingRequest, tasks: &[Value]) {
    poll.answer(200, &json!({ "tasks": tasks, "cancel": [] }).to_string());
}

pub(super) fn is_poll(request: &Received, max: u32) -> bool {
    request.path.contains("/poll?") && body(request)["max"] == max
}

pub(super) fn is_task_request(request: &Received, what: &str, token: &str) -> bool {
    request.path == format!("/v1/tasks/{token}/{what}")
}

pub(super) fn committed(asked: PendingRequest) {
    asked.answer(200, r#"{"committed":true}"#);
}

pub(super) fn accepted(asked: PendingRequest) {
    asked.answer(202, r#"{"committed":false}"#);
}

/// Has it refused, as a server does.
pub(super) fn refuse(asked: PendingRequest, code: Code) {
    let problem = Problem::new(code, "because the test says so");
    let body = String::from_utf8(problem.body().to_vec()).unwrap();
    asked.answer(code.status().as_u16(), &body);
}
