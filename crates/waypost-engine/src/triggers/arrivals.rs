//! Events on their way into windows.

use std::sync::Arc;

use serde_json::Value;
use waypost_core::json::Json;
use waypost_core::time::Timestamp;
use waypost_core::trigger::{Trigger, TriggerKind};
use waypost_ports::triggers::{Arrival, TriggerRow};

use super::{ITEM_KEY_BYTES_MAX, Occurrence};

/// An event for a trigger with a window, at a time of the store; `None` if it does not meet the trigger's
/// condition; a reason, where that or its group is unknown.
pub fn arrival(
    row: &TriggerRow,
    trigger: &Trigger,
    (occurrence, event): (&Occurrence, &Json),
    now: Timestamp,
) -> Result<Option<Arrival>, String> {
    let window = match &trigger.kind {
        TriggerKind::Event(event) => event.window.as_ref(),
        _ => None,
    };
    let window = window.ok_or("the trigger has no window")?;
    let admitted = trigger.admits(&occurrence.fired(trigger, now), &occurrence.payload);
    if !admitted.map_err(|failure| failure.message)? {
        return Ok(None);
    }
    let group: Arc<str> = match &window.key {
        None => "".into(),
        Some(key) => {
            let value = key.eval(&occurrence.payload.scope(None));
            let value =
                value.map_err(|failure| format!("the window's key: {}", failure.message))?;
            match value.to_value() {
                Ok(Value::String(text)) => text.into(),
                Ok(Value::Number(_) | Value::Bool(_)) => value.text().into(),
                _ => {
                    return Err("the window's key must be a text, a number or a boolean".to_owned());
                }
            }
        }
    };
    if group.len() > ITEM_KEY_BYTES_MAX {
        return Err("the window's key is too long".to_owned());
    }
    Ok(Some(Arrival {
        at: row.at(),
        group,
        item: occurrence.item(row),
        label: Arc::clone(&occurrence.label),
        rule: window.mode,
        payload: event.text().into(),
    }))
}
