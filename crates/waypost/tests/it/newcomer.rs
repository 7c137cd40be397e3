//! What somebody meets who is new: help that can be read, failures that say what failed, an example
//! to begin with, expressions to try.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::program::{Program, Ran, Running};

const CHARGE: &str = "name: pay
nodes:
  - { id: before, type: noop }
  - id: charge
    type: shell
    needs: [before]
    config: { command: 'seq 1 20 >&2; printf \"card \\033[31mdeclined\\n\" >&2; exit 3' }
    retry: { maxAttempts: 3, waitDuration: 1ms }
";

const WAITS: &str = "name: waits
nodes:
  - { id: ask, type: wait-for-events, config: { name: go } }
  - { id: done, type: output, needs: [ask], config: { value: ok } }
";

/// Gives a command its standard input.
fn fed(program: &Program, args: &[&str], input: &str) -> Ran {
    use std::io::Write;
    let mut command = program.command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    Ran::from(child.wait_with_output().unwrap())
}

#[test]
fn failed_run_names_node_attempts_and_the_last_lines_of_stderr() {
    let program = Program::new();
    let flow = program.file("pay.yaml", CHARGE).display().to_string();
    let ran = program.run(&["run", &flow]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    let sentence = "node `charge` failed after 3 attempts: the command exited with 3 (exit_code)";
    let check = |out: &str, head: &str| {
        assert!(out.contains(&format!("{head}{sentence}")), "{out}");
        assert!(out.contains("last 10 lines of its stderr:\n    | 12\n"), "{out}");
        assert!(out.contains("    | card ") && !out.contains("    | 11\n"), "{out}");
        assert!(!out.contains("\x1b]"), "{out}");
    };
    check(&ran.out, "failure: ");
    check(&program.run(&["show", "last"]).out, "failure    ");
    let server = Running::start(
        program.command(&["serve", "--enable-shell", "--listen", "127.0.0.1:0"]),
        "Ctrl-C",
    );
    check(&program.run(&["run", &flow]).out, "failure: ");
    check(&program.run(&["start", "pay", "--wait", "60s"]).out, "failure: ");
    check(&program.run(&["watch", "last"]).out, "failure: ");
    check(&program.run(&["show", "last"]).out, "failure    ");
    server.kill();
}

#[test]
fn failure_of_several_nodes_names_all_of_them() {
    let program = Program::new();
    let flow = "name: two
failurePolicy: partial
nodes:
  - { id: a, type: shell, config: { command: 'exit 1' } }
  - { id: b, type: shell, config: { command: 'exit 2' } }
";
    let flow = program.file("two.yaml", flow).display().to_string();
    let ran = program.run(&["run", &flow]);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains(" failed after 1 attempt: the command exited with "), "{}", ran.out);
    assert!(ran.out.contains("these failed, too: `"), "{}", ran.out);
}

#[test]
fn signal_that_ends_the_execution_says_that_it_ended() {
    let program = Program::new();
    let flow = program.file("waits.yaml", WAITS).display().to_string();
    for round in 0..4 {
        let id = format!("e{round}");
        let running = program.start(&["run", &flow, "--id", &id], "for signal go");
        let sent = program.run(&["signal", &id, "go"]);
        assert_eq!(sent.code, 0, "{}", sent.err);
        assert!(!sent.out.contains("no engine"), "{}", sent.out);
        assert_eq!(running.wait().0, 0);
        let late = program.run(&["signal", &id, "go"]);
        assert_eq!(late.code, 1);
        assert!(late.err.contains("has ended: COMPLETED"), "{}", late.err);
    }
    let running = program.start(&["run", &flow, "--id", "alone"], "for signal go");
    running.kill();
    let sent = program.run(&["signal", "alone", "go"]);
    assert!(
        sent.out.contains("no engine is running, go on with: waypost resume alone"),
        "{}",
        sent.out
    );
}

