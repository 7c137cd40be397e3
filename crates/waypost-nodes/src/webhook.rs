//! Messages to webhook endpoints: signed as Standard Webhooks 1.0 says, sent through the egress guard.
//!
//! The guard judges every attempt, since an operator may change the allow-list and a name may resolve to
//! another address. Redirects are not followed: they could lead a signed message to another host.

mod sign;

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use reqwest::{Method, StatusCode, Url};
use waypost_core::failure::Failure;
use waypost_core::outbox::delivery::Delivered;
use waypost_core::time::Millis;
use waypost_ports::handler::Marks;
use waypost_ports::webhook::{WebhookRequest, WebhookSender};

pub use self::sign::signatures;

use crate::egress::Egress;
use crate::http::{CONNECT_TIMEOUT, Call, CallBody, Clients, exchange, retry_after};

const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// Bytes of a reason that is kept with a message.
const REASON_BYTES_MAX: usize = 1_024;

/// Sends messages over HTTP.
pub struct HttpWebhooks {
    clients: Arc<Clients>,
    timeout: Millis,
}

impl HttpWebhooks {
    /// Within this policy; an attempt may take so long.
    pub fn new(egress: Egress, timeout: Millis) -> Self {
        Self { clients: Arc::new(Clients::new(egress)), timeout }
    }
}

impl WebhookSender for HttpWebhooks {
    fn refuse(&self, url: &str) -> Option<String> {
        check(self.clients.egress(), url).err()
    }

    fn send(&self, request: WebhookRequest) -> BoxFuture<'static, Delivered> {
        let (clients, timeout) = (Arc::clone(&self.clients), self.timeout);
        async move {
            let sent = tokio::time::timeout(timeout.to_std(), send(&clients, &request));
            sent.await.unwrap_or_else(|_| failed(format!("no response within {timeout}")))
        }
        .boxed()
    }
}

/// The URL of an endpoint, if it may be called.
fn check(egress: &Egress, url: &str) -> Result<Url, String> {
    let url = Url::parse(url).map_err(|error| format!("it is not a URL: {error}"))?;
    egress.check_url(&url).map_err(|denied| denied.to_string())?;
    if url.fragment().is_some() {
        return Err("the URL has a fragment, which is never sent".to_owned());
    }
    match url.scheme() == "http" && !egress.names(&url) {
        true => {
            Err("messages are sent over https; over http only to a host that --allow-egress or \
                     WAYPOST_ALLOW_EGRESS names"
                .to_owned())
        }
        false => Ok(url),
    }
}

async fn send(clients: &Clients, request: &WebhookRequest) -> Delivered {
    let mut call = match check(clients.egress(), &request.url).and_then(|url| call(url, request)) {
        Ok(call) => call,
        Err(reason) => return failed(reason),
    };
    match exchange(clients, None, &mut call).await {
        Ok(response) => {
            let status = response.status();
            match status {
                StatusCode::GONE => Delivered::Gone,
                _ if status.is_success() => Delivered::Yes { status: status.as_u16() },
                _ => Delivered::No {
                    status: Some(status.as_u16()),
                    retry_after: retry_after(response.headers()),
                    reason: match status.is_redirection() {
                        true => format!("answered {status}; redirects are not followed"),
                        false => format!("answered {status}"),
                    },
                },
            }
        }
        Err(Failure { message, .. }) => failed(message),
    }
}

fn failed(mut reason: String) -> Delivered {
    reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
    Delivered::No { status: None, retry_after: None, reason }
}

fn call(url: Url, request: &WebhookRequest) -> Result<Call, String> {
    let timestamp = (request.at.0 / 1_000).to_string();
    let signature = signatures(&request.secrets, &request.id, &timestamp, &request.body);
    let mut headers = HeaderMap::new();
    let value = |text: &str| {
        HeaderValue::from_str(text).map_err(|error| format!("a header cannot be sent: {error}"))
    };
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(
        USER_AGENT,
        HeaderValue::from_static(concat!("waypost/", env!("CARGO_PKG_VERSION"))),
    );
    headers.insert(WEBHOOK_ID, value(&request.id)?);
    headers.insert(WEBHOOK_TIMESTAMP, value(&timestamp)?);
    headers.insert(WEBHOOK_SIGNATURE, value(&signature)?);
    Ok(Call {
        method: Method::POST,
        url,
        headers,
        body: Some(CallBody::Text(request.body.clone())),
        redirects_max: 0,
        response_bytes_max: 0,
        connect_timeout: CONNECT_TIMEOUT,
        secrets: Vec::new(),
        marks: Marks::none(),
    })
}

#[cfg(test)]
mod tests;
