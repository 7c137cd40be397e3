//! `output`: the execution's result.

use waypost_core::kind::{Behaviour, Family, KindSpec, Shape};

use crate::NodeKind;
use crate::config::{required, required_template};

pub(crate) static KIND: NodeKind = NodeKind {
    spec: &SPEC,
    compile: |config| {
        let template = required_template(config, "value").map_err(|fault| vec![fault])?;
        Ok(Behaviour::Value { template, result: true })
    },
    handler: None,
};

static SPEC: KindSpec = KindSpec {
    name: "output",
    aliases: &[],
    family: Family::Action,
    body: None,
    summary: "Makes a value the execution's output.",
    fields: &[required("value", Shape::Any, "The value; any JSON, with `${{ }}` anywhere in it.")],
};
