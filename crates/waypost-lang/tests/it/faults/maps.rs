//! Faults of maps; and of the config of maps and loops, which the real kinds find.

use waypost_lang::parse;

use super::{Case, Code, GET, contained, nodes, parse_text, reads, unmarked};

/// A node `first`, a map `each` with this body, and a node `last` with these fields.
fn each(code: Code, message: &'static str, hint: &'static str, body: &str, last: &str) -> Case {
    of(code, message, hint, "items: [1, 2]", body, last)
}

/// As `each`, with the config of the map.
fn of(
    code: Code,
    message: &'static str,
    hint: &'static str,
    config: &str,
    body: &str,
    last: &str,
) -> Case {
    contained((code, message, hint), ("each", "map", config), body, last)
}

#[expect(clippy::too_many_lines, reason = "a table: one row per fault")]
pub(super) fn cases() -> Vec<Case> {
    use Code::*;
    vec![
        nodes(
            MissingField,
            "`map` needs `nodes`",
            "one `- id: …` entry",
            "  - { id: m, type: «map», config: { items: 3 } }",
        ),
        nodes(
            MissingField,
            "`map` needs `items` in its config",
            "`items`: ",
            "  - { id: m, type: map, «config»: {}, nodes: [{ id: a, type: noop }] }",
        ),
        nodes(
            BadValue,
            "`retry` is not allowed on a `map`",
            "put it on the nodes in the body",
            "  - { id: m, type: map, «retry»: {}, config: { items: 3 }, nodes: [{ id: a, type: noop }] }",
        ),
        nodes(
            BadValue,
            "`timeout` is not allowed on a `map`",
            "or use `deadline`",
            "  - { id: m, type: map, «timeout»: 1s, config: { items: 3 }, nodes: [{ id: a, type: noop }] }",
        ),
        nodes(
            BadValue,
            "`delivery` is not allowed on a `map`",
            "put it on the nodes in the body",
            "  - { id: m, type: map, «delivery»: at-most-once, config: { items: 3 }, nodes: [{ id: a, type: noop }] }",
        ),
        // Ids and edges across the border.
        each(
            DuplicateId,
            "`side` is also the id of a node outside of `each`",
            "must differ",
            "- { id: «side», type: noop }",
            "",
        ),
        each(
            OutsideScope,
            "`first` is outside of `each`: `needs` stay within a body",
            "add `first` to the `needs` of `each`",
            "- { id: get, type: noop, needs: «first» }",
            "",
        ),
        each(
            OutsideScope,
            "`get` is in the body of `each`: outside, only `each` can be needed",
            "write `each` instead",
            GET,
            "needs: «get»",
        ),
        each(
            OutsideScope,
            "`get` is in the body of `each`: outside, only `nodes.each.output` can be read",
            "write `nodes.each.output`",
            GET,
            "needs: each, variables: { x: \"${{ «nodes.get».output }}\" }",
        ),
        // Names.
        each(
            NameNotAvailable,
            "`item` is only available in the body of a `map`",
            "the outputs of all items are `nodes.<id>.output.results`",
            GET,
            "needs: each, variables: { x: \"${{ «item» }}\" }",
        ),
        of(
            NameNotAvailable,
            "`index` is only available in the body of a `map`",
            "the outputs of all items are `nodes.<id>.output.results`",
            "items: \"${{ [«index»] }}\"",
            GET,
            "",
        ),
        each(
            NameNotAvailable,
            "`iteration` is only available in the body of a `loop`",
            "the output of a loop is `nodes.<id>.output`",
            &reads("«iteration»"),
            "",
        ),
        each(
            NotUpstream,
            "`each` has no result yet: `get` is in its body",
            "nodes of a body see each other",
            &reads("«nodes.each».output"),
            "",
        ),
        of(
            SecretNotAllowed,
            "in a node that the engine runs itself",
            "would be stored",
            "items: [\"${{ «secrets».token }}\"]",
            GET,
            "",
        ),
        // Variables of an item stay in it.
        each(
            UnorderedWriters,
            "`get` sets `x` in an item of `each`, and `last` sets it outside",
            "use another name",
            "- { id: get, type: noop, variables: { «x»: 1 } }",
            "needs: each, variables: { x: 2 }",
        ),
        each(
            UnorderedWriters,
            "`b` sets `x` in an item of `inner`, and `get` sets it outside",
            "use another name",
            "- { id: get, type: noop, variables: { x: 1 } }\n      - { id: inner, type: map, needs: get, config: { items: 2 }, nodes: [{ id: b, type: noop, variables: { «x»: 2 } }] }",
            "",
        ),
    ]
}

