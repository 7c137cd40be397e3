//! Every example runs, by the very command that its header gives.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use waypost_testbed::{free_port, wait_until};

use crate::tidy::{File, find, refuse, root};

/// The examples: what each must end as, and what its output must contain.
const EXPECTED: &[(&str, &str, &str)] = &[
    ("approval", "COMPLETED", r#"{"pay":{"by":"Grace","paid":900}}"#),
    ("async-operation", "COMPLETED", r#"{"asked":3,"report":"sales"}"#),
    ("branches", "COMPLETED", r#"{"branch":"europe","total":272.25}"#),
    ("child", "COMPLETED", "3"),
    ("concurrency", "COMPLETED", r#"{"customer":"ada","left":70}"#),
    ("delay", "COMPLETED", r#""began":"#),
    ("errors", "COMPLETED", r#"{"optional":"exit_code 3","used":"replacement"}"#),
    ("failed-workflow", "COMPLETED", r#""import-1 of import failed: no space left""#),
    ("fan-out", "COMPLETED", r#""days":365"#),
    ("github-webhook", "COMPLETED", r#""built shop at 5c8f1e2""#),
    ("hello", "COMPLETED", r#"{"letters":11,"text":"Hello, Ada!"}"#),
    ("large-data", "COMPLETED", r#""total":10074750}"#),
    ("llm", "COMPLETED", r#""It is in Basel.""#),
    ("loop", "COMPLETED", r#"{"asked":3,"tries":2}"#),
    (
        "map",
        "COMPLETED",
        r#"{"failed":[1],"results":[{"order":"a","price":21},null,{"order":"c","price":35}]}"#,
    ),
    ("nightly-report", "COMPLETED", r#""50 orders from 2026-03-01 to 2026-03-04""#),
    ("order", "COMPLETED", r#"{"by":"courier","paid":120,"sent":"a wrapped lamp"}"#),
    ("payment", "COMPLETED", r#"{"reminded":"order 8 is not paid"}"#),
    ("poll", "COMPLETED", r#"{"job":"a report"}"#),
    ("race", "COMPLETED", r#"{"answered":false}"#),
    ("breaker", "COMPLETED", r#""charged at attempt 3""#),
    ("retry", "COMPLETED", r#""attempt 3 worked""#),
    (
        "saga",
        "COMPLETED",
        r#"{"refused":{"because":"out_of_stock","undone":"refunded the receipt for a lamp"}}"#,
    ),
    ("shell-pipeline", "COMPLETED", r#"{"count":3,"title":"It's $(done)"}"#),
    ("stream", "COMPLETED", r#""A-17 ships""#),
    ("tickets", "COMPLETED", r#""ticket 7: no paper""#),
    ("variables", "COMPLETED", r#"{"text":"65 EUR","total":65}"#),
];

#[test]
fn every_example_is_expected_to_do_something() {
    let mut faults = Vec::new();
    for file in examples() {
        if !EXPECTED.iter().any(|(name, ..)| file.name == format!("examples/{name}.yaml")) {
            faults.push(format!("{} is not in the table", file.name));
        }
        if !commands(&file).iter().any(|run| run.starts_with("waypost run")) {
            faults.push(format!("{}: its header has no `waypost run`", file.name));
        }
    }
    refuse(&faults);
    assert_eq!(examples().len(), EXPECTED.len());
}

/// One test for each, so that they run side by side.
macro_rules! runs {
    ($($test:ident $name:literal)*) => {
        $(#[test]
        fn $test() {
            check($name);
        })*
    };
}

runs! {
    approval "approval"
    async_operation "async-operation"
    branches "branches"
    concurrency "concurrency"
    delay "delay"
    errors "errors"
    failed_workflow "failed-workflow"
    payment "payment"
    fan_out "fan-out"
    github_webhook "github-webhook"
    hello "hello"
    large_data "large-data"
    llm "llm"
    repeat "loop"
    each "map"
    nightly_report "nightly-report"
    order "order"
    poll "poll"
    race "race"
    breaker "breaker"
    retry "retry"
    saga "saga"
    shell_pipeline "shell-pipeline"
    stream "stream"
    tickets "tickets"
    variables "variables"
}

fn check(name: &str) {
    let (_, status, output) = EXPECTED.iter().find(|(known, ..)| *known == name).unwrap();
    let file = format!("examples/{name}.yaml");
    let file = examples().into_iter().find(|example| example.name == file).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let model_port = match file.text.contains("11434") {
        true => start_model().to_string(),
        false => String::new(),
    };
    let (servers, commands): (Vec<String>, Vec<String>) = commands(&file)
        .into_iter()
        .map(|line| line.replace("7070", &port.to_string()).replace("11434", &model_port))
        .partition(|line| line.starts_with("waypost serve"));
    let _server = servers.first().map(|line| Server::start(line, port, folder.path()));
    let printed = run(&commands, folder.path());
    assert!(printed.contains(&format!("\n{status} in ")), "{printed}");
    let given = printed.lines().find(|line| line.starts_with("output: ")).unwrap_or_default();
    assert!(given.contains(output), "{given} does not contain {output}");
}

/// A language model that calls a tool, and repeats the tool's result; gives its port.
fn start_model() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let asked = read_json(&mut stream);
            let last = asked["messages"].as_array().unwrap().last().unwrap();
            let function = json!({ "name": "order_state", "arguments": "{\"order\": \"17\"}" });
            let mut message = json!({ "role": "assistant", "content": null });
            match last["role"].as_str() {
                Some("tool") => {
                    let found = last["content"].as_str().unwrap();
                    message["content"] = format!("It is {found}.").into();
                }
                _ => {
                    let call = json!({ "id": "a", "type": "function", "function": function });
                    message["tool_calls"] = json!([call]);
                }
            }
            let body = json!({ "choices": [{ "message": message }] }).to_string();
            let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length:";
            write!(stream, "{head} {}\r\n\r\n{body}", body.len()).unwrap();
        }
    });
    port
}

/// The body of a request.
fn read_json(stream: &mut TcpStream) -> Value {
    let mut lines = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    lines.read_exact(&mut body).unwrap();
    serde_json::from_slice(&body).unwrap()
}

/// The server that an example asks for, stopped with the test.
struct Server(std::process::Child);

impl Server {
    fn start(line: &str, port: u16, folder: &Path) -> Self {
        let mut command = shell(&format!("exec {line}"), folder);
        let server = Self(command.stdout(Stdio::null()).spawn().unwrap());
        let listens = || TcpStream::connect(("127.0.0.1", port)).is_ok();
        wait_until("the server listens", Duration::from_secs(60), listens);
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Runs the commands in order; those after the first `waypost run` when it waits for a signal. Returns what it
/// prints.
fn run(commands: &[String], folder: &Path) -> String {
    let before = commands.iter().take_while(|command| !command.starts_with("waypost run")).count();
    let (before, commands) = commands.split_at(before);
    for command in before {
        let status = shell(command, folder).stdout(Stdio::null()).status().unwrap();
        assert!(status.success(), "{command} failed");
    }
    let (first, others) = commands.split_first().expect("an example has a `waypost run`");
    let mut child = shell(first, folder).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut printed = String::new();
    for other in others {
        while !printed.contains(" for signal ") {
            assert_ne!(lines.read_line(&mut printed).unwrap(), 0, "{printed}");
        }
        let status = shell(other, folder).stdout(Stdio::null()).status().unwrap();
        assert!(status.success(), "{other} failed");
    }
    lines.read_to_string(&mut printed).unwrap();
    let status = child.wait().unwrap();
    assert!(status.success(), "{first} ended with {status}:\n{printed}");
    printed
}

/// A command line as a reader would type it, with our binary first in the path.
fn shell(line: &str, folder: &Path) -> Command {
    let binaries = Path::new(env!("CARGO_BIN_EXE_waypost")).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("sh");
    command
        .args(["-c", line])
        .current_dir(root())
        .env("PATH", format!("{}:{path}", binaries.display()))
        .env("WAYPOST_DATA", folder);
    command
}

/// The commands in an example's header.
fn commands(file: &File) -> Vec<String> {
    let header = file.text.lines().take_while(|line| line.starts_with('#'));
    let commands = header.filter_map(|line| line.strip_prefix("#   "));
    commands.map(ToOwned::to_owned).collect()
}

fn examples() -> Vec<File> {
    find(&root().join("examples"), &|name| name.ends_with(".yaml"))
}
