//! One case per fault: what is written, and what is said about it.
//!
//! In each source the place that a fault must point to is marked by `«` and `»`; the marks are
//! taken out before it is parsed. A case holds exactly the faults that it lists, in order.

mod bodies;
mod maps;
mod triggers;

use std::collections::BTreeSet;

use waypost_lang::{Code, Diagnostics, Severity, parse};

use crate::kinds::catalog;

struct Case {
    code: Code,
    /// Part of the message.
    message: &'static str,
    /// Part of the hint; empty where there is none.
    hint: &'static str,
    source: String,
    /// Other faults that follow from the same mistake.
    also: &'static [Code],
}

impl Case {
    /// Marks the first place of this text.
    fn at(self, place: &str) -> Self {
        Self { source: self.source.replacen(place, &format!("«{place}»"), 1), ..self }
    }

    fn also(self, also: &'static [Code]) -> Self {
        Self { also, ..self }
    }
}

fn case(code: Code, message: &'static str, hint: &'static str, source: &str) -> Case {
    Case { code, message, hint, source: source.to_owned(), also: &[] }
}

/// A definition of the given nodes.
fn nodes(code: Code, message: &'static str, hint: &'static str, nodes: &str) -> Case {
    case(code, message, hint, &format!("name: test\nnodes:\n{nodes}\n"))
}

/// A node `first`, a container with this config and body, a node `side`, and a node `last` with these
/// fields.
fn contained(
    (code, message, hint): (Code, &'static str, &'static str),
    (id, kind, config): (&str, &str, &str),
    body: &str,
    last: &str,
) -> Case {
    let lines = format!(
        "  - {{ id: first, type: noop }}\n\
         \x20 - id: {id}\n    type: {kind}\n    needs: first\n    config: {{ {config} }}\n    nodes:\n\
         \x20     {body}\n\
         \x20 - {{ id: side, type: noop }}\n\
         \x20 - {{ id: last, type: noop, {last} }}"
    );
    nodes(code, message, hint, &lines)
}

/// A body that reads nothing.
const GET: &str = "- { id: get, type: noop }";

/// A body of a transform that reads this.
fn reads(expression: &str) -> String {
    format!("- {{ id: get, type: transform, config: {{ value: \"${{{{ {expression} }}}}\" }} }}")
}

/// A definition of one node with the given lines.
fn node(code: Code, message: &'static str, hint: &'static str, lines: &str) -> Case {
    nodes(code, message, hint, &format!("  - id: a\n    type: noop\n    {lines}"))
}

/// A definition of one call with the given config.
fn config(code: Code, message: &'static str, hint: &'static str, fields: &str) -> Case {
    let call = format!("  - id: call\n    type: api-call\n    config: {{ url: /, {fields} }}");
    nodes(code, message, hint, &call)
}

/// A definition with this concurrency block.
fn keyed(code: Code, message: &'static str, hint: &'static str, fields: &str) -> Case {
    let source =
        format!("name: a\nconcurrency: {{ {fields} }}\nnodes: [{{ id: a, type: noop }}]\n");
    case(code, message, hint, &source)
}

/// A condition over an input whose schema knows a few fields, two of which are required.
fn touches(code: Code, message: &'static str, hint: &'static str, expression: &str) -> Case {
    case(code, message, hint, &touching(expression))
}

fn touching(expression: &str) -> String {
    format!(
        "name: test\n\
         input:\n\
         \x20 type: object\n\
         \x20 required: [name, lines, known]\n\
         \x20 properties:\n\
         \x20   name: {{ type: string }}\n\
         \x20   nick: {{ type: string }}\n\
         \x20   coupon: {{ $ref: '#/$defs/coupon' }}\n\
         \x20   lines: {{ type: array, items: {{ $ref: '#/$defs/line' }} }}\n\
         \x20   either: {{ anyOf: [{{ required: [a] }}], properties: {{ a: {{}}, b: {{}} }} }}\n\
         \x20   free: {{ type: object, additionalProperties: {{ type: string }} }}\n\
         \x20   anything: true\n\
         \x20 $defs:\n\
         \x20   coupon: {{ type: object, required: [code], properties: {{ code: {{}}, by: {{}} }} }}\n\
         \x20   line: {{ type: object, required: [price], properties: {{ price: {{}}, note: {{}} }} }}\n\
         nodes:\n\
         \x20 - id: a\n\
         \x20   type: condition\n\
         \x20   config: {{ expression: \"{expression}\" }}\n"
    )
}

