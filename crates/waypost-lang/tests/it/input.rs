//! Inputs against the schema of a definition.

use waypost_core::json::Json;
use waypost_lang::InputSchema;

fn schema(text: &str) -> Result<InputSchema, String> {
    InputSchema::compile(&Json::parse(text).expect("JSON"))
        .map_err(|bad| format!("{}: {bad}", bad.path))
}

#[test]
fn inputs_are_checked_with_the_path_of_each_fault() {
    let schema = schema(
        r##"{"type": "object", "required": ["userId"], "properties": {
            "userId": {"type": "integer"}, "mail": {"type": "string", "pattern": "^[^@]+@[^@]+$"},
            "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}}},
            "$defs": {"tag": {"type": "string", "maxLength": 3}}}"##,
    )
    .unwrap();
    for (input, paths) in [
        (r#"{"userId": 9007199254740993, "mail": "a@b", "tags": ["abc"]}"#, &[][..]),
        (r#"{}"#, &[""]),
        (r#"{"userId": "x", "tags": ["a", "abcd"]}"#, &["/tags/1", "/userId"]),
        (r#"{"userId": 1, "mail": "nobody"}"#, &["/mail"]),
        ("[]", &[""]),
        (r#"{"userId": 1e400, "mail": "say \"1e400\"@b"}"#, &[]),
        (r#"{"userId": 1e400, "mail": "1e400"}"#, &["/mail"]),
        (r#"{"userId": -1E+400, "tags": [9e999]}"#, &["/tags/0"]),
        (r#"{"userId": 100000000000000000001}"#, &[]),
        (r#"{"userId": 1e-400, "tags": ["1e400"]}"#, &["/tags/0"]),
    ] {
        let faults = schema.check(&Json::parse(input).unwrap()).err().unwrap_or_default();
        let mut found: Vec<&str> = faults.iter().map(|fault| fault.path.as_str()).collect();
        found.sort_unstable();
        assert_eq!(found, paths, "{input}: {faults:?}");
    }
}

#[test]
fn schemas_that_reach_out_or_backtrack_are_refused() {
    for text in [
        r#"{"type": "thing"}"#,
        r#"{"properties": {"a": {"minimum": "1"}}}"#,
        r#"{"$ref": "https://example.com/schema.json"}"#,
        r#"{"$ref": "file:///etc/passwd"}"#,
        r##"{"$ref": "#/$defs/missing"}"##,
        r#"{"pattern": "(a+)\\1"}"#,
        r#"{"pattern": "(?=x)"}"#,
        r#"{"pattern": "("}"#,
    ] {
        assert!(schema(text).is_err(), "{text}");
    }
}

#[test]
fn patterns_take_linear_time() {
    let schema = schema(r#"{"pattern": "^(a+)+$"}"#).unwrap();
    let input = Json::parse(&format!("\"{}b\"", "a".repeat(50_000))).unwrap();
    assert!(schema.check(&input).is_err());
}
