//! Standard output and standard error that cannot be written: full, closed, or a pipe that nothing
//! reads. A server serves on, an execution goes on to its end, and the exit code tells.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::json;

use crate::program::{Program, Ran, Running};

/// Waits at a named pipe, then leaves a mark.
const GATED: &str = "name: gated
nodes:
  - { id: gate, type: shell, config: { args: [cat, '${{ input.gate }}'] } }
  - { id: mark, type: shell, needs: [gate], config: { args: [touch, '${{ input.mark }}'] } }
  - { id: done, type: output, needs: [mark], config: { value: done } }
";

/// Waits for a signal, then leaves a mark.
const WAITS: &str = "name: waits
nodes:
  - { id: ask, type: wait-for-events, config: { name: go } }
  - { id: mark, type: shell, needs: [ask], config: { args: [touch, '${{ input.mark }}'] } }
";

const HELLO: &str = "name: hello
nodes:
  - { id: done, type: output, config: { value: '${{ input }}' } }
";

/// A workflow that goes on when the test opens its gate.
struct Gated {
    flow: String,
    gate: PathBuf,
    mark: PathBuf,
}

impl Gated {
    fn new(program: &Program) -> Self {
        let (gate, mark) = (program.path().join("gate"), program.path().join("mark"));
        assert!(Command::new("mkfifo").arg(&gate).status().unwrap().success());
        Self { flow: program.file("gated.yaml", GATED).display().to_string(), gate, mark }
    }

    fn input(&self) -> String {
        json!({ "gate": self.gate, "mark": self.mark }).to_string()
    }

    /// Returns when the command at the gate reads.
    fn open(&self) {
        File::options().write(true).open(&self.gate).unwrap().write_all(b"go").unwrap();
    }
}

fn full() -> Stdio {
    Stdio::from(File::options().write(true).open("/dev/full").unwrap())
}

/// A pipe whose reader is gone.
fn closed_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    Stdio::from(writer)
}

fn run_to(program: &Program, args: &[&str], stdout: Stdio) -> Ran {
    let mut command = program.command(args);
    let child = command.stdout(stdout).stderr(Stdio::piped()).spawn().unwrap();
    Ran::from(child.wait_with_output().unwrap())
}

/// Runs with a stream that is not open at all.
fn run_without(program: &Program, stream: u32, args: &[&str]) -> Ran {
    let inner = program.command(args);
    let mut command = Command::new("sh");
    command.args(["-c", &format!("exec \"$0\" \"$@\" {stream}>&-")]).arg(inner.get_program());
    command.args(inner.get_args()).stdin(Stdio::null());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    Ran::from(command.output().unwrap())
}