#[test]
fn list_show_and_run_agree_on_times() {
    let program = Program::new();
    let flow = "name: short\nnodes:\n  - { id: a, type: delay, config: { duration: 20ms } }\n";
    let flow = program.file("short.yaml", flow).display().to_string();
    let ran = program.run(&["run", &flow]).out;
    let took_in_run = ran.rsplit("COMPLETED in ").next().unwrap().trim().to_owned();
    let list = program.run(&["list"]).out;
    let (heads, row) = list.split_once('\n').unwrap();
    let cell = |name: &str| {
        let from = heads.find(name).unwrap();
        row[from..].split("  ").next().unwrap().trim().to_owned()
    };
    let show = program.run(&["show", "last"]).out;
    let field = |name: &str| {
        let line = show.lines().find(|line| line.starts_with(name)).unwrap();
        line[name.len()..].trim().to_owned()
    };
    assert_eq!(cell("CREATED"), field("created"));
    assert_eq!(cell("TOOK"), field("took"));
    assert_eq!(took_in_run, field("took"));
    let listed = &program.json(&["list"])["executions"][0];
    let shown = program.json(&["show", "last"]);
    assert_eq!(listed["createdAt"], shown["createdAt"]);
    assert_eq!(listed["endedAt"], shown["endedAt"]);
    assert_eq!(shown["createdAt"], json!(field("created")));
}

#[test]
fn help_of_a_command_lists_its_own_options_only() {
    let program = Program::new();
    let global = program.run(&["--help"]).out;
    for option in ["--data", "--server", "--output", "--log", "--color", "--config", "--slots"] {
        assert!(global.contains(option), "{option}: {global}");
    }
    for command in [
        &["run"][..],
        &["list"],
        &["serve"],
        &["eval"],
        &["init"],
        &["keys"],
        &["keys", "create"],
        &["bench", "chain"],
    ] {
        for flag in ["-h", "--help"] {
            let help = program.run(&[command, &[flag]].concat()).out;
            for option in ["--data", "--server", "--output", "--log ", "--color", "--config"] {
                assert!(!help.contains(option), "{command:?} {option}: {help}");
            }
            let note = "Global options: see `waypost --help`";
            assert_eq!(help.matches(note).count(), 1, "{command:?}: {help}");
        }
    }
    let shown = program.run(&["config", "--slots", "7", "-o", "json"]);
    assert!(shown.out.contains("\"7\""), "they still work behind a command: {}", shown.out);
    let before = program.run(&["--slots", "7", "config"]);
    assert_eq!(before.code, 0, "{}", before.err);
}

#[test]
fn unknown_field_names_every_field_that_there_is() {
    let program = Program::new();
    for kind in waypost_nodes::catalog().0 {
        let (name, fields) = (kind.spec().name, kind.spec().fields);
        if fields.is_empty() {
            continue;
        }
        let flow = format!(
            "name: x\nnodes:\n  - {{ id: a, type: {name}, config: {{ qqqqqqqqqqqqqqqq: 1 }} }}\n"
        );
        let ran = fed(&program, &["validate", "-"], &flow);
        assert_eq!(ran.code, 2);
        for field in fields {
            assert!(
                ran.out.contains(&format!("`{}`", field.name)),
                "{name} {}: {}",
                field.name,
                ran.out
            );
        }
    }
}

#[test]
fn missing_secret_says_how_to_define_it() {
    let program = Program::new();
    let flow = "name: s
nodes:
  - { id: a, type: shell, config: { command: 'true', env: { K: '${{ secrets.stripe }}' } } }
";
    let flow = program.file("s.yaml", flow).display().to_string();
    let ran = program.run(&["run", &flow]);
    assert_eq!(ran.code, 1);
    for part in ["there is no secret `stripe` here", "[secrets.stripe]", "env:", "waypost config"] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
}

