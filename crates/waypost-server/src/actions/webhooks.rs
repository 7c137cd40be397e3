//! Webhook endpoints, their messages, and dead letters.

use std::sync::Arc;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::{StatusCode, header};
use uuid::Uuid;
use waypost_core::outbox::delivery::Delivered;
use waypost_core::outbox::{MessageKinds, STATUS_CHANGED};
use waypost_engine::dispatcher::test_request;
use waypost_ports::outbox::{
    EndpointChange, EndpointRow, MessageName, MessageState, MessagesRequest, NewEndpoint, Outbox,
    Replay, SigningSecret, is_trigger_endpoint,
};

use super::page_size;
use crate::http::call::{Call, Reply};
use crate::problem::{Code, Problem};
use crate::reader::webhook_views as views;
use crate::server::Server;
use crate::wire;
use crate::wire::payload::Short;

/// Endpoints in one store.
pub(crate) const ENDPOINTS_MAX: usize = 1_000;
/// Messages that one replay names.
pub(crate) const REPLAY_IDS_MAX: usize = 1_000;

/// The prefix of secrets, as Standard Webhooks has it.
const PREFIX: &str = "whsec_";

/// A new secret: 32 bytes with the entropy of two random UUIDs.
fn new_secret() -> SigningSecret {
    let random = [*Uuid::new_v4().as_bytes(), *Uuid::new_v4().as_bytes()].concat();
    SigningSecret(blake3::hash(&random).as_bytes().to_vec())
}

/// The secret as its receiver gets it, once.
fn secret_text(secret: &SigningSecret) -> String {
    format!("{PREFIX}{}", STANDARD.encode(&secret.0))
}

fn unknown(id: &str) -> Problem {
    Problem::new(Code::UnknownEndpoint, format!("no webhook endpoint has the id {id:?}"))
}

/// The endpoints of people; those of triggers are not shown.
fn endpoints(outbox: &(impl Outbox + ?Sized)) -> Result<Vec<EndpointRow>, Problem> {
    let mut rows = outbox.endpoints()?;
    rows.retain(|row| !is_trigger_endpoint(&row.endpoint.id));
    Ok(rows)
}

fn find(outbox: &(impl Outbox + ?Sized), id: &str) -> Result<EndpointRow, Problem> {
    let row = endpoints(outbox)?.into_iter().find(|row| *row.endpoint.id == *id);
    row.ok_or_else(|| unknown(id))
}

/// The kinds that names of events select.
fn kinds(events: Option<&[Short<64>]>) -> Result<MessageKinds, Problem> {
    let Some(events) = events else { return Ok(MessageKinds::STATUS) };
    let mut kinds = MessageKinds::default();
    for event in events {
        let more = MessageKinds::parse(&event.0).ok_or_else(|| {
            let all: Vec<&str> = MessageKinds::ALL.iter().map(|kind| kind.name()).collect();
            let detail = format!("there is no event {:?}", event.0);
            Problem::new(Code::BadBody, detail).hint(format!(
                "the events are {STATUS_CHANGED} (all changes of status), {}",
                all.join(", ")
            ))
        })?;
        kinds = kinds.with(more);
    }
    match kinds.is_empty() {
        true => Err(Problem::new(Code::BadBody, "`events` names no event")),
        false => Ok(kinds),
    }
}

pub(crate) async fn create(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let asked: wire::NewWebhookEndpoint = call.json()?;
    let url = asked.url.0;
    if let Some(reason) = server.webhooks.refuse(&url) {
        return Err(Problem::new(Code::EndpointRefused, reason));
    }
    let id = Uuid::new_v4().simple().to_string();
    let id: Arc<str> = id.get(..12).unwrap_or_default().into();
    let endpoint = NewEndpoint {
        id: Arc::clone(&id),
        url: url.into(),
        description: asked.description.map_or_else(|| "".into(), |text| text.0.into()),
        workflow: asked.workflow.map(|name| name.0.into()),
        kinds: kinds(asked.events.as_deref())?,
        with_output: asked.include_output.unwrap_or(false),
        with_links: asked.include_links.unwrap_or(false),
        secret: new_secret(),
    };
    let secret = secret_text(&endpoint.secret);
    let row = server
        .blocking(move |server| {
            let outbox = server.reader.backend();
            if endpoints(outbox)?.len() >= ENDPOINTS_MAX {
                let detail = format!("there are {ENDPOINTS_MAX} webhook endpoints already");
                return Err(Problem::new(Code::EndpointRefused, detail));
            }
            outbox.add_endpoint(&endpoint)?;
            find(outbox, &endpoint.id)
        })
        .await?;
    server.wakeups.wake();
    let made = wire::WebhookSecret { endpoint: views::endpoint(&row), secret };
    let reply = Reply::json(StatusCode::CREATED, &made)?.about(id);
    Ok(reply.with(header::CACHE_CONTROL, "no-store"))
}

pub(crate) async fn list(server: Arc<Server>, _: Call) -> Result<Reply, Problem> {
    let rows = server.blocking(|server| endpoints(server.reader.backend())).await?;
    let endpoints = rows.iter().map(views::endpoint).collect();
    Reply::ok(&wire::WebhookEndpointList { endpoints })
}

pub(crate) async fn show(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    Reply::ok(&views::endpoint(&load(&server, &call).await?))
}

async fn load(server: &Arc<Server>, call: &Call) -> Result<EndpointRow, Problem> {
    let id = call.values.text("id").to_owned();
    server.blocking(move |server| find(server.reader.backend(), &id)).await
}

