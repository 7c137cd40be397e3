//! Routes of remote workers: the public protocol by which they take tasks and report on them.

use crate::actions::workers;
use crate::http::parameter::{Form, Parameter, in_path, in_query};
use crate::http::route::{
    Action, Body, Content, Documented, Effect, GET, LOOK, POST, Route, WORK, json, of, reply,
};
use crate::problem::Code;
use crate::wire;

const WORKER: Parameter =
    in_path("worker", Form::Uuid, "The worker: a UUID that it makes at its start, new each time.");
const TOKEN: Parameter = in_path("token", Form::Delivery, "The task's token.");

/// The replies to every report.
const REPORTED: &[Documented] = &[
    json::<wire::Reported>(200, "It is in the log; also where it had been before."),
    json::<wire::Reported>(
        202,
        "It is durable, and the execution's owner takes it within a second.",
    ),
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
    Code::SecretsUnreadable,
];

const fn get(action: Action) -> Route {
    Route::new(GET, "workers", (LOOK, Effect::Reads), action)
}

const fn post(action: Action) -> Route {
    Route::new(POST, "workers", (WORK, Effect::Unaudited), action)
}

pub(super) static ROUTES: &[Route] = &[
    Route {
        name: "listWorkers",
        path: "/v1/workers",
        summary: "List workers and waiting tasks",
        replies: &[json::<wire::WorkerList>(200, "All of them.")],
        problems: &[Code::StoreUnavailable],
        ..get(|server, call| Box::pin(workers::list(server, call)))
    },
    Route {
        name: "pollTasks",
        path: "/v1/workers/{worker}/poll",
        effect: Effect::HandsOut,
        summary: "Poll for tasks and cancellations",
        notes: "A sign of life as well: a worker that gives none for 15 seconds is taken for dead, and what it had begun is given to others. With `wait` the answer comes when there is a task or something to stop, or when the time is over. A task is begun under its token; what was handed out and not begun is offered again.",
        parameters: &[
            WORKER,
            in_query("wait", Form::Patience, "How long to wait for a task or a cancellation."),
        ],
        body: Body::Json { schema: of::<wire::Poll>, optional: false },
        replies: &[json::<wire::Polled>(200, "Tasks to begin and to stop; there may be none.")],
        problems: &[Code::Draining, Code::StoreUnavailable, Code::Overloaded],
        ..post(|server, call| Box::pin(workers::poll(server, call)))
    },
    Route {
        name: "beatWorker",
        path: "/v1/workers/{worker}/heartbeat",
        summary: "Send a heartbeat",
        notes: "Every 5 seconds, by a worker that does not poll: it has all the tasks that it takes. The answer names what to stop.",
        parameters: &[WORKER],
        body: Body::Json { schema: of::<wire::Poll>, optional: false },
        replies: &[json::<wire::Polled>(200, "Tasks to stop; never any to begin.")],
        problems: &[Code::StoreUnavailable],
        ..post(|server, call| Box::pin(workers::beat(server, call)))
    },
    Route {
        name: "endWorker",
        path: "/v1/workers/{worker}/leave",
        summary: "Report that a worker is stopping",
        notes: "What it has begun and not reported on is given to others within 10 seconds.",
        parameters: &[WORKER],
        body: Body::Json { schema: of::<wire::Poll>, optional: false },
        replies: &[reply(204, "It is known.", Content::None)],
        problems: &[Code::StoreUnavailable],
        ..post(|server, call| Box::pin(workers::leave(server, call)))
    },
    Route {
        name: "startTask",
        path: "/v1/tasks/{token}/start",
        summary: "Report that a task has started",
        notes: "From then on this token alone may report on the attempt. A worker may skip it: a report on a task that was not begun is taken as both. A handler that must run at most once begins only after the answer 200.",
        parameters: &[TOKEN],
        body: Body::Json { schema: of::<wire::TaskStart>, optional: false },
        replies: REPORTED,
        problems: REFUSED,
        ..post(|server, call| Box::pin(workers::start(server, call)))
    },
    Route {
        name: "checkpointTask",
        path: "/v1/tasks/{token}/checkpoint",
        summary: "Record a checkpoint that a later attempt can continue from",
        parameters: &[TOKEN],
        body: Body::Json { schema: of::<wire::TaskCheckpoint>, optional: false },
        replies: REPORTED,
        problems: REFUSED,
        ..post(|server, call| Box::pin(workers::checkpoint(server, call)))
    },
    Route {
        name: "reportTask",
        path: "/v1/tasks/{token}/report",
        summary: "Report how an attempt ended",
        notes: "A worker keeps its report and repeats it, to any instance, until it is answered with 200, 202 or 409. The same report again is answered as the first one was.",
        parameters: &[TOKEN],
        body: Body::Json { schema: of::<wire::TaskReport>, optional: false },
        replies: REPORTED,
        problems: REFUSED,
        ..post(|server, call| Box::pin(workers::report(server, call)))
    },
];
