//! The evaluation of any expression ends within its budget.

use super::*;

/// Less than an evaluation may do, so that bombs go off soon in a debug build.
const QUICK: u64 = WORK_MAX / 20;

/// An expression over hostile data: its kind of failure, and that the budget held.
fn kind_of(source: &str, input: &str, work: u64) -> String {
    let mut scope = Scope::new();
    scope.json("input", &Json::parse(input).unwrap());
    scope.limit_work(work);
    let expression =
        Expression::compile(source).unwrap_or_else(|fault| panic!("{source}: {fault}"));
    let outcome = expression.eval(&scope);
    assert!(scope.work() <= work);
    match outcome {
        Ok(json) => {
            assert!(json.bytes() <= RESULT_BYTES_MAX);
            "ok".to_owned()
        }
        Err(failure) => failure.kind.into_owned(),
    }
}

#[test]
fn bombs_are_harmless() {
    let data = r#"{"items":[1,2,3],"size":1000000000,"n":9223372036854775807}"#;
    let mut shared = "[1]".to_owned();
    for _ in 0..40 {
        shared = format!("[{shared} * 2]");
    }
    for source in [
        "range(10) | batch(1000000000, 'x')",
        "range(10) | slice(1000000000)",
        "[[1]] | tojson(indent=4000000000)",
        "([('a' * 1000000)] * 10000) | map('upper') | list",
        "input.items | slice(input.size)",
        "input.items | batch(input.size, 0)",
        "([[1] * 10000] * 10000) | map('sum') | sum",
        "'a' * 10**9",
        "[0] * 10**9",
        "[0] * 10**15",
        "([[[0] * 1000] * 1000] * 1000) | map('map', 'map', 'string') | list",
        "range(9999) | map('string') | join(',') * 100000",
        "('a' * 1000000) ~ ('b' * 1000000)",
        "([('a' * 1000) ~ 'b'] * 10000) | join",
        "('a' * 100000) | replace('a', 'bbbbbbbbbbbbbbbb')",
        "('a' * 1000000) | list | length",
        "('a' * 1000000) | split('') | length",
        "([('a' * 1000000)] * 1000) | sort | length",
        "([('ä' * 100000)] * 1000) | unique | length",
        "([('a' * 1000000)] * 1000) | map('replace', 'b', 'c') | list | length",
        "(['b' * 1000] * 10000) | select('in', 'a' * 1000000) | list | length",
        "([range(9999)] * 1000) | map('reverse') | map('first') | list",
        "([range(9999)] * 1000) | map('sort') | map('max') | sum",
        "([range(9999)] * 1000) | map('zip', range(9999)) | list | length",
        "([range(9999)] * 1000) | map('tojson') | list | length",
        "([range(9999)] * 1000) | map('join') | list | length",
        "([range(9999)] * 1000) | map('groupby', 'x') | list | length",
        "([range(9999)] * 9999) | map('length') | list | map('round', -300) | sum",
        "([1.5] * 100000) | map('round', 1000) | sum",
        "([1e308] * 100000) | map('string') | join | length",
        "(['ß' * 500000] * 100) | map('upper') | map('length') | list",
        "((('x' * 1000000) | list) == (('x' * 1000000) | list))",
        shared.as_str(),
        &format!("{shared} | tojson"),
        &format!("{shared} ~ ''"),
        &format!("{shared} == {shared}"),
        &format!("[{shared}, {shared}] | sort"),
    ] {
        assert_eq!(kind_of(source, data, QUICK), kind::EXPRESSION_LIMIT, "{source}");
    }
    for source in [
        "2 ** 10**18",
        "10 ** 1000",
        "9.5 ** 1000000",
        "input.n * input.n",
        "input.n ** input.n",
        "-9223372036854775808 * input.n",
        "-9223372036854775808 - 1",
        "18446744073709551615 + 1",
        "1e308 * 10",
        "'1e999' | float",
        "'nan' | float",
        "'99999999999999999999' | int",
        "1e300 | int",
        "18446744073709551615 | round(-19, 'ceil')",
    ] {
        assert_eq!(kind_of(source, data, QUICK), kind::NUMBER_OUT_OF_RANGE, "{source}");
    }
    for source in [
        "-9223372036854775808 | abs",
        "-9223372036854775808 // -1",
        "-9223372036854775808 % -1",
        "1.5 | round(1000000000)",
        "1.5 | round(-1000000000)",
        "15 | round(-1000000000)",
        "(-1) ** 10**18",
        "1 ** input.n",
        "[1, 2, 3][::input.n]",
        "[1, 2, 3][::-9223372036854775807]",
        "[1, 2, 3][-9223372036854775808:input.n]",
        "range(0, 9223372036854775807, 9223372036854775806)",
        "range(input.n, input.n)",
        "'abc'[input.n] | default('')",
    ] {
        assert_eq!(kind_of(source, data, QUICK), "ok", "{source}");
    }
}

