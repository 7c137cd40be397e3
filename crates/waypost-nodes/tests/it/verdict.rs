//! `failWhen` and `retryWhen`: what a response is judged to be.

use serde_json::{Map, Value, json};
use waypost_core::expr::{Scope, ScopeNode};
use waypost_core::failure::Failure;
use waypost_core::json::Json;
use waypost_core::kind::{Behaviour, ConfigFault};
use waypost_core::retry::{Matcher, RetryPolicy};
use waypost_core::time::Millis;
use waypost_nodes::catalog;

use crate::server::Server;
use crate::support::{details, run_with, settings, task};

const JSON: (&str, &str) = ("content-type", "application/json");

/// Compiles a config and renders it, as the engine does before it hands a task out.
fn rendered(config: &Value) -> Result<Value, Vec<ConfigFault>> {
    let config: Map<String, Value> = config.as_object().unwrap().clone();
    let behaviour = catalog().find("api-call").unwrap().compile(&config)?;
    let Behaviour::Task { config, .. } = behaviour else { panic!("{behaviour:?}") };
    let mut scope = Scope::new();
    scope.json("input", &Json::parse(r#"{"wanted": 3}"#).unwrap());
    let node = ScopeNode {
        status: "COMPLETED",
        output: Json::parse(r#"{"limit": 7}"#).unwrap(),
        failure: Json::null(),
    };
    scope.nodes([("first-one".to_owned(), node)].into_iter());
    Ok(config.render(&scope).unwrap().to_value().unwrap())
}

/// Calls a server that gives this answer, with these fields in the config.
async fn answered(status: &str, headers: &[(&str, &str)], body: &str, fields: Value) -> Answer {
    let server = Server::fixed(status, headers, body).await;
    let mut config = json!({ "url": server.url("/job") });
    config.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let config = rendered(&config).unwrap();
    run_with(&settings(), task("api-call", &config)).await
}

type Answer = Result<Json, Failure>;

fn kind_of(answer: &Answer) -> &str {
    answer.as_ref().map_or_else(|failure| &*failure.kind, |_| "ok")
}

#[tokio::test]
async fn response_is_judged_by_fail_when_then_by_retry_when() {
    let both = json!({
        "failWhen": "response.body.state == 'failed'",
        "retryWhen": "response.body.state != 'ready'",
    });
    for (state, expected) in [("ready", "ok"), ("pending", "retry_when"), ("failed", "fail_when")] {
        let body = json!({ "state": state }).to_string();
        let answer = answered("200 OK", &[JSON], &body, both.clone()).await;
        assert_eq!(kind_of(&answer), expected, "{state}");
        let Err(failure) = answer else { continue };
        assert_eq!(failure.retryable, state == "pending");
        assert_eq!(failure.status, None, "statuses in `retry` say nothing about it");
        assert!(failure.message.contains("response.body.state"), "{}", failure.message);
        let kept = json!({"status": 200, "body": {"state": state}, "truncated": false});
        assert_eq!(details(&failure), kept);
    }
}

#[tokio::test]
async fn retry_when_overrules_retry_on_and_waits_as_long_as_the_server_asks() {
    let fields = json!({ "retryWhen": "response.status == 202" });
    let asks = [("retry-after", "7")];
    let failure = answered("202 Accepted", &asks, "", fields).await.unwrap_err();
    assert_eq!(failure.retry_after, Some(Millis::from_secs(7)));
    let only = |entry: &str| vec![Matcher::parse(entry).unwrap()];
    let policy = RetryPolicy { retry_on: only("5xx"), ..RetryPolicy::default() };
    assert!(policy.covers(&failure));
    let policy = RetryPolicy { ignore: only("retry_when"), ..RetryPolicy::default() };
    assert!(!policy.covers(&failure));
}

#[tokio::test]
async fn unaccepted_status_is_judged_where_the_expression_can_be_evaluated() {
    for (fields, expected) in [
        (json!({"retryWhen": "response.status == 404"}), "retry_when"),
        (json!({"failWhen": "response.headers['x-gone'] == 'yes'"}), "fail_when"),
        (json!({"retryWhen": "response.body.state == 'pending'"}), "http"),
        (json!({"retryWhen": "response.status == 409"}), "http"),
        (json!({}), "http"),
    ] {
        let headers = [("x-gone", "yes"), ("content-type", "text/html")];
        let answer = answered("404 Not Found", &headers, "<h1>gone</h1>", fields.clone()).await;
        assert_eq!(kind_of(&answer), expected, "{fields}");
    }
}

#[tokio::test]
async fn expression_that_fails_on_an_accepted_response_is_an_expression_failure() {
    for wrong in ["response.body.missing == 1", "response.status", "response.body.a.b == 1"] {
        for field in ["failWhen", "retryWhen"] {
            let answer = answered("200 OK", &[JSON], "{\"a\": 1}", json!({ field: wrong })).await;
            assert_eq!(kind_of(&answer), "expression", "{field}: {wrong}");
            assert!(!answer.unwrap_err().retryable);
        }
    }
}

#[tokio::test]
async fn judging_expressions_see_input_and_nodes() {
    for (expression, expected) in [
        ("response.body.n < input.wanted", "retry_when"),
        ("response.body.n < nodes['first-one'].output.limit", "retry_when"),
        ("nodes['first-one'].status != 'COMPLETED'", "ok"),
        ("input.other is defined", "ok"),
        ("response.body.n in range(3)", "retry_when"),
    ] {
        let fields = json!({ "retryWhen": expression });
        let answer = answered("200 OK", &[JSON], "{\"n\": 2}", fields).await;
        assert_eq!(kind_of(&answer), expected, "{expression}");
    }
}

#[tokio::test]
async fn long_body_of_a_judged_response_is_cut_in_its_details() {
    let body = json!({ "text": "ü".repeat(4000) }).to_string();
    let fields = json!({ "failWhen": "response.status == 200" });
    let failure = answered("200 OK", &[JSON], &body, fields).await.unwrap_err();
    assert_eq!(details(&failure)["truncated"], json!(true));
    assert!(details(&failure)["body"].as_str().unwrap().len() <= 4096);
}

#[test]
fn bad_expressions_are_refused_where_they_stand() {
    for (field, source) in [("failWhen", json!("response.")), ("retryWhen", json!(3))] {
        let config = json!({ "url": "https://example.com", field: source });
        let faults = rendered(&config).unwrap_err();
        assert_eq!(faults[0].path, [field]);
    }
}