/// Fields that may be missing but have a guard, and fields about which the schema is inconclusive.
#[test]
fn uses_of_the_input_that_are_guarded_or_unclear_are_not_warned_of() {
    for silent in [
        "input.name == 'x'",
        "input.nick | default('') == 'x'",
        "(input.nick) | default('') == 'x'",
        "input.nick | d('') == 'x'",
        "input.nick | trim | default('') == 'x'",
        "input.nick is defined and input.nick == 'x'",
        "input.nick is not defined or input.nick == 'x'",
        "(input.nick == 'x') if input.nick is defined else false",
        "'nick' in input and input.nick == 'x'",
        "'nick' not in input or input['nick'] == 'x'",
        "input.coupon is defined and input.coupon.code == 'x'",
        "(input.coupon | default({})).by | default('') == 'x'",
        "input.name | default(input.nick) == 'x'",
        "input.lines[0].price > 1",
        "input.lines[-1]['price'] > 1",
        "input.lines | map(attribute='note') | list | length > 1",
        "input.lines[1:] | length > 1",
        "input.known == 1",
        "input.known.deeper.still == 1",
        "input.either is defined and input.either.b == 1",
        "input.free is defined and input.free.colour == 'red'",
        "input.anything is defined and input.anything.at_all == 1",
        "input.coupon.code.deeper is defined and input.coupon is defined",
        "input[execution.id] == 1",
        "input == {}",
    ] {
        let found = parse_text(&touching(silent));
        let said: Vec<&str> = found.faults.iter().map(|fault| fault.message.as_str()).collect();
        assert!(said.is_empty(), "{silent}: {said:?}");
    }
}

/// Fields inside of what was asked for are judged by their own schema.
#[test]
fn guard_of_a_field_does_not_guard_what_is_optional_inside() {
    let found = parse_text(&touching("input.coupon is defined and input.coupon.by == 'x'"));
    let codes: Vec<Code> = found.faults.iter().map(|fault| fault.code).collect();
    assert_eq!(codes, [Code::MayBeMissing]);
}

/// A call with this header, which has a secret that does not stand alone.
fn secret(header: &str) -> Case {
    let message = "must stand alone in its `${{ }}`";
    config(Code::SecretNotAlone, message, "basicAuth", &format!("headers: {{ a: \"{header}\" }}"))
}

/// A node `first`, then one that transforms `value`.
fn value(code: Code, message: &'static str, hint: &'static str, value: &str) -> Case {
    let lines = format!(
        "  - {{ id: first, type: noop }}\n  - {{ id: cool-off, type: noop, needs: first }}\n\
         \x20 - {{ id: side, type: noop }}\n\
         \x20 - id: last\n    type: transform\n    needs: cool-off\n    config:\n      value: {value}"
    );
    nodes(code, message, hint, &lines)
}

fn parse_text(source: &str) -> Diagnostics {
    match parse(source.as_bytes(), &catalog()) {
        Ok(compiled) => compiled.warnings,
        Err(diagnostics) => diagnostics,
    }
}

/// The source without its marks, and the marked bytes with their line and column.
fn unmarked(source: &str) -> (String, Option<(std::ops::Range<usize>, usize, usize)>) {
    let Some(start) = source.find('«') else { return (source.to_owned(), None) };
    let plain = source.replace(['«', '»'], "");
    let end = source.find('»').expect("« needs »") - '«'.len_utf8();
    let before = &plain[..start];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (plain, Some((start..end, line, column)))
}

fn cases() -> Vec<Case> {
    cases_without_bodies()
        .into_iter()
        .chain(bodies::cases())
        .chain(maps::cases())
        .chain(triggers::cases())
        .collect()
}

