//! Reading typed values out of the tree, one fault per value that does not fit.
//!
//! Every function returns `None` after it has added a fault, so that callers continue with the next
//! field. An empty field (`label:`) counts as absent.

use std::fmt::Display;
use std::ops::RangeInclusive;

use serde_json::Number;
use waypost_core::limits::{NODE_ID_CHARS_MAX, WORKFLOW_NAME_CHARS_MAX};
use waypost_core::time::{BadDuration, Millis};

use crate::diagnostics::{Code, Fault, Faults, did_you_mean, listed, quoted};
use crate::tree::{self, Tree, TreeEntry, TreeValue};

pub(crate) const DURATION_HINT: &str =
    "write `30s`, `1h 30m`, `PT30S`, or a number of milliseconds";

/// Adds a fault for every field that is not one of `known`; `of` names the object. Returns the
/// fields that were probably meant, so that they are not reported as missing too.
pub(crate) fn refuse_unknown<'k>(
    entries: &[TreeEntry],
    known: &[&'k str],
    of: &str,
    faults: &mut Faults,
) -> Vec<&'k str> {
    let mut meant = Vec::new();
    for entry in entries {
        if known.contains(&entry.key.as_str()) {
            continue;
        }
        let message = format!("{of} has no field {}", quoted(&entry.key));
        let likely = faults
            .likely(&entry.key, known.iter().copied())
            .or_else(|| our_name(&entry.key).filter(|ours| known.contains(ours)));
        faults.error(Code::UnknownField, &entry.key_span, message).hint(match likely {
            Some(likely) => did_you_mean(likely),
            None if known.is_empty() => "it has no fields".to_owned(),
            None => format!("its fields are {}", listed(known.iter().copied(), "and")),
        });
        meant.extend(likely);
    }
    meant
}

/// Our names for fields of other workflow languages.
fn our_name(name: &str) -> Option<&'static str> {
    Some(match name.replace(['-', '_'], "").to_lowercase().as_str() {
        "steps" | "tasks" | "jobs" | "activities" => "nodes",
        "dependson" | "depends" | "dependencies" | "after" | "upstream" => "needs",
        "uses" | "kind" | "action" => "type",
        "with" | "params" | "parameters" | "args" => "config",
        "retries" | "retrypolicy" => "retry",
        "name" => "id",
        "title" => "label",
        "inputs" | "inputschema" => "input",
        "triggers" | "trigger" | "events" | "schedules" => "on",
        "timezone" | "tz" => "zone",
        "concurrencypolicy" => "overlap",
        "interval" => "every",
        _ => return None,
    })
}

/// The entry of a field, unless it is absent or empty.
pub(crate) fn present<'t>(entries: &'t [TreeEntry], key: &str) -> Option<&'t TreeEntry> {
    tree::find(entries, key).filter(|entry| !matches!(entry.value.value, TreeValue::Null))
}

/// Reads a field, unless it is absent or empty.
pub(crate) fn get<'t, T>(
    entries: &'t [TreeEntry],
    key: &str,
    faults: &mut Faults,
    read: impl FnOnce(&str, &'t Tree, &mut Faults) -> Option<T>,
) -> Option<T> {
    let entry = present(entries, key)?;
    read(&format!("`{key}`"), &entry.value, faults)
}

/// A fault about the type of a value: `` `label` must be a text, not a list ``.
pub(crate) fn wrong_type<'f>(
    what: &str,
    needed: &str,
    tree: &Tree,
    faults: &'f mut Faults,
) -> &'f mut Fault {
    let message = format!("{what} must be {needed}, not {}", tree.description());
    faults.error(Code::WrongType, &tree.span, message)
}

pub(crate) fn map<'t>(what: &str, tree: &'t Tree, faults: &mut Faults) -> Option<&'t [TreeEntry]> {
    let found = tree.as_map();
    if found.is_none() {
        wrong_type(what, "a mapping", tree, faults);
    }
    found
}

pub(crate) fn text<'t>(what: &str, tree: &'t Tree, faults: &mut Faults) -> Option<&'t str> {
    let found = tree.as_text();
    if found.is_none() {
        let fault = wrong_type(what, "a text", tree, faults);
        if matches!(tree.value, TreeValue::Bool(_) | TreeValue::Number(_)) {
            fault.hint("put it between quotes");
        }
    }
    found
}

pub(crate) fn owned_text(what: &str, tree: &Tree, faults: &mut Faults) -> Option<String> {
    text(what, tree, faults).map(ToOwned::to_owned)
}

/// A text, or an unquoted boolean or number in place of one.
pub(crate) fn word(what: &str, tree: &Tree, faults: &mut Faults) -> Option<String> {
    match &tree.value {
        TreeValue::Bool(value) => Some(value.to_string()),
        TreeValue::Number(number) => Some(number.to_string()),
        _ => owned_text(what, tree, faults),
    }
}

pub(crate) fn boolean(what: &str, tree: &Tree, faults: &mut Faults) -> Option<bool> {
    if let TreeValue::Bool(value) = tree.value {
        return Some(value);
    }
    let fault = wrong_type(what, "true or false", tree, faults);
    let text = tree.as_text().unwrap_or_default().to_lowercase();
    if ["yes", "no", "on", "off"].contains(&text.as_str()) {
        fault.hint("write `true` or `false`");
    }
    None
}

/// A reader of whole numbers between two bounds, both included.
pub(crate) fn whole(
    bounds: RangeInclusive<u32>,
) -> impl Fn(&str, &Tree, &mut Faults) -> Option<u32> {
    bounded("a whole number", bounds, |number| number.as_u64()?.try_into().ok())
}

