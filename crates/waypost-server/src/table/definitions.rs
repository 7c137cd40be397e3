//! Routes of definitions.

use hyper::Method;

use super::{LIMIT, MAX_U32, WORKFLOW};
use crate::actions;
use crate::http::parameter::{Form, in_path, in_query};
use crate::http::route::{Body, CONTROL, Content, Documented, Effect, LOOK, Route, of};
use crate::problem::Code;
use crate::wire;

pub(super) static ROUTES: &[Route] = &[
    Route {
        name: "deployDefinition",
        method: Method::POST,
        path: "/v1/definitions",
        access: CONTROL,
        effect: Effect::Audited,
        tag: "definitions",
        summary: "Deploy a definition",
        notes: "The same content again is the version it was. Either way that version is current afterwards: starts that name no version use it, on every instance, so that deploying an older content again rolls back to it. `current` and `previous` say what starts use now and used before. Faults come all at once, each with its place in the source.",
        parameters: &[
            in_query("dryRun", Form::Flag, "Only say what would become of it."),
            in_query(
                "keepCurrent",
                Form::Flag,
                "Keep the definition, and leave the workflow's current version as it is, if there is one. A dry run ignores this.",
            ),
        ],
        body: Body::Definition,
        replies: &[
            Documented {
                status: 201,
                when: "A new version of the workflow.",
                content: Content::Json(of::<wire::Deployed>),
            },
            Documented {
                status: 200,
                when: "The same content is a version already, or this was a dry run.",
                content: Content::Json(of::<wire::Deployed>),
            },
        ],
        problems: &[Code::InvalidDefinition],
        action: |server, call| Box::pin(actions::definitions::deploy(server, call)),
    },
    Route {
        name: "listDefinitions",
        method: Method::GET,
        path: "/v1/definitions",
        access: LOOK,
        effect: Effect::Reads,
        tag: "definitions",
        summary: "List workflows, each with its newest version and the number of its current one",
        notes: "",
        parameters: &[LIMIT, in_query("cursor", Form::Workflow, "`next` of the page before.")],
        body: Body::None,
        replies: &[Documented {
            status: 200,
            when: "A page.",
            content: Content::Json(of::<wire::DefinitionList>),
        }],
        problems: &[],
        action: |server, call| Box::pin(actions::definitions::list(server, call)),
    },
    Route {
        name: "getDefinition",
        method: Method::GET,
        path: "/v1/definitions/{name}",
        access: LOOK,
        effect: Effect::Reads,
        tag: "definitions",
        summary: "Get the current version of a workflow",
        notes: "",
        parameters: &[WORKFLOW],
        body: Body::None,
        replies: &[Documented {
            status: 200,
            when: "The definition.",
            content: Content::Json(of::<wire::Definition>),
        }],
        problems: &[Code::UnknownDefinition],
        action: |server, call| Box::pin(actions::definitions::get(server, call)),
    },
    Route {
        name: "listVersions",
        method: Method::GET,
        path: "/v1/definitions/{name}/versions",
        access: LOOK,
        effect: Effect::Reads,
        tag: "definitions",
        summary: "List the versions of a workflow, newest first",
        notes: "",
        parameters: &[
            WORKFLOW,
            LIMIT,
            in_query("cursor", Form::Integer(1, MAX_U32), "`next` of the page before."),
        ],
        body: Body::None,
        replies: &[Documented {
            status: 200,
            when: "A page.",
            content: Content::Json(of::<wire::DefinitionList>),
        }],
        problems: &[Code::UnknownDefinition],
        action: |server, call| Box::pin(actions::definitions::versions(server, call)),
    },
    Route {
        name: "getVersion",
        method: Method::GET,
        path: "/v1/definitions/{name}/versions/{version}",
        access: LOOK,
        effect: Effect::Reads,
        tag: "definitions",
        summary: "Get one version of a workflow",
        notes: "",
        parameters: &[WORKFLOW, in_path("version", Form::Integer(1, MAX_U32), "From 1.")],
        body: Body::None,
        replies: &[Documented {
            status: 200,
            when: "The definition.",
            content: Content::Json(of::<wire::Definition>),
        }],
        problems: &[Code::UnknownDefinition],
        action: |server, call| Box::pin(actions::definitions::get(server, call)),
    },
];
