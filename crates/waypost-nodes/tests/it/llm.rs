//! `llm`: what is sent in each form, and what is made of the reply.

use std::sync::Arc;

use serde_json::{Value, json};
use waypost_core::failure::Failure;
use waypost_nodes::Settings;
use waypost_nodes::egress::Egress;
use waypost_ports::handler::{Marks, Task};

use crate::egress::Names;
use crate::server::{Request, Server};
use crate::support::{Signs, run_with, settings, task};

const JSON: (&str, &str) = ("content-type", "application/json");

/// A config for a server, with further fields.
pub(crate) fn config(server: &Server, fields: &Value) -> Value {
    let mut config = json!({
        "baseUrl": server.url("/v1"), "key": "sk-test", "model": "small",
        "messages": [{"role": "user", "content": "Hi"}],
    });
    config.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    config
}

pub(crate) fn anthropic(server: &Server, fields: &Value) -> Value {
    let mut config = config(server, fields);
    config["provider"] = json!("anthropic");
    config["baseUrl"] = json!(server.url(""));
    config["maxTokens"] = json!(100);
    config
}

pub(crate) async fn ask(config: &Value) -> Result<Value, Failure> {
    let output = run_with(&settings(), task("llm", config)).await?;
    Ok(output.to_value().unwrap())
}

pub(crate) async fn replying(reply: &Value) -> Server {
    Server::fixed("200 OK", &[JSON], reply.to_string()).await
}

pub(crate) fn completion(message: &Value, finish_reason: &str) -> Value {
    json!({
        "id": "c1", "object": "chat.completion", "model": "small-2026",
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 200, "total_tokens": 1200},
    })
}

pub(crate) fn said(text: &str) -> Value {
    completion(&json!({"role": "assistant", "content": text}), "stop")
}

pub(crate) fn message(content: &Value, stop_reason: &str) -> Value {
    json!({
        "id": "m1", "type": "message", "role": "assistant", "model": "small-2026",
        "content": content, "stop_reason": stop_reason,
        "usage": {"input_tokens": 900, "output_tokens": 200, "cache_creation_input_tokens": 70,
                  "cache_read_input_tokens": 30},
    })
}

fn body(request: &Request) -> Value {
    serde_json::from_str(&request.body).unwrap()
}

#[tokio::test]
async fn openai_request_is_a_chat_completion() {
    let server = replying(&said("Hello")).await;
    ask(&config(&server, &json!({}))).await.unwrap();
    let request = server.request();
    assert_eq!((&*request.method, &*request.target), ("POST", "/v1/chat/completions"));
    assert_eq!(request.header("authorization"), Some("Bearer sk-test"));
    assert_eq!(request.header("content-type"), Some("application/json"));
    assert_eq!(request.header("idempotency-key"), Some("exe_test/profile/1"));
    let messages = r#"[{"content":"Hi","role":"user"}]"#;
    assert_eq!(request.body, format!(r#"{{"messages":{messages},"model":"small"}}"#));
}

#[tokio::test]
async fn openai_request_has_every_field() {
    let server = replying(&said("{}")).await;
    let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}});
    let tool = json!({"type": "function", "function": {"name": "add", "parameters": {}}});
    let called = json!({"id": "a", "type": "function",
                        "function": {"name": "add", "arguments": "{}"}});
    let messages = json!([
        {"role": "user", "content": [{"type": "text", "text": "Look"}, image]},
        {"role": "assistant", "content": null, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "a", "content": "4"},
    ]);
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let choice = json!({"type": "function", "function": {"name": "add"}});
    let fields = json!({
        "messages": messages, "system": "Be brief.", "maxTokens": 50, "temperature": 0.2,
        "tools": [tool], "toolChoice": choice, "schema": schema, "key": null,
        "headers": {"x-team": "blue"}, "options": {"seed": 9_007_199_254_740_993_u64, "n": 1},
    });
    ask(&config(&server, &fields)).await.unwrap();
    let request = server.request();
    assert_eq!(request.header("authorization"), None);
    assert_eq!(request.header("x-team"), Some("blue"));
    let mut all = vec![json!({"role": "system", "content": "Be brief."})];
    all.extend(messages.as_array().unwrap().clone());
    let format = json!({"type": "json_schema",
                        "json_schema": {"name": "reply", "strict": true, "schema": schema}});
    let expected = json!({
        "model": "small", "messages": all, "max_tokens": 50, "temperature": 0.2, "tools": [tool],
        "tool_choice": choice, "response_format": format, "seed": 9_007_199_254_740_993_u64, "n": 1,
    });
    assert_eq!(body(&request), expected);
}