/// Starts a command and reads its first line of standard output, then closes the pipe.
fn first_line_only(program: &Program, args: &[&str]) -> (Child, String) {
    let mut command = program.command(args);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::with_capacity(1, child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (child, line)
}

fn status(program: &Program, id: &str) -> String {
    program.json(&["show", id])["status"].as_str().unwrap().to_owned()
}

#[test]
fn server_serves_on_when_its_log_cannot_be_written() {
    for stderr in [full(), closed_pipe(), Stdio::null()] {
        let program = Program::new();
        let file = program.file("hello.yaml", HELLO).display().to_string();
        let mut command = program.command(&["serve", "--listen", "127.0.0.1:0", "--log", "trace"]);
        command.stderr(stderr);
        let server = Running::start(command, "Ctrl-C stops");
        assert_eq!(program.run(&["deploy", &file]).code, 0);
        for round in 0..5 {
            let input = json!({ "round": round }).to_string();
            let started = program.json(&["start", "hello", "--input", &input, "--wait", "60s"]);
            assert_eq!(started["status"], "COMPLETED", "{started}");
        }
        server.signal("-TERM");
        let (code, out) = server.wait();
        assert_eq!(code, 0, "{out}");
    }
}

#[test]
fn server_drains_when_nothing_reads_its_output() {
    let program = Program::new();
    let mut command = program.command(&["serve", "--listen", "127.0.0.1:0", "--log", "trace"]);
    let mut child = command.stdout(Stdio::piped()).stderr(closed_pipe()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    read_until(&mut lines, "no API keys are required");
    drop(lines);
    assert_eq!(program.run(&["instances"]).code, 0);
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

fn read_until(lines: &mut BufReader<ChildStdout>, mark: &str) {
    let mut line = String::new();
    while !line.contains(mark) {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "it ended before {mark:?}");
    }
}

#[test]
fn run_finishes_the_execution_when_its_reader_leaves() {
    let program = Program::new();
    let gated = Gated::new(&program);
    let (child, line) =
        first_line_only(&program, &["run", &gated.flow, "--id", "e", "--input", &gated.input()]);
    assert!(line.starts_with("execution e "), "{line}");
    gated.open();
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!((ran.code, &*ran.err), (0, ""), "it completed, and nobody wanted to read it");
    assert!(gated.mark.exists(), "work was left undone");
    assert_eq!(status(&program, "e"), "COMPLETED");
}

#[test]
fn run_finishes_the_execution_and_fails_when_its_output_is_lost() {
    let program = Program::new();
    let gated = Gated::new(&program);
    for (id, format) in [("text", "text"), ("json", "json")] {
        let input = gated.input();
        let args = ["run", &gated.flow, "--id", id, "--input", &input, "-o", format];
        let child = program.command(&args).stdout(full()).stderr(Stdio::piped()).spawn().unwrap();
        gated.open();
        let ran = Ran::from(child.wait_with_output().unwrap());
        assert_eq!(ran.code, 1, "{}", ran.err);
        for part in ["cannot write to standard output", "is COMPLETED", "waypost show"] {
            assert!(ran.err.contains(part), "{part}: {}", ran.err);
        }
        assert_eq!(status(&program, id), "COMPLETED");
        std::fs::remove_file(&gated.mark).unwrap();
    }
    let fails = "name: f\nnodes:\n  - { id: a, type: shell, config: { command: 'exit 3' } }\n";
    let fails = program.file("fails.yaml", fails).display().to_string();
    assert_eq!(run_to(&program, &["run", &fails], closed_pipe()).code, 1);
    let hello = program.file("hello.yaml", HELLO).display().to_string();
    for stream in [1, 2] {
        let ran = run_without(&program, stream, &["run", &hello, "--log", "trace"]);
        assert_eq!(ran.code, 0, "stream {stream}: {}{}", ran.out, ran.err);
    }
    let logged = program.command(&["run", &hello, "--log", "trace"]).stderr(full()).output();
    assert_eq!(Ran::from(logged.unwrap()).code, 0);
}

#[test]
fn resume_finishes_the_execution_when_its_output_is_lost() {
    for (stdout, code) in [(full(), 1), (closed_pipe(), 0)] {
        let program = Program::new();
        let (waits, mark) = (program.file("waits.yaml", WAITS), program.path().join("mark"));
        let (waits, input) = (waits.display().to_string(), json!({ "mark": mark }).to_string());
        program.start(&["run", &waits, "--id", "e", "--input", &input], "WAITING").kill();
        assert_eq!(program.run(&["signal", "e", "go"]).code, 0);
        let ran = run_to(&program, &["resume", "e"], stdout);
        assert_eq!(ran.code, code, "{}", ran.err);
        assert!(mark.exists(), "work was left undone");
        assert_eq!(status(&program, "e"), "COMPLETED");
    }
}

#[test]
fn interrupted_run_says_how_to_resume_on_standard_error_when_output_is_lost() {
    let program = Program::new();
    let flow = program.file("waits.yaml", WAITS).display().to_string();
    let (child, _) = first_line_only(&program, &["run", &flow, "--id", "e"]);
    // The signal is taken once the wait is there, and the wait is drawn before: the pipe is broken.
    assert_eq!(program.run(&["signal", "e", "other"]).code, 0);
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!(ran.code, 130, "{}", ran.err);
    assert!(ran.err.contains("waypost resume e"), "{}", ran.err);
}

#[test]
fn watch_stops_with_an_error_when_its_reader_leaves() {
    let program = Program::new();
    let gated = Gated::new(&program);
    let args = ["run", &gated.flow, "--id", "e", "--input", &gated.input()];
    let running = program.start(&args, "RUNNING");
    let (child, _) = first_line_only(&program, &["watch", "e"]);
    gated.open();
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("waypost watch e"), "{}", ran.err);
    assert_eq!(running.wait().0, 0);
}

#[test]
fn start_and_run_at_a_server_report_lost_output() {
    let program = Program::new();
    let file = program.file("hello.yaml", HELLO).display().to_string();
    let server =
        Running::start(program.command(&["serve", "--listen", "127.0.0.1:0"]), "Ctrl-C stops");
    assert_eq!(program.run(&["deploy", &file]).code, 0);
    for args in
        [&["start", "hello", "--wait", "60s", "--id", "a"][..], &["run", &file, "--id", "b"]]
    {
        let ran = run_to(&program, args, full());
        assert_eq!(ran.code, 1, "{args:?}: {}", ran.err);
        assert!(ran.err.contains("cannot write to standard output"), "{args:?}: {}", ran.err);
        assert_eq!(status(&program, args[args.len() - 1]), "COMPLETED");
    }
    let ran = run_to(&program, &["run", &file, "--id", "c"], closed_pipe());
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(status(&program, "c"), "COMPLETED");
    server.kill();
}

#[test]
fn commands_that_print_fail_when_output_is_lost_and_end_quietly_when_the_reader_leaves() {
    let program = Program::new();
    let file = program.file("hello.yaml", HELLO).display().to_string();
    assert_eq!(program.run(&["run", &file]).code, 0);
    let bench = ["bench", "chain", "--executions", "5", "--nodes", "2"];
    for args in [
        &["list"][..],
        &["list", "-o", "json"],
        &["show", "last"],
        &["show", "last", "-o", "json"],
        &["events", "last"],
        &["why", "last"],
        &["limits"],
        &["config"],
        &["schema"],
        &["validate", &file],
        &["eval", "1 + 1"],
        &["completions", "bash"],
        &["check"],
        &["--help"],
        &["run", "--help"],
        &["--version"],
        &bench,
    ] {
        let ran = run_to(&program, args, full());
        assert_eq!(ran.code, 1, "{args:?}: {}", ran.err);
        assert!(ran.err.contains("cannot write to standard output"), "{args:?}: {}", ran.err);
        let ran = run_to(&program, args, closed_pipe());
        assert_eq!((ran.code, &*ran.err), (0, ""), "{args:?}");
    }
    for stream in [1, 2] {
        assert_eq!(run_without(&program, stream, &["list"]).code, 0);
    }
    assert_eq!(run_without(&program, 2, &["show", "none"]).code, 1);
    let failed = program.command(&["show", "none"]).stderr(full()).output().unwrap();
    assert_eq!(Ran::from(failed).code, 1, "the error could not be shown");
}
