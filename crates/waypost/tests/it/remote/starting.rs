//! Deploying, starting, running and control at a server.

use serde_json::Value;

use super::server::Server;
use super::{ASK, HELLO, YES, file};
use crate::program::{Program, Running};

/// A list that shows everything: lists follow the log by a moment.
fn caught_up(program: &Program, list: &[&str]) -> Value {
    loop {
        let listed = program.json(list);
        if listed["asOf"]["framesBehind"] == 0 {
            return listed;
        }
    }
}

#[test]
fn faults_are_shown_in_the_source() {
    let program = Program::new();
    let bad = file(&program, "bad.yaml", "name: bad\nnodes:\n  - { id: a, type: nop }\n");
    let hello = file(&program, "hello.yaml", HELLO);
    let by_folder = program.run(&["deploy", &bad, &hello]);
    let server = Server::start(&program, &[]);
    for ran in [
        by_folder,
        program.run(&["deploy", &bad, &hello]),
        program.run(&["--server", &server.url, "deploy", &bad, &hello]),
    ] {
        assert_eq!(ran.code, 2);
        for part in ["bad.yaml:3:20", "did you mean", "noop"] {
            assert!(ran.err.contains(part), "{part}: {}", ran.err);
        }
        assert!(ran.out.contains("workflow hello v1"), "the other one is kept: {}", ran.out);
    }
    let ran = program.run(&["run", &bad]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("did you mean"), "{}", ran.err);
    let report = program.run(&["deploy", &bad, "-o", "json"]);
    let report: Value = serde_json::from_str(&report.out).unwrap();
    assert_eq!(report[0]["faults"]["faults"][0]["line"], 3, "{report}");
}

