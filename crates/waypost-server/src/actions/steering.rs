//! Steering executions: pause, resume, cancel, signals, waits.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use waypost_core::command::Refusal;
use waypost_core::event::{MessageId, PauseReason};
use waypost_core::id::{ExecutionId, WaitId};
use waypost_core::status::Status;
use waypost_engine::{EngineError, Request, Requested};
use waypost_ports::query::EventsRequest;
use waypost_ports::store::MailBody;

use super::starting::refuse_large;
use crate::http::call::{Call, Reply};
use crate::problem::{Code, Problem};
use crate::reader::Found;
use crate::server::Server;
use crate::wire;
use crate::wire::payload::ExecutionStatus;

/// How long a request that went through the inbox is awaited.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) async fn pause(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let asked: wire::Pause = call.json()?;
    let execution = find(&server, call.values.text("id")).await?;
    // One that is paused would not wake for this, and nobody would ever say so.
    let found = load(&server, execution).await?;
    if is_held(&found) {
        return Err(Refusal::AlreadyPaused.into());
    }
    steer(&server, &call, execution, MailBody::Pause { now: asked.now }, None).await
}

pub(crate) async fn resume(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let execution = find(&server, call.values.text("id")).await?;
    steer(&server, &call, execution, MailBody::Resume, None).await
}

pub(crate) async fn cancel(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let asked: wire::Cancel = call.json()?;
    let execution = find(&server, call.values.text("id")).await?;
    let reason = asked.reason.map(|reason| reason.0);
    steer(&server, &call, execution, MailBody::Cancel { reason }, None).await
}

pub(crate) async fn signal(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let asked: wire::Signal = call.json()?;
    refuse_large(&asked.body)?;
    let execution = find(&server, call.values.text("id")).await?;
    let body = MailBody::Signal { name: asked.name.0.into(), body: asked.body.0 };
    let message = asked.message_id.map(|message| message.0.into());
    steer(&server, &call, execution, body, message).await
}

pub(crate) async fn resume_wait(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let asked: wire::ResumeWait = call.json()?;
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
    if !repeated && found.state.status.is_end() {
        return Err(Refusal::Ended(found.state.status).into());
    }
    if !repeated && found.state.waiting_since(&found.plan, wait.seq).is_none() {
        return Err(Refusal::NoSuchWait(wait.seq).into());
    }
    if !repeated && is_held(&found) {
        return Err(Refusal::Paused.into());
    }
    let body = MailBody::ResumeWait { wait: wait.seq, body: asked.body.0 };
    steer(&server, &call, execution, body, message).await
}

async fn find(server: &Arc<Server>, key: &str) -> Result<ExecutionId, Problem> {
    let key = key.to_owned();
    server.blocking(move |server| server.reader.find(&key)).await
}

async fn load(server: &Arc<Server>, execution: ExecutionId) -> Result<Found, Problem> {
    server.blocking(move |server| server.reader.load(execution)).await
}

/// Does nothing but a request to resume or cancel reach it?
fn is_held(found: &Found) -> bool {
    let held = found.control.as_ref().is_some_and(|control| control.held.is_some());
    held || found.state.paused == Some(PauseReason::User)
}

/// Asks something of an execution and says what became of it.
async fn steer(
    server: &Arc<Server>,
    call: &Call,
    execution: ExecutionId,
    body: MailBody,
    message: Option<MessageId>,
) -> Result<Reply, Problem> {
    let is_pause = matches!(body, MailBody::Pause { .. });
    let kept = matches!(body, MailBody::Signal { .. });
    let request = Request { execution, body, message: message.clone(), actor: call.actor() };
    match server.engine.request(request).await {
        Ok(Requested::Done(status)) => {
            let key = load(server, execution).await?.state.created.key.to_string();
            let pausing = is_pause && status != Status::Paused;
            answer(StatusCode::OK, key, status, pausing, message, false)
        }
        Ok(Requested::Accepted { message }) => settle(server, execution, message, kept).await,
        Err(EngineError::Refused(refusal)) => {
            let found = load(server, execution).await?;
            // Whoever repeats a request because its answer was lost is to learn that it was taken,
            // even where the execution has ended since.
            let taken = |message: &MessageId| found.state.messages.contains(message);
            if refusal != Refusal::Duplicate && !message.as_ref().is_some_and(taken) {
                return Err(refusal.into());
            }
            let key = found.state.created.key.to_string();
            answer(StatusCode::OK, key, found.state.status, found.state.pausing, message, true)
        }
        Err(error) => Err(error.into()),
    }
}

/// Waits until mail has been taken, and says what it did.
async fn settle(
    server: &Arc<Server>,
    execution: ExecutionId,
    message: MessageId,
    kept: bool,
) -> Result<Reply, Problem> {
    let watch = server.watchers.watch(execution);
    let taken = watch.until(async || {
        let found = load(server, execution).await?;
        let done = found.state.messages.contains(&message)
            || found.state.status.is_end()
            || kept && is_held(&found);
        Ok::<_, Problem>(done.then_some(found))
    });
    let found = match tokio::time::timeout(PATIENCE, taken).await {
        Ok(found) => found?,
        Err(_) => load(server, execution).await?,
    };
    let key = found.state.created.key.to_string();
    let (status, pausing) = (found.state.status, found.state.pausing);
    if found.state.messages.contains(&message) {
        if let Some(reason) = ignored(server, execution, &message).await? {
            return Err(Problem::new(Code::IllegalTransition, reason)
                .hint("GET /v1/executions/{id}/why says where it stands"));
        }
        return answer(StatusCode::OK, key, status, pausing, Some(message), false);
    }
    if status.is_end() {
        return Err(Refusal::Ended(status).into());
    }
    answer(StatusCode::ACCEPTED, key, status, pausing, Some(message), false)
}

/// Why a message changed nothing, if it did.
async fn ignored(
    server: &Arc<Server>,
    execution: ExecutionId,
    message: &MessageId,
) -> Result<Option<String>, Problem> {
    let request = EventsRequest {
        execution,
        node: None,
        kind: Some("MessageIgnored".to_owned()),
        after: 0,
        limit: usize::MAX,
    };
    let rows = server.blocking(move |server| Ok(server.reader.home().events(&request)?)).await?;
    let reason = rows.iter().rev().find_map(|row| {
        let ignored: Ignored = serde_json::from_str(row.fields.text()).ok()?;
        (*ignored.message == **message).then_some(ignored.reason)
    });
    Ok(reason)
}

#[derive(serde::Deserialize)]
struct Ignored {
    message: String,
    reason: String,
}

fn answer(
    code: StatusCode,
    id: String,
    status: Status,
    pausing: bool,
    message: Option<MessageId>,
    duplicate: bool,
) -> Result<Reply, Problem> {
    let steered = wire::Steered {
        id,
        status: ExecutionStatus(status),
        pausing,
        message_id: message.map(|message| message.to_string()),
        duplicate,
    };
    Ok(Reply::json(code, &steered)?.about(steered.id.as_str()))
}
