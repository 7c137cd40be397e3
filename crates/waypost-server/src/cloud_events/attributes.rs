//! The attributes of an event, by the specification.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use waypost_core::json::Json;
use waypost_core::time::Timestamp;

use super::{CloudEvent, DATA, DATA_BASE64};

/// Bytes of the text of one attribute.
const TEXT_BYTES_MAX: usize = 2_048;
/// Characters of the name of an attribute.
const NAME_CHARS_MAX: usize = 64;
/// The version of the specification.
const VERSION: &str = "1.0";

/// Checks the members of an event, and reports each fault with the name of its member.
pub(super) fn event(
    members: BTreeMap<String, Json>,
    fault: &mut impl FnMut(&str, &str),
) -> Option<CloudEvent> {
    let mut fine = true;
    let mut report = |name: &str, message: &str| {
        fine = false;
        fault(name, message);
    };
    // To the specification, an attribute that is null is not there.
    let mut members = members;
    members.retain(|name, value| name == DATA || !value.is_null());
    let mut texts = BTreeMap::new();
    for name in ["id", "source", "specversion", "type"] {
        match members.get(name).map(Json::to_value) {
            Some(Ok(Value::String(text))) if !text.is_empty() => drop(texts.insert(name, text)),
            Some(_) => report(name, "must be a text that is not empty"),
            None => report(name, "is missing"),
        }
    }
    if texts.get("specversion").is_some_and(|version| version != VERSION) {
        report("specversion", "must be 1.0");
    }
    for (name, value) in &members {
        if let Err(message) = check(name, value) {
            report(name, message);
        }
    }
    if members.contains_key(DATA) && members.contains_key(DATA_BASE64) {
        report(DATA_BASE64, "cannot be there beside `data`");
    }
    if !fine {
        return None;
    }
    let mut take = |name| texts.remove(name).unwrap_or_default();
    let (id, source, kind) = (take("id"), take("source"), take("type"));
    match Json::object(members.into_iter()) {
        Ok(json) => Some(CloudEvent { id, source, kind, json }),
        Err(_) => {
            fault(DATA, "is nested too deeply");
            None
        }
    }
}

/// Checks the form of one member. Those that must be there are texts already.
fn check(name: &str, value: &Json) -> Result<(), &'static str> {
    if name == DATA {
        return Ok(());
    }
    let value = value.to_value().map_err(|_| "is a number that is too large")?;
    if name == DATA_BASE64 {
        let bytes = value.as_str().map(|text| STANDARD.decode(text));
        return match bytes {
            Some(Ok(_)) => Ok(()),
            _ => Err("must be a text in Base64"),
        };
    }
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(fits) {
        return Err("names of attributes have lower-case letters and digits only");
    }
    let text = match (&value, name) {
        (Value::String(text), _) => text,
        (_, "id" | "source" | "specversion" | "type") => return Ok(()),
        (_, "subject" | "time" | "dataschema" | "datacontenttype") => return Err("must be a text"),
        (Value::Bool(_), _) => return Ok(()),
        (Value::Number(number), _) if number.as_i64().is_some_and(|n| i32::try_from(n).is_ok()) => {
            return Ok(());
        }
        _ => return Err("must be a text, a boolean or a whole number of 32 bits"),
    };
    check_text(name, text)
}

fn check_text(name: &str, text: &str) -> Result<(), &'static str> {
    if text.len() > TEXT_BYTES_MAX {
        return Err("has more than 2048 bytes");
    }
    if text.chars().any(char::is_control) {
        return Err("must not have control characters");
    }
    match name {
        "source" if !is_uri(text) => Err("must be a URI or the reference of one, without blanks"),
        "dataschema" if !is_uri(text) || !text.contains(':') => Err("must be an absolute URI"),
        "subject" | "datacontenttype" | "dataschema" if text.is_empty() => Err("must not be empty"),
        "time" if Timestamp::parse(text).is_none() => Err("must be a time by RFC 3339"),
        "datacontenttype" if !text.contains('/') || !text.is_ascii() => {
            Err("must be a media type such as application/json")
        }
        _ => Ok(()),
    }
}

/// May this text be a URI, or the reference of one? Its characters are looked at, no more.
fn is_uri(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>\"{}|\\^`".contains(&byte))
}
