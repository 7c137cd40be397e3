//! A call: a task's config, checked and ready to be sent.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{
    AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};
use reqwest::{Method, StatusCode, Url};
use serde::Deserialize;
use waypost_core::blob::BlobRef;
use waypost_core::failure::{Failure, kind};
use waypost_core::json::Json;
use waypost_core::limits::BLOB_BYTES_MAX;
use waypost_core::retry::Matcher;
use waypost_core::time::Millis;
use waypost_ports::blobs::{Blobs, inline};
use waypost_ports::handler::{Marks, Task};
use waypost_ports::secret::{Grant, Target};

use super::verdict::{Judgement, Verdict};
use super::{CONNECT_TIMEOUT, REDIRECTS_MAX, RESPONSE_BYTES_MAX};
use crate::outcome::{cancelled, invalid_config, read_config, text_of};

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

/// A request, and how to judge the answer. Not to be printed: it may be full of secrets.
pub(super) struct Call {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<CallBody>,
    pub(super) accept: Vec<Matcher>,
    pub(super) redirects_max: usize,
    /// Is the response's body kept as a blob in any case?
    pub(super) download: bool,
    pub(super) response_bytes_max: u64,
    pub(super) connect_timeout: Millis,
    pub(super) verdict: Verdict,
    /// The secrets that are in it somewhere.
    pub(super) secrets: Vec<Grant>,
    /// What is sent of a blob and what is received are signs of life.
    pub(super) marks: Marks,
}

/// What is sent.
pub(super) enum CallBody {
    Text(String),
    /// The content of a blob, which is read while it is sent.
    Blob(BlobRef),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rendered {
    url: String,
    method: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, Json>,
    basic_auth: Option<BasicAuth>,
    #[serde(default)]
    query: BTreeMap<String, Query>,
    body: Option<Json>,
    text: Option<Json>,
    upload: Option<Json>,
    download: Option<bool>,
    #[serde(default)]
    accept_status: Vec<Json>,
    follow_redirects: Option<bool>,
    response_bytes_max: Option<u64>,
    connect_timeout: Option<Json>,
    fail_when: Option<Judgement>,
    retry_when: Option<Judgement>,
}

#[derive(Deserialize)]
struct BasicAuth {
    username: Json,
    password: Json,
}

/// The forms that `query` may have.
struct Query(Vec<Json>);

impl<'de> Deserialize<'de> for Query {
    /// By hand, because an untagged enum would read numbers as f64 on its way.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let value = Json::deserialize(deserializer)?;
        let values: Vec<Json> = match value.text().as_bytes() {
            [b'[', ..] => serde_json::from_str(value.text()).map_err(Error::custom)?,
            _ => vec![value],
        };
        match values.iter().find(|value| value.text().starts_with(['[', '{'])) {
            Some(_) => {
                Err(Error::custom("a query parameter must be a scalar or a list of scalars"))
            }
            None => Ok(Self(values)),
        }
    }
}

