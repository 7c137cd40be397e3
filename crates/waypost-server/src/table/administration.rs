//! Routes of keys and of the audit log.

use hyper::Method;

use super::{LIMIT, MAX_I64};
use crate::actions;
use crate::http::parameter::{Form, in_path, in_query};
use crate::http::route::{ADMINISTER, Body, Content, Documented, Effect, Route, of};
use crate::problem::Code;
use crate::wire;

pub(super) static ROUTES: &[Route] = &[
    Route {
        name: "createKey",
        method: Method::POST,
        path: "/v1/keys",
        access: ADMINISTER,
        effect: Effect::Audited,
        tag: "administration",
        summary: "Create an API key",
        notes: "",
        parameters: &[],
        body: Body::Json { schema: of::<wire::NewApiKey>, optional: false },
        replies: &[Documented {
            status: 201,
            when: "The key, shown this once.",
            content: Content::Json(of::<wire::MadeKey>),
        }],
        problems: &[],
        action: |server, call| Box::pin(actions::administration::create_key(server, call)),
    },
    Route {
        name: "listKeys",
        method: Method::GET,
        path: "/v1/keys",
        access: ADMINISTER,
        effect: Effect::Reads,
        tag: "administration",
        summary: "List API keys",
        notes: "",
        parameters: &[],
        body: Body::None,
        replies: &[Documented {
            status: 200,
            when: "Every key, without its secret.",
            content: Content::Json(of::<wire::ApiKeyList>),
        }],
        problems: &[],
        action: |server, call| Box::pin(actions::administration::list_keys(server, call)),
    },
    Route {
        name: "revokeKey",
        method: Method::DELETE,
        path: "/v1/keys/{id}",
        access: ADMINISTER,
        effect: Effect::Audited,
        tag: "administration",
        summary: "Revoke an API key",
        notes: "",
        parameters: &[in_path("id", Form::Id, "The key's id.")],
        body: Body::None,
        replies: &[Documented {
            status: 204,
            when: "It is worth nothing any more.",
            content: Content::None,
        }],
        problems: &[Code::UnknownKey],
        action: |server, call| Box::pin(actions::administration::revoke_key(server, call)),
    },
    Route {
        name: "listAudit",
        method: Method::GET,
        path: "/v1/audit",
        access: ADMINISTER,
        effect: Effect::Reads,
        tag: "administration",
        summary: "List the audit log, newest first",
        notes: "",
        parameters: &[
            in_query("actor", Form::Text(128), "Of this actor."),
            LIMIT,
            in_query("cursor", Form::Integer(0, MAX_I64), "`next` of the page before."),
        ],
        body: Body::None,
        replies: &[Documented {
            status: 200,
            when: "A page.",
            content: Content::Json(of::<wire::AuditList>),
        }],
        problems: &[],
        action: |server, call| Box::pin(actions::administration::audit(server, call)),
    },
];
