//! The filters and functions that expressions may use.
//!
//! minijinja's fuel counts instructions, not bytes, so everything that can turn a small value into
//! a large one is either replaced by a version with a cap or taken out. `now()` and `random()` do
//! not exist: the same state must always give the same result.

use std::ops::Range;

use minijinja::value::ValueKind;
use minijinja::{Environment, Error, ErrorKind, Value};

use super::{ExpressionFault, References};

/// Largest text that a filter may build.
const TEXT_BYTES_MAX: usize = super::RESULT_BYTES_MAX;
/// Largest list that `range` may build.
const RANGE_MAX: i64 = 10_000;

/// Marks the errors below, so that they become `expression_limit` failures.
pub(super) const TOO_LARGE: &str = "would be larger than";

pub(super) fn install(environment: &mut Environment<'static>) {
    for filter in ["indent", "format", "pprint", "urlencode", "safe", "escape", "e", "attr"] {
        environment.remove_filter(filter);
    }
    for global in ["range", "lipsum", "cycler", "joiner", "namespace", "debug", "dict"] {
        environment.remove_global(global);
    }
    environment.add_filter("replace", replace);
    environment.add_filter("join", join);
    environment.add_function("range", range);
}

/// Finds mistyped filters and tests when an expression is compiled; minijinja itself only when it
/// is evaluated, which may be days later.
pub(super) fn refuse_unknown(
    references: &References,
    environment: &Environment<'_>,
) -> Result<(), ExpressionFault> {
    let mut state = environment.empty_state();
    for (name, range) in &references.filters {
        let answer = state.apply_filter(name, &[]).map(|_| ());
        refuse_if(answer, ErrorKind::UnknownFilter, "filter", name, range)?;
    }
    for (name, range) in &references.tests {
        let answer = state.perform_test(name, &[]).map(|_| ());
        refuse_if(answer, ErrorKind::UnknownTest, "test", name, range)?;
    }
    Ok(())
}

/// Called without arguments all of them fail; only the unknown ones with this kind of error.
fn refuse_if(
    answer: Result<(), Error>,
    unknown: ErrorKind,
    what: &str,
    name: &str,
    range: &Range<usize>,
) -> Result<(), ExpressionFault> {
    match answer {
        Err(error) if error.kind() == unknown => Err(ExpressionFault {
            message: format!("there is no {what} `{name}`"),
            range: range.clone(),
        }),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn too_large(what: &str) -> Error {
    let message = format!("{what} {TOO_LARGE} {TEXT_BYTES_MAX} bytes");
    Error::new(ErrorKind::InvalidOperation, message)
}

fn replace(text: &str, from: &str, to: &str) -> Result<String, Error> {
    let hits = text.matches(from).count();
    let grown = hits.saturating_mul(to.len()).saturating_add(text.len());
    if grown > TEXT_BYTES_MAX {
        return Err(too_large("the result of replace()"));
    }
    Ok(text.replace(from, to))
}

fn join(items: &Value, separator: Option<&str>) -> Result<String, Error> {
    if matches!(items.kind(), ValueKind::Undefined) {
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    let separator = separator.unwrap_or("");
    let mut text = String::new();
    for (position, item) in items.try_iter()?.enumerate() {
        if position > 0 {
            text.push_str(separator);
        }
        match item.as_str() {
            Some(part) => text.push_str(part),
            None => text.push_str(&item.to_string()),
        }
        if text.len() > TEXT_BYTES_MAX {
            return Err(too_large("the result of join()"));
        }
    }
    Ok(text)
}

fn range(lower: i64, upper: Option<i64>, step: Option<i64>) -> Result<Value, Error> {
    let (from, to) = upper.map_or((0, lower), |upper| (lower, upper));
    let step = step.unwrap_or(1);
    let invalid = |text: &str| Error::new(ErrorKind::InvalidOperation, text.to_owned());
    if step == 0 {
        return Err(invalid("range() cannot go in steps of 0"));
    }
    let span = i128::from(to) - i128::from(from);
    let count = if (span > 0) == (step > 0) { span / i128::from(step) } else { 0 };
    if count > i128::from(RANGE_MAX) {
        return Err(invalid(&format!("a range {TOO_LARGE} {RANGE_MAX} items")));
    }
    let mut items = Vec::new();
    let mut next = from;
    while (step > 0 && next < to) || (step < 0 && next > to) {
        items.push(Value::from(next));
        match next.checked_add(step) {
            Some(value) => next = value,
            None => break,
        }
    }
    Ok(Value::from(items))
}
