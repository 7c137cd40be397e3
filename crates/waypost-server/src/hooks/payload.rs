//! A request as expressions see it: its body, some of its headers, its query.

use std::sync::Arc;

use hyper::{HeaderMap, header};
use serde_json::{Map, Value};
use waypost_core::json::Json;

use crate::http::body::FORM;
use crate::http::parameter::{Plus, decode};
use crate::problem::{Code, Problem};

/// Headers that each trigger sees.
const ALWAYS: [&str; 2] = ["content-type", "user-agent"];
/// Headers that no trigger sees: what proves who sends a request is not to be stored.
const NEVER: [&str; 9] = [
    "authorization",
    "cookie",
    "proxy-authorization",
    "stripe-signature",
    "webhook-signature",
    "x-gitlab-token",
    "x-hub-signature-256",
    "x-shopify-hmac-sha256",
    "x-slack-signature",
];
/// Values of one form or query.
const FIELDS_MAX: usize = 1_000;

/// The body as JSON, by its type: JSON itself, the fields of a form, or a text. An empty one is `null`.
pub(crate) fn body(headers: &HeaderMap, bytes: &[u8]) -> Result<Json, Problem> {
    if bytes.is_empty() {
        return Ok(Json::null());
    }
    let given = headers.get(header::CONTENT_TYPE).and_then(|given| given.to_str().ok());
    let kind = given.and_then(|given| given.split(';').next()).unwrap_or_default();
    let kind = kind.trim().to_ascii_lowercase();
    let text = || {
        let text = std::str::from_utf8(bytes);
        text.map_err(|_| Problem::new(Code::BadBody, "the body is not UTF-8"))
    };
    let json = || {
        Json::parse_bytes(bytes).map_err(|error| {
            let message: String = error.to_string().chars().take(300).collect();
            Problem::new(Code::BadBody, message)
        })
    };
    match kind.as_str() {
        "application/json" => json(),
        FORM => fields(text()?, Code::BadBody),
        "" => json().or_else(|_| Ok(Json::from_value(&text()?.into()))),
        "application/xml" => Ok(Json::from_value(&text()?.into())),
        _ if kind.ends_with("+json") => json(),
        _ if kind.starts_with("text/") || kind.ends_with("+xml") => {
            Ok(Json::from_value(&text()?.into()))
        }
        _ => {
            let detail = "the body must be JSON, a form or a text";
            Err(Problem::new(Code::UnsupportedMediaType, detail))
        }
    }
}

/// The headers that a trigger sees, as an object.
pub(crate) fn headers(headers: &HeaderMap, named: &[Arc<str>]) -> Json {
    let names = ALWAYS.into_iter().chain(named.iter().map(|name| &**name));
    let mut seen = Map::new();
    for name in names.filter(|name| !NEVER.contains(name)) {
        let values = headers.get_all(name).iter();
        let values: Vec<_> =
            values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect();
        // A condition can ask about a header that this request does not have.
        let value = Some(values.join(", ")).filter(|_| !values.is_empty());
        seen.insert(name.to_owned(), value.into());
    }
    Json::from_value(&Value::Object(seen))
}

/// The query as an object.
pub(crate) fn query(query: Option<&str>) -> Result<Json, Problem> {
    fields(query.unwrap_or_default(), Code::BadParameter)
}

/// Names with values; a list where a name is there more than once.
fn fields(text: &str, code: Code) -> Result<Json, Problem> {
    let mut fields = Map::new();
    for (count, pair) in text.split('&').filter(|pair| !pair.is_empty()).enumerate() {
        if count >= FIELDS_MAX {
            return Err(Problem::new(code, format!("there are more than {FIELDS_MAX} fields")));
        }
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (Some(name), Some(value)) = (decode(name, Plus::Space), decode(value, Plus::Space))
        else {
            return Err(Problem::new(code, "the fields are not percent-encoded UTF-8"));
        };
        let value = Value::String(value);
        match fields.get_mut(&name) {
            None => drop(fields.insert(name, value)),
            Some(Value::Array(values)) => values.push(value),
            Some(first) => *first = Value::Array(vec![first.take(), value]),
        }
    }
    Ok(Json::from_value(&Value::Object(fields)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: &'static str, bytes: &[u8]) -> Result<String, Code> {
        let mut headers = HeaderMap::new();
        if !kind.is_empty() {
            headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
        }
        body(&headers, bytes).map(|json| json.text().to_owned()).map_err(|problem| problem.code)
    }

    #[test]
    fn body_is_read_by_its_type() {
        for (kind, bytes, expected) in [
            ("application/json; charset=utf-8", "{\"n\":1e2}", Ok("{\"n\":1e2}")),
            ("application/vnd.github+json", "[1]", Ok("[1]")),
            ("application/json", "{", Err(Code::BadBody)),
            (
                "application/x-www-form-urlencoded",
                "a=1+2&b=%C3%B6&a=3&c",
                Ok(r#"{"a":["1 2","3"],"b":"ö","c":""}"#),
            ),
            ("application/x-www-form-urlencoded", "a=%FF", Err(Code::BadBody)),
            ("text/plain", "hi \"you\"", Ok(r#""hi \"you\"""#)),
            ("application/atom+xml", "<a/>", Ok(r#""<a/>""#)),
            ("", "{\"a\":1}", Ok("{\"a\":1}")),
            ("", "hi", Ok("\"hi\"")),
            ("image/png", "x", Err(Code::UnsupportedMediaType)),
            ("multipart/form-data; boundary=b", "--b", Err(Code::UnsupportedMediaType)),
            ("multipart/form-data; boundary=b", "", Ok("null")),
        ] {
            assert_eq!(
                of(kind, bytes.as_bytes()).as_deref(),
                expected.as_ref().copied(),
                "{kind} {bytes}"
            );
        }
        assert_eq!(of("text/plain", b"\xff"), Err(Code::BadBody));
    }

    #[test]
    fn headers_that_prove_the_sender_are_never_seen() {
        let mut given = HeaderMap::new();
        for name in NEVER.into_iter().chain(["x-github-event", "user-agent", "x-other"]) {
            given.append(name, header::HeaderValue::from_static("v"));
        }
        given.append("x-github-event", header::HeaderValue::from_static("w"));
        let named: Vec<Arc<str>> =
            NEVER.into_iter().chain(["x-github-event"]).map(Into::into).collect();
        let seen = headers(&given, &named);
        assert_eq!(
            seen.text(),
            r#"{"content-type":null,"user-agent":"v","x-github-event":"v, w"}"#
        );
    }
}
