//! `/openapi.json`: it holds together, and the server does as it says.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use waypost_ports::access::Role;
use waypost_server::config::Config;
use waypost_server::http::route::{Access, Route};
use waypost_server::table::routes;

use crate::support::samples::KNOWN;
use crate::support::{Answer, Ask, House, house, samples};

async fn document(house: &House) -> Value {
    house.get("/openapi.json").await.expect(200).json()
}

fn operation<'a>(document: &'a Value, route: &Route) -> &'a Value {
    &document["paths"][route.path][route.method.as_str().to_lowercase()]
}

#[tokio::test]
async fn the_description_holds_together() {
    let document = document(&House::open().await).await;
    assert_eq!(document["openapi"], "3.1.0");
    check_references(&document, &document);
    let mut names = BTreeSet::new();
    for route in routes() {
        let operation = operation(&document, route);
        assert_eq!(operation["operationId"], route.name);
        assert!(names.insert(route.name), "{} twice", route.name);
        for text in [route.name, route.path, route.summary] {
            assert!(
                !text.is_empty(),
                "{} {} lacks a name, path or summary",
                route.name,
                route.path
            );
        }
        assert!(!route.replies.is_empty(), "{} has no reply", route.name);
        let parameters = operation["parameters"].as_array().unwrap();
        let in_path: BTreeSet<&str> = parameters
            .iter()
            .filter(|parameter| parameter["in"] == "path")
            .map(|parameter| {
                assert_eq!(parameter["required"], true, "{}", route.name);
                parameter["name"].as_str().unwrap()
            })
            .collect();
        let segments =
            route.path.split('/').filter_map(|one| one.strip_prefix('{')?.strip_suffix('}'));
        assert_eq!(in_path, segments.collect(), "{}", route.name);
        for parameter in parameters {
            assert!(!parameter["description"].as_str().unwrap().is_empty(), "{parameter}");
            jsonschema::validator_for(&parameter["schema"]).unwrap();
        }
        for (status, response) in operation["responses"].as_object().unwrap() {
            let described = !response["description"].as_str().unwrap().is_empty();
            assert!(described, "{} {status} is not described", route.name);
        }
        let tag = |tag: &Value| tag["name"] == route.tag;
        assert!(document["tags"].as_array().unwrap().iter().any(tag), "{}", route.tag);
    }
    let described = document["paths"].as_object().unwrap().values();
    let count: usize = described.map(|path| path.as_object().unwrap().len()).sum();
    assert_eq!(count, routes().len(), "nothing is described that is not there");
}

/// Every `$ref` leads somewhere.
fn check_references(value: &Value, document: &Value) {
    match value {
        Value::Object(fields) => {
            if let Some(place) = fields.get("$ref").and_then(Value::as_str) {
                let pointer = place.strip_prefix('#').unwrap();
                assert!(document.pointer(pointer).is_some(), "{place} leads nowhere");
            }
            fields.values().for_each(|value| check_references(value, document));
        }
        Value::Array(values) => values.iter().for_each(|value| check_references(value, document)),
        _ => {}
    }
}

#[tokio::test]
async fn the_description_says_whether_keys_are_needed() {
    let open = document(&House::open().await).await;
    assert_eq!(open["components"].get("securitySchemes"), None);
    let house = House::locked().await;
    let ask = Ask::get("/openapi.json").key(&house.key(Role::Worker));
    let locked = house.ask(&ask).await.expect(200).json();
    assert_eq!(locked["components"]["securitySchemes"]["key"]["scheme"], "bearer");
    for route in routes() {
        let security = &operation(&locked, route)["security"];
        let expected = match route.access {
            Access::Public | Access::Link(_) | Access::Signed => json!([]),
            Access::Roles(_) => json!([{ "key": [] }]),
        };
        assert_eq!(*security, expected, "{}", route.name);
    }
}

