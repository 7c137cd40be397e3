//! Starting executions.

use std::sync::Arc;
use std::time::Duration;

use hyper::{StatusCode, header};
use waypost_core::id::{DefinitionHash, ExecutionId, ExecutionKey};
use waypost_core::limits::PAYLOAD_BYTES_MAX;
use waypost_core::status::Status;
use waypost_engine::driver::EndSummary;
use waypost_engine::{EngineError, StartRequest, Started};
use waypost_ports::store::Idempotency;

use crate::http::call::{Call, Reply};
use crate::problem::{Code, Problem};
use crate::reader;
use crate::server::Server;
use crate::wire;
use crate::wire::payload::{ExecutionStatus, Payload};
use crate::workflows::Startable;

/// Says that this is the answer to an earlier submission under the same key.
const REPLAYED: &str = "idempotent-replayed";

pub(crate) async fn start(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let submission: wire::Start = call.json()?;
    refuse_large(&submission.input)?;
    let idempotency = match call.values.get("idempotency-key") {
        Some(key) => Some(Idempotency { key: key.into(), digest: digest(&submission)? }),
        None => None,
    };
    let workflow = find(&server, &submission).await?;
    let own_id = submission.id.as_ref().map(|id| ExecutionKey(id.0.as_str().into()));
    let has_key = idempotency.is_some();
    let request = StartRequest {
        key: own_id.clone(),
        idempotency,
        labels: submission.labels.0,
        actor: call.actor(),
        ..StartRequest::new(Arc::clone(&workflow.plan), workflow.version, submission.input.0)
    };
    let started = match server.engine.start(request).await {
        Ok(started) => started,
        Err(EngineError::Exists(existing)) => {
            return Err(exists(&server, existing, own_id, has_key).await);
        }
        Err(error) => return Err(error.into()),
    };
    let wait = call.values.duration("wait");
    let (execution, key) = (started.execution, started.key.clone());
    let end = until_end(&server, started, wait).await;
    match (key, end, wait) {
        (Some(key), Some(end), _) => answer(StatusCode::CREATED, &ended(&key, &workflow, end)),
        // The first frame has just been committed: something is queued or running.
        (Some(key), None, None) => {
            let status = ExecutionStatus(Status::Running);
            answer(StatusCode::CREATED, &fresh(&key, &workflow, status))
        }
        (Some(_), None, Some(_)) => answer(StatusCode::CREATED, &look(&server, execution).await?),
        // The same submission as before: what stands there now.
        (None, ..) => {
            let replayed = header::HeaderName::from_static(REPLAYED);
            let reply = answer(StatusCode::OK, &look(&server, execution).await?)?;
            Ok(reply.with(replayed, "true"))
        }
    }
}

/// What is to be started, with an input that it takes.
async fn find(server: &Arc<Server>, submission: &wire::Start) -> Result<Startable, Problem> {
    let found = server.workflows.find(&submission.workflow.0, submission.version).await?;
    if let Some(workflow) = server.workflows.at_hand(found) {
        return Ok(workflow);
    }
    let input = submission.input.0.clone();
    let load = move |server: &Server| {
        let workflow = server.workflows.load(found)?;
        server.workflows.check_input(&workflow.plan, &input)?;
        Ok(workflow)
    };
    server.blocking(load).await
}

fn fresh(key: &ExecutionKey, workflow: &Startable, status: ExecutionStatus) -> wire::Started {
    wire::Started {
        id: key.to_string(),
        workflow: workflow.plan.workflow.to_string(),
        version: workflow.version,
        status,
        output: None,
        failure: None,
    }
}

fn ended(key: &ExecutionKey, workflow: &Startable, end: EndSummary) -> wire::Started {
    wire::Started {
        output: end.output.map(Payload),
        failure: end.failure.as_ref().map(reader::failure),
        ..fresh(key, workflow, ExecutionStatus(end.status))
    }
}

/// What stands in the log.
async fn look(server: &Arc<Server>, execution: ExecutionId) -> Result<wire::Started, Problem> {
    let found = server.blocking(move |server| server.reader.load(execution)).await?;
    let (created, end) = (&found.state.created, found.state.end.as_ref());
    Ok(wire::Started {
        id: created.key.to_string(),
        workflow: created.workflow.to_string(),
        version: created.version,
        status: ExecutionStatus(found.state.status),
        output: end.and_then(|end| end.output.clone()).map(Payload),
        failure: end.and_then(|end| end.failure.as_ref()).map(reader::failure),
    })
}

fn answer(status: StatusCode, started: &wire::Started) -> Result<Reply, Problem> {
    let place = format!("/v1/executions/{}", started.id);
    Ok(Reply::json(status, started)?.with(header::LOCATION, &place).about(started.id.as_str()))
}

/// A payload that the log would not hold.
pub(super) fn refuse_large(payload: &Payload) -> Result<(), Problem> {
    let bytes = payload.0.bytes();
    if bytes <= PAYLOAD_BYTES_MAX {
        return Ok(());
    }
    let detail = format!("the payload has {bytes} bytes; at most {PAYLOAD_BYTES_MAX} are kept");
    Err(Problem::new(Code::BodyTooLarge, detail)
        .hint("keep large data elsewhere and pass a reference to it"))
}

/// What a submission is, whatever its spelling: the order of fields and white space do not matter.
fn digest(submission: &wire::Start) -> Result<[u8; 32], Problem> {
    let value = serde_json::to_value(submission).map_err(|error| Problem::internal(&error))?;
    Ok(DefinitionHash::of(value.to_string().as_bytes()).0)
}

async fn until_end(
    server: &Server,
    started: Started,
    wait: Option<Duration>,
) -> Option<EndSummary> {
    let wait = wait?.min(server.config.wait_max);
    tokio::select! { // all may be dropped: the execution is durable and goes on
        end = started.ended() => end,
        () = server.closing.cancelled() => None,
        () = tokio::time::sleep(wait) => None,
    }
}

/// Which of the two names was taken?
async fn exists(
    server: &Arc<Server>,
    existing: ExecutionId,
    own_id: Option<ExecutionKey>,
    has_key: bool,
) -> Problem {
    let taken = || {
        Problem::new(Code::IdTaken, "an execution of this id exists already")
            .hint("choose another id, or send an Idempotency-Key to start at most one")
    };
    if !has_key {
        return taken();
    }
    let found = server.blocking(move |server| server.reader.load(existing)).await;
    let same_id = match (&found, own_id) {
        (Ok(found), Some(id)) => found.state.created.key == id,
        _ => false,
    };
    if same_id {
        return taken();
    }
    let detail = "this Idempotency-Key was used for another submission";
    Problem::new(Code::IdempotencyMismatch, detail)
        .hint("use a new key for each submission, and the same one only to repeat it")
}