#[tokio::test]
async fn anthropic_request_is_a_message() {
    let server = replying(&message(&json!([{"type": "text", "text": "Hello"}]), "end_turn")).await;
    let tool = json!({"name": "add", "input_schema": {"type": "object"}});
    let fields = json!({
        "system": "Be brief.", "temperature": 1, "tools": [tool], "toolChoice": {"type": "any"},
        "options": {"top_k": 5},
    });
    ask(&anthropic(&server, &fields)).await.unwrap();
    let request = server.request();
    assert_eq!((&*request.method, &*request.target), ("POST", "/v1/messages"));
    assert_eq!(request.header("x-api-key"), Some("sk-test"));
    assert_eq!(request.header("authorization"), None);
    assert_eq!(request.header("anthropic-version"), Some("2023-06-01"));
    let expected = json!({
        "model": "small", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 100,
        "system": "Be brief.", "temperature": 1, "tools": [tool], "tool_choice": {"type": "any"},
        "top_k": 5,
    });
    assert_eq!(body(&request), expected);
    let fields = json!({"headers": {"Anthropic-Version": "2027-01-01"}});
    ask(&anthropic(&server, &fields)).await.unwrap();
    assert_eq!(server.requests()[1].header("anthropic-version"), Some("2027-01-01"));
}

#[tokio::test]
async fn base_url_keeps_its_query_and_needs_no_slash() {
    for (base, expected) in [
        ("/v1/", "/v1/chat/completions"),
        ("", "/chat/completions"),
        ("/gpt?api-version=3", "/gpt/chat/completions?api-version=3"),
    ] {
        let server = replying(&said("Hello")).await;
        ask(&config(&server, &json!({"baseUrl": server.url(base)}))).await.unwrap();
        assert_eq!(server.request().target, expected);
    }
}

#[tokio::test]
async fn openai_itself_gets_the_newer_name_of_max_tokens() {
    let server = replying(&said("Hello")).await;
    let names = Names::new([("api.openai.com", &[&["127.0.0.1"]])]);
    let egress = Egress::new(["127.0.0.0/8".parse().unwrap()]).with_lookup(names);
    let settings = Settings { egress, ..settings() };
    let base = format!("http://api.openai.com:{}/v1", server.address.port());
    let config = config(&server, &json!({"baseUrl": base, "maxTokens": 50}));
    run_with(&settings, task("llm", &config)).await.unwrap();
    let body = body(&server.request());
    assert_eq!((&body["max_completion_tokens"], body.get("max_tokens")), (&json!(50), None));
}

#[tokio::test]
async fn openai_reply_is_read() {
    let reply = json!({"role": "assistant", "content": "Hello", "refusal": null});
    let server = replying(&completion(&reply, "stop")).await;
    let output = ask(&config(&server, &json!({"prices": {"input": 2.5, "output": 10}}))).await;
    let expected = json!({
        "text": "Hello", "message": reply, "toolCalls": [], "finishReason": "stop",
        "model": "small-2026", "cost": 0.0045,
        "usage": {"inputTokens": 1000, "outputTokens": 200, "totalTokens": 1200},
    });
    assert_eq!(output.unwrap(), expected);
}

#[tokio::test]
async fn anthropic_reply_is_read() {
    let content = json!([
        {"type": "thinking", "thinking": "Hm.", "signature": "x"},
        {"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"},
    ]);
    let server = replying(&message(&content, "end_turn")).await;
    let config = anthropic(&server, &json!({"prices": {"input": 0.1, "output": 0.2}}));
    let expected = json!({
        "text": "Hello", "message": {"role": "assistant", "content": content}, "toolCalls": [],
        "finishReason": "stop", "model": "small-2026", "cost": 0.00014,
        "usage": {"inputTokens": 1000, "outputTokens": 200, "totalTokens": 1200},
    });
    assert_eq!(ask(&config).await.unwrap(), expected);
}