#[tokio::test]
async fn a_definition_that_the_description_allows_is_one_that_the_server_knows() {
    let document = document(&House::open().await).await;
    let content = &document["paths"]["/v1/definitions"]["post"]["requestBody"]["content"];
    let schema = json!({ "components": document["components"], "allOf": [content["application/json"]["schema"]] });
    let validator = jsonschema::validator_for(&schema).unwrap();
    let example = &content["application/json"]["example"];
    assert!(validator.is_valid(example));
    assert!(!validator.is_valid(&json!({})));
    assert!(
        !validator.is_valid(&json!({ "name": "x", "nodes": [{ "id": "a", "type": "nonsense" }] }))
    );
    let house = House::empty(Config::default()).await;
    house.post("/v1/definitions", example).await.expect(201);
}

/// Does a reply fit what is written about it?
#[track_caller]
fn check_fits(document: &Value, route: &Route, answer: &Answer) {
    let status = answer.status.to_string();
    let response = &operation(document, route)["responses"][&status];
    assert!(response.is_object(), "{}: {status} is not described: {}", route.name, answer.text());
    let Some(content) = response.get("content") else {
        assert!(answer.body.is_empty(), "{}: {}", route.name, answer.text());
        return;
    };
    let kind = answer.header("content-type").unwrap().split(';').next().unwrap();
    let schema = &content[kind]["schema"];
    assert!(schema.is_object(), "{}: {status} as {kind} is not described", route.name);
    if kind.ends_with("json") {
        let schema = json!({ "components": document["components"], "allOf": [schema] });
        let validator = jsonschema::validator_for(&schema).unwrap();
        let body = answer.json();
        let faults: Vec<_> = validator.iter_errors(&body).map(|fault| fault.to_string()).collect();
        assert!(faults.is_empty(), "{} {status}: {faults:?}: {body}", route.name);
    }
}

