//! Routes of circuit breakers.

use super::LIMIT;
use crate::actions::breakers;
use crate::http::parameter::{Form, in_query};
use crate::http::route::{Body, CONTROL, Content, Effect, GET, LOOK, POST, Route, json, of, reply};
use crate::problem::Code;
use crate::wire;

pub(super) static ROUTES: &[Route] = &[
    Route {
        name: "listBreakers",
        path: "/v1/breakers",
        summary: "List circuit breakers",
        notes: "A breaker that is closed and had no failure within its period is not listed.",
        parameters: &[LIMIT, in_query("cursor", Form::Text(256), "`next` of the previous page.")],
        replies: &[json::<wire::BreakerList>(200, "A page, by key.")],
        ..Route::new(GET, "breakers", (LOOK, Effect::Reads), |server, call| {
            Box::pin(breakers::list(server, call))
        })
    },
    Route {
        name: "resetBreaker",
        path: "/v1/breakers/reset",
        summary: "Close a circuit breaker and forget its failures",
        notes: "Attempts that wait for it find out when they ask again, and other instances within a second. The key is in the body, since it may contain slashes.",
        body: Body::Json { schema: of::<wire::BreakerReset>, optional: false },
        replies: &[reply(204, "It is closed.", Content::None)],
        problems: &[Code::UnknownBreaker],
        ..Route::new(POST, "breakers", (CONTROL, Effect::Audited), |server, call| {
            Box::pin(breakers::reset(server, call))
        })
    },
];
