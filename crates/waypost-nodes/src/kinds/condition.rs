//! `condition`: selects branch `true` or `false`.

use waypost_core::kind::{Behaviour, ConfigFault, Family, KindSpec, Shape};

use crate::NodeKind;
use crate::config::{ConfigMap, expression, missing, required};

pub(crate) static KIND: NodeKind = NodeKind { spec: &SPEC, compile, handler: None };

static SPEC: KindSpec = KindSpec {
    name: "condition",
    aliases: &[],
    family: Family::Logic,
    body: None,
    summary: "Selects branch `true` or `false`.",
    fields: &[required(
        "expression",
        Shape::Expression,
        "Must give a JSON boolean: there is no truthiness.",
    )],
};

fn compile(config: &ConfigMap) -> Result<Behaviour, Vec<ConfigFault>> {
    match expression(config, "expression") {
        Ok(Some(expression)) => Ok(Behaviour::Condition(expression)),
        Ok(None) => Err(vec![missing("expression")]),
        Err(fault) => Err(vec![fault]),
    }
}
