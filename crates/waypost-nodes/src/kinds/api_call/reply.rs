//! The reply: reads a response no further than it may, and makes the node's output or failure of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, DATE, HeaderMap, HeaderName, RETRY_AFTER};
use reqwest::{Response, StatusCode};
use serde::Serialize;
use waypost_core::blob::BlobRef;
use waypost_core::failure::{Failure, kind};
use waypost_core::json::Json;
use waypost_core::limits::PAYLOAD_BYTES_MAX;
use waypost_core::time::{DURATION_MAX, Millis};
use waypost_ports::blobs::Blobs;

use super::call::Call;
use super::exchange::failure_of;
use super::streams::{BodyForm, not_text, save};
use super::verdict::Judged;
use crate::outcome::{self, INVALID_RESPONSE};

/// Bytes of a failed call's body that are stored.
const EXCERPT_BYTES_MAX: usize = 4 * 1024;
/// Bytes of a body that are kept in the output itself: with its headers, and its quotes escaped, it fits
/// into the log.
const INLINE_BYTES_MAX: usize = PAYLOAD_BYTES_MAX / 4 * 3;
/// How long a failed call's body is waited for: its status is worth more than its text.
const EXCERPT_WAIT: Duration = Duration::from_secs(2);

#[derive(Serialize)]
struct Output {
    status: u16,
    headers: BTreeMap<String, String>,
    body: Json,
}

#[derive(Serialize)]
struct Details {
    status: u16,
    body: Json,
    truncated: bool,
}

