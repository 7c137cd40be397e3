//! Bodies of requests: how long they may be, how long they may take to come, and what they may be.

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::{HeaderMap, header};

use super::route::{Access, Body, Route};
use super::upload::{announced, too_large};
use crate::config::LINK_BODY_BYTES_MAX;
use crate::problem::{Code, Problem};
use crate::server::Server;

/// Reads a body, within its limits.
pub(super) async fn read_body(
    server: &Server,
    route: &Route,
    headers: &HeaderMap,
    body: &mut Incoming,
) -> Result<Bytes, Problem> {
    let limit = match route.access {
        Access::Link(_) => LINK_BODY_BYTES_MAX.min(server.config.body_bytes_max),
        Access::Public | Access::Signed | Access::Roles(_) => server.config.body_bytes_max,
    };
    let limit = match route.body {
        Body::Raw { max } => max.min(limit),
        _ => limit,
    };
    let too_large = || too_large(limit as u64);
    if announced(headers).is_some_and(|length| length > limit as u64) {
        // Refused before a byte of it is read.
        return Err(too_large());
    }
    let timeout = server.config.body_timeout;
    let bytes = match tokio::time::timeout(timeout, Limited::new(body, limit).collect()).await {
        Err(_) => {
            let detail = format!("the body must come within {} s", timeout.as_secs());
            return Err(Problem::new(Code::BodyTimeout, detail));
        }
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => return Err(too_large()),
        Ok(Err(_)) => return Err(Problem::new(Code::BadRequest, "the body broke off")),
        Ok(Ok(collected)) => collected.to_bytes(),
    };
    check_content(route, headers, &bytes)?;
    Ok(bytes)
}

/// Is the body of a kind that the route takes?
fn check_content(route: &Route, headers: &HeaderMap, bytes: &Bytes) -> Result<(), Problem> {
    let yaml = matches!(route.body, Body::Definition);
    let given = headers.get(header::CONTENT_TYPE).map(|given| given.to_str().unwrap_or_default());
    let kind = given.map(|given| given.split(';').next().unwrap_or_default().trim());
    // Clients announce a type, and some an encoding, for a body that they leave out.
    match route.body {
        Body::None | Body::Json { optional: true, .. } if bytes.is_empty() => return Ok(()),
        Body::None => return Err(Problem::new(Code::BadBody, "this request takes no body")),
        Body::Raw { .. } => return check_encoding(headers),
        _ if bytes.is_empty() => {
            let problem = Problem::new(Code::BadBody, "a body is needed, and there is none");
            return Err(problem.hint("/openapi.json says what the body must be"));
        }
        Body::Json { .. } | Body::Form { .. } | Body::Definition | Body::Upload => {}
    }
    check_encoding(headers)?;
    let fits = |kind: &str| {
        let json = kind.eq_ignore_ascii_case("application/json");
        json || yaml && YAML.iter().any(|known| kind.eq_ignore_ascii_case(known))
            || matches!(route.body, Body::Form { .. }) && kind.eq_ignore_ascii_case(FORM)
    };
    if !kind.is_some_and(fits) {
        let wanted = if yaml { "application/json or application/yaml" } else { "application/json" };
        let detail = format!("the body's Content-Type must be {wanted}");
        return Err(Problem::new(Code::UnsupportedMediaType, detail));
    }
    Ok(())
}

/// Bodies must not be compressed: a small one may become a very large one.
pub(super) fn check_encoding(headers: &HeaderMap) -> Result<(), Problem> {
    for value in headers.get_all(header::CONTENT_ENCODING) {
        let value = String::from_utf8_lossy(value.as_bytes());
        let mut names = value.split(',').map(str::trim).filter(|name| !name.is_empty());
        if let Some(name) = names.find(|name| !name.eq_ignore_ascii_case("identity")) {
            let name: String = name.chars().take(40).collect();
            let detail = format!("the body has Content-Encoding {name:?}, and none is taken");
            let problem = Problem::new(Code::UnsupportedMediaType, detail);
            return Err(problem.hint("send the body as it is, without Content-Encoding"));
        }
    }
    Ok(())
}

/// The media type of what the form of a page posts.
pub const FORM: &str = "application/x-www-form-urlencoded";

/// The media types of YAML.
pub const YAML: &[&str] = &["application/yaml", "application/x-yaml", "text/yaml"];
