//! `notify`: a message to the webhook endpoints that want it.
//!
//! The message is written in the commit that completes the node, or with which it begins to wait, so the node
//! has no handler and cannot fail for the endpoint: deliveries are the dispatcher's business.

use serde_json::Value;
use waypost_core::kind::{Behaviour, ConfigFault, Family, KindSpec, NotifySpec, Shape};

use crate::NodeKind;
use crate::config::{ConfigMap, duration, fault_at, optional, required, required_template};

pub(crate) static KIND: NodeKind = NodeKind { spec: &SPEC, compile, handler: None };

static SPEC: KindSpec = KindSpec {
    name: waypost_core::outbox::NOTIFY,
    aliases: &[],
    family: Family::Logic,
    body: None,
    summary: "Sends a message to the webhook endpoints that subscribe to `execution.notified`.",
    fields: &[
        required(
            "message",
            Shape::Any,
            "What it says; any JSON. Unless the node waits, it is its output, too.",
        ),
        optional(
            "wait",
            Shape::Boolean,
            "Wait until every endpoint has accepted the message or it was given up; the output is \
             `{delivered, failed}`, numbers of endpoints.",
        ),
        optional(
            "timeout",
            Shape::Duration,
            "With `wait`: fails with kind `timeout` after this long.",
        ),
    ],
};

fn compile(config: &ConfigMap) -> Result<Behaviour, Vec<ConfigFault>> {
    let mut faults = Vec::new();
    let message = required_template(config, "message").map_err(|fault| faults.push(fault)).ok();
    let waits = config.get("wait").and_then(Value::as_bool) == Some(true);
    let timeout = duration(config, "timeout", None).map_err(|fault| faults.push(fault)).ok();
    if !waits && config.contains_key("timeout") {
        let fault = fault_at(&["timeout"], "`timeout` needs `wait: true`");
        faults.push(fault.hint("without it the node completes at once"));
    }
    match (message, waits, timeout) {
        (Some(message), true, Some(timeout)) if faults.is_empty() => {
            Ok(Behaviour::Notify(Box::new(NotifySpec { message, timeout })))
        }
        (Some(template), false, Some(_)) if faults.is_empty() => {
            Ok(Behaviour::Value { template, result: false })
        }
        _ => Err(faults),
    }
}
