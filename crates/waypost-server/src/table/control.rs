//! Routes that control executions.

use super::EXECUTION;
use crate::actions::{approvals, control};
use crate::http::parameter::{Form, in_path};
use crate::http::route::{Action, Body, CONTROL, Documented, Effect, POST, Route, json, of};
use crate::problem::Code;
use crate::wire;

const DONE: Documented = json::<wire::ControlResult>(200, "Done.");
const ACCEPTED: Documented = json::<wire::ControlResult>(
    202,
    "Durable; the instance that drives the execution does it, unless the execution ends first.",
);
const REPLIES: &[Documented] = &[DONE, ACCEPTED];
const PROBLEMS: &[Code] = &[
    Code::UnknownExecution,
    Code::ExecutionDamaged,
    Code::ExecutionEnded,
    Code::IllegalTransition,
];

const SIGNAL: &[Code] = &[
    Code::UnknownExecution,
    Code::ExecutionDamaged,
    Code::ExecutionEnded,
    Code::IllegalTransition,
    Code::SignalsFull,
];

const STEERING: &[Code] = &[
    Code::UnknownExecution,
    Code::UnknownNode,
    Code::ExecutionDamaged,
    Code::ExecutionEnded,
    Code::IllegalTransition,
    Code::ClusterTooOld,
];

const fn post(action: Action) -> Route {
    Route::new(POST, "control", (CONTROL, Effect::Audited), action)
}

