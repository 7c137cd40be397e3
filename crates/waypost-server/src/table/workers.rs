//! Routes of remote workers: the public protocol by which they take tasks and report on them.

use hyper::Method;

use crate::actions;
use crate::http::parameter::{Form, Parameter, in_path, in_query};
use crate::http::route::{Body, Content, Documented, Effect, LOOK, Route, WORK, of};
use crate::problem::Code;
use crate::wire;

const WORKER: Parameter =
    in_path("worker", Form::Uuid, "The worker: a UUID that it makes at its start, new each time.");
const TOKEN: Parameter = in_path("token", Form::Delivery, "The task's token.");

/// The replies to every report.
const REPORTED: &[Documented] = &[
    Documented {
        status: 200,
        when: "It is in the log; also where it had been before.",
        content: Content::Json(of::<wire::Reported>),
    },
    Documented {
        status: 202,
        when: "It is durable, and the execution's owner takes it within a second.",
        content: Content::Json(of::<wire::Reported>),
    },
];

/// The problems of every report.
const REFUSED: &[Code] = &[
    Code::UnknownExecution,
    Code::ExecutionEnded,
    Code::StaleAttempt,
    Code::ForeignToken,
    Code::IllegalTransition,
    Code::Draining,
    Code::StoreUnavailable,
];

pub(super) static ROUTES: &[Route] = &[
    Route {
        name: "listWorkers",
        method: Method::GET,
        path: "/v1/workers",
        access: LOOK,
        effect: Effect::Reads,
        tag: "workers",
        summary: "List workers and waiting tasks",
        notes: "",
        parameters: &[],
        body: Body::None,
        replies: &[Documented {
            status: 200,
            when: "All of them.",
            content: Content::Json(of::<wire::WorkerList>),
        }],
        problems: &[Code::StoreUnavailable],
        action: |server, call| Box::pin(actions::workers::list(server, call)),
    },
    Route {
        name: "pollTasks",
        method: Method::POST,
        path: "/v1/workers/{worker}/poll",
        access: WORK,
        effect: Effect::HandsOut,
        tag: "workers",
        summary: "Poll for tasks and cancellations",
        notes: "A sign of life as well: a worker that gives none for 15 seconds is taken for dead, and what it had begun is given to others. With `wait` the answer comes when there is a task or something to stop, or when the time is over. A task is begun under its token; what was handed out and not begun is offered again.",
        parameters: &[WORKER, in_query("wait", Form::Patience, "How long to wait for something.")],
        body: Body::Json { schema: of::<wire::Poll>, optional: false },
        replies: &[Documented {
            status: 200,
            when: "Tasks to begin and to stop; there may be none.",
            content: Content::Json(of::<wire::Polled>),
        }],
        problems: &[Code::Draining, Code::StoreUnavailable, Code::Overloaded],
        action: |server, call| Box::pin(actions::workers::poll(server, call)),
    },
    Route {
        name: "beatWorker",
        method: Method::POST,
        path: "/v1/workers/{worker}/heartbeat",
        access: WORK,
        effect: Effect::Unaudited,
        tag: "workers",
        summary: "Send a heartbeat",
        notes: "Every 5 seconds, by a worker that does not poll: it has all the tasks that it takes. The answer names what to stop.",
        parameters: &[WORKER],
        body: Body::Json { schema: of::<wire::Poll>, optional: false },
        replies: &[Documented {
            status: 200,
            when: "Tasks to stop; never any to begin.",
            content: Content::Json(of::<wire::Polled>),
        }],
        problems: &[Code::StoreUnavailable],
        action: |server, call| Box::pin(actions::workers::beat(server, call)),
    },
    Route {
        name: "endWorker",
        method: Method::POST,
        path: "/v1/workers/{worker}/leave",
        access: WORK,
        effect: Effect::Unaudited,
        tag: "workers",
        summary: "Report that a worker is stopping",
        notes: "What it has begun and not reported on is given to others within 10 seconds.",
        parameters: &[WORKER],
        body: Body::Json { schema: of::<wire::Poll>, optional: false },
        replies: &[Documented { status: 204, when: "It is known.", content: Content::None }],
        problems: &[Code::StoreUnavailable],
        action: |server, call| Box::pin(actions::workers::leave(server, call)),
    },
    Route {
        name: "startTask",
        method: Method::POST,
        path: "/v1/tasks/{token}/start",
        access: WORK,
        effect: Effect::Unaudited,
        tag: "workers",
        summary: "Report that a task has started",
        notes: "From then on this token alone may report on the attempt. A worker may skip it: a report on a task that was not begun is taken as both. A handler that must run at most once begins only after the answer 200.",
        parameters: &[TOKEN],
        body: Body::Json { schema: of::<wire::TaskStart>, optional: false },
        replies: REPORTED,
        problems: REFUSED,
        action: |server, call| Box::pin(actions::workers::start(server, call)),
    },
    Route {
        name: "checkpointTask",
        method: Method::POST,
        path: "/v1/tasks/{token}/checkpoint",
        access: WORK,
        effect: Effect::Unaudited,
        tag: "workers",
        summary: "Record a checkpoint that a later attempt can continue from",
        notes: "",
        parameters: &[TOKEN],
        body: Body::Json { schema: of::<wire::TaskCheckpoint>, optional: false },
        replies: REPORTED,
        problems: REFUSED,
        action: |server, call| Box::pin(actions::workers::checkpoint(server, call)),
    },
    Route {
        name: "reportTask",
        method: Method::POST,
        path: "/v1/tasks/{token}/report",
        access: WORK,
        effect: Effect::Unaudited,
        tag: "workers",
        summary: "Report how an attempt ended",
        notes: "A worker keeps its report and repeats it, to any instance, until it is answered with 200, 202 or 409. The same report again is answered as the first one was.",
        parameters: &[TOKEN],
        body: Body::Json { schema: of::<wire::TaskReport>, optional: false },
        replies: REPORTED,
        problems: REFUSED,
        action: |server, call| Box::pin(actions::workers::report(server, call)),
    },
];