#[expect(clippy::too_many_lines, reason = "a table: one row per fault")]
fn cases_without_bodies() -> Vec<Case> {
    use Code::*;
    vec![
        // Text, YAML and JSON.
        case(Syntax, "mapping values are not allowed", "quotes", "name: a«:» b\n"),
        case(
            Syntax,
            "not valid JSON: expected `,` or `}`",
            "",
            "{\"name\": \"x\" «\"»nodes\": []}",
        ),
        case(
            Syntax,
            "expected a field name",
            "JSON has no comments",
            "{\"name\": \"x\",\n «/»/ comment\n \"nodes\": []}",
        ),
        case(Syntax, "tabs", "indent with spaces", "name: x\nnodes:\n\t«-» id: a\n"),
        case(
            Syntax,
            "expected ',' or '}'",
            "needs quotes",
            "name: x\nnodes:\n  - { id: $«{»{ input.x }} }\n",
        ),
        case(TooDeep, "deeper than 100", "", &format!("a: {}«[»", "[".repeat(100))),
        case(RecursiveAlias, "inside the value", "", "name: &x [«*x»]\n"),
        case(
            UnsupportedYaml,
            "tags are not supported",
            "remove the tag",
            "name: «!!str» test\nnodes: [{ id: a, type: noop }]\n",
        ),
        case(MultipleDocuments, "more than one", "file of its own", "name: a\n«---»\nname: b\n"),
        case(EmptyDefinition, "no definition", "at least a `name`", "# nothing here\n"),
        value(BadNumber, "leading zeros", "between quotes", "«012»"),
        value(BadNumber, "too large for 64 bits", "between quotes", "«1e400»"),
        value(BadNumber, "infinity", "between quotes", "«.inf»"),
        // The definition's own fields.
        case(WrongType, "a definition must be a mapping, not a list", "", "«- a\n- b»\n"),
        case(
            UnknownField,
            "has no field `nme`",
            "did you mean `name`?",
            "name: a\n«nme»: b\nnodes: [{ id: a, type: noop }]\n",
        ),
        case(
            UnknownField,
            "has no field `version`",
            "its fields are",
            "name: a\n«version»: 1\nnodes: [{ id: a, type: noop }]\n",
        ),
        case(
            DuplicateField,
            "`name` is given twice",
            "remove one",
            "name: a\n«name»: b\nnodes: [{ id: a, type: noop }]\n",
        ),
        case(MissingField, "needs `name`", "", "«nodes»: [{ id: a, type: noop }]\n"),
        case(MissingField, "needs `nodes`", "", "«name»: test\n"),
        case(MissingField, "needs `nodes`", "", "name: test\n«nodes»:\n"),
        case(
            BadName,
            "`name` cannot be `my flow`",
            "use up to 128",
            "name: «my flow»\nnodes: [{ id: a, type: noop }]\n",
        ),
        case(
            WrongType,
            "`name` must be a text, not a number",
            "between quotes",
            "name: «12»\nnodes: [{ id: a, type: noop }]\n",
        ),
        case(
            BadValue,
            "must be `fail-fast` or `partial`",
            "did you mean `partial`?",
            "name: a\nfailurePolicy: «partail»\nnodes: [{ id: a, type: noop }]\n",
        ),
        case(
            BadDuration,
            "must be a duration, not `soon`",
            "30s",
            "name: a\ntimeout: «soon»\nnodes: [{ id: a, type: noop }]\n",
        ),
        case(
            WrongType,
            "a label must be a text",
            "",
            "name: a\nlabels: { team: «[x]» }\nnodes: [{ id: a, type: noop }]\n",
        ),
        keyed(MissingField, "`concurrency` needs `key`", "key: all", "limit: 2").at("concurrency"),
        keyed(UnknownField, "keys", "did you mean `key`", "«keys»: x"),
        keyed(BadValue, "`limit` must be a whole number from 1", "", "key: x, limit: «0»"),
        keyed(WrongType, "`limit` must be a whole number", "", "key: x, limit: «two»"),
        keyed(BadValue, "`policy`", "did you mean `queue`", "key: x, policy: «queu»"),
        keyed(WrongType, "`key` must be", "", "key: «[x]»"),
        keyed(BadValue, "`key` must not be empty", "", "key: «''»"),
        keyed(BadExpression, "", "", "key: \"${{ input«.» }}\""),
        keyed(
            NameNotAvailable,
            "`nodes` is not available in a concurrency key",
            "`input` and `execution`",
            "key: \"${{ «nodes».a.output }}\"",
        ),
        keyed(
            NameNotAvailable,
            "`variables` is not available in a concurrency key",
            "`input` and `execution`",
            "key: \"${{ «variables».a }}\"",
        ),
        keyed(
            SecretNotAllowed,
            "cannot be used in a concurrency key",
            "would be stored",
            "key: \"${{ «secrets».a }}\"",
        ),
        keyed(UnknownName, "inptu", "did you mean `input`", "key: \"${{ «inptu».a }}\""),
        case(
            WrongType,
            "`concurrency` must be",
            "",
            "name: a\nconcurrency: «one»\nnodes: [{ id: a, type: noop }]\n",
        ),
        case(
            BadInputSchema,
            "not a valid JSON Schema",
            "",
            "name: a\ninput:\n  type: «thing»\nnodes: [{ id: a, type: noop }]\n",
        ),
        case(
            BadInputSchema,
            "outside of itself",
            "$defs",
            "name: a\ninput: { $ref: «\"https://example.com/x\"» }\nnodes: [{ id: a, type: noop }]\n",
        ),
        case(
            WrongType,
            "`input` must be a JSON Schema",
            "for example",
            "name: a\ninput: «object»\nnodes: [{ id: a, type: noop }]\n",
        ),
        case(NoNodes, "at least one node", "", "name: a\nnodes: «[]»\n"),
        case(
            WrongType,
            "`nodes` must be a list",
            "- id",
            "name: a\nnodes: «{ a: { type: noop } }»\n",
        ),
        // A node's own fields.
        nodes(WrongType, "a node must be a mapping", "", "  - «a»"),
        node(UnknownField, "a node has no field `need`", "did you mean `needs`?", "«need»: []"),
        nodes(MissingField, "has no `id`", "by its id", "  - «type»: noop"),
        nodes(MissingField, "has no `type`", "type: api-call", "  - «id»: a"),
        nodes(BadName, "`id` cannot be `a b`", "use up to 64", "  - { id: «a b», type: noop }"),
        node(UnknownField, "no field `dependsOn`", "did you mean `needs`?", "«dependsOn»: [b]"),
        node(DuplicateField, "both `id` and `nodeId`", "remove one", "«nodeId»: b"),
        nodes(
            UnknownKind,
            "no node kind `aip-call`",
            "did you mean `api-call`?",
            "  - { id: a, type: «aip-call» }",
        ),
        nodes(
            UnknownKind,
            "no node kind `teleport`",
            "the kinds are",
            "  - { id: a, type: «teleport» }",
        ),
        nodes(MissingField, "needs a `subType`", "type: api-call", "  - { id: a, type: «action» }"),
        nodes(
            BadValue,
            "`subType` is only allowed with",
            "remove `subType`",
            "  - { id: a, type: noop, «subType»: noop }",
        ),
        nodes(
            WrongFamily,
            "`noop` belongs to `type: logic`, not `action`",
            "type: logic",
            "  - { id: a, type: «action», subType: noop }",
        ),
        node(WrongType, "`label` must be a text, not a list", "", "label: «[]»"),
        node(BadDuration, "`timeout` cannot be negative", "", "timeout: «-5s»"),
        node(BadDuration, "longer than a hundred years", "", "timeout: «P500Y»"),
        node(BadDuration, "longer than a hundred years", "", "timeout: «1e300»"),
        node(BadDuration, "must be a duration, not `NaN`", "30s", "timeout: «NaN»"),
        node(BadDuration, "longer than zero", "leave the field out", "deadline: «0»"),
        node(BadDuration, "is not allowed here", "30s", "timeout: «${{ input.t }}»"),
        nodes(
            BadDuration,
            "`heartbeat` must be longer than zero",
            "leave the field out",
            "  - { id: a, type: api-call, config: { url: / }, heartbeat: «0s» }",
        ),
        nodes(
            BadDuration,
            "`heartbeat` cannot be negative",
            "",
            "  - { id: a, type: api-call, config: { url: / }, heartbeat: «-1s» }",
        ),
        nodes(
            BadDuration,
            "`heartbeat` must be shorter than the `timeout` of 30s",
            "make it shorter",
            "  - { id: a, type: api-call, config: { url: / }, heartbeat: «30s», timeout: 30s }",
        ),
        node(
            BadValue,
            "`heartbeat` is not allowed on a `noop`",
            "such as `shell` or `worker`",
            "«heartbeat»: 30s",
        ),
        nodes(
            BadValue,
            "`heartbeat` is not allowed on a `group`",
            "the nodes in the body",
            "  - { id: a, type: group, «heartbeat»: 30s, nodes: [{ id: b, type: noop }] }",
        ),
        node(
            BadValue,
            "`breaker` is not allowed on a `noop`",
            "such as `api-call`",
            "«breaker»: { key: k }",
        ),
        nodes(
            BadValue,
            "`breaker` is not allowed on a `group`",
            "the nodes in the body",
            "  - { id: a, type: group, «breaker»: { key: k }, nodes: [{ id: b, type: noop }] }",
        ),
        nodes(
            MissingField,
            "`breaker` needs `key`",
            "name what they call",
            "  - { id: a, type: api-call, config: { url: / }, «breaker»: { failures: 3 } }",
        ),
        nodes(
            BadValue,
            "`failures` must be a whole number from 1 to 100, not 0",
            "",
            "  - { id: a, type: api-call, config: { url: / }, breaker: { key: k, failures: «0» } }",
        ),
        nodes(
            BadDuration,
            "`cooldown` must be from 100ms to 1d, not 10ms",
            "",
            "  - { id: a, type: api-call, config: { url: / }, breaker: { key: k, cooldown: «10ms» } }",
        ),
        nodes(
            BadValue,
            "`key` must have from 1 to 256 bytes",
            "",
            "  - { id: a, type: api-call, config: { url: / }, breaker: { key: «''» } }",
        ),
        nodes(
            SecretNotAllowed,
            "the key of a breaker",
            "only the config of an action",
            "  - { id: a, type: api-call, config: { url: / }, breaker: { key: \"${{ «secrets».k }}\" } }",
        ),
        nodes(
            UnknownField,
            "keys",
            "did you mean `key`",
            "  - { id: a, type: api-call, config: { url: / }, breaker: { «keys»: k } }",
        ),
        node(WrongType, "`deadline` must be a duration, not a boolean", "30s", "deadline: «true»"),
        node(
            BadValue,
            "must be `at-least-once` or `at-most-once`",
            "did you mean",
            "delivery: «atmostonce»",
        ),
        node(BadValue, "`merge` must be `last`", "", "merge: «first»"),
        node(BadName, "`onError` cannot be `go on`", "use up to", "onError: «go on»")
            .also(&[UnusedErrorBranch]),
        node(WrongType, "`needs` must be the id of a node", "needs: [a]", "needs: [«1»]"),
        node(MissingField, "an edge needs `node`", "", "needs: [«{ branch: x }»]"),
        node(
            UnknownField,
            "an edge has no field `from`",
            "its fields are",
            "needs: [{ node: a, «from»: b }]",
        )
        .also(&[SelfDependency]),
        node(BadValue, "`join` must be `all` or `any`", "", "join: «both»"),
        node(BadValue, "`join` must be a whole number from 1", "", "join: «0»"),
        node(WrongType, "`join` must be `all`, `any` or a whole number", "", "join: «[]»"),
        node(MissingField, "`join` needs a `count`", "any", "join: «{ cancelRest: true }»"),
        node(
            BadValue,
            "`cancelRest` has no use with `all`",
            "count: any",
            "join: { count: all, «cancelRest»: true }",
        ),
        node(
            UnknownField,
            "`retry` has no field `attempts`",
            "its fields are",
            "retry: { «attempts»: 3 }",
        ),
        node(
            BadValue,
            "`maxAttempts` must be a whole number from 1 to 1000",
            "",
            "retry: { maxAttempts: «0» }",
        ),
        node(
            BadValue,
            "`multiplier` must be a number from 1 to 100",
            "",
            "retry: { multiplier: «0.5» }",
        ),
        node(BadValue, "`jitter` must be a number from 0 to 1", "", "retry: { jitter: «2» }"),
        node(
            BadValue,
            "`retryOn` cannot contain `9xx`",
            "a class (5xx)",
            "retry: { retryOn: [«9xx»] }",
        ),
        node(WrongType, "`retryOn` must be a list", "", "retry: { retryOn: «5xx» }"),
        node(
            WrongType,
            "`enabled` must be true or false",
            "write `true`",
            "retry: { enabled: «yes» }",
        ),
        config(DuplicateField, "`retry` is given twice", "", "«retry»: {} }\n    retry: { "),
        node(
            BadName,
            "the name of a variable cannot be `a b`",
            "use up to",
            "variables: { «a b»: 1 }",
        ),
        // A node's config.
        config(
            UnknownField,
            "the config of `api-call` has no field `metod`",
            "did you mean `method`?",
            "«metod»: GET",
        ),
        nodes(
            MissingField,
            "`api-call` needs `url` in its config",
            "what it is for",
            "  - { id: a, type: «api-call» }",
        ),
        nodes(
            MissingField,
            "`api-call` needs `url` in its config",
            "what it is for",
            "  - { id: a, type: api-call, «config»: { method: GET } }",
        ),
        node(WrongType, "`config` must be a mapping", "", "config: «[]»"),
        config(
            BadValue,
            "`method` must be `GET` or `POST`",
            "did you mean `GET`?",
            "method: «get»",
        ),
        config(WrongType, "`headers` must be a mapping", "", "headers: «[]»"),
        config(WrongType, "`tags` must be a list", "", "tags: «x»"),
        config(BadValue, "`redirects` must be a whole number", "", "redirects: «-1»"),
        config(WrongType, "`redirects` must be a whole number", "", "redirects: «many»"),
        config(WrongType, "`weight` must be a number", "", "weight: «heavy»"),
        config(
            HoleNotAllowed,
            "`connection` must be a fixed value",
            "",
            "connection: «\"${{ input.c }}\"»",
        ),
        config(BadConfig, "only a POST has a body", "write `method: POST`", "body: «{ a: 1 }»"),
        nodes(
            BadDuration,
            "`duration` must be a duration",
            "30s",
            "  - { id: a, type: delay, config: { duration: «a while» } }",
        ),
        nodes(
            BadConfig,
            "unexpected end of input",
            "",
            "  - { id: a, type: switch, config: { cases: [{ when: «\"1 +\"», branch: x }] } }",
        ),
        // Expressions.
        value(BadExpression, "not closed", "", "before «${{ input.x»"),
        value(BadExpression, "unexpected", "", "\"\\té ${{ input.x «+» }}\""),
        nodes(
            BadExpression,
            "unexpected end of input",
            "",
            "  - { id: a, type: condition, config: { expression: \"1 «+»\" } }",
        ),
        nodes(
            HoleNotAllowed,
            "without `${{ }}`",
            "write `input.ok`",
            "  - { id: a, type: condition, config: { expression: «\"${{ input.ok }}\"» } }",
        ),
        nodes(
            WrongType,
            "`expression` must be a text, not a boolean",
            "quotes",
            "  - { id: a, type: condition, config: { expression: «true» } }",
        ),
        value(BadExpression, "no filter `uper`", "", "${{ input.x | «uper» }}"),
        value(
            UnknownName,
            "unknown name `inptu`",
            "did you mean `input`?",
            "\"\\té ${{ «inptu».x }}\"",
        ),
        value(UnknownName, "unknown name `first`", "nodes.first.output", "${{ «first».x }}"),
        value(UnknownName, "unknown name `now`", "execution.now", "${{ «now»() }}"),
        value(UnknownName, "unknown name `null`", "none", "${{ input.x == «null» }}"),
        value(
            NameNotAvailable,
            "`item` is only available in the body of a `map`",
            "the outputs of all items are `nodes.<id>.output.results`",
            "${{ «item» }}",
        ),
        value(
            NameNotAvailable,
            "`signal` is only available in the `filter`",
            "",
            "${{ «signal».x }}",
        ),
        value(
            NameNotAvailable,
            "`output` is only available in `variables`",
            "nodes.<id>.output",
            "${{ «output».x }}",
        ),
        value(
            SecretNotAllowed,
            "a node that the engine runs itself",
            "only the config of an action",
            "${{ «secrets».key }}",
        ),
        config(
            SecretNotAllowed,
            "`variables`",
            "only the config of an action",
            "} \n    variables: { x: \"${{ «secrets».key }}\" ",
        ),
        secret("${{ «secrets.key» | upper }}"),
        secret("${{ «secrets.key» ~ 'a' }}"),
        secret("${{ 'a' ~ «secrets.key» }}"),
        secret("${{ «secrets.key» | default('') }}"),
        secret("${{ (b) if «secrets.key» else 2 }}").also(&[UnknownName]),
        secret("Bearer ${{ («secrets.key») }}"),
        secret("${{ «secrets.key».part }}"),
        secret("${{ «secrets»['key'] }}"),
        secret("${{ «secrets»[input.key] }}"),
        secret("${{ «secrets» }}"),
        secret("${{ [«secrets» | length] }}"),
        config(
            BadName,
            "at most 64 characters",
            "",
            &format!("headers: {{ a: \"${{{{ «secrets.{}» }}}}\" }}", "k".repeat(65)),
        ),
        value(
            UnknownNode,
            "no node `frist`",
            "did you mean `first`?",
            "${{ «nodes.frist».output }}",
        ),
        value(UnknownNode, "no node `nothing`", "", "${{ «nodes['nothing']».output }}"),
        value(
            HyphenatedReference,
            "reads as a subtraction",
            "nodes['cool-off']",
            "${{ «nodes.cool-off».output }}",
        ),
        value(
            NotUpstream,
            "`side` is not upstream of `last`",
            "add `side` to the `needs`",
            "\n        - fine\n        - |\n          two lines\n          ${{ «nodes.side».output }}",
        ),
        value(NotUpstream, "cannot read its own result", "`output`", "${{ «nodes.last».output }}"),
        nodes(
            NotUpstream,
            "`b` is not upstream of `a`",
            "add `b`",
            "  - id: a\n    type: switch\n    config:\n      cases:\n        - { when: \"«nodes.b».output\", branch: x }\n  - { id: b, type: noop, needs: a }",
        ),
        nodes(
            MayBeSkipped,
            "`b` is not on every path to `d`",
            "default(",
            "  - { id: a, type: condition, config: { expression: input.ok } }\n\
             \x20 - { id: b, type: noop, needs: { node: a, branch: true } }\n\
             \x20 - { id: c, type: noop, needs: { node: a, branch: false } }\n\
             \x20 - { id: d, type: transform, needs: [b, c], config: { value: \"${{ «nodes.b».output }}\" } }",
        ),
        // The graph.
        nodes(
            DuplicateId,
            "another node with the id `a`",
            "of its own",
            "  - { id: a, type: noop }\n  - { id: «a», type: noop }",
        ),
        nodes(
            UnknownNode,
            "no node `frist`",
            "did you mean `first`?",
            "  - { id: first, type: noop }\n  - { id: b, type: noop, needs: [«frist»] }",
        ),
        node(SelfDependency, "`a` needs itself", "", "needs: [«a»]"),
        nodes(
            DuplicateNeed,
            "the edge from `a` is given twice",
            "",
            "  - { id: a, type: noop }\n  - { id: b, type: noop, needs: [a, «a»] }",
        ),
        nodes(
            Cycle,
            "a → b → c → a",
            "take one of these edges",
            "  - { id: start, type: noop }\n\
             \x20 - { id: a, type: noop, needs: [start, «c»] }\n\
             \x20 - { id: b, type: noop, needs: a }\n\
             \x20 - { id: c, type: noop, needs: b }\n\
             \x20 - { id: end, type: noop, needs: start }",
        ),
        nodes(
            NoEntry,
            "nothing can start",
            "first node",
            "  - { id: a, type: noop, needs: b }\n  - { id: b, type: noop, needs: a }",
        )
        .at("nodes")
        .also(&[Cycle, NoExit]),
        nodes(
            NoExit,
            "nothing can end",
            "",
            "  - { id: a, type: noop, needs: b }\n  - { id: b, type: noop, needs: a }",
        )
        .at("nodes")
        .also(&[Cycle, NoEntry]),
        nodes(
            Unreachable,
            "no path leads to `c`",
            "through a cycle",
            "  - { id: s, type: noop }\n\
             \x20 - { id: a, type: noop, needs: b }\n\
             \x20 - { id: b, type: noop, needs: a }\n\
             \x20 - { id: «c», type: noop, needs: b }",
        )
        .also(&[Cycle]),
        nodes(
            UnknownBranch,
            "`a` (condition) has no branch `yes`",
            "`error`, `false` and `true`",
            "  - { id: a, type: condition, config: { expression: input.ok } }\n\
             \x20 - { id: b, type: noop, needs: { node: a, branch: «yes» } }",
        ),
        nodes(
            UnknownBranch,
            "`a` (noop) has no branch `eror`",
            "did you mean `error`?",
            "  - { id: a, type: noop }\n\
             \x20 - { id: b, type: noop, needs: { node: a, branch: «eror» } }",
        ),
        nodes(
            UnknownBranch,
            "has no branch `error`",
            "`failed`",
            "  - { id: a, type: noop, onError: failed }\n\
             \x20 - { id: b, type: noop, needs: { node: a, branch: failed } }\n\
             \x20 - { id: c, type: noop, needs: { node: a, branch: «error» } }",
        ),
        nodes(
            ErrorBranchConflict,
            "never takes the branch `error`",
            "remove `onError: continue`",
            "  - { id: a, type: noop, onError: continue }\n\
             \x20 - { id: b, type: noop, needs: { node: a, branch: «error» } }",
        ),
        nodes(
            UnusedErrorBranch,
            "no edge takes it",
            "did you mean `continue`?",
            "  - { id: a, type: noop, onError: «contniue» }",
        ),
        node(
            MissingField,
            "`onError` needs `take`",
            "take: continue",
            "onError: «{ definitionErrors: true }»",
        ),
        node(
            UnknownField,
            "`onError` has no field `kinds`",
            "`take` and `definitionErrors`",
            "onError: { take: continue, «kinds»: [http] }",
        ),
        node(
            BadValue,
            "cannot be combined with `fail`",
            "",
            "onError: { take: fail, «definitionErrors»: true }",
        ),
        touches(
            MayBeMissing,
            "`coupon` may be missing",
            "is defined",
            "«input.coupon».code == 'x'",
        ),
        touches(MayBeMissing, "`nick` may be missing", "default", "«input.nick» == 'x'"),
        touches(
            MayBeMissing,
            "`coupon` may be missing",
            "default() does not cover",
            "«input.coupon».code | default('') == 'x'",
        ),
        touches(MayBeMissing, "`note` may be missing", "default", "«input.lines[0].note» == 'x'"),
        touches(
            UnknownInputField,
            "has no field `nmae`",
            "did you mean `name`",
            "«input.nmae» == 'x'",
        ),
        touches(
            UnknownInputField,
            "has no field `zzz`",
            "add it to the `properties`",
            "input.name == «input['zzz']»",
        ),
        config(
            NothingRetried,
            "the node has no `retry`",
            "maxAttempts: 100",
            "«retryWhen»: response.status == 202",
        ),
        config(
            NameNotAvailable,
            "`response` is only available in `failWhen` and `retryWhen`",
            "nodes.<id>.output",
            "body: { a: \"${{ «response» }}\" }, method: POST",
        ),
        config(
            UnknownName,
            "unknown name `respone`",
            "did you mean `response`",
            "retryWhen: «respone».status == 202",
        )
        .also(&[NothingRetried]),
        config(
            SecretNotAllowed,
            "in an expression about a response or a signal",
            "would be stored",
            "retryWhen: response.body == «secrets».token",
        )
        .also(&[NothingRetried]),
        nodes(
            NeverTaken,
            "this edge is never taken: `a` always fails",
            "branch: error",
            "  - { id: a, type: fail, config: { message: no } }\n\
             \x20 - { id: b, type: noop, needs: «a» }",
        ),
        nodes(
            MixedMerge,
            "`c` is skipped when `b` runs",
            "join: any",
            "  - { id: a, type: condition, config: { expression: input.ok } }\n\
             \x20 - { id: b, type: noop, needs: { node: a, branch: false } }\n\
             \x20 - { id: c, type: noop, needs: [b, { node: «a», branch: true }] }",
        ),
        nodes(
            JoinTooLarge,
            "the join waits for 2, but `b` needs only 1 node",
            "",
            "  - { id: a, type: noop }\n  - { id: b, type: noop, needs: a, join: «2» }",
        ),
        nodes(
            UnorderedWriters,
            "`a` and `b` both set `x`",
            "merge: last",
            "  - { id: a, type: noop, variables: { x: 1 } }\n\
             \x20 - { id: b, type: noop, variables: { «x»: 2 }, merge: last }",
        ),
    ]
}

