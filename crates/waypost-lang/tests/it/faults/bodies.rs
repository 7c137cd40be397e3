//! Faults of containers, and of what crosses the border of a body.

use super::{Case, Code, GET, contained, nodes, parse_text, reads};

/// A node `first`, a loop `poll` with this body, and a node `last`.
fn poll(code: Code, message: &'static str, hint: &'static str, body: &str) -> Case {
    looped(code, message, hint, "until: previous.done", body, "needs: poll")
}

/// As `poll`, with the config of the loop and the fields of `last`.
fn looped(
    code: Code,
    message: &'static str,
    hint: &'static str,
    config: &str,
    body: &str,
    last: &str,
) -> Case {
    contained((code, message, hint), ("poll", "loop", config), body, last)
}

#[expect(clippy::too_many_lines, reason = "a table: one row per fault")]
pub(super) fn cases() -> Vec<Case> {
    use Code::*;
    let group = |lines: &str| format!("  - id: g\n    type: group\n    {lines}");
    vec![
        // What a container has, and what it does not.
        nodes(
            MissingField,
            "`group` needs `nodes`",
            "one `- id: …` entry",
            "  - { id: g, type: «group» }",
        ),
        nodes(
            UnknownField,
            "no field `steps`",
            "did you mean `nodes`",
            &group("«steps»: [{ id: a, type: noop }]"),
        ),
        nodes(NoNodes, "a body needs at least one node", "", &group("nodes: «[]»")),
        nodes(WrongType, "`nodes` must be a list", "- id: …", &group("nodes: «a»")),
        nodes(
            BadValue,
            "`noop` has no body",
            "`group`, `loop` and `map` have bodies",
            "  - { id: a, type: noop, «nodes»: [{ id: b, type: noop }] }",
        ),
        nodes(
            BadValue,
            "`timeout` is not allowed on a `group`",
            "put it on the nodes in the body, or use `deadline`",
            &group("«timeout»: 1s\n    nodes: [{ id: a, type: noop }]"),
        ),
        nodes(
            BadValue,
            "`delivery` is not allowed on a `group`",
            "put it on the nodes in the body",
            &group("«delivery»: at-most-once\n    nodes: [{ id: a, type: noop }]"),
        ),
        looped(
            BadValue,
            "`retry` is not allowed on a `loop`",
            "put it on the nodes in the body",
            "until: true == true, «retry»: { maxAttempts: 2 }",
            GET,
            "",
        ),
        nodes(
            BadValue,
            "`retry` is not allowed on a `loop`",
            "put it on the nodes in the body",
            "  - { id: l, type: loop, «retry»: {}, config: { while: 'true' }, nodes: [{ id: a, type: noop }] }",
        ),
        looped(
            BadConfig,
            "one of `while` and `until`",
            "",
            "while: 'true', until: «'true'»",
            GET,
            "",
        ),
        nodes(
            TooDeep,
            "bodies are nested deeper than 8 levels",
            "",
            &format!(
                "  - {}{{ id: g8, type: group, «nodes»: [{{ id: a, type: noop }}] }}{}",
                (0..8)
                    .map(|n| format!("{{ id: g{n}, type: group, nodes: ["))
                    .collect::<String>(),
                "] }".repeat(8)
            ),
        ),
        // Faults inside of a body have their own place.
        poll(UnknownKind, "no node kind `nop`", "did you mean `noop`", "- { id: a, type: «nop» }"),
        poll(
            UnknownNode,
            "there is no node `gett`",
            "did you mean `get`",
            "- { id: get, type: noop }\n      - { id: b, type: noop, needs: «gett» }",
        ),
        poll(
            Cycle,
            "wait for each other: a → b → a",
            "take one of these edges",
            "- { id: a, type: noop, needs: «b» }\n      - { id: b, type: noop, needs: a }\n      - { id: c, type: noop }\n      - { id: d, type: noop }",
        ),
        nodes(
            NoEntry,
            "nothing can start",
            "take `needs` out",
            &group("«nodes»: [{ id: a, type: noop, needs: b }, { id: b, type: noop, needs: a }, { id: c, type: noop, needs: a }]"),
        )
        .also(&[Cycle, Unreachable]),
        poll(
            JoinTooLarge,
            "the join waits for 2",
            "",
            "- { id: a, type: noop }\n      - { id: b, type: noop, needs: a, join: «2» }",
        ),
        poll(
            UnknownBranch,
            "`a` (noop) has no branch `x`",
            "its branches are `error`",
            "- { id: a, type: noop }\n      - { id: b, type: noop, needs: { node: a, branch: «x» } }",
        ),
        poll(
            UnusedErrorBranch,
            "goes to the branch `oops`",
            "branch: oops",
            "- { id: a, type: noop, onError: «oops» }",
        ),
        // Ids.
        poll(
            DuplicateId,
            "another node with the id `get`",
            "an id of its own",
            "- { id: get, type: noop }\n      - { id: «get», type: noop }",
        ),
        poll(
            DuplicateId,
            "`side` is also the id of a node outside of `poll`",
            "must differ",
            "- { id: «side», type: noop }",
        ),
        poll(
            DuplicateId,
            "`poll` is also the id of the node around this one",
            "must differ",
            "- { id: «poll», type: noop }",
        ),
        // Edges across the border.
        poll(
            OutsideScope,
            "`first` is outside of `poll`: `needs` stay within a body",
            "add `first` to the `needs` of `poll`",
            "- { id: get, type: noop, needs: «first» }",
        ),
        poll(
            OutsideScope,
            "`poll` cannot be needed in its own body",
            "begin when their container does",
            "- { id: get, type: noop, needs: «poll» }",
        ),
        looped(
            OutsideScope,
            "`get` is in the body of `poll`: outside, only `poll` can be needed",
            "write `poll` instead",
            "until: previous.done",
            GET,
            "needs: «get»",
        ),
        nodes(
            OutsideScope,
            "`a` is in the body of `g`",
            "remove it from `needs`",
            &group("needs: «a»\n    nodes: [{ id: a, type: noop }]"),
        ),
        nodes(
            OutsideScope,
            "`a` is in the body of `g`",
            "add `g` to the `needs` of `h`",
            &format!(
                "{}\n  - id: h\n    type: group\n    nodes: [{{ id: b, type: noop, needs: «a» }}]",
                group("nodes: [{ id: a, type: noop }]")
            ),
        ),
        // Expressions across the border.
        looped(
            OutsideScope,
            "`get` is in the body of `poll`: outside, only `nodes.poll.output` can be read",
            "write `nodes.poll.output`",
            "until: previous.done",
            GET,
            "needs: poll, variables: { x: \"${{ «nodes.get».output }}\" }",
        ),
        looped(
            OutsideScope,
            "`get` is in the body of `poll`",
            "is `previous`",
            "until: «nodes.get».output.done",
            GET,
            "",
        ),
        looped(
            NotUpstream,
            "`poll` cannot read its own result here",
            "is `previous`",
            "until: «nodes.poll».output.done",
            GET,
            "",
        ),
        poll(
            NotUpstream,
            "`poll` has no result yet: `get` is in its body",
            "is `previous`",
            &reads("«nodes.poll».output"),
        ),
        nodes(
            NotUpstream,
            "`g` has no result yet",
            "see each other",
            &group("nodes: [{ id: a, type: transform, config: { value: \"${{ «nodes.g».output }}\" } }]"),
        ),
        poll(
            NotUpstream,
            "`side` is not upstream of `poll`",
            "add `side` to the `needs` of `poll`",
            &reads("«nodes.side».output"),
        ),
        nodes(
            MayBeSkipped,
            "`b` is not on every path to `g`",
            "default",
            "  - { id: a, type: condition, config: { expression: input.ok } }\n\
             \x20 - { id: b, type: noop, needs: { node: a, branch: true } }\n\
             \x20 - { id: c, type: noop, needs: { node: a, branch: false } }\n\
             \x20 - id: g\n    type: group\n    needs: [b, c]\n    nodes:\n\
             \x20     - { id: d, type: transform, config: { value: \"${{ «nodes.b».output }}\" } }",
        ),
        poll(
            NotUpstream,
            "`other` is not upstream of `get`",
            "add `other` to the `needs` of `get`",
            &format!("{}\n      - {{ id: other, type: noop }}", reads("«nodes.other».output")),
        ),
        // Names of loops.
        looped(
            NameNotAvailable,
            "`iteration` is only available in the body of a `loop`",
            "the output of a loop is `nodes.<id>.output`",
            "until: previous.done",
            GET,
            "variables: { x: \"${{ «iteration» }}\" }",
        ),
        nodes(
            NameNotAvailable,
            "`previous` is only available in the body of a `loop`",
            "the output of a loop is `nodes.<id>.output`",
            &group("nodes: [{ id: a, type: transform, config: { value: \"${{ «previous» }}\" } }]"),
        ),
        poll(
            NameNotAvailable,
            "`index` is only available in the body of a `map`",
            "the outputs of all items are `nodes.<id>.output.results`",
            &reads("«index»"),
        ),
        looped(
            SecretNotAllowed,
            "in a node that the engine runs itself",
            "would be stored",
            "until: previous == «secrets».token",
            GET,
            "",
        ),
        // Writers in bodies write to the scope around them.
        looped(
            UnorderedWriters,
            "`last` and `get` both set `x`",
            "merge: last",
            "until: previous.done",
            "- { id: get, type: noop, variables: { «x»: 1 } }",
            "variables: { x: 2 }",
        ),
    ]
}

