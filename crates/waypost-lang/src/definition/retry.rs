//! A node's `retry` block.

use waypost_core::limits::ATTEMPTS_MAX;
use waypost_core::retry::{Matcher, RetryPolicy};

use crate::diagnostics::{Code, Faults, quoted};
use crate::fields::{self, get};
use crate::tree::{Tree, TreeValue};

pub(crate) const RETRY_FIELDS: &[&str] = &[
    "enabled",
    "maxAttempts",
    "waitDuration",
    "exponentialBackoff",
    "multiplier",
    "maxWait",
    "jitter",
    "retryOn",
    "ignoreExceptions",
];

/// Reads a block; `None` where it is switched off.
pub(super) fn read(tree: &Tree, faults: &mut Faults) -> Option<RetryPolicy> {
    let entries = fields::map("`retry`", tree, faults)?;
    fields::refuse_unknown(entries, RETRY_FIELDS, "`retry`", faults);
    let enabled = get(entries, "enabled", faults, fields::boolean);
    let defaults = RetryPolicy::default();
    let policy = RetryPolicy {
        max_attempts: get(entries, "maxAttempts", faults, fields::whole(1..=ATTEMPTS_MAX))
            .unwrap_or(defaults.max_attempts),
        wait: get(entries, "waitDuration", faults, fields::duration).unwrap_or(defaults.wait),
        exponential: get(entries, "exponentialBackoff", faults, fields::boolean)
            .unwrap_or(defaults.exponential),
        multiplier: get(entries, "multiplier", faults, fields::number(1.0..=100.0))
            .unwrap_or(defaults.multiplier),
        wait_max: get(entries, "maxWait", faults, fields::duration).unwrap_or(defaults.wait_max),
        jitter: get(entries, "jitter", faults, fields::number(0.0..=1.0))
            .unwrap_or(defaults.jitter),
        retry_on: get(entries, "retryOn", faults, matchers).unwrap_or_default(),
        ignore: get(entries, "ignoreExceptions", faults, matchers).unwrap_or_default(),
    };
    (enabled != Some(false)).then_some(policy)
}

fn matchers(what: &str, tree: &Tree, faults: &mut Faults) -> Option<Vec<Matcher>> {
    let Some(items) = tree.as_list() else {
        fields::wrong_type(what, "a list", tree, faults);
        return None;
    };
    let matcher = |item: &Tree| {
        let text = match &item.value {
            TreeValue::Number(number) => number.to_string(),
            _ => fields::text(&format!("an entry of {what}"), item, faults)?.to_owned(),
        };
        let matcher = Matcher::parse(&text);
        if matcher.is_none() {
            let message = format!("{what} cannot contain {}", quoted(&text));
            let hint = "write a status (429), a class (5xx) or a name (timeout)";
            faults.error(Code::BadValue, &item.span, message).hint(hint);
        }
        matcher
    };
    Some(items.iter().filter_map(matcher).collect())
}

/// An entry as the canonical form spells it.
pub(crate) fn matcher_text(matcher: &Matcher) -> String {
    match matcher {
        Matcher::Status(status) => status.to_string(),
        Matcher::StatusClass(class) => format!("{class}xx"),
        Matcher::Kind(name) => name.clone(),
    }
}
