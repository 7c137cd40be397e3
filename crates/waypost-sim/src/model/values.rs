//! Results of expressions: rules 4 and 9, for the few expressions that programs use.

use serde_json::{Value as Json, json};
use waypost_core::failure::kind;

use crate::program::{Kind, Test, Value};

/// The input's `n`.
pub(super) fn n_of(input: &Json) -> u64 {
    input.get("n").and_then(Json::as_u64).unwrap_or_default()
}

/// What every node of a scope sees.
#[derive(Clone, Copy, Default)]
pub(super) struct Facts {
    pub(super) n: u64,
    /// Of the nearest loop.
    pub(super) iteration: u64,
    /// Of the item of the nearest map.
    pub(super) index: u64,
}

impl Facts {
    /// Does a test hold, or with which kind of failure does it fail? `unknown` tells of those that
    /// depend on what happened.
    pub(super) fn holds(
        self,
        test: Test,
        unknown: &dyn Fn(Test) -> bool,
    ) -> Result<bool, &'static str> {
        match test {
            Test::AtLeast(least) => Ok(self.n >= least),
            Test::Iteration(least) => Ok(self.iteration >= least),
            Test::Below(limit) => Ok(self.iteration < limit),
            Test::Index(least) => Ok(self.index >= least),
            Test::Completed(_) | Test::Previous | Test::Done | Test::Variable(_) => {
                Ok(unknown(test))
            }
            Test::Broken => Err(kind::EXPRESSION),
        }
    }
}

/// Does a test depend on what happened, and not on the facts alone?
pub(super) fn is_unknown(test: Test) -> bool {
    matches!(test, Test::Completed(_) | Test::Previous | Test::Done | Test::Variable(_))
}

/// The branch that a condition or a switch selects, or the kind of its failure.
pub(super) fn choose(
    kind: &Kind,
    holds: &dyn Fn(Test) -> Result<bool, &'static str>,
) -> Result<String, &'static str> {
    match kind {
        Kind::Condition(test) => holds(*test).map(|holds| holds.to_string()),
        Kind::Switch { cases, default } => {
            for case in cases {
                if holds(case.test)? {
                    return Ok(case.branch.clone());
                }
            }
            default.clone().ok_or(kind::NO_CASE)
        }
        _ => Err("not a choice"),
    }
}

/// The tests of a condition or a switch that depend on what happened.
pub(super) fn unknown_tests(kind: &Kind) -> Vec<Test> {
    let tests: Vec<Test> = match kind {
        Kind::Condition(test) => vec![*test],
        Kind::Switch { cases, .. } => cases.iter().map(|case| case.test).collect(),
        _ => Vec::new(),
    };
    let mut unknown: Vec<Test> = Vec::new();
    for test in tests.into_iter().filter(|test| is_unknown(*test)) {
        if !unknown.contains(&test) {
            unknown.push(test);
        }
    }
    unknown
}

/// Can a list of values be computed?
pub(super) fn are_sound(values: &[Value]) -> bool {
    !values.contains(&Value::Broken)
}

/// Does a node fail because the values that it has to compute cannot be?
pub(super) fn is_unsound(kind: &Kind) -> bool {
    match kind {
        Kind::Transform(values) | Kind::Output(values) => !are_sound(values),
        Kind::Notify(notify) => !are_sound(&notify.values),
        _ => false,
    }
}

/// A value that does not depend on other nodes.
pub(super) fn plain(value: Value, facts: Facts) -> Option<Json> {
    let Facts { n, iteration, index } = facts;
    match value {
        Value::Constant(number) => Some(json!(number)),
        Value::Plus(more) => Some(json!(n + more)),
        Value::Text => Some(json!(format!("n is {n}"))),
        Value::Iteration => Some(json!(iteration)),
        Value::Index => Some(json!(index)),
        Value::OutputOf(_)
        | Value::ResultsOf(_)
        | Value::StatusOf(_)
        | Value::Before
        | Value::Previous
        | Value::Item
        | Value::Variable
        | Value::Broken => None,
    }
}
