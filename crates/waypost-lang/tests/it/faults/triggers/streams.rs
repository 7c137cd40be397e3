//! Faults of triggers that fire with streams and tables.

use super::{Case, Code, on};

/// A stream with this source.
fn source(message: &'static str, hint: &'static str, fields: &str) -> Case {
    on(Code::BadSource, message, hint, &format!("{{ stream: s, source: {{ {fields} }} }}"))
}

/// A stream of Redis, with these fields.
fn redis(code: Code, message: &'static str, hint: &'static str, fields: &str) -> Case {
    let source = "source: { redis: shop, stream: orders }";
    on(code, message, hint, &format!("{{ stream: s, {source}, {fields} }}"))
}

pub(super) fn cases() -> Vec<Case> {
    use Code::*;
    let url = "must be the name of a source in the settings";
    let table = "postgres: erp, table: t, key: id";
    vec![
        on(MissingField, "a `stream` trigger needs `source`", "redis: shop", "{ «stream»: s }"),
        on(
            MissingField,
            "`source` needs `stream`",
            "`stream: orders`",
            "{ stream: s, «source»: { redis: shop } }",
        ),
        on(
            MissingField,
            "`source` needs `key`",
            "identifies a row",
            "{ stream: s, «source»: { postgres: erp, table: t, done: d } }",
        ),
        on(
            MissingField,
            "`source` needs `done`",
            "`done: delete`",
            "{ stream: s, «source»: { postgres: erp, table: t, key: id } }",
        ),
        on(
            MissingField,
            "`source` needs `xid`",
            "xid8",
            "{ stream: s, «source»: { postgres: erp, table: t, key: id, safe: xid } }",
        ),
        on(
            BadSource,
            "exactly one of `redis` and `postgres`",
            "redis: shop",
            "{ stream: s, «source»: { stream: orders } }",
        ),
        source("exactly one of", "redis: shop", "«redis»: a, postgres: b"),
        source(url, "the settings have the URL", "redis: «\"redis://u:p@h\"», stream: a"),
        source(
            "`table` does not go with `redis`",
            "redis: shop",
            "redis: a, stream: b, «table»: c",
        ),
        source("`stream` must have 1 to 512", "", "redis: a, stream: «\"\"»"),
        source(
            "`table` cannot be `a.b.c`",
            "schema.table",
            "postgres: a, table: «a.b.c», key: id, done: d",
        ),
        source("`safe` must be `mark` or `xid`", "", &format!("{table}, safe: «no»")),
        source(
            "`order` does not go with `safe: xid`",
            "has `done`",
            &format!("{table}, safe: xid, xid: x, «order»: o"),
        ),
        source(
            "`xid` does not go with `safe: mark`",
            "has `done`",
            &format!("{table}, done: d, «xid»: x"),
        ),
        redis(BadSource, "`from` cannot be `yesterday`", "`beginning`", "from: «yesterday»"),
        redis(BadInterval, "`every` must be from 100ms to 1h", "", "every: «1ms»"),
        redis(NameNotAvailable, "`body` is not available", "it sees `item`", "key: «body».id"),
        on(
            BadSource,
            "`from` does not go with `safe: mark`",
            "mark the rows",
            &format!("{{ stream: s, source: {{ {table}, done: d }}, from: «beginning» }}"),
        ),
        on(
            BadSource,
            "`from` cannot be `7-1`",
            "`now` or `beginning`",
            &format!("{{ stream: s, source: {{ {table}, safe: xid, xid: x }}, from: «7-1» }}"),
        ),
    ]
}
