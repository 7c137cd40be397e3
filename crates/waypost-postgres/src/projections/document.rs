//! The searchable JSON fields of an execution, in the form that PostgreSQL accepts.
//!
//! `jsonb` rejects some JSON: U+0000, halves of surrogate pairs, numbers beyond its range. None of
//! that may keep an execution from being projected, so such parts are left out or written in
//! another way.

use serde_json::Value;
use waypost_core::json::Json;
use waypost_core::projection::{Changes, Created};

/// Bytes of one part; more is not indexed.
const PART_BYTES_MAX: usize = 32 << 10;

/// The document of an execution, or an addition to it; `None` if there is nothing.
pub(super) fn of(created: Option<&Created>, changes: &Changes) -> Option<Vec<u8>> {
    let output = changes.end.as_ref().and_then(|end| end.output.as_ref()).and_then(part);
    let input = created.and_then(|created| part(&created.run.input));
    let labels = created.filter(|created| !created.run.labels.is_empty()).and_then(|created| {
        let text = serde_json::to_string(&created.run.labels).ok()?;
        Json::parse(&text).ok().as_ref().and_then(part)
    });
    let parts = [("input", input), ("labels", labels), ("output", output)];
    let parts = parts.into_iter().filter_map(|(name, part)| Some((name, part?)));
    let parts: Vec<String> = parts.map(|(name, part)| format!("\"{name}\":{part}")).collect();
    (!parts.is_empty()).then(|| format!("{{{}}}", parts.join(",")).into_bytes())
}

/// A value as `jsonb` takes it; nothing where there is none or it cannot.
fn part(json: &Json) -> Option<String> {
    let text = json.text();
    if text == "null" || text.len() > PART_BYTES_MAX {
        return None;
    }
    if !is_doubtful(text) {
        return Some(text.to_owned());
    }
    let mut value: Value = serde_json::from_str(text).ok()?;
    clean(&mut value);
    Some(value.to_string())
}

/// May it hold something that `jsonb` refuses? An escape, or a number with an exponent.
fn is_doubtful(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes
        .windows(2)
        .any(|pair| pair == b"\\u" || (pair[0].is_ascii_digit() && matches!(pair[1], b'e' | b'E')))
}

/// Replaces U+0000 by U+FFFD.
fn clean(value: &mut Value) {
    match value {
        Value::String(text) => *text = text.replace('\0', "\u{fffd}"),
        Value::Array(items) => items.iter_mut().for_each(clean),
        Value::Object(fields) => {
            let old = std::mem::take(fields);
            for (name, mut value) in old {
                clean(&mut value);
                fields.insert(name.replace('\0', "\u{fffd}"), value);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_with_rejected_json_is_cleaned_or_left_out() {
        let long = format!("\"{}\"", "x".repeat(PART_BYTES_MAX));
        for (text, kept) in [
            ("null", None),
            (r#"{"a":1}"#, Some(r#"{"a":1}"#)),
            (r#"{"a":"\u0000b","\u0000":"c"}"#, Some("{\"\u{fffd}\":\"c\",\"a\":\"\u{fffd}b\"}")),
            (r#""\ud83e\udd80""#, Some("\"\u{1f980}\"")),
            (r#""\ud83e""#, None),
            ("1e999999", None),
            ("[1e2]", Some("[100.0]")),
            (long.as_str(), None),
        ] {
            let Ok(json) = Json::parse(text) else {
                assert_eq!(kept, None, "{text}: the core takes less than that");
                continue;
            };
            let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap();
            assert_eq!(part(&json).as_deref().map(parse), kept.map(parse), "{text}");
        }
    }
}
