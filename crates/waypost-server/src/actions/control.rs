//! Control executions: pause, resume, cancel, retry, signals, waits.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use waypost_core::command::{Refusal, Request};
use waypost_core::event::{MessageId, Origin};
use waypost_core::id::{ExecutionNo, WaitId};
use waypost_engine::{ControlRequest, EngineError, Receipt, Requested};

use super::starting::refuse_large;
use crate::http::call::{Call, Reply};
use crate::problem::{Code, Problem, undecided};
use crate::reader::Found;
use crate::server::Server;
use crate::wire;
use crate::wire::payload::{ExecutionStatus, Payload};

/// How long a request that went through the inbox is awaited.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) async fn pause(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let asked: wire::Pause = call.json()?;
    let execution = find(&server, call.values.text("id")).await?;
    // One that is paused would not wake for this, and nobody would ever say so.
    let found = load(&server, execution).await?;
    refuse(found.refuses_pause())?;
    control(
        &server,
        &call,
        (call.values.text("id"), execution),
        Request::Pause { now: asked.now, reason: None },
        None,
    )
    .await
}

pub(crate) async fn resume(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let execution = find(&server, call.values.text("id")).await?;
    refuse(load(&server, execution).await?.refuses_resume())?;
    control(
        &server,
        &call,
        (call.values.text("id"), execution),
        Request::Resume { reason: None },
        None,
    )
    .await
}

pub(crate) async fn cancel(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let asked: wire::Cancel = call.json()?;
    let execution = find(&server, call.values.text("id")).await?;
    let reason = asked.reason.map(|reason| reason.0);
    control(&server, &call, (call.values.text("id"), execution), Request::Cancel { reason }, None)
        .await
}

pub(crate) async fn retry(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let asked: wire::Retry = call.json()?;
    let id = call.values.text("id");
    let execution = find(&server, id).await?;
    let found = load(&server, execution).await?;
    let message: Option<MessageId> = asked.message_id.map(|message| message.0.into());
    let repeated = message.as_ref().is_some_and(|message| found.state.messages.contains(message));
    if asked.dry_run {
        let (status, nodes) = (ExecutionStatus(found.status()), found.retries()?);
        return reply(StatusCode::OK, &wire::ControlResult::of(id, status).with_nodes(nodes));
    }
    if !repeated {
        found.retries()?;
    }
    let body = Request::Retry { reason: asked.reason.map(|reason| reason.0) };
    control(&server, &call, (id, execution), body, message).await
}

pub(crate) async fn signal(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let asked: wire::Signal = call.json()?;
    refuse_large(&asked.body)?;
    let execution = find(&server, call.values.text("id")).await?;
    refuse_full(&server, execution, &asked.body).await?;
    let body = Request::Signal { name: asked.name.0.into(), body: asked.body.0 };
    let message = asked.message_id.map(|message| message.0.into());
    control(&server, &call, (call.values.text("id"), execution), body, message).await
}

pub(crate) async fn complete_wait(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let asked: wire::CompleteWait = call.json()?;
    refuse_large(&asked.body)?;
    let text = call.values.text("id");
    let unknown = || Problem::new(Code::UnknownWait, format!("no wait has the id {text:?}"));
    let wait: WaitId = text.parse().map_err(|_| unknown())?;
    let execution = find(&server, wait.execution.as_str()).await.map_err(|problem| {
        if problem.code == Code::UnknownExecution { unknown() } else { problem }
    })?;
    let message: Option<MessageId> = asked.message_id.map(|message| message.0.into());
    let found = load(&server, execution).await?;
    let repeated = message.as_ref().is_some_and(|message| found.state.messages.contains(message));
    if !repeated {
        refuse(found.state.refuses_complete_wait(&found.plan, wait.seq))?;
    }
    let body = Request::CompleteWait { wait: wait.seq, body: asked.body.0 };
    control(&server, &call, (wait.execution.as_str(), execution), body, message).await
}

async fn refuse_full(
    server: &Arc<Server>,
    execution: ExecutionNo,
    body: &Payload,
) -> Result<(), Problem> {
    let bytes = body.0.bytes();
    server.blocking(move |server| server.reader.refuse_full(execution, bytes)).await
}

fn refuse(refusal: Option<Refusal>) -> Result<(), Problem> {
    refusal.map_or(Ok(()), |refusal| Err(refusal.into()))
}

async fn find(server: &Arc<Server>, key: &str) -> Result<ExecutionNo, Problem> {
    let key = key.to_owned();
    server.blocking(move |server| server.reader.find(&key)).await
}

async fn load(server: &Arc<Server>, execution: ExecutionNo) -> Result<Found, Problem> {
    server.load(execution).await
}

