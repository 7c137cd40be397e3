//! The order in which a request is checked, and what is recorded about it.
//!
//! A caller without rights learns nothing: the key is checked before the path, and a path in an
//! unusual spelling does not exist.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use http_body_util::{BodyExt, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Request, Response, StatusCode, header};
use tokio_util::sync::CancellationToken;
use waypost_engine::links::LinkPurpose;
use waypost_ports::access::AuditEntry;

use super::body::read_body;
use super::call::{Call, Reply, ReplyBody};
use super::client_address::client_address;
use super::entry::{Entered, enter, nowhere, reach};
use super::parameter::Values;
use super::route::{Access, Body, Effect, Matched, Route, find};
use super::upload::{self, Upload};
use crate::access::Identity;
use crate::budget::Share;
use crate::html;
use crate::problem::{self, Code, Problem};
use crate::server::Server;
use crate::table::routes;

/// Bytes of a refused body that are read before the connection is closed over the rest.
const LINGER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Characters of a subject that the audit log stores.
const SUBJECT_CHARS_MAX: usize = 128;

/// Where a request comes from.
#[derive(Clone, Debug)]
pub struct Peer {
    pub address: SocketAddr,
    /// Ends its connection.
    pub connection: CancellationToken,
}

/// Answers a request.
///
/// A request that changes something runs in a Tokio task of its own: it is carried out and audited
/// even if its caller hangs up meanwhile and Hyper drops this future. All others end with it.
pub async fn answer(
    server: Arc<Server>,
    request: Request<Incoming>,
    peer: Peer,
) -> Response<ReplyBody> {
    let matched = find(routes(), request.method(), request.uri().path());
    // A request without a route is rejected before the first `.await`.
    let dropped =
        !matches!(&matched, Matched::Route(route, _) if !route.effect.is_dropped_with_caller());
    let answered = answer_here(Arc::clone(&server), request, matched, peer);
    if dropped {
        return answered.await;
    }
    let answered = server.tasks.spawn(answered).await;
    answered.unwrap_or_else(|error| respond(Reply::problem(&Problem::internal(&error)), false))
}

async fn answer_here(
    server: Arc<Server>,
    request: Request<Incoming>,
    matched: Matched<'static>,
    peer: Peer,
) -> Response<ReplyBody> {
    let began = Instant::now();
    let (parts, mut body) = request.into_parts();
    let address = client_address(peer.address, &parts.headers, &server.config.trusted_proxies);
    let peer = Peer { address, ..peer };
    let head = parts.method == Method::HEAD;
    // A client that sends this header sends no body before it gets `100 Continue`.
    let expects = parts.headers.contains_key(header::EXPECT);
    let by_person = matches!(&matched, Matched::Route(route, _)
        if route.access == Access::Link(LinkPurpose::Approval) && html::is_asked_for(&parts.headers));
    let mut known = Known::default();
    let reply = match judge(&server, parts, matched, &mut body, &peer, &mut known).await {
        Ok(reply) => reply,
        Err(problem) => {
            if problem.code != Code::BodyTimeout && !expects && !body.is_end_stream() {
                server.tasks.spawn(linger(Arc::clone(&server), body));
            }
            match by_person {
                true => html::problem(&problem),
                false => Reply::problem(&problem),
            }
        }
    };
    note(&server, &known, &reply, peer.address, began);
    respond(reply, head)
}

/// Reads the rest of a rejected body for a while: most clients read a response only when they have
/// sent everything, and closing the connection earlier would lose the response.
async fn linger(server: Arc<Server>, body: Incoming) {
    let mut rest = Limited::new(body, LINGER_BYTES_MAX);
    let read = async { while let Some(Ok(_)) = rest.frame().await {} };
    tokio::select! { // all may be dropped: the bytes are discarded
        () = read => {}
        () = tokio::time::sleep(server.config.body_timeout) => {}
        () = server.closing.cancelled() => {}
    }
}

/// What the checks have found out about a request so far.
#[derive(Default)]
pub(super) struct Known {
    route: Option<&'static Route>,
    pub(super) identity: Option<Identity>,
    pub(super) subject: Option<Arc<str>>,
}

