//! Each file of `tests/fixtures`, as the definition and the report that it becomes.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use waypost_import::{ImportLevel, ImportSource, import};

/// The files of a folder of fixtures, sorted.
pub(crate) fn fixtures(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(folder);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Every definition that comes out is valid: `import` returns no other.
fn check(folder: &str) {
    let files = fixtures(folder);
    assert!(files.len() >= 8, "{folder} has {} fixtures", files.len());
    for path in files {
        let bytes = std::fs::read(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        let source = ImportSource { name, bytes: &bytes };
        let imported = import(&[source], None, &waypost_nodes::catalog()).unwrap();
        let mut text = String::new();
        for definition in &imported.definitions {
            let source = definition.yaml.as_bytes();
            let compiled = waypost_lang::parse(source, &waypost_nodes::catalog()).unwrap();
            writeln!(text, "{}", definition.yaml).unwrap();
            if !compiled.warnings.is_empty() {
                writeln!(text, "# warnings\n{}\n", compiled.warnings).unwrap();
            }
        }
        for finding in imported.report.findings.iter().filter(|f| f.level == ImportLevel::Exact) {
            writeln!(text, "exact {}:{} {}", finding.line, finding.column, finding.message)
                .unwrap();
        }
        text.push_str(&imported.report.render());
        insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(format!("{folder}_{}", name.split('.').next().unwrap()), text);
        });
    }
}

#[test]
fn asl_fixtures_become_the_expected_definitions() {
    check("asl");
}

#[test]
fn conductor_fixtures_become_the_expected_definitions() {
    check("conductor");
}

#[test]
fn serverless_workflow_fixtures_become_the_expected_definitions() {
    check("serverless");
}

#[test]
fn actions_fixtures_become_the_expected_definitions() {
    check("actions");
}