#[test]
fn a_new_version_is_started_unless_another_one_is_named() {
    let program = Program::new();
    let server = Server::start(&program, &[]);
    let hello = file(&program, "hello.yaml", HELLO);
    let newer = file(&program, "newer.yaml", &HELLO.replace("Hello", "Good day"));
    let deployed = program.run(&["deploy", &hello, &newer]);
    assert!(deployed.out.contains("workflow hello v2"), "{}{}", deployed.out, deployed.err);
    let dry = program.run(&["deploy", "--dry-run", &file(&program, "ask.yaml", ASK)]);
    assert!(dry.out.contains("would be"), "{}", dry.out);
    let start = |more: &[&str]| {
        let args = ["start", "hello", "--input", r#"{"name":"Ada"}"#, "--wait", "30s"];
        program.json(&[&args[..], more].concat())
    };
    assert_eq!(start(&[])["output"], "Good day Ada");
    assert_eq!(start(&["--version", "1"])["output"], "Hello Ada");
    let labelled = start(&["--id", "mine", "--label", "team=red"]);
    assert_eq!((&labelled["id"], &labelled["version"]), (&"mine".into(), &2.into()));
    let listed = caught_up(&program, &["list", "--label", "team=red"]);
    assert_eq!(listed["executions"].as_array().unwrap().len(), 1, "{listed}");
    drop(server);
}

#[test]
fn starts_that_cannot_be_say_why() {
    let program = Program::new();
    let server = Server::start(&program, &[]);
    program.run(&["deploy", &file(&program, "hello.yaml", HELLO)]);
    for (args, code, part) in [
        (&["start", "hello", "-i", r#"{"name":7}"#][..], 2, "/name: 7 is not of type"),
        (&["start", "hello", "-i", "{"], 2, "not JSON"),
        (&["start", "hello", "--id", "a b"], 2, "must be 1 to 128"),
        (&["start", "hello", "--wait", "soon"], 2, "--wait"),
        (&["start", "nobody"], 2, "waypost definitions"),
        (&["start", "hello", "--version", "7"], 2, "no version 7"),
    ] {
        let ran = program.run(args);
        assert_eq!(ran.code, code, "{args:?}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains(part), "{args:?}: {}", ran.err);
    }
    drop(server);
}

#[test]
fn a_key_starts_one_execution() {
    let program = Program::new();
    let server = Server::start(&program, &[]);
    let hello = file(&program, "hello.yaml", HELLO);
    program.run(&["deploy", &hello]);
    let start = |name: &str| {
        let input = format!(r#"{{"name":"{name}"}}"#);
        program.run(&["start", "hello", "-i", &input, "--idempotency-key", "k1"])
    };
    let (first, second) = (start("Ada"), start("Ada"));
    let id = |out: &str| out.split_whitespace().nth(1).unwrap().to_owned();
    assert_eq!(id(&first.out), id(&second.out), "{}", second.err);
    assert!(second.out.contains("started before"), "{}", second.out);
    let other = start("Eve");
    assert_eq!(other.code, 1, "{}", other.out);
    assert!(other.err.contains("another submission"), "{}", other.err);
    drop(server);
}

#[test]
fn run_runs_where_the_server_is() {
    let program = Program::new();
    let client = Program::new();
    let server = Server::start(&program, &[]);
    let hello = file(&client, "hello.yaml", HELLO);
    let args = ["run", &hello, "--input", r#"{"name":"Ada"}"#];
    for ran in [program.run(&args), client.run(&[&["--server", &server.url], &args[..]].concat())] {
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        for part in ["execution exe_", "greet", "COMPLETED in", "output: \"Hello Ada\""] {
            assert!(ran.out.contains(part), "{part}: {}", ran.out);
        }
    }
    let shown = program.json(&[&args[..], &["--id", "mine", "--label", "a=b"]].concat());
    assert_eq!((&shown["id"], &shown["labels"]["a"]), (&"mine".into(), &"b".into()));
    assert_eq!(shown["nodes"][0]["output"], "Hello Ada");
    let wrong = program.run(&["run", &hello, "--input", r#"{"name":7}"#]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.contains("/name"), "{}", wrong.err);
    let fails =
        "name: f\nnodes:\n  - { id: a, type: transform, config: { value: '${{ input.x.y }}' } }\n";
    let ran = program.run(&["run", &file(&program, "fails.yaml", fails)]);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("failure:"), "{}", ran.out);
}

#[test]
fn ctrl_c_stops_the_watching_and_not_the_execution() {
    let program = Program::new();
    let server = Server::start(&program, &[]);
    let ask = file(&program, "ask.yaml", ASK);
    let command = program.command(&["run", &ask, "--id", "w"]);
    let running = Running::start(command, "for signal approved");
    running.interrupt();
    let (code, out) = running.wait();
    assert_eq!(code, 130, "{out}");
    assert!(out.contains("the execution goes on") && out.contains("waypost watch w"), "{out}");
    assert_eq!(program.run(&["signal", "w", "approved", "-b", YES]).code, 0);
    let watched = program.run(&["watch", "w"]);
    assert_eq!(watched.code, 0, "{}{}", watched.out, watched.err);
    assert!(watched.out.contains("output: \"Eve\""), "{}", watched.out);
    drop(server);
}

#[test]
fn executions_are_controlled_from_anywhere() {
    let program = Program::new();
    let server = Server::start(&program, &[]);
    let client = Program::new();
    let remote = |args: &[&str]| client.run(&[&["--server", &server.url], args].concat());
    assert_eq!(remote(&["deploy", &file(&program, "ask.yaml", ASK)]).code, 0);
    for id in ["one", "two"] {
        assert_eq!(remote(&["start", "approval", "--id", id]).code, 0);
        let paused = remote(&["pause", id]);
        assert!(paused.out.contains("PAUSED"), "{}{}", paused.out, paused.err);
    }
    let again = remote(&["pause", "last"]);
    assert_eq!(again.code, 1);
    assert!(again.err.contains("already paused"), "{}", again.err);
    let resumed = remote(&["resume", "all"]);
    assert!(resumed.out.contains("one is resumed"), "{}{}", resumed.out, resumed.err);
    assert!(resumed.out.contains("two is resumed"), "{}", resumed.out);
    assert!(remote(&["resume", "all"]).out.contains("no execution was paused"));
    let signal = ["signal", "one", "approved", "-b", YES, "--message-id", "m1"];
    assert_eq!(remote(&signal).code, 0);
    let watched = remote(&["watch", "one"]);
    assert!(watched.out.contains("output: \"Eve\""), "{}{}", watched.out, watched.err);
    let repeated = remote(&signal);
    assert_eq!(repeated.code, 0, "{}", repeated.err);
    assert!(repeated.out.contains("accepted before"), "{}", repeated.out);
    let cancelled = remote(&["cancel", "two", "--reason", "a duplicate"]);
    assert!(cancelled.out.contains("CANCELLED"), "{}{}", cancelled.out, cancelled.err);
    let twice = remote(&["cancel", "two"]);
    assert_eq!(twice.code, 1);
    assert!(twice.err.contains("CANCELLED"), "{}", twice.err);
}

#[test]
fn a_wait_is_ended_by_hand() {
    let program = Program::new();
    let server = Server::start(&program, &[]);
    assert_eq!(program.run(&["deploy", &file(&program, "ask.yaml", ASK)]).code, 0);
    let started = Running::start(
        program.command(&["run", &file(&program, "ask.yaml", ASK), "--id", "w"]),
        "for signal approved",
    );
    let shown = program.json(&["show", "w"]);
    let wait = shown["nodes"][0]["wait"]["id"].as_str().unwrap().to_owned();
    let why = program.run(&["why", "w"]).out;
    assert!(why.contains(&format!("waypost complete-wait {wait}")), "{why}");
    let resumed = program.run(&["complete-wait", &wait, "--body", YES, "--message-id", "m1"]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
    let (code, out) = started.wait();
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("output: \"Eve\""), "{out}");
    let unknown = program.run(&["--server", &server.url, "complete-wait", "nobody~3"]);
    assert_eq!(unknown.code, 1, "{}", unknown.out);
    let wrong = program.run(&["complete-wait", "w"]);
    assert_eq!(wrong.code, 2, "{}{}", wrong.out, wrong.err);
}
