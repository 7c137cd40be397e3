//! Control executions: pause, resume, cancel, retry, signals, waits; and maps: cancel items, tune.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use waypost_core::command::{Refusal, Request};
use waypost_core::event::{MessageId, Origin};
use waypost_core::id::{ExecutionNo, WaitId};
use waypost_engine::{ControlRequest, EngineError, Receipt, Requested};

use super::payloads::{Claimant, adopt};
use crate::control::{self, Channel, ControlOutcome, Sent};
use crate::http::call::{Call, Reply};
use crate::problem::{Code, Problem, undecided};
use crate::reader::{Found, Reader};
use crate::server::Server;
use crate::wire;
use crate::wire::{ControlBody, NodeBody};

/// How long a request that went through the inbox is awaited.
const PATIENCE: Duration = Duration::from_secs(5);

/// A request to the execution in the path.
pub(crate) async fn control<B: ControlBody>(
    server: Arc<Server>,
    call: Call,
) -> Result<Reply, Problem> {
    let (mut request, message) = call.json::<B>()?.into_request();
    if let Some(payload) = request.payload_mut() {
        *payload = adopt(&server, payload.clone(), Claimant::Caller).await?;
    }
    let id = call.values.text("id");
    let execution = server.find(id).await?;
    send(&server, &call, (id, execution), request, message).await
}

pub(crate) async fn retry(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let asked: wire::Retry = call.json()?;
    if !asked.dry_run {
        return control::<wire::Retry>(server, call).await;
    }
    let execution = server.find(call.values.text("id")).await?;
    let budget = asked.budget.map(Into::into);
    reply(StatusCode::OK, &control::dry_retry(&server, execution, budget).await?)
}

pub(crate) async fn complete_wait(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let mut asked: wire::CompleteWait = call.json()?;
    asked.body.0 = adopt(&server, asked.body.0, Claimant::Caller).await?;
    let (wait, execution) = find_wait(&server, call.values.text("id")).await?;
    let (request, message) = asked.into_request(wait.seq);
    send(&server, &call, (wait.execution.as_str(), execution), request, message).await
}

/// The wait of an id, and its execution.
pub(super) async fn find_wait(
    server: &Arc<Server>,
    id: &str,
) -> Result<(WaitId, ExecutionNo), Problem> {
    let unknown = || Problem::new(Code::UnknownWait, format!("no wait has the id {id:?}"));
    let wait: WaitId = id.parse().map_err(|_| unknown())?;
    let execution = server.find(wait.execution.as_str()).await.map_err(|problem| {
        if problem.code == Code::UnknownExecution { unknown() } else { problem }
    })?;
    Ok((wait, execution))
}

/// A request to the node in the path.
pub(crate) async fn to_node<B: NodeBody>(
    server: Arc<Server>,
    call: Call,
) -> Result<Reply, Problem> {
    let (request, message) = call.json::<B>()?.to_node(call.values.text("node").into());
    let id = call.values.text("id");
    let execution = server.find(id).await?;
    send(&server, &call, (id, execution), request, message).await
}

pub(super) async fn send(
    server: &Arc<Server>,
    call: &Call,
    addressee: (&str, ExecutionNo),
    request: Request,
    message: Option<MessageId>,
) -> Result<Reply, Problem> {
    let is_signal = matches!(request, Request::Signal { .. });
    let origin = Origin { message, actor: call.actor() };
    let ControlOutcome { result, receipt } =
        control::control(server, addressee, request, origin).await?;
    match receipt {
        Receipt::Taken | Receipt::Ended(_) => reply(StatusCode::OK, &result),
        // 202 for a signal means that it will be in the log. Here an owner may still end the
        // execution without it, so the response asks the sender to repeat.
        Receipt::Open if is_signal => Err(undecided(result.message_id.as_deref().unwrap_or(""))),
        Receipt::Kept | Receipt::Open | Receipt::Refused => reply(StatusCode::ACCEPTED, &result),
    }
}

fn reply(code: StatusCode, result: &wire::ControlResult) -> Result<Reply, Problem> {
    Ok(Reply::json(code, result)?.about(result.id.as_str()))
}

impl Channel for Arc<Server> {
    async fn load(&self, execution: ExecutionNo) -> Result<Found, Problem> {
        Server::load(self, execution).await
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Reader) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.blocking(move |server| work(&server.reader)).await
    }

    async fn send(&self, request: ControlRequest) -> Result<Sent, Problem> {
        let chosen = request.origin.message.clone();
        match self.written(self.engine.request(request)).await? {
            Ok(Requested::Done { status, pausing }) => Ok(Sent::Done { status, pausing }),
            Ok(Requested::Accepted { message }) => Ok(Sent::Mailed { message, duplicate: false }),
            Err(EngineError::Refused(refusal)) => Ok(match (refusal, chosen) {
                // The first one may still be in the inbox, and the execution may end without it.
                (Refusal::Duplicate, Some(message)) => Sent::Mailed { message, duplicate: true },
                (refusal, _) => Sent::Refused(refusal),
            }),
            Err(error) => Err(error.into()),
        }
    }

    async fn until(
        &self,
        execution: ExecutionNo,
        wanted: impl Fn(&Found) -> bool + Send + Sync,
    ) -> Result<Found, Problem> {
        let watch = self.watchers.watch(execution);
        let found = watch.until(async || {
            let found = Server::load(self, execution).await?;
            Ok::<_, Problem>(wanted(&found).then_some(found))
        });
        match tokio::time::timeout(PATIENCE, found).await {
            Ok(found) => found,
            Err(_) => Server::load(self, execution).await,
        }
    }
}
