//! A request on its way to an action, and the reply on its way back.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::{HeaderMap, Method, StatusCode, header};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use waypost_core::json::Json;
use waypost_engine::links::Link;

use super::parameter::Values;
use super::upload::Upload;
use crate::access::Identity;
use crate::budget::{SMALL_BYTES, Share, TINY_BYTES};
use crate::problem::{self, Code, Problem};
use crate::server::Sent;
use crate::wire::payload::object;

/// A request that may be made, with its parameters checked and its body read.
#[derive(Clone, Debug)]
pub struct Call {
    pub identity: Identity,
    /// The claims of the link that it came with; set for every route that takes links.
    pub link: Option<Link>,
    pub address: SocketAddr,
    pub method: Method,
    pub values: Values,
    /// The query as it came, of a request to a webhook trigger.
    pub query: Option<Arc<str>>,
    pub headers: HeaderMap,
    /// The body; empty where there was none.
    pub body: Bytes,
    /// The body of an upload, which is read as it comes.
    pub upload: Upload,
    /// Ends the connection that it came on.
    pub connection: CancellationToken,
}

impl Call {
    /// The body as a value of a type. A body that was left out is `{}`.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        let bytes: &[u8] = if self.body.is_empty() { b"{}" } else { &self.body };
        // Checks the depth, which serde would not do for payloads that are not looked into.
        let text = Json::parse_bytes(bytes).map_err(|error| bad_body(&error))?;
        let mut deserializer = serde_json::Deserializer::from_str(text.text());
        object(&mut deserializer).map_err(|error| bad_body(&error))
    }

    /// The body as any JSON. A body that was left out is `null`.
    pub fn payload(&self) -> Result<Json, Problem> {
        match self.body.is_empty() {
            true => Ok(Json::null()),
            false => Json::parse_bytes(&self.body).map_err(|error| bad_body(&error)),
        }
    }

    /// The caller, as the log names it.
    pub fn actor(&self) -> Option<Arc<str>> {
        Some(Arc::clone(&self.identity.actor))
    }
}

fn bad_body(error: &dyn std::fmt::Display) -> Problem {
    // The parser's messages may quote a part of the body, of any length.
    let message: String = error.to_string().chars().take(300).collect();
    Problem::new(Code::BadBody, message).hint("/openapi.json says what the body must be")
}

/// A route's response.
#[derive(Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: ReplyBody,
    /// The subject of the action, for the audit log.
    pub subject: Option<Arc<str>>,
    /// The room that its body takes up in the budget, where it has been counted.
    pub share: Option<Share>,
}

impl Reply {
    /// JSON, on a line of its own: many read it in a terminal.
    pub fn json(status: StatusCode, value: &impl Serialize) -> Result<Self, Problem> {
        let mut body = serde_json::to_vec(value).map_err(|error| Problem::internal(&error))?;
        body.push(b'\n');
        // A vector that grew has up to twice the room that it needs, for as long as the reply is
        // being sent; only the needed part is counted.
        let body = match body.len() > SMALL_BYTES {
            true => Bytes::copy_from_slice(&body),
            false => body.into(),
        };
        Ok(Self::text(status, "application/json", body))
    }

    /// JSON, with 200.
    pub fn ok(value: &impl Serialize) -> Result<Self, Problem> {
        Self::json(StatusCode::OK, value)
    }

    /// Bytes of a media type.
    pub fn text(status: StatusCode, media_type: &'static str, body: impl Into<Bytes>) -> Self {
        let mut reply = Self::new(status, ReplyBody::Whole(Some(body.into())));
        let media_type = header::HeaderValue::from_static(media_type);
        reply.headers.insert(header::CONTENT_TYPE, media_type);
        reply
    }

    /// Nothing, with 204.
    pub fn empty() -> Self {
        Self::new(StatusCode::NO_CONTENT, ReplyBody::Whole(None))
    }

    /// A reply without headers.
    pub fn new(status: StatusCode, body: ReplyBody) -> Self {
        Self { status, headers: HeaderMap::new(), body, subject: None, share: None }
    }

    /// A problem.
    pub fn problem(problem: &Problem) -> Self {
        let body = [&problem.body()[..], b"\n"].concat();
        let mut reply = Self::text(problem.code.status(), problem::CONTENT_TYPE, body);
        let mut set = |name, value: String| {
            if let Ok(value) = header::HeaderValue::from_str(&value) {
                reply.headers.insert(name, value);
            }
        };
        if let Some(seconds) = problem.retry_after {
            set(header::RETRY_AFTER, seconds.to_string());
        }
        if let Some(allow) = &problem.allow {
            set(header::ALLOW, allow.clone());
        }
        if problem.code == Code::Unauthenticated {
            set(header::WWW_AUTHENTICATE, "Bearer realm=\"waypost\"".to_owned());
        }
        reply
    }

    /// Bytes of its body that are in memory, where they are worth counting and have not been.
    pub fn uncounted(&self) -> Option<usize> {
        match &self.body {
            ReplyBody::Whole(Some(bytes)) if self.share.is_none() && bytes.len() > TINY_BYTES => {
                Some(bytes.len())
            }
            ReplyBody::Whole(_) | ReplyBody::Shared(_) | ReplyBody::Stream(_) => None,
        }
    }

    /// Bytes that are in memory once, for any number of requests.
    pub fn shared(media_type: &'static str, body: Bytes) -> Self {
        let reply = Self::text(StatusCode::OK, media_type, Bytes::new());
        Self { body: ReplyBody::Shared(Some(body)), ..reply }
    }

    /// Adds a header.
    #[must_use]
    pub fn with(mut self, name: header::HeaderName, value: &str) -> Self {
        if let Ok(value) = header::HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
        self
    }

    /// Sets the subject, for the audit log.
    #[must_use]
    pub fn about(self, subject: impl Into<Arc<str>>) -> Self {
        Self { subject: Some(subject.into()), ..self }
    }
}

impl Sent for Reply {
    fn bytes(&self) -> usize {
        self.uncounted().unwrap_or(0)
    }
}

/// The body of a reply.
#[derive(Debug)]
pub enum ReplyBody {
    /// All of it; none once it is sent.
    Whole(Option<Bytes>),
    /// All of it, shared by all requests.
    Shared(Option<Bytes>),
    /// Pieces, as they come.
    Stream(mpsc::Receiver<Bytes>),
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.get_mut() {
            Self::Whole(bytes) | Self::Shared(bytes) => {
                Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes))))
            }
            Self::Stream(pieces) => {
                pieces.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None) | Self::Shared(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) | Self::Shared(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Stream(_) => SizeHint::default(),
        }
    }
}
