//! The command line as people use it.

use serde_json::{Value, json};

use crate::program::Program;

const HELLO: &str = "name: hello
input: { type: object, required: [name], properties: { name: { type: string } } }
nodes:
  - { id: greet, type: transform, config: { value: 'Hello ${{ input.name }}' } }
  - { id: done, type: output, needs: [greet], config: { value: '${{ nodes.greet.output }}' } }
";

const SIGNAL: &str = "name: approval
nodes:
  - { id: before, type: shell, config: { args: [sh, -c, 'echo ran >> $WAYPOST_MARKS'], env: { WAYPOST_MARKS: '${{ input.marks }}' } } }
  - { id: ask, type: wait-for-events, needs: [before], config: { name: approved, filter: signal.ok } }
  - { id: after, type: output, needs: [ask], config: { value: '${{ nodes.ask.output.by }}' } }
";

fn approval(program: &Program) -> (String, String) {
    let flow = program.file("approval.yaml", SIGNAL).display().to_string();
    let marks = program.path().join("marks").display().to_string();
    (flow, json!({ "marks": marks }).to_string())
}

fn marks(program: &Program) -> usize {
    std::fs::read_to_string(program.path().join("marks")).unwrap().lines().count()
}

#[test]
fn run_shows_progress_and_the_output() {
    let program = Program::new();
    let flow = program.file("hello.yaml", HELLO).display().to_string();
    let ran = program.run(&["run", &flow, "--input", r#"{"name":"Ada"}"#]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    for part in ["execution exe_", "greet", "COMPLETED", "output: \"Hello Ada\""] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    assert!(!ran.out.contains('\x1b'), "no escapes in a pipe: {}", ran.out);
    let shown = program.json(&["show", "last"]);
    assert_eq!(shown["output"], "Hello Ada");
    assert_eq!(shown["nodes"][0]["status"], "COMPLETED");
    let list = program.json(&["list"]);
    assert_eq!(list["executions"][0]["status"], "COMPLETED");
    assert_eq!(list["executions"][0]["nodesExecuted"], 2);
    let events = program.json(&["events", "last", "--type", "NodeCompleted", "--node", "greet"]);
    assert_eq!(events["events"].as_array().unwrap().len(), 1);
    assert_eq!(events["events"][0]["data"]["output"], "Hello Ada");
    let why = program.run(&["why", "last"]);
    assert!(why.out.contains("COMPLETED"), "{}", why.out);
}

#[test]
fn exit_codes_tell_failed_from_wrong() {
    let program = Program::new();
    let flow = program.file("hello.yaml", HELLO).display().to_string();
    let wrong_input = program.run(&["run", &flow, "--input", r#"{"name":7}"#]);
    assert_eq!(wrong_input.code, 2);
    assert!(wrong_input.err.contains("/name"), "{}", wrong_input.err);
    let not_json = program.run(&["run", &flow, "--input", "{"]);
    assert_eq!(not_json.code, 2);
    assert!(not_json.err.contains("not JSON"), "{}", not_json.err);
    let bad = program.file("bad.yaml", "name: bad\nnodes:\n  - { id: a, type: nop }\n");
    let ran = program.run(&["run", &bad.display().to_string()]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("did you mean") && ran.err.contains("noop"), "{}", ran.err);
    let fails = "name: f\nnodes:\n  - { id: a, type: shell, config: { command: 'exit 3' } }\n";
    let fails = program.file("fails.yaml", fails).display().to_string();
    let ran = program.run(&["run", &fails]);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("FAILED"), "{}", ran.out);
    assert_eq!(program.run(&["run"]).code, 2);
    assert_eq!(program.run(&["run", "/nowhere.yaml"]).code, 2);
}

#[test]
fn a_killed_execution_is_resumed_and_repeats_nothing() {
    let program = Program::new();
    let (flow, input) = approval(&program);
    let running = program.start(&["run", &flow, "--input", &input], "for signal approved");
    let id = running.execution();
    running.kill();
    let why = program.run(&["why", &id]).out;
    for part in ["waits for signal \"approved\"", "waypost signal", "No engine is running"] {
        assert!(why.contains(part), "{part}: {why}");
    }
    let sent = program.run(&["signal", &id, "approved", "--body", r#"{"ok":true,"by":"Eve"}"#]);
    assert_eq!(sent.code, 0, "{}", sent.err);
    assert!(sent.out.contains("waypost resume"), "{}", sent.out);
    let resumed = program.run(&["resume", &id]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
    assert!(resumed.out.contains("output: \"Eve\""), "{}", resumed.out);
    assert_eq!(marks(&program), 1, "the completed node ran again");
    let again = program.run(&["resume", &id]);
    assert_eq!(again.code, 1);
    assert!(again.err.contains("has ended"), "{}", again.err);
}

#[test]
fn interrupted_run_prints_how_to_resume() {
    let program = Program::new();
    let (flow, input) = approval(&program);
    let running = program.start(&["run", &flow, "--input", &input], "for signal approved");
    running.interrupt();
    let (code, out) = running.wait();
    assert_eq!(code, 130, "{out}");
    assert!(out.contains("waypost resume exe_"), "{out}");
}

/// Where no engine takes them, signals wait in the inbox, which has the same bound as a server's.
#[test]
fn signal_to_a_folder_whose_inbox_is_full_is_refused() {
    let program = Program::new();
    let (flow, input) = approval(&program);
    let running = program.start(&["run", &flow, "--input", &input], "for signal approved");
    let id = running.execution();
    running.interrupt();
    running.wait();
    let body = program.file("body.json", format!("\"{}\"", "x".repeat(1_000_000)));
    let signal = ["signal", &id, "other", "--body", &format!("@{}", body.display())];
    for _ in 0..8 {
        let sent = program.run(&signal);
        assert_eq!(sent.code, 0, "{}", sent.err);
    }
    let refused = program.run(&signal);
    assert_eq!(refused.code, 1, "{}", refused.out);
    assert!(refused.err.contains("early_signals_bytes_max"), "{}", refused.err);
    let small = program.run(&["signal", &id, "other"]);
    assert_eq!(small.code, 0, "{}", small.err);
}

#[test]
fn requests_reach_an_engine_in_another_process() {
    let program = Program::new();
    let (flow, input) = approval(&program);
    let running = program.start(&["run", &flow, "--input", &input], "for signal approved");
    let id = running.execution();
    let second = program.run(&["run", &flow, "--input", &input]);
    assert_eq!(second.code, 1);
    let pid = running.pid().to_string();
    assert!(
        second.err.contains("in use by process") && second.err.contains(&pid),
        "{}",
        second.err
    );
    let no = program.run(&["signal", &id, "approved", "--body", r#"{"ok":false}"#]);
    assert_eq!(no.code, 0, "{}", no.err);
    let yes =
        ["signal", &id, "approved", "--body", r#"{"ok":true,"by":"Bob"}"#, "--message-id", "m1"];
    assert_eq!(program.run(&yes).code, 0);
    let (code, out) = running.wait();
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("output: \"Bob\""), "{out}");
    assert_eq!(program.json(&yes)["duplicate"], true, "repeated, it was taken before");
    let late = program.run(&["signal", &id, "approved"]);
    assert_eq!(late.code, 1);
    assert!(late.err.contains("has ended: COMPLETED"), "{}", late.err);
}

#[test]
fn a_pause_ends_where_the_engine_runs() {
    let program = Program::new();
    let (flow, input) = approval(&program);
    let running = program.start(&["run", &flow, "--input", &input], "for signal approved");
    let id = running.execution();
    let paused = program.run(&["pause", &id]);
    assert!(paused.out.contains("PAUSED"), "{}{}", paused.out, paused.err);
    let signal = ["signal", &id, "approved", "--body", r#"{"ok":true,"by":"Eve"}"#];
    assert_eq!(program.run(&signal).code, 0);
    let resumed = program.run(&["resume", &id]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
    let (code, out) = running.wait();
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("  paused") && out.contains("output: \"Eve\""), "{out}");
}

#[test]
fn pause_and_cancel_work_without_an_engine() {
    let program = Program::new();
    let (flow, input) = approval(&program);
    let running = program.start(&["run", &flow, "--input", &input], "for signal approved");
    let id = running.execution();
    running.kill();
    let paused = program.run(&["pause", &id]);
    assert_eq!(paused.code, 0, "{}", paused.err);
    assert!(paused.out.contains("PAUSED"), "{}", paused.out);
    let why = program.run(&["why", &id]).out;
    assert!(why.contains("paused by a user"), "{why}");
    let signal = ["signal", &id, "approved", "--body", r#"{"ok":true,"by":"Eve"}"#];
    assert_eq!(program.run(&signal).code, 0);
    let resumed = program.run(&["resume", &id]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
    let (flow, input) = approval(&program);
    let running = program.start(&["run", &flow, "--input", &input], "for signal approved");
    let id = running.execution();
    running.kill();
    let cancelled = program.run(&["cancel", &id, "--reason", "changed our minds"]);
    assert_eq!(cancelled.code, 0, "{}", cancelled.err);
    assert!(cancelled.out.contains("CANCELLED"), "{}", cancelled.out);
    let twice = program.run(&["cancel", &id]);
    assert_eq!(twice.code, 1);
    assert!(twice.err.contains("CANCELLED"), "{}", twice.err);
}

#[test]
fn a_second_pause_is_refused_and_does_not_wait_for_ever() {
    let program = Program::new();
    let (flow, input) = approval(&program);
    let running = program.start(&["run", &flow, "--input", &input], "for signal approved");
    let id = running.execution();
    running.kill();
    assert_eq!(program.run(&["pause", &id]).code, 0);
    for again in [&["pause", &id][..], &["pause", &id, "--now"]] {
        let ran = program.run(again);
        assert_eq!(ran.code, 1, "{}", ran.out);
        assert!(ran.err.contains("already paused"), "{}", ran.err);
    }
}

#[test]
fn an_idempotency_key_starts_one_execution() {
    let program = Program::new();
    let flow = program.file("hello.yaml", HELLO).display().to_string();
    let start = |name: &str| {
        let input = json!({ "name": name }).to_string();
        program.run(&["run", &flow, "--input", &input, "--idempotency-key", "k1", "-o", "json"])
    };
    let id = |out: &str| serde_json::from_str::<Value>(out).unwrap()["id"].clone();
    let (first, second) = (start("Ada"), start("Ada"));
    assert_eq!(id(&first.out), id(&second.out), "{}", second.err);
    let other = start("Eve");
    assert_eq!(other.code, 1);
    assert!(other.err.contains("another execution"), "{}", other.err);
    assert_eq!(program.json(&["list"])["executions"].as_array().unwrap().len(), 1);
}

#[test]
fn commands_about_nothing_say_so() {
    let program = Program::new();
    let empty = program.run(&["list"]);
    assert_eq!(empty.code, 1);
    assert!(empty.err.contains("run a workflow first"), "{}", empty.err);
    let flow = program.file("hello.yaml", HELLO).display().to_string();
    program.run(&["run", &flow, "--input", r#"{"name":"x"}"#]);
    for command in [&["show", "exe_none"][..], &["why", "exe_none"], &["cancel", "exe_none"]] {
        let ran = program.run(command);
        assert_eq!(ran.code, 1, "{command:?}");
        assert!(ran.err.contains("waypost list"), "{command:?}: {}", ran.err);
    }
    let status = program.run(&["list", "--status", "DONE"]);
    assert!(status.err.contains("COMPLETED"), "{}", status.err);
    let condition = program.run(&["list", "--where", "status == 'FAILED' and tatus == 1"]);
    assert_eq!(condition.code, 2, "{}", condition.err);
    assert!(
        condition.err.contains("--where, character 24: there is no field `tatus`"),
        "{}",
        condition.err
    );
    let label = program.run(&["list", "--label", "team"]);
    assert!(label.err.contains("NAME=VALUE"), "{}", label.err);
}

#[test]
fn lists_are_filtered() {
    let program = Program::new();
    let flow = program.file("hello.yaml", HELLO).display().to_string();
    for (id, name, team) in [("a-1", "Ada", "team=red"), ("b-2", "Bo%b", "team=blue")] {
        let input = format!(r#"{{"name":"{name}"}}"#);
        let ran = program.run(&["run", &flow, "--id", id, "--input", &input, "--label", team]);
        assert_eq!(ran.code, 0, "{}", ran.err);
    }
    let listed = |args: &[&str]| -> Vec<String> {
        let list = program.json(&[&["list"], args].concat());
        let rows = list["executions"].as_array().unwrap();
        rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
    };
    for (args, expected) in [
        (&["--status", "failed,completed"][..], &["b-2", "a-1"][..]),
        (&["--status", "failed", "--status", "paused"], &[]),
        (&["--label", "team=red"], &["a-1"]),
        (&["--text", "O%B"], &["b-2"]),
        (&["--text", "o_b"], &[]),
        (&["--since", "1h", "--until", "0s"], &["b-2", "a-1"]),
        (&["--until", "1h"], &[]),
        (&["--since", "2026-01-31T09:00:00Z", "--label", "team=blue"], &["b-2"]),
        (&["--where", "input.name == 'Ada' and created > ago('1h')"], &["a-1"]),
        (&["--where", "output.greeting is defined or labels.team == 'blue'"], &["b-2"]),
    ] {
        assert_eq!(listed(args), expected, "{args:?}");
    }
    let list = program.json(&["list", "--limit", "1"]);
    assert_eq!(list["executions"][0]["labels"]["team"], "blue");
    assert!(list["asOf"]["at"].is_string() && list["next"].is_string(), "{list}");
}

#[test]
fn the_small_commands_work() {
    let program = Program::new();
    let flow = program.file("hello.yaml", HELLO).display().to_string();
    assert!(program.run(&["validate", &flow]).out.contains("ok, workflow hello, 2 nodes"));
    program.run(&["run", &flow, "--input", r#"{"name":"x"}"#]);
    assert!(program.run(&["projections", "rebuild"]).out.contains("rebuilt"));
    assert_eq!(program.json(&["list"])["executions"].as_array().unwrap().len(), 1);
    assert!(program.run(&["migrate"]).out.contains("0 applied"));
    let config = program.json(&["config"]);
    let data = config.as_array().unwrap().iter().find(|s| s["name"] == "data").unwrap().clone();
    assert_eq!(data["source"], "environment");
    assert!(program.run(&["completions", "bash"]).out.contains("waypost"));
    assert_eq!(
        program.json(&["schema"])["$schema"],
        "https://json-schema.org/draft/2020-12/schema"
    );
    assert!(program.run(&["--help"]).out.contains("Usage"));
}

#[test]
fn a_request_that_changes_nothing_is_refused_without_a_server_as_well() {
    let program = Program::new();
    let file = program.file(
        "waits.yaml",
        "name: waits\nnodes:\n  - { id: a, type: wait-for-events, config: { name: go } }\n",
    );
    let file = file.display().to_string();
    let running = program.start(&["run", &file, "--id", "e"], "WAITING");
    let ran = program.run(&["resume", "e"]);
    assert_eq!(ran.code, 1, "{}", ran.out);
    assert!(ran.err.contains("nothing to resume"), "{}", ran.err);
    let signal = ["signal", "e", "later", "--message-id", "m"];
    assert_eq!(program.json(&signal).get("duplicate"), None);
    assert_eq!(program.json(&signal)["duplicate"], true);
    assert_eq!(program.run(&["pause", "e"]).code, 0);
    let ran = program.run(&["pause", "e"]);
    assert_eq!(ran.code, 1, "{}", ran.out);
    assert!(ran.err.contains("already paused"), "{}", ran.err);
    let log = program.json(&["events", "e", "--type", "MessageIgnored"]);
    assert_eq!(log["events"], serde_json::json!([]), "nothing had to be written about it");
    running.kill();
}
