//! Large payloads with the real program: passed on by reference, and a blob store that is away, full or
//! damaged.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use waypost_core::blob::BlobDigest;
use waypost_testbed::Sink;
use waypost_testbed::postgres::Postgres;

use crate::program::{Program, Ran, Running};

/// What the log says while the blob store does not answer.
const FAILS: &str = "the blob store fails; trying again";

/// Waits for a signal, then looks into its input.
const LOOKS: &str = "name: looks
nodes:
  - { id: wait, type: wait-for-events, config: { name: go } }
  - { id: look, type: transform, needs: [wait], config: { value: '${{ input.n + 1 }}' } }
  - { id: done, type: output, needs: [look], config: { value: '${{ nodes.look.output }}' } }
";

fn serve(program: &Program, more: &[&str]) -> Running {
    let inner = program.command(&[&["serve", "--listen", "127.0.0.1:0"], more].concat());
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" \"$@\" 2>&1"]).arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    Running::start(command, "http://")
}

fn succeed(program: &Program, args: &[&str]) -> String {
    let Ran { code, out, err } = program.run(args);
    assert_eq!(code, 0, "{args:?}: {out}{err}");
    out
}

/// Deploys a workflow and starts it with this input, as execution `e`.
fn start(program: &Program, flow: &str, input: &Value) {
    let file = program.file("flow.yaml", flow);
    succeed(program, &["deploy", file.to_str().unwrap()]);
    let name = flow.lines().next().unwrap().trim_start_matches("name: ");
    let input = program.file("input.json", input.to_string());
    let input = format!("@{}", input.display());
    succeed(program, &["start", name, "--id", "e", "--input", &input]);
}

fn large_input() -> Value {
    json!({ "n": 7, "text": "x".repeat(2 << 20) })
}

/// A JSON response of 64 MiB goes through three nodes.
fn large_response_is_passed_on(adapt: impl Fn(&mut Command)) {
    let sink = Sink::start();
    let mut body = String::from("[\"");
    for number in 0_u64.. {
        if body.len() > (64 << 20) - 100 {
            break;
        }
        body.push_str(&number.to_string());
    }
    body.push_str("\"]");
    sink.answer(200, &body);
    let program = Program::new();
    let flow = format!(
        "name: carry
nodes:
  - {{ id: fetch, type: api-call, config: {{ url: '{url}' }}, timeout: 5m }}
  - {{ id: pass, type: transform, needs: [fetch], config: {{ value: {{ file: '${{{{ nodes.fetch.output.body }}}}' }} }} }}
  - id: send
    type: api-call
    needs: [pass]
    config: {{ method: PUT, url: '{url}', upload: '${{{{ nodes.pass.output.file }}}}' }}
    timeout: 5m
  - {{ id: done, type: output, needs: [send], config: {{ value: '${{{{ nodes.send.output.body | ref }}}}' }} }}
",
        url = sink.url("/file")
    );
    let flow = program.file("carry.yaml", flow);
    let args = ["run", flow.to_str().unwrap(), "--allow-egress", "127.0.0.1", "-o", "json"];
    let mut command = program.command(&args);
    adapt(&mut command);
    let ran = Ran::from(command.output().unwrap());
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let shown: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(shown["output"]["ref"], BlobDigest::of(body.as_bytes()).to_string());
    let sent = sink.received().pop().unwrap();
    assert_eq!((&*sent.method, sent.body.len()), ("PUT", body.len()));
    assert!(sent.body == body.as_bytes());
}

#[test]
fn large_response_is_passed_on_unchanged_in_a_folder() {
    large_response_is_passed_on(|_| {});
}

#[test]
fn large_response_is_passed_on_unchanged_in_a_cluster() {
    let url = Postgres::shared().database();
    large_response_is_passed_on(|command| {
        command.env("WAYPOST_DATABASE_URL", &url);
    });
}

