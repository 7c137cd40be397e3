//! A call: a request that is ready to be sent, with what its exchange needs.

use std::collections::BTreeMap;

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use reqwest::{Method, Url};
use waypost_core::blob::BlobRef;
use waypost_core::failure::{Failure, kind};
use waypost_core::json::Json;
use waypost_core::time::Millis;
use waypost_ports::handler::{Marks, Task};
use waypost_ports::secret::{Grant, Target};

use super::{CONNECT_TIMEOUT, REDIRECTS_MAX, RESPONSE_BYTES_MAX};
use crate::outcome::{invalid_config, text_of};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Headers that belong to the connection or to the framing of the message: set by hand they could
/// make a server read another request than the one that was judged.
const REFUSED_HEADERS: &[&str] = &[
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// A request. Not to be printed: it may be full of secrets.
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<CallBody>,
    pub(crate) redirects_max: usize,
    pub(crate) response_bytes_max: u64,
    pub(crate) connect_timeout: Millis,
    /// The secrets that are in it somewhere.
    pub(crate) secrets: Vec<Grant>,
    /// What is sent of a blob and what is received are signs of life.
    pub(crate) marks: Marks,
}

/// What is sent.
pub(crate) enum CallBody {
    Text(String),
    /// The content of a blob, which is read while it is sent.
    Blob(BlobRef),
}

impl Call {
    /// A task's request, with the headers that every call has. A body comes with the content type
    /// that it has unless `headers` names another one.
    pub(crate) fn new(
        task: &Task,
        method: Method,
        url: &str,
        mut headers: HeaderMap,
        body: Option<(CallBody, &'static str)>,
    ) -> Result<Self, Failure> {
        let parsed = Url::parse(url).map_err(|error| {
            // A text with a secret in it is not repeated: here it would be in a spelling of its own.
            invalid_config(match task.secrets.is_empty() {
                true => format!("{url:?} is not a URL: {error}"),
                false => format!("the rendered URL is not valid: {error}"),
            })
        })?;
        refuse_secret_hosts(url, &parsed, &task.secrets)?;
        if let Some((_, content_type)) = body {
            headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static(content_type));
        }
        headers.entry(IDEMPOTENCY_KEY).or_insert(key_value(&task.idempotency_key)?);
        headers
            .entry(USER_AGENT)
            .or_insert(HeaderValue::from_static(concat!("waypost/", env!("CARGO_PKG_VERSION"))));
        if !task.secrets.is_empty() {
            // Keeps them out of what HTTP libraries log, and out of the tables that HTTP/2 keeps of
            // headers it has sent.
            headers.values_mut().for_each(|value| value.set_sensitive(true));
        }
        Ok(Self {
            method,
            url: parsed,
            headers,
            body: body.map(|(body, _)| body),
            redirects_max: REDIRECTS_MAX,
            response_bytes_max: RESPONSE_BYTES_MAX,
            connect_timeout: CONNECT_TIMEOUT,
            secrets: task.secrets.clone(),
            marks: task.marks.clone(),
        })
    }

    /// May all secrets of this call go to its current target? After a redirect, too: which of them
    /// are still in the request is not computed, and the definition did not name the new target.
    pub(crate) fn check_secrets(&self, port: u16) -> Result<(), Failure> {
        let target = Target {
            host: self.url.host_str().unwrap_or_default(),
            port,
            https: self.url.scheme() == "https",
        };
        let Some(secret) = self.secrets.iter().find(|secret| !secret.allows(&target)) else {
            return Ok(());
        };
        let hosts: Vec<String> = secret.hosts.iter().map(ToString::to_string).collect();
        let hosts = match hosts.is_empty() {
            true => "no host is allowed for it".to_owned(),
            false => format!("it is only allowed for {}", hosts.join(", ")),
        };
        let (scheme, host) = (self.url.scheme(), target.host);
        let name = &secret.name;
        let message =
            format!("secret `{name}` may not be sent to {scheme}://{host}:{port}: {hosts}");
        Err(Failure::permanent(kind::SECRET_HOST, message))
    }

