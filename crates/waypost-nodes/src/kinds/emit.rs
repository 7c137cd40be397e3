//! `emit`: sends a signal to another execution.
//!
//! The signal is sent with the commit that completes the node, so it can be neither lost nor doubled between
//! the two executions.

use serde_json::Value;
use waypost_core::kind::{Behaviour, ConfigFault, EmitSpec, Family, KindSpec, Shape};

use crate::NodeKind;
use crate::config::{ConfigMap, fields_template, optional, required};

pub(crate) static KIND: NodeKind =
    NodeKind { spec: &SPEC, compile: |config| read(config).map(Behaviour::Emit), handler: None };

static SPEC: KindSpec = KindSpec {
    name: "emit",
    aliases: &["send-signal"],
    family: Family::Logic,
    body: None,
    summary: "Sends a signal to another execution, which it waits for with `wait-for-events`.",
    fields: &[
        required("to", Shape::Text, "The id of the execution that receives it."),
        required("signal", Shape::Text, "The name of the signal."),
        optional("body", Shape::Any, "What it carries; null if absent."),
        optional(
            "optional",
            Shape::Boolean,
            "Whether the node completes also if there is no such execution, or it has ended. Its output is `{delivered, execution}`.",
        ),
    ],
};

fn read(config: &ConfigMap) -> Result<EmitSpec, Vec<ConfigFault>> {
    let is_empty = |field: &&str| {
        config.get(*field).and_then(Value::as_str).is_none_or(|text| text.trim().is_empty())
    };
    let fault =
        |field: &str| ConfigFault::at(field, format!("`{field}` must be text and not empty"));
    let faults: Vec<_> =
        ["to", "signal"].iter().filter(|f| is_empty(f)).map(|f| fault(f)).collect();
    if !faults.is_empty() {
        return Err(faults);
    }
    let sent = fields_template(config, &["to", "signal", "body"]).map_err(|fault| vec![fault])?;
    let optional = config.get("optional").and_then(Value::as_bool) == Some(true);
    Ok(EmitSpec { config: sent, optional })
}
