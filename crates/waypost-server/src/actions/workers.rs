//! Remote workers: taking tasks, and reporting on them.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as STANDARD;
use hyper::StatusCode;
use uuid::Uuid;
use waypost_core::command::{Mark, Outcome};
use waypost_core::failure::Failure;
use waypost_core::id::{ExecutionId, Token, WorkerId};
use waypost_core::time::Millis;
use waypost_engine::sealed_secrets::is_secrets_queue;
use waypost_engine::{RemoteTask, Reported, TaskReport, WorkerPoll};
use waypost_ports::tasks::{Depth, WorkerRow};

use super::payloads::{Claimant, adopt, refuse_large};
use crate::http::call::{Call, Reply};
use crate::problem::{Code, Problem};
use crate::server::Server;
use crate::wire;
use crate::wire::payload::{Payload, Time};
use crate::wire::worker::{HANDLERS_MAX, TASKS_MAX, TaskStatus};

pub(crate) async fn list(server: Arc<Server>, _: Call) -> Result<Reply, Problem> {
    let workers = server.in_time(server.engine.workers()).await??;
    let depths = server.in_time(server.engine.depths()).await??;
    let list = wire::WorkerList {
        workers: workers.iter().map(worker).collect(),
        waiting: depths.iter().map(waiting).collect(),
    };
    Reply::json(StatusCode::OK, &list)
}

pub(crate) async fn poll(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    if server.is_draining() {
        return Err(crate::problem::draining());
    }
    let asked: wire::Poll = call.json()?;
    let max = usize::try_from(asked.max.0).unwrap_or(0);
    let poll = WorkerPoll { max, ..sign(&call, asked)? };
    let wait = call.values.duration("wait").unwrap_or_default();
    polled(&server, poll, wait).await
}

pub(crate) async fn beat(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let poll = sign(&call, call.json()?)?;
    polled(&server, poll, Duration::ZERO).await
}

pub(crate) async fn leave(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let poll = WorkerPoll { leaving: true, ..sign(&call, call.json()?)? };
    server.in_time(server.engine.poll(poll, Duration::ZERO)).await??;
    Ok(Reply::empty())
}

pub(crate) async fn start(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    reported(&server, &call, call.json()?, Outcome::Started).await
}

pub(crate) async fn checkpoint(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let wire::TaskCheckpoint { worker, execution, node, attempt, data, number } = call.json()?;
    refuse_large(&data.0)?;
    let of = wire::TaskStart { worker, execution, node, attempt };
    let mark = Mark { data: data.0, number: number.map_or(0, |number| number.0) };
    reported(&server, &call, of, Outcome::Checkpoint(mark)).await
}

pub(crate) async fn report(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let wire::TaskReport { worker, execution, node, attempt, status, output, failure } =
        call.json()?;
    let output = adopt(&server, output.0, Claimant::Worker(token(&call)?)).await?;
    let outcome = match (status, failure) {
        (TaskStatus::Completed, None) => Outcome::Completed(output),
        (TaskStatus::Failed, Some(failure)) => Outcome::Failed(failed(failure)?),
        (TaskStatus::Cancelled, None) => Outcome::Cancelled,
        (TaskStatus::Abandoned, Some(failure)) => Outcome::Lost(failed(failure)?),
        (TaskStatus::Failed | TaskStatus::Abandoned, None) => {
            return Err(Problem::new(Code::BadBody, "`failure` says what went wrong"));
        }
        (TaskStatus::Completed | TaskStatus::Cancelled, Some(_)) => {
            let detail = "`failure` goes with the status `failed` or `abandoned`";
            return Err(Problem::new(Code::BadBody, detail));
        }
    };
    let of = wire::TaskStart { worker, execution, node, attempt };
    reported(&server, &call, of, outcome).await
}

fn token(call: &Call) -> Result<Token, Problem> {
    let token = u128::from_str_radix(call.values.text("token"), 16).map(Token);
    token.map_err(|_| Problem::new(Code::BadParameter, "this is not a token"))
}

async fn reported(
    server: &Arc<Server>,
    call: &Call,
    of: wire::TaskStart,
    outcome: Outcome,
) -> Result<Reply, Problem> {
    let token = token(call)?;
    let key = of.execution.0;
    let report = TaskReport {
        execution: server.find(&key).await?,
        key: Some(ExecutionId(key.as_str().into())),
        node: of.node.0.into(),
        attempt: of.attempt.0,
        token,
        worker: WorkerId(of.worker.0),
        outcome,
    };
    let (status, committed) = match server.written(server.engine.report(report)).await?? {
        Reported::Committed => (StatusCode::OK, true),
        Reported::Accepted => (StatusCode::ACCEPTED, false),
    };
    Ok(Reply::json(status, &wire::Reported { committed })?.about(key))
}

