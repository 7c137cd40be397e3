//! Routes of webhook endpoints, their messages, and dead letters.

use super::{EXECUTION, LIMIT, MAX_I64};
use crate::actions::webhooks;
use crate::http::parameter::{Form, Parameter, in_path, in_query};
use crate::http::route::{
    ADMINISTER, Action, Body, Content, DELETE, Effect, GET, POST, Route, json, of, reply,
};
use crate::problem::Code;
use crate::wire;

const ENDPOINT: Parameter = in_path("id", Form::Id, "The endpoint.");
const CURSOR: Parameter =
    in_query("cursor", Form::Integer(0, MAX_I64), "`next` of the previous page.");
const STATES: Form = Form::OneOf(&["pending", "delivered", "dead"]);
const STATE: Parameter = in_query("state", STATES, "Only messages in this state.");

const fn get(action: Action) -> Route {
    Route::new(GET, "webhooks", (ADMINISTER, Effect::Reads), action)
}

const fn post(action: Action) -> Route {
    Route {
        problems: &[Code::UnknownEndpoint],
        ..Route::new(POST, "webhooks", (ADMINISTER, Effect::Audited), action)
    }
}

pub(super) static ROUTES: &[Route] = &[
    Route {
        name: "createWebhookEndpoint",
        path: "/v1/webhook-endpoints",
        summary: "Register a webhook endpoint",
        body: Body::Json { schema: of::<wire::NewWebhookEndpoint>, optional: false },
        replies: &[json::<wire::WebhookSecret>(
            201,
            "The endpoint; its secret is shown only in this response.",
        )],
        problems: &[Code::EndpointRefused],
        ..post(|server, call| Box::pin(webhooks::create(server, call)))
    },
    Route {
        name: "listWebhookEndpoints",
        path: "/v1/webhook-endpoints",
        summary: "List webhook endpoints",
        replies: &[json::<wire::WebhookEndpointList>(200, "Every endpoint, without its secret.")],
        ..get(|server, call| Box::pin(webhooks::list(server, call)))
    },
    Route {
        name: "getWebhookEndpoint",
        path: "/v1/webhook-endpoints/{id}",
        summary: "Show a webhook endpoint",
        parameters: &[ENDPOINT],
        replies: &[json::<wire::WebhookEndpoint>(200, "The endpoint, without its secret.")],
        problems: &[Code::UnknownEndpoint],
        ..get(|server, call| Box::pin(webhooks::show(server, call)))
    },
    Route {
        name: "deleteWebhookEndpoint",
        method: DELETE,
        path: "/v1/webhook-endpoints/{id}",
        summary: "Delete a webhook endpoint with all its messages",
        parameters: &[ENDPOINT],
        replies: &[reply(204, "It is deleted.", Content::None)],
        ..post(|server, call| Box::pin(webhooks::delete(server, call)))
    },
    Route {
        name: "pauseWebhookEndpoint",
        path: "/v1/webhook-endpoints/{id}/pause",
        summary: "Pause a webhook endpoint; its messages wait",
        parameters: &[ENDPOINT],
        replies: &[json::<wire::WebhookEndpoint>(200, "The endpoint.")],
        ..post(|server, call| Box::pin(webhooks::pause(server, call)))
    },
    Route {
        name: "resumeWebhookEndpoint",
        path: "/v1/webhook-endpoints/{id}/resume",
        summary: "Resume a webhook endpoint that is paused, disabled or cools",
        parameters: &[ENDPOINT],
        replies: &[json::<wire::WebhookEndpoint>(200, "The endpoint.")],
        ..post(|server, call| Box::pin(webhooks::resume(server, call)))
    },
    Route {
        name: "rotateWebhookSecret",
        path: "/v1/webhook-endpoints/{id}/rotate",
        summary: "Give a webhook endpoint a new secret; the former one signs for another day",
        parameters: &[ENDPOINT],
        replies: &[json::<wire::WebhookSecret>(
            200,
            "The endpoint; its secret is shown only in this response.",
        )],
        ..post(|server, call| Box::pin(webhooks::rotate(server, call)))
    },
    Route {
        name: "testWebhookEndpoint",
        path: "/v1/webhook-endpoints/{id}/test",
        summary: "Send a message of type `webhook.test` once, and report the result",
        parameters: &[ENDPOINT],
        replies: &[json::<wire::WebhookTested>(200, "The result.")],
        ..post(|server, call| Box::pin(webhooks::test(server, call)))
    },
    Route {
        name: "replayWebhookMessages",
        path: "/v1/webhook-endpoints/{id}/replay",
        summary: "Send settled messages of a webhook endpoint again, under the same ids",
        parameters: &[ENDPOINT],
        body: Body::Json { schema: of::<wire::WebhookReplay>, optional: false },
        replies: &[json::<wire::WebhookReplayed>(200, "How many.")],
        ..post(|server, call| Box::pin(webhooks::replay(server, call)))
    },
    Route {
        name: "listWebhookMessages",
        path: "/v1/webhook-endpoints/{id}/messages",
        summary: "List the messages of a webhook endpoint, newest first",
        parameters: &[ENDPOINT, STATE, LIMIT, CURSOR],
        replies: &[json::<wire::WebhookMessageList>(200, "A page.")],
        problems: &[Code::UnknownEndpoint],
        ..get(|server, call| Box::pin(webhooks::messages(server, call)))
    },
    Route {
        name: "listExecutionMessages",
        path: "/v1/executions/{id}/messages",
        summary: "List the messages about an execution, to all webhook endpoints, newest first",
        notes: "`at` is when a message was put into the outbox, `settledAt` when it was sent or given up. Delivered messages are kept for 7 days, dead letters for 30.",
        parameters: &[EXECUTION, LIMIT, CURSOR],
        replies: &[json::<wire::WebhookMessageList>(200, "A page.")],
        problems: &[Code::UnknownExecution],
        ..get(|server, call| Box::pin(webhooks::of_execution(server, call)))
    },
    Route {
        name: "listDeadLetters",
        path: "/v1/dead-letters",
        summary: "List messages that were given up, newest first",
        parameters: &[LIMIT, CURSOR],
        replies: &[json::<wire::DeadLetterList>(200, "A page.")],
        ..get(|server, call| Box::pin(webhooks::dead_letters(server, call)))
    },
];
