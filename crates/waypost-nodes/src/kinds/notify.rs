//! `notify`: a message to the webhook endpoints that want it.
//!
//! The message is written in the commit that completes the node, so the node has no handler and cannot fail
//! for the endpoint: deliveries are the dispatcher's business.

use waypost_core::kind::{Behaviour, Family, KindSpec, Shape};

use crate::NodeKind;
use crate::config::{required, required_template};

pub(crate) static KIND: NodeKind = NodeKind {
    spec: &SPEC,
    compile: |config| {
        let template = required_template(config, "message").map_err(|fault| vec![fault])?;
        Ok(Behaviour::Value { template, result: false })
    },
    handler: None,
};

static SPEC: KindSpec = KindSpec {
    name: waypost_core::outbox::NOTIFY,
    aliases: &[],
    family: Family::Logic,
    body: None,
    summary: "Sends a message to the webhook endpoints that subscribe to `execution.notified`.",
    fields: &[required(
        "message",
        Shape::Any,
        "What it says; any JSON. It is the node's output, too.",
    )],
};
