//! Waits for published events. Such a wait is one for a signal by key: the name of the signal says which events
//! the wait is for, by their type and by what they must say.
//!
//! ```text
//!   wait   type: order.*   match: {data.order: 7}  ─▶ subscription waypost/event[order.* {"data.order":7}]
//!   event  type: order.paid ─▶ the subscriptions of order.paid, order.* and * ─▶ those that it fits ─▶ mail
//! ```
//!
//! Unlike a signal by key, an event is for the waits that are open when it is published, and for no later ones.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::json::Json;
use crate::limits::{EVENT_MATCH_FIELDS_MAX, EVENT_NAME_BYTES_MAX, EVENT_TYPE_CHARS_MAX};

/// How the name of a wait for events begins.
const PREFIX: &str = "waypost/event[";

/// The name of a signal that is an event.
pub fn is_event(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// Is this an event's type, or the beginning of types: `order.paid`, `order.*` or `*`?
pub fn check_type(kind: &str) -> Result<(), String> {
    let exact = kind.strip_suffix('*').unwrap_or(kind);
    let is_whole = exact.len() == kind.len() || exact.is_empty() || exact.ends_with('.');
    let fits = (1..=EVENT_TYPE_CHARS_MAX).contains(&kind.chars().count())
        && !exact.contains('*')
        && !kind.chars().any(|c| c.is_whitespace() || c.is_control());
    match (fits, is_whole) {
        (true, true) => Ok(()),
        (true, false) => Err(format!(
            "in a wait, `*` stands for whole parts of a type: `{}.*` instead of `{kind}`",
            exact.trim_end_matches(['-', '_', '/', ':'])
        )),
        (false, _) => Err(format!(
            "the type of an event has up to {EVENT_TYPE_CHARS_MAX} characters without blanks, with a `*` only at the end: {kind:?}"
        )),
    }
}

/// The name of the wait for events of a type which have these values at these paths.
pub fn event_name(kind: &str, wanted: &Map<String, Value>) -> Result<Arc<str>, String> {
    check_type(kind)?;
    if wanted.len() > EVENT_MATCH_FIELDS_MAX {
        return Err(format!("`match` has at most {EVENT_MATCH_FIELDS_MAX} fields"));
    }
    if let Some((path, value)) = wanted.iter().find(|(_, value)| !is_scalar(value)) {
        return Err(format!(
            "`match` compares with a text, a number, a boolean or null; {path:?} is {value}"
        ));
    }
    let name = match wanted.is_empty() {
        true => format!("{PREFIX}{kind}]"),
        false => format!("{PREFIX}{kind} {}]", Value::Object(wanted.clone())),
    };
    match name.len() <= EVENT_NAME_BYTES_MAX {
        true => Ok(name.into()),
        false => {
            Err(format!("`type` and `match` have at most {EVENT_NAME_BYTES_MAX} bytes together"))
        }
    }
}

fn is_scalar(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        Value::Array(_) | Value::Object(_) => false,
    }
}

/// Between which names those are of the waits that may be for events of a type.
pub fn names_of(kind: &str) -> Vec<Range<String>> {
    let parts = kind.match_indices('.').filter_map(|(dot, _)| kind.get(..=dot));
    let patterns = parts.map(|part| format!("{part}*"));
    let patterns = patterns.chain(["*".to_owned(), kind.to_owned()]);
    let ranges = patterns.flat_map(|pattern| {
        let whole = format!("{PREFIX}{pattern}]");
        // `!` follows the blank.
        let matching = format!("{PREFIX}{pattern} ")..format!("{PREFIX}{pattern}!");
        [whole.clone()..format!("{whole}\u{1}"), matching]
    });
    ranges.collect()
}

/// The events that the waits of one name are for.
#[derive(Clone, PartialEq, Debug)]
pub struct WantedEvents {
    pattern: String,
    fields: Map<String, Value>,
}

impl WantedEvents {
    /// What a name says; `None` if it is not that of a wait for events.
    pub fn of(name: &str) -> Option<Self> {
        let inside = name.strip_prefix(PREFIX)?.strip_suffix(']')?;
        let (pattern, fields) = match inside.split_once(' ') {
            None => (inside, Map::new()),
            Some((pattern, fields)) => (pattern, serde_json::from_str(fields).ok()?),
        };
        Some(Self { pattern: pattern.to_owned(), fields })
    }

    /// Is this event one of them?
    pub fn has(&self, event: &Value) -> bool {
        let Some(kind) = event.get("type").and_then(Value::as_str) else { return false };
        let is_of = match self.pattern.strip_suffix('*') {
            Some(prefix) => kind.starts_with(prefix),
            None => kind == self.pattern,
        };
        let mut fields = self.fields.iter();
        is_of && fields.all(|(path, value)| at(event, path).is_some_and(|is| same(is, value)))
    }
}

/// An event as the waits for it compare it. Fields whose numbers are outside of f64 equal no `match`: they are
/// left out, and the others count.
pub fn comparable(event: &Json) -> Value {
    event.to_value().unwrap_or_else(|_| {
        let fields: BTreeMap<String, Json> = serde_json::from_str(event.text()).unwrap_or_default();
        let fields = fields
            .iter()
            .filter(|(_, value)| value.text().starts_with('{') || value.to_value().is_ok());
        fields.map(|(name, value)| (name.clone(), comparable(value))).collect()
    })
}