#[test]
fn check_of_valid_bodies_reports_no_fault() {
    for source in [
        // Nodes of one body, outer nodes upstream of the container, names of the loop around.
        "  - { id: a, type: noop }\n\
         \x20 - id: l\n    type: loop\n    needs: a\n    config: { while: \"iteration < nodes.a.output\", delay: \"${{ previous.wait }}\" }\n    nodes:\n\
         \x20     - { id: b, type: transform, config: { value: \"${{ [iteration, previous] }}\" } }\n\
         \x20     - id: g\n        type: group\n        needs: b\n        nodes:\n\
         \x20         - { id: c, type: transform, config: { value: \"${{ [iteration, nodes.a.output, nodes.b.output] }}\" } }\n\
         \x20         - { id: d, type: noop, needs: c, variables: { x: \"${{ previous }}\" } }\n\
         \x20 - { id: e, type: transform, needs: l, config: { value: \"${{ nodes.l.output }}\" } }",
        // Sibling bodies with the same ids.
        "  - { id: g, type: group, nodes: [{ id: a, type: noop }, { id: b, type: noop, needs: a }] }\n\
         \x20 - { id: h, type: group, nodes: [{ id: a, type: noop }, { id: b, type: noop, needs: a }] }",
        // Writers in an order: in a body, after it, and the container itself.
        "  - { id: g, type: group, variables: { x: 3 }, nodes: [{ id: a, type: noop, variables: { x: 1 } }, { id: b, type: noop, needs: a, variables: { x: 2 } }] }\n\
         \x20 - { id: h, type: group, needs: g, nodes: [{ id: c, type: noop, variables: { x: 4 } }] }",
        // Everything that a container may have.
        "  - { id: a, type: noop }\n\
         \x20 - { id: g, type: group, label: G, needs: a, join: any, deadline: 1h, onError: oops, retry: { maxAttempts: 2 }, variables: { x: \"${{ output }}\" }, nodes: [{ id: b, type: noop, timeout: 1s, retry: {} }] }\n\
         \x20 - { id: l, type: loop, needs: { node: g, branch: oops }, deadline: 1h, onError: continue, merge: last, config: { until: 'true' }, nodes: [{ id: b, type: noop }] }",
    ] {
        let found = parse_text(&format!("name: fine\nnodes:\n{source}\n"));
        assert!(found.is_empty(), "in:\n{source}\nfound: {found:#?}");
    }
}
