//! The description of all routes, OpenAPI 3.1, made from the table that the server itself works by.

use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::body::{FORM, YAML};
use super::parameter::{Parameter, ParameterPlace, REPEATED_MAX};
use super::route::{Access, Body, Content, Route};
use crate::problem::{self, Code, WireProblem};
use crate::table::routes;
use crate::wire;

/// Problems of every request.
const ANYWHERE: &[Code] = &[Code::BadParameter, Code::ForeignOrigin];
/// Problems of every request that is not a probe.
const BEHIND_THE_DOOR: &[Code] =
    &[Code::Forbidden, Code::RateLimited, Code::Internal, Code::StoreUnavailable];

/// Problems of every request by a link.
const WITH_A_LINK: &[Code] =
    &[Code::NotFound, Code::LinkExpired, Code::RateLimited, Code::Internal, Code::StoreUnavailable];

/// Problems of every request that its action verifies.
const SIGNED: &[Code] = &[Code::RateLimited, Code::Internal, Code::StoreUnavailable];

/// The component that is the schema of definitions.
const DEFINITION: &str = "DefinitionSource";

/// The document. Whether keys are needed is part of the truth; so is what a definition looks like,
/// which depends on the kinds of nodes and comes from outside.
pub fn document(needs_keys: bool, definition: &Value) -> Value {
    let mut generator = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into())
        .into_generator();
    let mut paths = Map::new();
    for route in routes() {
        let operation = operation(route, needs_keys, &mut generator);
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_lowercase()] = operation;
    }
    generator.subschema_for::<WireProblem>();
    let mut schemas = generator.take_definitions(true);
    schemas.insert(DEFINITION.to_owned(), component(definition));
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Waypost",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Durable workflows over HTTP. Errors are problems by RFC 9457 with a stable `code`.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "tags": tags(),
        "paths": paths,
        "components": { "schemas": schemas },
    });
    if needs_keys {
        document["components"]["securitySchemes"] = json!({
            "key": { "type": "http", "scheme": "bearer", "description": "`waypost keys create` makes keys." }
        });
    }
    document
}

/// The smallest definition that does something.
fn example() -> Value {
    let config = json!({ "value": "Hello, ${{ input.name | default('world') }}!" });
    json!({ "name": "greeting", "nodes": [{ "id": "greet", "type": "output", "config": config }] })
}

/// A schema of its own document, as a component: its references now start from the root.
fn component(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let is_root = fields.contains_key("$defs");
            let kept = fields.iter().filter(|(name, _)| !(is_root && *name == "$schema"));
            let fields = kept.map(|(name, value)| match (name.as_str(), value) {
                ("$ref", Value::String(place)) => {
                    let place =
                        place.replacen('#', &format!("#/components/schemas/{DEFINITION}"), 1);
                    (name.clone(), Value::from(place))
                }
                _ => (name.clone(), component(value)),
            });
            Value::Object(fields.collect())
        }
        Value::Array(values) => Value::Array(values.iter().map(component).collect()),
        other => other.clone(),
    }
}

fn tags() -> Value {
    json!([
        { "name": "definitions", "description": "Versions of workflows." },
        { "name": "executions", "description": "Durable lives of definitions." },
        { "name": "control", "description": "What can be asked of an execution." },
        { "name": "workers", "description": "Remote workers: taking tasks, and reporting on them." },
        { "name": "blobs", "description": "Payloads by the digest of their content." },
        { "name": "streams", "description": "Events as they happen." },
        { "name": "system", "description": "The server itself." },
        { "name": "breakers", "description": "Circuit breakers of nodes." },
        { "name": "triggers", "description": "What starts executions: schedules, webhooks, events, polls." },
        { "name": "webhooks", "description": "Endpoints that get messages about executions, and their messages." },
        { "name": "administration", "description": "Keys, and who did what." },
    ])
}

fn operation(route: &Route, needs_keys: bool, generator: &mut SchemaGenerator) -> Value {
    let mut operation = json!({
        "operationId": route.name,
        "tags": [route.tag],
        "summary": route.summary,
        "parameters": route.parameters.iter().map(parameter).collect::<Vec<_>>(),
        "responses": responses(route, needs_keys, generator),
    });
    let rights = match route.access {
        Access::Public => "Needs no key.".to_owned(),
        Access::Link(_) => "Needs no key: the token in the path is one.".to_owned(),
        Access::Signed => "Needs no key: the trigger says how requests are signed.".to_owned(),
        Access::Roles(roles) => {
            let names: Vec<_> = roles.iter().map(|role| role.name()).collect();
            format!("Roles: {}.", names.join(", "))
        }
    };
    operation["description"] = Value::from(format!("{} {rights}", route.notes).trim());
    match route.body {
        Body::None => {}
        Body::Json { schema, optional } => {
            let schema = schema(generator);
            operation["requestBody"] = json!({ "required": !optional, "content": { "application/json": { "schema": schema } } });
        }
        Body::Form { schema } => {
            let schema = schema(generator);
            operation["requestBody"] = json!({
                "required": true,
                "content": { "application/json": { "schema": schema }, FORM: { "schema": { "type": "object" } } },
            });
        }
        Body::Upload => {
            operation["requestBody"] = json!({
                "required": true,
                "content": { "application/octet-stream": { "schema": binary() } },
            });
        }
        Body::Raw { .. } => {
            operation["requestBody"] = json!({
                "required": false,
                "content": { "*/*": { "schema": binary() } },
            });
        }
        Body::Definition => {
            let reference = format!("#/components/schemas/{DEFINITION}");
            let content = json!({ "schema": { "$ref": reference }, "example": example() });
            let name = YAML.first().copied().unwrap_or_default();
            operation["requestBody"] = json!({
                "required": true,
                "content": { "application/json": content, name: content },
            });
        }
    }
    if needs_keys {
        operation["security"] = match route.access {
            Access::Public | Access::Link(_) | Access::Signed => json!([]),
            Access::Roles(_) => json!([{ "key": [] }]),
        };
    }
    operation
}