pub(super) static ROUTES: &[Route] = &[
    Route {
        name: "pauseExecution",
        path: "/v1/executions/{id}/pause",
        summary: "Pause an execution",
        parameters: &[EXECUTION],
        body: Body::Json { schema: of::<wire::Pause>, optional: true },
        replies: REPLIES,
        problems: PROBLEMS,
        ..post(|server, call| Box::pin(control::control::<wire::Pause>(server, call)))
    },
    Route {
        name: "resumeExecution",
        path: "/v1/executions/{id}/resume",
        summary: "Resume a paused or quarantined execution",
        parameters: &[EXECUTION],
        body: Body::Json { schema: of::<wire::Resume>, optional: true },
        replies: REPLIES,
        problems: PROBLEMS,
        ..post(|server, call| Box::pin(control::control::<wire::Resume>(server, call)))
    },
    Route {
        name: "cancelExecution",
        path: "/v1/executions/{id}/cancel",
        summary: "Cancel an execution",
        notes: "Where the reply says 200, the execution ends as CANCELLED, whatever it was about to do; where it had ended, 409 says how.",
        parameters: &[EXECUTION],
        body: Body::Json { schema: of::<wire::Cancel>, optional: true },
        replies: REPLIES,
        problems: PROBLEMS,
        ..post(|server, call| Box::pin(control::control::<wire::Cancel>(server, call)))
    },
    Route {
        name: "cancelItem",
        path: "/v1/executions/{id}/nodes/{node}/cancel",
        summary: "Cancel one item of a map",
        notes: "The item counts as failed, with kind `cancelled`: what runs in it is cancelled and awaited, and the other items go on. Only an item that is open can be cancelled: 404 `unknown_node` says how many items there are, 409 that the item has not begun or has ended.",
        parameters: &[
            EXECUTION,
            in_path("node", Form::NodePath, "The item's path: `each[17]`, `outer[2]/each[17]`."),
        ],
        body: Body::Json { schema: of::<wire::Cancel>, optional: true },
        replies: REPLIES,
        problems: STEERING,
        ..post(|server, call| Box::pin(control::to_node::<wire::Cancel>(server, call)))
    },
    Route {
        name: "tuneMap",
        path: "/v1/executions/{id}/nodes/{node}/tune",
        summary: "Hold or release a map, or change its concurrency",
        notes: "It lasts as long as the map runs. In a paused execution it is done at once, too, and takes effect when the execution is resumed.",
        parameters: &[EXECUTION, in_path("node", Form::NodePath, "The map's path: `each`.")],
        body: Body::Json { schema: of::<wire::Tune>, optional: false },
        replies: REPLIES,
        problems: STEERING,
        ..post(|server, call| Box::pin(control::to_node::<wire::Tune>(server, call)))
    },
    Route {
        name: "setBudget",
        path: "/v1/executions/{id}/budget",
        summary: "Change the limits of an execution's budget",
        notes: "The limits are those of the whole execution: what it has spent counts. Attempts that wait for the budget start, if there is room now. An execution that was paused because its budget was exhausted stays paused: resume it then. 409 if its definition has no `budget`.",
        parameters: &[EXECUTION],
        body: Body::Json { schema: of::<wire::SetBudget>, optional: false },
        replies: REPLIES,
        problems: PROBLEMS,
        ..post(|server, call| Box::pin(control::control::<wire::SetBudget>(server, call)))
    },
    Route {
        name: "retryExecution",
        path: "/v1/executions/{id}/retry",
        summary: "Retry an execution that failed, timed out or was cancelled",
        notes: "Runs the nodes again that failed or were cancelled, and those after them. Completed nodes keep their outputs. With `dryRun`, `nodes` lists what would run again, and nothing changes.",
        parameters: &[EXECUTION],
        body: Body::Json { schema: of::<wire::Retry>, optional: true },
        replies: &[Documented { when: "Done, or what would be done.", ..DONE }],
        problems: &[
            Code::UnknownExecution,
            Code::ExecutionDamaged,
            Code::ExecutionEnded,
            Code::IllegalTransition,
            Code::ConcurrencyLimit,
        ],
        ..post(|server, call| Box::pin(control::retry(server, call)))
    },
    Route {
        name: "signalExecution",
        path: "/v1/executions/{id}/signals",
        summary: "Send a signal to an execution",
        notes: "A signal that nothing waits for yet is kept, and goes to the first wait that it fits. 429 `signals_full`: as many are kept as may be; send it again later. 503 with a `messageId`: it is in the inbox, and the execution may end without it; send it again under that id to learn what became of it.",
        parameters: &[EXECUTION],
        body: Body::Json { schema: of::<wire::Signal>, optional: false },
        replies: &[
            DONE,
            Documented {
                when: "Durable, for an execution that is held: it is in the log when the execution goes on or ends.",
                ..ACCEPTED
            },
        ],
        problems: SIGNAL,
        ..post(|server, call| Box::pin(control::control::<wire::Signal>(server, call)))
    },
    Route {
        name: "decideApproval",
        path: "/v1/waits/{id}/decide",
        summary: "Approve or reject",
        notes: "The first decision stands: a later one gets 409 `already_decided`, which names who decided what. With an API key, its name must be one of the approvers, if the approval has some; a `form` is checked against the schema of the node.",
        parameters: &[in_path("id", Form::Wait, "The wait's id, from `GET /v1/waits`.")],
        body: Body::Json { schema: of::<wire::Decide>, optional: false },
        replies: REPLIES,
        problems: &[
            Code::UnknownWait,
            Code::ExecutionDamaged,
            Code::ExecutionEnded,
            Code::IllegalTransition,
            Code::AlreadyDecided,
            Code::NotAnApprover,
            Code::InvalidInput,
            Code::ClusterTooOld,
        ],
        ..post(|server, call| Box::pin(approvals::decide(server, call)))
    },
    Route {
        name: "completeWait",
        path: "/v1/waits/{id}/complete",
        summary: "Complete a wait now",
        notes: "A delay passes, a retry is made, a wait for a signal is given `body`.",
        parameters: &[in_path(
            "id",
            Form::Wait,
            "The wait's id, from the execution's nodes or from `why`.",
        )],
        body: Body::Json { schema: of::<wire::CompleteWait>, optional: true },
        replies: REPLIES,
        problems: &[
            Code::UnknownWait,
            Code::ExecutionDamaged,
            Code::ExecutionEnded,
            Code::IllegalTransition,
        ],
        ..post(|server, call| Box::pin(control::complete_wait(server, call)))
    },
];