/// What is at a path, such as `data.order.id`.
fn at<'v>(event: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(event, |value, field| value.get(field))
}

/// Numbers by their value, also where one of them is written with a fraction.
fn same(one: &Value, other: &Value) -> bool {
    let (Value::Number(a), Value::Number(b)) = (one, other) else { return one == other };
    let is_whole = |number: &serde_json::Number| number.is_i64() || number.is_u64();
    a == b || !(is_whole(a) && is_whole(b)) && a.as_f64().is_some() && a.as_f64() == b.as_f64()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fits(name: &str, event: &Value) -> bool {
        WantedEvents::of(name).is_some_and(|wanted| wanted.has(event))
    }

    fn name(kind: &str, wanted: &Value) -> Arc<str> {
        let wanted = wanted.as_object().expect("an object");
        event_name(kind, wanted).expect("it is a wait for events")
    }

    #[test]
    fn wait_for_events_is_named_by_type_and_match() {
        assert_eq!(&*name("order.paid", &json!({})), "waypost/event[order.paid]");
        let both = json!({ "source": "shop", "data.order": 7 });
        let expected = r#"waypost/event[order.* {"data.order":7,"source":"shop"}]"#;
        assert_eq!(&*name("order.*", &both), expected);
        assert!(is_event(expected) && !is_event("waypost.delivery.7"));
    }

    #[test]
    fn event_fits_by_type_and_by_every_field() {
        let event = json!({
            "type": "order.paid", "source": "shop",
            "data": { "order": 7, "by": { "name": "Ann" }, "net": 1.5, "note": null, "a.b": 1 },
        });
        let row = |kind, wanted| (kind, wanted);
        for (kind, wanted) in [
            row("order.paid", json!({})),
            row("order.*", json!({})),
            row("*", json!({})),
            row("order.paid", json!({ "data.order": 7, "source": "shop" })),
            row("order.paid", json!({ "data.order": 7.0 })),
            row("*", json!({ "data.by.name": "Ann", "data.net": 1.5, "data.note": null })),
        ] {
            assert!(fits(&name(kind, &wanted), &event), "{kind} {wanted}");
        }
        for (kind, wanted) in [
            row("order", json!({})),
            row("order.paid.*", json!({})),
            row("order.pai", json!({})),
            row("order.paid", json!({ "data.order": "7" })),
            row("order.paid", json!({ "data.order": 7, "source": "bank" })),
            row("order.paid", json!({ "data.none": null })),
            row("order.paid", json!({ "data.order.id": 7 })),
        ] {
            assert!(!fits(&name(kind, &wanted), &event), "{kind} {wanted}");
        }
        assert!(!fits("waypost/event[order.paid {]", &event));
        assert!(!fits("paid[order.paid]", &event));
    }

    #[test]
    fn whole_numbers_are_compared_exactly() {
        let big = |order: &str| -> Value {
            let text = format!(r#"{{"type": "a", "data": {order}}}"#);
            serde_json::from_str(&text).expect("it is JSON")
        };
        let of = |data: &str| {
            name("a", &json!({ "data": serde_json::from_str::<Value>(data).expect("a number") }))
        };
        assert!(fits(&of("9007199254740993"), &big("9007199254740993")));
        assert!(!fits(&of("9007199254740993"), &big("9007199254740992")));
    }

    #[test]
    fn event_with_a_number_outside_of_f64_is_compared_by_its_other_fields() {
        let text = r#"{"type": "a", "data": {"order": 7, "far": 1e999, "all": [1e999], "in": {"x": -1e999, "y": 1}}}"#;
        let event = comparable(&Json::parse(text).expect("it is JSON"));
        for wanted in [json!({}), json!({ "data.order": 7 }), json!({ "data.in.y": 1 })] {
            assert!(fits(&name("a", &wanted), &event), "{wanted}");
        }
        for path in ["data.far", "data.all", "data.in.x"] {
            assert!(!fits(&name("a", &json!({ path: null })), &event), "{path}");
        }
    }

    #[test]
    fn names_of_waits_for_a_type_are_between_the_bounds() {
        let ranges = names_of("order.paid");
        let is_found =
            |name: &str| ranges.iter().filter(|range| range.contains(&name.to_owned())).count();
        for kind in ["order.paid", "order.*", "*"] {
            for wanted in [json!({}), json!({ "data.order": "x]" })] {
                assert_eq!(is_found(&name(kind, &wanted)), 1, "{kind} {wanted}");
            }
        }
        for kind in ["order", "order.paid.*", "order.pai", "order.paid]", "orders.*"] {
            assert_eq!(is_found(&name(kind, &json!({}))), 0, "{kind}");
        }
    }

    #[test]
    fn types_matches_and_names_have_limits() {
        for kind in ["", "a b", "a*b", "**", &"a".repeat(EVENT_TYPE_CHARS_MAX + 1), "user-*"] {
            event_name(kind, &Map::new()).expect_err("it is no type");
        }
        let with = |path: &str, value: Value| [(path.to_owned(), value)].into_iter().collect();
        event_name("a", &with("data", json!([1]))).expect_err("it is no scalar");
        let long = json!("x".repeat(EVENT_NAME_BYTES_MAX));
        event_name("a", &with("data", long)).expect_err("it is too long");
        let many = (0..=EVENT_MATCH_FIELDS_MAX).map(|at| (format!("data.f{at}"), json!(1)));
        event_name("a", &many.collect()).expect_err("they are too many");
    }
}
