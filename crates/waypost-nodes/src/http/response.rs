//! A response's body in memory, and the failure of a response whose status is not accepted.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822;
use reqwest::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};
use reqwest::{Response, StatusCode};
use serde::Serialize;
use waypost_core::failure::{Failure, kind};
use waypost_core::json::Json;
use waypost_core::time::{DURATION_MAX, Millis};

use super::call::Call;
use super::exchange::failure_of;
use crate::outcome;

/// Bytes of a failed call's body that are stored.
pub(crate) const EXCERPT_BYTES_MAX: usize = 4 * 1024;
/// How long a failed call's body is waited for: its status is worth more than its text.
const EXCERPT_WAIT: Duration = Duration::from_secs(2);

/// Reads a body to its end, or until it has more than `most` bytes; returns whether it ended. Bytes are
/// counted after decompression, piece by piece, so that a small body cannot become a large one unseen:
/// not one chunk more is read than the call's cap allows.
pub(crate) async fn read_body(
    call: &Call,
    response: &mut Response,
    most: usize,
) -> Result<(Vec<u8>, bool), Failure> {
    let max = call.response_bytes_max;
    check_length(call, response)?;
    let mut body = Vec::new();
    while body.len() <= most {
        let chunk = response.chunk().await.map_err(|error| failure_of(call, &error))?;
        let Some(chunk) = chunk else { return Ok((body, true)) };
        call.marks.beat();
        body.extend_from_slice(&chunk);
        if body.len() as u64 > max {
            return Err(too_large(call));
        }
    }
    Ok((body, false))
}

/// Refuses a body that announces to be larger than the call's cap.
pub(crate) fn check_length(call: &Call, response: &Response) -> Result<(), Failure> {
    match response.content_length() {
        Some(bytes) if bytes > call.response_bytes_max => Err(too_large(call)),
        _ => Ok(()),
    }
}

pub(crate) fn too_large(call: &Call) -> Failure {
    let max = call.response_bytes_max;
    let message = format!("{} answered with more than {max} bytes", call.describe());
    Failure::permanent(kind::TOO_LARGE, message)
}

/// What a failure keeps of a response.
#[derive(Serialize)]
pub(crate) struct ResponseExcerpt {
    pub(crate) status: u16,
    pub(crate) body: Json,
    pub(crate) truncated: bool,
}

/// A response whose status is not accepted.
pub(crate) struct Refusal {
    status: StatusCode,
    pub(crate) retry_after: Option<Millis>,
    pub(crate) details: ResponseExcerpt,
}

impl Refusal {
    pub(crate) async fn read(response: Response) -> Self {
        let status = response.status();
        let retry_after = retry_after(response.headers());
        let (excerpt, truncated) = excerpt(response).await;
        let body = match Json::parse_bytes(&excerpt) {
            Ok(json) if !truncated => json,
            _ => Json::from_value(&String::from_utf8_lossy(&excerpt).into()),
        };
        let details = ResponseExcerpt { status: status.as_u16(), body, truncated };
        Self { status, retry_after, details }
    }

    pub(crate) fn failure(&self, call: &Call) -> Failure {
        Failure {
            status: Some(self.status.as_u16()),
            retryable: is_transient(self.status),
            retry_after: self.retry_after,
            details: outcome::output(&self.details).ok(),
            ..Failure::permanent(
                kind::HTTP,
                format!("{} answered {}", call.describe(), self.status),
            )
        }
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
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Millis> {
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