impl Call {
    pub(super) async fn prepare(
        task: &Task,
        blobs: Option<&Arc<dyn Blobs>>,
    ) -> Result<Self, Failure> {
        let (rendered, blob) = read_rendered(task, blobs).await?;
        let mut url = Url::parse(&rendered.url).map_err(|error| {
            // A text with a secret in it is not repeated: here it would be in a spelling of its own.
            invalid_config(match task.secrets.is_empty() {
                true => format!("{:?} is not a URL: {error}", rendered.url),
                false => format!("the rendered `url` is not a URL: {error}"),
            })
        })?;
        refuse_secret_hosts(&rendered.url, &url, &task.secrets)?;
        add_query(&mut url, &rendered.query);
        let mut headers = read_headers(&rendered.headers, &task.secrets)?;
        if let Some(basic_auth) = &rendered.basic_auth {
            headers.insert(AUTHORIZATION, credentials(basic_auth)?);
        }
        let (body, content_type) = match (rendered.body, rendered.text, blob) {
            (Some(_), Some(_), _) => {
                return Err(invalid_config("`body` and `text` exclude each other"));
            }
            (None, _, Some((blob, content_type))) => (Some(CallBody::Blob(blob)), content_type),
            (Some(json), ..) => (Some(CallBody::Text(json.text().to_owned())), "application/json"),
            (None, Some(text), _) => {
                (Some(CallBody::Text(text_of(&text))), "text/plain; charset=utf-8")
            }
            (None, None, None) => (None, ""),
        };
        let download = rendered.download == Some(true);
        if download && blobs.is_none() {
            return Err(invalid_config("`download` needs a blob store, and there is none here"));
        }
        let bytes_max = if download { BLOB_BYTES_MAX } else { RESPONSE_BYTES_MAX };
        if body.is_some() {
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
        let accept = rendered.accept_status.iter().map(|entry| {
            status_matcher(entry).ok_or_else(|| invalid_config(format!("{entry} is not a status")))
        });
        Ok(Self {
            method: read_method(rendered.method.as_deref())?,
            url,
            headers,
            body,
            accept: accept.collect::<Result<_, _>>()?,
            redirects_max: if rendered.follow_redirects == Some(false) { 0 } else { REDIRECTS_MAX },
            download,
            response_bytes_max: rendered.response_bytes_max.unwrap_or(bytes_max),
            connect_timeout: read_connect_timeout(rendered.connect_timeout.as_ref())?,
            verdict: Verdict::new(rendered.fail_when, rendered.retry_when)?,
            secrets: task.secrets.clone(),
            marks: task.marks.clone(),
        })
    }

    /// Is this status a success?
    pub(super) fn accepts(&self, status: StatusCode) -> bool {
        let status = status.as_u16();
        status < 400
            || self.accept.iter().any(|entry| match entry {
                Matcher::Status(code) => *code == status,
                Matcher::StatusClass(class) => u16::from(*class) == status / 100,
                Matcher::Kind(_) => false,
            })
    }

    /// May all secrets of this call go to its current target? After a redirect, too: which of them
    /// are still in the request is not computed, and the definition did not name the new target.
    pub(super) fn check_secrets(&self, port: u16) -> Result<(), Failure> {
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
    pub(super) fn describe(&self) -> String {
        let mut shown = without_query(&self.url);
        if !self.secrets.is_empty() {
            // URLs are respelt (`\` becomes `/`, line ends go), and a secret in the path with them.
            shown.set_path("");
        }
        format!("{} {shown}", self.method)
    }
}

/// A task's config, and the blob that is to be sent with its content type. That one is not read here;
/// other references are replaced by contents.
async fn read_rendered(
    task: &Task,
    blobs: Option<&Arc<dyn Blobs>>,
) -> Result<(Rendered, Option<(BlobRef, &'static str)>), Failure> {
    let mut rendered: Rendered = read_config(task)?;
    let blob = match (&rendered.body, &rendered.upload) {
        (Some(_), Some(_)) => return Err(invalid_config("`body` and `upload` exclude each other")),
        (Some(body), None) => body.as_reference().map(|blob| (blob, "application/json")),
        (None, Some(upload)) => match upload.as_reference() {
            Some(blob) => Some((blob, "application/octet-stream")),
            None => {
                let message = "`upload` must be a payload that is kept as a blob: the `body` of a \
                               call with `download: true`, or an uploaded blob";
                return Err(invalid_config(message));
            }
        },
        (None, None) => None,
    };
    let others = task.config.references().count();
    if let Some(blobs) = blobs.filter(|_| others > usize::from(blob.is_some())) {
        let (config, blobs) = (task.config.clone(), Arc::clone(blobs));
        let inlined = tokio::task::spawn_blocking(move || inline(&*blobs, &config)).await;
        let config = inlined.map_err(|_| cancelled())??;
        rendered = read_config(&Task { config, ..task.clone() })?;
    }
    if blob.is_some() {
        rendered.body = None;
    }
    Ok((rendered, blob))
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
pub(super) fn without_query(url: &Url) -> Url {
    let mut shown = url.clone();
    shown.set_query(None);
    shown.set_fragment(None);
    // Fails for URLs that cannot have them, which is as good.
    shown.set_username("").ok();
    shown.set_password(None).ok();
    shown
}

/// The name of a header that a definition may set.
pub(super) fn header_name(name: &str) -> Result<HeaderName, String> {
    let parsed = HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| format!("{name:?} is not a header's name"))?;
    if REFUSED_HEADERS.contains(&parsed.as_str()) {
        return Err(format!("`{parsed}` is set by the engine and cannot be changed"));
    }
    Ok(parsed)
}

pub(super) fn status_matcher(entry: &Json) -> Option<Matcher> {
    match Matcher::parse(&text_of(entry))? {
        Matcher::Kind(_) => None,
        matcher => Some(matcher),
    }
}

fn read_method(method: Option<&str>) -> Result<Method, Failure> {
    let method = method.unwrap_or("GET");
    Method::from_bytes(method.as_bytes())
        .map_err(|_| invalid_config(format!("{method:?} is not a method")))
}

fn add_query(url: &mut Url, query: &BTreeMap<String, Query>) {
    let mut pairs = query
        .iter()
        .flat_map(|(name, Query(values))| values.iter().map(move |v| (name, v)))
        .filter(|(_, value)| !value.is_null())
        .peekable();
    // Asking for the editor alone would add a bare `?`.
    if pairs.peek().is_some() {
        url.query_pairs_mut().extend_pairs(pairs.map(|(name, value)| (name, text_of(value))));
    }
}

fn read_headers(entries: &BTreeMap<String, Json>, secrets: &[Grant]) -> Result<HeaderMap, Failure> {
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
fn unfit_for_header(name: &HeaderName, value: &str, secrets: &[Grant]) -> Failure {
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

/// The header of Basic authentication. Made here and not in an expression, which could do nothing
/// with a secret password.
fn credentials(basic_auth: &BasicAuth) -> Result<HeaderValue, Failure> {
    let (username, password) = (text_of(&basic_auth.username), text_of(&basic_auth.password));
    if username.contains(':') {
        return Err(invalid_config("a user name of Basic authentication cannot contain a colon"));
    }
    let credentials = STANDARD.encode(format!("{username}:{password}"));
    let mut value = HeaderValue::from_str(&format!("Basic {credentials}"))
        .map_err(|error| invalid_config(format!("`basicAuth` cannot be sent: {error}")))?;
    value.set_sensitive(true);
    Ok(value)
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

fn read_connect_timeout(value: Option<&Json>) -> Result<Millis, Failure> {
    value.map_or(Ok(CONNECT_TIMEOUT), |value| {
        Millis::parse(&text_of(value))
            .map_err(|error| invalid_config(format!("`connectTimeout` is {value}: {error}")))
    })
}