#[test]
fn validate_reads_standard_input() {
    let program = Program::new();
    let file = program.file("waits.yaml", WAITS).display().to_string();
    let ran = fed(&program, &["validate", "-", &file], WAITS);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("standard input: ok, workflow waits, 2 nodes"), "{}", ran.out);
    assert!(ran.out.contains("waits.yaml: ok"), "{}", ran.out);
    let ran = fed(&program, &["validate", "-"], "name: x\nnodes:\n  - { id: a, type: nop }\n");
    assert_eq!(ran.code, 2);
    assert!(ran.out.contains("standard input:3:"), "{}", ran.out);
    assert_eq!(fed(&program, &["validate", "-", "-"], WAITS).code, 2);
    let ran =
        fed(&program, &["run", "-", "--id", "x"], "name: x\nnodes:\n  - { id: a, type: noop }\n");
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(fed(&program, &["run", "-", "--input", "-"], WAITS).code, 2);
}

#[test]
fn eval_prints_json_and_says_what_is_wrong_where() {
    let program = Program::new();
    for (args, expected) in [
        (&["eval", "1 + 2"][..], json!(3)),
        (&["eval", "-1 + 3"], json!(2)),
        (&["eval", "input.amount * 2", "--input", r#"{"amount": 21}"#], json!(42)),
        (
            &["eval", "Hello, ${{ input.name | upper }}!", "-i", r#"{"name":"Ada"}"#],
            json!("Hello, ADA!"),
        ),
        (&["eval", "${{ input }}", "--input", "[1,null]"], json!([1, null])),
        (&["eval", "input is none"], json!(true)),
    ] {
        let ran = program.run(args);
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.err);
        assert_eq!(serde_json::from_str::<Value>(&ran.out).unwrap(), expected, "{args:?}");
    }
    let file = program.file("input.json", r#"{"n": 5}"#).display().to_string();
    assert_eq!(program.run(&["eval", "input.n", "--input", &format!("@{file}")]).out, "5\n");
    assert_eq!(fed(&program, &["eval", "input.n", "--input", "-"], r#"{"n": 6}"#).out, "6\n");
    for (args, code, parts) in [
        (&["eval", "input.name +"][..], 2, &["error[expression]", "  input.name +\n", "^"][..]),
        (&["eval", "1 | nosuch"], 2, &["error[expression]", "nosuch", "\n      ^^^^^^"]),
        (&["eval", "Hi ${{ input. }}"], 2, &["error[expression]", "^"]),
        (&["eval", "input.missing", "--input", "{}"], 1, &["error[expression]", "undefined"]),
        (&["eval", "nodes.a.output"], 2, &["--execution"]),
        (&["eval", "secrets.stripe"], 2, &["never shown"]),
        (&["eval", "input", "--input", "{"], 2, &["not JSON"]),
        (&["eval", ""], 2, &["empty"]),
        (&["eval", "1", "--input", "1", "--execution", "x"], 2, &["cannot be used with"]),
    ] {
        let ran = program.run(args);
        assert_eq!(ran.code, code, "{args:?}: {}{}", ran.out, ran.err);
        for part in parts {
            assert!(ran.err.contains(part), "{args:?} {part:?}: {}", ran.err);
        }
    }
    let wrong = program.run(&["eval", "1 +", "-o", "json"]);
    assert_eq!(wrong.code, 2);
    let wrong: Value = serde_json::from_str(&wrong.out).unwrap();
    assert_eq!(wrong["error"]["kind"], "expression");
    assert!(wrong["error"]["range"][0].is_number(), "{wrong}");
}

const SCOPE: &str = "name: scope
nodes:
  - { id: first-one, type: transform, config: { value: { n: 7 } }, variables: { kept: '${{ output.n }}' } }
  - { id: bad, type: shell, onError: continue, needs: [first-one], config: { command: 'exit 4' } }
  - { id: no, type: condition, needs: [bad], config: { expression: 'false' } }
  - { id: skipped, type: noop, needs: [{ node: no, branch: 'true' }] }
  - { id: seen, type: output, needs: [skipped, no], config: { value: ['${{ nodes.bad.output }}', '${{ nodes.bad.failure }}', '${{ nodes.skipped }}', '${{ nodes[\"first-one\"] }}'] } }
";

#[test]
fn eval_sees_what_an_execution_has_in_a_folder_and_through_a_server() {
    let program = Program::new();
    let flow = program.file("scope.yaml", SCOPE).display().to_string();
    let ran = program.run(&["run", &flow, "--id", "e", "--input", r#"{"name":"Ada"}"#]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let check = || {
        let eval = |expression: &str| {
            let ran = program.run(&["eval", expression, "--execution", "last"]);
            assert_eq!(ran.code, 0, "{expression}: {}", ran.err);
            serde_json::from_str::<Value>(&ran.out).unwrap()
        };
        assert_eq!(eval("input.name"), "Ada");
        assert_eq!(eval("variables.kept"), 7);
        assert_eq!(eval("nodes['first-one'].output.n + 1"), 8);
        assert_eq!(eval("${{ execution.id }} of ${{ execution.workflow }}"), "e of scope");
        // Just what the execution itself saw.
        let saw = program.json(&["show", "e"])["output"].clone();
        assert_eq!(
            eval("[nodes.bad.output, nodes.bad.failure, nodes.skipped, nodes['first-one']]"),
            saw
        );
        let ran = program.run(&["eval", "nodes.nosuch.output", "--execution", "e"]);
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(
            ran.err.contains("has no node `nosuch`") && ran.err.contains("first-one"),
            "{}",
            ran.err
        );
        let ran = program.run(&["eval", "nodes.first-one.output", "--execution", "e"]);
        assert!(ran.err.contains("write `nodes['first-one']`"), "{}", ran.err);
        assert_ne!(program.run(&["eval", "1", "--execution", "nosuch"]).code, 0);
    };
    check();
    let server = Running::start(program.command(&["serve", "--listen", "127.0.0.1:0"]), "Ctrl-C");
    check();
    server.kill();
}

#[test]
fn init_writes_an_example_whose_commands_work() {
    for folder in [None, Some("my flows")] {
        let program = Program::new();
        let bin = program.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_waypost"), bin.join("waypost")).unwrap();
        let work = program.path().join("work");
        std::fs::create_dir(&work).unwrap();
        let args: Vec<&str> = ["init"].into_iter().chain(folder).collect();
        let made = Ran::from(program.command(&args).current_dir(&work).output().unwrap());
        assert_eq!(made.code, 0, "{}", made.err);
        let (_, next) = made.out.split_once("next:\n").unwrap();
        let commands: Vec<&str> = next.lines().map(str::trim).collect();
        assert_eq!(commands.len(), 3, "{next}");
        let mut said = String::new();
        for command in commands {
            let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
            let mut shell = Command::new("sh");
            shell.args(["-c", command]).current_dir(&work).env("PATH", path);
            shell.env("WAYPOST_DATA", program.data()).env("HOME", program.path());
            let ran = Ran::from(shell.stdin(Stdio::null()).output().unwrap());
            assert_eq!(ran.code, 0, "{command}: {}{}", ran.out, ran.err);
            said.push_str(&ran.out);
        }
        for part in ["ok, workflow first-order", "COMPLETED in", "Ada pays 142.8"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        let place = work.join(folder.unwrap_or("."));
        let schema = std::fs::read_to_string(place.join("waypost.schema.json")).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&schema).unwrap(), program.json(&["schema"]));
        std::fs::write(place.join("workflow.yaml"), "mine").unwrap();
        std::fs::remove_file(place.join("waypost.schema.json")).unwrap();
        let again = Ran::from(program.command(&args).current_dir(&work).output().unwrap());
        assert_eq!(again.code, 2, "{}", again.out);
        assert!(again.err.contains("--force"), "{}", again.err);
        assert_eq!(std::fs::read_to_string(place.join("workflow.yaml")).unwrap(), "mine");
        assert!(!place.join("waypost.schema.json").exists(), "nothing was written");
        let forced = [&args[..], &["--force"]].concat();
        let forced = Ran::from(program.command(&forced).current_dir(&work).output().unwrap());
        assert_eq!(forced.code, 0, "{}", forced.err);
        assert_ne!(std::fs::read_to_string(place.join("workflow.yaml")).unwrap(), "mine");
    }
}