/// Reads a response to the end and judges it.
pub(super) async fn read(
    call: &Call,
    blobs: Option<&Arc<dyn Blobs>>,
    response: Response,
) -> Result<Json, Failure> {
    let status = response.status();
    let headers = plain_headers(response.headers());
    if !call.accepts(status) {
        return Err(refused(call, response, headers).await);
    }
    let retry_after = retry_after(response.headers());
    let encoding = headers.get(CONTENT_ENCODING.as_str()).cloned();
    let is_json = headers.get(CONTENT_TYPE.as_str()).is_some_and(|value| is_json(value));
    let body = read_body(call, blobs, response, is_json).await?;
    let is_empty = matches!(&body, ReadBody::Whole(bytes) if bytes.is_empty());
    // A body that was decompressed has no such header any more.
    if let Some(encoding) = encoding.filter(|encoding| !is_identity(encoding) && !is_empty) {
        let message = format!(
            "{}: Content-Encoding {encoding:?} is not supported; use gzip, deflate or br",
            call.describe()
        );
        return Err(Failure::permanent(INVALID_RESPONSE, message));
    }
    let body = match body {
        ReadBody::Saved(blob) => Json::reference(blob),
        ReadBody::Whole(bytes) => read_value(&bytes, is_json).map_err(|reason| {
            Failure::permanent(INVALID_RESPONSE, format!("{}: {reason}", call.describe()))
        })?,
    };
    let output = outcome::output(&Output { status: status.as_u16(), headers, body: body.clone() })?;
    match call.verdict.of(&output)? {
        None => Ok(output),
        Some(held) => {
            let (body, truncated) = shortened(body);
            let details = Details { status: status.as_u16(), body, truncated };
            Err(judged(call, &held, &details, retry_after))
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
fn judged(call: &Call, held: &Judged, details: &Details, retry_after: Option<Millis>) -> Failure {
    let message = format!("{} answered {}, and {}", call.describe(), details.status, held.what);
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

pub(super) fn too_large(call: &Call) -> Failure {
    let max = call.response_bytes_max;
    let message = format!("{} answered with more than {max} bytes", call.describe());
    Failure::permanent(kind::TOO_LARGE, message)
}

/// Reads a body, and not one chunk more than the cap allows: into memory as long as it fits into the
/// log, else into the blob store. Bytes are counted after decompression, piece by piece, so that a small
/// body cannot become a large one unseen.
async fn read_body(
    call: &Call,
    blobs: Option<&Arc<dyn Blobs>>,
    mut response: Response,
    is_json: bool,
) -> Result<ReadBody, Failure> {
    let max = call.response_bytes_max;
    // A HEAD response announces the length and the encoding of a body that does not come.
    let never_has_one =
        call.method == reqwest::Method::HEAD || response.status() == StatusCode::NO_CONTENT;
    if never_has_one {
        return Ok(ReadBody::Whole(Vec::new()));
    }
    if response.content_length().unwrap_or(0) > max {
        return Err(too_large(call));
    }
    let form = if call.download || is_json { BodyForm::Bytes } else { BodyForm::Text };
    let inline_max = if call.download { 0 } else { INLINE_BYTES_MAX };
    let mut body = Vec::new();
    loop {
        if let Some(blobs) = blobs.filter(|_| body.len() > inline_max || call.download) {
            return Ok(ReadBody::Saved(save(call, blobs, (body, response), form).await?));
        }
        let chunk = response.chunk().await.map_err(|error| failure_of(call, &error))?;
        let Some(chunk) = chunk else { return Ok(ReadBody::Whole(body)) };
        call.marks.beat();
        body.extend_from_slice(&chunk);
        if body.len() as u64 > max {
            return Err(too_large(call));
        }
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
async fn refused(call: &Call, response: Response, headers: BTreeMap<String, String>) -> Failure {
    let status = response.status();
    let retry_after = retry_after(response.headers());
    let (excerpt, truncated) = excerpt(response).await;
    let body = match Json::parse_bytes(&excerpt) {
        Ok(json) if !truncated => json,
        _ => Json::from_value(&String::from_utf8_lossy(&excerpt).into()),
    };
    let details = Details { status: status.as_u16(), body, truncated };
    // An error page need not have the fields that an expression reads: one that cannot be evaluated
    // on it is ignored, and the status decides.
    if !call.verdict.is_empty()
        && let Ok(seen) =
            outcome::output(&Output { status: details.status, headers, body: details.body.clone() })
        && let Ok(Some(held)) = call.verdict.of(&seen)
    {
        return judged(call, &held, &details, retry_after);
    }
    Failure {
        status: Some(status.as_u16()),
        retryable: is_transient(status),
        retry_after,
        details: outcome::output(&details).ok(),
        ..Failure::permanent(kind::HTTP, format!("{} answered {status}", call.describe()))
    }
}

fn is_transient(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS
    ) || status.is_server_error()
}

/// The start of a body, and whether there was more of it. Errors end it early.
async fn excerpt(mut response: Response) -> (Vec<u8>, bool) {
    let mut excerpt = Vec::new();
    let whole = tokio::time::timeout(EXCERPT_WAIT, async {
        while let Ok(Some(chunk)) = response.chunk().await {
            excerpt.extend_from_slice(&chunk);
            if excerpt.len() > EXCERPT_BYTES_MAX {
                return false;
            }
        }
        true
    })
    .await;
    excerpt.truncate(EXCERPT_BYTES_MAX);
    (excerpt, whole != Ok(true))
}

/// `Retry-After` as a span. A date is measured against the server's own `Date`, so that a difference
/// between its clock and ours does not matter.
fn retry_after(headers: &HeaderMap) -> Option<Millis> {
    let text = |name: HeaderName| headers.get(name)?.to_str().ok().map(str::trim);
    let asked = text(RETRY_AFTER)?;
    if !asked.is_empty() && asked.bytes().all(|byte| byte.is_ascii_digit()) {
        let seconds = asked.parse().unwrap_or(u64::MAX);
        return Some(Millis::from_secs(seconds).min(DURATION_MAX));
    }
    let due = http_date(asked)?;
    let now = text(DATE).and_then(http_date).unwrap_or_else(Timestamp::now);
    let wait = due.as_millisecond().saturating_sub(now.as_millisecond());
    Some(Millis(u64::try_from(wait).unwrap_or(0)).min(DURATION_MAX))
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`
fn http_date(text: &str) -> Option<Timestamp> {
    rfc2822::DateTimeParser::new().parse_timestamp(text).ok()
}