/// Limits, which take a large source each: their tests are among those of robustness. And what depends on where
/// a definition is deployed.
const TESTED_IN_ANOTHER_FILE: &[Code] = &[
    Code::SourceTooLarge,
    Code::InvalidUtf8,
    Code::TooManyValues,
    Code::TooLarge,
    Code::UnknownSource,
];

#[test]
fn every_fault_points_to_its_place() {
    for case in cases() {
        let (source, marked) = unmarked(&case.source);
        let found = parse_text(&source).faults;
        let mut codes: Vec<Code> = found.iter().map(|fault| fault.code).collect();
        let mut expected: Vec<Code> = case.also.iter().copied().chain([case.code]).collect();
        codes.sort_unstable();
        expected.sort_unstable();
        assert_eq!(codes, expected, "in:\n{source}\nfound: {found:#?}");
        let fault = found.iter().find(|fault| fault.code == case.code).expect("compared above");
        assert!(fault.message.contains(case.message), "in:\n{source}\nfound: {fault:#?}");
        let hint = fault.hint.as_deref().unwrap_or_default();
        assert!(hint.contains(case.hint), "in:\n{source}\nfound: {fault:#?}");
        assert_eq!(hint.is_empty(), case.hint.is_empty(), "in:\n{source}\nfound: {fault:#?}");
        if let Some((span, line, column)) = marked {
            assert_eq!(
                (&fault.span, fault.line, fault.column),
                (&span, line, column),
                "in:\n{source}\nfound: {fault:#?} at {:?}",
                source.get(fault.span.clone())
            );
        }
    }
}

