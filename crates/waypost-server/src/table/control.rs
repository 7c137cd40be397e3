//! Routes that control executions.

use hyper::Method;

use super::EXECUTION;
use crate::actions;
use crate::http::parameter::{Form, in_path};
use crate::http::route::{Body, CONTROL, Content, Documented, Effect, Route, of};
use crate::problem::Code;
use crate::wire;

const DONE: Documented =
    Documented { status: 200, when: "Done.", content: Content::Json(of::<wire::ControlResult>) };
const ACCEPTED: Documented = Documented {
    status: 202,
    when: "Durable; the instance that drives the execution does it, unless the execution ends first.",
    content: Content::Json(of::<wire::ControlResult>),
};
const REPLIES: &[Documented] = &[DONE, ACCEPTED];
const PROBLEMS: &[Code] = &[
    Code::UnknownExecution,
    Code::ExecutionDamaged,
    Code::ExecutionEnded,
    Code::IllegalTransition,
];

pub(super) static ROUTES: &[Route] = &[
    Route {
        name: "pauseExecution",
        method: Method::POST,
        path: "/v1/executions/{id}/pause",
        access: CONTROL,
        effect: Effect::Audited,
        tag: "control",
        summary: "Pause an execution",
        notes: "",
        parameters: &[EXECUTION],
        body: Body::Json { schema: of::<wire::Pause>, optional: true },
        replies: REPLIES,
        problems: PROBLEMS,
        action: |server, call| Box::pin(actions::control::control::<wire::Pause>(server, call)),
    },
    Route {
        name: "resumeExecution",
        method: Method::POST,
        path: "/v1/executions/{id}/resume",
        access: CONTROL,
        effect: Effect::Audited,
        tag: "control",
        summary: "Resume a paused or quarantined execution",
        notes: "",
        parameters: &[EXECUTION],
        body: Body::Json { schema: of::<wire::Resume>, optional: true },
        replies: REPLIES,
        problems: PROBLEMS,
        action: |server, call| Box::pin(actions::control::control::<wire::Resume>(server, call)),
    },
    Route {
        name: "cancelExecution",
        method: Method::POST,
        path: "/v1/executions/{id}/cancel",
        access: CONTROL,
        effect: Effect::Audited,
        tag: "control",
        summary: "Cancel an execution",
        notes: "Where the reply says 200, the execution ends as CANCELLED, whatever it was about to do; where it had ended, 409 says how.",
        parameters: &[EXECUTION],
        body: Body::Json { schema: of::<wire::Cancel>, optional: true },
        replies: REPLIES,
        problems: PROBLEMS,
        action: |server, call| Box::pin(actions::control::control::<wire::Cancel>(server, call)),
    },
    Route {
        name: "retryExecution",
        method: Method::POST,
        path: "/v1/executions/{id}/retry",
        access: CONTROL,
        effect: Effect::Audited,
        tag: "control",
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
        action: |server, call| Box::pin(actions::control::retry(server, call)),
    },
    Route {
        name: "signalExecution",
        method: Method::POST,
        path: "/v1/executions/{id}/signals",
        access: CONTROL,
        effect: Effect::Audited,
        tag: "control",
        summary: "Send a signal to an execution",
        notes: "A signal that nothing waits for yet is kept, and goes to the first wait that it fits. 503 with a `messageId`: it is in the inbox, and the execution may end without it; send it again under that id to learn what became of it.",
        parameters: &[EXECUTION],
        body: Body::Json { schema: of::<wire::Signal>, optional: false },
        replies: &[
            DONE,
            Documented {
                when: "Durable, for an execution that is held: it is in the log when the execution goes on or ends.",
                ..ACCEPTED
            },
        ],
        problems: PROBLEMS,
        action: |server, call| Box::pin(actions::control::control::<wire::Signal>(server, call)),
    },
    Route {
        name: "completeWait",
        method: Method::POST,
        path: "/v1/waits/{id}/complete",
        access: CONTROL,
        effect: Effect::Audited,
        tag: "control",
        summary: "Complete a wait now",
        notes: "A delay passes, a retry is made, a wait for a signal is given `body`.",
        parameters: &[in_path("id", Form::Wait, "The wait, as the node shows it.")],
        body: Body::Json { schema: of::<wire::CompleteWait>, optional: true },
        replies: REPLIES,
        problems: &[
            Code::UnknownWait,
            Code::ExecutionDamaged,
            Code::ExecutionEnded,
            Code::IllegalTransition,
        ],
        action: |server, call| Box::pin(actions::control::complete_wait(server, call)),
    },
];
