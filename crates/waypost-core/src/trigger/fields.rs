//! The fields of triggers as definitions write them: of an entry of `on`, and of the config of a node.
//!
//! From them come the fields that reading knows, the JSON Schema and the reference of node kinds.

use super::TriggerKindName;
use crate::kind::{Field, Shape};

const fn required(name: &'static str, shape: Shape, summary: &'static str) -> Field {
    Field { name, shape, required: true, summary }
}

const fn optional(name: &'static str, shape: Shape, summary: &'static str) -> Field {
    Field { name, shape, required: false, summary }
}

/// Adds the fields that triggers of all kinds have.
macro_rules! fields {
    ($($own:expr),+ $(,)?) => {
        &[
            $($own,)+
            optional("description", Shape::Name, "What the trigger is for."),
            optional("if", Shape::Expression, "What must hold for a fire to start an execution."),
            optional("input", Shape::Any, "The execution's input; what the trigger brings if absent."),
            optional("labels", Shape::Object, "Labels of the execution."),
            optional("id", Shape::Text, "The execution's id; made up if absent."),
            optional("enabled", Shape::Boolean, "Whether a deploy leaves it active; true if absent."),
        ]
    };
}

static SCHEDULE: &[Field] = fields![
    optional(
        "cron",
        Shape::Custom,
        "Five fields, `minute hour day month weekday`, or six with seconds first; or a list of such lines."
    ),
    optional(
        "every",
        Shape::Custom,
        "An interval, counted from 1970 and not from a deploy; instead of `cron`."
    ),
    optional("offset", Shape::Custom, "How long after each multiple of `every`."),
    optional("at", Shape::Custom, "A time, or a list of times; instead of `cron`."),
    optional("zone", Shape::Name, "The time zone, such as `Europe/Berlin`; UTC if absent."),
    optional("from", Shape::Name, "The first time that may fire."),
    optional("until", Shape::Name, "The first time that may not fire any more."),
    optional(
        "jitter",
        Shape::Custom,
        "Each time is put off by a part of this, which depends on the trigger and the time."
    ),
    optional(
        "overlap",
        Shape::OneOf(OVERLAPS),
        "What happens to a time while an execution of an earlier one has not ended; `allow` if absent."
    ),
    optional(
        "catchUp",
        Shape::Custom,
        "What happens to missed times: `{missed, window, max}`, with `missed` one of `none`, `last` and `all`."
    ),
];

static WEBHOOK: &[Field] = fields![
    required(
        "verify",
        Shape::Custom,
        "How requests prove where they come from: `{scheme, secret}`, or `none`."
    ),
    optional(
        "dedupe",
        Shape::Expression,
        "What identifies a delivery; what the scheme has as its id if absent."
    ),
    optional(
        "respond",
        Shape::OneOf(RESPONSES),
        "What the sender gets: that the execution will run, or its output; `accepted` if absent."
    ),
    optional(
        "headers",
        Shape::Custom,
        "Names of request headers that expressions see; never those that prove the sender, such as `Authorization`."
    ),
    optional(
        "challenge",
        Shape::Custom,
        "How to answer the question whether it is there: `{if, value}`."
    ),
    optional(
        "allowGet",
        Shape::Boolean,
        "Whether a GET fires it, too; only with the scheme `token`."
    ),
    optional(
        "maxBodyBytes",
        Shape::Integer,
        "The largest body; 1 MiB if absent, and 5 MiB at most."
    ),
];

static EVENT: &[Field] = fields![
    required(
        "type",
        Shape::Custom,
        "The type of the events, or a list of types; `order.*` is every type that begins with `order.`."
    ),
    optional("source", Shape::Name, "The source that they must have."),
    optional("debounce", Shape::Custom, "Fires the last of several events: `{key, period, max}`."),
    optional("batch", Shape::Custom, "Fires several events together: `{key, size, wait}`."),
    optional(
        "throttle",
        Shape::Custom,
        "Starts at most `limit` executions in any span of `per`: `{key, limit, per, over}`, with `over` one of `queue`, `drop` and `latest`."
    ),
];

static POLL: &[Field] = fields![
    required("every", Shape::Custom, "How often the source is read."),
    required(
        "request",
        Shape::Custom,
        "The config of the `api-call` that reads a page; sees `cursor` and `secrets`."
    ),
    required(
        "items",
        Shape::Expression,
        "The list of items in a page; sees `body`, `headers`, `status` and `cursor`."
    ),
    optional("key", Shape::Expression, "What identifies an item; sees `item`."),
    optional(
        "cursorOnly",
        Shape::Boolean,
        "Says that items have no `key`, and the cursor alone tells which ones are new."
    ),
    optional(
        "next",
        Shape::Any,
        "The cursor after a page; sees what `items` does, and the last `item`."
    ),
    optional(
        "more",
        Shape::Expression,
        "Whether there is another page to be read at once, if the cursor has moved; sees what `next` does."
    ),
    optional(
        "lookback",
        Shape::Custom,
        "How far times in the cursor are moved back for each read."
    ),
    optional("start", Shape::Custom, "The cursor of the first read; `{}` if absent."),
];

static STREAM: &[Field] = fields![
    required(
        "source",
        Shape::Custom,
        "What is read: `{redis, stream}`, or `{postgres, table, key}` with `done` and `order`, or with `safe: xid` and `xid`."
    ),
    optional(
        "from",
        Shape::Name,
        "Where a new trigger begins: `now`, `beginning`, or after an entry of this id; `now` if absent. A table whose rows are marked is read from its beginning."
    ),
    optional(
        "every",
        Shape::Custom,
        "How often it is read where it has nothing new; 1s if absent."
    ),
    optional(
        "key",
        Shape::Expression,
        "What identifies an item, if not its id in the stream or the key of its row; sees `item`."
    ),
];

static WORKFLOW_ENDED: &[Field] = fields![
    required(
        "workflow",
        Shape::Name,
        "The workflow whose executions end; `*` for all but its own."
    ),
    optional("status", Shape::Custom, "With which status, or a list of them; any if absent."),
    optional("self", Shape::Boolean, "Says that a workflow is meant to start itself."),
];

const OVERLAPS: &[&str] = &["allow", "skip", "queue", "cancel-running"];
const RESPONSES: &[&str] = &["accepted", "output"];

impl TriggerKindName {
    /// The fields that a trigger of this kind may have.
    pub const fn fields(self) -> &'static [Field] {
        match self {
            Self::Schedule => SCHEDULE,
            Self::Webhook => WEBHOOK,
            Self::Event => EVENT,
            Self::Poll => POLL,
            Self::Stream => STREAM,
            Self::WorkflowEnded => WORKFLOW_ENDED,
        }
    }

    /// One sentence for the docs and the schema.
    pub const fn summary(self) -> &'static str {
        match self {
            Self::Schedule => "Fires at the times of a schedule.",
            Self::Webhook => "Fires with requests of other systems; brings the body.",
            Self::Event => "Fires with events that are published; brings their data.",
            Self::Poll => {
                "Reads an HTTP resource again and again, and fires for each new item; brings the item."
            }
            Self::Stream => {
                "Fires with the entries of a Redis stream or the rows of a PostgreSQL table; brings the entry."
            }
            Self::WorkflowEnded => "Fires when an execution ends; brings what is known of it.",
        }
    }
}
