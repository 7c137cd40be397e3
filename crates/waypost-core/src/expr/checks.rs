//! The tests: names that may follow `is`, and be passed to `select` and its siblings.
//!
//! Only those in [`CHECKS`] can be used.

use super::budget::{Budget, Stop};
use super::compare::{equal, order};
use super::filters::text_of;
use super::number::{Number, as_int, number};
use super::operators::contains;
use super::value::Value;

#[derive(Debug)]
pub(super) struct Check {
    pub(super) names: &'static [&'static str],
    /// How many arguments it has.
    arguments: usize,
    run: fn(&Value, &Value, &Budget) -> Result<bool, Stop>,
}

macro_rules! checks {
    ($($names:expr, $arguments:literal, $run:expr;)*) => {
        pub(super) const CHECKS: &[Check] =
            &[$(Check { names: &$names, arguments: $arguments, run: $run }),*];
    };
}

checks! {
    ["defined"], 0, |value, _, _| Ok(!value.is_undefined());
    ["undefined"], 0, |value, _, _| Ok(value.is_undefined());
    ["none"], 0, |value, _, _| Ok(matches!(value, Value::None));
    ["boolean"], 0, |value, _, _| Ok(matches!(value, Value::Bool(_)));
    ["number"], 0, |value, _, _| Ok(value.is_number() || matches!(value, Value::Bool(_)));
    ["integer", "int"], 0, |value, _, _| Ok(value.is_integer());
    ["float"], 0, |value, _, _| Ok(value.is_number() && !value.is_integer());
    ["string"], 0, |value, _, _| Ok(matches!(value, Value::Text(_)));
    ["sequence"], 0, |value, _, _| Ok(matches!(value, Value::List(_) | Value::Undefined));
    ["mapping"], 0, |value, _, _| Ok(matches!(value, Value::Map(_)));
    ["iterable"], 0, |value, _, _| Ok(!value.is_number() && !matches!(value, Value::Bool(_)));
    ["odd"], 0, |value, _, _| Ok(as_int(value)?.is_some_and(|value| value % 2 != 0));
    ["even"], 0, |value, _, _| Ok(as_int(value)?.is_some_and(|value| value % 2 == 0));
    ["divisibleby"], 1, divisible_by;
    ["startingwith"], 1, |value, other, budget| {
        let (value, other) = (text_of(value, budget)?, text_of(other, budget)?);
        budget.scan(other.len())?;
        Ok(value.starts_with(&*other))
    };
    ["endingwith"], 1, |value, other, budget| {
        let (value, other) = (text_of(value, budget)?, text_of(other, budget)?);
        budget.scan(other.len())?;
        Ok(value.ends_with(&*other))
    };
    ["lower"], 0, |value, _, budget| is_cased(value, char::is_lowercase, char::is_uppercase, budget);
    ["upper"], 0, |value, _, budget| is_cased(value, char::is_uppercase, char::is_lowercase, budget);
    ["sameas"], 1, |value, other, budget| {
        let same_type = value.kind() == other.kind() && value.is_integer() == other.is_integer();
        Ok(same_type && equal(value, other, budget)?)
    };
    ["eq", "equalto", "=="], 1, equal;
    ["ne", "!="], 1, |value, other, budget| Ok(!equal(value, other, budget)?);
    ["lt", "lessthan", "<"], 1, |value, other, budget| Ok(order(value, other, budget)?.is_lt());
    ["le", "<="], 1, |value, other, budget| Ok(order(value, other, budget)?.is_le());
    ["gt", "greaterthan", ">"], 1, |value, other, budget| Ok(order(value, other, budget)?.is_gt());
    ["ge", ">="], 1, |value, other, budget| Ok(order(value, other, budget)?.is_ge());
    ["in"], 1, |value, other, budget| match other.defined()? {
        Value::Text(_) | Value::List(_) | Value::Map(_) => contains(other, value, budget),
        _ => Ok(false),
    };
    ["true"], 0, |value, _, _| Ok(matches!(value, Value::Bool(true)));
    ["false"], 0, |value, _, _| Ok(matches!(value, Value::Bool(false)));
}

pub(super) fn find(name: &str) -> Option<&'static Check> {
    CHECKS.iter().find(|check| check.names.contains(&name))
}

impl Check {
    pub(super) fn holds(
        &self,
        value: &Value,
        arguments: &[Value],
        budget: &Budget,
    ) -> Result<bool, Stop> {
        budget.work(2)?;
        if arguments.len() != self.arguments {
            let name = self.names.first().copied().unwrap_or_default();
            let (needed, given) = (self.arguments, arguments.len());
            let message = format!("the test `{name}` has {needed} arguments, not {given}");
            return Err(Stop::failed(message));
        }
        (self.run)(value, arguments.first().unwrap_or(&Value::Undefined), budget)
    }
}

fn divisible_by(value: &Value, other: &Value, _: &Budget) -> Result<bool, Stop> {
    Ok(match (number(value)?, number(other)?) {
        (Some(Number::Int(value)), Some(Number::Int(other))) => other != 0 && value % other == 0,
        (Some(value), Some(other)) => value.to_f64() % other.to_f64() == 0.0,
        _ => false,
    })
}

/// Has it letters of the one case, and none of the other?
fn is_cased(
    value: &Value,
    is_wanted: fn(char) -> bool,
    is_other: fn(char) -> bool,
    budget: &Budget,
) -> Result<bool, Stop> {
    let Value::Text(text) = value else { return Ok(false) };
    budget.work(text.len().saturating_mul(2))?;
    Ok(text.chars().any(is_wanted) && !text.chars().any(is_other))
}
