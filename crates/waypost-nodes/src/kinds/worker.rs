//! `worker`: a task for a handler that runs remotely, in a worker process. The engine only offers
//! the task; a worker that serves the handler's name takes it and reports.
//!
//! Secrets go into `secrets` only. An offered task is stored, so it has their places and not their
//! values; the instance that hands the task over seals the values to the worker's public key.

use serde_json::{Value, json};
use waypost_core::expr::{Expression, Template};
use waypost_core::kind::{Behaviour, ConfigFault, Family, KindSpec, Shape};
use waypost_core::limits::{SECRET_NAME_CHARS_MAX, SECRETS_MAX};

use crate::NodeKind;
use crate::config::{ConfigMap, fault_at, missing, no_secrets, optional, required, template};

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
        optional(
            "secrets",
            Shape::Object,
            "Secrets for the handler, by the names that it knows them by; sealed to the worker's key.",
        ),
    ],
};

fn compile(config: &ConfigMap) -> Result<Behaviour, Vec<ConfigFault>> {
    let message = "a secret for a worker is only allowed in `secrets`";
    let hint = "write `secrets: { TOKEN: \"${{ secrets.name }}\" }` beside `input`; the worker gets \
                it under that name";
    let other_fields = no_secrets(config, Some("secrets"), message, hint);
    match (handler(config), task_config(config), other_fields, check_secrets(config)) {
        (Ok(handler), Ok(config), Ok(()), Ok(())) => {
            Ok(Behaviour::Task { handler: handler.into(), slot: None, config })
        }
        (handler, input, other_fields, secrets) => {
            let faults = [handler.err(), input.err(), other_fields.err(), secrets.err()];
            Err(faults.into_iter().flatten().collect())
        }
    }
}

/// The input alone, or with the secrets where there are any.
fn task_config(config: &ConfigMap) -> Result<Template, ConfigFault> {
    let input = input(config)?;
    match config.get("secrets") {
        Some(Value::Object(secrets)) if !secrets.is_empty() => {
            let both = json!({
                "input": config.get("input").unwrap_or(&Value::Null),
                "secrets": secrets,
            });
            Template::compile(&both).map_err(|fault| ConfigFault {
                path: fault.path,
                message: fault.message,
                hint: None,
            })
        }
        _ => Ok(input),
    }
}

/// Every entry has a name that can be an environment variable, and is one secret. With text around it,
/// the worker could not remove the secret itself from an output.
fn check_secrets(config: &ConfigMap) -> Result<(), ConfigFault> {
    let secrets = match config.get("secrets") {
        None => return Ok(()),
        Some(Value::Object(secrets)) => secrets,
        Some(_) => return Err(ConfigFault::at("secrets", "`secrets` must be an object")),
    };
    if secrets.len() > SECRETS_MAX {
        let message = format!("a node may use {SECRETS_MAX} secrets, not {}", secrets.len());
        return Err(ConfigFault::at("secrets", message));
    }
    for (name, value) in secrets {
        if !is_variable(name) {
            let message = format!("{name:?} is not a name for a secret");
            let hint =
                "a name has up to 64 letters, digits and `_`, and does not begin with a digit";
            return Err(ConfigFault {
                hint: Some(hint.into()),
                ..fault_at(&["secrets", name], message)
            });
        }
        if !is_secret(value) {
            let message = "must be one secret and nothing else";
            let hint = "write \"${{ secrets.name }}\"; what is no secret goes into `input`";
            return Err(ConfigFault {
                hint: Some(hint.into()),
                ..fault_at(&["secrets", name], message)
            });
        }
    }
    Ok(())
}

fn is_secret(value: &Value) -> bool {
    let is_secret =
        |hole: &Expression| hole.secret().is_some() && hole.references().mentions("secrets");
    matches!(Template::compile(value), Ok(Template::Hole(hole)) if is_secret(&hole))
}

fn is_variable(name: &str) -> bool {
    name.len() <= SECRET_NAME_CHARS_MAX
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
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
