//! `waypost import`: what it prints and writes, and definitions of other engines that run.

use std::path::PathBuf;

use serde_json::{Value, json};
use waypost_testbed::Sink;

use crate::program::{Program, Ran};
use crate::tidy::root;

fn fixture(name: &str) -> PathBuf {
    root().join("crates/waypost-import/tests/fixtures").join(name)
}

/// Imports a fixture, and gives the file with its definition.
fn import(program: &Program, name: &str) -> PathBuf {
    let source = fixture(name);
    let Ran { code, out, err } = program.run(&["import", source.to_str().unwrap()]);
    assert_eq!(code, 0, "{name}: {out}{err}");
    program.file("imported.yaml", out)
}

/// Imports a fixture, runs it, and gives the result.
fn run(program: &Program, name: &str, input: &Value) -> Value {
    let file = import(program, name);
    let input = input.to_string();
    let args = ["run", file.to_str().unwrap(), "--input", &input, "--allow-egress", "127.0.0.1"];
    program.json(&args)
}

#[test]
fn imported_definitions_run_to_the_right_output() {
    for (name, input, expected) in [
        ("asl/hello.asl.json", json!({}), json!({ "text": "hello, ${{ nobody }}" })),
        ("asl/count.asl.json", json!({ "i": 0, "sum": 0 }), json!(12)),
        (
            "asl/parallel.asl.json",
            json!({ "items": [5, 6] }),
            json!([{ "a": 1 }, [{ "sum": 5 }, { "sum": 7 }]]),
        ),
        (
            "asl/grades.asl.json",
            json!({ "points": 95, "most": 100, "name": "ann" }),
            json!({ "line": "ann: good" }),
        ),
        (
            "asl/grades.asl.json",
            json!({ "points": 5, "most": 100, "name": "bob" }),
            json!({ "line": "bob: poor" }),
        ),
        (
            "asl/variables.asl.json",
            json!({ "a": 5 }),
            json!({ "size": "large", "word": "one", "sum": 6 }),
        ),
        (
            "asl/functions.asl.json",
            json!({
                "a": 1, "n": 5, "list": [1, 2, 1], "one": { "x": 1 }, "two": { "y": 2 },
                "a key": { "deep": [7, 8] },
            }),
            json!({
                "list": [1, "b", 3, true], "part": [[1, 2], [1]], "has": true,
                "range": [1, 3, 5, 7, 9], "second": 2, "count": 3, "once": [1, 2],
                "both": { "x": 1, "y": 2 }, "text": "{\"x\": 1}", "words": ["a", "b", "c"],
                "nested": "1 {} 3", "slice": [1], "odd": 8, "name": "Compute",
            }),
        ),
        (
            "conductor/route.json",
            json!({ "size": "small", "weight": 20, "urgent": true }),
            json!({ "by": "post", "label": "heavy letter" }),
        ),
        (
            "conductor/route.json",
            json!({ "size": 42, "weight": 2, "urgent": true }),
            json!({ "by": "courier", "label": null }),
        ),
        (
            "conductor/route.json",
            json!({ "size": "huge", "weight": 2, "urgent": true }),
            json!({ "by": "nobody", "size": "huge" }),
        ),
        ("conductor/fork.json", json!({ "n": 4, "way": "x" }), json!({ "n": 10, "same": 10 })),
        ("conductor/fork.json", json!({ "n": 4, "way": "y" }), json!({ "n": 10, "same": 10 })),
        (
            "conductor/repeat.json",
            json!({ "most": 4 }),
            json!({ "sum": 12, "last": 12, "times": 4 }),
        ),
        ("conductor/terminate.json", json!({ "ok": "yes" }), json!({ "ok": true })),
        (
            "serverless/hello.yaml",
            json!({ "name": "Ada" }),
            json!({ "greeting": "Hello, Ada!", "length": 3 }),
        ),
        ("serverless/routes.yaml", json!({ "size": 5 }), json!({ "text": "by letter" })),
        (
            "serverless/routes.yaml",
            json!({ "size": 200, "heavy": true }),
            json!({ "text": "by truck" }),
        ),
        (
            "serverless/routes.yaml",
            json!({ "size": 50, "fragile": true }),
            json!({ "text": "by hand" }),
        ),
        ("serverless/countdown.yaml", json!({}), json!({ "left": 0 })),
        (
            "serverless/loops.yaml",
            json!({ "orders": [
                { "count": 2, "lines": [{ "price": 10 }, { "price": 5 }] },
                { "count": 8, "lines": [{ "price": 10 }] },
                { "count": 1, "lines": [{ "price": 1000 }] },
            ] }),
            json!({ "first": 220 }),
        ),
        ("serverless/errors.yaml", json!({ "stock": 0 }), json!({ "why": "Sold out" })),
        ("serverless/errors.yaml", json!({ "stock": 3 }), json!({ "why": "in stock" })),
    ] {
        let program = Program::new();
        let ended = run(&program, name, &input);
        assert_eq!(ended["output"], expected, "{name} with {input}: {ended}");
    }
}

