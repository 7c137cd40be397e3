//! JSON as the engine carries it: bytes that were checked once and are not parsed again.
//!
//! A payload (an input, an output, a signal's body) enters as text, is validated for well-formedness
//! and depth, and travels as that text. Numbers such as 2^53+1 or 1e400 stay exactly as they were
//! written; only an expression that looks inside turns them into values.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// How deep arrays and objects may nest in any payload. Also serde_json's own limit, kept here by
/// name because errors mention it.
pub const DEPTH_MAX: usize = 127;

/// A piece of well-formed JSON text, cheap to clone.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Json(Arc<RawValue>);

/// Why a text was refused as a payload.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadJson(String);

impl Json {
    /// `null`.
    pub fn null() -> Self {
        Self(Arc::from(RawValue::NULL.to_owned()))
    }

    /// Checks text that came from outside: well formed, and not deeper than [`DEPTH_MAX`].
    pub fn parse(text: &str) -> Result<Self, BadJson> {
        // RawValue skips over nested values without building them, and without a depth limit on
        // some paths; the counting walk is what guarantees that later parses cannot overflow.
        check_depth(text)?;
        let raw: Box<RawValue> =
            serde_json::from_str(text).map_err(|error| BadJson(error.to_string()))?;
        Ok(Self(Arc::from(raw)))
    }

    /// Checks bytes that came from outside.
    pub fn parse_bytes(bytes: &[u8]) -> Result<Self, BadJson> {
        let text = std::str::from_utf8(bytes)
            .map_err(|error| BadJson(format!("not valid UTF-8: {error}")))?;
        Self::parse(text)
    }

    /// The text of a value that was built here.
    pub fn from_value(value: &serde_json::Value) -> Self {
        let raw = serde_json::value::to_raw_value(value)
            .expect("a serde_json::Value always serialises: its keys are strings");
        Self(Arc::from(raw))
    }

    /// The text.
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// Size of the text.
    pub fn bytes(&self) -> usize {
        self.0.get().len()
    }

    /// Is this `null`?
    pub fn is_null(&self) -> bool {
        self.text() == "null"
    }

    /// Parses the text into a tree. Fails only for numbers outside of f64.
    pub fn to_value(&self) -> Result<serde_json::Value, BadJson> {
        serde_json::from_str(self.text()).map_err(|error| BadJson(error.to_string()))
    }
}

/// Reads a field that may be absent. For `#[serde(deserialize_with)]`: left to itself, serde takes a
/// field that is there and says `null` for one that is absent, and what was written is not what is
/// read.
pub fn present<'de, D: serde::Deserializer<'de>>(field: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(field).map(Some)
}

/// For `#[serde(skip_serializing_if)]`.
pub(crate) fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn check_depth(text: &str) -> Result<(), BadJson> {
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                if depth > DEPTH_MAX {
                    return Err(BadJson(format!("nested deeper than {DEPTH_MAX} levels")));
                }
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Json {}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_kept_to_the_letter() {
        for text in ["9007199254740993", "1e400", r#""\u0000""#, r#"{"b":1,"a":2}"#, "-0.0"] {
            assert_eq!(Json::parse(text).unwrap().text(), text);
        }
    }

    #[test]
    fn deep_and_broken_texts_are_refused() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(Json::parse(&deep).unwrap_err().to_string().contains("127"));
        assert!(Json::parse("{\"a\":").is_err());
        assert!(Json::parse_bytes(&[b'"', 0xff, b'"']).unwrap_err().to_string().contains("UTF-8"));
        let brackets_in_text = format!("\"{}\\\"[[\"", "[".repeat(500));
        assert!(Json::parse(&brackets_in_text).is_ok());
    }
}
