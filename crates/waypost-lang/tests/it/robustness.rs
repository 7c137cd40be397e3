//! Sources that are too much: refused at once, by name, without a deep stack or a large heap.

use std::fmt::Write as _;

use waypost_core::limits::{DEFINITION_BYTES_MAX, EDGES_MAX, NESTING_MAX, NODES_MAX};
use waypost_lang::{Code, FAULTS_MAX, RENDERED_MAX, parse};

use crate::kinds::catalog;

fn first_code(source: &[u8]) -> Code {
    let faults = parse(source, &catalog()).expect_err("should be refused").faults;
    faults.first().expect("a refusal has a fault").code
}

#[test]
fn large_sources_are_refused_before_they_are_read() {
    let source = vec![b'['; DEFINITION_BYTES_MAX + 1];
    assert_eq!(first_code(&source), Code::SourceTooLarge);
    // And shown without a snippet.
    let faults = parse(&source, &catalog()).unwrap_err();
    assert!(faults.render(&source, "big.yaml", false).contains("big.yaml:1:1"));
}

#[test]
fn parse_of_invalid_utf8_names_its_position() {
    let source = b"name: caf\xe9\nnodes: []\n";
    let faults = parse(source, &catalog()).unwrap_err().faults;
    assert_eq!((faults[0].code, faults[0].line, faults[0].column), (Code::InvalidUtf8, 1, 10));
    assert!(faults[0].message.contains("byte 9"));
}

#[test]
fn deep_nesting_is_refused_without_a_deep_stack() {
    let deep = 100_000;
    for source in [
        "[".repeat(deep),
        "{".repeat(deep),
        "{\"a\":".repeat(deep),
        format!("name: {}", "[".repeat(deep)),
        "{a: ".repeat(deep),
        "- ".repeat(deep),
        "? ".repeat(deep),
        format!("{{\"a\":{}{}}}", "[".repeat(deep), "]".repeat(deep)),
        (0..2_000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect(),
    ] {
        let code = first_code(source.as_bytes());
        let refused = matches!(code, Code::TooDeep | Code::Syntax | Code::UnsupportedYaml);
        assert!(refused, "{code:?} for {}", &source[..20]);
    }
}

#[test]
fn parse_of_alias_bombs_is_refused_within_limits() {
    let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        writeln!(laughs, "a{level}: &a{level} [{aliases}]").unwrap();
    }
    assert_eq!(first_code(laughs.as_bytes()), Code::TooManyValues);

    let text = "x".repeat(100_000);
    let copies = format!("a: &a {text}\nb: [{}]\n", vec!["*a"; 1_000].join(", "));
    assert_eq!(first_code(copies.as_bytes()), Code::TooManyValues);

    let mut ladder = String::from("a0: &a0 []\n");
    for level in 1..500 {
        writeln!(ladder, "a{level}: &a{level} [*a{}]", level - 1).unwrap();
    }
    assert_eq!(first_code(ladder.as_bytes()), Code::TooDeep);
}

#[test]
fn many_small_values_are_refused() {
    assert_eq!(first_code("- a\n".repeat(500_000).as_bytes()), Code::TooManyValues);
    let json = format!("{{\"a\":[{}1]}}", "1,".repeat(500_000));
    assert_eq!(first_code(json.as_bytes()), Code::TooManyValues);
}

#[test]
fn more_nodes_or_edges_than_allowed_are_refused() {
    let node = |at: usize| format!("{{\"id\":\"n{at}\",\"type\":\"noop\"}}");
    let nodes: Vec<String> = (0..=NODES_MAX).map(node).collect();
    let source = format!("{{\"name\":\"x\",\"nodes\":[{}]}}", nodes.join(","));
    assert_eq!(first_code(source.as_bytes()), Code::TooLarge);

    let needs = vec!["\"n0\""; EDGES_MAX + 1].join(",");
    let source = format!(
        "{{\"name\":\"x\",\"nodes\":[{},{{\"id\":\"b\",\"type\":\"noop\",\"needs\":[{needs}]}}]}}",
        node(0)
    );
    assert_eq!(first_code(source.as_bytes()), Code::TooLarge);
}

