//! A client of the HTTP API: one request per call, the response as a wire type.
//!
//! | file | owns |
//! | --- | --- |
//! | `address` | which server, and who named it |
//! | `ask` | one request, before it is sent |
//! | `blobs` | blobs, streamed in both directions |
//! | `refused` | error responses, as people read them |
//! | `sse` | reading server-sent events |
//! | `stream` | the events of an execution, across broken connections |
//!
//! Nothing here retries by itself, except a stream, which has its position.

mod address;
mod ask;
mod blobs;
mod refused;
mod sse;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use parking_lot::RwLock;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Response, StatusCode, redirect};
use serde::de::DeserializeOwned;
use waypost_server::problem::WireProblem;

pub(crate) use address::Address;
pub(crate) use ask::Ask;
pub(crate) use refused::{Refused, Unreachable, line_of};
pub(crate) use stream::{News, Stream};

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Most bytes of a reply: an execution's nodes may each have an output of the largest size.
const REPLY_BYTES_MAX: usize = 256 << 20;

#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    /// Shared by clones: if one of them finds that the server has moved, all use the new address.
    address: Arc<RwLock<Address>>,
    key: Option<HeaderValue>,
}

pub(crate) struct ServerReply<T> {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: T,
}

impl Client {
    /// A client that sends this key, if there is one.
    pub(crate) fn new(address: Address, key: Option<&str>) -> Result<Self> {
        let mut builder = reqwest::Client::builder()
            .tls_backend_preconfigured(waypost_nodes::tls::client_config())
            .connect_timeout(CONNECT_TIMEOUT)
            // A key goes to the server that was named and nowhere else.
            .redirect(redirect::Policy::none())
            .referer(false);
        if address.is_loopback() {
            // A proxy has another loopback than we do.
            builder = builder.no_proxy();
        }
        let key = match key {
            Some(key) => {
                let bearer = HeaderValue::from_str(&format!("Bearer {key}"));
                let mut bearer = bearer.context("the key in WAYPOST_KEY cannot be sent")?;
                bearer.set_sensitive(true);
                Some(bearer)
            }
            None => None,
        };
        let http = builder.build().context("cannot make an HTTP client")?;
        Ok(Self { http, address: Arc::new(RwLock::new(address)), key })
    }

    pub(crate) fn address(&self) -> Address {
        self.address.read().clone()
    }

    /// Looks where the server is now.
    fn look_again(&self) {
        let found = self.address().again();
        *self.address.write() = found;
    }

    /// Sends a request and reads the response.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, ask: Ask<'_>) -> Result<ServerReply<T>> {
        let response = self.send(ask).await?;
        let (status, headers) = (response.status(), response.headers().clone());
        let bytes = self.read(response).await?;
        let body = serde_json::from_slice(&bytes).map_err(|error| {
            anyhow!("the server's answer cannot be read: {error}; is it another version?")
        })?;
        Ok(ServerReply { status, headers, body })
    }

    /// Reads something below `/v1`.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &[&str]) -> Result<T> {
        Ok(self.ask(Ask::get(path)).await?.body)
    }

    /// Sends a request whose response has no content.
    pub(crate) async fn tell(&self, ask: Ask<'_>) -> Result<()> {
        self.send(ask).await.map(drop)
    }

    /// Sends a request; returns the head of the response if it is not a problem.
    async fn send(&self, ask: Ask<'_>) -> Result<Response> {
        let address = self.address();
        let url = ask.url(address.url())?;
        let mut request = self.http.request(ask.method, url);
        if let Some(patience) = ask.patience {
            request = request.timeout(patience);
        }
        if let Some(key) = &self.key {
            request = request.header(AUTHORIZATION, key.clone());
        }
        for (name, value) in ask.headers {
            let value = HeaderValue::from_str(&value)
                .with_context(|| format!("the value of {name} cannot be sent"))?;
            request = request.header(name, value);
        }
        if let Some((kind, body)) = ask.body {
            request = request.header(CONTENT_TYPE, kind).body(body);
        }
        let response =
            request.send().await.map_err(|error| Unreachable::new(self.address(), &error))?;
        match response.status().is_success() {
            true => Ok(response),
            false => Err(self.problem(response).await),
        }
    }

    /// The error for a reply that is not a success.
    async fn problem(&self, response: Response) -> anyhow::Error {
        let status = response.status();
        let has_key = self.key.is_some();
        let bytes = self.read(response).await.unwrap_or_default();
        match serde_json::from_slice::<WireProblem>(&bytes) {
            Ok(problem) => Refused::by_server(problem, has_key).into(),
            Err(_) => {
                let address = self.address();
                anyhow!("{address} answered {status}, and not as a waypost server does")
            }
        }
    }

    async fn read(&self, mut response: Response) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        loop {
            let chunk = response.chunk().await;
            let chunk = chunk.map_err(|error| Unreachable::new(self.address(), &error))?;
            let Some(chunk) = chunk else { return Ok(bytes) };
            if bytes.len() + chunk.len() > REPLY_BYTES_MAX {
                bail!("the server's answer has more than {REPLY_BYTES_MAX} bytes");
            }
            bytes.extend_from_slice(&chunk);
        }
    }
}
