//! Callbacks over `kill -9`: the link outlives the server that gave it out, and completes the node once.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;
use waypost_testbed::postgres::Postgres;
use waypost_testbed::{PendingRequest, Stub, wait_until};

use super::file;
use super::server::Server;
use crate::program::Program;

/// Far longer than a lease lasts.
const LONG: Duration = Duration::from_secs(60);

fn flow(stub: &Stub) -> String {
    format!(
        "name: booking
nodes:
  - id: book
    type: async-operation
    config:
      start:
        type: api-call
        config: {{ method: POST, url: '{}/start', body: {{ callback: '${{{{ callback.url }}}}' }} }}
        retry: {{ maxAttempts: 5, waitDuration: 10ms }}
      timeout: 1h
  - {{ id: done, type: output, needs: [book], config: {{ value: '${{{{ nodes.book.output }}}}' }} }}
",
        stub.url()
    )
}

/// The path of the link in a start call.
fn link(call: &PendingRequest) -> String {
    let body: Value = serde_json::from_slice(&call.request.body).unwrap();
    let url = body["callback"].as_str().unwrap();
    let (_, token) = url.split_once("/v1/callbacks/").expect(url);
    format!("/v1/callbacks/{token}")
}

/// The status of the response to a callback.
fn call_back(server: &Server, path: &str, body: &str) -> u16 {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        server.address(),
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn callback_survives_kill_9_on_a_folder() {
    check(&[]);
}

#[test]
fn callback_survives_kill_9_on_postgres() {
    check(&["--database-url", &Postgres::shared().database()]);
}

fn check(store: &[&str]) {
    let program = Program::new();
    let mut stub = Stub::start();
    let args = [store, &["--allow-egress", "127.0.0.1/32"]].concat();
    let server = Server::start(&program, &args);
    let flow = file(&program, "booking.yaml", &flow(&stub));
    let ask =
        |server: &Server, args: &[&str]| program.run(&[&["--server", &server.url], args].concat());
    assert_eq!(ask(&server, &["deploy", &flow]).code, 0);

    // Killed between the reply to the start call and the callback.
    assert_eq!(ask(&server, &["start", "booking", "--id", "during"]).code, 0);
    let call = stub.next("the start call", LONG, |_| true);
    let during = link(&call);
    call.answer(200, &format!(r#"{{"echo":"{during}"}}"#));
    let waits = || ask(&server, &["waits", "--kind", "async-operation"]).out;
    wait_until("it waits", LONG, || waits().contains("during"));
    assert!(waits().contains("book"), "{}", waits());

    // Killed after the callback and before the reply to the start call.
    assert_eq!(ask(&server, &["start", "booking", "--id", "before"]).code, 0);
    let call = stub.next("the second start call", LONG, |_| true);
    let before = link(&call);
    assert_eq!(call_back(&server, &before, r#"{"n":1}"#), 200);
    server.kill();
    drop(call);

    let server = Server::start(&program, &args);
    assert_eq!(call_back(&server, &during, r#"{"n":2}"#), 200);
    assert_eq!(call_back(&server, &during, r#"{"n":3}"#), 409);
    let again = stub.next("the second start call once more", LONG, |_| true);
    assert_eq!(link(&again), before, "every attempt sends the same link");
    assert_eq!(call_back(&server, &before, r#"{"n":4}"#), 409);
    again.answer(200, "{}");
    for (id, n) in [("during", 2), ("before", 1)] {
        let base = ["--server", &server.url];
        assert_eq!(ask(&server, &["watch", id]).code, 0);
        let shown = program.json(&[&base[..], &["show", id]].concat());
        assert_eq!(shown["output"]["n"], n, "{shown}");
        let ends = [&base[..], &["events", id, "--type", "NodeCompleted"]].concat();
        let ends = program.json(&ends)["events"].as_array().unwrap().clone();
        let of_book = ends.iter().filter(|event| event["node"] == "book").count();
        assert_eq!(of_book, 1, "{ends:?}");
    }
    // The reply to the start call had the link in it, and no log has it.
    let token = during.rsplit('/').next().unwrap();
    let events = ask(&server, &["events", "during", "-o", "json"]).out;
    assert!(events.contains("echo") && !events.contains(token), "{events}");
    assert_eq!(call_back(&server, &during, "5"), 409);
    assert_eq!(call_back(&server, &format!("{during}x"), "5"), 404);
}