#[test]
fn imported_failures_have_their_kinds_and_messages() {
    for (name, input, kind, message) in [
        ("asl/grades.asl.json", json!({ "name": "bob" }), "no_points", "bob"),
        (
            "conductor/terminate.json",
            json!({ "ok": false, "why": "tired" }),
            "failed",
            "not ok: tired",
        ),
    ] {
        let program = Program::new();
        let ended = run(&program, name, &input);
        assert_eq!(ended["status"], "FAILED", "{name}: {ended}");
        let failure = ended.to_string();
        assert!(failure.contains(kind) && failure.contains(message), "{name}: {failure}");
    }
}

#[test]
fn imported_calls_send_the_requests_that_their_source_describes() {
    let sink = Sink::start();
    let rows = json!([{ "on": true, "name": "a" }, { "on": false, "name": "b" }]);
    sink.answer(200, &json!({ "net": 100, "rows": rows }).to_string());
    let program = Program::new();
    let input = json!({ "url": sink.url(""), "item": "lamp" });
    let ended = run(&program, "conductor/price.json", &input);
    let result = json!({ "names": ["a"], "total": 125.0, "count": 2 });
    assert_eq!(ended["output"], json!({ "result": result, "total": 125.0 }), "{ended}");
    let received = sink.received();
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].path, "/items/lamp");
    assert_eq!(received[0].header("x-shop"), Some("7"));
}

#[test]
fn imported_steps_pass_on_their_outputs() {
    let program = Program::new();
    let ended = run(&program, "actions/outputs.yml", &json!({ "count": 1, "word": "oak" }));
    assert_eq!(ended["status"], "COMPLETED", "{ended}");
    let text = program.json(&["eval", "nodes.use.output.text", "--execution", "last"]);
    assert_eq!(text, "o has 3");
    let ended = run(&program, "actions/matrix.yml", &json!({}));
    assert_eq!(ended["status"], "COMPLETED", "{ended}");
    let results = "nodes.each.output.results | map(attribute='stdout') | list";
    let results = program.json(&["eval", results, "--execution", "last"]);
    assert_eq!(results, json!(["a1\n", "a2\n", "b1\n", "c9\n"]));
}

#[test]
fn import_of_something_without_counterpart_exits_with_1_unless_partial() {
    let program = Program::new();
    let source = fixture("asl/without_counterpart.asl.json");
    let source = source.to_str().unwrap();
    let Ran { code, out, err } = program.run(&["import", source]);
    assert_eq!(code, 1);
    assert!(err.contains("4:44: not converted: `ItemReader` has no counterpart"), "{err}");
    let file = program.file("partial.yaml", out);
    let ran = program.run(&["import", source, "--partial", "--report", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let report: Value = serde_json::from_str(&ran.err).unwrap();
    let first = &report["findings"][0];
    assert_eq!(first["pointer"], "/States/Read/ItemReader");
    assert_eq!(first["level"], "not-converted");
    // It does not run past what is missing.
    let ended = program.json(&["run", file.to_str().unwrap()]);
    assert_eq!(ended["status"], "FAILED", "{ended}");
    assert!(ended.to_string().contains("not_converted"), "{ended}");
}

#[test]
fn import_into_a_folder_writes_a_file_per_workflow() {
    let program = Program::new();
    let sources = [fixture("conductor/tasks.json"), fixture("conductor/fork.json")];
    let [tasks, fork] = sources.each_ref().map(|path| path.to_str().unwrap());
    let folder = program.path().join("out");
    let folder = folder.to_str().unwrap();
    let Ran { code, err, .. } = program.run(&["import", tasks, fork]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("--into"), "{err}");
    let args = ["import", tasks, fork, "--into", folder];
    let Ran { code, out, err } = program.run(&args);
    assert_eq!(code, 0, "{err}");
    assert_eq!(out.lines().count(), 2, "{out}");
    for name in ["images.yaml", "fork.yaml"] {
        let path = program.path().join("out").join(name);
        let valid = program.run(&["validate", path.to_str().unwrap()]);
        assert_eq!(valid.code, 0, "{}{}", valid.out, valid.err);
    }
    let again = program.run(&args);
    assert_eq!(again.code, 2, "{}", again.err);
    assert!(again.err.contains("--force"), "{}", again.err);
    assert_eq!(program.run(&[&args[..], &["--force"]].concat()).code, 0);
}

#[test]
fn import_of_an_unclear_format_exits_with_2_and_names_the_flag() {
    let program = Program::new();
    let file = program.file("odd.yaml", "a: 1\n");
    let Ran { code, err, .. } = program.run(&["import", file.to_str().unwrap()]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("--from"), "{err}");
}
