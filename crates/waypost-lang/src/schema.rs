//! The JSON Schema of definitions, for editors: completion, descriptions, first squiggles.
//!
//! It is more permissive than validation (it has no rules for graphs or expressions) and never
//! stricter: the schema accepts everything that [`crate::parse`] accepts. Tests compare the two.

mod blocks;
mod triggers;

use serde_json::{Map, Value, json};
use waypost_core::kind::{BodyKind, Catalog, Family, Field, KindSpec, Shape};
use waypost_core::limits::{ATTEMPTS_MAX, NODE_ID_CHARS_MAX, NODES_MAX, WORKFLOW_NAME_CHARS_MAX};
use waypost_core::trigger::TriggerKindName;

use self::blocks::{breaker, budget, concurrency};
use crate::definition::FAILURE_POLICIES;

/// JSON Schema 2020-12 of a definition that uses these kinds.
pub fn schema(catalog: &Catalog<'_>) -> Value {
    let id = format!("^[A-Za-z_][A-Za-z0-9_-]{{0,{}}}$", NODE_ID_CHARS_MAX - 1);
    let name = format!("^[A-Za-z0-9_][A-Za-z0-9_.-]{{0,{}}}$", WORKFLOW_NAME_CHARS_MAX - 1);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Waypost workflow definition",
        "type": "object",
        "required": ["name", "nodes"],
        "additionalProperties": false,
        "properties": {
            "$schema": optional("Where this schema is, for editors.", of("string")),
            "name": described("The workflow's name.", json!({ "type": "string", "pattern": name })),
            "description": optional("What the workflow is for.", of("string")),
            "labels": optional("Labels to find the workflow by.", json!({
                "type": "object",
                "additionalProperties": { "type": ["string", "number", "boolean"] },
            })),
            "input": optional(
                "JSON Schema of the input, checked when an execution starts.",
                of("object"),
            ),
            "timeout": optional("How long a whole execution may take.", duration()),
            "failurePolicy": optional(
                "What an unhandled failure does to the rest: end it at once, or finish the \
                 branches that do not depend on it.",
                json!({ "enum": FAILURE_POLICIES, "default": "fail-fast" }),
            ),
            "concurrency": optional(
                "How many executions of one key may be under way at once.",
                reference("concurrency"),
            ),
            "budget": optional(
                "What each execution may spend on tokens.",
                reference("budget"),
            ),
            "callable": optional(
                "Whether `workflow` nodes of others may start it.",
                json!({ "type": "boolean", "default": true }),
            ),
            "on": optional("What starts executions.", triggers::on()),
            "nodes": described("The nodes of the graph.", reference("nodes")),
        },
        "$defs": {
            "id": { "type": "string", "pattern": id },
            "breaker": breaker(),
            "budget": budget(),
            "concurrency": concurrency(),
            "nodes": {
                "type": "array",
                "minItems": 1,
                "maxItems": NODES_MAX,
                "items": reference("node"),
            },
            "node": node(catalog),
            "need": need(),
            "join": join(),
            "retry": retry(),
        },
    })
}

fn described(description: &str, mut schema: Value) -> Value {
    if let Value::Object(fields) = &mut schema {
        fields.insert("description".into(), description.into());
    }
    schema
}

/// A field that may be left empty, which equals leaving it out.
fn optional(description: &str, mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(fields) if fields.contains_key("$ref") => {
            schema = json!({ "anyOf": [schema, of("null")] });
        }
        Value::Object(fields) => {
            if let Some(kinds) = fields.get_mut("type") {
                let mut known = kinds.as_array().cloned().unwrap_or_else(|| vec![kinds.clone()]);
                known.push("null".into());
                *kinds = known.into();
            }
            if let Some(Value::Array(words)) = fields.get_mut("enum") {
                words.push(Value::Null);
            }
        }
        _ => {}
    }
    described(description, schema)
}

fn of(kind: &str) -> Value {
    json!({ "type": kind })
}

fn flag(default: bool) -> Value {
    json!({ "type": "boolean", "default": default })
}

fn reference(definition: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{definition}") })
}

fn object(required: &str, properties: &Value) -> Value {
    json!({
        "type": "object",
        "required": [required],
        "additionalProperties": false,
        "properties": properties,
    })
}

fn duration() -> Value {
    json!({ "type": ["string", "number"], "examples": ["30s", "1h 30m", "PT30S", 1500] })
}

