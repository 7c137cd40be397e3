//! `waypost retry`: through a server that is killed right after it, and on a folder without one.

use std::time::Duration;

use serde_json::json;
use waypost_testbed::postgres::Postgres;
use waypost_testbed::wait_until;

use super::file;
use super::server::Server;
use crate::program::{Program, Ran};

/// Far longer than a lease lasts.
const LONG: Duration = Duration::from_secs(60);

/// Leaves a mark, fails until there is a flag, waits for a signal.
fn flow(program: &Program) -> String {
    let (marks, flag) = (program.path().join("marks"), program.path().join("flag"));
    format!(
        "name: flaky
nodes:
  - {{ id: mark, type: shell, config: {{ args: [sh, -c, 'echo ran >> {}'] }} }}
  - {{ id: flag, type: shell, needs: [mark], config: {{ command: 'test -f {}' }} }}
  - {{ id: hold, type: wait-for-signal, needs: [flag], config: {{ name: go }} }}
  - {{ id: done, type: output, needs: [hold], config: {{ value: '${{{{ nodes.hold.output }}}}' }} }}
",
        marks.display(),
        flag.display()
    )
}

fn marks(program: &Program) -> usize {
    std::fs::read_to_string(program.path().join("marks")).unwrap().lines().count()
}

fn kinds(program: &Program, base: &[&str], kind: &str) -> Vec<serde_json::Value> {
    let events = program.json(&[base, &["events", "e", "--type", kind]].concat());
    events["events"].as_array().unwrap().clone()
}

#[test]
fn retry_survives_kill_9_on_a_folder() {
    check(&[]);
}

#[test]
fn retry_survives_kill_9_on_postgres() {
    check(&["--database-url", &Postgres::shared().database()]);
}

fn check(store: &[&str]) {
    let program = Program::new();
    let server = Server::start(&program, &[store, &["--enable-shell"]].concat());
    let flow = file(&program, "flaky.yaml", &flow(&program));
    let ask = |server: &Server, args: &[&str]| -> Ran {
        program.run(&[&["--server", &server.url], args].concat())
    };
    assert_eq!(ask(&server, &["deploy", &flow]).code, 0);
    assert_eq!(ask(&server, &["start", "flaky", "--id", "e"]).code, 0);
    assert_eq!(ask(&server, &["watch", "e"]).code, 1, "it fails");
    let why = program.json(&["--server", &server.url, "why", "e"]);
    assert_eq!(why["reasons"][0]["unblockedBy"], "retry", "{why}");
    let why = ask(&server, &["why", "e"]).out;
    assert!(why.contains("`waypost retry e` runs the failed nodes again"), "{why}");
    let dry = program.json(&["--server", &server.url, "retry", "e", "--dry-run"]);
    assert_eq!(dry["nodes"], json!(["flag", "hold", "done"]), "{dry}");
    assert_eq!(dry["status"], "FAILED", "{dry}");
    std::fs::write(program.path().join("flag"), "").unwrap();
    let retry = ["retry", "e", "--reason", "the flag is there", "--message-id", "m1"];
    let retried = ask(&server, &retry);
    assert_eq!((retried.code, retried.out.contains("RUNNING")), (0, true), "{}", retried.err);
    server.kill();
    let server = Server::start(&program, &[store, &["--enable-shell"]].concat());
    let waits = || {
        let shown = program.json(&["--server", &server.url, "show", "e"]);
        shown["status"] == "WAITING"
    };
    wait_until("the lease of the server that was killed has ended", LONG, waits);
    assert_eq!(ask(&server, &["signal", "e", "go", "--body", "7"]).code, 0);
    assert_eq!(ask(&server, &["watch", "e"]).code, 0, "it completes");
    assert_eq!(marks(&program), 1, "what had completed did not run again");
    let base = ["--server", &server.url];
    let reopened = kinds(&program, &base, "RunReopened");
    assert_eq!(reopened.len(), 1);
    assert_eq!(reopened[0]["data"]["reason"], "the flag is there", "{reopened:?}");
    // The same request again, whose answer may have been lost; and one where nothing failed.
    let again = program.json(&[&base, &retry[..]].concat());
    assert_eq!((&again["duplicate"], &again["status"]), (&json!(true), &json!("COMPLETED")));
    let refused = ask(&server, &["retry", "e"]);
    assert_ne!(refused.code, 0);
    assert!(refused.err.contains("this one is COMPLETED"), "{}", refused.err);
    let check = program.run(&[&["check"], store].concat());
    assert_eq!(check.code, 0, "{}{}", check.out, check.err);
}

#[test]
fn retry_on_a_folder_without_a_server_runs_to_the_end() {
    let program = Program::new();
    let text =
        flow(&program).replace("wait-for-signal", "transform").replace("name: go", "value: 7");
    let flow = file(&program, "flaky.yaml", &text);
    assert_eq!(program.run(&["run", &flow, "--id", "e"]).code, 1);
    let dry = program.run(&["retry", "last", "--dry-run"]).out;
    assert!(dry.contains("would run again: flag, hold, done"), "{dry}");
    let dry = program.json(&["retry", "last", "--dry-run"]);
    assert_eq!(dry["nodes"], json!(["flag", "hold", "done"]), "{dry}");
    std::fs::write(program.path().join("flag"), "").unwrap();
    let retried = program.run(&["retry", "last"]);
    assert_eq!(retried.code, 0, "{}{}", retried.out, retried.err);
    assert!(retried.out.contains("COMPLETED"), "{}", retried.out);
    assert_eq!(marks(&program), 1);
    let refused = program.run(&["retry", "last"]);
    assert!(refused.code != 0 && refused.err.contains("this one is COMPLETED"), "{}", refused.err);
    assert_eq!(kinds(&program, &[], "RunReopened").len(), 1);
    assert_eq!(program.run(&["check"]).code, 0);
}
