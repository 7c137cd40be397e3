//! `async-operation`: starts an operation of an outside system, and waits until it is done.
//!
//! Its body is made of `start` and `poll` (`BodyKind::Made`). With `callback`, the node itself waits after
//! its body has; with `poll`, the body has a loop, and a branch may be left to take when
//! its time is over.

use serde_json::{Map, Value};
use waypost_core::kind::{
    Behaviour, BodyKind, ConfigFault, Family, KindSpec, OperationSpec, Shape,
};

use crate::NodeKind;
use crate::config::{ConfigMap, duration, fault_at, on_timeout, optional, required};

pub(crate) static KIND: NodeKind = NodeKind { spec: &SPEC, compile, handler: None };

static SPEC: KindSpec = KindSpec {
    name: "async-operation",
    aliases: &["async_operation"],
    family: Family::Logic,
    body: Some(BodyKind::Made),
    summary: "Starts an operation of an outside system, and waits until it calls back or is done.",
    fields: &[
        required(
            "start",
            Shape::Custom,
            "The node that starts it: `{type, config}` and other fields of a node, such as `retry`. With `callback`, its config may have `${{ callback.url }}`.",
        ),
        optional(
            "callback",
            Shape::Boolean,
            "The operation calls back, and its body is the output. The default without `poll`.",
        ),
        optional(
            "poll",
            Shape::Custom,
            "How to ask whether it is done: `{every, until, type, config, output, maxPolls}`.",
        ),
        optional(
            "timeout",
            Shape::Duration,
            "How long it may take once it is started: then the node fails with kind `timeout`, or goes on as `onTimeout` says.",
        ),
        optional(
            "onTimeout",
            Shape::Name,
            "What follows a timeout: `fail` (default), or a branch to take.",
        ),
    ],
};

fn compile(config: &ConfigMap) -> Result<Behaviour, Vec<ConfigFault>> {
    let mut faults = Vec::new();
    check_node(config, "start", &mut faults);
    let callback = config.get("callback").map(|value| value == &Value::Bool(true));
    let timeout = duration(config, "timeout", None).map_err(|fault| faults.push(fault));
    let on_timeout = on_timeout(config).map_err(|fault| faults.push(fault));
    if config.contains_key("poll") {
        check_poll(config, &mut faults);
        if callback == Some(true) {
            faults.push(ConfigFault::at("poll", "`callback` and `poll` exclude each other"));
        }
    } else if callback == Some(false) {
        let fault = ConfigFault::at("callback", "without a callback, `poll` is needed");
        faults.push(fault.hint("write `poll: {every, until, type, config}`"));
    }
    match (timeout, on_timeout) {
        (Ok(timeout), Ok(on_timeout)) if faults.is_empty() => {
            Ok(match (config.contains_key("poll"), on_timeout) {
                (true, None) => Behaviour::Group,
                (true, Some(branch)) => Behaviour::Polled(branch),
                (false, on_timeout) => Behaviour::Operation(OperationSpec { timeout, on_timeout }),
            })
        }
        _ => Err(faults),
    }
}

/// A node in a field. What is in it is checked as in any other node.
fn check_node<'c>(
    config: &'c ConfigMap,
    field: &str,
    faults: &mut Vec<ConfigFault>,
) -> Option<&'c Map<String, Value>> {
    let Some(node) = config.get(field).and_then(Value::as_object) else {
        let message = format!("`{field}` must be a node: `{{type, config}}`");
        faults.push(ConfigFault::at(field, message));
        return None;
    };
    for of_graph in ["needs", "join", "onError"] {
        if node.contains_key(of_graph) {
            let message = format!("`{of_graph}` belongs to the node itself, not to `{field}`");
            faults.push(fault_at(&[field, of_graph], message));
        }
    }
    Some(node)
}

fn check_poll(config: &ConfigMap, faults: &mut Vec<ConfigFault>) {
    let Some(poll) = check_node(config, "poll", faults) else { return };
    for (field, hint) in [
        ("every", "how long to wait between two polls, such as `10s`"),
        ("until", "an expression that is true when it is done; sees the last result as `previous`"),
    ] {
        if !poll.contains_key(field) {
            faults.push(ConfigFault::at("poll", format!("`poll` needs `{field}`")).hint(hint));
        }
    }
    let is_computed = |value: &Value| value.as_str().is_some_and(|text| text.contains("${{"));
    if config.get("timeout").is_some_and(is_computed) {
        let message = "with `poll`, `timeout` must be a fixed duration";
        faults.push(ConfigFault::at("timeout", message));
    }
}
