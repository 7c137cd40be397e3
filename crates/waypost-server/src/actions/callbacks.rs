//! Callbacks: an outside system completes an operation, by the token that it was given.

use std::sync::Arc;

use hyper::StatusCode;
use waypost_core::callback::{Callback, CallbackOutcome, OperationRef};
use waypost_core::command::Request;
use waypost_core::event::Origin;
use waypost_core::json::Json;
use waypost_engine::Receipt;
use waypost_engine::links::Link;

use crate::control::{self, ControlOutcome};
use crate::http::call::{Call, Reply};
use crate::problem::{Code, Problem};
use crate::reader::without_blobs;
use crate::server::Server;
use crate::wire;

/// The callback of the link's bearer.
pub(crate) async fn complete(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let Some(link) = call.link.clone() else {
        return Err(Problem::internal(&"a route for links was called without one"));
    };
    let body = body(&call)?;
    let outcome = match call.values.get("outcome") {
        Some("failed") => CallbackOutcome::Failed,
        _ => CallbackOutcome::Completed,
    };
    let id = link.execution.to_string();
    let execution = server.find(&id).await.map_err(over)?;
    let Link { node, subject: operation, .. } = link;
    let of = OperationRef { node: Arc::clone(&node), operation };
    let callback = Callback { of, outcome, body };
    let origin = Origin { message: Some(callback.message()), actor: call.actor() };
    let request = Request::Callback(Box::new(callback));
    let done = control::control(&server, (&id, execution), request, origin).await;
    let ControlOutcome { result, receipt } = done.map_err(over)?;
    if result.duplicate {
        let detail = "the callback of this operation was received before";
        return Err(Problem::new(Code::CallbackReceived, detail)
            .hint("the first one counts; there is nothing more to do"));
    }
    let status = match receipt {
        Receipt::Taken | Receipt::Ended(_) => StatusCode::OK,
        Receipt::Kept | Receipt::Open | Receipt::Refused => StatusCode::ACCEPTED,
    };
    let received = wire::CallbackReceived { execution: id, node: node.to_string() };
    Ok(Reply::json(status, &received)?.about(received.execution.as_str()))
}

/// Any JSON; null where there is none. Its sender has no right to blobs.
fn body(call: &Call) -> Result<Json, Problem> {
    without_blobs(&call.payload()?, "a callback")
}

/// The bearer of a link learns what became of the operation, and nothing else about the execution.
fn over(problem: Problem) -> Problem {
    let detail = match problem.code {
        Code::UnknownExecution => "the execution is no longer there",
        Code::ExecutionEnded => "the execution has ended",
        Code::IllegalTransition => {
            "the operation is over: it timed out, was ended or started again"
        }
        _ => return problem,
    };
    Problem::new(Code::OperationOver, detail).hint("there is nothing more to do")
}
