//! Starting executions.

use std::sync::Arc;

use hyper::{StatusCode, header};
use waypost_core::command::FirstSignal;
use waypost_core::event::Origin;
use waypost_core::id::{ExecutionId, ExecutionNo};
use waypost_engine::driver::EndSummary;
use waypost_engine::{EngineError, StartRequest};
use waypost_ports::store::Idempotency;

use super::payloads::{Claimant, adopt};
use crate::http::call::{Call, Reply};
use crate::problem::Problem;
use crate::reader;
use crate::server::Server;
use crate::wire;
use crate::wire::payload::{ExecutionStatus, Payload};
use crate::workflows::Startable;

/// Marks the response to a repeat of an earlier submission under the same key.
const REPLAYED: &str = "idempotent-replayed";

pub(crate) async fn start(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let mut submission: wire::Start = call.json()?;
    let key = call.values.get("idempotency-key");
    let idempotency = key.map(|key| submission.idempotency(key));
    submission.input.0 = adopt(&server, submission.input.0, Claimant::Caller).await?;
    if let Some(signal) = &mut submission.signal {
        signal.body.0 = adopt(&server, signal.body.0.clone(), Claimant::Caller).await?;
    }
    let workflow = match find(&server, &submission).await {
        Ok(workflow) => workflow,
        // A submission that was valid once stays so, whatever was deployed since.
        Err(problem) => match started_before(&server, idempotency.as_ref()).await? {
            Some(execution) => return replay(&server, execution).await,
            None => return Err(problem),
        },
    };
    let signal = submission.signal.take();
    let request = StartRequest {
        idempotency,
        actor: call.actor(),
        signal: signal.as_ref().map(|signal| first_signal(signal, &call)),
        ..submission.into_request(Arc::clone(&workflow.plan), workflow.version)
    };
    let mut started = match (server.written(server.engine.start(request)).await?, signal) {
        (Err(EngineError::IdTaken(existing)), Some(signal)) => {
            return signal_to(&server, &call, (existing, &workflow), signal).await;
        }
        (started, _) => started?,
    };
    let (execution, new) = (started.execution, started.new.take());
    let wait = call.values.duration("wait");
    let end = match wait {
        Some(wait) => server.wait_for(wait, started.ended()).await.flatten(),
        // The first frame was also the last one.
        None if new.as_ref().is_some_and(|new| new.status.is_end()) => started.ended().await,
        None => None,
    };
    let Some(new) = new else { return replay(&server, execution).await };
    let started = match (end, wait) {
        (Some(end), _) => ended(&new.key, &workflow, end),
        (None, None) => fresh(&new.key, &workflow, ExecutionStatus(new.status)),
        (None, Some(_)) => look(&server, execution).await?,
    };
    answer(StatusCode::CREATED, &started)
}

fn first_signal(signal: &wire::Signal, call: &Call) -> FirstSignal {
    FirstSignal {
        name: signal.name.0.as_str().into(),
        body: signal.body.0.clone(),
        origin: Origin {
            message: signal.message_id.as_ref().map(|id| id.0.as_str().into()),
            actor: call.actor(),
        },
    }
}

/// Gives the signal of a submission to the execution that has its id.
async fn signal_to(
    server: &Arc<Server>,
    call: &Call,
    (existing, workflow): (ExecutionNo, &Startable),
    signal: wire::Signal,
) -> Result<Reply, Problem> {
    let found = look(server, existing).await?;
    if found.workflow != *workflow.plan.workflow {
        return Err(EngineError::IdTaken(existing).into());
    }
    let (request, message) = wire::ControlBody::into_request(signal);
    super::control::send(server, call, (&found.id, existing), request, message).await?;
    answer(StatusCode::OK, &look(server, existing).await?)
}

/// The response to a repeated submission: the current state in the log.
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
    let _place = match input.references().next() {
        Some(_) => server.workflows.reading_checks.acquire().await.ok(),
        None => None,
    };
    let find = move |server: &Server| {
        let workflow = server.workflows.find(&name, version)?;
        server.workflows.check_input(&workflow.plan, &input, &*server.blobs)?;
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
