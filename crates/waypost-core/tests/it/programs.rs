//! Random programs for the evaluation of expressions: every operator, filter, test and function,
//! with large numbers, deep nesting and hostile data. Also the long form's, `fuzz_expressions`.

const FILTERS: &[&str] = &[
    "capitalize",
    "lower",
    "upper",
    "title",
    "trim",
    "replace",
    "split",
    "lines",
    "string",
    "tojson",
    "join",
    "abs",
    "int",
    "float",
    "round",
    "first",
    "last",
    "length",
    "list",
    "reverse",
    "sort",
    "unique",
    "min",
    "max",
    "sum",
    "batch",
    "slice",
    "chain",
    "zip",
    "map",
    "select",
    "reject",
    "selectattr",
    "rejectattr",
    "groupby",
    "items",
    "dictsort",
    "default",
    "bool",
];
const TESTS: &[&str] = &[
    "defined",
    "undefined",
    "none",
    "boolean",
    "number",
    "integer",
    "float",
    "string",
    "sequence",
    "mapping",
    "iterable",
    "odd",
    "even",
    "divisibleby",
    "startingwith",
    "endingwith",
    "lower",
    "upper",
    "sameas",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "in",
    "true",
    "false",
];
const OPERATORS: &[&str] = &[
    "+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "and", "or", "in",
    "not in",
];
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "-1",
    "7",
    "10",
    "64",
    "100",
    "1000",
    "9999",
    "100000",
    "1000000",
    "1000000000",
    "4000000000",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "100000000000000000001",
    "1.5",
    "-0.0",
    "1e308",
    "1e-308",
    "1E400",
    "0.12345678901234567890",
];
const TEXTS: &[&str] =
    &["", "a", "x.y", "ß", "İ", "\\u0000", "<&'>", "key", "a,b", "0x7f", "1e9", "\\n"];
const NAMED: &[&str] = &[
    "attribute",
    "default",
    "reverse",
    "case_sensitive",
    "by",
    "indent",
    "count",
    "fill_with",
    "precision",
    "method",
    "start",
    "base",
    "d",
];

/// A source of randomness that is the same for the same seed.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % (sides as u64)).unwrap_or(0)
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from.get(self.roll(from.len())).copied().unwrap_or_default()
    }
}

/// A random expression.
pub(crate) fn program(dice: &mut Dice) -> String {
    let mut out = String::new();
    let depth = 1 + dice.roll(6);
    expression(dice, depth, &mut out);
    if dice.roll(20) == 0 {
        let levels = dice.roll(70);
        out = format!("{}{out}{}", "[".repeat(levels), "]*2".repeat(levels));
    }
    if dice.roll(30) == 0 {
        let prefix = ["-", "not ", "- ", "1+", "[]+", "''~"];
        out = dice.pick(&prefix).repeat(dice.roll(1500)) + &out;
    }
    out
}

fn expression(dice: &mut Dice, depth: usize, out: &mut String) {
    if depth == 0 {
        return leaf(dice, out);
    }
    match dice.roll(14) {
        0..=3 => filtered(dice, depth, out),
        4..=6 => {
            out.push('(');
            expression(dice, depth - 1, out);
            out.push(' ');
            out.push_str(dice.pick(OPERATORS));
            out.push(' ');
            expression(dice, depth - 1, out);
            out.push(')');
        }
        7 => {
            out.push_str("([");
            expression(dice, depth - 1, out);
            out.push_str("] * ");
            out.push_str(dice.pick(NUMBERS).trim_start_matches('-'));
            out.push(')');
        }
        8 => {
            out.push_str("('");
            out.push_str(dice.pick(TEXTS));
            out.push_str("' * ");
            out.push_str(dice.pick(NUMBERS).trim_start_matches('-'));
            out.push(')');
        }
        9 => {
            out.push_str("{'a': ");
            expression(dice, depth - 1, out);
            out.push_str(", 'x': ");
            expression(dice, depth - 1, out);
            out.push('}');
        }
        10 => {
            out.push('(');
            expression(dice, depth - 1, out);
            out.push_str(" if ");
            expression(dice, depth - 1, out);
            out.push_str(" else ");
            expression(dice, depth - 1, out);
            out.push(')');
        }
        11 => {
            out.push('(');
            expression(dice, depth - 1, out);
            out.push_str(if dice.roll(2) == 0 { " is " } else { " is not " });
            out.push_str(dice.pick(TESTS));
            arguments(dice, depth, out);
            out.push(')');
        }
        12 => {
            expression(dice, depth - 1, out);
            out.push('[');
            expression(dice, depth - 1, out);
            if dice.roll(2) == 0 {
                out.push(':');
                out.push_str(dice.pick(NUMBERS));
                out.push(':');
                out.push_str(dice.pick(NUMBERS));
            }
            out.push(']');
        }
        _ => {
            out.push_str("range(");
            out.push_str(dice.pick(&["5", "100", "9999", "10000", "-5", "input.big"]));
            out.push(')');
        }
    }
}

