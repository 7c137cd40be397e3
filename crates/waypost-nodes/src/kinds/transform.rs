//! `transform`: a value made from other values.

use waypost_core::kind::{Behaviour, Family, KindSpec, Shape};

use crate::NodeKind;
use crate::config::{required, required_template};

pub(crate) static KIND: NodeKind = NodeKind {
    spec: &SPEC,
    compile: |config| {
        let template = required_template(config, "value").map_err(|fault| vec![fault])?;
        Ok(Behaviour::Value { template, result: false })
    },
    handler: None,
};

static SPEC: KindSpec = KindSpec {
    name: "transform",
    aliases: &[],
    family: Family::Logic,
    body: None,
    summary: "Makes a value from other values; it is the node's output.",
    fields: &[required("value", Shape::Any, "The value; any JSON, with `${{ }}` anywhere in it.")],
};
