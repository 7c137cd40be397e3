//! Inputs against the schema of a definition.

use waypost_core::blob::{BlobDigest, BlobRef};
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
fn schema_must_not_look_at_references() {
    let blob = BlobRef { digest: BlobDigest::of(b"a"), bytes: 1 << 30 };
    let input =
        |text: &str| Json::parse_own(&text.replace('@', Json::reference(blob).text())).unwrap();
    let looks = "the schema looks into blob";
    for (text, given, expected) in [
        (r#"{"type": "object", "required": ["rows"]}"#, r#"{"rows": @}"#, ""),
        (r#"{"properties": {"n": {"type": "integer"}}}"#, r#"{"rows": @, "n": 7}"#, ""),
        (r#"{"properties": {"rows": {}}}"#, r#"{"rows": @}"#, ""),
        (r#"{"items": {"required": ["rows"]}}"#, r#"[{"rows": @}, {"rows": @}]"#, ""),
        (
            r#"{"properties": {"n": {"type": "integer"}}}"#,
            r#"{"rows": @, "n": "7"}"#,
            "not of type",
        ),
        (r#"{"type": "object", "required": ["n"]}"#, r#"{"rows": @}"#, "is a required property"),
        (r#"{"type": "object"}"#, "@", looks),
        (r#"{"properties": {"rows": {"type": "object"}}}"#, r#"{"rows": @}"#, looks),
        (r#"{"properties": {"rows": {"type": "array"}}}"#, r#"{"rows": @}"#, looks),
        (r#"{"properties": {"rows": {"type": "string"}}}"#, r#"{"rows": @}"#, looks),
        (r#"{"properties": {"rows": {"items": {"type": "object"}}}}"#, r#"{"rows": @}"#, looks),
        (r#"{"properties": {"rows": {"required": ["a"]}}}"#, r#"{"rows": @}"#, looks),
        (r#"{"properties": {"rows": {"minItems": 1}}}"#, r#"{"rows": @}"#, looks),
        (r#"{"items": {"type": "integer"}}"#, "[1, @]", looks),
    ] {
        let faults = schema(text).unwrap().check(&input(given)).err().unwrap_or_default();
        let shown =
            faults.iter().map(|fault| fault.message.as_str()).collect::<Vec<_>>().join("; ");
        let fits = if expected.is_empty() { shown.is_empty() } else { shown.contains(expected) };
        assert!(fits && faults.len() <= 1, "{text} {given}: {shown}");
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
