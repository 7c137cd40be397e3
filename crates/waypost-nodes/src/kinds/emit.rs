//! `emit`: sends a signal to another execution.
//!
//! The signal is sent with the commit that completes the node, so it can be neither lost nor doubled between
//! the two executions.

use serde_json::Value;
use waypost_core::kind::{Behaviour, ConfigFault, EmitSpec, Family, KindSpec, Shape};
use waypost_core::published::keyed_name;
use waypost_core::reserved::refuse_reserved;

use crate::NodeKind;
use crate::config::{ConfigMap, duration, fields_template, is_key, optional, required};

pub(crate) static KIND: NodeKind =
    NodeKind { spec: &SPEC, compile: |config| read(config).map(Behaviour::Emit), handler: None };

static SPEC: KindSpec = KindSpec {
    name: "emit",
    aliases: &["send-signal"],
    family: Family::Logic,
    body: None,
    summary: "Sends a signal to another execution, or to all that wait for it by its key.",
    fields: &[
        optional(
            "to",
            Shape::Text,
            "The id of the execution that receives it. Required, or `key`.",
        ),
        optional(
            "key",
            Shape::Scalar,
            "A correlation key: every execution receives it that waits for the signal with this key. A text, \
             a number or a boolean.",
        ),
        required("signal", Shape::Text, "The name of the signal."),
        optional("body", Shape::Any, "What it carries; null if absent."),
        optional(
            "keep",
            Shape::Duration,
            "With `key`: how long it is kept for the first execution that waits for it, if none does yet. \
             Default: 1 day; at most 30 days.",
        ),
        optional(
            "optional",
            Shape::Boolean,
            "Whether the node completes also if there is no such execution, or it has ended. Its output is `{delivered, execution}`.",
        ),
    ],
};

fn read(config: &ConfigMap) -> Result<EmitSpec, Vec<ConfigFault>> {
    let published = config.contains_key("key");
    let faults: Vec<_> =
        [addressee(config), signal(config)].into_iter().filter_map(Result::err).collect();
    if !faults.is_empty() {
        return Err(faults);
    }
    let sent = fields_template(config, &["to", "key", "signal", "body", "keep"]);
    let optional = config.get("optional").and_then(Value::as_bool) == Some(true);
    Ok(EmitSpec { config: sent.map_err(|fault| vec![fault])?, published, optional })
}

fn signal(config: &ConfigMap) -> Result<(), ConfigFault> {
    text(config, "signal")?;
    let name = config.get("signal").and_then(Value::as_str).unwrap_or_default();
    refuse_reserved(name).map_err(|fault| ConfigFault::at("signal", fault))?;
    let literal = config.contains_key("key") && !name.contains("${{");
    match literal.then(|| keyed_name(name, "key")) {
        Some(Err(fault)) => Err(ConfigFault::at("signal", fault)),
        Some(Ok(_)) | None => Ok(()),
    }
}

/// It is for one execution, or for all that wait for it.
fn addressee(config: &ConfigMap) -> Result<(), ConfigFault> {
    if !config.contains_key("key") {
        if config.contains_key("keep") {
            let fault = ConfigFault::at("keep", "`keep` is about signals with a `key`");
            return Err(fault.hint("the execution that gets it keeps it"));
        }
        if !config.contains_key("to") {
            let fault = ConfigFault::at("to", "either `to` or `key` is required");
            return Err(
                fault.hint("`to` is the id of one execution, `key` reaches all that wait for it")
            );
        }
        return text(config, "to");
    }
    for (field, message) in [
        ("to", "`to` and `key` exclude each other"),
        ("optional", "`optional` is about `to`: a signal with a `key` needs no receiver"),
    ] {
        if config.contains_key(field) {
            return Err(ConfigFault::at(field, message));
        }
    }
    duration(config, "keep", None)?;
    is_key(config.get("key"), &["key"])
}

fn text(config: &ConfigMap, field: &str) -> Result<(), ConfigFault> {
    let text = config.get(field).and_then(Value::as_str);
    match text.is_some_and(|text| !text.trim().is_empty()) {
        true => Ok(()),
        false => Err(ConfigFault::at(field, format!("`{field}` must be text and not empty"))),
    }
}