fn parameter(parameter: &Parameter) -> Value {
    let place = match parameter.place {
        ParameterPlace::Path => "path",
        ParameterPlace::Query => "query",
        ParameterPlace::Header => "header",
    };
    let schema = parameter.form.schema();
    let schema = match parameter.many {
        true => json!({ "type": "array", "items": schema, "maxItems": REPEATED_MAX }),
        false => schema,
    };
    json!({
        "name": parameter.name, "in": place, "required": parameter.place == ParameterPlace::Path,
        "description": parameter.about, "schema": schema,
    })
}

/// Any bytes.
fn binary() -> Value {
    json!({ "type": "string", "contentMediaType": "application/octet-stream" })
}

/// One of the events of a stream: until version 3.2, OpenAPI describes streams so.
fn event(data: &Schema) -> Value {
    json!({
        "type": "object",
        "properties": {
            "id": { "type": "string", "description": "Its place in the stream." },
            "event": { "type": "string", "description": "Its type; `end`, `dropped` or `problem` end the stream." },
            "data": {
                "type": "string",
                "contentMediaType": "application/json",
                "contentSchema": { "anyOf": [data, { "type": "object" }] },
            },
        },
    })
}

fn responses(route: &Route, needs_keys: bool, generator: &mut SchemaGenerator) -> Value {
    let mut responses = Map::new();
    for reply in route.replies {
        let mut response = json!({ "description": reply.when });
        match reply.content {
            Content::None => {}
            Content::Json(schema) => {
                response["content"] =
                    json!({ "application/json": { "schema": schema(generator) } });
            }
            Content::Stream => {
                let event = event(&generator.subschema_for::<wire::Event>());
                response["content"] = json!({ "text/event-stream": { "schema": event } });
            }
            Content::Bytes => {
                response["content"] = json!({ "application/octet-stream": { "schema": binary() } });
            }
            Content::Text => {
                response["content"] = json!({ "text/plain": { "schema": { "type": "string" } } });
            }
            Content::Html => {
                response["content"] = json!({ "text/html": { "schema": { "type": "string" } } });
            }
        }
        match responses.get_mut(&reply.status.to_string()) {
            // The same in another form.
            Some(before) => {
                if let Some((name, content)) =
                    reply.content.media_type().zip(response.get("content"))
                {
                    before["content"][name] = content[name].clone();
                }
            }
            None => drop(responses.insert(reply.status.to_string(), response)),
        }
    }
    let schema = json!({ "$ref": "#/components/schemas/Problem" });
    for code in codes(route, needs_keys) {
        let response = responses.entry(code.status().as_str()).or_insert_with(|| {
            json!({ "description": "", "content": { problem::CONTENT_TYPE: { "schema": schema } } })
        });
        let known = response["description"].as_str().unwrap_or_default();
        let separator = if known.is_empty() { "" } else { ", or " };
        let text = format!("{known}{separator}`{}`: {}", code.name(), code.title());
        response["description"] = Value::from(text);
    }
    responses.insert(
        "default".to_owned(),
        json!({ "description": "Any other problem.",
                "content": { problem::CONTENT_TYPE: { "schema": schema } } }),
    );
    Value::Object(responses)
}

/// Every problem of a route.
fn codes(route: &Route, needs_keys: bool) -> Vec<Code> {
    let mut codes: Vec<Code> = [route.problems, ANYWHERE].concat();
    match route.access {
        Access::Public => {}
        Access::Link(_) => codes.extend(WITH_A_LINK),
        Access::Signed => codes.extend(SIGNED),
        Access::Roles(_) => {
            codes.extend(BEHIND_THE_DOOR);
            codes.extend(needs_keys.then_some(Code::Unauthenticated));
        }
    }
    match route.body {
        Body::None => {}
        Body::Upload => codes.extend([
            Code::BodyTooLarge,
            Code::UnsupportedMediaType,
            Code::BodyTimeout,
            Code::Draining,
        ]),
        Body::Raw { .. } => codes.extend([
            Code::BodyTooLarge,
            Code::UnsupportedMediaType,
            Code::BodyTimeout,
            Code::Draining,
        ]),
        Body::Json { .. } | Body::Form { .. } | Body::Definition => codes.extend([
            Code::BadBody,
            Code::BodyTooLarge,
            Code::UnsupportedMediaType,
            Code::BodyTimeout,
            Code::Draining,
        ]),
    }
    codes.sort_unstable();
    codes.dedup();
    codes
}
