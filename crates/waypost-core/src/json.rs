//! JSON as the engine carries it: bytes that were checked once and are not parsed again.
//!
//! A payload (an input, an output, a signal's body) enters as text, is validated for well-formedness
//! and depth, and travels as that text. Numbers such as 2^53+1 or 1e400 stay exactly as they were
//! written; only an expression that looks inside turns them into values.
//!
//! A payload, or a value in it, may be a *reference*: it stands for the content of a blob. It is
//! written as `{"$blob":"<digest>","bytes":<n>}`, with no blank in it, and nothing else is written so:
//! text from outside that looks like one gets a blank after its bracket. So a sender of data from
//! outside can name a blob only where that is asked for and checked ([`Json::adopt`]).

mod parts;
mod reference;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use self::reference::plain;

pub(crate) use self::reference::reference_at;
pub use self::reference::{Claim, REFERENCE_BYTES_MIN, references};

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

impl From<&str> for BadJson {
    fn from(reason: &str) -> Self {
        Self(reason.to_owned())
    }
}

impl Json {
    /// `null`.
    pub fn null() -> Self {
        Self(Arc::from(RawValue::NULL.to_owned()))
    }

    /// Checks text that came from outside: well formed, not deeper than [`DEPTH_MAX`], and without
    /// halves of surrogate pairs.
    /// It has no references.
    pub fn parse(text: &str) -> Result<Self, BadJson> {
        Self::parse_own(&plain(text))
    }

    /// Checks text that was put together here, from payloads and references.
    pub fn parse_own(text: &str) -> Result<Self, BadJson> {
        // RawValue skips over nested values without building them, and without a depth limit on
        // some paths; the counting walk is what guarantees that later parses cannot overflow.
        check_inside(text)?;
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

    /// The text of a value that was built here. It has no references.
    pub fn from_value(value: &serde_json::Value) -> Self {
        let raw = serde_json::value::to_raw_value(value)
            .expect("a serde_json::Value always serialises: its keys are strings");
        match plain(raw.get()) {
            Cow::Borrowed(_) => Self(Arc::from(raw)),
            Cow::Owned(text) => {
                let raw = RawValue::from_string(text);
                Self(Arc::from(raw.expect("a blank between two tokens changes no value")))
            }
        }
    }

    /// An object of texts that are JSON already, without parsing them. Fails where they are nested
    /// so deeply that one more level is too many.
    pub fn object(fields: impl Iterator<Item = (impl AsRef<str>, Self)>) -> Result<Self, BadJson> {
        let mut text = String::from("{");
        for (key, value) in fields {
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(&serde_json::Value::from(key.as_ref()).to_string());
            text.push(':');
            text.push_str(value.text());
        }
        text.push('}');
        Self::parse_own(&text)
    }

    /// A list of texts that are JSON already; fails as [`object`](Self::object) does.
    pub fn list<'a>(items: impl Iterator<Item = &'a Self>) -> Result<Self, BadJson> {
        let mut text = String::from("[");
        for item in items {
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(item.text());
        }
        text.push(']');
        Self::parse_own(&text)
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

/// Reads a field that may be absent. For `#[serde(deserialize_with)]`: serde by itself reads a
/// field that is `null` as absent, so that the value read would differ from the one written.
pub fn present<'de, D: serde::Deserializer<'de>>(field: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(field).map(Some)
}

/// Maps whose keys are not texts, as lists of pairs. For `#[serde(with)]`.
pub(crate) mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &BTreeMap<K, V>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map)
    }

    pub(crate) fn deserialize<'de, K, V, D>(deserializer: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Ok(Vec::<(K, V)>::deserialize(deserializer)?.into_iter().collect())
    }
}

/// For `#[serde(skip_serializing_if)]` of counts that most events do not have.
pub(crate) fn is_none(count: &u64) -> bool {
    *count == 0
}

/// For `#[serde(skip_serializing_if)]`.
pub(crate) fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Checks what [`RawValue`] does not: how deep the text nests, and whether each escape is a
/// character. Half of a surrogate pair is none, so the text could not become a value later.
fn check_inside(text: &str) -> Result<(), BadJson> {
    let bytes = text.as_bytes();
    let (mut depth, mut in_string, mut at) = (0usize, false, 0);
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'\\' if in_string => {
                at += escape_length(bytes, at).ok_or_else(|| half(text, at - 1))?
            }
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

/// How many bytes belong to an escape, after its backslash; `None` for half of a surrogate pair.
/// Invalid escapes are left to the parser.
fn escape_length(bytes: &[u8], at: usize) -> Option<usize> {
    let unit = |at: usize| {
        let digits = bytes.get(at..at + 5)?.strip_prefix(b"u")?;
        let digit = |byte: &u8| char::from(*byte).to_digit(16);
        digits.iter().try_fold(0, |number, byte| Some(number * 16 + digit(byte)?))
    };
    match unit(at) {
        None => Some(1),
        Some(0xd800..0xdc00) => {
            let paired =
                bytes.get(at + 5) == Some(&b'\\') && matches!(unit(at + 6), Some(0xdc00..0xe000));
            paired.then_some(11)
        }
        Some(0xdc00..0xe000) => None,
        Some(_) => Some(5),
    }
}

fn half(text: &str, at: usize) -> BadJson {
    let before = text.get(..at).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |rest| rest.chars().count()) + 1;
    let escape = text.get(at..at + 6).unwrap_or_default();
    BadJson(format!(
        "{escape} at line {line} column {column} is half of a surrogate pair and stands for no \
         character"
    ))
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
    fn half_of_a_surrogate_pair_is_refused_where_it_stands() {
        for text in [r#""\ud83d\ude00""#, r#""\\ud800""#, r#"{"\u00e9":"\uD83D\uDE00\u0041"}"#] {
            assert!(Json::parse(text).is_ok(), "{text}");
        }
        for (text, place) in [
            (r#""\ud800""#, r"\ud800 at line 1 column 2 "),
            (r#""\uDFFF""#, r"\uDFFF at line 1 column 2 "),
            (r#"["é", "\ud800\u0041"]"#, r"\ud800 at line 1 column 8 "),
            ("{\n \"a\": \"x\\ude00\"}", r"\ude00 at line 2 column 9 "),
            (r#"{"\ud800":1}"#, r"\ud800 at line 1 column 3 "),
            (r#""\ud800\ud800""#, r"\ud800 at line 1 column 2 "),
            (r#""\\\ud800""#, r"\ud800 at line 1 column 4 "),
        ] {
            let error = Json::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(place), "{text}: {error}");
        }
        for text in [r#""\ud8""#, r#""\"#, r#""\u""#, r#""\q""#] {
            assert!(Json::parse(text).is_err(), "{text}");
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