#[test]
fn every_code_has_a_case() {
    let tested: BTreeSet<Code> = cases()
        .iter()
        .map(|case| case.code)
        .chain(TESTED_IN_ANOTHER_FILE.iter().copied())
        .collect();
    let missing: Vec<&Code> = Code::ALL.iter().filter(|code| !tested.contains(code)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn warnings_do_not_stop_a_definition() {
    let warned = cases().into_iter().filter(|case| {
        let (source, _) = unmarked(&case.source);
        parse_text(&source).faults.iter().all(|fault| fault.severity == Severity::Warning)
    });
    let codes: BTreeSet<Code> = warned
        .map(|case| {
            assert!(parse(unmarked(&case.source).0.as_bytes(), &catalog()).is_ok());
            case.code
        })
        .collect();
    let expected = [
        Code::MayBeSkipped,
        Code::DuplicateNeed,
        Code::UnusedErrorBranch,
        Code::MayBeMissing,
        Code::UnknownInputField,
        Code::NothingRetried,
        Code::NeverTaken,
        Code::MixedMerge,
        Code::UnsignedHook,
    ];
    assert_eq!(codes, expected.into_iter().collect());
}

#[test]
fn line_ends_tabs_and_wide_characters_do_not_move_faults() {
    for case in cases() {
        // Inside of a text with two lines the line end is part of the text.
        if case.source.contains("|\n") || case.source.contains("- a\n- b") {
            continue;
        }
        let windows = case.source.replace('\n', "\r\n");
        let (source, Some((span, line, column))) = unmarked(&windows) else { continue };
        let fault = parse_text(&source).faults.into_iter().find(|f| f.code == case.code);
        let found = fault.map(|fault| (fault.span, fault.line, fault.column));
        assert_eq!(found, Some((span, line, column)), "in:\n{source}");
    }
}

#[test]
fn all_faults_are_found_at_once_in_order() {
    let source =
        "nme: x\nnodes:\n  - { id: a, type: nop }\n  - { id: a, type: noop, needs: [b] }\n";
    let found = parse_text(source).faults;
    let codes: Vec<Code> = found.iter().map(|fault| fault.code).collect();
    use Code::*;
    assert_eq!(codes, [UnknownField, UnknownKind, DuplicateId, UnknownNode]);
}

#[test]
fn check_of_valid_definitions_reports_no_fault() {
    for source in [
        // A diamond after a condition, read after the merge.
        "  - { id: a, type: condition, config: { expression: input.ok } }\n\
         \x20 - { id: t, type: noop, needs: { node: a, branch: 'true' } }\n\
         \x20 - { id: f, type: noop, needs: { node: a, branch: 'false' } }\n\
         \x20 - { id: m, type: noop, needs: [t, f] }\n\
         \x20 - { id: side, type: noop }\n\
         \x20 - { id: end, type: transform, needs: [m, side], config: { value: \"${{ [nodes.a.output, nodes.m.output, nodes.side.output] }}\" } }",
        // A node and its condition on one branch, joined again.
        "  - { id: a, type: condition, config: { expression: input.ok } }\n\
         \x20 - { id: b, type: noop, needs: { node: a, branch: true } }\n\
         \x20 - { id: c, type: transform, needs: [b, { node: a, branch: true }], config: { value: \"${{ nodes.b.output }}\" } }",
        // What the warning about skipped nodes advises.
        "  - { id: a, type: condition, config: { expression: input.ok } }\n\
         \x20 - { id: b, type: noop, needs: { node: a, branch: true } }\n\
         \x20 - { id: c, type: noop, needs: { node: a, branch: false } }\n\
         \x20 - { id: d, type: transform, needs: [b, c], config: { value: [\"${{ nodes.b.output | default(1, true) }}\", \"${{ nodes.b.status }}\", \"${{ 1 if nodes.b.status == 'COMPLETED' else nodes.b.failure }}\"] } }",
        // Writers on branches that exclude each other.
        "  - { id: a, type: condition, config: { expression: input.ok } }\n\
         \x20 - { id: b, type: noop, needs: { node: a, branch: true }, variables: { x: 1 } }\n\
         \x20 - { id: c, type: noop, needs: { node: a, branch: false }, variables: { x: 2 } }",
        // The branch of failures, by edge alone, and by a name of its own.
        "  - { id: a, type: noop }\n\
         \x20 - { id: b, type: transform, needs: { node: a, branch: error }, config: { value: \"${{ nodes.a.failure }}\" } }\n\
         \x20 - { id: c, type: noop, onError: oops }\n\
         \x20 - { id: d, type: noop, needs: { node: c, branch: oops } }",
        // A switch that selects a branch called error itself.
        "  - { id: a, type: switch, onError: continue, config: { cases: [{ when: input.bad, branch: error }], default: fine } }\n\
         \x20 - { id: b, type: noop, needs: { node: a, branch: error } }",
        // The join of any, over a direct edge and a way round.
        "  - { id: a, type: condition, config: { expression: input.ok } }\n\
         \x20 - { id: b, type: noop, needs: { node: a, branch: false } }\n\
         \x20 - { id: c, type: noop, needs: [b, { node: a, branch: true }], join: any }",
        // Names where they belong.
        "  - { id: a, type: wait, config: { name: go, filter: signal.n > 1 } }\n\
         \x20 - { id: b, type: api-call, needs: a, config: { url: \"${{ secrets.host }}/${{ range(3)|length }}\", headers: { a: \"Bearer ${{ secrets.a_1 }}\", b: \"${{secrets._b}}\" } }, variables: { x: \"${{ output.body }}\" } }\n\
         \x20 - { id: c, type: transform, needs: b, config: { value: \"${{ variables.x ~ execution.now ~ trigger.kind }}\" } }",
    ] {
        let found = parse_text(&format!("name: fine\nnodes:\n{source}\n"));
        assert!(found.is_empty(), "in:\n{source}\nfound: {found:#?}");
    }
}