fn filtered(dice: &mut Dice, depth: usize, out: &mut String) {
    out.push('(');
    expression(dice, depth - 1, out);
    for _ in 0..=dice.roll(3) {
        out.push('|');
        match dice.roll(6) {
            0 => {
                out.push_str("map('");
                out.push_str(dice.pick(FILTERS));
                out.push('\'');
                for _ in 0..dice.roll(3) {
                    out.push(',');
                    leaf(dice, out);
                }
                out.push(')');
            }
            1 => {
                out.push_str(dice.pick(&["select", "reject"]));
                out.push_str("('");
                out.push_str(dice.pick(TESTS));
                out.push('\'');
                if dice.roll(2) == 0 {
                    out.push(',');
                    leaf(dice, out);
                }
                out.push(')');
            }
            _ => {
                out.push_str(dice.pick(FILTERS));
                arguments(dice, depth, out);
            }
        }
    }
    out.push(')');
}

fn arguments(dice: &mut Dice, depth: usize, out: &mut String) {
    let count = dice.roll(4);
    if count == 0 {
        return;
    }
    out.push('(');
    for position in 1..count {
        if position > 1 {
            out.push(',');
        }
        if position + 1 == count && dice.roll(3) == 0 {
            out.push_str(dice.pick(NAMED));
            out.push('=');
        }
        expression(dice, (depth - 1).min(1), out);
    }
    out.push(')');
}

fn leaf(dice: &mut Dice, out: &mut String) {
    match dice.roll(8) {
        0 | 1 => out.push_str(dice.pick(NUMBERS)),
        2 => {
            out.push('\'');
            out.push_str(dice.pick(TEXTS));
            out.push('\'');
        }
        3 => out.push_str(dice.pick(&["true", "false", "none", "[]", "{}", "[1, 'a', none, 2.5]"])),
        4 => out.push_str(dice.pick(&["missing", "input.missing", "range(9999)"])),
        _ => out.push_str(dice.pick(&[
            "input",
            "input.list",
            "input.text",
            "input.big",
            "input.deep",
            "input.maps",
            "input.odd",
            "input.long",
            "input.huge",
        ])),
    }
}

/// Data that is hostile in all ways at once; `size` is about how many bytes each part has.
pub(crate) fn data(dice: &mut Dice, size: usize) -> String {
    let list = vec!["1"; size / 2].join(",");
    let maps = vec![r#"{"a":1,"x":"y","key":[1,2]}"#; size / 28].join(",");
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    let long = dice.pick(&["a", "ß", "aB ", "\\n", "İ", "<"]).repeat(size / 2);
    let odd =
        r#"[100000000000000000001,1e-400,1E400,-0,0.123456789012345678901,1.50,"\ud83d\ude00"]"#;
    let huge = vec!["[[],{}]"; size / 8].join(",");
    format!(
        r#"{{"list":[{list}],"maps":[{maps}],"deep":{deep},"text":"a b,c","long":"{long}","odd":{odd},"big":1000000000,"huge":[{huge}]}}"#
    )
}
