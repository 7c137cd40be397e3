//! Starting executions.

use std::sync::Arc;

use hyper::{StatusCode, header};
use waypost_core::id::{ExecutionId, ExecutionNo};
use waypost_core::limits::PAYLOAD_BYTES_MAX;
use waypost_core::status::Status;
use waypost_engine::driver::EndSummary;
use waypost_engine::{EngineError, StartRequest};
use waypost_ports::store::Idempotency;

use crate::http::call::{Call, Reply};
use crate::problem::{Code, Problem};
use crate::reader;
use crate::server::Server;
use crate::wire;
use crate::wire::payload::{ExecutionStatus, Payload};
use crate::workflows::Startable;

/// Marks the response to a repeat of an earlier submission under the same key.
const REPLAYED: &str = "idempotent-replayed";

pub(crate) async fn start(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let submission: wire::Start = call.json()?;
    refuse_large(&submission.input)?;
    let key = call.values.get("idempotency-key");
    let idempotency = key.map(|key| Idempotency { key: key.into(), digest: submission.digest() });
    let workflow = match find(&server, &submission).await {
        Ok(workflow) => workflow,
        // A submission that was valid once stays so, whatever was deployed since.
        Err(problem) => match started_before(&server, idempotency.as_ref()).await? {
            Some(execution) => return replay(&server, execution).await,
            None => return Err(problem),
        },
    };
    let key = idempotency.as_ref().map(|idempotency| Arc::clone(&idempotency.key));
    let request = StartRequest {
        key: submission.id.as_ref().map(|id| ExecutionId(id.0.as_str().into())),
        idempotency,
        labels: submission.labels.0,
        actor: call.actor(),
        ..StartRequest::new(Arc::clone(&workflow.plan), workflow.version, submission.input.0)
    };
    let started = match server.written(server.engine.start(request)).await? {
        Ok(started) => started,
        Err(EngineError::Exists(existing)) => return Err(exists(&server, existing, key).await?),
        Err(error) => return Err(error.into()),
    };
    let wait = call.values.duration("wait");
    let (execution, key) = (started.execution, started.key.clone());
    let end = match wait {
        Some(wait) => server.patiently(wait, started.ended()).await.flatten(),
        None => None,
    };
    match (key, end, wait) {
        (Some(key), Some(end), _) => answer(StatusCode::CREATED, &ended(&key, &workflow, end)),
        // The first frame has just been committed: something is queued or running, unless it has to
        // wait for a slot.
        (Some(key), None, None) if workflow.plan.concurrency.is_none() => {
            let status = ExecutionStatus(Status::Running);
            answer(StatusCode::CREATED, &fresh(&key, &workflow, status))
        }
        (Some(_), None, _) => answer(StatusCode::CREATED, &look(&server, execution).await?),
        // The same submission as before: what stands there now.
        (None, ..) => replay(&server, execution).await,
    }
}

async fn replay(server: &Arc<Server>, execution: ExecutionNo) -> Result<Reply, Problem> {
    let replayed = header::HeaderName::from_static(REPLAYED);
    let reply = answer(StatusCode::OK, &look(server, execution).await?)?;
    Ok(reply.with(replayed, "true"))
}

/// The definition to start, with a valid input.
async fn find(server: &Arc<Server>, submission: &wire::Start) -> Result<Startable, Problem> {
    let (name, version) =
        (submission.workflow.0.clone(), submission.version.map(|version| version.0));
    let input = submission.input.0.clone();
    let find = move |server: &Server| {
        let workflow = server.workflows.find(&name, version)?;
        server.workflows.check_input(&workflow.plan, &input)?;
        Ok(workflow)
    };
    server.blocking(find).await
}

/// The execution that the very same submission started before, if there is one.
async fn started_before(
    server: &Arc<Server>,
    idempotency: Option<&Idempotency>,
) -> Result<Option<ExecutionNo>, Problem> {
    let Some(Idempotency { key, digest }) = idempotency.cloned() else { return Ok(None) };
    let find = move |server: &Server| Ok(server.reader.backend().submitted(&key)?);
    let known = server.blocking(find).await?.filter(|known| known.digest == digest);
    Ok(known.map(|known| known.execution))
}

fn fresh(key: &ExecutionId, workflow: &Startable, status: ExecutionStatus) -> wire::Started {
    wire::Started {
        id: key.to_string(),
        workflow: workflow.plan.workflow.to_string(),
        version: workflow.version,
        status,
        output: None,
        failure: None,
    }
}

fn ended(key: &ExecutionId, workflow: &Startable, end: EndSummary) -> wire::Started {
    wire::Started {
        output: end.output.map(Payload),
        failure: end.failure.as_ref().map(reader::failure),
        ..fresh(key, workflow, ExecutionStatus(end.status))
    }
}

/// An execution's state in the log.
async fn look(server: &Arc<Server>, execution: ExecutionNo) -> Result<wire::Started, Problem> {
    let found = server.load(execution).await?;
    let (created, end) = (&found.state.created, found.state.end.as_ref());
    Ok(wire::Started {
        id: created.key.to_string(),
        workflow: created.workflow.to_string(),
        version: created.version,
        status: ExecutionStatus(found.status()),
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
        .hint("keep large data in another store and pass a reference to it"))
}

/// Which of the two names was taken?
async fn exists(
    server: &Arc<Server>,
    existing: ExecutionNo,
    key: Option<Arc<str>>,
) -> Result<Problem, Problem> {
    let by_key = match key {
        None => None,
        Some(key) => {
            server.blocking(move |server| Ok(server.reader.backend().submitted(&key)?)).await?
        }
    };
    if by_key.is_some_and(|known| known.execution == existing) {
        let detail = "this Idempotency-Key was used for another submission";
        return Ok(Problem::new(Code::IdempotencyMismatch, detail)
            .hint("use a new key for each submission, and the same one only to repeat it"));
    }
    Ok(Problem::new(Code::IdTaken, "an execution of this id exists already")
        .hint("choose another id, or send an Idempotency-Key to start at most one"))
}
