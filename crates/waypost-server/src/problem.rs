//! Problems: error responses in the format of RFC 9457, with a code that programs may match on and
//! a hint for people.
//!
//! Internal details of the engine or the store (SQL, paths, addresses) are not repeated here: an
//! internal fault is logged where it happened, and its response says only that there was one.

mod codes;
mod refused;

use std::borrow::Cow;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use waypost_engine::{EngineError, NotKept};
use waypost_ports::blobs::BlobError;
use waypost_ports::store::StoreError;

pub use self::codes::Code;
use crate::rate_limited_log::RateLimitedLog;

/// The media type of problems.
pub const CONTENT_TYPE: &str = "application/problem+json";

/// An error response.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}: {detail}", code.name())]
pub struct Problem {
    pub code: Code,
    /// This occurrence.
    pub detail: Cow<'static, str>,
    /// What to do about it.
    pub hint: Option<Cow<'static, str>>,
    /// Single faults, where there are several.
    pub errors: Vec<FaultAt>,
    /// When to try again, in seconds.
    pub retry_after: Option<u32>,
    /// The methods of the path, for 405.
    pub allow: Option<String>,
}

/// A problem on the wire.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub struct WireProblem {
    /// A URN of the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The title of the code.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// Stable; for programs.
    pub code: String,
    /// This occurrence.
    pub detail: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Single faults, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FaultAt>,
}

/// One of several faults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Fault")]
pub struct FaultAt {
    /// The fault.
    pub message: String,
    /// Stable; for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// `error` or `warning`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<String>,
    /// JSON Pointer to the culprit, or the name of a parameter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// Its place in the source of a definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<Span>,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// A place in the source of a definition. Lines and columns count from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Span {
    /// Its line.
    pub line: usize,
    /// Its column.
    pub column: usize,
    /// The byte of the source where it starts, from 0.
    pub start: usize,
    /// The byte after it.
    pub end: usize,
}

