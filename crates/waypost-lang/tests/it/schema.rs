//! The schema for editors accepts what the parser accepts, and knows each kind's config.

use waypost_lang::schema;

use crate::kinds::catalog;

fn accepts(text: &str) -> bool {
    let definition = serde_json::from_str(text).expect("JSON");
    jsonschema::validator_for(&schema(&catalog())).expect("a schema").is_valid(&definition)
}

#[test]
fn definitions_in_both_forms_are_accepted() {
    for text in [
        r#"{"name": "x", "nodes": [{"id": "a", "type": "noop"}]}"#,
        r#"{"name": "x", "timeout": "2d", "failurePolicy": "partial", "labels": {"a": 1}, "concurrency": {"key": "${{ input.w }}", "limit": 2, "policy": "reject"}, "nodes": [
            {"nodeId": "a", "type": "action", "subType": "call_external_service", "config": {"url": "/", "retry": {"maxAttempts": 3}}},
            {"id": "b", "type": "api-call", "config": {"url": "/", "weight": "${{ input.w }}"}, "needs": "a", "join": 1},
            {"id": "c", "type": "noop", "needs": ["a", {"node": "b", "branch": "error"}], "join": {"count": "any", "cancelRest": true}}]}"#,
    ] {
        assert!(accepts(text), "{text}");
        assert!(waypost_lang::parse(text.as_bytes(), &catalog()).is_ok(), "{text}");
    }
}

#[test]
fn faulty_fields_are_marked() {
    for text in [
        r#"{"nodes": [{"id": "a", "type": "noop"}]}"#,
        r#"{"name": "x", "nodes": []}"#,
        r#"{"name": "x", "concurrency": {}, "nodes": [{"id": "a", "type": "noop"}]}"#,
        r#"{"name": "x", "concurrency": {"key": "k", "limit": 0}, "nodes": [{"id": "a", "type": "noop"}]}"#,
        r#"{"name": "x", "concurrency": {"key": "k", "policy": "wait"}, "nodes": [{"id": "a", "type": "noop"}]}"#,
        r#"{"name": "x", "nodes": [{"type": "noop"}]}"#,
        r#"{"name": "x", "nodes": [{"id": "a", "type": "nop"}]}"#,
        r#"{"name": "x", "nodes": [{"id": "a", "type": "api-call"}]}"#,
        r#"{"name": "x", "nodes": [{"id": "a", "type": "api-call", "config": {"url": 1}}]}"#,
        r#"{"name": "x", "nodes": [{"id": "a", "type": "action", "subType": "api-call", "config": {}}]}"#,
        r#"{"name": "x", "nodes": [{"id": "a", "type": "noop", "retry": {"attempts": 1}}]}"#,
    ] {
        assert!(!accepts(text), "{text}");
    }
}

/// A definition with every field that there is, and each of them left empty in turn: what the parser
/// takes for absent, the schema allows, and what the parser wants, the schema wants.
#[test]
fn schema_and_parser_agree_on_empty_fields() {
    let whole = serde_json::json!({
        "$schema": "x", "name": "x", "description": "x", "labels": { "a": 1 },
        "input": { "type": "object" }, "timeout": "2d", "failurePolicy": "partial",
        "concurrency": { "key": "k", "limit": 2, "policy": "reject" },
        "nodes": [{
            "id": "a", "nodeId": null, "type": "action", "subType": "api-call", "label": "x",
            "registryId": "x", "needs": [], "join": null,
            "config": { "url": "/", "weight": 1 },
            "retry": { "maxAttempts": 3 }, "timeout": "1s", "heartbeat": "500ms", "deadline": "2s",
            "breaker": { "key": "k", "failures": 3, "period": "10s", "cooldown": "1s" },
            "onError": "continue",
            "delivery": "at-least-once", "variables": { "v": 1 }, "merge": "last",
        }],
    });
    let agree = |definition: &serde_json::Value, what: &str| {
        let text = definition.to_string();
        let parsed = waypost_lang::parse(text.as_bytes(), &catalog());
        let parsed = parsed.map(|_| ()).map_err(|faults| faults.to_string());
        assert_eq!(accepts(&text), parsed.is_ok(), "{what}: {parsed:?}\n{text}");
    };
    agree(&whole, "whole");
    let mut swapped = whole.clone();
    swapped["nodes"][0]["nodeId"] = "a".into();
    agree(&swapped, "both ids");
    swapped["nodes"][0]["id"] = serde_json::Value::Null;
    agree(&swapped, "the long form");
    for place in
        ["", "/concurrency", "/nodes/0", "/nodes/0/retry", "/nodes/0/breaker", "/nodes/0/config"]
    {
        let fields = whole.pointer(place).and_then(|at| at.as_object()).expect("an object");
        for field in fields.keys() {
            let mut empty = whole.clone();
            *empty.pointer_mut(&format!("{place}/{field}")).expect("it is there") =
                serde_json::Value::Null;
            agree(&empty, &format!("{place}/{field}"));
        }
    }
}

/// The schema of containers, in both directions, each against the parser.
#[test]
fn bodies_are_described_as_the_parser_reads_them() {
    let body = r#""nodes": [{"id": "b", "type": "noop"}]"#;
    let until = r#""config": {"until": "true"}"#;
    for (node, good) in [
        (format!(r#""type": "group", {body}"#), true),
        (format!(r#""type": "logic", "subType": "group", {body}"#), true),
        (
            format!(r#""type": "group", "retry": {{"maxAttempts": 2}}, "deadline": "1m", {body}"#),
            true,
        ),
        (format!(r#""type": "group", "config": {{"retry": {{}}}}, {body}"#), true),
        (format!(r#""type": "loop", {until}, "retry": null, "timeout": null, {body}"#), true),
        (r#""type": "noop", "nodes": null"#.into(), true),
        (r#""type": "noop", "heartbeat": null"#.into(), true),
        (r#""type": "api-call", "config": {"url": "/"}, "heartbeat": "1s""#.into(), true),
        (r#""type": "noop", "heartbeat": "1s""#.into(), false),
        (r#""type": "noop", "breaker": {"key": "k"}"#.into(), false),
        (r#""type": "api-call", "config": {"url": "/"}, "breaker": {"key": "k"}"#.into(), true),
        (format!(r#""type": "group", "breaker": {{"key": "k"}}, {body}"#), false),
        (format!(r#""type": "group", "heartbeat": "1s", {body}"#), false),
        (r#""type": "group""#.into(), false),
        (r#""type": "group", "nodes": null"#.into(), false),
        (r#""type": "group", "nodes": []"#.into(), false),
        (r#""type": "group", "nodes": [{"id": "b", "type": "nop"}]"#.into(), false),
        (format!(r#""type": "noop", {body}"#), false),
        (format!(r#""type": "group", "timeout": "1s", {body}"#), false),
        (format!(r#""type": "group", "delivery": "at-most-once", {body}"#), false),
        (format!(r#""type": "loop", {until}, "retry": {{}}, {body}"#), false),
        (format!(r#""type": "loop", "config": {{"until": "true", "retry": {{}}}}, {body}"#), false),
    ] {
        let text = format!(r#"{{"name": "x", "nodes": [{{"id": "a", {node}}}]}}"#);
        let parsed = waypost_lang::parse(text.as_bytes(), &catalog());
        assert_eq!(parsed.is_ok(), good, "{text}: {parsed:?}");
        assert_eq!(accepts(&text), good, "{text}");
    }
}