#[test]
fn check_of_valid_maps_reports_no_fault() {
    for source in [
        // Items of a node before, names of the map around, also through a group and a loop.
        "  - { id: a, type: noop }\n\
         \x20 - id: m\n    type: map\n    needs: a\n    deadline: 1h\n    onError: continue\n    config: { items: \"${{ nodes.a.output }}\" }\n    nodes:\n\
         \x20     - { id: b, type: transform, config: { value: \"${{ [item, index, nodes.a.output] }}\" } }\n\
         \x20     - { id: l, type: loop, needs: b, config: { until: iteration == index }, nodes: [{ id: c, type: transform, config: { value: \"${{ [item, previous, nodes.b.output] }}\" } }] }\n\
         \x20 - { id: d, type: transform, needs: m, config: { value: \"${{ nodes.m.output.results }}\" } }",
        // A map in a map, whose items are of the outer one; the same variable in two maps.
        "  - { id: m, type: map, config: { items: 3 }, nodes: [{ id: n, type: map, config: { items: \"${{ item.list }}\" }, nodes: [{ id: a, type: noop, variables: { x: \"${{ item }}\" } }] }] }\n\
         \x20 - { id: o, type: map, config: { items: [] }, nodes: [{ id: a, type: noop, variables: { x: 1 } }] }",
    ] {
        let found = parse_text(&format!("name: fine\nnodes:\n{source}\n"));
        assert!(found.is_empty(), "in:\n{source}\nfound: {found:#?}");
    }
}

/// The config of a map or a loop that is refused: part of the message, part of the hint.
const REFUSED: &[(&str, &str, &str)] = &[
    (
        "type: map, config: { items: «three» }",
        "`items` must be a list, or a whole number",
        "a number n",
    ),
    (
        "type: map, config: { items: «-1» }",
        "`items` must be a list, or a whole number",
        "a number n",
    ),
    (
        "type: map, config: { items: «1.5» }",
        "`items` must be a list, or a whole number",
        "a number n",
    ),
    (
        "type: map, config: { items: «{ a: 1 }» }",
        "`items` must be a list, or a whole number",
        "a number n",
    ),
    (
        "type: map, config: { items: «true» }",
        "`items` must be a list, or a whole number",
        "a number n",
    ),
    (
        "type: map, config: { items: 3, concurrency: «0» }",
        "from 1 to 10000",
        "without it, 100 items",
    ),
    (
        "type: map, config: { items: 3, concurrency: «-2» }",
        "`concurrency` must be a whole number",
        "",
    ),
    (
        "type: map, config: { items: 3, concurrency: «10001» }",
        "from 1 to 10000",
        "without it, 100 items",
    ),
    ("type: map, config: { items: 3, concurrency: «2.5» }", "whole number", ""),
    (
        "type: map, config: { items: 3, tolerate: «2» }",
        "`{count: n}` or `{percent: n}`",
        "percent: 5",
    ),
    (
        "type: map, config: { items: 3, tolerate: «{}» }",
        "`{count: n}` or `{percent: n}`",
        "percent: 5",
    ),
    (
        "type: map, config: { items: 3, tolerate: «{ count: 1, percent: 5 }» }",
        "`{count: n}` or `{percent: n}`",
        "percent: 5",
    ),
    (
        "type: map, config: { items: 3, tolerate: { count: «-1» } }",
        "`count` must be a whole number",
        "percent: 5",
    ),
    (
        "type: map, config: { items: 3, tolerate: { count: «0.5» } }",
        "`count` must be a whole number",
        "percent: 5",
    ),
    (
        "type: map, config: { items: 3, tolerate: { percent: «100.1» } }",
        "from 0 to 100",
        "count: 5",
    ),
    ("type: map, config: { items: 3, tolerate: { percent: «-1» } }", "from 0 to 100", "count: 5"),
    (
        "type: map, config: { items: 3, collect: «some» }",
        "`collect` must be `results` or `none`",
        "",
    ),
    (
        "type: map, config: { items: 3, stopOnFailure: «2» }",
        "`stopOnFailure` must be true or false",
        "",
    ),
    ("type: map, config: { items: 3, «batch»: 2 }", "no field `batch`", "its fields are `items`"),
    (
        "type: loop, config: { while: 'true', until: «'true'» }",
        "exclude each other",
        "write one of them",
    ),
    ("type: loop, «config»: {}", "either `while` or `until` is required", "write one of them"),
    (
        "type: loop, config: { until: 'true', maxIterations: «0» }",
        "from 1 to 1000000000",
        "at most 1000",
    ),
    (
        "type: loop, config: { until: 'true', maxIterations: «-1» }",
        "`maxIterations` must be a whole number",
        "",
    ),
    ("type: loop, config: { until: 'true', maxIterations: «1.5» }", "whole number", ""),
    (
        "type: loop, config: { until: 'true', collect: «some» }",
        "`collect` must be `last` or `all`",
        "",
    ),
    ("type: loop, config: { until: 'true', delay: «-1s» }", "`delay` cannot be negative", ""),
];

#[test]
fn bad_config_of_a_map_or_a_loop_is_refused_at_its_place() {
    let mut wrong = Vec::new();
    for (line, message, hint) in REFUSED {
        let text =
            format!("name: a\nnodes:\n  - {{ id: c, {line}, nodes: [{{ id: n, type: noop }}] }}\n");
        let (source, marked) = unmarked(&text);
        let found = parse(source.as_bytes(), &waypost_nodes::catalog()).expect_err(line).faults;
        let right = found.len() == 1
            && found.iter().all(|fault| {
                let found_hint = fault.hint.as_deref().unwrap_or_default();
                fault.message.contains(message)
                    && found_hint.contains(hint)
                    && found_hint.is_empty() == hint.is_empty()
                    && Some((fault.span.clone(), fault.line, fault.column)) == marked
            });
        if !right {
            wrong.push(format!("{source}{found:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