/// Requests that go well, in this order.
fn walk() -> Vec<(&'static str, Ask, u16)> {
    let definition = json!({ "name": "new", "nodes": [{ "id": "a", "type": "noop" }] });
    let deploy = || Ask::post("/v1/definitions", &definition);
    let known = |rest: &str| format!("/v1/executions/{KNOWN}{rest}");
    let start = json!({ "workflow": house::PATIENT, "id": KNOWN, "labels": { "a": "b" } });
    let start = || Ask::post("/v1/executions", &start).header("Idempotency-Key", "k");
    let ended = json!({ "workflow": house::CHOOSY, "id": "ended", "input": { "amount": 7 } });
    vec![
        ("deployDefinition", deploy(), 201),
        ("deployDefinition", deploy(), 200),
        ("listDefinitions", Ask::get("/v1/definitions"), 200),
        ("listDefinitions", Ask::get("/v1/definitions?limit=1"), 200),
        ("getDefinition", Ask::get("/v1/definitions/new"), 200),
        ("listVersions", Ask::get("/v1/definitions/new/versions"), 200),
        ("getVersion", Ask::get("/v1/definitions/new/versions/1"), 200),
        ("startExecution", start(), 201),
        ("startExecution", start(), 200),
        ("startExecution", Ask::post("/v1/executions?wait=60s", &ended), 201),
        ("listExecutions", Ask::get("/v1/executions?limit=1"), 200),
        ("getExecution", Ask::get(&known("")), 200),
        ("getExecution", Ask::get("/v1/executions/ended"), 200),
        ("listNodes", Ask::get(&known("/nodes")), 200),
        ("listNodes", Ask::get("/v1/executions/ended/nodes"), 200),
        ("listEvents", Ask::get(&known("/events?limit=2")), 200),
        ("streamEvents", Ask::get(&known("/stream?follow=false")), 200),
        ("streamEvents", Ask::get("/v1/executions/ended/stream?after=1000"), 204),
        ("getOutput", Ask::get("/v1/executions/ended/output"), 200),
        ("getOutput", Ask::get(&known("/output")), 409),
        ("getWhy", Ask::get(&known("/why")), 200),
        ("pauseExecution", Ask::new("POST", &known("/pause")), 200),
        ("pauseExecution", Ask::new("POST", &known("/pause")), 409),
        ("resumeExecution", Ask::new("POST", &known("/resume")), 200),
        ("resumeExecution", Ask::new("POST", &known("/resume")), 409),
        ("signalExecution", Ask::post(&known("/signals"), &json!({ "name": "early" })), 200),
        ("cancelExecution", Ask::new("POST", &known("/cancel")), 200),
        ("cancelExecution", Ask::new("POST", "/v1/executions/ended/cancel"), 409),
        ("getExecution", Ask::get(&known("?wait=60s")), 200),
        ("streamAll", Ask::get("/v1/stream?after=0&follow=false"), 200),
        ("getLimits", Ask::get("/v1/limits"), 200),
        ("listInstances", Ask::get("/v1/instances"), 200),
        ("createKey", Ask::post("/v1/keys", &json!({ "name": "x", "role": "viewer" })), 201),
        ("listKeys", Ask::get("/v1/keys"), 200),
        ("listAudit", Ask::get("/v1/audit"), 200),
        ("getLiveness", Ask::get("/livez"), 200),
        ("getReadiness", Ask::get("/readyz"), 200),
        ("getMetrics", Ask::get("/metrics"), 200),
        ("getDescription", Ask::get("/openapi.json"), 200),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_does_as_it_is_described() {
    let house = House::open().await;
    let document = document(&house).await;
    for (name, ask, status) in walk() {
        let route = routes().iter().find(|route| route.name == name).unwrap();
        let answer = house.ask(&ask).await.expect(status);
        check_fits(&document, route, &answer);
    }
    for route in routes() {
        // What is refused must be described just as well.
        let sample = samples::ask(route);
        for target in [sample.target.clone(), format!("{}?colour=red", sample.target)] {
            let answer = house.ask(&Ask { target, ..sample.clone() }).await;
            check_fits(&document, route, &answer);
        }
    }
}

#[tokio::test]
async fn every_limit_is_listed_with_its_unit() {
    let house = House::open().await;
    let limits = house.get("/v1/limits").await.expect(200).json();
    for (name, value) in house.server.config.limits() {
        assert_eq!(limits["limits"][name], value, "{name}");
    }
}

#[test]
fn parameter_check_agrees_with_its_schema() {
    let tried = [
        "",
        " ",
        "a",
        "A",
        "0",
        "00",
        "1",
        "1.1",
        "1.",
        ".1",
        ".",
        "..",
        "-",
        "_",
        "-a",
        "a-",
        "a.b",
        "a:b",
        "a~1",
        "a~0",
        "a~",
        "~1",
        "a~1~1",
        "a=b",
        "=b",
        "a=",
        "a==",
        "0s",
        "7s",
        "07s",
        "60s",
        "61s",
        "s",
        "100s",
        "5ms",
        "59999ms",
        "60000ms",
        "60001ms",
        "000ms",
        "RUNNING",
        "running",
        "all",
        "last",
        "ä",
        "a b",
        "a\u{7f}",
        "a\u{9f}",
        "a\u{0}",
        "\u{1f600}",
        "true",
        "2030-01-31T12:00:00Z",
        "2030-01-31",
        "999999999999999999",
        "9999999999999999999",
        "1.999999999",
        "1.9999999999",
    ];
    let long = [64, 65, 127, 128, 129, 256, 257].map(|length| "x".repeat(length));
    for parameter in routes().iter().flat_map(|route| route.parameters) {
        let schema = parameter.form.schema();
        let validator = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
        for sample in tried.iter().copied().chain(long.iter().map(String::as_str)) {
            // A number in a query is text until it is parsed.
            let value = match schema["type"].as_str() {
                Some("string") => json!(sample),
                _ => serde_json::from_str(sample).unwrap_or(json!(sample)),
            };
            let (name, fits) = (parameter.name, parameter.form.check(sample).is_ok());
            assert_eq!(fits, validator.is_valid(&value), "{name} ({schema}): {sample:?}");
        }
    }
}