/// As [`whole`], for counts that may be large.
pub(crate) fn count(
    bounds: RangeInclusive<u64>,
) -> impl Fn(&str, &Tree, &mut Faults) -> Option<u64> {
    bounded("a whole number", bounds, Number::as_u64)
}

/// A reader of numbers between two bounds, both included.
pub(crate) fn number(
    bounds: RangeInclusive<f64>,
) -> impl Fn(&str, &Tree, &mut Faults) -> Option<f64> {
    bounded("a number", bounds, Number::as_f64)
}

fn bounded<T: PartialOrd + Display>(
    needed: &'static str,
    bounds: RangeInclusive<T>,
    convert: fn(&Number) -> Option<T>,
) -> impl Fn(&str, &Tree, &mut Faults) -> Option<T> {
    move |what, tree, faults| {
        let TreeValue::Number(number) = &tree.value else {
            wrong_type(what, needed, tree, faults);
            return None;
        };
        let found = convert(number).filter(|n| bounds.contains(n));
        if found.is_none() {
            let (low, high) = (bounds.start(), bounds.end());
            let message = format!("{what} must be {needed} from {low} to {high}, not {number}");
            faults.error(Code::BadValue, &tree.span, message);
        }
        found
    }
}

/// A reader of one of several words.
pub(crate) fn one_of<'w>(
    words: &[&'w str],
) -> impl Fn(&str, &Tree, &mut Faults) -> Option<&'w str> {
    move |what, tree, faults| {
        let given = text(what, tree, faults)?;
        let found = words.iter().copied().find(|word| *word == given);
        if found.is_none() {
            let allowed = listed(words.iter().copied(), "or");
            let message = format!("{what} must be {allowed}, not {}", quoted(given));
            let likely = faults.likely(given, words.iter().copied());
            faults.error(Code::BadValue, &tree.span, message).suggest(likely);
        }
        found
    }
}

/// A fixed duration.
pub(crate) fn duration(what: &str, tree: &Tree, faults: &mut Faults) -> Option<Millis> {
    let parsed = match &tree.value {
        TreeValue::Number(number) => Millis::from_f64(number.as_f64().unwrap_or(f64::NAN), 1.0),
        TreeValue::Text { text, .. } => Millis::parse(text),
        _ => {
            wrong_type(what, "a duration", tree, faults).hint(DURATION_HINT);
            return None;
        }
    };
    parsed.map_err(|bad| add_bad_duration(what, tree, bad, faults)).ok()
}

/// A fixed duration that is longer than nothing.
pub(crate) fn time_limit(what: &str, tree: &Tree, faults: &mut Faults) -> Option<Millis> {
    let found = duration(what, tree, faults)?;
    if found == Millis(0) {
        let message = format!("{what} must be longer than zero");
        let hint = "leave the field out where there is no limit";
        faults.error(Code::BadDuration, &tree.span, message).hint(hint);
        return None;
    }
    Some(found)
}

fn add_bad_duration(what: &str, tree: &Tree, bad: BadDuration, faults: &mut Faults) {
    let given = tree.as_text().unwrap_or_default();
    let message = match bad {
        BadDuration::Syntax if given.contains("${{") => {
            format!("{what} must be a fixed duration: `${{{{ }}}}` is not allowed here")
        }
        BadDuration::Syntax => format!("{what} must be a duration, not {}", quoted(given)),
        BadDuration::Negative => format!("{what} cannot be negative"),
        BadDuration::TooLong => format!("{what} is longer than a hundred years"),
    };
    let fault = faults.error(Code::BadDuration, &tree.span, message);
    if bad == BadDuration::Syntax {
        fault.hint(DURATION_HINT);
    }
}

/// A rule for names: letters, digits, `_`, and a little more.
pub(crate) struct NameRule {
    chars_max: usize,
    first_may_be_digit: bool,
    also: &'static [char],
    advice: &'static str,
}

/// Names of nodes, branches and variables, which occur in expressions.
pub(crate) const ID: NameRule = NameRule {
    chars_max: NODE_ID_CHARS_MAX,
    first_may_be_digit: false,
    also: &['-'],
    advice: "letters, digits, `_` and `-`, starting with a letter or `_`",
};

/// Names of workflows, which occur in file names and addresses.
pub(crate) const WORKFLOW_NAME: NameRule = NameRule {
    chars_max: WORKFLOW_NAME_CHARS_MAX,
    first_may_be_digit: true,
    also: &['-', '.'],
    advice: "letters, digits, `_`, `-` and `.`, starting with a letter, a digit or `_`",
};

/// A text that follows the rule.
pub(crate) fn name<'t>(
    what: &str,
    tree: &'t Tree,
    rule: &NameRule,
    faults: &mut Faults,
) -> Option<&'t str> {
    let given = text(what, tree, faults)?;
    check_name(what, given, &tree.span, rule, faults).then_some(given)
}

/// Does the text follow the rule? Adds a fault where not.
pub(crate) fn check_name(
    what: &str,
    given: &str,
    span: &crate::source::Span,
    rule: &NameRule,
    faults: &mut Faults,
) -> bool {
    let chars = given.chars().count();
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let first_fits = |c: char| word(c) && (rule.first_may_be_digit || !c.is_ascii_digit());
    let fits = given.chars().next().is_some_and(first_fits)
        && given.chars().all(|c| word(c) || rule.also.contains(&c))
        && chars <= rule.chars_max;
    if !fits {
        let message = match chars {
            0 => format!("{what} is empty"),
            _ if chars > rule.chars_max => {
                format!("{what} has more than {} characters", rule.chars_max)
            }
            _ => format!("{what} cannot be {}", quoted(given)),
        };
        let hint = format!("use up to {} {}", rule.chars_max, rule.advice);
        faults.error(Code::BadName, span, message).hint(hint);
    }
    fits
}
