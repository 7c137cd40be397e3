//! HTTP calls, shared by the kinds whose handlers make them.
//!
//! ```text
//!   task ─▶ Call (call.rs) ─▶ exchange (exchange.rs) ─▶ Response ─▶ read_body, Refusal (response.rs)
//!           request, secrets   one request per hop,       capped      save, to a blob (streams.rs)
//!                              each hop judged by egress
//! ```
//!
//! One attempt makes one call; trying again is the engine's business, under the same idempotency key.

mod call;
mod clients;
mod exchange;
mod redirect;
mod response;
mod streams;

use std::future::Future;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use waypost_core::failure::Failure;
use waypost_core::json::Json;
use waypost_core::kind::ConfigFault;
use waypost_core::time::Millis;

use crate::config::{self, ConfigMap};
use crate::outcome::{cancelled, timed_out};

pub(crate) use call::{Call, CallBody, read_headers, unfit_for_header};
pub(crate) use clients::Clients;
pub(crate) use exchange::exchange;
pub(crate) use response::{
    EXCERPT_BYTES_MAX, Refusal, ResponseExcerpt, check_length, read_body, retry_after,
};
pub(crate) use streams::{BodyForm, not_text, save};

pub(crate) const CONNECT_TIMEOUT: Millis = Millis::from_secs(10);
/// How many redirects are followed.
const REDIRECTS_MAX: usize = 5;
/// The default maximum of a body, after decompression.
pub(crate) const RESPONSE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Runs the work of an attempt until its end, its time limit or its cancellation.
pub(crate) async fn attempt(
    limit: Millis,
    cancel: &CancellationToken,
    work: impl Future<Output = Result<Json, Failure>>,
) -> Result<Json, Failure> {
    // Dropping the work in either arm drops its connection.
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(cancelled()),
        outcome = tokio::time::timeout(limit.to_std(), work) => {
            outcome.unwrap_or_else(|_| Err(timed_out(limit)))
        }
    }
}

/// The fault of a field that is no URL, as far as that shows before its holes are filled.
pub(crate) fn check_url(config: &ConfigMap, field: &str, example: &str) -> Result<(), ConfigFault> {
    let refuse = |message: String| {
        Err(ConfigFault::at(field, message).hint(format!("write it in full: {example}")))
    };
    match config.get(field) {
        None => Ok(()),
        // With a hole in it, only the rendered text can be judged.
        Some(Value::String(url)) if url.contains("${{") => Ok(()),
        Some(Value::String(url)) => match url::Url::parse(url) {
            Ok(parsed) if matches!(parsed.scheme(), "http" | "https") => Ok(()),
            Ok(parsed) => {
                refuse(format!("only http and https can be called, not {}:", parsed.scheme()))
            }
            Err(error) => refuse(format!("not a URL: {error}")),
        },
        Some(_) => refuse(format!("`{field}` must be text")),
    }
}

/// The fault of a header that a definition may not set.
pub(crate) fn check_header_names(config: &ConfigMap) -> Result<(), ConfigFault> {
    let Some(Value::Object(headers)) = config.get("headers") else { return Ok(()) };
    for name in headers.keys() {
        call::header_name(name).map_err(|message| config::fault_at(&["headers", name], message))?;
    }
    Ok(())
}

/// The fault of a header that another field sets: `field` and the header exclude each other.
pub(crate) fn check_header_is_free(
    config: &ConfigMap,
    field: &str,
    header: &str,
) -> Result<(), ConfigFault> {
    let headers = config.get("headers").and_then(Value::as_object);
    let is_set = |name: &&String| name.eq_ignore_ascii_case(header);
    match headers.and_then(|headers| headers.keys().find(is_set)) {
        Some(name) if config.contains_key(field) => {
            let message = format!("`{field}` and the header `{header}` exclude each other");
            Err(config::fault_at(&["headers", name], message))
        }
        _ => Ok(()),
    }
}
