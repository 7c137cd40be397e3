//! The page of the HTTP API, made from the table of routes and the schemas of what crosses the wire.

use std::fmt::Write as _;

use serde_json::{Map, Value};
use waypost_server::http::openapi;
use waypost_server::http::parameter::{Parameter, ParameterPlace};
use waypost_server::http::route::{Access, Body, Content, Route};
use waypost_server::problem::Code;
use waypost_server::table::routes;

/// The page, with how to make it again.
pub(super) fn render(update: &str) -> String {
    let definition = waypost_lang::schema(&waypost_nodes::catalog());
    let description = openapi::document(true, &definition);
    let mut page = introduction(update);
    for tag in description["tags"].as_array().unwrap() {
        let (name, about) = (text(&tag["name"]), text(&tag["description"]));
        write!(page, "## {}\n\n{about}\n\n", capitalised(name)).unwrap();
        for route in routes().iter().filter(|route| route.tag == name) {
            let method = route.method.as_str().to_lowercase();
            section(&mut page, route, &description["paths"][route.path][&method]);
        }
    }
    types(&mut page, description["components"]["schemas"].as_object().unwrap());
    problems(&mut page);
    page.trim_end().to_owned() + "\n"
}

fn introduction(update: &str) -> String {
    format!(
        "# HTTP API\n\
         \n\
         <!-- Made from crates/waypost-server/src/table.rs; do not edit. This makes it again:\n     \
         {update} -->\n\
         \n\
         Every path that `waypost serve` knows, made from the table that it works by.\n\
         The [guide](../guides/http.md) is a tour of it; `/openapi.json` is the same for programs.\n\
         \n\
         - Bodies are JSON, with `Content-Type: application/json`; definitions may be YAML, too.\n\
         - Where keys are asked for, each request carries one: `Authorization: Bearer wpk_…`.\n\
         - Fields, parameters and paths that are not known are refused, never ignored.\n\
         - Times are RFC 3339 in UTC; ids are text.\n\
         - A list has `next` where there is more: give it as `cursor` (events: as `after`) to go on.\n\
         - What is not a 2xx is a [problem](#problems).\n  \
         Any request may give {}.\n  \
         A request with a body may also give {}, and one that changes something {}.\n\
         \n",
        codes(&[
            Code::BadRequest,
            Code::BadParameter,
            Code::Unauthenticated,
            Code::Forbidden,
            Code::ForeignOrigin,
            Code::NotAcceptable,
            Code::RateLimited,
            Code::Internal,
            Code::StoreUnavailable,
            Code::Overloaded,
        ]),
        codes(&[Code::BadBody, Code::BodyTimeout, Code::BodyTooLarge, Code::UnsupportedMediaType,]),
        codes(&[Code::Draining]),
    )
}

fn section(page: &mut String, route: &Route, operation: &Value) {
    let stop = if route.summary.ends_with('?') { "" } else { "." };
    write!(page, "### {} {}\n\n{}{stop}\n", route.method, route.path, route.summary).unwrap();
    for sentence in sentences(route.notes) {
        writeln!(page, "{sentence}").unwrap();
    }
    let who = match route.access {
        Access::Public => "Anybody, without a key".to_owned(),
        Access::Link(_) => "The bearer of the link, without a key".to_owned(),
        Access::Signed => "Senders that sign as the trigger says, without a key".to_owned(),
        Access::Roles(roles) => {
            let names: Vec<_> = roles.iter().map(|role| format!("`{}`", role.name())).collect();
            names.join(", ")
        }
    };
    write!(page, "\nFor: {who}. Name: `{}`.\n\n", route.name).unwrap();
    if !route.parameters.is_empty() {
        page.push_str("| parameter | in | is | meaning |\n| --- | --- | --- | --- |\n");
        route.parameters.iter().for_each(|one| parameter(page, one));
        page.push('\n');
    }
    match route.body {
        Body::None => {}
        Body::Raw { .. } => page.push_str("Body: of any type.\n\n"),
        Body::Upload => page.push_str("Body: the content, of any type; it is streamed.\n\n"),
        Body::Definition => page.push_str("Body: a [definition](definition.md), YAML or JSON.\n\n"),
        Body::Form { .. } => {
            page.push_str("Body: JSON, or what the form of the page posts.\n\n");
        }
        Body::Json { optional, .. } => {
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            let optional = if optional { ", or nothing" } else { "" };
            write!(page, "Body: {}{optional}.\n\n", kind(schema)).unwrap();
        }
    }
    page.push_str("| reply | when | holds |\n| --- | --- | --- |\n");
    for reply in route.replies {
        let schema = &operation["responses"][reply.status.to_string()]["content"];
        let holds = match reply.content {
            Content::None => "nothing".to_owned(),
            Content::Json(_) => kind(&schema["application/json"]["schema"]),
            Content::Stream => "server-sent events".to_owned(),
            Content::Text => "text".to_owned(),
            Content::Html => "a page".to_owned(),
            Content::Bytes => "bytes".to_owned(),
        };
        writeln!(page, "| {} | {} | {holds} |", reply.status, reply.when).unwrap();
    }
    page.push('\n');
    if !route.problems.is_empty() {
        write!(page, "Problems: {}.\n\n", codes(route.problems)).unwrap();
    }
}

