//! The description of all routes, OpenAPI 3.1, made from the table that the server itself works by.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::dispatch::YAML;
use super::parameter::{Parameter, Place};
use super::route::{Access, Body, Content, Route};
use crate::problem::{self, Code, WireProblem};
use crate::table::routes;

/// What may come of any request that needs a key or a body.
const ANYWHERE: &[Code] = &[
    Code::BadParameter,
    Code::Forbidden,
    Code::RateLimited,
    Code::Internal,
    Code::StoreUnavailable,
];

/// The document. Whether keys are needed is part of the truth.
pub fn document(needs_keys: bool) -> Value {
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
    let schemas = generator.take_definitions(true);
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

fn tags() -> Value {
    json!([
        { "name": "definitions", "description": "Versions of workflows." },
        { "name": "executions", "description": "Durable lives of definitions." },
        { "name": "steering", "description": "What can be asked of an execution." },
        { "name": "streams", "description": "Events as they happen." },
        { "name": "system", "description": "The server itself." },
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
        Body::Definition => {
            let json = json!({ "schema": { "type": "object" } });
            let yaml =
                json!({ "schema": { "type": "string", "description": "a definition in YAML" } });
            let name = YAML.first().copied().unwrap_or_default();
            operation["requestBody"] =
                json!({ "required": true, "content": { "application/json": json, name: yaml } });
        }
    }
    if needs_keys {
        operation["security"] = match route.access {
            Access::Public => json!([]),
            Access::Roles(_) => json!([{ "key": [] }]),
        };
    }
    operation
}

fn parameter(parameter: &Parameter) -> Value {
    let place = match parameter.place {
        Place::Path => "path",
        Place::Query => "query",
        Place::Header => "header",
    };
    let schema = parameter.form.schema();
    let schema = match parameter.many {
        true => json!({ "type": "array", "items": schema, "maxItems": 20 }),
        false => schema,
    };
    json!({
        "name": parameter.name, "in": place, "required": parameter.place == Place::Path,
        "description": parameter.about, "schema": schema,
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
                response["content"] =
                    json!({ "text/event-stream": { "schema": { "type": "string" } } });
            }
            Content::Text => {
                response["content"] = json!({ "text/plain": { "schema": { "type": "string" } } });
            }
        }
        responses.insert(reply.status.to_string(), response);
    }
    let mut codes: Vec<Code> = route.problems.to_vec();
    if route.access != Access::Public {
        codes.extend(ANYWHERE);
        codes.extend(needs_keys.then_some(Code::Unauthenticated));
    }
    match route.body {
        Body::None => {}
        Body::Json { .. } | Body::Definition => codes.extend([
            Code::BadBody,
            Code::BodyTooLarge,
            Code::UnsupportedMediaType,
            Code::BodyTimeout,
            Code::Draining,
        ]),
    }
    codes.sort_unstable();
    codes.dedup();
    let schema = json!({ "$ref": "#/components/schemas/Problem" });
    for code in codes {
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
