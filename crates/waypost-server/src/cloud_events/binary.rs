//! The binary mode: attributes in headers that begin with `ce-`, and the data in the body.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::HeaderMap;
use serde_json::Value;
use waypost_core::json::Json;

use super::{CloudEvent, DATA, DATA_BASE64, EVENT_BYTES_MAX, EventFaults, attributes};
use crate::http::parameter::{Plus, decode};

const PREFIX: &str = "ce-";

/// Does a request have attributes in headers?
pub(super) fn is_binary(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| name.as_str().starts_with(PREFIX))
}

/// The one event of a request.
pub(super) fn event(
    headers: &HeaderMap,
    media_type: &str,
    body: &[u8],
    faults: &mut EventFaults,
) -> Option<CloudEvent> {
    if body.len() > EVENT_BYTES_MAX {
        faults.add("", &format!("an event has at most {EVENT_BYTES_MAX} bytes"));
        return None;
    }
    let before = faults.0.len();
    let mut members = BTreeMap::new();
    for name in headers.keys().filter(|name| name.as_str().starts_with(PREFIX)) {
        let mut values = headers.get_all(name).iter();
        let value = values.next().and_then(|value| std::str::from_utf8(value.as_bytes()).ok());
        // By the specification, what is not printable ASCII is percent-encoded.
        match value
            .and_then(|value| decode(value, Plus::Literal))
            .filter(|_| values.next().is_none())
        {
            Some(text) => {
                let attribute = name.as_str().trim_start_matches(PREFIX).to_owned();
                members.insert(attribute, Json::from_value(&text.into()));
            }
            None => faults.add(name.as_str(), "must be there once, in percent-encoded UTF-8"),
        }
    }
    for reserved in [DATA, DATA_BASE64, "datacontenttype"] {
        if members.remove(reserved).is_some() {
            faults.add(&format!("{PREFIX}{reserved}"), "is not an attribute in a header");
        }
    }
    if !media_type.is_empty() {
        members.insert("datacontenttype".to_owned(), Json::from_value(&media_type.into()));
    }
    match data(media_type, body) {
        Ok(Some((name, data))) => drop(members.insert(name.to_owned(), data)),
        Ok(None) => {}
        Err(message) => faults.add("", &message),
    }
    let event = attributes::event(members, &mut |name, message| {
        faults.add(&format!("{PREFIX}{name}"), message);
    });
    event.filter(|_| faults.0.len() == before)
}

/// The data as the structured mode would have it.
fn data(media_type: &str, body: &[u8]) -> Result<Option<(&'static str, Json)>, String> {
    if body.is_empty() {
        return Ok(None);
    }
    let is_json =
        media_type.is_empty() || media_type == super::JSON || media_type.ends_with("+json");
    if is_json {
        let json = Json::parse_bytes(body).map_err(|error| format!("the data: {error}"))?;
        return Ok(Some((DATA, json)));
    }
    Ok(Some(match std::str::from_utf8(body) {
        Ok(text) if media_type.starts_with("text/") => (DATA, Json::from_value(&text.into())),
        _ => (DATA_BASE64, Json::from_value(&Value::String(STANDARD.encode(body)))),
    }))
}
