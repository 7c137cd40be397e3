//! Routes of keys and of the audit log.

use super::{LIMIT, MAX_I64};
use crate::actions::administration;
use crate::http::parameter::{Form, in_path, in_query};
use crate::http::route::{
    ADMINISTER, Action, Body, Content, DELETE, Effect, GET, POST, Route, json, of, reply,
};
use crate::problem::Code;
use crate::wire;

const fn get(action: Action) -> Route {
    Route::new(GET, "administration", (ADMINISTER, Effect::Reads), action)
}

const fn post(action: Action) -> Route {
    Route::new(POST, "administration", (ADMINISTER, Effect::Audited), action)
}

pub(super) static ROUTES: &[Route] = &[
    Route {
        name: "createKey",
        path: "/v1/keys",
        summary: "Create an API key",
        body: Body::Json { schema: of::<wire::NewApiKey>, optional: false },
        replies: &[json::<wire::MadeKey>(201, "The key; it is shown only in this response.")],
        ..post(|server, call| Box::pin(administration::create_key(server, call)))
    },
    Route {
        name: "listKeys",
        path: "/v1/keys",
        summary: "List API keys",
        replies: &[json::<wire::ApiKeyList>(200, "Every key, without its secret.")],
        ..get(|server, call| Box::pin(administration::list_keys(server, call)))
    },
    Route {
        name: "revokeKey",
        method: DELETE,
        path: "/v1/keys/{id}",
        summary: "Revoke an API key",
        parameters: &[in_path("id", Form::Id, "The key's id.")],
        replies: &[reply(204, "It is worth nothing any more.", Content::None)],
        problems: &[Code::UnknownKey],
        ..post(|server, call| Box::pin(administration::revoke_key(server, call)))
    },
    Route {
        name: "listAudit",
        path: "/v1/audit",
        summary: "List the audit log, newest first",
        parameters: &[
            in_query("actor", Form::Text(128), "Only actions of this actor."),
            LIMIT,
            in_query("cursor", Form::Integer(0, MAX_I64), "`next` of the previous page."),
        ],
        replies: &[json::<wire::AuditList>(200, "A page.")],
        ..get(|server, call| Box::pin(administration::audit(server, call)))
    },
];
