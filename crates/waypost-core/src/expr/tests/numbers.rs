//! Numbers that do not fit: carried exactly, refused where they are computed with.

use super::*;

/// Integers beyond 64 bits, decimals that a float would change, and spellings that would be lost.
const ODD: [&str; 12] = [
    "100000000000000000001",
    "-100000000000000000001",
    "18446744073709551616",
    "-9223372036854775809",
    "1e-400",
    "1E400",
    "-1e400",
    "3.141592653589793238462643",
    "0.10000000000000000001",
    "12345678901234567890.5",
    "123456789012345678.25",
    "1e99999999999999999999",
];
/// These can be computed with, but are written in another way than a computation would.
const SPELLED: [&str; 9] =
    ["-0", "-0.0", "0.0", "1.50", "1E5", "1e+5", "0.1000", "0.00001", "9007199254740993"];

fn eval_over(source: &str, input: &str) -> Result<String, Failure> {
    let mut scope = Scope::new();
    scope.json("input", &Json::parse(input).unwrap());
    let value = Expression::compile(source).unwrap().eval(&scope)?;
    Ok(value.text().to_owned())
}

#[test]
fn numbers_are_passed_through_as_they_are_written() {
    for number in ODD.into_iter().chain(SPELLED) {
        let input = format!(r#"{{"a":[{number},{{"b":{number}}}],"n":{number}}}"#);
        for source in [
            "input.n",
            "input['n']",
            "input.a[0]",
            "input.a.0",
            "input.a | first",
            "input.a[1].b",
            "input.a | last | default(1) | items | map('last') | first",
            "input.n | default(0)",
            "input.missing | default(input.n)",
            "input.a | reverse | last",
            "input.a | list | first",
            "input.a[:1] | first",
            "(input.a + [1])[0]",
            "([input.n] * 3)[2]",
            "input.n if input.n is number else 0",
            "{'x': input.n}.x",
            "[input.a] | map(attribute=0) | first",
            "[input] | map(attribute='a.1.b') | first",
            "input.a | batch(1) | first | first",
            "input.a | zip([1, 2]) | first | first",
            "input.a | chain([1]) | first",
            "[input] | groupby('x') | map(attribute='list') | first | first | default({}) == 1 or input.n",
        ] {
            assert_eq!(eval_over(source, &input).unwrap(), number, "{source}");
        }
        assert_eq!(eval_over("input", &input).unwrap(), input);
        assert_eq!(eval_over("input.n ~ ''", &input).unwrap(), format!("\"{number}\""));
        assert_eq!(eval_over("input.n | tojson", &input).unwrap(), format!("\"{number}\""));
        let mut scope = Scope::new();
        scope.json("input", &Json::parse(&input).unwrap());
        let template = serde_json::json!({"n": "${{ input.n }}", "t": "n=${{ input.n }}"});
        let rendered = Template::compile(&template).unwrap().render(&scope).unwrap();
        assert_eq!(rendered.text(), format!(r#"{{"n":{number},"t":"n={number}"}}"#));
    }
}

#[test]
fn numbers_that_do_not_fit_are_not_computed_with() {
    for number in ODD {
        let input = format!(r#"{{"n":{number},"list":[1,{number}]}}"#);
        for source in [
            "input.n + 1",
            "1 - input.n",
            "input.n * 2",
            "input.n / 2",
            "input.n // 2",
            "input.n % 2",
            "input.n ** 2",
            "-input.n",
            "input.n == 1",
            "input.n == input.n",
            "input.n != 1",
            "input.n > 1",
            "1 <= input.n",
            "2 in input.list",
            "input.n | abs",
            "input.n | int",
            "input.n | float",
            "input.n | round",
            "input.list | sum",
            "input.list | sort",
            "input.list | min",
            "input.list | max",
            "input.list | unique | list",
            "input.list | select('odd') | list",
            "input.n is odd",
            "input.n is divisibleby 3",
            "input.n is eq 1",
            "range(input.n)",
            "'a' * input.n",
            "'abc'[input.n]",
            "[1, 2][input.n:]",
            "range(3) | batch(input.n)",
            "1.5 | round(input.n)",
            "input.list == [1, 2]",
        ] {
            let failure = eval_over(source, &input).unwrap_err();
            assert_eq!(failure.kind, kind::NUMBER_OUT_OF_RANGE, "{source}, {number}: {failure:?}");
        }
        // An operation that only uses its type does not fail.
        assert_eq!(eval_over("input.n is number and input.n is not none", &input).unwrap(), "true");
        assert_eq!(eval_over("input.n and true", &input).unwrap(), "true");
    }
    for (number, source, expected) in [
        ("-0", "input + 1", "1.0"),
        ("1.50", "input * 2", "3.0"),
        ("1E5", "input == 100000", "true"),
        ("0.1000", "input + 0.2", "0.30000000000000004"),
        ("0.30000000000000004", "input == 0.1 + 0.2", "true"),
        ("18446744073709551615", "input - 1", "18446744073709551614"),
        ("-9223372036854775808", "input + 1", "-9223372036854775807"),
    ] {
        assert_eq!(eval_over(source, number).unwrap(), expected, "{source}, {number}");
    }
}

#[test]
fn literals_are_numbers_like_others() {
    for number in ["100000000000000000001", "-100000000000000000001", "1e-400", "1E400", "-1E400"] {
        assert_eq!(eval(number).unwrap(), number);
        assert_eq!(eval(&format!("[{number}] | first")).unwrap(), number);
        assert_eq!(eval(&format!("{number} + 1")).unwrap_err().kind, kind::NUMBER_OUT_OF_RANGE);
    }
    assert_eq!(eval("-9223372036854775808").unwrap(), "-9223372036854775808");
    assert_eq!(eval("18446744073709551615").unwrap(), "18446744073709551615");
    assert_eq!(eval("1.50").unwrap(), "1.5");
    assert!(Expression::compile("0xffffffffffffffffffff").is_err());
}
