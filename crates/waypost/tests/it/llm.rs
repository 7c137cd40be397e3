//! `llm` in definitions: what is said about faults, and a run with the real program.

use serde_json::{Value, json};
use waypost::wiring;
use waypost_testbed::Sink;

use crate::program::{Program, Ran};

#[test]
fn faults_of_an_llm_node_are_shown_where_they_are() {
    let messages = "messages: [{ role: user, content: hi }]";
    for (config, parts) in [
        (format!("model: m, modle: m, {messages}"), ["no field `modle`", "`model`"]),
        (format!("modell: m, {messages}"), ["no field `modell`", "did you mean `model`?"]),
        (messages.to_owned(), ["`llm` needs `model` in its config", "config"]),
        ("model: m".to_owned(), ["`llm` needs `messages` in its config", "config"]),
        (format!("model: 5, {messages}"), ["`model` must be a text", "model: 5"]),
        (
            "model: m, messages: [{ role: robot, content: hi }]".to_owned(),
            ["\"robot\" is not a role; use system, developer, user, assistant, tool", "robot"],
        ),
        ("model: m, messages: hi".to_owned(), ["`messages` must be a list", "hi"]),
        (format!("provider: other, model: m, {messages}"), ["openai", "other"]),
        (
            format!("provider: anthropic, model: m, {messages}"),
            ["`maxTokens` is required by the provider anthropic", "config"],
        ),
        (format!("model: m, maxTokens: 0, {messages}"), ["a whole number from 1", "0"]),
        (format!("model: m, options: {{ stream: true }}, {messages}"), ["not streamed", "true"]),
    ] {
        let definition =
            format!("name: x\nnodes:\n  - {{ id: a, type: llm, config: {{ {config} }} }}\n");
        let faults = wiring::compile(definition.as_bytes()).expect_err(&config);
        let shown = faults.render(definition.as_bytes(), "x.yaml", false);
        for part in parts {
            assert!(shown.contains(part), "{config}: {shown}");
        }
    }
}

#[test]
fn large_reply_is_kept_as_a_blob_and_passed_on() {
    let sink = Sink::start();
    let text = "x".repeat(2 << 20);
    let reply = json!({ "choices": [{ "message": { "role": "assistant", "content": text } }] });
    sink.answer(200, &reply.to_string());
    let program = Program::new();
    let flow = format!(
        "name: ask
nodes:
  - id: ask
    type: llm
    config: {{ baseUrl: '{}', model: m, messages: [{{ role: user, content: hi }}] }}
  - {{ id: done, type: output, needs: [ask], config: {{ value: '${{{{ nodes.ask.output.text | length }}}}' }} }}
",
        sink.url("/v1")
    );
    let flow = program.file("ask.yaml", flow);
    let args = ["run", flow.to_str().unwrap(), "--allow-egress", "127.0.0.1", "-o", "json"];
    let Ran { code, out, err } = program.run(&args);
    assert_eq!(code, 0, "{out}{err}");
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(shown["output"], 2 << 20);
    let events = program.run(&["events", "last", "-o", "json"]).out;
    assert!(events.contains("$blob") && !events.contains(&text), "the log names a blob");
}