fn node(catalog: &Catalog<'_>) -> Value {
    let mut types: Vec<&str> = catalog.names().collect();
    let families = [Family::Trigger, Family::Logic, Family::Action].map(Family::name);
    types.extend(families);
    let mut rules: Vec<Value> = catalog.0.iter().map(|kind| config_of(kind.spec())).collect();
    rules.push(json!({
        "if": { "properties": { "type": { "enum": families } }, "required": ["type"] },
        "then": { "properties": { "subType": { "type": "string" } }, "required": ["subType"] },
    }));
    json!({
        "type": "object",
        "required": ["type"],
        // Of the two, one is needed, and the other may be left empty.
        "oneOf": [named("id", "nodeId"), named("nodeId", "id")],
        "additionalProperties": false,
        "properties": {
            "id": optional("The node's id.", reference("id")),
            "nodeId": optional("Long form of `id`.", reference("id")),
            "type": described("The kind of node.", json!({ "enum": types })),
            "subType": optional(
                "The kind of node, where `type` is its family.",
                json!({ "enum": catalog.names().collect::<Vec<_>>() }),
            ),
            "label": optional("A name for people.", of("string")),
            "registryId": optional("Carried along.", of("string")),
            "needs": described("What must be done before.", json!({ "anyOf": [
                reference("need"),
                { "type": "array", "items": reference("need") },
                of("null"),
            ] })),
            "join": optional("How many of `needs` it takes.", reference("join")),
            "config": optional("What the kind needs to know.", of("object")),
            "retry": optional("What follows a failed attempt.", reference("retry")),
            "timeout": optional("How long one attempt may take.", duration()),
            "heartbeat": optional("How long one attempt may give no sign of life.", duration()),
            "deadline": optional(
                "How long all attempts and the waits between them may take.",
                duration(),
            ),
            "breaker": optional(
                "The circuit breaker that its attempts wait for while it is open.",
                reference("breaker"),
            ),
            "onError": optional(
                "What follows a failure: `fail`, `continue`, or a branch to take.",
                on_error(),
            ),
            "delivery": optional(
                "What an interrupted attempt means: try again, or never start twice.",
                json!({ "enum": ["at-least-once", "at-most-once"], "default": "at-least-once" }),
            ),
            "variables": optional(
                "Variables to set when the node completes; its result is `output`.",
                of("object"),
            ),
            "merge": optional(
                "Allow others to set the same variables: the last one wins.",
                json!({ "enum": ["last"] }),
            ),
            "nodes": optional("The body of a container.", reference("nodes")),
        },
        "allOf": rules,
    })
}

/// A node that has its id under one of the two names, and under the other none.
fn named(name: &str, other: &str) -> Value {
    json!({
        "required": [name],
        "properties": { name: { "type": "string" }, other: { "type": "null" } },
    })
}