/// A large payload can be used, whatever it contains: reading it leaves work for the rest.
#[test]
fn payloads_of_the_largest_size_can_be_used() {
    let fill = |part: &str| {
        let count = (crate::limits::PAYLOAD_BYTES_MAX - 20) / (part.len() + 1);
        format!("{{\"items\":[{}]}}", vec![part; count].join(","))
    };
    let shapes = ["0", "[]", "{}", "1.5", "\"\"", "\"\\n\"", "{\"a\":0}", "[1.25,2.5]", "null"];
    for part in shapes {
        assert_eq!(kind_of("input.items | length > 10", &fill(part), WORK_MAX), "ok", "{part}");
    }
    let text = format!("\"{}\"", "ä".repeat(500_000));
    assert_eq!(kind_of("input | upper | length > 10", &text, WORK_MAX), "ok");
    for part in ["0", "{\"a\":\"b\"}", "{\"key\":\"some text\",\"n\":17}"] {
        assert_eq!(kind_of("input", &fill(part), WORK_MAX), "ok", "{part}");
    }
    let source = "input.items | selectattr('n', 'gt', 3) | map(attribute='n') | sum";
    assert_eq!(kind_of(source, &fill("{\"key\":\"some text\",\"n\":17}"), WORK_MAX), "ok");
}

#[test]
fn holes_of_one_template_share_one_budget() {
    let scope = Scope::new();
    let hole = "${{ ([range(99)] * 10) | map('sum') | sum }}";
    let one = Template::compile(&serde_json::json!([hole])).unwrap();
    assert!(one.render(&scope).is_ok());
    let one_takes = scope.work();
    assert!(one_takes > 5_000, "{one_takes}");
    let many = Template::compile(&serde_json::json!(vec![hole; 2000])).unwrap();
    let mut scope = Scope::new();
    scope.limit_work(one_takes * 50);
    assert_eq!(many.render(&scope).unwrap_err().kind, kind::EXPRESSION_LIMIT);
    let text = Template::compile(&serde_json::json!(hole.repeat(2000))).unwrap();
    let mut scope = Scope::new();
    scope.limit_work(one_takes * 50);
    assert_eq!(text.render(&scope).unwrap_err().kind, kind::EXPRESSION_LIMIT);
}

/// The threads that parse and evaluate have 2 MiB each; half of one is enough, in a debug build, for
/// whatever nests as deep as it may.
#[test]
fn nesting_at_its_bound_fits_into_half_of_a_threads_stack() {
    let nest = |open: &str, inner: &str, close: &str, depth: usize| {
        format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
    };
    let shapes = [
        ("(", "1", ")"),
        ("[", "1", "]"),
        ("{'a':", "1", "}"),
        ("not(", "1", ")"),
        ("-(", "1", ")"),
        ("1+(", "1", ")"),
        ("1**(", "1", ")"),
        ("1+2~3*4**(", "1", ")"),
        ("1 if(", "1", ")else 2"),
        ("1 in[", "1", "]"),
        ("1 and not 2 or 3<4+(", "1", ")"),
        ("[1][", "0", "]"),
        ("[1][0:", "0", "]"),
        ("range(", "0", ")"),
        ("1|default(", "1", ")"),
        ("1|default(default=", "1", ")"),
        ("1 is eq(", "1", ")"),
        ("1 is eq[", "1", "]"),
    ];
    let run = move || {
        for (open, inner, close) in shapes {
            // The expression itself is the first level, and a shape may need two for each.
            let deepest = (1..=NESTING_MAX + 1)
                .find(|depth| Expression::compile(&nest(open, inner, close, *depth)).is_err())
                .unwrap_or_else(|| panic!("{open}: no bound"));
            assert!(deepest >= NESTING_MAX / 2, "{open}: {deepest}");
            let source = nest(open, inner, close, deepest - 1);
            let expression = Expression::compile(&source).unwrap();
            // Whether it has a value is not the point; that it returns is.
            expression.eval(&Scope::new()).ok();
            let fault = Expression::compile(&nest(open, inner, close, 350)).unwrap_err();
            assert!(fault.message.contains("brackets nest more than"), "{open}: {fault:?}");
        }
    };
    let thread = std::thread::Builder::new().stack_size(1024 * 1024).spawn(run).unwrap();
    thread.join().unwrap();
}

/// Repetition without brackets does not nest, however long it is.
#[test]
fn long_rows_of_operators_need_no_stack() {
    let fill = |head: &str, part: &str, tail: &str| {
        let count = (SOURCE_BYTES_MAX - head.len() - tail.len()) / part.len();
        format!("{head}{}{tail}", part.repeat(count))
    };
    let run = move || {
        for source in [
            fill("", "-", "1"),
            fill("", "- ", "input"),
            fill("", "not ", "1"),
            fill("1", "+1", ""),
            fill("1", "~1", ""),
            fill("1", "**1", ""),
            fill("1", "*1+1", ""),
            fill("1", "==1", ""),
            fill("1", " and 1", ""),
            fill("1", " or 1", ""),
            fill("1", " if 1 else 1", ""),
            fill("input", ".a", ""),
            fill("input", "[0]", ""),
            fill("[1]", "[:]", ""),
            fill("1", "|d", ""),
            fill("1", " is odd", ""),
            fill("[1]", "|zip", ""),
            fill("[1]", "|list", ""),
            fill("[1]", "|batch(1)", ""),
            fill("input", "()", ""),
            fill("''", "''", ""),
            fill("[", "1,", "]"),
            fill("1 is eq ", "-", "1"),
        ] {
            let expression = Expression::compile(&source)
                .unwrap_or_else(|fault| panic!("{}: {fault}", &source[..20]));
            let scope = Scope::new();
            expression.eval(&scope).ok();
            assert!(scope.work() <= WORK_MAX);
        }
        let deep = fill("[1]", "|zip", "");
        let failure = Expression::compile(&deep).unwrap().eval(&Scope::new()).unwrap_err();
        assert_eq!(failure.kind, kind::EXPRESSION_LIMIT);
    };
    let thread = std::thread::Builder::new().stack_size(512 * 1024).spawn(run).unwrap();
    thread.join().unwrap();
}
