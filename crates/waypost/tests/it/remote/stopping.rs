//! Signals to the server: the first drains, the second ends at once.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use super::file;
use super::server::Server;
use crate::program::Program;

/// A server with an attempt that runs until somebody answers its call.
fn busy(program: &Program) -> (Server, TcpStream) {
    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", service.local_addr().unwrap());
    let flow = format!(
        "name: slow\nnodes:\n  - {{ id: call, type: api-call, config: {{ method: GET, url: '{url}' }} }}\n"
    );
    let args = ["--allow-egress", "127.0.0.0/8", "--drain-timeout", "1h"];
    let server = Server::start(program, &args);
    assert_eq!(program.run(&["deploy", &file(program, "slow.yaml", &flow)]).code, 0);
    assert_eq!(program.run(&["start", "slow", "--id", "s"]).code, 0);
    let (call, _) = service.accept().unwrap();
    (server, call)
}

#[test]
fn the_first_signal_lets_attempts_end() {
    let program = Program::new();
    let (mut server, mut call) = busy(&program);
    server.running().signal("-TERM");
    server.running().read_until("draining");
    let refused = program.run(&["start", "slow"]);
    assert_eq!(refused.code, 1, "{}", refused.out);
    assert!(refused.err.contains("stopping"), "{}", refused.err);
    assert!(call.read(&mut [0; 1024]).unwrap() > 0);
    call.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
    let (code, out) = server.wait();
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("stopped"), "{out}");
    let shown = program.json(&["show", "s"]);
    assert_eq!(shown["nodes"][0]["status"], "COMPLETED", "{shown}");
}

#[test]
fn the_second_signal_ends_at_once() {
    let program = Program::new();
    let (mut server, call) = busy(&program);
    server.running().signal("-TERM");
    server.running().read_until("draining");
    server.running().signal("-TERM");
    let (code, out) = server.wait();
    assert_eq!(code, 0, "{out}");
    drop(call);
    let why = program.run(&["why", "s"]).out;
    assert!(why.contains("No engine is running"), "{why}");
}