/// Inputs that name blobs, and what a strict schema says about them.
fn inputs_that_name_blobs(program: &Program) -> Vec<(Value, &'static str)> {
    let put = |content: &str| -> Value {
        let source = program.file("content", content);
        let digest = succeed(program, &["blob", "put", source.to_str().unwrap()]);
        json!({ "$blob": digest.trim() })
    };
    let (fits, unfit) = (put(&large_input().to_string()), put(r#"{"n": "7"}"#));
    let (lines, unknown) = (put("1\n2\n"), json!({ "$blob": "0".repeat(64) }));
    vec![
        (large_input(), ""),
        (json!({ "n": "7", "text": "x".repeat(2 << 20) }), "is not of type"),
        (fits, ""),
        (unfit, "is not of type"),
        (json!({ "n": 7, "rows": lines }), ""),
        (lines, "the schema looks into blob"),
        (json!({ "n": 7, "rows": unknown }), "and there is none|there is no blob"),
    ]
}

fn run_is_checked_on_contents(program: &Program) {
    let flow = "name: strict
input: { type: object, required: [n], properties: { n: { type: integer } } }
nodes:
  - { id: done, type: output, config: { value: '${{ input.n }}' } }
";
    let flow = program.file("strict.yaml", flow);
    for (input, fault) in inputs_that_name_blobs(program) {
        let file = program.file("input.json", input.to_string());
        let from = format!("@{}", file.display());
        let ran = program.run(&["run", flow.to_str().unwrap(), "--input", &from, "-o", "json"]);
        if fault.is_empty() {
            assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
            assert_eq!(serde_json::from_str::<Value>(&ran.out).unwrap()["output"], 7);
        } else {
            assert_ne!(ran.code, 0);
            assert!(fault.split('|').any(|fault| ran.err.contains(fault)), "{fault}: {}", ran.err);
        }
    }
}

#[test]
fn run_checks_the_schema_on_contents_in_a_folder() {
    run_is_checked_on_contents(&Program::new());
}

#[test]
fn run_checks_the_schema_on_contents_at_a_server() {
    let program = Program::new();
    let server = serve(&program, &[]);
    run_is_checked_on_contents(&program);
    server.kill();
}

/// The blob store of a program, which can be taken away.
struct Away {
    folder: PathBuf,
    kept: PathBuf,
}

impl Away {
    fn take(program: &Program) -> Self {
        let folder = program.data().join("blobs");
        let kept = program.path().join("kept");
        fs::rename(&folder, &kept).unwrap();
        // A file where the folder should be: it is neither there nor missing.
        fs::write(&folder, "").unwrap();
        Self { folder, kept }
    }

    fn give_back(self) {
        fs::remove_file(&self.folder).unwrap();
        fs::rename(&self.kept, &self.folder).unwrap();
    }
}

#[test]
fn execution_is_cancelled_while_the_blob_store_is_away() {
    let program = Program::new();
    let mut server = serve(&program, &[]);
    start(&program, LOOKS, &large_input());
    let _away = Away::take(&program);
    succeed(&program, &["signal", "e", "go"]);
    server.read_until(FAILS);
    succeed(&program, &["cancel", "e"]);
    program.run(&["watch", "e"]);
    assert_eq!(program.json(&["show", "e"])["status"], "CANCELLED");
    server.kill();
}

#[test]
fn execution_continues_when_the_blob_store_is_back() {
    let program = Program::new();
    let mut server = serve(&program, &[]);
    start(&program, LOOKS, &large_input());
    let away = Away::take(&program);
    succeed(&program, &["signal", "e", "go"]);
    server.read_until(FAILS);
    away.give_back();
    succeed(&program, &["watch", "e"]);
    let shown = program.json(&["show", "e"]);
    assert_eq!((&shown["status"], &shown["output"]), (&json!("COMPLETED"), &json!(8)));
    server.kill();
}

#[test]
fn damaged_blob_fails_the_node_that_looks_into_it_and_is_named() {
    let program = Program::new();
    let server = serve(&program, &[]);
    start(&program, LOOKS, &large_input());
    let digest = BlobDigest::of(large_input().to_string().as_bytes()).to_string();
    let file = program.data().join("blobs").join(&digest[..2]).join(&digest[2..]);
    let mut bytes = fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&file, bytes).unwrap();
    succeed(&program, &["signal", "e", "go"]);
    program.run(&["watch", "e"]);
    let shown = program.json(&["show", "e"]);
    assert_eq!((&shown["status"], &shown["failure"]["kind"]), (&json!("FAILED"), &json!("blob")));
    let message = shown["failure"]["message"].as_str().unwrap();
    assert!(message.contains(&digest), "{message}");
    server.kill();
}

/// A small file system, until it is dropped; none without the right to mount one.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(folder: PathBuf) -> Option<Self> {
        fs::create_dir(&folder).unwrap();
        let mut mount = Command::new("mount");
        let mount = mount.args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(&folder);
        mount.output().ok()?.status.success().then_some(Self(folder))
    }

    fn fill(&self) {
        use std::io::Write as _;
        let mut ballast = fs::File::create(self.0.join("ballast")).unwrap();
        for bytes in [1 << 20, 4096] {
            while ballast.write_all(&vec![7; bytes]).is_ok() {}
        }
    }

    fn free(&self) {
        fs::remove_file(self.0.join("ballast")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // At once, or when the last process has left it.
        Command::new("umount").arg("--lazy").arg(&self.0).output().unwrap();
    }
}