#[tokio::test]
async fn tool_calls_look_the_same_in_both_forms() {
    let call = |id: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": "add", "arguments": arguments}});
    let calls = json!([call("a", r#"{"x": 12345678901234567890}"#), call("b", "{oops")]);
    let reply = json!({"role": "assistant", "content": null, "tool_calls": calls});
    let server = replying(&completion(&reply, "tool_calls")).await;
    let fields = json!({"schema": {"type": "object"}});
    let output = ask(&config(&server, &fields)).await.unwrap();
    let first =
        json!({"id": "a", "name": "add", "arguments": {"x": 12_345_678_901_234_567_890_u64}});
    let second = json!({"id": "b", "name": "add", "arguments": "{oops"});
    assert_eq!(output["toolCalls"], json!([first, second]));
    assert_eq!((&output["finishReason"], &output["text"]), (&json!("tool-calls"), &json!(null)));
    // The reply that the schema is for comes after the results of the calls.
    assert_eq!(output.get("value"), None);

    // Servers that are only similar to the provider give arguments as they are, or none.
    let mut calls = json!([call("a", ""), call("b", ""), call("c", "")]);
    calls[0]["function"]["arguments"] = json!({"x": 12_345_678_901_234_567_890_u64});
    calls[1]["function"]["arguments"] = json!(null);
    calls[2]["function"].as_object_mut().unwrap().remove("arguments");
    let reply = json!({"role": "assistant", "content": null, "tool_calls": calls});
    let server = replying(&completion(&reply, "tool_calls")).await;
    let output = ask(&config(&server, &json!({}))).await.unwrap();
    let none = |id: &str| json!({"id": id, "name": "add", "arguments": null});
    assert_eq!(output["toolCalls"], json!([first, none("b"), none("c")]));

    let used = json!({"type": "tool_use", "id": "a", "name": "add", "input": {"x": 1}});
    let content = json!([{"type": "text", "text": "Adding."}, used]);
    let server = replying(&message(&content, "tool_use")).await;
    let output = ask(&anthropic(&server, &json!({}))).await.unwrap();
    let call = json!({"id": "a", "name": "add", "arguments": {"x": 1}});
    assert_eq!(output["toolCalls"], json!([call]));
    assert_eq!(
        (&output["finishReason"], &output["text"]),
        (&json!("tool-calls"), &json!("Adding."))
    );
}

#[tokio::test]
async fn finish_reasons_have_common_names() {
    for (reason, expected) in [
        ("stop", "stop"),
        ("length", "length"),
        ("tool_calls", "tool-calls"),
        ("content_filter", "content-filter"),
        ("eos", "eos"),
    ] {
        let reply = completion(&json!({"role": "assistant", "content": "Hel"}), reason);
        let server = replying(&reply).await;
        let output = ask(&config(&server, &json!({}))).await.unwrap();
        assert_eq!(output["finishReason"], expected);
    }
    for (reason, expected) in [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("tool_use", "tool-calls"),
        ("refusal", "content-filter"),
        ("pause_turn", "pause_turn"),
    ] {
        let server = replying(&message(&json!([]), reason)).await;
        let output = ask(&anthropic(&server, &json!({}))).await.unwrap();
        assert_eq!((&output["finishReason"], &output["text"]), (&json!(expected), &json!(null)));
    }
}

#[tokio::test]
async fn schema_makes_the_reply_a_value() {
    let schema = json!({"type": "object", "required": ["n"]});
    let server = replying(&said(" {\"n\": 9007199254740993} ")).await;
    let output = ask(&config(&server, &json!({"schema": schema}))).await.unwrap();
    assert_eq!(output["value"], json!({"n": 9_007_199_254_740_993_u64}));

    let used = json!({"type": "tool_use", "id": "a", "name": "reply", "input": {"n": 3}});
    let server = replying(&message(&json!([used]), "tool_use")).await;
    let output = ask(&anthropic(&server, &json!({"schema": schema}))).await.unwrap();
    assert_eq!((&output["value"], &output["text"]), (&json!({"n": 3}), &json!("{\"n\":3}")));
    assert_eq!((&output["finishReason"], &output["toolCalls"]), (&json!("stop"), &json!([])));
    let sent = body(&server.request());
    assert_eq!(sent["tools"][0]["name"], "reply");
    assert_eq!(sent["tools"][0]["input_schema"], schema);
    assert_eq!(sent["tool_choice"], json!({"type": "tool", "name": "reply"}));
}

#[tokio::test]
async fn reply_in_parts_and_without_usage_is_read() {
    let parts = json!([{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]);
    let reply = json!({"choices": [{"message": {"role": "assistant", "content": parts}}]});
    let server = replying(&reply).await;
    let output =
        ask(&config(&server, &json!({"prices": {"input": 1, "output": 1}}))).await.unwrap();
    assert_eq!(output["text"], "Hello");
    let unknown = json!({"inputTokens": null, "outputTokens": null, "totalTokens": null});
    assert_eq!((&output["usage"], output.get("cost")), (&unknown, None));
    assert_eq!((&output["model"], &output["finishReason"]), (&json!(null), &json!(null)));
}

#[tokio::test]
async fn received_bytes_are_signs_of_life() {
    let server = replying(&said("Hello")).await;
    let signs = Arc::new(Signs::default());
    let marks = Marks::to(Arc::clone(&signs) as _);
    let task = Task { marks, ..task("llm", &config(&server, &json!({}))) };
    run_with(&settings(), task).await.unwrap();
    assert!(signs.count() >= 2, "{}", signs.count());
}
