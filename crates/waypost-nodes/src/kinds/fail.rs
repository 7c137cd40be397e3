//! `fail`: ends its path of the workflow with a failure of the author's own making.

use serde_json::Value;
use waypost_core::expr::Template;
use waypost_core::failure::kind::RESERVED;
use waypost_core::kind::{Behaviour, ConfigFault, Fail, Family, KindSpec, Shape};

use crate::NodeKind;
use crate::config::{ConfigMap, missing, optional, required, required_template, template};
use crate::outcome::HANDLER_KINDS;

pub(crate) static KIND: NodeKind = NodeKind { spec: &SPEC, compile, handler: None };

/// The failure's kind where the node does not name one.
const DEFAULT_KIND: &str = "failed";
/// Characters of a failure's kind.
const KIND_CHARS_MAX: usize = 64;

static SPEC: KindSpec = KindSpec {
    name: "fail",
    aliases: &[],
    family: Family::Logic,
    body: None,
    summary: "Fails with a message and a kind of your own; it is never tried again.",
    fields: &[
        required("message", Shape::Text, "What went wrong, for people."),
        optional(
            "kind",
            Shape::Name,
            "The failure's kind, for programs: lower-case letters, digits, `_` and `-`; `failed` if \
             absent.",
        ),
        optional("details", Shape::Any, "What else is worth knowing, as `failure.details`."),
    ],
};

fn compile(config: &ConfigMap) -> Result<Behaviour, Vec<ConfigFault>> {
    let message = message(config);
    let kind = failure_kind(config);
    let details = template(config, "details");
    match (message, kind, details) {
        (Ok(message), Ok(kind), Ok(details)) => {
            Ok(Behaviour::Fail(Fail { kind, message, details }))
        }
        (message, kind, details) => {
            Err([message.err(), kind.err(), details.err()].into_iter().flatten().collect())
        }
    }
}

fn message(config: &ConfigMap) -> Result<Template, ConfigFault> {
    match config.get("message") {
        None => Err(missing("message")),
        Some(Value::String(text)) if !text.trim().is_empty() => {
            required_template(config, "message")
        }
        Some(_) => Err(ConfigFault::at("message", "`message` must be text and not empty")),
    }
}

fn failure_kind(config: &ConfigMap) -> Result<String, ConfigFault> {
    let word = match config.get("kind") {
        None => return Ok(DEFAULT_KIND.to_owned()),
        Some(Value::String(word)) => word,
        Some(_) => return Err(ConfigFault::at("kind", "`kind` must be text")),
    };
    let is_word = word.starts_with(|first: char| first.is_ascii_lowercase())
        && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c));
    if !is_word || word.len() > KIND_CHARS_MAX {
        let message = format!("{word:?} cannot be the kind of a failure");
        return Err(ConfigFault::at("kind", message).hint(format!(
            "write a lower-case word of up to {KIND_CHARS_MAX} letters, digits, `_` and `-`, such \
             as `out_of_stock`"
        )));
    }
    if RESERVED.contains(&word.as_str()) || HANDLER_KINDS.contains(&word.as_str()) {
        let message = format!("`{word}` is reserved for failures of the engine and its handlers");
        return Err(ConfigFault::at("kind", message).hint("choose another word"));
    }
    Ok(word.clone())
}
