//! Steering executions: pause, resume, cancel, signals, waits.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use waypost_core::command::Refusal;
use waypost_core::event::MessageId;
use waypost_core::id::{ExecutionId, WaitId};
use waypost_engine::{EngineError, Request, Requested};
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
    refuse(found.refuses_pause())?;
    steer(&server, &call, execution, MailBody::Pause { now: asked.now }, None).await
}

pub(crate) async fn resume(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let execution = find(&server, call.values.text("id")).await?;
    refuse(load(&server, execution).await?.refuses_resume())?;
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
    if !repeated {
        refuse(found.state.refuses_resume_wait(&found.plan, wait.seq))?;
    }
    let body = MailBody::ResumeWait { wait: wait.seq, body: asked.body.0 };
    steer(&server, &call, execution, body, message).await
}

fn refuse(refusal: Option<Refusal>) -> Result<(), Problem> {
    refusal.map_or(Ok(()), |refusal| Err(refusal.into()))
}

async fn find(server: &Arc<Server>, key: &str) -> Result<ExecutionId, Problem> {
    let key = key.to_owned();
    server.blocking(move |server| server.reader.find(&key)).await
}

async fn load(server: &Arc<Server>, execution: ExecutionId) -> Result<Found, Problem> {
    server.blocking(move |server| server.reader.load(execution)).await
}

/// Asks something of an execution and says what became of it.
async fn steer(
    server: &Arc<Server>,
    call: &Call,
    execution: ExecutionId,
    body: MailBody,
    message: Option<MessageId>,
) -> Result<Reply, Problem> {
    let kept = matches!(body, MailBody::Signal { .. });
    let request = Request { execution, body, message: message.clone(), actor: call.actor() };
    match server.in_time(server.engine.request(request)).await? {
        Ok(Requested::Done(_)) => {
            answer(StatusCode::OK, &load(server, execution).await?, message, false)
        }
        Ok(Requested::Accepted { message }) => settle(server, execution, message, kept).await,
        Err(EngineError::Refused(refusal)) => {
            let Some(message) = message else { return Err(refusal.into()) };
            repeated(server, execution, message, refusal).await
        }
        Err(error) => Err(error.into()),
    }
}

/// What to say to a request that was refused, where it may have been made before: whoever repeats
/// one because its answer was lost is to hear what became of it, even after the execution's end.
async fn repeated(
    server: &Arc<Server>,
    execution: ExecutionId,
    message: MessageId,
    refusal: Refusal,
) -> Result<Reply, Problem> {
    let found = load(server, execution).await?;
    let taken = found.state.messages.contains(&message);
    if refusal != Refusal::Duplicate && !taken {
        return Err(refusal.into());
    }
    if taken && let Some(problem) = ignored(server, execution, &message).await? {
        return Err(problem);
    }
    // What is in the inbox still is kept, and not more.
    let code = if taken { StatusCode::OK } else { StatusCode::ACCEPTED };
    answer(code, &found, Some(message), true)
}

async fn ignored(
    server: &Arc<Server>,
    execution: ExecutionId,
    message: &MessageId,
) -> Result<Option<Problem>, Problem> {
    let message = Arc::clone(message);
    server.blocking(move |server| server.reader.ignored(execution, &message)).await
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
            || kept && found.is_held();
        Ok::<_, Problem>(done.then_some(found))
    });
    let found = match tokio::time::timeout(PATIENCE, taken).await {
        Ok(found) => found?,
        Err(_) => load(server, execution).await?,
    };
    if found.state.messages.contains(&message) {
        if let Some(problem) = ignored(server, execution, &message).await? {
            return Err(problem);
        }
        return answer(StatusCode::OK, &found, Some(message), false);
    }
    let status = found.state.status;
    if status.is_end() {
        return Err(Refusal::Ended(status).into());
    }
    answer(StatusCode::ACCEPTED, &found, Some(message), false)
}

fn answer(
    code: StatusCode,
    found: &Found,
    message: Option<MessageId>,
    duplicate: bool,
) -> Result<Reply, Problem> {
    let steered = wire::Steered {
        id: found.state.created.key.to_string(),
        status: ExecutionStatus(found.state.status),
        pausing: found.state.pausing,
        message_id: message.map(|message| message.to_string()),
        duplicate,
    };
    Ok(Reply::json(code, &steered)?.about(steered.id.as_str()))
}
