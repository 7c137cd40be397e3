//! What identifies a delivery: an item of the trigger that starts at most one execution.
//!
//! By default it is what the scheme signs as an id; where it signs none, an id in the body, which is signed as a
//! whole; otherwise the digest of what is signed. An id in a header that no signature covers identifies
//! nothing: a party that has seen a delivery could send it again under another one. What is not signed at all is
//! never a repeat, unless the trigger says what identifies it.

use hyper::HeaderMap;
use serde_json::Value;
use uuid::Uuid;
use waypost_core::json::Json;
use waypost_core::trigger::{VerifyScheme, WebhookTrigger};
use waypost_engine::triggers::Occurrence;

use super::verify::SignedDelivery;
use crate::problem::{Code, Problem};
use waypost_core::trigger::Payload;

/// Headers with an id that is not signed: people look for it.
const UNSIGNED_IDS: [&str; 3] = ["x-github-delivery", "x-shopify-webhook-id", "x-request-id"];

/// The occurrence of a delivery.
pub(crate) fn occurrence(
    trigger: &WebhookTrigger,
    delivery: &SignedDelivery,
    (headers, body): (&HeaderMap, &Json),
    payload: Payload,
) -> Result<Occurrence, Problem> {
    if let Some(dedupe) = &trigger.dedupe {
        let refused = |reason: String| {
            Problem::new(Code::InvalidInput, format!("the trigger's `dedupe`: {reason}"))
        };
        let value =
            dedupe.eval(&payload.scope(None)).map_err(|failure| refused(failure.message))?;
        return match value.to_value() {
            Ok(Value::String(text)) if !text.is_empty() => Ok(Occurrence::new(&text, payload)),
            Ok(Value::Number(_)) => Ok(Occurrence::new(value.text(), payload)),
            _ => Err(refused("it must give a text that is not empty, or a number".to_owned())),
        };
    }
    let in_body = match trigger.verify.scheme {
        VerifyScheme::Stripe => id_in(body, "id"),
        VerifyScheme::Slack => id_in(body, "event_id"),
        _ => None,
    };
    Ok(match (in_body, delivery) {
        (Some(id), _) => Occurrence::new(&id, payload),
        (None, SignedDelivery::Id(id)) if !id.is_empty() => Occurrence::new(id, payload),
        (_, SignedDelivery::Digest(digest)) => {
            let digest = blake3::Hash::from_bytes(*digest);
            let occurrence = Occurrence::new(&format!("digest {digest}"), payload);
            match UNSIGNED_IDS.into_iter().find_map(|name| headers.get(name)?.to_str().ok()) {
                Some(id) => Occurrence {
                    label: id.chars().take(200).collect::<String>().into(),
                    ..occurrence
                },
                None => occurrence,
            }
        }
        _ => Occurrence::new(&Uuid::new_v4().simple().to_string(), payload),
    })
}

fn id_in(body: &Json, name: &str) -> Option<String> {
    match body.to_value().ok()?.get_mut(name)?.take() {
        Value::String(id) if !id.is_empty() => Some(id),
        _ => None,
    }
}
