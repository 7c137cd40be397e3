//! The language is minijinja's: equal expressions over equal input have equal values.

use super::*;

const INPUT: &str = r#"{
    "n": 7, "neg": -3, "f": 2.5, "zero": 0, "name": "Ada Lovelace", "empty": "", "yes": true,
    "none": null, "list": [3, 1, 2], "words": ["b", "A", "c", "a"], "deep": {"a": {"b": [1, 2]}},
    "orders": [
        {"id": 1, "total": 20, "paid": true, "by": "x"}, {"id": 2, "total": 5, "paid": false, "by": "y"},
        {"id": 3, "total": 17, "paid": true, "by": "X"}
    ],
    "text": "one two  three\nfour", "ss": "straße", "num": "42", "dec": "1.5", "html": "<a href='x'>&"
}"#;

const SAME: &str = include_str!("language-same.txt");

/// Expressions that fail in minijinja fail here, with the same kind of failure.
const FAILING: &str = include_str!("language-failing.txt");

fn minijinja(source: &str) -> Result<serde_json::Value, String> {
    let mut environment = minijinja::Environment::new();
    environment.set_undefined_behavior(minijinja::UndefinedBehavior::Strict);
    let scope = format!("{{\"input\":{INPUT}}}");
    let scope: minijinja::Value = serde_json::from_str(&scope).unwrap();
    let compiled = environment.compile_expression(source).map_err(|error| error.to_string())?;
    let value = compiled.eval(scope).map_err(|error| format!("{error:#}"))?;
    if value.is_undefined() {
        return Err("undefined".into());
    }
    serde_json::to_value(value).map_err(|error| error.to_string())
}

fn ours(source: &str) -> Result<serde_json::Value, String> {
    let mut scope = Scope::new();
    scope.json("input", &Json::parse(INPUT).unwrap());
    let expression = Expression::compile(source).map_err(|fault| fault.message)?;
    let value = expression.eval(&scope).map_err(|failure| failure.message)?;
    Ok(value.to_value().unwrap())
}

#[test]
fn language_gives_what_minijinja_gives() {
    let mut different = Vec::new();
    for source in SAME.trim().lines() {
        let (theirs, ours) = (minijinja(source), ours(source));
        if theirs.is_err() || theirs != ours {
            different.push(format!("{source}\n  minijinja: {theirs:?}\n  ours:      {ours:?}"));
        }
    }
    for source in FAILING.trim().lines() {
        let (theirs, ours) = (minijinja(source), ours(source));
        if theirs.is_ok() || ours.is_ok() {
            different.push(format!("{source}\n  minijinja: {theirs:?}\n  ours:      {ours:?}"));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

/// An upgrade of minijinja cannot add anything: the names are those of our own lists, and these are
/// the ones that `docs/reference/expressions.md` has.
#[test]
fn names_outside_of_our_lists_are_unknown() {
    for name in [
        "indent",
        "format",
        "pprint",
        "urlencode",
        "safe",
        "escape",
        "e",
        "attr",
        "filesizeformat",
        "truncate",
        "wordcount",
        "random",
        "xmlattr",
        "striptags",
        "wordwrap",
        "center",
        "nosuch",
    ] {
        let fault = Expression::compile(&format!("input | {name}")).unwrap_err();
        assert_eq!(fault.message, format!("there is no filter `{name}`"));
    }
    for name in ["safe", "escaped", "filter", "test", "callable", "nosuch"] {
        let fault = Expression::compile(&format!("input is {name}")).unwrap_err();
        assert_eq!(fault.message, format!("there is no test `{name}`"));
    }
    for name in ["now", "random", "lipsum", "cycler", "joiner", "namespace", "debug", "dict"] {
        assert!(eval(&format!("{name}()")).unwrap_err().message.contains("no function"), "{name}");
    }
    let page = include_str!("../../../../../docs/reference/expressions.md");
    let filters = filters::FILTERS.iter().flat_map(|filter| filter.names);
    let tests = checks::CHECKS.iter().flat_map(|check| check.names);
    for name in filters.chain(tests) {
        assert!(page.contains(&format!("`{name}`")), "docs/reference/expressions.md lacks {name}");
    }
}

#[test]
fn names_given_to_map_and_select_are_checked_when_compiled() {
    for (source, message) in [
        ("input.list | map('nosuch')", "there is no filter `nosuch`"),
        ("input.list | map(\"nosuch\", 1) | list", "there is no filter `nosuch`"),
        ("[input.list | map('uper')]", "there is no filter `uper`"),
        ("input.list | select('nosuch')", "there is no test `nosuch`"),
        ("input.list | reject('evn')", "there is no test `evn`"),
        ("input.list | selectattr('a', 'nosuch', 1)", "there is no test `nosuch`"),
        ("input.list | rejectattr('a.b', 'nosuch')", "there is no test `nosuch`"),
    ] {
        let fault = Expression::compile(source).unwrap_err();
        assert_eq!(fault.message, message, "{source}");
        let name = message.split('`').nth(1).unwrap();
        assert_eq!(source[fault.range].trim_matches(['\'', '"']), name, "{source}");
    }
    for source in ["input.list | map(input.filter)", "input.list | selectattr('nosuch')"] {
        assert!(Expression::compile(source).is_ok(), "{source}");
    }
}