async fn polled(server: &Arc<Server>, poll: WorkerPoll, wait: Duration) -> Result<Reply, Problem> {
    let wait = wait.min(server.config.wait_max);
    let polled = tokio::select! { // what was taken and not handed over is offered again
        biased; // and what is there already is handed over
        polled = server.engine.poll(poll, wait) => Some(polled?),
        () = server.closing.cancelled() => None,
    };
    let polled = polled.unwrap_or_default();
    let polled = wire::Polled {
        tasks: polled.tasks.into_iter().map(task).collect(),
        cancel: polled.cancel.iter().map(ToString::to_string).collect(),
        withheld: (!polled.withheld.is_empty()).then_some(polled.withheld),
    };
    Reply::json(StatusCode::OK, &polled)
}

fn sign(call: &Call, asked: wire::Poll) -> Result<WorkerPoll, Problem> {
    if !(1..=HANDLERS_MAX).contains(&asked.handlers.len()) {
        return Err(Problem::new(Code::BadBody, "a worker serves 1 to 256 handlers"));
    }
    let tasks = asked.tasks.as_ref().map_or(0, Vec::len);
    if !u32::try_from(tasks).is_ok_and(|tasks| tasks <= TASKS_MAX) {
        let message = format!("a worker has at most {TASKS_MAX} tasks");
        return Err(Problem::new(Code::BadBody, message));
    }
    let worker = Uuid::parse_str(call.values.text("worker"));
    let worker = worker.map_err(|_| Problem::new(Code::BadParameter, "a worker's id is a UUID"))?;
    Ok(WorkerPoll {
        worker: WorkerId(worker),
        name: asked.name.0.into(),
        handlers: asked.handlers.into_iter().map(|handler| handler.0.into()).collect(),
        capacity: asked.capacity.0,
        running: asked.running.0,
        max: 0,
        leaving: false,
        tasks: asked.tasks.map(|tasks| tasks.iter().map(|token| token.0).collect()),
        public_key: asked.public_key.map(|key| key.0),
        key: Some(Arc::clone(&call.identity.name)),
    })
}

fn failed(failure: wire::TaskFailure) -> Result<Failure, Problem> {
    if let Some(details) = &failure.details {
        refuse_large(&details.0)?;
    }
    Ok(Failure {
        status: failure.http_status.and_then(|status| u16::try_from(status.0).ok()),
        retryable: failure.retryable,
        unsent: failure.unsent,
        retry_after: failure.retry_after_ms.map(|ms| Millis(ms.0.into())),
        details: failure.details.map(|details| details.0),
        ..Failure::permanent(failure.kind.0, failure.message.0)
    })
}

fn task(task: RemoteTask) -> wire::Task {
    wire::Task {
        token: task.token.to_string(),
        execution: task.execution.to_string(),
        workflow: task.workflow.to_string(),
        node: task.node.to_string(),
        attempt: task.attempt,
        handler: task.handler.to_string(),
        input: Payload(task.input),
        timeout_ms: task.timeout.map(|timeout| timeout.0),
        heartbeat_ms: task.heartbeat.map(|heartbeat| heartbeat.0),
        idempotency_key: task.idempotency_key,
        at_most_once: task.at_most_once,
        checkpoint: task.checkpoint.map(Payload),
        secrets: task.secrets.map(|sealed| wire::SealedSecrets {
            enc: STANDARD.encode(sealed.enc),
            ciphertext: STANDARD.encode(sealed.ciphertext),
        }),
    }
}

fn worker(row: &WorkerRow) -> wire::Worker {
    let handlers = row.sign.handlers.iter().filter(|queue| !is_secrets_queue(queue));
    wire::Worker {
        id: row.sign.worker.to_string(),
        name: row.sign.name.to_string(),
        alive: row.alive,
        seen_at: Time(row.seen_at),
        handlers: handlers.map(ToString::to_string).collect(),
        takes_secrets: row.sign.handlers.iter().any(|queue| is_secrets_queue(queue)),
        capacity: row.sign.capacity,
        running: row.sign.running,
        instance: row.sign.through.to_string(),
    }
}

fn waiting(depth: &Depth) -> wire::Waiting {
    wire::Waiting {
        handler: depth.handler.to_string(),
        tasks: depth.waiting,
        oldest_ms: depth.oldest.0,
    }
}