pub(crate) async fn delete(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let id = call.values.text("id").to_owned();
    let deleted = id.clone();
    server
        .blocking(move |server| {
            match !is_trigger_endpoint(&id) && server.reader.backend().delete_endpoint(&id)? {
                true => Ok(()),
                false => Err(unknown(&id)),
            }
        })
        .await?;
    // A node may wait for the delivery of a message that went with it.
    server.wakeups.wake();
    Ok(Reply::empty().about(deleted))
}

/// Makes a change; returns the endpoint after it.
async fn change(
    server: &Arc<Server>,
    call: &Call,
    change: EndpointChange,
) -> Result<EndpointRow, Problem> {
    let id = call.values.text("id").to_owned();
    let changed = server.blocking(move |server| {
        let outbox = server.reader.backend();
        match !is_trigger_endpoint(&id) && outbox.change_endpoint(&id, &change)? {
            true => find(outbox, &id),
            false => Err(unknown(&id)),
        }
    });
    let row = changed.await?;
    server.wakeups.wake();
    Ok(row)
}

pub(crate) async fn pause(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let row = change(&server, &call, EndpointChange::Pause).await?;
    Ok(Reply::ok(&views::endpoint(&row))?.about(row.endpoint.id))
}

pub(crate) async fn resume(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let row = change(&server, &call, EndpointChange::Resume).await?;
    Ok(Reply::ok(&views::endpoint(&row))?.about(row.endpoint.id))
}

pub(crate) async fn rotate(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let secret = new_secret();
    let text = secret_text(&secret);
    let row = change(&server, &call, EndpointChange::Rotate(secret)).await?;
    let made = wire::WebhookSecret { endpoint: views::endpoint(&row), secret: text };
    let reply = Reply::ok(&made)?.about(row.endpoint.id);
    Ok(reply.with(header::CACHE_CONTROL, "no-store"))
}

pub(crate) async fn test(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let row = load(&server, &call).await?;
    let began = Instant::now();
    let result = server.webhooks.send(test_request(&row, server.clock.now())).await;
    let tested = wire::WebhookTested {
        delivered: matches!(result, Delivered::Yes { .. }),
        status: result.status(),
        took_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        reason: match &result {
            Delivered::Gone => Some("answered 410 Gone".to_owned()),
            result => result.reason().map(str::to_owned),
        },
    };
    Ok(Reply::ok(&tested)?.about(row.endpoint.id))
}

pub(crate) async fn replay(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let id = call.values.text("id").to_owned();
    let which = which(&call.json()?)?;
    let endpoint = id.clone();
    let replayed = server
        .blocking(move |server| {
            let outbox = server.reader.backend();
            find(outbox, &endpoint)?;
            Ok(outbox.replay_messages(&endpoint, &which)?)
        })
        .await?;
    server.wakeups.wake();
    Ok(Reply::ok(&wire::WebhookReplayed { replayed })?.about(id))
}

fn which(asked: &wire::WebhookReplay) -> Result<Replay, Problem> {
    match (asked.dead, asked.since, &asked.ids) {
        (Some(true), None, None) => Ok(Replay::Dead),
        (None, Some(since), None) => Ok(Replay::Since(since.0)),
        (None, None, Some(ids)) if ids.len() <= REPLAY_IDS_MAX => {
            let name = |id: &Short<256>| {
                MessageName::parse(&id.0).ok_or_else(|| {
                    Problem::new(Code::BadBody, format!("{:?} is not the id of a message", id.0))
                })
            };
            Ok(Replay::Only(ids.iter().map(name).collect::<Result<_, _>>()?))
        }
        (None, None, Some(_)) => {
            let detail = format!("`ids` may have at most {REPLAY_IDS_MAX} entries");
            Err(Problem::new(Code::BadBody, detail))
        }
        _ => Err(Problem::new(
            Code::BadBody,
            "exactly one of `dead: true`, `since` and `ids` is needed",
        )),
    }
}

pub(crate) async fn messages(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let named = |name| MessageState::ALL.into_iter().find(|state| state.name() == name);
    let state = call.values.get("state").and_then(named);
    let endpoint = Some(load(&server, &call).await?.endpoint.id);
    let request = MessagesRequest { endpoint, state, ..MessagesRequest::default() };
    let (messages, next) = page(&server, &call, request).await?;
    Reply::ok(&wire::WebhookMessageList { messages, next })
}

/// The messages about one execution, to all endpoints.
pub(crate) async fn of_execution(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let execution = Some(server.find(call.values.text("id")).await?);
    let request = MessagesRequest { execution, ..MessagesRequest::default() };
    let (messages, next) = page(&server, &call, request).await?;
    Reply::ok(&wire::WebhookMessageList { messages, next })
}

pub(crate) async fn dead_letters(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let state = Some(MessageState::Dead);
    let request = MessagesRequest { state, ..MessagesRequest::default() };
    let (dead_letters, next) = page(&server, &call, request).await?;
    Reply::ok(&wire::DeadLetterList { dead_letters, next })
}

async fn page(
    server: &Arc<Server>,
    call: &Call,
    request: MessagesRequest,
) -> Result<(Vec<wire::WebhookMessage>, Option<String>), Problem> {
    let before = call.values.number("cursor");
    let request = MessagesRequest { before, limit: page_size(call), ..request };
    let page =
        server.blocking(move |server| Ok(server.reader.backend().messages(&request)?)).await?;
    let next = page.rows.last().filter(|_| page.more).map(|row| row.place.to_string());
    Ok((page.rows.iter().map(views::message).collect(), next))
}