async fn judge(
    server: &Arc<Server>,
    parts: Parts,
    mut matched: Matched<'static>,
    body: &mut Incoming,
    peer: &Peer,
    known: &mut Known,
) -> Result<Reply, Problem> {
    let authority = parts.uri.authority().map(|authority| authority.as_str());
    server.guard.check(&parts.headers, authority, reach(&matched))?;
    let Entered { identity, link } = enter(server, &mut matched, &parts.headers, peer, known)?;
    let (route, path) = match matched {
        Matched::Route(route, path) => (route, path),
        Matched::Methods(methods) => return Err(wrong_method(&methods)),
        Matched::Nothing => return Err(nowhere()),
    };
    known.route = Some(route);
    let subject = match (path.get("id").or_else(|| path.get("name")), path.get("trigger")) {
        (Some(subject), _) => Some(subject.clone()),
        (None, Some(trigger)) => path.get("workflow").map(|of| format!("{of}/{trigger}")),
        (None, None) => None,
    };
    if let Some(subject) = subject {
        known.subject = Some(subject.chars().take(SUBJECT_CHARS_MAX).collect::<String>().into());
    }
    if !route.access.allows(identity.role) {
        let detail = format!("a key of role {} may not do this", identity.role);
        return Err(Problem::new(Code::Forbidden, detail));
    }
    if server.is_draining() && route.effect != Effect::Reads {
        return Err(problem::draining());
    }
    // The queries of other systems are not ours, and neither is what they accept.
    let is_foreign = route.access == Access::Signed;
    let query = parts.uri.query();
    let own_query = query.filter(|_| !is_foreign);
    let values = Values::read(route.parameters, path, own_query, &parts.headers)?;
    if !is_foreign {
        check_accept(route, &parts.headers)?;
    }
    let is_upload = matches!(route.body, Body::Upload);
    let whole = match is_upload {
        true => upload::check(server, &parts.headers)?,
        false => read_body(server, route, &parts.headers, body).await?,
    };
    let Peer { address, connection } = peer.clone();
    let (pieces, upload) = Upload::new();
    let call = Call {
        identity,
        link,
        address,
        method: parts.method.clone(),
        values,
        query: query.filter(|_| is_foreign).map(Into::into),
        headers: parts.headers,
        body: whole,
        upload,
        connection,
    };
    let reply = if parts.method == Method::GET && route.effect == Effect::Reads {
        read(server, route, call).await?
    } else if is_upload {
        let acted = (route.action)(Arc::clone(server), call);
        let (reply, passed) =
            tokio::join!(acted, upload::pass_on(body, pieces, server.config.body_timeout));
        // Where the body broke off, that is what went wrong.
        reply.map_err(|problem| passed.err().unwrap_or(problem))?
    } else {
        let connection = call.connection.clone();
        let reply = (route.action)(Arc::clone(server), call).await?;
        count(server, reply, parts.method == Method::HEAD, &connection).await?
    };
    if reply.subject.is_some() {
        known.subject.clone_from(&reply.subject);
    }
    Ok(reply)
}

/// Answers a request that only reads. A reply that there is no room for is dropped and built again
/// when there is: a waiting request holds no bytes.
async fn read(server: &Arc<Server>, route: &Route, call: Call) -> Result<Reply, Problem> {
    let connection = call.connection.clone();
    let mut reply = (route.action)(Arc::clone(server), call.clone()).await?;
    let mut share = None;
    while let Some(bytes) = reply.uncounted() {
        share = share.or_else(|| server.budget.try_take(bytes, &connection));
        if share.as_mut().is_some_and(|share: &mut Share| share.fit(bytes)) {
            reply.share = share.take();
            break;
        }
        drop((reply, share));
        share = server.with_room(server.budget.take(bytes, &connection)).await?;
        reply = (route.action)(Arc::clone(server), call.clone()).await?;
    }
    Ok(reply)
}