/// Asks something of an execution and says what became of it.
async fn control(
    server: &Arc<Server>,
    call: &Call,
    (key, execution): (&str, ExecutionNo),
    request: Request,
    message: Option<MessageId>,
) -> Result<Reply, Problem> {
    let is_signal = matches!(request, Request::Signal { .. });
    let origin = Origin { message: message.clone(), actor: call.actor() };
    let request = ControlRequest { execution, request, origin };
    match server.written(server.engine.request(request)).await? {
        // Nothing is read back for this: that would cost more with each signal that is kept.
        Ok(Requested::Done { status, pausing }) => {
            let message_id = message.map(|message| message.to_string());
            let done = wire::ControlResult::of(key, ExecutionStatus(status));
            reply(StatusCode::OK, &wire::ControlResult { pausing, message_id, ..done })
        }
        Ok(Requested::Accepted { message }) => {
            settle(server, execution, Sent { message, is_signal, duplicate: false }).await
        }
        Err(EngineError::Refused(refusal)) => {
            let Some(message) = message else { return Err(refusal.into()) };
            let sent = Sent { message, is_signal, duplicate: true };
            repeated(server, execution, sent, refusal).await
        }
        Err(error) => Err(error.into()),
    }
}

/// What to say to a request that was refused, where it may have been made before: whoever repeats
/// one because its answer was lost is to hear what became of it, even after the execution's end.
async fn repeated(
    server: &Arc<Server>,
    execution: ExecutionNo,
    sent: Sent,
    refusal: Refusal,
) -> Result<Reply, Problem> {
    // The first one is in the inbox, and no more: the execution may end without it.
    if refusal == Refusal::Duplicate {
        return settle(server, execution, sent).await;
    }
    let found = load(server, execution).await?;
    match found.receipt(&sent.message) {
        Receipt::Taken => taken(server, execution, &found, sent).await,
        _ => Err(refusal.into()),
    }
}

async fn ignored(
    server: &Arc<Server>,
    execution: ExecutionNo,
    message: &MessageId,
) -> Result<Option<Problem>, Problem> {
    let message = Arc::clone(message);
    server.blocking(move |server| server.reader.ignored(execution, &message)).await
}

/// A request that went through the inbox, or had gone there before.
struct Sent {
    message: MessageId,
    is_signal: bool,
    duplicate: bool,
}

/// Waits until mail has been taken, and says what it did. 202 for a signal says that it will be in the
/// log; where an owner may still end the execution without it, the sender is told to ask again.
async fn settle(
    server: &Arc<Server>,
    execution: ExecutionNo,
    sent: Sent,
) -> Result<Reply, Problem> {
    let watch = server.watchers.watch(execution);
    let settled = watch.until(async || {
        let found = load(server, execution).await?;
        let open = match found.receipt(&sent.message) {
            Receipt::Open => true,
            Receipt::Kept => !sent.is_signal,
            Receipt::Taken | Receipt::Ended(_) => false,
        };
        Ok::<_, Problem>((!open).then_some(found))
    });
    let found = match tokio::time::timeout(PATIENCE, settled).await {
        Ok(found) => found?,
        Err(_) => load(server, execution).await?,
    };
    match found.receipt(&sent.message) {
        Receipt::Taken => taken(server, execution, &found, sent).await,
        Receipt::Ended(status) => Err(Refusal::Ended(status).into()),
        Receipt::Open if sent.is_signal => Err(undecided(&sent.message)),
        Receipt::Kept | Receipt::Open => {
            answer(StatusCode::ACCEPTED, &found, Some(sent.message), sent.duplicate)
        }
    }
}

/// The log has it: as what was asked for, or as a message that changed nothing.
async fn taken(
    server: &Arc<Server>,
    execution: ExecutionNo,
    found: &Found,
    sent: Sent,
) -> Result<Reply, Problem> {
    match ignored(server, execution, &sent.message).await? {
        Some(problem) => Err(problem),
        None => answer(StatusCode::OK, found, Some(sent.message), sent.duplicate),
    }
}

fn answer(
    code: StatusCode,
    found: &Found,
    message: Option<MessageId>,
    duplicate: bool,
) -> Result<Reply, Problem> {
    let id = found.state.created.key.as_str();
    let (status, pausing) = (ExecutionStatus(found.status()), found.state.pausing);
    let message_id = message.map(|message| message.to_string());
    let answer = wire::ControlResult::of(id, status);
    reply(code, &wire::ControlResult { pausing, message_id, duplicate, ..answer })
}

fn reply(code: StatusCode, controlled: &wire::ControlResult) -> Result<Reply, Problem> {
    Ok(Reply::json(code, controlled)?.about(controlled.id.as_str()))
}
