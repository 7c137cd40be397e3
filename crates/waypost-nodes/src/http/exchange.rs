//! The exchange: a request, the redirects that follow from it, and the response at the end.

use std::error::Error;
use std::io;
use std::sync::Arc;

use reqwest::header::{CONTENT_LENGTH, LOCATION};
use reqwest::{Response, StatusCode, Url};
use waypost_core::failure::{Failure, kind};
use waypost_ports::blobs::{BlobError, Blobs};

use super::call::{Call, CallBody, without_query};
use super::clients::{ClientKey, Clients};
use super::streams;
use crate::egress::{Denied, ResolveError};
use crate::outcome::{INVALID_RESPONSE, TOO_MANY_REDIRECTS, invalid_config};

/// Makes a call, which becomes the one of the last redirect; returns the response with its body unread.
pub(crate) async fn exchange(
    clients: &Clients,
    blobs: Option<&Arc<dyn Blobs>>,
    call: &mut Call,
) -> Result<Response, Failure> {
    let mut redirects = 0;
    loop {
        let response = send(clients, blobs, call).await?;
        call.marks.beat();
        let Some(target) = redirect_target(call, &response)? else {
            return Ok(response);
        };
        if redirects == call.redirects_max {
            let target = without_query(&target);
            let message = format!("redirected more than {redirects} times, last to {target}");
            return Err(Failure::permanent(TOO_MANY_REDIRECTS, message));
        }
        redirects += 1;
        call.redirect(response.status(), target)?;
    }
}

async fn send(
    clients: &Clients,
    blobs: Option<&Arc<dyn Blobs>>,
    call: &Call,
) -> Result<Response, Failure> {
    let port = clients.egress().check_url(&call.url)?;
    call.check_secrets(port)?;
    let client = clients.client(ClientKey { port, connect_timeout: call.connect_timeout })?;
    let mut request =
        client.request(call.method.clone(), call.url.clone()).headers(call.headers.clone());
    match (&call.body, blobs) {
        (Some(CallBody::Text(text)), _) => request = request.body(text.clone()),
        (Some(CallBody::Blob(blob)), Some(blobs)) => {
            let body = streams::body(blobs, *blob, call.marks.clone()).await?;
            request = request.header(CONTENT_LENGTH, blob.bytes).body(body);
        }
        (Some(CallBody::Blob(_)), None) | (None, _) => {}
    }
    request.send().await.map_err(|error| failure_of(call, &error))
}

/// Where a response sends us, if it does and we follow.
fn redirect_target(call: &Call, response: &Response) -> Result<Option<Url>, Failure> {
    let redirects = matches!(
        response.status(),
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    );
    let Some(location) = response.headers().get(LOCATION) else { return Ok(None) };
    if !redirects || call.redirects_max == 0 {
        return Ok(None);
    }
    let target = location.to_str().ok().and_then(|location| call.url.join(location).ok());
    target.map(Some).ok_or_else(|| {
        let message = format!("{} redirects to {location:?}, which is not a URL", call.describe());
        Failure::permanent(INVALID_RESPONSE, message)
    })
}

/// The failure for an error of the client. `call` is the subject of its message.
pub(crate) fn failure_of(call: &Call, error: &reqwest::Error) -> Failure {
    if let Some(denied) = denial(error) {
        return denied.into();
    }
    // The body that is sent could not be read to its end.
    if let Some(error) = chain(error).find_map(|cause| cause.downcast_ref::<BlobError>()) {
        return streams::blob_failure(error);
    }
    let message = format!("{}: {}", call.describe(), root_cause(error));
    let failure = failure_with(error, message);
    // Where no connection came about, no request went out on it.
    Failure { unsent: error.is_connect(), ..failure }
}

fn failure_with(error: &reqwest::Error, message: String) -> Failure {
    if error.is_timeout() {
        Failure::transient(kind::TIMEOUT, message)
    } else if error.is_builder() {
        invalid_config(message)
    } else if has_bad_certificate(error) {
        Failure::permanent(kind::CONNECTION, message)
    } else if is_undecodable(error) {
        let what = "the body is not compressed as its Content-Encoding says";
        Failure::permanent(INVALID_RESPONSE, format!("{message}: {what}"))
    } else {
        Failure::transient(kind::CONNECTION, message)
    }
}

/// An error and its causes. The source of an `io::Error` skips the error that it wraps, so that one
/// is read first.
fn chain(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    let first: &(dyn Error + 'static) = error;
    std::iter::successors(Some(first), |&error| {
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        }
    })
}

fn denial(error: &reqwest::Error) -> Option<Denied> {
    chain(error).find_map(|cause| match cause.downcast_ref::<ResolveError>() {
        Some(ResolveError::Denied(denied)) => Some(denied.clone()),
        _ => None,
    })
}

/// A certificate that is wrong now is wrong in a minute.
fn has_bad_certificate(error: &reqwest::Error) -> bool {
    chain(error)
        .any(|cause| matches!(cause.downcast_ref(), Some(rustls::Error::InvalidCertificate(_))))
}

/// The body is not compressed the way its headers say. A decoder's error comes as it is; one of the
/// connection comes inside of the HTTP library's own.
fn is_undecodable(error: &reqwest::Error) -> bool {
    let of_decoder = chain(error).nth(1).is_some_and(|cause| cause.is::<io::Error>());
    error.is_decode() && of_decoder && !chain(error).any(|cause| cause.is::<rustls::Error>())
}

/// The innermost cause: the errors around it only say that a request failed.
fn root_cause(error: &reqwest::Error) -> String {
    match chain(error).last() {
        Some(cause) if !cause.is::<reqwest::Error>() => cause.to_string(),
        _ => error.to_string(),
    }
}
