//! `worker`: a task for a handler that runs remotely, in a worker process. The engine only offers
//! the task; a worker that serves the handler's name takes it and reports.
//!
//! It cannot use secrets: an offered task is stored and sent to another machine, and a worker has
//! its own access to secrets.

use serde_json::Value;
use waypost_core::expr::Template;
use waypost_core::kind::{Behaviour, ConfigFault, Family, KindSpec, Shape};

use crate::NodeKind;
use crate::config::{ConfigMap, missing, no_secrets, optional, required, template};

pub(crate) static KIND: NodeKind = NodeKind { spec: &SPEC, compile, handler: None };

/// Characters of a handler's name.
const HANDLER_CHARS_MAX: usize = 64;

static SPEC: KindSpec = KindSpec {
    name: "worker",
    aliases: &[],
    family: Family::Action,
    body: None,
    summary: "Has a remote worker do it; its output is what the worker's handler gives.",
    fields: &[
        required(
            "handler",
            Shape::Name,
            "Which handler: lower-case letters, digits, `.`, `_` and `-`, at most 64 of them.",
        ),
        optional("input", Shape::Any, "What the handler is given; null if absent."),
    ],
};

fn compile(config: &ConfigMap) -> Result<Behaviour, Vec<ConfigFault>> {
    let message = "a secret cannot be given to a remote worker";
    let hint = "give the worker its own access to the secret, or make the call with `api-call`";
    match (handler(config), input(config), no_secrets(config, None, message, hint)) {
        (Ok(handler), Ok(config), Ok(())) => {
            Ok(Behaviour::Task { handler: handler.into(), slot: None, config })
        }
        (handler, input, secrets) => {
            Err([handler.err(), input.err(), secrets.err()].into_iter().flatten().collect())
        }
    }
}

fn handler(config: &ConfigMap) -> Result<&str, ConfigFault> {
    match config.get("handler") {
        Some(Value::String(name)) if is_handler(name) => Ok(name),
        Some(name) => {
            let message = format!("{name} is not a handler's name");
            let hint = "a name has lower-case letters, digits, `.`, `_` and `-`, begins with a \
                        letter or digit, and has at most 64 characters";
            Err(ConfigFault::at("handler", message).hint(hint))
        }
        None => Err(missing("handler")),
    }
}

fn is_handler(name: &str) -> bool {
    let fits = |c: char| matches!(c, 'a'..='z' | '0'..='9');
    name.starts_with(fits)
        && name.len() <= HANDLER_CHARS_MAX
        && name.chars().all(|c| fits(c) || matches!(c, '.' | '_' | '-'))
}

fn input(config: &ConfigMap) -> Result<Template, ConfigFault> {
    match template(config, "input")? {
        Some(input) => Ok(input),
        None => {
            Template::compile(&Value::Null).map_err(|fault| ConfigFault::at("input", fault.message))
        }
    }
}
