//! Results of expressions: rules 4 and 9, for the few expressions that programs use.

use serde_json::{Value as Json, json};
use waypost_core::failure::kind;

use crate::program::{Kind, Test, Value};

/// The input's `n`.
pub(super) fn n_of(input: &Json) -> u64 {
    input.get("n").and_then(Json::as_u64).unwrap_or_default()
}

/// The branch that a condition or a switch selects, or the kind of its failure.
pub(super) fn choose(
    kind: &Kind,
    n: u64,
    completed: &dyn Fn(usize) -> bool,
) -> Result<String, &'static str> {
    let holds = |test: &Test| match test {
        Test::AtLeast(least) => Ok(n >= *least),
        Test::Completed(at) => Ok(completed(*at)),
        Test::Broken => Err(kind::EXPRESSION),
    };
    match kind {
        Kind::Condition(test) => holds(test).map(|holds| holds.to_string()),
        Kind::Switch { cases, default } => {
            for case in cases {
                if holds(&case.test)? {
                    return Ok(case.branch.clone());
                }
            }
            default.clone().ok_or(kind::NO_CASE)
        }
        _ => Err("not a choice"),
    }
}

/// The nodes whose completion a condition or a switch depends on.
pub(super) fn asked_about(kind: &Kind) -> Vec<usize> {
    let about = |test: &Test| match test {
        Test::Completed(at) => Some(*at),
        Test::AtLeast(_) | Test::Broken => None,
    };
    match kind {
        Kind::Condition(test) => about(test).into_iter().collect(),
        Kind::Switch { cases, .. } => cases.iter().filter_map(|case| about(&case.test)).collect(),
        _ => Vec::new(),
    }
}

/// Can a list of values be computed?
pub(super) fn are_sound(values: &[Value]) -> bool {
    !values.contains(&Value::Broken)
}

/// A value that does not depend on other nodes.
pub(super) fn plain(value: Value, n: u64) -> Option<Json> {
    match value {
        Value::Constant(number) => Some(json!(number)),
        Value::Plus(more) => Some(json!(n + more)),
        Value::Text => Some(json!(format!("n is {n}"))),
        Value::OutputOf(_) | Value::StatusOf(_) | Value::Broken => None,
    }
}
