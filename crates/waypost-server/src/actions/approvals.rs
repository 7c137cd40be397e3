//! Approvals: decided once, by those who may.

use std::sync::Arc;

use waypost_core::command::ApprovalVerdict;
use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_core::kind::Behaviour;
use waypost_lang::InputSchema;

use super::control::{find_wait, send};
use super::payloads::{Claimant, adopt};
use crate::http::call::{Call, Reply};
use crate::problem::{Code, FaultAt, Problem};
use crate::reader::Decided;
use crate::server::Server;
use crate::wire;

/// A decision by the holder of an API key, or by a local caller.
pub(crate) async fn decide(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let mut asked: wire::Decide = call.json()?;
    let approver = approver(&call, asked.by.as_ref().map(|by| by.0.as_str()))?;
    let (wait, execution) = find_wait(&server, call.values.text("id")).await?;
    let verdict = asked.decision.into();
    check_form(&server, (execution, wait.seq), verdict, &asked.form.0).await?;
    asked.form.0 = adopt(&server, asked.form.0, Claimant::Caller).await?;
    let (request, message) = asked.into_request(wait.seq, approver);
    let sent = send(&server, &call, (wait.execution.as_str(), execution), request, message).await;
    match sent {
        Err(problem) if may_be_late(&problem) => {
            let first = decided(&server, execution, wait.seq).await?;
            Err(first.map_or(problem, |first| first.problem()))
        }
        sent => sent,
    }
}

/// How a wait was decided, if it was.
pub(super) async fn decided(
    server: &Arc<Server>,
    execution: ExecutionNo,
    wait: u64,
) -> Result<Option<Decided>, Problem> {
    server.blocking(move |server| server.reader.decided(execution, wait)).await
}

/// Whose decision it is: the name of the key, or whom a local caller names.
fn approver(call: &Call, by: Option<&str>) -> Result<Arc<str>, Problem> {
    let own = &call.identity.name;
    let is_local = &*call.identity.actor == "local";
    match by {
        None => Ok(Arc::clone(own)),
        Some(by) if is_local || *by == **own => Ok(by.into()),
        Some(by) => {
            let detail = format!("the API key {own:?} cannot decide as {by:?}");
            Err(Problem::new(Code::NotAnApprover, detail)
                .hint("leave `by` out: the name of the key counts"))
        }
    }
}

/// Was the wait perhaps open before?
pub(super) fn may_be_late(problem: &Problem) -> bool {
    matches!(problem.code, Code::UnknownWait | Code::IllegalTransition | Code::ExecutionEnded)
}

/// Does a form fit the schema of its node? A rejection may come without one.
pub(super) async fn check_form(
    server: &Arc<Server>,
    (execution, wait): (ExecutionNo, u64),
    verdict: ApprovalVerdict,
    form: &Json,
) -> Result<(), Problem> {
    if verdict == ApprovalVerdict::Rejected && form.is_null() {
        return Ok(());
    }
    let found = server.load(execution).await?;
    // A wait that is not open has no form; the request itself says what is wrong.
    let Some(at) = found.state.waiting_since(wait) else { return Ok(()) };
    let Behaviour::Approval(spec) = &found.plan.node(at.node).behaviour else { return Ok(()) };
    let Some(schema) = &spec.form else { return Ok(()) };
    // A definition that was deployed before schemas of forms were checked may have a broken one.
    let schema = InputSchema::compile(schema).map_err(|error| {
        let detail = format!(
            "the form cannot be checked, because its schema in the definition is broken: {error}"
        );
        Problem::new(Code::InvalidInput, detail)
            .hint("reject the approval, and deploy a corrected definition")
    })?;
    schema.check(form).map_err(|faults| {
        let errors = faults.into_iter().map(|fault| FaultAt {
            message: fault.message,
            pointer: Some(fault.path),
            ..FaultAt::default()
        });
        let detail = "the form does not fit the schema of the approval";
        Problem::new(Code::InvalidInput, detail)
            .hint("GET /v1/definitions/{name} shows the schema as `form` of the node")
            .errors(errors.collect())
    })
}
