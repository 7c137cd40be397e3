//! Whatever comes in: no panic, and what comes out is valid.

use proptest::prelude::*;
use waypost_import::{ImportFormat, ImportSource, import};
use waypost_lang::Document;

use crate::converted::fixtures;

const FOLDERS: &[&str] = &["asl", "conductor", "serverless", "actions"];

/// Imports bytes in every format. Returns how many definitions came out.
fn import_all(bytes: &[u8]) -> usize {
    let formats = ImportFormat::ALL.iter().copied().map(Some).chain([None]);
    let mut count = 0;
    for format in formats {
        let source = ImportSource { name: "it.yaml", bytes };
        let Ok(imported) = import(&[source], format, &waypost_nodes::catalog()) else { continue };
        for definition in &imported.definitions {
            let source = definition.yaml.as_bytes();
            if let Err(faults) = waypost_lang::parse(source, &waypost_nodes::catalog()) {
                panic!("{faults}\n{}", definition.yaml);
            }
            count += 1;
        }
        let has_all = !imported.definitions.is_empty() || !imported.report.is_complete();
        assert!(has_all || format.is_none_or(|f| f == ImportFormat::Conductor));
    }
    count
}

fn sources() -> Vec<Vec<u8>> {
    FOLDERS.iter().flat_map(|folder| fixtures(folder)).map(|p| std::fs::read(p).unwrap()).collect()
}

#[test]
fn import_truncated_fixtures_never_panics() {
    for bytes in sources() {
        for at in (0..bytes.len()).step_by(7) {
            import_all(&bytes[..at]);
        }
    }
}

/// One value of a fixture is replaced by something that does not belong there.
#[test]
fn import_fixtures_with_wrong_values_gives_valid_definitions_or_reports() {
    const WRONG: &[&str] = &[
        "null",
        "0",
        "-7",
        "1e300",
        "\"\"",
        "\"${{ nodes.x }}\"",
        "\"$.a[*].b[0]\"",
        "[]",
        "{}",
        "[{}]",
        "{\"a\": [1]}",
        "\"States.Format('{}{}', $.a)\"",
        "true",
        "\"\\u0000\"",
        "\"${ .a | map(.b) }\"",
        "\"a b/c:d\"",
    ];
    let mut count = 0;
    for bytes in sources() {
        let whole = Document::read(&bytes).unwrap().root.to_json();
        let pointers = pointers(&whole, "");
        for (number, pointer) in pointers.iter().enumerate().step_by(3) {
            let mut changed = whole.clone();
            let wrong = WRONG[(number * 7 + bytes.len()) % WRONG.len()];
            *changed.pointer_mut(pointer).unwrap() = serde_json::from_str(wrong).unwrap();
            count += import_all(changed.to_string().as_bytes());
        }
    }
    assert!(count > 100, "{count}");
}

fn pointers(value: &serde_json::Value, at: &str) -> Vec<String> {
    let children: Vec<(String, &serde_json::Value)> = match value {
        serde_json::Value::Object(map) => map
            .iter()
            .map(|(key, value)| (key.replace('~', "~0").replace('/', "~1"), value))
            .collect(),
        serde_json::Value::Array(items) => {
            items.iter().enumerate().map(|(at, item)| (at.to_string(), item)).collect()
        }
        _ => Vec::new(),
    };
    let inner =
        children.into_iter().flat_map(|(key, value)| pointers(value, &format!("{at}/{key}")));
    std::iter::once(at.to_owned()).chain(inner).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn import_random_bytes_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        import_all(&bytes);
    }

    #[test]
    fn import_random_states_gives_valid_definitions(
        edges in proptest::collection::vec((0_usize..12, 0_usize..12, 0_usize..4), 1..40),
    ) {
        import_all(machine_of(&edges).as_bytes());
    }
}

/// A machine of Choice states with these transitions: any graph, also with cycles.
fn machine_of(edges: &[(usize, usize, usize)]) -> String {
    let mut states = serde_json::Map::new();
    for state in 0..12 {
        let choices: Vec<_> = edges
            .iter()
            .filter(|(from, ..)| *from == state)
            .map(|(_, to, value)| {
                serde_json::json!({ "Variable": "$.x", "NumericEquals": value, "Next": format!("s{to}") })
            })
            .collect();
        let state_of = match (choices.is_empty(), state % 3) {
            (true, 0) => serde_json::json!({ "Type": "Succeed" }),
            (true, _) => {
                serde_json::json!({ "Type": "Pass", "Result": { "x": state }, "End": true })
            }
            (false, 1) => serde_json::json!({ "Type": "Choice", "Choices": choices }),
            (false, _) => {
                serde_json::json!({ "Type": "Choice", "Choices": choices, "Default": "s11" })
            }
        };
        states.insert(format!("s{state}"), state_of);
    }
    serde_json::json!({ "StartAt": "s0", "States": states }).to_string()
}

#[test]
fn import_file_above_the_limit_is_refused() {
    let bytes = vec![b' '; 4 * 1024 * 1024 + 1];
    let source = ImportSource { name: "it", bytes: &bytes };
    let error = import(&[source], None, &waypost_nodes::catalog()).unwrap_err();
    assert!(error.to_string().contains("more than the limit"), "{error}");
}

#[test]
fn import_deep_nesting_is_refused_before_it_is_converted() {
    let deep = format!("{}{}", "{\"StartAt\":\"A\",\"States\":".repeat(5_000), "1");
    assert_eq!(import_all(deep.as_bytes()), 0);
}

/// Each of these would take for ever, or overflow the stack, without a limit.
#[test]
fn import_hostile_sources_ends_soon() {
    let jq = |source: &str| {
        let source = serde_json::to_string(&format!("${{ {source} }}")).unwrap();
        format!(
            "{{\"document\": {{\"dsl\": \"1.0.0\", \"name\": \"a\"}}, \"do\": [{{\"a\": {{\"set\": {{\"x\": {source}}}}}}}]}}"
        )
    };
    let pass = |path: &str| {
        let path = serde_json::to_string(path).unwrap();
        format!(
            "{{\"StartAt\": \"A\", \"States\": {{\"A\": {{\"Type\": \"Pass\", \"ResultPath\": {path}, \"End\": true}}}}}}"
        )
    };
    let states: Vec<String> = (0..40_000)
        .map(|at| format!("\"s{at}\":{{\"Type\":\"Pass\",\"Next\":\"s{}\"}}", at + 1))
        .collect();
    let tasks: Vec<String> = (0..20_000)
        .map(|at| format!("{{\"taskReferenceName\":\"t{at}\",\"type\":\"SIMPLE\",\"name\":\"n\"}}"))
        .collect();
    for source in [
        jq(&".a // ".repeat(500)),
        jq(&format!("{}.b", ".a // ".repeat(60))),
        jq(&format!(".{}", "a.".repeat(2_000))),
        jq(&"(".repeat(5_000)),
        jq(&format!("{}.a", "\"\\(".repeat(2_000))),
        jq(&"not not ".repeat(900)),
        jq(&".a and ".repeat(1_000)),
        pass(&format!("${}", ".a".repeat(3_000))),
        pass(&format!("${}", ".a".repeat(1_000_000))),
        format!("{{\"StartAt\":\"s0\",\"States\":{{{}}}}}", states.join(",")),
        format!("{{\"name\":\"w\",\"tasks\":[{}]}}", tasks.join(",")),
    ] {
        import_all(source.as_bytes());
    }
}