/// `if` the node is of this kind, in the short or the long form, `then` this is its config.
fn config_of(spec: &KindSpec) -> Value {
    let mut names = vec![spec.name];
    names.extend(spec.aliases);
    let fields = spec.fields.iter();
    let fields =
        fields.map(|field| (field.name.to_owned(), described(field.summary, shape_of(field))));
    let mut properties: Map<String, Value> = match TriggerKindName::parse(spec.name) {
        Some(kind) => triggers::properties(kind),
        None => fields.collect(),
    };
    let repeats = spec.body.is_some_and(BodyKind::is_repeated);
    let retry = || if repeats { of("null") } else { reference("retry") };
    properties.entry("retry").or_insert_with(retry);
    let required: Vec<&str> =
        spec.fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    let config = json!({
        "type": if required.is_empty() { json!(["object", "null"]) } else { json!("object") },
        "description": spec.summary,
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    let mut then = json!({ "properties": { "config": config } });
    let mut needed = Vec::new();
    if !required.is_empty() {
        needed.push("config");
    }
    if spec.body.is_some_and(|body| body != BodyKind::Made) {
        needed.push("nodes");
    }
    let (nodes, attempts) = match spec.body {
        Some(BodyKind::Made) => (of("null"), Some(["timeout", "delivery"])),
        Some(_) => (of("array"), Some(["timeout", "delivery"])),
        None => (of("null"), None),
    };
    then["properties"]["nodes"] = nodes;
    for field in attempts.into_iter().flatten().chain(repeats.then_some("retry")) {
        then["properties"][field] = of("null");
    }
    if spec.family != Family::Action {
        then["properties"]["heartbeat"] = of("null");
        then["properties"]["breaker"] = of("null");
    }
    if !needed.is_empty() {
        then["required"] = json!(needed);
    }
    json!({
        "if": { "anyOf": [
            { "properties": { "type": { "enum": names } }, "required": ["type"] },
            { "properties": { "subType": { "enum": names } }, "required": ["subType"] },
        ] },
        "then": then,
    })
}

fn shape_of(field: &Field) -> Value {
    let hole = json!({ "type": "string", "pattern": "\\$\\{\\{" });
    match field.shape {
        Shape::Text | Shape::Expression | Shape::ExpressionWith(_) | Shape::Name => of("string"),
        Shape::Any | Shape::Custom => json!({}),
        Shape::Scalar => json!({ "type": ["string", "number", "boolean"] }),
        Shape::Object | Shape::Schema => of("object"),
        Shape::List => of("array"),
        Shape::OneOf(words) => json!({ "enum": words }),
        Shape::Integer => json!({ "type": "integer", "minimum": 0 }),
        Shape::Number => json!({ "anyOf": [of("number"), hole] }),
        Shape::Boolean => of("boolean"),
        Shape::Duration => duration(),
    }
}

fn on_error() -> Value {
    let word = json!({
        "type": "string", "default": "fail", "examples": ["fail", "continue", "error"],
    });
    let fields = json!({
        "take": described("`continue`, or a branch to take.", of("string")),
        "definitionErrors": optional(
            "Also where the definition is at fault: an expression that fails, a config \
             that cannot be rendered, a secret that is missing.",
            flag(false),
        ),
    });
    json!({ "anyOf": [word, object("take", &fields), of("null")] })
}

fn need() -> Value {
    let branch = json!({ "type": ["string", "boolean", "number", "null"] });
    let fields = json!({
        "node": reference("id"),
        "branch": described("The branch of that node which leads here.", branch),
    });
    json!({ "anyOf": [reference("id"), object("node", &fields)] })
}

fn join() -> Value {
    let count = json!({ "anyOf": [
        { "enum": ["all", "any"] },
        { "type": "integer", "minimum": 1 },
    ] });
    let fields = json!({
        "count": count,
        "cancelRest": optional("Cancel what leads only here when the join fires.", flag(false)),
    });
    json!({ "anyOf": [count, object("count", &fields), of("null")] })
}

fn retry() -> Value {
    let matchers = json!({
        "type": "array",
        "items": { "type": ["string", "integer"] },
        "examples": [["5xx", 429, "timeout"]],
    });
    let number = |minimum: u32, maximum: u32, default: f64| json!({ "type": "number", "minimum": minimum, "maximum": maximum, "default": default });
    json!({
        "type": ["object", "null"],
        "additionalProperties": false,
        "properties": {
            "enabled": optional("Is anything retried?", flag(true)),
            "maxAttempts": optional("Total tries.", json!({
                "type": "integer", "minimum": 1, "maximum": ATTEMPTS_MAX, "default": 3,
            })),
            "waitDuration": optional("Wait before the second try.", duration()),
            "exponentialBackoff": optional("Does the wait grow?", flag(true)),
            "multiplier": optional("By how much it grows from try to try.", number(1, 100, 2.0)),
            "maxWait": optional("The wait never grows beyond this; jitter comes on top.", duration()),
            "jitter": optional(
                "Up to this share of the wait is added to it at random.",
                number(0, 1, 0.2),
            ),
            "retryOn": optional("Only these are retried.", matchers.clone()),
            "ignoreExceptions": optional("These are not retried.", matchers),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::{
        BREAKER_FIELDS, BUDGET_FIELDS, CONCURRENCY_FIELDS, FIELDS, NODE_FIELDS, RETRY_FIELDS,
    };

    #[test]
    fn the_schema_has_the_fields_that_reading_knows() {
        let schema = schema(&Catalog(&[]));
        for (pointer, fields) in [
            ("/properties", FIELDS),
            ("/$defs/breaker/properties", BREAKER_FIELDS),
            ("/$defs/budget/properties", BUDGET_FIELDS),
            ("/$defs/concurrency/properties", CONCURRENCY_FIELDS),
            ("/$defs/node/properties", NODE_FIELDS),
            ("/$defs/retry/properties", RETRY_FIELDS),
        ] {
            let mut known = fields.to_vec();
            known.sort_unstable();
            let described: Vec<&String> =
                schema.pointer(pointer).unwrap().as_object().unwrap().keys().collect();
            assert_eq!(described, known, "{pointer}");
        }
    }
}
