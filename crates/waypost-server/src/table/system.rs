//! Routes about the server itself.

use super::any_object;
use crate::actions::system;
use crate::http::route::{ANY_KEY, Access, Action, Content, Effect, GET, LOOK, Route, json, reply};
use crate::problem::Code;
use crate::wire;

const fn get(action: Action) -> Route {
    Route::new(GET, "system", (LOOK, Effect::Reads), action)
}

pub(super) static ROUTES: &[Route] = &[
    Route {
        name: "getLimits",
        path: "/v1/limits",
        access: ANY_KEY,
        summary: "List every limit",
        replies: &[json::<wire::Limits>(200, "The limits.")],
        ..get(|server, call| Box::pin(system::limits(server, call)))
    },
    Route {
        name: "listInstances",
        path: "/v1/instances",
        summary: "List instances",
        replies: &[json::<wire::InstanceList>(200, "The instances.")],
        ..get(|server, call| Box::pin(system::instances(server, call)))
    },
    Route {
        name: "getLiveness",
        path: "/livez",
        access: Access::Public,
        summary: "Check liveness",
        replies: &[reply(200, "It is.", Content::Text)],
        ..get(|server, call| Box::pin(system::livez(server, call)))
    },
    Route {
        name: "getReadiness",
        path: "/readyz",
        access: Access::Public,
        summary: "Check readiness",
        notes: "503 while it stops, while the store does not answer or takes no writes, and while the engine has been busy with one step for more than 5 s.",
        replies: &[reply(200, "It does.", Content::Text)],
        problems: &[Code::Draining, Code::StoreUnavailable],
        ..get(|server, call| Box::pin(system::readyz(server, call)))
    },
    Route {
        name: "getMetrics",
        path: "/metrics",
        summary: "Metrics for Prometheus",
        replies: &[reply(200, "The metrics.", Content::Text)],
        ..get(|server, call| Box::pin(system::metrics(server, call)))
    },
    Route {
        name: "getDescription",
        path: "/openapi.json",
        access: ANY_KEY,
        summary: "Get this OpenAPI document",
        replies: &[reply(200, "OpenAPI 3.1.", Content::Json(any_object))],
        ..get(|server, call| Box::pin(system::describe(server, call)))
    },
];
