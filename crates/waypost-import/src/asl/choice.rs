//! The rules of Choice states, as conditions.

use serde_json::Value;
use waypost_lang::Tree;

use super::Problem;
use super::data::StateView;
use crate::expr::{EXPRESSION_BYTES_MAX, Expr, quoted};
use crate::json_path::{self, PathStep};
use crate::read::SourceFields;
use crate::report::{Reporter, shortened};

/// How deep rules may be nested.
const DEPTH_MAX: usize = 20;
const ADVICE: &str = "write the condition by hand";

/// The condition of a rule.
pub(super) fn condition<'t>(
    view: StateView<'t>,
    rule: &'t Tree,
    root: &Expr,
    depth: usize,
    report: &mut Reporter<'_>,
) -> Result<Expr, Problem<'t>> {
    if depth > DEPTH_MAX {
        return Err(Problem::new(rule, "rules are nested too deeply", "split the state"));
    }
    for (field, word) in [("And", "and"), ("Or", "or")] {
        let Some(list) = rule.get(field) else { continue };
        let mut all: Option<Expr> = None;
        for part in list.items() {
            let part = condition(view, part, root, depth + 1, report)?;
            all = Some(match all {
                None => part,
                Some(all) if word == "and" => all.and(&part),
                Some(all) => all.or(&part),
            });
            if all.as_ref().is_some_and(|all| all.text().len() > EXPRESSION_BYTES_MAX) {
                return Err(Problem::new(list, "the condition is too long", "split the state"));
            }
        }
        return all.ok_or_else(|| Problem::new(list, "the list of rules is empty", ADVICE));
    }
    if let Some(part) = rule.get("Not") {
        return Ok(condition(view, part, root, depth + 1, report)?.negated());
    }
    comparison(view, rule, root, report)
}

fn comparison<'t>(
    view: StateView<'t>,
    rule: &'t Tree,
    root: &Expr,
    report: &mut Reporter<'_>,
) -> Result<Expr, Problem<'t>> {
    let at = rule.get("Variable").unwrap_or(rule);
    let path = at.as_text().ok_or_else(|| Problem::new(at, "a rule needs a `Variable`", ADVICE))?;
    let bad = |message: String| Problem::new(at, message, ADVICE);
    let variable = view.root(root.clone()).eval(path).map_err(bad)?;
    let others = ["Variable", "Next", "Comment", "Assign", "Output"];
    let operator = rule.entries().iter().find(|entry| !others.contains(&entry.key.as_str()));
    let Some(operator) = operator else {
        return Err(Problem::new(rule, "a rule needs a comparison", ADVICE));
    };
    let (name, value) = (operator.key.as_str(), &operator.value);
    if name == "IsPresent" {
        return Ok(present(value, &variable, path, root));
    }
    if let Some(type_test) = name.strip_prefix("Is") {
        return test(type_test, value, &variable)
            .ok_or_else(|| Problem::new(value, format!("`{name}` is unknown"), ADVICE));
    }
    if name == "StringMatches" {
        let pattern = value.as_text().unwrap_or_default();
        return matches(&variable, pattern).ok_or_else(|| {
            let message = format!("the pattern `{}` has no counterpart", shortened(pattern));
            Problem::new(value, message, ADVICE)
        });
    }
    let (name, other) = match name.strip_suffix("Path") {
        Some(name) => {
            let path = value.as_text().unwrap_or_default();
            let other = view.root(root.clone()).eval(path);
            (name, other.map_err(|message| Problem::new(value, message, ADVICE))?)
        }
        None => (name, Expr::literal(&value.json())),
    };
    let bad = || {
        let message = format!("the comparison `{}` is unknown", shortened(&operator.key));
        Problem::new(value, message, ADVICE)
    };
    let (family, type_test) = [
        ("String", "string"),
        ("Numeric", "number"),
        ("Boolean", "boolean"),
        ("Timestamp", "string"),
    ]
    .into_iter()
    .find(|(family, _)| name.starts_with(family))
    .ok_or_else(bad)?;
    if family == "Timestamp" {
        let message = "times are compared as texts";
        report.different(value, message, "write all times in one form, in UTC");
    }
    let symbol = match name.trim_start_matches(family) {
        "Equals" => "==",
        "LessThan" => "<",
        "GreaterThan" => ">",
        "LessThanEquals" => "<=",
        "GreaterThanEquals" => ">=",
        _ => return Err(bad()),
    };
    let compared = match (family, value.as_flag()) {
        ("Boolean", Some(flag)) => variable.is(if flag { "true" } else { "false" }),
        _ => variable.compare(symbol, &other),
    };
    // Values of another type are neither less nor greater.
    Ok(if symbol == "==" { compared } else { variable.is(type_test).and(&compared) })
}

/// `IsPresent`: a field of something that is missing is missing, too.
fn present(value: &Tree, variable: &Expr, path: &str, root: &Expr) -> Expr {
    let wanted = value.as_flag().unwrap_or(true);
    let test = if wanted { "defined" } else { "not defined" };
    let steps = path.strip_prefix('$').map(json_path::parse);
    let Some(Ok(steps)) = steps.filter(|_| !path.starts_with("$$")) else {
        return variable.is(test);
    };
    let mut here = root.clone();
    for (at, step) in steps.iter().enumerate() {
        let PathStep::Key(key) = step else { return variable.is(test) };
        if at > 0 {
            here = here.or_default(&Value::Object(serde_json::Map::new()));
        }
        here = here.field(key);
    }
    here.is(test)
}

/// `IsNull` and the like, which may be asked to be false.
fn test(name: &str, value: &Tree, variable: &Expr) -> Option<Expr> {
    let wanted = value.as_flag().unwrap_or(true);
    let test = match name {
        "Null" => "none",
        "String" | "Timestamp" => "string",
        "Numeric" => "number",
        "Boolean" => "boolean",
        _ => return None,
    };
    Some(variable.is(&if wanted { test.to_owned() } else { format!("not {test}") }))
}

/// A pattern with `*` at its ends, or one in the middle.
fn matches(variable: &Expr, pattern: &str) -> Option<Expr> {
    if pattern.contains('\\') {
        return None;
    }
    let text = |part: &str| Expr::literal(&Value::from(part));
    let starts = |part: &str| variable.is(&format!("startingwith({})", quoted(part)));
    let ends = |part: &str| variable.is(&format!("endingwith({})", quoted(part)));
    let parts: Vec<&str> = pattern.split('*').collect();
    let found = match parts[..] {
        [whole] => return Some(variable.compare("==", &text(whole))),
        ["", ""] => return Some(variable.is("string")),
        [start, ""] => starts(start),
        ["", end] => ends(end),
        ["", inner, ""] => text(inner).compare("in", variable),
        [start, end] => {
            let least = (start.chars().count() + end.chars().count()).to_string();
            let length = variable.filter("length", &[]).compare(">=", &Expr::atom(least));
            starts(start).and(&ends(end)).and(&length)
        }
        _ => return None,
    };
    Some(variable.is("string").and(&found))
}
