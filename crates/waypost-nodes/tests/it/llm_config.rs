//! `llm`: which configs compile, and what is said about the others.

use serde_json::{Value, json};
use waypost_core::kind::Behaviour;
use waypost_core::slot::SlotClass;

use crate::kinds::{bad, good, template};

fn with(fields: &Value) -> Value {
    let mut config = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
    for (name, value) in fields.as_object().unwrap() {
        config[name] = value.clone();
    }
    config
}

#[test]
fn config_is_a_task_that_takes_no_work_slot() {
    for fields in [
        json!({}),
        json!({"provider": "openai", "key": "${{ secrets.key }}", "maxTokens": 1}),
        json!({"provider": "anthropic", "maxTokens": "${{ input.n }}", "system": "Be brief."}),
        json!({"messages": "${{ variables.history }}", "tools": "${{ input.tools }}"}),
        json!({"messages": ["${{ input.first }}", {"role": "${{ input.role }}", "content": [1]}]}),
        json!({"messages": [{"role": "assistant", "tool_calls": []}]}),
        json!({"messages": [{"role": "tool", "content": "4", "tool_call_id": "a"}]}),
        json!({"messages": [{"role": "developer", "content": "Be brief."}]}),
        json!({"baseUrl": "http://127.0.0.1:11434/v1", "temperature": 0.5, "toolChoice": "auto"}),
        json!({"schema": {"type": "object"}, "tools": [{"type": "function"}]}),
        json!({"options": {"seed": 7}, "prices": {"input": 0, "output": "${{ input.price }}"}}),
        json!({"key": "k", "headers": {"x-api-key": "other"}}),
        json!({"headers": {"authorization": "Bearer ${{ secrets.key }}"}}),
    ] {
        let config = with(&fields);
        let task = Behaviour::Task {
            handler: "llm".into(),
            slot: Some(SlotClass::Io),
            config: template(&config),
        };
        good("llm", &config, &task);
    }
}

#[test]
fn config_with_a_fault_is_refused_and_the_fault_named() {
    bad("llm", &json!({}), &["model: required", "messages: required"]);
    let message = |message: Value| json!({"messages": [{"role": "user", "content": ""}, message]});
    let anthropic = |fields: Value| {
        let mut all = json!({"provider": "anthropic", "maxTokens": 9});
        all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        all
    };
    for (fields, expected) in [
        (json!({"model": " "}), "model: not empty"),
        (json!({"model": 5}), "model: text"),
        (json!({"provider": "other"}), "provider: `openai` or `anthropic`"),
        (json!({"messages": []}), "messages: at least one"),
        (json!({"messages": "hi"}), "messages: must be a list"),
        (message(json!("hi")), "messages.1: an object"),
        (message(json!({"content": "hi"})), "messages.1: no `role`"),
        (message(json!({"role": "user"})), "messages.1: no `content`"),
        (
            message(json!({"role": "robot", "content": "hi"})),
            "messages.1.role: \"robot\" is not a role; use system, developer, user, assistant, tool",
        ),
        (message(json!({"role": 5, "content": "hi"})), "messages.1.role: 5 is not a role"),
        (
            anthropic(message(json!({"role": "system", "content": "hi"}))),
            "messages.1.role: use user, assistant",
        ),
        (json!({"provider": "anthropic"}), "maxTokens: required by the provider anthropic"),
        (json!({"maxTokens": 0}), "maxTokens: whole number from 1"),
        (json!({"maxTokens": 1.5}), "maxTokens: whole number from 1"),
        (json!({"baseUrl": "models.example.com"}), "baseUrl: not a URL"),
        (json!({"baseUrl": "ftp://models.example.com"}), "baseUrl: http and https"),
        (json!({"tools": {"name": "f"}}), "tools: must be a list"),
        (json!({"schema": "object"}), "schema: JSON Schema"),
        (anthropic(json!({"schema": {}, "tools": []})), "tools: exclude each other"),
        (anthropic(json!({"schema": {}, "toolChoice": {}})), "toolChoice: exclude each other"),
        (json!({"headers": {"Host": "x"}}), "headers.Host: set by the engine"),
        (json!({"key": "k", "headers": {"Authorization": "x"}}), "headers.Authorization: exclude"),
        (
            anthropic(json!({"key": "k", "headers": {"X-Api-Key": "x"}})),
            "headers.X-Api-Key: exclude",
        ),
        (json!({"options": {"stream": true}}), "options.stream: not streamed"),
        (json!({"options": {"model": "n"}}), "options.model: a field of the config"),
        (json!({"prices": 3}), "prices: object"),
        (json!({"prices": {"input": 3}}), "prices: needs `output`"),
        (json!({"prices": {"input": -1, "output": 1}}), "prices.input: zero or more"),
        (json!({"prices": {"input": 1, "output": 1, "cached": 1}}), "prices.cached: no field"),
    ] {
        bad("llm", &with(&fields), &[expected]);
    }
}