fn parameter(page: &mut String, parameter: &Parameter) {
    let place = match parameter.place {
        ParameterPlace::Path => "path",
        ParameterPlace::Query => "query",
        ParameterPlace::Header => "header",
    };
    // No form takes this, and whoever is refused is told what would do.
    let form = parameter.form.check("\0").unwrap_err();
    let (name, about) = (parameter.name, parameter.about);
    writeln!(page, "| `{name}` | {place} | {form} | {about} |").unwrap();
}

/// The forms of bodies and replies, each with a table of its fields.
fn types(page: &mut String, schemas: &Map<String, Value>) {
    page.push_str("## Types\n\nFields marked with * are always there.\n\n");
    // Definitions have a page of their own.
    for (name, schema) in schemas.iter().filter(|(name, _)| *name != "DefinitionSource") {
        write!(page, "### {name}\n\n").unwrap();
        if let Some(about) = schema["description"].as_str() {
            sentences(about).for_each(|sentence| writeln!(page, "{sentence}").unwrap());
            page.push('\n');
        }
        let Some(fields) = schema["properties"].as_object() else {
            write!(page, "{}.\n\n", capitalised(&kind(schema))).unwrap();
            continue;
        };
        page.push_str("| field | is | meaning |\n| --- | --- | --- |\n");
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        for (field, schema) in fields {
            let star = if required.contains(&Value::from(field.as_str())) { "*" } else { "" };
            let about = schema["description"].as_str().unwrap_or_default().replace('\n', " ");
            writeln!(page, "| `{field}`{star} | {} | {about} |", kind(schema)).unwrap();
        }
        page.push('\n');
    }
}

/// What a schema takes, in a few words.
fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return format!("[{name}](#{})", name.to_lowercase());
    }
    let names = |values: &[Value]| {
        let names: Vec<_> = values.iter().map(|value| format!("`{}`", text(value))).collect();
        format!("one of {}", names.join(", "))
    };
    if let Some(values) = schema["enum"].as_array() {
        return names(values);
    }
    if let Some(either) = schema["oneOf"].as_array().or_else(|| schema["anyOf"].as_array()) {
        let constants: Vec<_> = either.iter().filter_map(|one| one.get("const").cloned()).collect();
        let others = either.iter().filter(|one| one["type"] != "null");
        return match constants.is_empty() {
            true => others.map(kind).collect::<Vec<_>>().join(" or "),
            false => names(&constants),
        };
    }
    let single = match &schema["type"] {
        Value::Array(several) => several.iter().find(|one| *one != "null"),
        one => Some(one),
    };
    match single.and_then(Value::as_str) {
        Some("string") if schema["format"] == "date-time" => "time".to_owned(),
        Some("string") => "text".to_owned(),
        Some("integer" | "number") => "number".to_owned(),
        Some("array") => format!("list of {}", kind(&schema["items"])),
        Some("object") if schema["additionalProperties"].is_object() => {
            format!("map of {}", kind(&schema["additionalProperties"]))
        }
        Some(other) => other.to_owned(),
        None => "any JSON".to_owned(),
    }
}

fn problems(page: &mut String) {
    page.push_str(
        "## Problems\n\n\
         A problem is `application/problem+json` by RFC 9457: a [Problem](#problem).\n\
         Its `code` is stable and for programs, its `detail` and `hint` are for people.\n\
         Where it helps to wait, `Retry-After` says for how long.\n\n\
         | status | code | means |\n| --- | --- | --- |\n",
    );
    for code in Code::ALL {
        let (status, name, title) = (code.status().as_u16(), code.name(), code.title());
        writeln!(page, "| {status} | `{name}` | {title} |").unwrap();
    }
}

fn codes(codes: &[Code]) -> String {
    codes.iter().map(|code| format!("`{}`", code.name())).collect::<Vec<_>>().join(", ")
}

/// One sentence a line, as all pages have it.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(". ").map(str::trim).filter(|sentence| !sentence.is_empty())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + characters.as_str()
}
