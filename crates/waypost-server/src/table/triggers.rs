//! Routes of triggers: requests of other systems, published events, and what people ask of triggers.

use super::{LIMIT, MAX_I64};
use crate::actions::{events, hooks, triggers};
use crate::cloud_events::EVENTS_BYTES_MAX;
use crate::config::HOOK_BODY_BYTES_MAX;
use crate::http::parameter::{Form, Parameter, in_path, in_query};
use crate::http::route::{
    Access, Action, Body, CONTROL, Content, DELETE, Documented, Effect, GET, LOOK, POST, PUBLISH,
    PUT, Route, json, of, reply,
};
use crate::problem::Code;
use crate::wire;

const WORKFLOW: Parameter = in_path("workflow", Form::Workflow, "The workflow.");
const TRIGGER: Parameter = in_path("trigger", Form::Text(128), "The trigger's name.");
const TOKEN: Parameter = in_path("token", Form::Token(512), "The trigger's secret.");
const LETTER: Parameter = in_path("letter", Form::Integer(0, MAX_I64), "The dead letter.");
const BACKFILL: Parameter = in_path("backfill", Form::Integer(0, MAX_I64), "The backfill.");
const PLACE: Parameter =
    in_query("cursor", Form::Integer(0, MAX_I64), "`next` of the previous page.");

const KINDS: Form =
    Form::OneOf(&["schedule", "webhook", "event", "poll", "stream", "workflow-ended"]);
const STATES: Form = Form::OneOf(&["active", "paused", "broken", "retired"]);
const OUTCOMES: Form =
    Form::OneOf(&["started", "filtered", "skipped", "missed", "dead", "collected", "gap"]);
const LETTER_STATES: Form = Form::OneOf(&["dead", "retried", "discarded"]);

const HOOK_NOTES: &str = "The checks come in this order: the trigger, the size of the body, the signature and its time, the trigger's rate, the challenge, the body's type. A body is JSON, a form or a text. A delivery that was taken before is answered with the execution of the first one.";
const HOOK_REPLIES: &[Documented] = &[
    json::<wire::HookReply>(
        202,
        "An execution has begun, and is durable. With `respond: output`, it has not ended yet.",
    ),
    reply(
        200,
        "A repeat, a request that the trigger's `if` filters out, the answer to a challenge, or, with `respond: output`, the output.",
        Content::Json(super::any_json),
    ),
];
const HOOK_PROBLEMS: &[Code] = &[
    Code::UnknownHook,
    Code::BadSignature,
    Code::StaleTimestamp,
    Code::Forbidden,
    Code::ForeignOrigin,
    Code::BadBody,
    Code::BadParameter,
    Code::InvalidInput,
    Code::ConcurrencyLimit,
    Code::TriggerState,
    Code::ExecutionFailed,
    Code::SecretsUnreadable,
    Code::ClusterTooOld,
];
const CHANGED: &[Documented] = &[json::<wire::Trigger>(200, "The trigger.")];
const FIRES: &[Code] =
    &[Code::UnknownTrigger, Code::TriggerState, Code::InvalidTriggerChange, Code::ClusterTooOld];
const CHANGES: &[Code] = &[Code::UnknownTrigger, Code::TriggerState, Code::InvalidTriggerChange];

const fn hook() -> Route {
    let action: Action = |server, call| Box::pin(hooks::receive(server, call));
    Route {
        summary: "Fire a webhook trigger",
        notes: HOOK_NOTES,
        parameters: &[WORKFLOW, TRIGGER],
        path: "/v1/hooks/{workflow}/{trigger}",
        body: Body::Raw { max: HOOK_BODY_BYTES_MAX },
        replies: HOOK_REPLIES,
        problems: HOOK_PROBLEMS,
        ..Route::new(POST, "triggers", (Access::Signed, Effect::Unaudited), action)
    }
}

const fn hook_with_token() -> Route {
    Route {
        summary: "Fire a webhook trigger of scheme `token`",
        parameters: &[WORKFLOW, TRIGGER, TOKEN],
        path: "/v1/hooks/{workflow}/{trigger}/{token}",
        ..hook()
    }
}

const fn get(action: Action) -> Route {
    Route {
        problems: &[Code::UnknownTrigger],
        ..Route::new(GET, "triggers", (LOOK, Effect::Reads), action)
    }
}