impl Problem {
    /// A problem with a detail of this occurrence.
    pub fn new(code: Code, detail: impl Into<Cow<'static, str>>) -> Self {
        let detail = detail.into();
        Self { code, detail, hint: None, errors: Vec::new(), retry_after: None, allow: None }
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(self, hint: impl Into<Cow<'static, str>>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Adds single faults.
    #[must_use]
    pub fn errors(self, errors: Vec<FaultAt>) -> Self {
        Self { errors, ..self }
    }

    /// Adds a time to wait.
    #[must_use]
    pub fn retry_after(self, seconds: u32) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    /// No execution has this id.
    pub fn unknown_execution(key: &str) -> Self {
        Self::new(Code::UnknownExecution, format!("no execution has the id {key:?}"))
            .hint("GET /v1/executions lists those that exist")
    }

    /// Something that should not happen did; the reason is for the log alone.
    pub fn internal(reason: &dyn std::fmt::Display) -> Self {
        tracing::error!(%reason, "a request could not be answered");
        Self::new(Code::Internal, "the request could not be answered; the server's log says why")
    }

    /// On the wire.
    pub fn wire(&self) -> WireProblem {
        WireProblem {
            kind: format!("urn:waypost:problem:{}", self.code.name()),
            title: self.code.title().to_owned(),
            status: self.code.status().as_u16(),
            code: self.code.name().to_owned(),
            detail: self.detail.clone().into_owned(),
            hint: self.hint.as_ref().map(|hint| hint.clone().into_owned()),
            errors: self.errors.clone(),
        }
    }

    /// The body of a reply.
    pub fn body(&self) -> Bytes {
        Bytes::from(serde_json::to_vec(&self.wire()).unwrap_or_default())
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        static AWAY: RateLimitedLog = RateLimitedLog::new();
        let unavailable = |detail: &'static str| {
            if let Some(others) = AWAY.may_log() {
                tracing::warn!(%error, others, "the store rejected a request");
            }
            Self::new(Code::StoreUnavailable, detail).retry_after(1)
        };
        match error {
            StoreError::Unavailable(_) => unavailable("the store does not answer"),
            StoreError::Full(_) => unavailable("the store is full"),
            StoreError::ReadOnly(_) => unavailable("the store is read-only"),
            _ => Self::internal(&error),
        }
    }
}

impl From<BlobError> for Problem {
    fn from(error: BlobError) -> Self {
        match &error {
            BlobError::NotFound(digest) => {
                Self::new(Code::UnknownBlob, format!("there is no blob {digest}"))
            }
            BlobError::TooLarge { limit } => {
                Self::new(Code::BodyTooLarge, format!("a blob may have at most {limit} bytes"))
                    .hint("GET /v1/limits lists all limits")
            }
            BlobError::Interrupted(_) => Self::new(Code::BadRequest, "the body broke off"),
            BlobError::Corrupt { digest, .. } => {
                tracing::error!(%error, "a blob could not be read");
                Self::new(Code::BlobDamaged, format!("blob {digest} is damaged"))
                    .hint("`waypost check --blobs` lists damaged blobs; storing the content again may help")
            }
            BlobError::Full(_) => StoreError::Full(error.to_string()).into(),
            _ => StoreError::Unavailable(error.to_string()).into(),
        }
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::IdTaken(_) => {
                Self::new(Code::IdTaken, "an execution of this id exists already")
                    .hint("choose another id, or send an Idempotency-Key to start at most one")
            }
            EngineError::IdempotencyKeyTaken(_) => {
                let detail = "this Idempotency-Key was used for another submission";
                Self::new(Code::IdempotencyMismatch, detail)
                    .hint("use a new key for each submission, and the same one only to repeat it")
            }
            EngineError::Rejected(holding) => {
                let what = if holding == 1 {
                    "execution of its key is"
                } else {
                    "executions of its key are"
                };
                let detail = format!("{holding} {what} under way, and the workflow rejects more");
                Self::new(Code::ConcurrencyLimit, detail)
                    .hint("start it when one of them has ended; `policy: queue` would let it wait")
            }
            EngineError::ClusterTooOld { .. } => Self::new(Code::ClusterTooOld, error.to_string())
                .hint("GET /v1/instances shows the version of each instance"),
            EngineError::NotKept(NotKept::Blob(error)) => error.into(),
            EngineError::NotKept(NotKept::ClusterTooOld { .. }) => {
                Self::new(Code::ClusterTooOld, error.to_string())
                    .hint("GET /v1/instances shows the version of each instance")
            }
            EngineError::NotKept(NotKept::TooManyReferences { .. }) => {
                Self::new(Code::BodyTooLarge, error.to_string())
                    .hint("name fewer blobs, or put the list of them into a blob")
            }
            EngineError::Refused(refusal) => refusal.into(),
            EngineError::BadPublicKey(_) => Self::new(Code::BadBody, error.to_string())
                .hint("send the public half of an X25519 key pair that the worker made"),
            EngineError::SecretsUnreadable(_) => {
                static UNREADABLE: RateLimitedLog = RateLimitedLog::every(10);
                if let Some(others) = UNREADABLE.may_log() {
                    tracing::error!(%error, others, "a report of a remote worker is refused");
                }
                Self::new(Code::SecretsUnreadable, error.to_string())
                    .hint("keep the report and repeat it, here or at another instance; an operator restores the source of the secret, or removes its table and restarts, which fails the attempt")
                    .retry_after(1)
            }
            EngineError::Unknown => Self::new(Code::UnknownExecution, "there is no such execution"),
            EngineError::Stopping => draining(),
            EngineError::Unanswered => unanswered(),
            EngineError::Store(error) => error.into(),
            EngineError::TooLarge(_) => Self::new(Code::BodyTooLarge, error.to_string())
                .hint("keep large data in another store and pass a reference to it"),
            EngineError::Poisoned(reason) => {
                tracing::warn!(%reason, "the store refuses a submission");
                Self::new(Code::Unstorable, "the store rejects the submission")
            }
            other => Self::internal(&other),
        }
    }
}

/// The response of an instance that is about to stop.
pub fn draining() -> Problem {
    Problem::new(Code::Draining, "this instance is stopping and takes nothing new")
        .hint("try again: another instance, or this one after its restart, takes it")
        .retry_after(1)
}

/// The response while writes to the store fail: it was not called.
pub fn store_fails(error: &StoreError) -> Problem {
    let detail = match error {
        StoreError::Full(_) => "the store is full and takes nothing new",
        StoreError::ReadOnly(_) => "the store is read-only and takes nothing new",
        _ => "writes to the store fail, and it takes nothing new",
    };
    Problem::new(Code::StoreUnavailable, detail)
        .hint("nothing was done; try again: the server's log says what is wrong with the store")
        .retry_after(5)
}

/// The response to a request that the store has neither accepted nor rejected in time.
pub fn unanswered() -> Problem {
    let detail = "the store has not taken it in time; whether it will is not known";
    Problem::new(Code::StoreUnavailable, detail)
        .hint("repeat it under the same Idempotency-Key or messageId to do it once")
        .retry_after(5)
}

/// The response for a signal that is in the inbox and that the execution's owner has not taken in
/// time.
pub fn undecided(message: &str) -> Problem {
    let detail = format!(
        "the signal is in the inbox as messageId {message:?}, and no instance has taken it in time; \
         it is taken when the execution goes on, unless that ends first"
    );
    Problem::new(Code::StoreUnavailable, detail)
        .hint("send it again with this messageId: the answer says what became of it")
        .retry_after(5)
}
