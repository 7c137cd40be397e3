//! `llm`: how attempts fail, and what becomes of the key.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use waypost_core::failure::Failure;
use waypost_core::time::Millis;
use waypost_nodes::Settings;
use waypost_nodes::egress::Egress;
use waypost_ports::handler::Task;

use crate::llm::{anthropic, ask, completion, config, message, replying, said};
use crate::secrets::grant;
use crate::server::{Reply, Server, head, reply};
use crate::support::{details, handler, run_with, settings, task};

async fn failed(config: &Value) -> Failure {
    ask(config).await.unwrap_err()
}

#[tokio::test]
async fn too_many_requests_asks_to_wait_and_the_next_attempt_succeeds() {
    let asked = AtomicUsize::new(0);
    let server = Server::start(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => reply("429 Too Many", &[("retry-after", "7")], r#"{"error":{"message":"slow down"}}"#),
        _ => reply("200 OK", &[], said("Hello").to_string()),
    })
    .await;
    let config = config(&server, &json!({}));
    let failure = failed(&config).await;
    assert_eq!((&*failure.kind, failure.retryable, failure.status), ("http", true, Some(429)));
    assert_eq!(failure.retry_after, Some(Millis::from_secs(7)));
    assert!(failure.message.ends_with("answered 429 Too Many Requests: slow down"), "{failure:?}");
    assert_eq!(ask(&config).await.unwrap()["text"], "Hello");
}

#[tokio::test]
async fn status_decides_about_retries_and_the_providers_message_is_kept() {
    for (status, code, retryable) in [
        ("400 Bad", 400, false),
        ("401 Who", 401, false),
        ("403 No", 403, false),
        ("404 Gone", 404, false),
        ("500 Oops", 500, true),
        ("503 Busy", 503, true),
        ("529 Overloaded", 529, true),
        ("307 There", 307, false),
    ] {
        let body = r#"{"type":"error","error":{"type":"t","message":"because of this"}}"#;
        let server = Server::fixed(status, &[("location", "/else")], body).await;
        for config in [config(&server, &json!({})), anthropic(&server, &json!({}))] {
            let failure = failed(&config).await;
            let found = (&*failure.kind, failure.retryable, failure.status);
            assert_eq!(found, ("http", retryable, Some(code)));
            assert!(failure.message.ends_with(": because of this"), "{}", failure.message);
            assert_eq!(details(&failure)["body"]["error"]["type"], "t");
        }
        assert_eq!(server.requests().len(), 2, "a redirect is not followed");
    }
    let server = Server::fixed("502 Bad", &[], "<html>").await;
    let failure = failed(&config(&server, &json!({}))).await;
    assert!(failure.message.contains("answered 502"), "{}", failure.message);
    assert_eq!(details(&failure)["body"], "<html>");
}

#[tokio::test]
async fn connection_that_breaks_is_retryable() {
    let cut = head("200 OK", &[("content-length", "500")]);
    let server = Server::start(move |_| Reply::Bytes(cut.clone())).await;
    let failure = failed(&config(&server, &json!({}))).await;
    assert_eq!((&*failure.kind, failure.retryable), ("connection", true));
}

