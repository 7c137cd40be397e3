//! A request for every route of the table, made from the table: a new route is tested by being there.

use waypost_server::http::parameter::{Form, ParameterPlace};
use waypost_server::http::route::{Body, Route};

use super::Ask;
use super::house::QUICK;

/// An id that executions of tests have.
pub(crate) const KNOWN: &str = "known";

/// The path of a route, with a value for every `{name}`.
pub(crate) fn path(route: &Route) -> String {
    let segments = route.path.split('/').map(|segment| {
        let name = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        name.map_or_else(|| segment.to_owned(), |name| value(route, name))
    });
    segments.collect::<Vec<_>>().join("/")
}

fn value(route: &Route, name: &str) -> String {
    let mut parameters = route.parameters.iter().filter(|one| one.place == ParameterPlace::Path);
    match parameters.find(|one| one.name == name).map(|one| one.form) {
        Some(Form::Workflow) => QUICK.to_owned(),
        Some(Form::Integer(min, _)) => min.to_string(),
        Some(Form::Uuid | Form::Delivery) => "0".repeat(32),
        Some(Form::Digest) => "0".repeat(64),
        Some(Form::Wait) => format!("{KNOWN}~1"),
        Some(Form::Id | Form::Token(_) | Form::Text(_) | Form::NodePath) => KNOWN.to_owned(),
        form => panic!("{}: {name} has no sample: {form:?}", route.name),
    }
}

/// The target of a request that is answered whole: streams are not followed.
pub(crate) fn target(route: &Route) -> String {
    let follows = route.parameters.iter().any(|one| one.name == "follow");
    path(route) + if follows { "?follow=false" } else { "" }
}

/// A request that reaches the route's action or fails for its body, and changes nothing.
pub(crate) fn ask(route: &Route) -> Ask {
    let ask = Ask::new(route.method.as_str(), &target(route));
    match route.body {
        Body::None | Body::Raw { .. } => ask,
        Body::Upload => ask.body("content"),
        Body::Json { .. } | Body::Form { .. } | Body::Definition => {
            ask.json(&serde_json::json!({ "no such field": 1 }))
        }
    }
}
