//! The request of an `api-call`: a task's config, checked and ready to be sent.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{AUTHORIZATION, HeaderValue};
use reqwest::{Method, StatusCode, Url};
use serde::Deserialize;
use waypost_core::blob::BlobRef;
use waypost_core::failure::Failure;
use waypost_core::json::Json;
use waypost_core::limits::BLOB_BYTES_MAX;
use waypost_core::retry::Matcher;
use waypost_core::time::Millis;
use waypost_ports::blobs::{Blobs, inline};
use waypost_ports::handler::Task;

use super::verdict::{Judgement, Verdict};
use crate::http::{CONNECT_TIMEOUT, Call, CallBody, RESPONSE_BYTES_MAX, read_headers};
use crate::outcome::{cancelled, invalid_config, read_config, text_of};

/// A call, and how to judge the answer.
pub(super) struct ApiCall {
    pub(super) call: Call,
    accept: Vec<Matcher>,
    /// Is the response's body kept as a blob in any case?
    pub(super) download: bool,
    pub(super) verdict: Verdict,
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

impl ApiCall {
    pub(super) async fn prepare(
        task: &Task,
        blobs: Option<&Arc<dyn Blobs>>,
    ) -> Result<Self, Failure> {
        let (rendered, blob) = read_rendered(task, blobs).await?;
        let mut headers = read_headers(&rendered.headers, &task.secrets)?;
        if let Some(basic_auth) = &rendered.basic_auth {
            headers.insert(AUTHORIZATION, credentials(basic_auth)?);
        }
        let body = match (rendered.body, rendered.text, blob) {
            (Some(_), Some(_), _) => {
                return Err(invalid_config("`body` and `text` exclude each other"));
            }
            (None, _, Some((blob, content_type))) => Some((CallBody::Blob(blob), content_type)),
            (Some(json), ..) => Some((CallBody::Text(json.text().to_owned()), "application/json")),
            (None, Some(text), _) => {
                Some((CallBody::Text(text_of(&text)), "text/plain; charset=utf-8"))
            }
            (None, None, None) => None,
        };
        let download = rendered.download == Some(true);
        if download && blobs.is_none() {
            return Err(invalid_config("`download` needs a blob store, and there is none here"));
        }
        let bytes_max = if download { BLOB_BYTES_MAX } else { RESPONSE_BYTES_MAX };
        let accept = rendered.accept_status.iter().map(|entry| {
            status_matcher(entry).ok_or_else(|| invalid_config(format!("{entry} is not a status")))
        });
        let method = read_method(rendered.method.as_deref())?;
        let mut call = Call::new(task, method, &rendered.url, headers, body)?;
        add_query(&mut call.url, &rendered.query);
        if rendered.follow_redirects == Some(false) {
            call.redirects_max = 0;
        }
        call.response_bytes_max = rendered.response_bytes_max.unwrap_or(bytes_max);
        call.connect_timeout = read_connect_timeout(rendered.connect_timeout.as_ref())?;
        Ok(Self {
            call,
            accept: accept.collect::<Result<_, _>>()?,
            download,
            verdict: Verdict::new(rendered.fail_when, rendered.retry_when)?,
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

fn read_connect_timeout(value: Option<&Json>) -> Result<Millis, Failure> {
    value.map_or(Ok(CONNECT_TIMEOUT), |value| {
        Millis::parse(&text_of(value))
            .map_err(|error| invalid_config(format!("`connectTimeout` is {value}: {error}")))
    })
}
