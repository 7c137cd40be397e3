//! Input that nobody should send, each answered with a message and not with a crash.

use serde_json::json;
use waypost::wiring;

use crate::program::Program;

const ECHO: &str = "name: echo
nodes:
  - { id: out, type: output, config: { value: '${{ input }}' } }
";

fn run_with(program: &Program, flow: &str, input: &str) -> crate::program::Ran {
    let flow = program.file("flow.yaml", flow).display().to_string();
    let input = format!("@{}", program.file("input.json", input).display());
    program.run(&["run", &flow, "--input", &input])
}

#[test]
fn definitions_that_are_not_text_or_too_large() {
    let program = Program::new();
    for (name, content, part) in [
        ("utf8.yaml", b"name: \xff\xfe\nnodes: []".to_vec(), "UTF-8"),
        ("huge.yaml", vec![b'#'; 50 << 20], "bytes"),
        ("deep.json", [vec![b'['; 100_000], vec![b']'; 100_000]].concat(), "deep"),
    ] {
        let file = program.file(name, content).display().to_string();
        let ran = program.run(&["validate", &file]);
        assert_eq!(ran.code, 2, "{name}: {}{}", ran.out, ran.err);
        assert!(ran.out.contains(part), "{name}: {}", ran.out);
    }
}

#[test]
fn inputs_are_kept_to_the_letter_or_refused() {
    let program = Program::new();
    let exact = run_with(&program, ECHO, r#"{"big":9007199254740993,"nul":"\u0000"}"#);
    assert_eq!(exact.code, 0, "{}{}", exact.out, exact.err);
    assert!(exact.out.contains("9007199254740993"), "{}", exact.out);
    assert!(exact.out.contains(r"\u0000"), "{}", exact.out);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let deep = run_with(&program, ECHO, &deep);
    assert_eq!(deep.code, 2);
    assert!(deep.err.contains("nested deeper than 127"), "{}", deep.err);
    let large = run_with(&program, ECHO, &format!("\"{}\"", "x".repeat(65 << 20)));
    assert_eq!(large.code, 2);
    assert!(large.err.contains("at most"), "{}", large.err);
}

#[test]
fn durations_and_expressions_out_of_bounds() {
    let program = Program::new();
    for duration in ["-5", "-3s", "1e308", "P300000Y", "soon"] {
        let flow = format!(
            "name: d\nnodes:\n  - {{ id: a, type: delay, config: {{ duration: '{duration}' }} }}\n"
        );
        let file = program.file("flow.yaml", flow).display().to_string();
        assert_eq!(program.run(&["validate", &file]).code, 2, "{duration}");
    }
    let computed = "name: d
nodes:
  - { id: a, type: delay, config: { duration: '${{ input.ms }}' } }
";
    assert_eq!(run_with(&program, computed, r#"{"ms":-5}"#).code, 0);
    let huge = run_with(&program, computed, r#"{"ms":1e300}"#);
    assert_eq!(huge.code, 1);
    assert!(huge.out.contains("hundred years"), "{}", huge.out);
    let bomb = "name: b
nodes:
  - { id: a, type: transform, config: { value: \"${{ range(9999) | map('string') | join(input.s) }}\" } }
";
    let bomb = run_with(&program, bomb, &json!({ "s": "x".repeat(100_000) }).to_string());
    assert_eq!(bomb.code, 1, "{}{}", bomb.out, bomb.err);
    assert!(bomb.out.contains("expression_limit"), "{}", bomb.out);
}

#[test]
fn calls_into_the_private_network_are_refused() {
    let program = Program::new();
    for url in ["http://127.0.0.1:1/", "http://169.254.169.254/latest", "http://[::ffff:10.0.0.1]/"]
    {
        let flow = format!(
            "name: c\nnodes:\n  - {{ id: a, type: api-call, config: {{ url: '{url}' }} }}\n"
        );
        let ran = run_with(&program, &flow, "null");
        assert_eq!(ran.code, 1, "{url}");
        assert!(
            ran.out.contains("egress_denied") && ran.out.contains("--allow-egress"),
            "{}",
            ran.out
        );
    }
}

#[test]
fn corrupted_frame_quarantines_its_execution_only() {
    let program = Program::new();
    let wait = "name: w
nodes:
  - { id: hold, type: wait-for-events, config: { name: go } }
";
    let flow = program.file("w.yaml", wait).display().to_string();
    let mut ids = Vec::new();
    for _ in 0..2 {
        let running = program.start(&["run", &flow], "for signal go");
        ids.push(running.execution());
        running.kill();
    }
    damage(&program.data(), &ids[0]);
    for id in &ids {
        program.run(&["signal", id, "go"]);
    }
    let bad = program.run(&["resume", &ids[0]]);
    assert_eq!(bad.code, 1);
    assert!(bad.err.contains("damaged"), "{}{}", bad.out, bad.err);
    let good = program.run(&["resume", &ids[1]]);
    assert_eq!(good.code, 0, "{}{}", good.out, good.err);
    let shown = program.run(&["events", &ids[0]]);
    assert!(shown.out.contains("Unreadable"), "{}", shown.out);
}

/// Changes one byte of the last frame of an execution, behind the store's back.
fn damage(data: &std::path::Path, key: &str) {
    use waypost_ports::query::Query;
    let store = wiring::open_store(data).unwrap();
    let execution = store.find(Some(key)).unwrap().unwrap();
    drop(store);
    let log = rusqlite::Connection::open(data.join("log.db")).unwrap();
    let changed = log
        .execute(
            "UPDATE frames SET body = CAST(replace(body, 'NodeWaiting', 'NodeWaitinG') AS BLOB)
             WHERE execution = ?1 AND body LIKE '%NodeWaiting%'",
            [execution.0],
        )
        .unwrap();
    assert_eq!(changed, 1);
}
