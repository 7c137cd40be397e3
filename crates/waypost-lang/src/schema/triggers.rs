//! Triggers: the entries of `on`, and the configs of nodes that are triggers.

use serde_json::{Map, Value, json};
use waypost_core::limits::{BATCH_SIZE_MAX, HOOK_BODY_BYTES_MAX, THROTTLE_LIMIT_MAX, TRIGGERS_MAX};
use waypost_core::schedule::CatchUp;
use waypost_core::trigger::{Over, TriggerKindName, VerifyScheme};

use crate::definition::SAFETIES;

use super::{described, duration, of, optional, reference, shape_of};

/// The list `on`.
pub(super) fn on() -> Value {
    let kinds = TriggerKindName::ALL.map(|kind| {
        let mut properties = properties(kind);
        let name = described("The trigger's name, its identity in all versions.", reference("id"));
        properties.insert(kind.name().to_owned(), name);
        let mut needed = vec![kind.name()];
        needed.extend(required(kind));
        json!({
            "type": "object",
            "description": kind.summary(),
            "properties": properties,
            "required": needed,
            "additionalProperties": false,
        })
    });
    json!({ "type": "array", "maxItems": TRIGGERS_MAX, "items": { "anyOf": kinds } })
}

/// The fields of a kind, but the one that names it.
pub(super) fn properties(kind: TriggerKindName) -> Map<String, Value> {
    let fields = kind.fields().iter().map(|field| {
        let shape = detail(kind, field.name).unwrap_or_else(|| shape_of(field));
        let schema = if field.required {
            described(field.summary, shape)
        } else {
            optional(field.summary, nullable(shape))
        };
        (field.name.to_owned(), schema)
    });
    fields.collect()
}

pub(super) fn required(kind: TriggerKindName) -> impl Iterator<Item = &'static str> {
    kind.fields().iter().filter(|field| field.required).map(|field| field.name)
}

/// A schema without a type of its own may have nulls anywhere in it.
fn nullable(schema: Value) -> Value {
    let has_type = schema.get("type").is_some() || schema.get("enum").is_some();
    if has_type || schema == json!({}) { schema } else { json!({ "anyOf": [schema, of("null")] }) }
}

/// What a field looks like whose shape only the trigger defines.
fn detail(kind: TriggerKindName, field: &str) -> Option<Value> {
    Some(match (kind, field) {
        (_, "every" | "offset" | "jitter" | "lookback") => duration(),
        (_, "cron" | "at" | "type" | "headers" | "status") => texts(),
        (_, "catchUp") => object(&json!({
            "missed": optional("Which of them fire after all.", json!({
                "enum": ["none", "last", "all"], "default": "last",
            })),
            "window": optional("Later than this, none does.", duration()),
            "max": optional("How many fire at once, at most.", json!({
                "type": "integer", "minimum": 1, "default": CatchUp::default().max,
            })),
        })),
        (_, "debounce") => object(&json!({
            "key": optional("By which events belong together; sees `event`.", of("string")),
            "period": described("How long after the last event.", duration()),
            "max": optional("How long after the first event at the latest.", duration()),
        })),
        (_, "batch") => object(&json!({
            "key": optional("By which events belong together; sees `event`.", of("string")),
            "size": described("How many events fire at once.", json!({
                "type": "integer", "minimum": 1, "maximum": BATCH_SIZE_MAX,
            })),
            "wait": described("How long after the first event at the latest.", duration()),
        })),
        (_, "throttle") => object(&json!({
            "key": optional("By which events belong together; sees `event`.", of("string")),
            "limit": described("How many executions may start in this time.", json!({
                "type": "integer", "minimum": 1, "maximum": THROTTLE_LIMIT_MAX,
            })),
            "per": described("In any span of this length.", duration()),
            "over": optional("What becomes of events beyond the limit.", json!({
                "enum": Over::NAMES, "default": "queue",
            })),
        })),
        (_, "challenge") => object(&json!({
            "if": described("Which requests ask.", of("string")),
            "value": described("The text of the answer.", of("string")),
        })),
        (_, "maxBodyBytes") => json!({
            "type": "integer", "minimum": 1, "maximum": HOOK_BODY_BYTES_MAX,
        }),
        (_, "verify") => json!({ "anyOf": [{ "const": "none" }, verify()] }),
        (_, "request") => of("object"),
        (TriggerKindName::Stream, "source") => json!({ "anyOf": [redis(), postgres()] }),
        _ => return None,
    })
}

fn verify() -> Value {
    object(&json!({
        "scheme": described("Who signs what.", json!({ "enum": VerifyScheme::NAMES })),
        "secret": optional("The name of a secret; several during a rotation.", nullable(texts())),
        "header": optional("Of `hmac`: the header with the signature.", of("string")),
        "algorithm": optional("Of `hmac`.", json!({ "enum": ["sha256", "sha512"] })),
        "encoding": optional("Of `hmac`: how the signature is written.", json!({
            "enum": ["hex", "base64"],
        })),
        "prefix": optional("Of `hmac`: what stands before the signature.", of("string")),
        "timestamp": optional("Of `hmac`: the header with the time.", of("string")),
        "signed": optional("Of `hmac`: what is signed, with `{body}` and `{timestamp}`.", of("string")),
    }))
}

fn redis() -> Value {
    needing(
        &["redis", "stream"],
        &json!({
            "redis": described("A source of the settings.", of("string")),
            "stream": described("The key of the stream.", of("string")),
        }),
    )
}

fn postgres() -> Value {
    needing(
        &["postgres", "table", "key"],
        &json!({
            "postgres": described("A source of the settings.", of("string")),
            "table": described("The table: `schema.table`, or one of `public`.", of("string")),
            "key": described("The column that identifies a row.", of("string")),
            "safe": optional("What keeps rows from being passed over that commit late.", json!({
                "enum": SAFETIES, "default": "mark",
            })),
            "done": optional(
                "Of `mark`: the column that is set when a row has fired, or `delete`.", of("string"),
            ),
            "order": optional("Of `mark`: the column that rows are ordered by.", of("string")),
            "xid": optional("Of `xid`: the column with the transaction, of type xid8.", of("string")),
        }),
    )
}

fn needing(fields: &[&str], properties: &Value) -> Value {
    let mut object = object(properties);
    object["required"] = json!(fields);
    object
}

fn texts() -> Value {
    json!({ "anyOf": [of("string"), { "type": "array", "minItems": 1, "items": of("string") }] })
}

fn object(properties: &Value) -> Value {
    json!({ "type": "object", "additionalProperties": false, "properties": properties })
}
