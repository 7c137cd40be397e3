//! Signals by key: what one execution publishes, every execution gets that waits for it.
//!
//! ```text
//!   emit  ─▶ SignalSent  + published row ──┐ each commits its row, then looks for the other's:
//!                                          ├─▶ mail to each execution that waits ─▶ SignalReceived
//!   wait  ─▶ NodeWaiting + subscription ───┘ the store keeps what nothing waits for yet
//! ```
//!
//! A signal's key is a part of its name: `paid` with key `order-7` is the signal `paid[order-7]`, in waits,
//! mail and logs. So an execution treats a signal by key as any other.
//!
//! A subscription gets one signal at a time: the next one when it has taken the one before, and still waits.
//! So a wait is never flooded, and what it does not take is there for the next. A signal is for all who wait when
//! it is given first: it stays until those have it, too, to whom another was on its way.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::event::{MessageId, Wait};
use crate::json::Json;
use crate::limits::{SIGNAL_KEEP, SIGNAL_KEEP_MAX, SIGNAL_KEEP_MIN, SIGNAL_KEY_CHARS_MAX};
use crate::plan::Plan;
use crate::reserved::refuse_reserved;
use crate::state::State;
use crate::time::Millis;

/// How the ids of messages begin that `emit` nodes send.
pub const EMITTED: &str = "emit-";

/// A signal for every execution that waits for it.
#[derive(Clone, PartialEq, Debug)]
pub struct PublishedSignal {
    /// With its key.
    pub name: Arc<str>,
    /// By which duplicates are known.
    pub message: MessageId,
    pub body: Json,
    /// How long it is kept for the first execution that waits for it.
    pub keep: Millis,
}

/// One of the signals that a wait is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WaitRef {
    /// The seq of the event that opened the wait.
    pub wait: u64,
    /// Its position among several.
    pub which: u32,
}

/// A key as text: a text, a number or a boolean.
pub fn key_of(value: &Value) -> Result<String, String> {
    let text = match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(yes) => Some(yes.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    };
    text.filter(|text| !text.is_empty()).ok_or_else(|| {
        format!(
            "a signal's key must be a text that is not empty, a number or a boolean, not {value}"
        )
    })
}

/// Refuses the name of a signal that no request could send.
pub fn refuse_long(name: &str) -> Result<(), String> {
    match name.chars().count() {
        count if count > SIGNAL_KEY_CHARS_MAX => Err(format!(
            "the name of a signal has up to {SIGNAL_KEY_CHARS_MAX} characters, and this one has {count}"
        )),
        _ => Ok(()),
    }
}

/// The name of a signal with a key.
pub fn keyed_name(name: &str, key: &str) -> Result<Arc<str>, String> {
    refuse_reserved(name)?;
    if name.contains('[') {
        return Err(format!("the name of a signal with a key must not contain `[`: {name:?}"));
    }
    for (what, text) in [("name", name), ("key", key)] {
        if !(1..=SIGNAL_KEY_CHARS_MAX).contains(&text.chars().count()) {
            let most = SIGNAL_KEY_CHARS_MAX;
            return Err(format!(
                "the {what} of a signal with a key must have 1 to {most} characters"
            ));
        }
    }
    Ok(format!("{name}[{key}]").into())
}

/// The name and the key in the name of a signal that has one.
pub fn split_name(name: &str) -> (&str, Option<&str>) {
    match name.strip_suffix(']').and_then(|name| name.split_once('[')) {
        Some((name, key)) => (name, Some(key)),
        None => (name, None),
    }
}

/// How long a signal is kept: a duration as definitions have it, such as `2h`.
pub fn keep_of(value: &Value) -> Result<Millis, String> {
    if value.is_null() {
        return Ok(SIGNAL_KEEP);
    }
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let keep = Millis::parse(&text).ok();
    keep.filter(|keep| (SIGNAL_KEEP_MIN..=SIGNAL_KEEP_MAX).contains(keep)).ok_or_else(|| {
        format!(
            "a signal is kept for a duration from {SIGNAL_KEEP_MIN} to {SIGNAL_KEEP_MAX}, not {value}"
        )
    })
}

impl State {
    /// What its open waits are to get by key, each with the full name of the signal.
    pub fn subscriptions(&self, plan: &Plan) -> BTreeMap<WaitRef, Arc<str>> {
        let mut found = BTreeMap::new();
        if self.status.is_end() {
            return found;
        }
        for (at, node) in self.nodes() {
            let names = match &node.wait {
                Some(Wait::Signal { name, .. }) => std::slice::from_ref(name),
                Some(Wait::Signals { names, .. }) => &**names,
                Some(
                    Wait::Delay { .. }
                    | Wait::Approval(_)
                    | Wait::Callback { .. }
                    | Wait::Retry { .. }
                    | Wait::Body
                    | Wait::Child { .. }
                    | Wait::Breaker(_),
                )
                | None => continue,
            };
            let keys = plan.node(at.node).behaviour.signal_keys();
            for (which, (name, key)) in (0_u32..).zip(names.iter().zip(keys)) {
                let came = node.arrived.get(which as usize).is_some_and(Option::is_some);
                if key.is_some() && !came {
                    let wait = WaitRef { wait: node.wait_seq, which };
                    found.insert(wait, Arc::clone(name));
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_texts_numbers_and_booleans() {
        for (value, expected) in
            [(json!("a b"), "a b"), (json!(7), "7"), (json!(1.5), "1.5"), (json!(true), "true")]
        {
            assert_eq!(key_of(&value).as_deref(), Ok(expected));
        }
        for value in [json!(null), json!(""), json!([1]), json!({})] {
            let refused = key_of(&value).expect_err("it is no key");
            assert!(refused.contains(&format!("not {value}")), "{refused}");
        }
    }

    #[test]
    fn a_name_with_a_key_is_taken_apart_as_it_was_made() {
        for (name, key) in [("paid", "order-7"), ("paid", "a[b]"), ("paid", "]"), ("paid", "[")] {
            let full = keyed_name(name, key).expect("it is a name");
            assert_eq!(split_name(&full), (name, Some(key)), "{full}");
        }
        assert_eq!(split_name("paid"), ("paid", None));
        assert_eq!(split_name("paid]"), ("paid]", None));
        let long = "k".repeat(SIGNAL_KEY_CHARS_MAX + 1);
        for (name, key) in [("pa[id", "k"), ("", "k"), ("paid", ""), ("paid", &long), (&long, "k")]
        {
            keyed_name(name, key).expect_err("it is no name");
        }
    }
}
