//! Blocks of definitions and nodes: circuit breakers, concurrency, budgets.

use serde_json::{Value, json};
use waypost_core::limits::BREAKER_FAILURES_MAX;

use super::{described, duration, object, optional};
use crate::definition::{ON_EXHAUSTED, POLICIES};

pub(super) fn breaker() -> Value {
    let fields = json!({
        "key": described(
            "What nodes share the breaker by, in all workflows; secrets are not allowed in it.",
            json!({ "type": ["string", "number", "boolean"], "examples": ["billing-api"] }),
        ),
        "failures": optional(
            "So many failed attempts within `period` open it.",
            json!({
                "type": "integer", "minimum": 1, "maximum": BREAKER_FAILURES_MAX, "default": 5,
            }),
        ),
        "period": optional("See `failures`; 60s by default.", duration()),
        "cooldown": optional("How long it stays open before a probe; 30s by default.", duration()),
    });
    object("key", &fields)
}

pub(super) fn concurrency() -> Value {
    let fields = json!({
        "key": described(
            "What executions share the limit by, from the input; one text for all of them makes \
             it a limit of the workflow.",
            json!({ "type": ["string", "number", "boolean"], "examples": ["${{ input.userId }}"] }),
        ),
        "limit": optional(
            "How many of one key may be under way at once.",
            json!({ "type": "integer", "minimum": 1, "default": 1 }),
        ),
        "policy": optional(
            "What happens to one more: it waits in the queue, it is refused, or the oldest is \
             cancelled for it.",
            json!({ "enum": POLICIES, "default": "queue" }),
        ),
    });
    object("key", &fields)
}

pub(super) fn budget() -> Value {
    let money = || json!({ "type": ["number", "string"], "minimum": 0 });
    let prices = json!({ "input": money(), "output": money() });
    let mut prices = object("input", &prices);
    prices["required"] = json!(["input", "output"]);
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "tokens": optional(
                "The most tokens that all attempts may use together.",
                json!({ "type": "integer", "minimum": 1 }),
            ),
            "money": optional("The most that they may cost, in any currency.", money()),
            "onExhausted": optional(
                "What happens to an attempt for which nothing is left: its node fails, or the execution \
                 is paused.",
                json!({ "enum": ON_EXHAUSTED, "default": "fail" }),
            ),
            "prices": optional(
                "Money per million tokens, by model; a node may have `prices` of its own.",
                json!({ "type": "object", "additionalProperties": prices }),
            ),
        },
        "anyOf": [{ "required": ["tokens"] }, { "required": ["money"] }],
    })
}
