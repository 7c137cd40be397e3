//! The reply: reads a response no further than it may, and makes the node's output or failure of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use reqwest::{Method, Response, StatusCode};
use serde::Serialize;
use waypost_core::blob::BlobRef;
use waypost_core::failure::{Failure, kind};
use waypost_core::json::Json;
use waypost_core::limits::PAYLOAD_BYTES_MAX;
use waypost_core::time::Millis;
use waypost_ports::blobs::Blobs;

use super::request::ApiCall;
use super::verdict::Judged;
use crate::http::{
    self, BodyForm, EXCERPT_BYTES_MAX, Refusal, ResponseExcerpt, check_length, not_text,
    retry_after, save,
};
use crate::outcome::{self, INVALID_RESPONSE};

/// Bytes of a body that are kept in the output itself: with its headers, and its quotes escaped, it fits
/// into the log.
const INLINE_BYTES_MAX: usize = PAYLOAD_BYTES_MAX / 4 * 3;

#[derive(Serialize)]
struct Output {
    status: u16,
    headers: BTreeMap<String, String>,
    body: Json,
}

/// Reads a response to the end and judges it.
pub(super) async fn read(
    api: &ApiCall,
    blobs: Option<&Arc<dyn Blobs>>,
    response: Response,
) -> Result<Json, Failure> {
    let status = response.status();
    let headers = plain_headers(response.headers());
    if !api.accepts(status) {
        return Err(refused(api, response, headers).await);
    }
    let retry_after = retry_after(response.headers());
    let encoding = headers.get(CONTENT_ENCODING.as_str()).cloned();
    let is_json = headers.get(CONTENT_TYPE.as_str()).is_some_and(|value| is_json(value));
    let body = read_body(api, blobs, response, is_json).await?;
    let is_empty = matches!(&body, ReadBody::Whole(bytes) if bytes.is_empty());
    // A body that was decompressed has no such header any more.
    if let Some(encoding) = encoding.filter(|encoding| !is_identity(encoding) && !is_empty) {
        let message = format!(
            "{}: Content-Encoding {encoding:?} is not supported; use gzip, deflate or br",
            api.call.describe()
        );
        return Err(Failure::permanent(INVALID_RESPONSE, message));
    }
    let body = match body {
        ReadBody::Saved(blob) => Json::reference(blob),
        ReadBody::Whole(bytes) => read_value(&bytes, is_json).map_err(|reason| {
            Failure::permanent(INVALID_RESPONSE, format!("{}: {reason}", api.call.describe()))
        })?,
    };
    let output = outcome::output(&Output { status: status.as_u16(), headers, body: body.clone() })?;
    match api.verdict.of(&output)? {
        None => Ok(output),
        Some(held) => {
            let (body, truncated) = shortened(body);
            let details = ResponseExcerpt { status: status.as_u16(), body, truncated };
            Err(judged(api, &held, &details, retry_after))
        }
    }
}

/// A body as details keep it, and whether some of it is missing.
fn shortened(body: Json) -> (Json, bool) {
    if body.bytes() <= EXCERPT_BYTES_MAX {
        return (body, false);
    }
    let text = outcome::text_of(&body);
    let end = text.floor_char_boundary(EXCERPT_BYTES_MAX);
    (Json::from_value(&text.get(..end).unwrap_or_default().into()), true)
}

/// The failure of a call whose response `failWhen` or `retryWhen` holds for. It has no status, so
/// that `retry`'s rules for statuses do not apply.
fn judged(
    api: &ApiCall,
    held: &Judged,
    details: &ResponseExcerpt,
    retry_after: Option<Millis>,
) -> Failure {
    let message = format!("{} answered {}, and {}", api.call.describe(), details.status, held.what);
    Failure {
        retryable: held.kind == kind::RETRY_WHEN,
        retry_after: retry_after.filter(|_| held.kind == kind::RETRY_WHEN),
        details: outcome::output(details).ok(),
        ..Failure::permanent(held.kind, message)
    }
}

enum ReadBody {
    Whole(Vec<u8>),
    Saved(BlobRef),
}

/// Reads a body: into memory as long as it fits into the log, else into the blob store.
async fn read_body(
    api: &ApiCall,
    blobs: Option<&Arc<dyn Blobs>>,
    mut response: Response,
    is_json: bool,
) -> Result<ReadBody, Failure> {
    let call = &api.call;
    // A HEAD response announces the length and the encoding of a body that does not come.
    if call.method == Method::HEAD || response.status() == StatusCode::NO_CONTENT {
        return Ok(ReadBody::Whole(Vec::new()));
    }
    let form = if api.download || is_json { BodyForm::Bytes } else { BodyForm::Text };
    let inline_max = if blobs.is_some() { INLINE_BYTES_MAX } else { usize::MAX };
    let (begun, ended) = if api.download {
        check_length(call, &response)?;
        (Vec::new(), false)
    } else {
        http::read_body(call, &mut response, inline_max).await?
    };
    match blobs.filter(|_| !ended) {
        Some(blobs) => Ok(ReadBody::Saved(save(call, blobs, (begun, response), form).await?)),
        None => Ok(ReadBody::Whole(begun)),
    }
}

fn read_value(bytes: &[u8], is_json: bool) -> Result<Json, String> {
    if bytes.is_empty() {
        return Ok(Json::null());
    }
    if is_json {
        return Json::parse_bytes(bytes)
            .map_err(|error| format!("the response is labelled JSON but is not: {error}"));
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(Json::from_value(&text.into())),
        Err(error) => Err(not_text(&error)),
    }
}

/// `application/json`, `application/problem+json; charset=utf-8`, …
fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || essence == "text/json" || essence.ends_with("+json")
}

fn is_identity(encoding: &str) -> bool {
    let mut names = encoding.split(',').map(str::trim);
    names.all(|name| name.is_empty() || name.eq_ignore_ascii_case("identity"))
}

/// Headers with lower-case names, repeated ones joined.
fn plain_headers(headers: &HeaderMap) -> BTreeMap<String, String> {
    let mut plain: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in headers {
        let value = String::from_utf8_lossy(value.as_bytes());
        plain
            .entry(name.as_str().to_owned())
            .and_modify(|all| {
                all.push_str(", ");
                all.push_str(&value);
            })
            .or_insert_with(|| value.into_owned());
    }
    plain
}

/// The failure of a call whose status was not accepted.
async fn refused(api: &ApiCall, response: Response, headers: BTreeMap<String, String>) -> Failure {
    let refusal = Refusal::read(response).await;
    let details = &refusal.details;
    // An error page need not have the fields that an expression reads: one that cannot be evaluated
    // on it is ignored, and the status decides.
    if !api.verdict.is_empty()
        && let Ok(seen) =
            outcome::output(&Output { status: details.status, headers, body: details.body.clone() })
        && let Ok(Some(held)) = api.verdict.of(&seen)
    {
        return judged(api, &held, details, refusal.retry_after);
    }
    refusal.failure(&api.call)
}
