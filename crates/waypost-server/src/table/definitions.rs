//! Routes of definitions.

use super::{LIMIT, MAX_U32, WORKFLOW};
use crate::actions::definitions;
use crate::http::parameter::{Form, in_path, in_query};
use crate::http::route::{Action, Body, CONTROL, Effect, GET, LOOK, POST, Route, json};
use crate::problem::Code;
use crate::wire;

const fn get(action: Action) -> Route {
    Route::new(GET, "definitions", (LOOK, Effect::Reads), action)
}

const fn post(action: Action) -> Route {
    Route::new(POST, "definitions", (CONTROL, Effect::Audited), action)
}

pub(super) static ROUTES: &[Route] = &[
    Route {
        name: "deployDefinition",
        path: "/v1/definitions",
        summary: "Deploy a definition",
        notes: "The same content again is the version it was. Either way that version is current afterwards: starts that name no version use it, on every instance, so that deploying an older content again rolls back to it. `current` and `previous` say what starts use now and used before. Faults come all at once, each with its place in the source.",
        parameters: &[
            in_query(
                "dryRun",
                Form::Flag,
                "Validate and report the resulting version, without storing anything.",
            ),
            in_query(
                "keepCurrent",
                Form::Flag,
                "Store the definition, but leave the workflow's current version as it is, if it has one. A dry run ignores this.",
            ),
            in_query(
                "paused",
                Form::Flag,
                "Leave the triggers of the definition paused, until each is resumed. Triggers that are paused stay so in any case.",
            ),
        ],
        body: Body::Definition,
        replies: &[
            json::<wire::Deployed>(201, "A new version of the workflow."),
            json::<wire::Deployed>(
                200,
                "The same content is a version already, or this was a dry run.",
            ),
        ],
        problems: &[Code::InvalidDefinition],
        ..post(|server, call| Box::pin(definitions::deploy(server, call)))
    },
    Route {
        name: "listDefinitions",
        path: "/v1/definitions",
        summary: "List workflows, each with its newest version and the number of its current one",
        parameters: &[LIMIT, in_query("cursor", Form::Workflow, "`next` of the previous page.")],
        replies: &[json::<wire::DefinitionList>(200, "A page.")],
        ..get(|server, call| Box::pin(definitions::list(server, call)))
    },
    Route {
        name: "getDefinition",
        path: "/v1/definitions/{name}",
        summary: "Get the current version of a workflow",
        parameters: &[WORKFLOW],
        replies: &[json::<wire::Definition>(200, "The definition.")],
        problems: &[Code::UnknownDefinition],
        ..get(|server, call| Box::pin(definitions::get(server, call)))
    },
    Route {
        name: "listVersions",
        path: "/v1/definitions/{name}/versions",
        summary: "List the versions of a workflow, newest first",
        parameters: &[
            WORKFLOW,
            LIMIT,
            in_query("cursor", Form::Integer(1, MAX_U32), "`next` of the previous page."),
        ],
        replies: &[json::<wire::DefinitionList>(200, "A page.")],
        problems: &[Code::UnknownDefinition],
        ..get(|server, call| Box::pin(definitions::versions(server, call)))
    },
    Route {
        name: "getVersion",
        path: "/v1/definitions/{name}/versions/{version}",
        summary: "Get one version of a workflow",
        parameters: &[WORKFLOW, in_path("version", Form::Integer(1, MAX_U32), "From 1.")],
        replies: &[json::<wire::Definition>(200, "The definition.")],
        problems: &[Code::UnknownDefinition],
        ..get(|server, call| Box::pin(definitions::get(server, call)))
    },
];
