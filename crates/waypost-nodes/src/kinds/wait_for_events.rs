//! `wait-for-events`: waits for a signal from outside.

use serde_json::Value;
use waypost_core::expr::Template;
use waypost_core::kind::{Behaviour, ConfigFault, Family, KindSpec, Shape};

use crate::NodeKind;
use crate::config::{ConfigMap, duration, exactly_one, expression, optional, required_template};

pub(crate) static KIND: NodeKind = NodeKind { spec: &SPEC, compile, handler: None };

static SPEC: KindSpec = KindSpec {
    name: "wait-for-events",
    aliases: &["wait-for-signal", "wait", "wait_for_events"],
    family: Family::Logic,
    body: None,
    summary: "Waits for a signal; its output is the signal's body.",
    fields: &[
        optional("name", Shape::Text, "The signal's name. Required, here or as `event`."),
        optional("event", Shape::Text, "Another word for `name`."),
        optional(
            "filter",
            Shape::ExpressionWith("signal"),
            "Must give true for a signal to count; sees its body as `signal`.",
        ),
        optional("timeout", Shape::Duration, "Fails with kind `timeout` after this long."),
    ],
};

fn compile(config: &ConfigMap) -> Result<Behaviour, Vec<ConfigFault>> {
    let name = signal_name(config);
    let filter = expression(config, "filter");
    let timeout = duration(config, "timeout", None);
    match (name, filter, timeout) {
        (Ok(name), Ok(filter), Ok(timeout)) => Ok(Behaviour::Signal { name, filter, timeout }),
        (name, filter, timeout) => {
            Err([name.err(), filter.err(), timeout.err()].into_iter().flatten().collect())
        }
    }
}

fn signal_name(config: &ConfigMap) -> Result<Template, ConfigFault> {
    exactly_one(config, "name", "event")?;
    let field = if config.contains_key("name") { "name" } else { "event" };
    match config.get(field) {
        Some(Value::String(name)) if !name.trim().is_empty() => required_template(config, field),
        _ => Err(ConfigFault::at(field, "a signal's name must be text and not empty")),
    }
}
