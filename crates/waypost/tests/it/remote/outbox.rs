//! The outbox over `kill -9`: what a server was sending is sent by the next one as soon as the lease of the first
//! has expired, also where claims of messages last much longer.

use std::time::Duration;

use waypost_testbed::Sink;
use waypost_testbed::postgres::Postgres;

use super::server::Server;
use super::{HELLO, file};
use crate::program::Program;

/// Far longer than a lease lasts, and shorter than a claim: three times the timeout of an endpoint.
const LONG: Duration = Duration::from_secs(120);

/// More than an endpoint may have under way.
const EXECUTIONS: usize = 10;
const IN_FLIGHT_MAX: usize = 8;

#[test]
fn messages_of_a_killed_server_are_sent_again_soon_on_a_folder() {
    check(&[]);
}

#[test]
fn messages_of_a_killed_server_are_sent_again_soon_on_postgres() {
    check(&["--database-url", &Postgres::shared().database()]);
}

fn check(store: &[&str]) {
    let program = Program::new();
    let sink = Sink::start();
    sink.hold();
    let flags =
        ["--allow-egress", "127.0.0.1/32", "--set", "webhook_timeout=1m", "--set", "lease=3s"];
    let args = [store, &flags].concat();
    let server = Server::start(&program, &args);
    let flow = file(&program, "hello.yaml", HELLO);
    let ask = |server: &Server, args: &[&str]| {
        let ran = program.run(&[&["--server", &server.url], args].concat());
        assert_eq!(ran.code, 0, "{args:?}");
    };
    ask(&server, &["deploy", &flow]);
    let url = sink.url("/hook");
    ask(&server, &["webhooks", "create", &url, "--event", "execution.completed"]);
    for _ in 0..EXECUTIONS {
        ask(&server, &["start", "hello", "--input", r#"{"name":"Eve"}"#]);
    }
    sink.wait_for(IN_FLIGHT_MAX, LONG);
    server.kill();

    sink.release();
    let _server = Server::start(&program, &args);
    sink.wait_for(IN_FLIGHT_MAX + EXECUTIONS, LONG);
    let id = |at: usize| sink.received()[at].header("webhook-id").unwrap().to_owned();
    let ids: std::collections::BTreeSet<String> = (0..IN_FLIGHT_MAX + EXECUTIONS).map(id).collect();
    assert_eq!(ids.len(), EXECUTIONS, "those under way came twice, each under its id");
}