    /// Method and URL for messages, without the query: it may hold secrets.
    pub(crate) fn describe(&self) -> String {
        let mut shown = without_query(&self.url);
        if !self.secrets.is_empty() {
            // URLs are respelt (`\` becomes `/`, line ends go), and a secret in the path with them.
            shown.set_path("");
        }
        format!("{} {shown}", self.method)
    }
}

/// Rejects secrets in the host or the port of a URL: those are shown, and a URL respells them, so
/// that a number would be shown as an address.
fn refuse_secret_hosts(text: &str, url: &Url, secrets: &[Grant]) -> Result<(), Failure> {
    let goes_there = |part: Url| {
        part.host() == url.host() && part.port_or_known_default() == url.port_or_known_default()
    };
    for secret in secrets {
        let Some(at) = text.find(secret.value.reveal()) else { continue };
        let before = text.get(..at).unwrap_or_default();
        // The path must have begun, or the host might continue.
        let begun = before.splitn(4, ['/', '\\']).count() == 4 || before.contains(['?', '#']);
        if !(begun && Url::parse(before).is_ok_and(goes_there)) {
            let name = &secret.name;
            let message = format!("secret `{name}` may not be part of a URL's host or port");
            return Err(Failure::permanent(kind::SECRET, message));
        }
    }
    Ok(())
}

/// The URL without what may hold secrets: query, fragment, user name and password.
pub(crate) fn without_query(url: &Url) -> Url {
    let mut shown = url.clone();
    shown.set_query(None);
    shown.set_fragment(None);
    // Fails for URLs that cannot have them, which is as good.
    shown.set_username("").ok();
    shown.set_password(None).ok();
    shown
}

/// The name of a header that a definition may set.
pub(crate) fn header_name(name: &str) -> Result<HeaderName, String> {
    let parsed = HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| format!("{name:?} is not a header's name"))?;
    if REFUSED_HEADERS.contains(&parsed.as_str()) {
        return Err(format!("`{parsed}` is set by the engine and cannot be changed"));
    }
    Ok(parsed)
}

/// A config's headers; those that are null are left out.
pub(crate) fn read_headers(
    entries: &BTreeMap<String, Json>,
    secrets: &[Grant],
) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    for (name, value) in entries.iter().filter(|(_, value)| !value.is_null()) {
        let name = header_name(name).map_err(invalid_config)?;
        if value.text().starts_with(['[', '{']) {
            return Err(invalid_config(format!("header `{name}` must be a scalar")));
        }
        // From bytes, because a value may be UTF-8; line breaks and control characters are refused
        // either way.
        let value = text_of(value);
        let value = HeaderValue::from_bytes(value.as_bytes())
            .map_err(|_| unfit_for_header(&name, &value, secrets))?;
        headers.insert(name, value);
    }
    Ok(headers)
}

/// The failure of a header's value, which is the secret's where the secret is to blame.
pub(crate) fn unfit_for_header(name: &HeaderName, value: &str, secrets: &[Grant]) -> Failure {
    const WHAT: &str = "contains a line break or control character";
    let is_to_blame = |secret: &&Grant| {
        let text = secret.value.reveal();
        value.contains(text) && HeaderValue::from_bytes(text.as_bytes()).is_err()
    };
    match secrets.iter().find(is_to_blame) {
        Some(secret) => {
            let message = format!("secret `{}` {WHAT}: it does not fit a header", secret.name);
            Failure { unsent: true, ..Failure::permanent(kind::SECRET, message) }
        }
        None => invalid_config(format!("header `{name}` {WHAT}")),
    }
}

/// The key as a header; characters that a header cannot carry are percent-encoded, which keeps
/// different keys different.
fn key_value(key: &str) -> Result<HeaderValue, Failure> {
    HeaderValue::from_str(key)
        .or_else(|_| {
            let encoded: String = url::form_urlencoded::byte_serialize(key.as_bytes()).collect();
            HeaderValue::from_str(&encoded)
        })
        .map_err(|error| invalid_config(format!("the idempotency key cannot be sent: {error}")))
}
