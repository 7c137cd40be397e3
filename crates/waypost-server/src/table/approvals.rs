//! Routes of approval links.

use waypost_engine::links::{LINK_CHARS_MAX, LinkPurpose};

use crate::actions::approval_links;
use crate::http::parameter::{Form, Parameter, in_path};
use crate::http::route::{
    Access, Body, CONTROL, Content, Effect, GET, POST, Route, json, of, reply,
};
use crate::problem::Code;
use crate::wire;

const BY_LINK: Access = Access::Link(LinkPurpose::Approval);
const TOKEN: Parameter = in_path("token", Form::Token(LINK_CHARS_MAX), "The token of the link.");

pub(super) static ROUTES: &[Route] = &[
    Route {
        name: "createApprovalLinks",
        path: "/v1/waits/{id}/links",
        summary: "Make links by which people decide an approval without an API key",
        notes: "A key of the role `admin` gets one for each approver, or for the one that is named; a key of the role `operator` only one for its own name, if that is an approver. Who has a link can decide in the name of its approver: send each to that person alone. Nothing of a link is stored; the audit log names the key that made it, the approver, the expiry, and the digest that the log has as the sender of the decision.",
        parameters: &[in_path("id", Form::Wait, "The wait's id, from `GET /v1/waits`.")],
        body: Body::Json { schema: of::<wire::NewApprovalLinks>, optional: true },
        replies: &[json::<wire::ApprovalLinks>(201, "The links.")],
        problems: &[
            Code::UnknownWait,
            Code::ExecutionDamaged,
            Code::IllegalTransition,
            Code::NotAnApprover,
            Code::InvalidInput,
        ],
        ..Route::new(POST, "control", (CONTROL, Effect::Audited), |server, call| {
            Box::pin(approval_links::create(server, call))
        })
    },
    Route {
        name: "showLinkedApproval",
        path: "/v1/approvals/{token}",
        summary: "Show the approval that a link is for",
        notes: "A page with a form, or JSON for `Accept: application/json`. Changes nothing: programs that follow links in mail decide nothing.",
        parameters: &[TOKEN],
        replies: &[
            json::<wire::LinkedApproval>(200, "What is to be decided."),
            reply(200, "The same as a page.", Content::Html),
        ],
        problems: &[Code::AlreadyDecided, Code::NotAnApprover, Code::ExecutionDamaged],
        ..Route::new(GET, "control", (BY_LINK, Effect::Reads), |server, call| {
            Box::pin(approval_links::show(server, call))
        })
    },
    Route {
        name: "decideLinkedApproval",
        path: "/v1/approvals/{token}",
        summary: "Approve or reject by a link",
        notes: "JSON, or the form of the page. The decision is by `link for NAME`. 409 `already_decided` names the first decision; 410 says that the link or the approval is over.",
        parameters: &[TOKEN],
        body: Body::Form { schema: of::<wire::DecideByLink> },
        replies: &[
            json::<wire::ControlResult>(200, "Done."),
            json::<wire::ControlResult>(
                202,
                "Durable; the instance that drives the execution does it, unless the execution ends first.",
            ),
            reply(200, "For a form: a page.", Content::Html),
        ],
        problems: &[
            Code::AlreadyDecided,
            Code::NotAnApprover,
            Code::IllegalTransition,
            Code::ExecutionDamaged,
            Code::InvalidInput,
            Code::ClusterTooOld,
        ],
        ..Route::new(POST, "control", (BY_LINK, Effect::Unaudited), |server, call| {
            Box::pin(approval_links::decide(server, call))
        })
    },
];