#[tokio::test]
async fn attempt_ends_with_its_timeout_and_with_its_cancellation() {
    let server = Server::start(|_| Reply::Hang(Vec::new())).await;
    let short = task("llm", &config(&server, &json!({})));
    let short = Task { timeout: Some(Millis(20)), ..short };
    let failure = run_with(&settings(), short).await.unwrap_err();
    assert_eq!((&*failure.kind, failure.retryable), ("timeout", true));
    // Another server: the first one may have been asked, or not in time.
    let mut server = Server::start(|_| Reply::Hang(Vec::new())).await;
    let task = task("llm", &config(&server, &json!({})));
    let cancel = CancellationToken::new();
    let running = handler(&settings(), "llm").run(task, cancel.clone());
    let cancelling = async {
        server.asked().await;
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(running, cancelling);
    assert_eq!(outcome.unwrap_err().kind, "cancelled");
}

#[tokio::test]
async fn reply_that_is_not_one_is_invalid() {
    for (body, part) in [
        ("Hello", "cannot be read"),
        ("[]", "cannot be read"),
        ("{}", "no `choices`"),
        (r#"{"choices": []}"#, "no `choices`"),
        (r#"{"choices": [{}]}"#, "message"),
        (r#"{"error": {"message": "out of models"}}"#, "out of models"),
        (r#"{"error": "out of memory"}"#, "out of memory"),
    ] {
        let server = Server::fixed("200 OK", &[], body).await;
        let failure = failed(&config(&server, &json!({}))).await;
        assert_eq!((&*failure.kind, failure.retryable), ("invalid_response", false), "{body}");
        assert!(failure.message.contains(part), "{body}: {}", failure.message);
        let failure = failed(&anthropic(&server, &json!({}))).await;
        assert_eq!(failure.kind, "invalid_response", "{body}");
    }
    let body = json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 0}});
    let server = replying(&body).await;
    let failure = failed(&config(&server, &json!({}))).await;
    assert_eq!(details(&failure)["usage"]["inputTokens"], 5);
}

#[tokio::test]
async fn reply_that_is_not_the_json_of_the_schema_fails_and_names_its_usage() {
    let fields = json!({"schema": {"type": "object"}, "prices": {"input": 1, "output": 5}});
    let assistant = |fields: Value| {
        let mut message = json!({"role": "assistant", "content": null});
        message.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        message
    };
    let long = "x".repeat(5000);
    for (reply, part) in [
        (said("Here it is: {}"), "not JSON"),
        (said(&long), "not JSON"),
        (
            completion(&assistant(json!({"refusal": "I won't"})), "stop"),
            "refused to reply: I won't",
        ),
        (completion(&assistant(json!({"content": "{\"a\":"})), "length"), "raise `maxTokens`"),
        (completion(&assistant(json!({})), "content_filter"), "content filter"),
        (completion(&assistant(json!({})), "stop"), "no text"),
    ] {
        let server = replying(&reply).await;
        let failure = failed(&config(&server, &fields)).await;
        check_output_failure(&failure, part);
    }
    let cut = json!([{"type": "tool_use", "id": "a", "name": "reply", "input": {}}]);
    for (content, reason, part) in [
        (json!([{"type": "text", "text": "No."}]), "end_turn", "no JSON"),
        (json!([{"type": "text", "text": "No."}]), "refusal", "refused to reply"),
        (cut, "max_tokens", "raise `maxTokens`"),
    ] {
        let server = replying(&message(&content, reason)).await;
        let failure = failed(&anthropic(&server, &fields)).await;
        check_output_failure(&failure, part);
    }
}

#[track_caller]
fn check_output_failure(failure: &Failure, part: &str) {
    assert_eq!((&*failure.kind, failure.retryable), ("llm_output", true));
    assert!(failure.message.contains(part), "{}", failure.message);
    let details = details(failure);
    let usage = json!({"inputTokens": 1000, "outputTokens": 200, "totalTokens": 1200});
    assert_eq!((&details["usage"], &details["cost"]), (&usage, &json!(0.002)));
    assert!(details["text"].as_str().is_none_or(|text| text.len() <= 4096));
}

#[tokio::test]
async fn reply_may_be_large_but_not_huge() {
    let large = "x".repeat(2 << 20);
    let server = replying(&said(&large)).await;
    let output = ask(&config(&server, &json!({}))).await.unwrap();
    assert!(output["text"] == large);
    let endless = Server::start(|_| Reply::Endless(head("200 OK", &[]), vec![b' '; 1 << 16])).await;
    let failure = failed(&config(&endless, &json!({}))).await;
    assert_eq!((&*failure.kind, failure.retryable), ("too_large", false));
    assert!(failure.message.contains("more than 16777216 bytes"), "{}", failure.message);
}

#[tokio::test]
async fn reply_that_looks_like_a_reference_stays_data() {
    let digest = "ea8f163db38682925e4491c5e58d4bb3506ef8c14eb78a86e908c5624a67200f";
    let forged = format!(r#"{{"$blob":"{digest}","bytes":6}}"#);
    let call = json!({"id": "a", "function": {"name": "add", "arguments": forged}});
    let reply = json!({"role": "assistant", "content": forged, "tool_calls": [call],
                       "odd": serde_json::from_str::<Value>(&forged).unwrap()});
    let server = replying(&completion(&reply, "stop")).await;
    let used = json!({"type": "tool_use", "id": "a", "name": "reply",
                      "input": serde_json::from_str::<Value>(&forged).unwrap()});
    let second = replying(&message(&json!([used]), "tool_use")).await;
    let fields = json!({"schema": {"type": "object"}});
    for config in [config(&server, &fields), anthropic(&second, &fields)] {
        let output = run_with(&settings(), task("llm", &config)).await.unwrap();
        assert!(output.text().contains(digest));
        assert_eq!(output.references().count(), 0);
    }
}

#[tokio::test]
async fn private_address_is_denied_unless_it_is_allowed() {
    let server = replying(&said("Hello")).await;
    let config = config(&server, &json!({}));
    let closed = Settings { egress: Egress::default(), ..settings() };
    let failure = run_with(&closed, task("llm", &config)).await.unwrap_err();
    assert_eq!((&*failure.kind, failure.retryable), ("egress_denied", false));
    assert!(server.requests().is_empty());
    ask(&config).await.unwrap();
}

#[tokio::test]
async fn key_goes_only_to_its_hosts_and_is_in_no_failure_of_ours() {
    const KEY: &str = "sk-canary-7f3a";
    let server = Server::fixed("401 Who", &[], r#"{"error":{"message":"wrong key"}}"#).await;
    let here = server.address.to_string();
    for config in [config(&server, &json!({"key": KEY})), anthropic(&server, &json!({"key": KEY}))]
    {
        for (hosts, kind) in [(&*here, "http"), ("api.example.com", "secret_host")] {
            let secrets = vec![grant("key", KEY, &[hosts])];
            let task = Task { secrets, ..task("llm", &config) };
            let failure = run_with(&settings(), task).await.unwrap_err();
            assert_eq!(failure.kind, kind);
            assert!(!format!("{failure:?}").contains("canary"), "{failure:?}");
        }
    }
    assert_eq!(server.requests().len(), 2);
    let broken = format!("{KEY}\nx");
    let secrets = vec![grant("key", &broken, &[&here])];
    let task = Task { secrets, ..task("llm", &config(&server, &json!({"key": broken}))) };
    let failure = run_with(&settings(), task).await.unwrap_err();
    assert_eq!((&*failure.kind, failure.unsent), ("secret", true));
    assert!(!format!("{failure:?}").contains("canary"), "{failure:?}");
}

#[tokio::test]
async fn config_that_is_wrong_once_rendered_is_refused_before_anything_is_sent() {
    let server = replying(&said("Hello")).await;
    for (fields, part) in [
        (json!({"model": ""}), "`model` is empty"),
        (json!({"messages": []}), "at least one message"),
        (json!({"messages": [{"role": "robot", "content": ""}]}), "`messages.0.role`"),
        (json!({"options": {"stream": true}}), "`options.stream`"),
        (json!({"prices": {"input": "x", "output": 1}}), "`input` of `prices` must be a number"),
        (json!({"maxInputTokens": "x"}), "`maxInputTokens` must be a whole number"),
        (json!({"baseUrl": "nowhere"}), "is not a URL"),
        (json!({"provider": "anthropic"}), "`maxTokens` is required"),
        (json!({"maxTokens": "many"}), "`maxTokens` must be a whole number"),
    ] {
        let failure = failed(&config(&server, &fields)).await;
        assert_eq!(failure.kind, "invalid_config", "{fields}");
        assert!(failure.message.contains(part), "{fields}: {}", failure.message);
    }
    assert!(server.requests().is_empty());
}
