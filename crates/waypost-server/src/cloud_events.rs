//! Published events: CloudEvents 1.0 from HTTP requests, in the structured, the binary and the batch mode.
//!
//! Pure. All faults of a request are found at once, each with its place. Attributes that the specification
//! does not name are kept.
//!
//! | file | owns |
//! | --- | --- |
//! | `attributes` | which attributes an event must or may have, and of what form |
//! | `binary` | the mode with attributes in headers |

mod attributes;
mod binary;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use hyper::{HeaderMap, header};
use serde_json::value::RawValue;
use waypost_core::json::Json;

use crate::problem::{Code, FaultAt, Problem};

/// Bytes of one event.
pub const EVENT_BYTES_MAX: usize = 1 << 20;
/// Bytes of one request.
pub const EVENTS_BYTES_MAX: usize = 4 << 20;
/// Events of one request.
pub const EVENTS_MAX: usize = 100;

/// EventFaults of one request that are reported.
const FAULTS_MAX: usize = 200;

const STRUCTURED: &str = "application/cloudevents+json";
const BATCH: &str = "application/cloudevents-batch+json";
const JSON: &str = "application/json";

/// An event whose attributes are what they must be.
#[derive(Clone, Debug)]
pub struct CloudEvent {
    pub id: String,
    pub source: String,
    pub kind: String,
    /// The whole event, as the structured mode has it.
    pub json: Json,
}

impl CloudEvent {
    /// What identifies it: its source and its id. A source has no blank.
    pub fn key(&self) -> String {
        format!("{} {}", self.source, self.id)
    }
}

const DATA: &str = "data";
const DATA_BASE64: &str = "data_base64";

/// Reads the events of a request: one, or a batch.
pub fn parse(headers: &HeaderMap, body: &[u8]) -> Result<Vec<CloudEvent>, Problem> {
    if body.len() > EVENTS_BYTES_MAX {
        let detail = format!("a request may have at most {EVENTS_BYTES_MAX} bytes of events");
        return Err(Problem::new(Code::BodyTooLarge, detail));
    }
    let kind = media_type(headers);
    if binary::is_binary(headers) && kind != STRUCTURED && kind != BATCH {
        let mut faults = EventFaults::default();
        let event = binary::event(headers, &kind, body, &mut faults);
        return faults.end(event.into_iter().collect());
    }
    let is_batch = match kind.as_str() {
        STRUCTURED => false,
        BATCH => true,
        JSON => body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'['),
        _ => {
            let detail = format!("the body's Content-Type must be {STRUCTURED} or {BATCH}");
            return Err(Problem::new(Code::UnsupportedMediaType, detail)
                .hint("the binary mode has the event's attributes in headers, such as ce-id"));
        }
    };
    // Checks the depth, too.
    let text = Json::parse_bytes(body).map_err(|error| {
        let message: String = error.to_string().chars().take(300).collect();
        Problem::new(Code::BadBody, message)
    })?;
    let mut faults = EventFaults::default();
    let events = match is_batch {
        false => structured(text.text(), "", &mut faults).into_iter().collect(),
        true => batch(text.text(), &mut faults),
    };
    faults.end(events)
}

fn media_type(headers: &HeaderMap) -> String {
    let given = headers.get(header::CONTENT_TYPE).and_then(|given| given.to_str().ok());
    given.and_then(|given| given.split(';').next()).unwrap_or_default().trim().to_ascii_lowercase()
}

fn batch(text: &str, faults: &mut EventFaults) -> Vec<CloudEvent> {
    let Ok(texts) = serde_json::from_str::<Vec<&RawValue>>(text) else {
        faults.add("", "a batch is an array of events");
        return Vec::new();
    };
    if texts.len() > EVENTS_MAX {
        faults.add("", &format!("a batch has at most {EVENTS_MAX} events, not {}", texts.len()));
        return Vec::new();
    }
    let texts = texts.iter().enumerate();
    texts.filter_map(|(at, text)| structured(text.get(), &format!("/{at}"), faults)).collect()
}

fn structured(text: &str, place: &str, faults: &mut EventFaults) -> Option<CloudEvent> {
    if text.len() > EVENT_BYTES_MAX {
        faults.add(place, &format!("an event has at most {EVENT_BYTES_MAX} bytes"));
        return None;
    }
    let Ok(members) = serde_json::from_str::<BTreeMap<String, Json>>(text) else {
        faults.add(place, "an event is an object");
        return None;
    };
    attributes::event(members, &mut |name, message| faults.add(&format!("{place}/{name}"), message))
}

/// What is wrong with a request.
#[derive(Debug, Default)]
struct EventFaults(Vec<FaultAt>);

impl EventFaults {
    fn add(&mut self, place: &str, message: &str) {
        if self.0.len() < FAULTS_MAX {
            self.0.push(FaultAt {
                message: message.to_owned(),
                pointer: Some(place.to_owned()),
                ..FaultAt::default()
            });
        }
    }

    /// The events, if nothing is wrong with any of them.
    fn end(self, events: Vec<CloudEvent>) -> Result<Vec<CloudEvent>, Problem> {
        let detail = match self.0.len() {
            0 => return Ok(events),
            1 => "the request has a fault; no event was taken".to_owned(),
            count => format!("the request has {count} faults; no event was taken"),
        };
        Err(Problem::new(Code::BadEvent, detail).errors(self.0))
    }
}