/// The output is made while no blob can be stored: it is kept at its attempt until there is space.
#[test]
fn output_waits_for_space_and_its_attempt_is_not_repeated() {
    let program = Program::new();
    let Some(disk) = SmallDisk::mount(program.path().join("disk")) else {
        eprintln!("skipped: mounting a small file system needs root");
        return;
    };
    let place = format!("blobs=folder:{}", disk.0.join("blobs").display());
    let more = ["--set", &place, "--set", "inline_bytes_max=4096", "--enable-shell"];
    let mut server = serve(&program, &more);
    disk.fill();
    let marks = program.path().join("marks");
    let flow = format!(
        "name: makes
nodes:
  - {{ id: make, type: shell, config: {{ command: 'echo made >> {}; head -c 100000 /dev/urandom | base64 -w 0' }} }}
  - {{ id: done, type: output, needs: [make], config: {{ value: '${{{{ nodes.make.output | ref }}}}' }} }}
",
        marks.display()
    );
    start(&program, &flow, &Value::Null);
    server.read_until(FAILS);
    assert_eq!(program.json(&["show", "e"])["status"], "RUNNING");
    let events = succeed(&program, &["events", "e"]);
    assert!(!events.contains("NodeCompleted"), "{events}");
    disk.free();
    succeed(&program, &["watch", "e"]);
    let shown = program.json(&["show", "e"]);
    assert_eq!(shown["status"], "COMPLETED");
    assert!(shown["output"]["bytes"].as_u64().unwrap() > 100_000, "{shown}");
    assert_eq!(fs::read_to_string(marks).unwrap(), "made\n");
    server.kill();
}

/// A response is stored while it is received, so its call is made again when there is space.
#[test]
fn api_call_waits_for_space_to_store_its_response() {
    let program = Program::new();
    let Some(disk) = SmallDisk::mount(program.path().join("disk")) else {
        eprintln!("skipped: mounting a small file system needs root");
        return;
    };
    let sink = Sink::start();
    let body: String = (0..200_000).map(|number: u32| number.to_string()).collect();
    sink.answer(200, &body);
    let place = format!("blobs=folder:{}", disk.0.join("blobs").display());
    let server = serve(&program, &["--set", &place, "--allow-egress", "127.0.0.1"]);
    disk.fill();
    let flow = format!(
        "name: fetches
nodes:
  - {{ id: fetch, type: api-call, config: {{ url: '{url}', download: true }}, retry: {{ maxAttempts: 1 }} }}
  - {{ id: done, type: output, needs: [fetch], config: {{ value: '${{{{ nodes.fetch.output.body | ref }}}}' }} }}
",
        url = sink.url("/file")
    );
    start(&program, &flow, &Value::Null);
    for (id, status) in [("e", "COMPLETED"), ("cancelled", "CANCELLED")] {
        if id != "e" {
            disk.fill();
            succeed(&program, &["start", "fetches", "--id", id]);
        }
        let mut whys = (0..1000).map(|_| succeed(&program, &["why", id]));
        let why = whys.find(|why| why.contains("waits for the blob store"));
        assert!(why.unwrap().contains("the blob store is full"));
        let events = succeed(&program, &["events", id]);
        assert!(events.contains("blob_store") && !events.contains("NodeCompleted"), "{events}");
        match status {
            "COMPLETED" => disk.free(),
            _ => drop(succeed(&program, &["cancel", id])),
        }
        program.run(&["watch", id]);
        assert_eq!(program.json(&["show", id])["status"], status);
    }
    let shown = program.json(&["show", "e"]);
    assert_eq!(shown["output"]["bytes"], body.len());
    server.kill();
}
