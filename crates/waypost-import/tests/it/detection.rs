//! Formats are found by the content of a file, or refused with a reason.

use waypost_import::{ImportFormat, ImportSource, import};

use crate::converted::fixtures;

fn error_of(text: &str, format: Option<ImportFormat>) -> String {
    let source = ImportSource { name: "it.json", bytes: text.as_bytes() };
    import(&[source], format, &waypost_nodes::catalog()).unwrap_err().to_string()
}

#[test]
fn detect_every_fixture_without_a_named_format_finds_its_format() {
    for (folder, format) in [
        ("asl", ImportFormat::Asl),
        ("conductor", ImportFormat::Conductor),
        ("serverless", ImportFormat::Serverless),
        ("actions", ImportFormat::Actions),
    ] {
        for path in fixtures(folder) {
            let bytes = std::fs::read(&path).unwrap();
            let source = ImportSource { name: "it", bytes: &bytes };
            for other in ImportFormat::ALL {
                let imported = import(&[source], Some(*other), &waypost_nodes::catalog());
                assert_eq!(imported.is_ok(), *other == format, "{} as {other:?}", path.display());
            }
        }
    }
}

#[test]
fn detect_unknown_or_ambiguous_content_is_an_error_with_advice() {
    for (text, expected) in [
        ("{}", "name one with `--from`"),
        ("[1, 2]", "name one with `--from`"),
        ("name: a\nnodes: []", "nothing to convert"),
        (
            r#"{"StartAt": "A", "States": {}, "tasks": [{"taskReferenceName": "a"}]}"#,
            "may be one of asl, conductor",
        ),
        ("{\"a\":", "cannot be read"),
        ("", "cannot be read"),
    ] {
        let error = error_of(text, None);
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn import_named_format_that_does_not_fit_says_what_is_missing() {
    let error = error_of("{\"StartAt\": \"A\"}", Some(ImportFormat::Asl));
    assert!(error.contains("needs `StartAt`, and a mapping `States`"), "{error}");
}
