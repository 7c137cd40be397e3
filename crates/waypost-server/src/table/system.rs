//! Routes about the server itself.

use hyper::Method;

use super::any_object;
use crate::actions;
use crate::http::route::{ANY_KEY, Access, Body, Content, Documented, LOOK, Route, of};
use crate::problem::Code;
use crate::wire;

pub(super) static ROUTES: &[Route] = &[
    Route {
        name: "getLimits",
        method: Method::GET,
        path: "/v1/limits",
        access: ANY_KEY,
        tag: "system",
        summary: "List every limit",
        notes: "",
        parameters: &[],
        body: Body::None,
        replies: &[Documented {
            status: 200,
            when: "The limits.",
            content: Content::Json(of::<wire::Limits>),
        }],
        problems: &[],
        action: |server, call| Box::pin(actions::system::limits(server, call)),
    },
    Route {
        name: "listInstances",
        method: Method::GET,
        path: "/v1/instances",
        access: LOOK,
        tag: "system",
        summary: "List instances",
        notes: "",
        parameters: &[],
        body: Body::None,
        replies: &[Documented {
            status: 200,
            when: "The instances.",
            content: Content::Json(of::<wire::InstanceList>),
        }],
        problems: &[],
        action: |server, call| Box::pin(actions::system::instances(server, call)),
    },
    Route {
        name: "getLiveness",
        method: Method::GET,
        path: "/livez",
        access: Access::Public,
        tag: "system",
        summary: "Check liveness",
        notes: "",
        parameters: &[],
        body: Body::None,
        replies: &[Documented { status: 200, when: "It is.", content: Content::Text }],
        problems: &[],
        action: |server, call| Box::pin(actions::system::livez(server, call)),
    },
    Route {
        name: "getReadiness",
        method: Method::GET,
        path: "/readyz",
        access: Access::Public,
        tag: "system",
        summary: "Check readiness",
        notes: "503 while it stops, while the store does not answer or takes no writes, and while the engine has been busy with one step for more than 5 s.",
        parameters: &[],
        body: Body::None,
        replies: &[Documented { status: 200, when: "It does.", content: Content::Text }],
        problems: &[Code::Draining, Code::StoreUnavailable],
        action: |server, call| Box::pin(actions::system::readyz(server, call)),
    },
    Route {
        name: "getMetrics",
        method: Method::GET,
        path: "/metrics",
        access: LOOK,
        tag: "system",
        summary: "Metrics for Prometheus",
        notes: "",
        parameters: &[],
        body: Body::None,
        replies: &[Documented { status: 200, when: "The metrics.", content: Content::Text }],
        problems: &[],
        action: |server, call| Box::pin(actions::system::metrics(server, call)),
    },
    Route {
        name: "getDescription",
        method: Method::GET,
        path: "/openapi.json",
        access: ANY_KEY,
        tag: "system",
        summary: "Get this OpenAPI document",
        notes: "",
        parameters: &[],
        body: Body::None,
        replies: &[Documented {
            status: 200,
            when: "OpenAPI 3.1.",
            content: Content::Json(any_object),
        }],
        problems: &[],
        action: |server, call| Box::pin(actions::system::describe(server, call)),
    },
];
