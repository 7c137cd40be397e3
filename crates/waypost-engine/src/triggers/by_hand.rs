//! What a person gives a trigger, and what its expressions see of it.

use std::collections::BTreeMap;

use serde_json::Value;
use waypost_core::failure::Failure;
use waypost_core::json::Json;
use waypost_core::time::Timestamp;
use waypost_core::trigger::{Payload, Trigger, TriggerKind, WebhookTrigger, WindowMode};

use super::Occurrence;

/// What a person gives a trigger.
#[derive(Clone, Copy, Debug)]
pub struct ByHand<'a> {
    /// What its kind brings: a body, an event, an item, an execution. A schedule brings nothing.
    pub payload: &'a Json,
    /// Of a webhook: an object of request headers, or null.
    pub headers: &'a Json,
}

impl ByHand<'_> {
    pub(super) fn payload_of(&self, kind: &TriggerKind) -> Result<Payload, String> {
        let Self { payload, headers } = *self;
        let empty = || Json::from_value(&serde_json::json!({}));
        if !headers.is_null() && !matches!(kind, TriggerKind::Webhook(_)) {
            return Err("only webhook triggers have headers".to_owned());
        }
        Ok(match kind {
            TriggerKind::Schedule(_) => Payload::nothing(),
            TriggerKind::Webhook(webhook) => {
                Payload::request(payload, &seen_headers(webhook, headers)?, &empty())
            }
            TriggerKind::Event(event) => match event.window.as_ref().map(|window| window.mode) {
                Some(WindowMode::Batch { .. }) => {
                    let events = std::slice::from_ref(payload);
                    Payload::events(events).map_err(|error| error.to_string())?
                }
                Some(WindowMode::Debounce { .. } | WindowMode::Throttle(_)) | None => {
                    Payload::event(payload)
                }
            },
            TriggerKind::Poll(_) | TriggerKind::Stream(_) => Payload::item(payload, &empty()),
            TriggerKind::WorkflowEnded(_) => Payload::ended(payload),
        })
    }
}

impl ByHand<'_> {
    /// Does the event of a trigger with a window meet its condition? Other triggers are asked when they fire.
    pub(super) fn is_admitted(&self, trigger: &Trigger, now: Timestamp) -> Result<bool, Failure> {
        match &trigger.kind {
            TriggerKind::Event(event) if event.window.is_some() => {
                let occurrence = Occurrence::new("by hand", Payload::event(self.payload));
                trigger.admits(&occurrence.fired(trigger, now), &occurrence.payload)
            }
            _ => Ok(true),
        }
    }
}

/// The headers that the trigger names, as its expressions see them: those that are not given are null.
fn seen_headers(webhook: &WebhookTrigger, given: &Json) -> Result<Json, String> {
    let given: Option<BTreeMap<String, String>> = serde_json::from_str(given.text())
        .map_err(|_| "the headers must be an object of texts".to_owned())?;
    let mut given = given.unwrap_or_default();
    given = given.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
    let seen = webhook.headers.iter().map(|name| {
        let value = given.remove(&**name).map_or(Value::Null, Value::String);
        (name, Json::from_value(&value))
    });
    let seen = Json::object(seen.collect::<Vec<_>>().into_iter());
    match given.keys().next() {
        Some(name) => Err(format!("the trigger's `headers` do not name {name:?}")),
        None => seen.map_err(|error| error.to_string()),
    }
}
