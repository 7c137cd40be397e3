//! The route for callbacks.

use waypost_engine::links::{LINK_CHARS_MAX, LinkPurpose};

use super::any_json;
use crate::actions::callbacks;
use crate::http::entry::TOKEN;
use crate::http::parameter::{Form, in_path, in_query};
use crate::http::route::{Access, Body, Effect, POST, Route, json};
use crate::problem::Code;
use crate::wire;

pub(super) static ROUTES: &[Route] = &[Route {
    name: "callBack",
    path: "/v1/callbacks/{token}",
    summary: "Call back: complete an operation that a node has started",
    notes: "The URL is what `${{ callback.url }}` gave the system that runs the operation. The body, any JSON or none, is the output of the node; with `outcome=failed` the node fails with kind `operation_failed`, and the body is in its details. The first callback counts: another one gets 409, also with the same body, so a sender that lost the response may repeat it. A callback that comes before the node waits for it is kept. 410 once the operation is over.",
    parameters: &[
        in_path(TOKEN, Form::Token(LINK_CHARS_MAX), "The token."),
        in_query(
            "outcome",
            Form::OneOf(&["completed", "failed"]),
            "How the operation ended; default `completed`.",
        ),
    ],
    body: Body::Json { schema: any_json, optional: true },
    replies: &[
        json::<wire::CallbackReceived>(200, "Received."),
        json::<wire::CallbackReceived>(
            202,
            "Durable; the instance that drives the execution takes it.",
        ),
    ],
    problems: &[
        Code::CallbackReceived,
        Code::OperationOver,
        Code::ExecutionDamaged,
        Code::ClusterTooOld,
    ],
    ..Route::new(
        POST,
        "control",
        (Access::Link(LinkPurpose::Callback), Effect::Unaudited),
        |server, call| Box::pin(callbacks::complete(server, call)),
    )
}];
