//! Expressions: their results, their failures, and that they end.

mod bounds;
mod language;
mod numbers;

use super::*;

fn scope() -> Scope {
    let mut scope = Scope::new();
    let input = Json::parse(r#"{"n":9007199254740993,"name":"Ada","list":[1,2,3],"big":1e400}"#);
    scope.json("input", &input.unwrap());
    let node = ScopeNode {
        status: "COMPLETED",
        output: Json::parse(r#"{"body":{"age":18}}"#).unwrap(),
        failure: Json::null(),
    };
    scope.nodes([("get".to_owned(), node.clone()), ("cool-off".to_owned(), node)].into_iter());
    scope
}

fn eval(source: &str) -> Result<String, Failure> {
    Expression::compile(source).unwrap().eval(&scope()).map(|json| json.text().to_owned())
}

fn render(template: &serde_json::Value) -> Result<String, Failure> {
    Template::compile(template).unwrap().render(&scope()).map(|json| json.text().to_owned())
}

#[test]
fn values_keep_their_types() {
    for (source, expected) in [
        ("input.n", "9007199254740993"),
        ("input.n + 1", "9007199254740994"),
        ("input.name", "\"Ada\""),
        ("nodes.get.output.body.age >= 18", "true"),
        ("nodes['cool-off'].status", "\"COMPLETED\""),
        ("nodes.get.failure", "null"),
        ("input.list | length", "3"),
        ("input.list | join('-')", "\"1-2-3\""),
        ("input.missing | default('none')", "\"none\""),
        ("{'a': input.list, 'b': [true, none]}", r#"{"a":[1,2,3],"b":[true,null]}"#),
        ("'yes' if input.n > 1 else 'no'", "\"yes\""),
    ] {
        assert_eq!(eval(source).unwrap(), expected, "{source}");
    }
}

#[test]
fn templates_fill_holes() {
    use serde_json::json;
    for (template, expected) in [
        (json!("plain"), "\"plain\""),
        (json!("${{ input.list }}"), "[1,2,3]"),
        (json!("Hi ${{ input.name }}, ${{ input.list[0] }}!"), "\"Hi Ada, 1!\""),
        (json!({"a": ["${{ input.name }}", 1], "b": null}), r#"{"a":["Ada",1],"b":null}"#),
        (json!("${{ '}}' ~ {'a': {'b': 1}}.a.b }}"), "\"}}1\""),
        (json!("{{ not ours }} $ { }"), "\"{{ not ours }} $ { }\""),
    ] {
        assert_eq!(render(&template).unwrap(), expected, "{template}");
    }
}

#[test]
fn a_result_is_never_evaluated_again() {
    let mut scope = Scope::new();
    scope.json("input", &Json::parse(r#""${{ 7*7 }} {{ 7*7 }}""#).unwrap());
    let template = Template::compile(&serde_json::json!("${{ input }}")).unwrap();
    assert_eq!(template.render(&scope).unwrap().text(), r#""${{ 7*7 }} {{ 7*7 }}""#);
}

#[test]
fn bombs_are_stopped() {
    let long = |source: &str| {
        let mut scope = Scope::new();
        let big = "x".repeat(600_000);
        scope.json("input", &Json::from_value(&serde_json::json!(big)));
        Expression::compile(source).unwrap().eval(&scope).unwrap_err().kind
    };
    assert_eq!(long("input ~ input"), kind::EXPRESSION_LIMIT);
    assert_eq!(long("input | replace('x', 'yyyyyyyyyyyyyyyy')"), kind::EXPRESSION_LIMIT);
    assert_eq!(long("[input, input] | join(',')"), kind::EXPRESSION_LIMIT);
    for source in ["range(1000000000)", "'x' * 200000000", "range(9999) | map('string') | list"] {
        let result = eval(source);
        assert!(result.is_err() || result.unwrap().len() <= RESULT_BYTES_MAX, "{source}");
    }
    let deep = format!("{}1{}", "(".repeat(3000), ")".repeat(3000));
    assert!(Expression::compile(&deep).is_err());
    assert!(Expression::compile(&"1+".repeat(5000)).is_err());
}

#[test]
fn failures_say_what_and_where() {
    for (source, kind, part) in [
        ("input.missing", kind::EXPRESSION, "undefined"),
        ("input.missing.deeper", kind::EXPRESSION, "undefined"),
        ("unknown_name", kind::EXPRESSION, "undefined"),
        ("input.name + 1", kind::EXPRESSION, "input.name + 1"),
        ("input.big + 1", kind::NUMBER_OUT_OF_RANGE, "64 bits"),
    ] {
        let failure = eval(source).unwrap_err();
        assert_eq!(failure.kind, kind, "{source}: {failure:?}");
        assert!(failure.message.contains(part), "{source}: {failure:?}");
    }
    let not_bool = Expression::compile("1").unwrap().eval_bool(&scope()).unwrap_err();
    assert!(not_bool.message.contains("true or false"), "{not_bool:?}");
    assert!(Expression::compile("now()").unwrap().eval(&scope()).is_err());
}

#[test]
fn references_are_found_with_their_places() {
    let source =
        "nodes.get.output.x + nodes['cool-off'].output | default(input.n) and item is defined";
    let expression = Expression::compile(source).unwrap();
    let ids: Vec<_> = expression.references().nodes.iter().map(|n| n.id.as_str()).collect();
    assert_eq!(ids, ["get", "cool-off"]);
    let names: Vec<_> = expression.references().names.keys().map(String::as_str).collect();
    assert_eq!(names, ["input", "item", "nodes"]);
    let hyphen = Expression::compile("nodes.cool-off.output").unwrap();
    let reference = hyphen.references().nodes.first().unwrap().clone();
    assert_eq!(reference.hyphenated.as_deref(), Some("cool-off"));
    assert_eq!(&"nodes.cool-off.output"[reference.range], "nodes.cool");
    assert!(Expression::compile("nodes[input.n].output").unwrap_err().message.contains("node id"));
    assert!(Expression::compile("nodes").is_err());
}

#[test]
fn faults_point_into_the_string() {
    let fault = Template::compile(&serde_json::json!({"a": ["x ${{ 1 + }}"]})).unwrap_err();
    assert_eq!(fault.path, ["a", "0"]);
    assert!(fault.range.start >= 6, "{fault:?}");
    let open = Template::compile(&serde_json::json!("x ${{ 1")).unwrap_err();
    assert!(open.message.contains("not closed"));
}

#[test]
fn unknown_filters_and_tests_are_found_when_compiled() {
    for (source, message) in [
        ("input.n | nosuch", "there is no filter `nosuch`"),
        ("input.list | join('-') | uper", "there is no filter `uper`"),
        ("input.n is evn", "there is no test `evn`"),
        ("input.n is not evn", "there is no test `evn`"),
    ] {
        let fault = Expression::compile(source).unwrap_err();
        assert_eq!(fault.message, message);
        assert!(message.contains(&source[fault.range]), "{source}");
    }
    for source in [
        "input.n is defined and input.name is not none",
        "input.list | map('upper') | list",
        "input.n is not defined or input.list is sequence",
        "input.missing | default(none, true) is none",
    ] {
        assert!(Expression::compile(source).is_ok(), "{source}");
    }
}

#[test]
fn a_secret_leaves_its_place() {
    use serde_json::json;
    let rendered = |template: &serde_json::Value| {
        let rendered = Template::compile(template).unwrap().render_around_secrets(&scope());
        let Rendered { config, secrets } = rendered.unwrap();
        // Filled as it will be: a placeholder is right if the value lands where it was written.
        let mut text = config.text().to_owned();
        for Placeholder { at, name } in secrets.iter().rev() {
            text.insert_str(*at, &format!("<{name}>"));
        }
        assert!(Json::parse(&text).is_ok(), "{text}");
        text
    };
    for (template, expected) in [
        (json!("${{ secrets.key }}"), r#""<key>""#),
        (json!("${{secrets . key}}"), r#""<key>""#),
        (json!("Bearer ${{ secrets.a }}.${{ secrets._b2 }}!"), r#""Bearer <a>.<_b2>!""#),
        (json!("\"ö\n${{ input.name }}${{ secrets.k }}\\"), r#""\"ö\nAda<k>\\""#),
        (
            json!({"\"q": "${{ input.list }}", "z": [1, {"a": "${{ secrets.k }}"}, "${{ secrets.k }}"]}),
            r#"{"\"q":[1,2,3],"z":[1,{"a":"<k>"},"<k>"]}"#,
        ),
        (json!({"no": "secret"}), r#"{"no":"secret"}"#),
    ] {
        assert_eq!(rendered(&template), expected, "{template}");
    }
}

#[test]
fn data_cannot_pass_for_a_secret() {
    let mut scope = Scope::new();
    let input = serde_json::json!({"a": "${{ secrets.key }}", "secrets": {"key": "mine"}});
    scope.json("input", &Json::from_value(&input));
    let template = serde_json::json!(["${{ input.a }}", "x ${{ input.secrets.key }}"]);
    let rendered = Template::compile(&template).unwrap().render_around_secrets(&scope).unwrap();
    assert_eq!(rendered.config.text(), r#"["${{ secrets.key }}","x mine"]"#);
    assert_eq!(rendered.secrets, []);
}

#[test]
fn no_expression_sees_a_secret() {
    for source in [
        "secrets.key | upper",
        "secrets.key ~ 'a'",
        "secrets['key']",
        "secrets",
        "(secrets.key)",
        "secrets.key if true else 1",
        "[secrets.key][0]",
    ] {
        let expression = Expression::compile(source).unwrap();
        assert_eq!(expression.secret(), None, "{source}");
        let hole = serde_json::json!(format!("${{{{ {source} }}}}"));
        let template = Template::compile(&hole).unwrap();
        let failure = template.render_around_secrets(&scope()).unwrap_err();
        assert!(failure.message.contains("undefined"), "{source}: {failure:?}");
    }
    // Where the engine evaluates itself, not even a secret by itself.
    let template = Template::compile(&serde_json::json!("a ${{ secrets.key }}")).unwrap();
    assert_eq!(template.render(&scope()).unwrap_err().kind, kind::EXPRESSION);
}
