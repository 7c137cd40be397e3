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
