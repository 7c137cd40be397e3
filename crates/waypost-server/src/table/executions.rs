//! Routes that start, read and follow executions.

use super::{EXECUTION, FOLLOW, LIMIT, MAX_I64};
use crate::actions::{executions, starting};
use crate::http::parameter::{Form, in_header, in_query, repeated};
use crate::http::route::{
    Action, Body, CONTROL, Content, Effect, GET, LOOK, POST, Route, json, of, reply,
};
use crate::problem::Code;
use crate::reader::WAIT_KINDS;
use crate::wire;

const fn get(action: Action) -> Route {
    Route::new(GET, "executions", (LOOK, Effect::Reads), action)
}

const fn post(action: Action) -> Route {
    Route::new(POST, "executions", (CONTROL, Effect::Unaudited), action)
}

pub(super) static ROUTES: &[Route] = &[
    Route {
        name: "startExecution",
        path: "/v1/executions",
        summary: "Start an execution",
        notes: "The answer comes when the submission is durable. A key that was used for another submission gives 422.",
        parameters: &[
            in_query("wait", Form::Patience, "How long to wait for its end."),
            in_header(
                "idempotency-key",
                Form::Token(256),
                "Starts at most one execution under this key; kept as long as the execution is.",
            ),
        ],
        body: Body::Json { schema: of::<wire::Start>, optional: false },
        replies: &[
            json::<wire::Started>(201, "It is durable; with `wait`, it may have ended."),
            json::<wire::Started>(
                200,
                "The same submission was made before under this key: that execution, with `idempotent-replayed: true`.",
            ),
        ],
        problems: &[
            Code::UnknownDefinition,
            Code::IdTaken,
            Code::ConcurrencyLimit,
            Code::ClusterTooOld,
            Code::InvalidInput,
            Code::IdempotencyMismatch,
            Code::Unstorable,
        ],
        ..post(|server, call| Box::pin(starting::start(server, call)))
    },
    Route {
        name: "listExecutions",
        path: "/v1/executions",
        summary: "List executions, newest first",
        notes: "A page may be short, even empty, and still have a `next`: a filter that fits little is given up on after a while, and goes on from there.",
        parameters: &[
            repeated(
                "status",
                Form::Status,
                "Only executions with this status; repeat it for several.",
            ),
            in_query("workflow", Form::Workflow, "Only executions of this workflow."),
            in_query("since", Form::Time, "Only executions accepted at this time or later."),
            in_query("until", Form::Time, "Only executions accepted before this time."),
            repeated(
                "label",
                Form::Label,
                "Only executions with this label, `name=value`; repeat it for several.",
            ),
            in_query(
                "text",
                Form::Text(256),
                "Only executions with this text in their id, error, labels or input.",
            ),
            in_query(
                "filter",
                Form::Text(4096),
                "Only executions for which this expression holds, such as `status == 'FAILED' and input.total >= 100`.",
            ),
            in_query(
                "consistent",
                Form::Flag,
                "Wait up to 2 s until the list includes every commit so far.",
            ),
            LIMIT,
            in_query("cursor", Form::Integer(0, MAX_I64), "`next` of the previous page."),
        ],
        replies: &[json::<wire::ExecutionList>(200, "A page, with how old it is.")],
        ..get(|server, call| Box::pin(executions::list(server, call)))
    },
    Route {
        name: "listWaits",
        path: "/v1/waits",
        summary: "List open waits of all executions",
        notes: "Those of the newest executions come first. A page may be short, even empty, and still have a `next`: few waits of a workflow among many of others are looked for a while, and the next page goes on from there.",
        parameters: &[
            in_query("kind", Form::OneOf(WAIT_KINDS), "Only waits of this kind."),
            in_query("workflow", Form::Workflow, "Only waits of executions of this workflow."),
            in_query(
                "consistent",
                Form::Flag,
                "Wait up to 2 s until the list includes every commit so far.",
            ),
            LIMIT,
            in_query("cursor", Form::Wait, "`next` of the previous page."),
        ],
        replies: &[json::<wire::WaitList>(200, "A page, with how old it is.")],
        problems: &[Code::UnknownExecution],
        ..get(|server, call| Box::pin(executions::waits(server, call)))
    },
    Route {
        name: "getExecution",
        path: "/v1/executions/{id}",
        summary: "Get an execution",
        parameters: &[
            EXECUTION,
            in_query("wait", Form::Patience, "How long to wait for its end first."),
        ],
        replies: &[json::<wire::Execution>(200, "The execution as it stands in the log.")],
        problems: &[Code::UnknownExecution, Code::ExecutionDamaged],
        ..get(|server, call| Box::pin(executions::get(server, call)))
    },
    Route {
        name: "listNodes",
        path: "/v1/executions/{id}/nodes",
        summary: "List the nodes of an execution, or the items of a map in it",
        notes: "With `under`, a page of the items of a map or of the iterations of a loop. It is computed from the state of the execution and costs what `GET /v1/executions/{id}` costs, however many items there are. Items keep their status and the first 1,000 failures; outputs are kept with `collect`, and after a failure only in the log.",
        parameters: &[
            EXECUTION,
            in_query(
                "state",
                Form::OneOf(&["all", "incomplete"]),
                "`incomplete` leaves out settled nodes.",
            ),
            in_query("under", Form::NodePath, "The path of a map or a loop: list its items."),
            in_query(
                "status",
                Form::OneOf(&["PENDING", "RUNNING", "COMPLETED", "FAILED", "CANCELLED"]),
                "With `under`: only items with this status.",
            ),
            in_query(
                "after",
                Form::Integer(0, MAX_I64),
                "With `under`: only items after this index.",
            ),
            LIMIT,
        ],
        replies: &[json::<wire::NodeList>(200, "The nodes, or a page of items.")],
        problems: &[
            Code::UnknownExecution,
            Code::UnknownNode,
            Code::ExecutionDamaged,
            Code::IllegalTransition,
        ],
        ..get(|server, call| Box::pin(executions::nodes(server, call)))
    },
    Route {
        name: "listChildren",
        path: "/v1/executions/{id}/children",
        summary: "List the executions that an execution started",
        notes: "From the log, in the order in which they began; at most 100 on a page. Their statuses are from the lists, which follow the log with a short delay. Each of them may have children of its own.",
        parameters: &[
            EXECUTION,
            in_query("after", Form::Integer(0, MAX_I64), "Only those that began after this seq."),
            in_query(
                "consistent",
                Form::Flag,
                "Wait up to 2 s until the statuses include every commit so far.",
            ),
            LIMIT,
        ],
        replies: &[json::<wire::ChildList>(200, "A page of executions.")],
        problems: &[Code::UnknownExecution, Code::ExecutionDamaged],
        ..get(|server, call| Box::pin(executions::children(server, call)))
    },
    Route {
        name: "listEvents",
        path: "/v1/executions/{id}/events",
        summary: "List the events of an execution, oldest first",
        notes: "A page of large events may be shorter than asked for; `next` says whether there are more.",
        parameters: &[
            EXECUTION,
            in_query("node", Form::Text(256), "Only events of this node."),
            in_query("type", Form::Text(64), "Only events of this type, for example NodeFailed."),
            in_query("after", Form::Integer(0, MAX_I64), "Only events after this seq."),
            LIMIT,
        ],
        replies: &[json::<wire::EventList>(200, "A page of the log.")],
        problems: &[Code::UnknownExecution],
        ..get(|server, call| Box::pin(executions::events(server, call)))
    },
    Route {
        name: "streamEvents",
        path: "/v1/executions/{id}/stream",
        tag: "streams",
        summary: "Follow the events of an execution",
        notes: "The stream stays open for what is yet to come: every event once, in order, however often the reader comes back. A reader that reads nothing for 10 s is let go with `dropped` as the last event.",
        parameters: &[
            EXECUTION,
            in_query("after", Form::Integer(0, MAX_I64), "Only events after this seq."),
            in_header(
                "last-event-id",
                Form::Integer(0, MAX_I64),
                "The same as `after`; browsers send it when they reconnect.",
            ),
            FOLLOW,
        ],
        replies: &[
            reply(
                200,
                "Server-sent events: `id` is the seq, `event` the type, `data` the event. Ends with `end` when the execution has ended.",
                Content::Stream,
            ),
            reply(204, "It has ended, and there is nothing after this position.", Content::None),
        ],
        problems: &[Code::UnknownExecution, Code::Overloaded],
        ..get(|server, call| Box::pin(executions::stream(server, call)))
    },
    Route {
        name: "getOutput",
        path: "/v1/executions/{id}/output",
        summary: "Get an execution's output",
        parameters: &[EXECUTION],
        replies: &[json::<wire::Payload>(200, "The output, as it is; `null` where there is none.")],
        problems: &[Code::UnknownExecution, Code::ExecutionDamaged, Code::ExecutionRuns],
        ..get(|server, call| Box::pin(executions::output(server, call)))
    },
    Route {
        name: "getWhy",
        path: "/v1/executions/{id}/why",
        summary: "Explain what an execution is waiting for",
        parameters: &[EXECUTION],
        replies: &[json::<wire::Why>(200, "Every reason, the most telling first.")],
        problems: &[Code::UnknownExecution, Code::ExecutionDamaged],
        ..get(|server, call| Box::pin(executions::why(server, call)))
    },
    Route {
        name: "streamAll",
        path: "/v1/stream",
        tag: "streams",
        summary: "Follow the events of all executions",
        notes: "The stream stays open for what is yet to come.",
        parameters: &[
            in_query(
                "after",
                Form::ParameterPlace,
                "Only events after this one; `0` starts with the first. Without it, the stream starts now.",
            ),
            in_header(
                "last-event-id",
                Form::ParameterPlace,
                "The same as `after`; browsers send it when they reconnect.",
            ),
            repeated("type", Form::Text(64), "Only events of this type; repeat it for several."),
            FOLLOW,
        ],
        replies: &[reply(
            200,
            "Server-sent events in the order of commits; `data` names the execution.",
            Content::Stream,
        )],
        problems: &[Code::UnknownEvent, Code::Overloaded],
        ..get(|server, call| Box::pin(executions::stream_all(server, call)))
    },
];