const fn post(action: Action) -> Route {
    Route {
        problems: CHANGES,
        replies: CHANGED,
        parameters: &[WORKFLOW, TRIGGER],
        ..Route::new(POST, "triggers", (CONTROL, Effect::Audited), action)
    }
}

pub(super) static ROUTES: &[Route] = &[
    Route { name: "fireHook", ..hook() },
    Route { name: "fireHookByPut", method: PUT, ..hook() },
    Route { name: "fireHookWithToken", ..hook_with_token() },
    Route { name: "fireHookWithTokenByPut", method: PUT, ..hook_with_token() },
    Route {
        name: "fireHookWithTokenByGet",
        method: GET,
        notes: "Only for triggers that allow it.",
        body: Body::None,
        ..hook_with_token()
    },
    Route {
        name: "publishEvents",
        path: "/v1/events",
        summary: "Publish CloudEvents 1.0 to event triggers and to executions that wait",
        notes: "One event as `application/cloudevents+json` or in the binary mode, or up to 100 as `application/cloudevents-batch+json`. An event has at most 1 MiB, a request 4 MiB. The answer comes when everything that the events led to is durable; repeat the request if there is none. A trigger takes an event of one source and id once, and so does an execution that waits. An event that no execution waits for is not kept for later waits.",
        body: Body::Raw { max: EVENTS_BYTES_MAX },
        replies: &[json::<wire::EventsPublished>(200, "What became of them.")],
        problems: &[
            Code::BadEvent,
            Code::BadBody,
            Code::TriggerState,
            Code::UnknownTrigger,
            Code::ClusterTooOld,
        ],
        ..Route::new(POST, "triggers", (PUBLISH, Effect::Unaudited), |server, call| {
            Box::pin(events::publish(server, call))
        })
    },
    Route {
        name: "listTriggers",
        path: "/v1/triggers",
        summary: "List triggers, by workflow and name",
        parameters: &[
            in_query("workflow", Form::Workflow, "Only those of this workflow."),
            in_query("kind", KINDS, "Only those of this kind."),
            in_query("state", STATES, "Only those in this state."),
            LIMIT,
            in_query("cursor", Form::Text(300), "`next` of the previous page."),
        ],
        replies: &[json::<wire::TriggerList>(200, "A page.")],
        ..get(|server, call| Box::pin(triggers::list(server, call)))
    },
    Route {
        name: "getTrigger",
        path: "/v1/triggers/{workflow}/{trigger}",
        summary: "Show a trigger",
        parameters: &[WORKFLOW, TRIGGER],
        replies: &[json::<wire::Trigger>(200, "The trigger.")],
        ..get(|server, call| Box::pin(triggers::show(server, call)))
    },
    Route {
        name: "listTriggerTimes",
        path: "/v1/triggers/{workflow}/{trigger}/next",
        summary: "List the next times of a schedule",
        parameters: &[
            WORKFLOW,
            TRIGGER,
            in_query("count", Form::Integer(1, triggers::TIMES_MAX), "How many; default 20."),
            in_query("after", Form::Time, "The times after this one; default: now."),
        ],
        replies: &[json::<wire::TriggerTimes>(200, "The times.")],
        problems: &[Code::UnknownTrigger, Code::InvalidTriggerChange],
        ..get(|server, call| Box::pin(triggers::times(server, call)))
    },
    Route {
        name: "listTriggerFires",
        path: "/v1/triggers/{workflow}/{trigger}/fires",
        summary: "List what a trigger did with its items, newest first",
        parameters: &[
            WORKFLOW,
            TRIGGER,
            in_query("outcome", OUTCOMES, "Only items with this outcome."),
            LIMIT,
            PLACE,
        ],
        replies: &[json::<wire::TriggerFireList>(200, "A page.")],
        ..get(|server, call| Box::pin(triggers::fires(server, call)))
    },
    Route {
        name: "listTriggerDeadLetters",
        path: "/v1/triggers/{workflow}/{trigger}/dead",
        summary: "List the dead letters of a trigger, newest first",
        parameters: &[
            WORKFLOW,
            TRIGGER,
            in_query("state", LETTER_STATES, "Only those in this state."),
            LIMIT,
            PLACE,
        ],
        replies: &[json::<wire::TriggerDeadLetterList>(200, "A page.")],
        ..get(|server, call| Box::pin(triggers::dead_letters(server, call)))
    },
    Route {
        name: "testTrigger",
        path: "/v1/triggers/{workflow}/{trigger}/test",
        summary: "Show what a trigger would start with a payload, without starting it",
        body: Body::Json { schema: of::<wire::FireTrigger>, optional: true },
        replies: &[json::<wire::TriggerTested>(200, "What it would start.")],
        ..post(|server, call| Box::pin(triggers::test(server, call)))
    },
    Route {
        name: "fireTrigger",
        path: "/v1/triggers/{workflow}/{trigger}/fire",
        summary: "Fire a trigger by hand",
        body: Body::Json { schema: of::<wire::FireTrigger>, optional: true },
        replies: &[json::<wire::TriggerFired>(200, "What it led to.")],
        problems: FIRES,
        ..post(|server, call| Box::pin(triggers::fire(server, call)))
    },
    Route {
        name: "pauseTrigger",
        path: "/v1/triggers/{workflow}/{trigger}/pause",
        summary: "Pause a trigger; it starts nothing once this is answered",
        body: Body::Json { schema: of::<wire::PauseTrigger>, optional: true },
        ..post(|server, call| Box::pin(triggers::pause(server, call)))
    },
    Route {
        name: "resumeTrigger",
        path: "/v1/triggers/{workflow}/{trigger}/resume",
        summary: "Resume a trigger that is paused or broken",
        parameters: &[
            WORKFLOW,
            TRIGGER,
            in_query(
                "catchUp",
                Form::Flag,
                "`true`: a schedule catches up, as far as its `catchUp` says. Default: times that have passed are left out.",
            ),
        ],
        ..post(|server, call| Box::pin(triggers::resume(server, call)))
    },
    Route {
        name: "rewindTrigger",
        path: "/v1/triggers/{workflow}/{trigger}/rewind",
        summary: "Let a schedule, a poll or a stream go on from another place",
        body: Body::Json { schema: of::<wire::RewindTrigger>, optional: false },
        ..post(|server, call| Box::pin(triggers::rewind(server, call)))
    },
    Route {
        name: "backfillTrigger",
        path: "/v1/triggers/{workflow}/{trigger}/backfill",
        summary: "Fire times of the past of a schedule",
        notes: "The schedule itself goes on as before. A time that fired before does not fire again, unless `again` is true.",
        body: Body::Json { schema: of::<wire::BackfillTrigger>, optional: false },
        replies: &[json::<wire::TriggerBackfill>(200, "The times.")],
        ..post(|server, call| Box::pin(triggers::backfill(server, call)))
    },
    Route {
        name: "cancelTriggerBackfill",
        method: DELETE,
        path: "/v1/triggers/{workflow}/{trigger}/backfills/{backfill}",
        summary: "Cancel a backfill; what it has fired stays",
        parameters: &[WORKFLOW, TRIGGER, BACKFILL],
        ..post(|server, call| Box::pin(triggers::cancel_backfill(server, call)))
    },
    Route {
        name: "retryTriggerDeadLetter",
        path: "/v1/triggers/{workflow}/{trigger}/dead/{letter}/retry",
        summary: "Fire a dead letter again, with the current version",
        parameters: &[WORKFLOW, TRIGGER, LETTER],
        replies: &[json::<wire::TriggerFired>(200, "What it led to.")],
        problems: &[
            Code::UnknownTrigger,
            Code::UnknownDeadLetter,
            Code::TriggerState,
            Code::InvalidTriggerChange,
        ],
        ..post(|server, call| Box::pin(triggers::retry_dead(server, call)))
    },
    Route {
        name: "discardTriggerDeadLetter",
        path: "/v1/triggers/{workflow}/{trigger}/dead/{letter}/discard",
        summary: "Discard a dead letter of a trigger",
        parameters: &[WORKFLOW, TRIGGER, LETTER],
        replies: &[reply(204, "It is discarded.", Content::None)],
        problems: &[Code::UnknownTrigger, Code::UnknownDeadLetter],
        ..post(|server, call| Box::pin(triggers::discard_dead(server, call)))
    },
];
