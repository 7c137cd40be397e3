//! Faults as people and as scripts read them.

use waypost_lang::parse;

use crate::kinds::catalog;

const SIX_FAULTS: &str = r#"name: welcome
input: { type: object, required: [userId] }
nodes:
  - id: profile
    type: api-cal
    config: { method: GET, url: "https://api.example.com/users/${{ input.userId }}" }
  - id: adult
    type: condition
    need: [profile]
    config: { expression: "nodes.profile.output.body.age >=" }
  - id: cool-off
    type: delay
    needs: [{ node: adlt, branch: "true" }]
    timeout: 10 parsecs
    config: { duration: 36000, unit: seconds }
  - id: done
    type: output
    needs: [cool-off]
    config: { value: { user: "${{ nodes.cool-off.output }}" } }
"#;

fn render(source: &str) -> String {
    let faults = match parse(source.as_bytes(), &catalog()) {
        Ok(compiled) => compiled.warnings,
        Err(faults) => faults,
    };
    faults.render(source.as_bytes(), "welcome.yaml", false)
}

#[test]
fn six_faults_of_a_newcomer() {
    insta::assert_snapshot!(render(SIX_FAULTS));
}

#[test]
fn a_warning() {
    insta::assert_snapshot!(render(
        "name: ship\nnodes:\n  - id: paid\n    type: condition\n    config: { expression: input.paid }\n  - id: remind\n    type: noop\n    needs: [{ node: paid, branch: false }]\n  - id: ship\n    type: noop\n    needs: [remind, { node: paid, branch: true }]\n"
    ));
}

#[test]
fn wide_characters_tabs_and_windows_line_ends() {
    insta::assert_snapshot!(render(
        "name: x\r\nnodes:\r\n  - id: a\r\n    type: transform\r\n    config:\r\n      value: \"日本\t${{ inptu.x }}\"\r\n"
    ));
}

#[test]
fn one_long_line_of_json_is_cut() {
    let long = "y".repeat(2_000);
    let source = format!(
        r#"{{"name": "x", "description": "{long}", "nods": [], "labels": {{"a": "{long}"}}}}"#
    );
    let rendered = render(&source);
    assert!(rendered.lines().all(|line| line.chars().count() < 200), "{rendered}");
    insta::assert_snapshot!(rendered);
}

#[test]
fn the_header_names_the_line_and_column_of_the_fault() {
    for source in [SIX_FAULTS, "\u{feff}nme: é\nnodes: [ é ]\n", "name: x\r\n\tnodes: 1"] {
        let faults = parse(source.as_bytes(), &catalog()).unwrap_err();
        let rendered = faults.render(source.as_bytes(), "w.yaml", false);
        for fault in &faults.faults {
            let place = format!("w.yaml:{}:{}\n", fault.line, fault.column);
            assert!(rendered.contains(&place), "{place} in:\n{rendered}");
        }
    }
}

#[test]
fn scripts_get_the_same_as_json() {
    let faults = parse(b"name: x\nnodes:\n  - { id: a, type: nop }\n", &catalog()).unwrap_err();
    insta::assert_snapshot!(serde_json::to_string_pretty(&faults).unwrap());
}

#[test]
fn colors_are_on_request() {
    let source = b"name: x\nnodes: []\n";
    let faults = parse(source, &catalog()).unwrap_err();
    assert!(faults.render(source, "x", true).contains("\u{1b}["));
    assert!(!faults.render(source, "x", false).contains("\u{1b}["));
}