/// The largest graph of the promises: ten thousand nodes, fifty thousand edges, a reference each.
fn large_graph() -> String {
    let mut source = String::from("name: large\nnodes:\n");
    for at in 0..NODES_MAX {
        let sources: Vec<usize> =
            [1, 2, 3, 70, 900].into_iter().filter_map(|d| at.checked_sub(d)).collect();
        let needs: Vec<String> = sources.iter().map(|source| format!("n{source}")).collect();
        let value =
            sources.last().map_or("1".to_owned(), |s| format!("\"${{{{ nodes.n{s}.output }}}}\""));
        let needs = needs.join(", ");
        writeln!(
            source,
            "  - {{ id: n{at}, type: transform, needs: [{needs}], config: {{ value: {value} }} }}"
        )
        .expect("strings do not fail");
    }
    source
}

#[test]
fn the_largest_graph_is_accepted() {
    let source = large_graph();
    let compiled = parse(source.as_bytes(), &catalog()).expect("has no faults");
    assert!(compiled.warnings.is_empty());
    assert_eq!(compiled.plan.nodes.len(), NODES_MAX);
}

/// The nodes of all bodies count, and bodies nest as deep as is allowed.
#[test]
fn nodes_of_bodies_are_counted() {
    let body = |count: usize| {
        let nodes: Vec<String> =
            (0..count).map(|at| format!("{{ id: n{at}, type: noop }}")).collect();
        format!(
            "name: large\nnodes:\n- {{ id: g, type: group, nodes: [{}] }}\n- {{ id: h, type: group, nodes: [{{ id: a, type: noop }}] }}\n",
            nodes.join(", ")
        )
    };
    let compiled = parse(body(NODES_MAX - 3).as_bytes(), &catalog()).expect("has no faults");
    assert_eq!(compiled.plan.nodes.len(), NODES_MAX);
    let faults = parse(body(NODES_MAX - 2).as_bytes(), &catalog()).unwrap_err().faults;
    let found: Vec<(Code, &str)> = faults.iter().map(|f| (f.code, f.message.as_str())).collect();
    let message = "there are more than 10000 nodes, those in bodies included";
    assert_eq!(found, [(Code::TooLarge, message)]);

    let mut deep = "{ id: a, type: noop }".to_owned();
    for level in 0..NESTING_MAX {
        deep = format!("{{ id: g{level}, type: group, nodes: [{deep}] }}");
    }
    let source = format!("name: deep\nnodes: [{deep}]\n");
    let compiled = parse(source.as_bytes(), &catalog()).expect("has no faults");
    assert_eq!(compiled.plan.scopes.last().map(|scope| scope.depth), Some(8));
    let again = parse(compiled.canonical.as_bytes(), &catalog()).expect("has no faults");
    assert_eq!(again.hash, compiled.hash);
}

#[test]
fn a_large_cycle_is_one_fault() {
    let mut source = String::from("name: ring\nnodes:\n");
    for at in 0..NODES_MAX {
        writeln!(source, "- {{ id: n{at}, type: noop, needs: n{} }}", (at + 1) % NODES_MAX)
            .unwrap();
    }
    let faults = parse(source.as_bytes(), &catalog()).unwrap_err().faults;
    let codes: Vec<Code> = faults.iter().map(|fault| fault.code).collect();
    assert_eq!(codes, [Code::NoEntry, Code::NoExit, Code::Cycle]);
    assert!(faults[2].message.len() < 300, "{}", faults[2].message);
}

#[test]
fn thousands_of_faults_are_counted_not_kept() {
    let mut source = String::from("name: broken\nnodes:\n");
    for at in 0..5_000 {
        writeln!(source, "- {{ id: n{at}, type: noop, needs: missing{at} }}").unwrap();
    }
    let faults = parse(source.as_bytes(), &catalog()).unwrap_err();
    assert_eq!((faults.faults.len(), faults.left_out), (FAULTS_MAX, 5_000 - FAULTS_MAX));
    let rendered = faults.render(source.as_bytes(), "x.yaml", false);
    assert_eq!(rendered.matches("error[").count(), RENDERED_MAX);
    assert!(rendered.contains("and 4950 more"), "{}", &rendered[rendered.len() - 200..]);
}

#[test]
fn many_branches_and_many_writers_are_checked() {
    let cases: Vec<String> =
        (0..5_000).map(|at| format!("{{ when: input.n == {at}, branch: b{at} }}")).collect();
    let mut source = format!(
        "name: wide\nnodes:\n- {{ id: s, type: switch, config: {{ cases: [{}] }} }}\n",
        cases.join(", ")
    );
    for at in 0..5_000 {
        writeln!(source, "- {{ id: n{at}, type: noop, needs: {{ node: s, branch: b{at} }}, merge: last, variables: {{ x: {at} }} }}").unwrap();
    }
    assert!(parse(source.as_bytes(), &catalog()).is_ok());
}