/// Counts a reply that cannot be made again.
async fn count(
    server: &Server,
    mut reply: Reply,
    head: bool,
    connection: &CancellationToken,
) -> Result<Reply, Problem> {
    if let Some(bytes) = reply.uncounted().filter(|_| !head) {
        let share = server.with_room(server.budget.take(bytes, connection)).await;
        reply.share = share.map_err(|problem| {
            problem.hint("the request was carried out; GET the execution for what became of it")
        })?;
    }
    Ok(reply)
}

fn wrong_method(methods: &[Method]) -> Problem {
    let allow = methods.iter().map(Method::as_str).collect::<Vec<_>>().join(", ");
    let detail = format!("allowed methods: {allow}");
    Problem { allow: Some(allow), ..Problem::new(Code::MethodNotAllowed, detail) }
}

/// Rejects requests that accept none of the route's media types.
fn check_accept(route: &Route, headers: &HeaderMap) -> Result<(), Problem> {
    let types: Vec<&str> =
        route.replies.iter().filter_map(|reply| reply.content.media_type()).collect();
    let takes = |range: &str| {
        let family = range.strip_suffix("/*");
        range == "*/*"
            || types.contains(&range)
            || family.is_some_and(|family| {
                types.iter().any(|known| known.split('/').next() == Some(family))
            })
    };
    let mut ranges = media_ranges(headers).peekable();
    if types.is_empty() || ranges.peek().is_none() || ranges.any(takes) {
        return Ok(());
    }
    let detail = format!("the reply is {}", types.join(" or "));
    Err(Problem::new(Code::NotAcceptable, detail))
}

/// The media types, or families of them, that a request accepts.
pub(crate) fn media_ranges(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(header::ACCEPT).iter().filter_map(|line| line.to_str().ok());
    let ranges = lines.flat_map(|line| line.split(','));
    let ranges = ranges.map(|range| range.split(';').next().unwrap_or_default().trim());
    ranges.filter(|range| !range.is_empty())
}

/// Counts the reply, logs it, and writes down who did what.
fn note(server: &Server, known: &Known, reply: &Reply, address: SocketAddr, began: Instant) {
    let status = reply.status;
    let name = known.route.map_or("none", |route| route.name);
    let streams = matches!(reply.body, ReplyBody::Stream(_));
    server.metrics.request(status, (!streams).then(|| began.elapsed()));
    let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    tracing::debug!(route = name, status = status.as_u16(), took_ms, "request answered");
    let refused = matches!(
        status,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS
    );
    let audited = known.route.is_some_and(|route| route.effect == Effect::Audited);
    if audited || refused {
        let actor = known.identity.as_ref().map(|identity| Arc::clone(&identity.actor));
        server.audit.add(AuditEntry {
            at: server.clock.now(),
            actor: actor.unwrap_or_else(|| "anonymous".into()),
            address: address.ip().to_string().into(),
            action: name.into(),
            subject: known.subject.clone(),
            status: status.as_u16(),
        });
    }
}

fn respond(reply: Reply, head: bool) -> Response<ReplyBody> {
    let Reply { status, headers, body, share, .. } = reply;
    let length = match &body {
        ReplyBody::Whole(Some(bytes)) | ReplyBody::Shared(Some(bytes)) => Some(bytes.len()),
        ReplyBody::Whole(None) | ReplyBody::Shared(None) | ReplyBody::Stream(_) => None,
    };
    let body = match (body, share) {
        _ if head => ReplyBody::Whole(None),
        (ReplyBody::Whole(Some(bytes)), Some(share)) => ReplyBody::Whole(Some(share.hold(bytes))),
        (body, _) => body,
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    let headers = response.headers_mut();
    if let (true, Some(length)) = (head, length) {
        headers.insert(header::CONTENT_LENGTH, length.into());
    }
    // Responses are data: no browser is to guess otherwise, or to show them inside of another page.
    let fixed = header::HeaderValue::from_static;
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, fixed("nosniff"));
    headers
        .entry(header::CONTENT_SECURITY_POLICY)
        .or_insert(fixed("default-src 'none'; frame-ancestors 'none'"));
    headers.entry(header::CACHE_CONTROL).or_insert(fixed("no-store"));
    // The address of a response may have a token in it.
    headers.insert(header::REFERRER_POLICY, fixed("no-referrer"));
    response
}
