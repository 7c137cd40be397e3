//! `condition`: selects branch `true` or `false`.

use waypost_core::kind::{Behaviour, ConfigFault, Family, Kind, KindSpec, Shape};

use crate::NodeKind;
use crate::config::{Config, expression, missing, required};

pub(crate) const KIND: &dyn NodeKind = &Condition;

static SPEC: KindSpec = KindSpec {
    name: "condition",
    aliases: &[],
    family: Family::Logic,
    summary: "Selects branch `true` or `false`.",
    fields: &[required(
        "expression",
        Shape::Expression,
        "Must give a JSON boolean: there is no truthiness.",
    )],
};

struct Condition;

impl NodeKind for Condition {}

impl Kind for Condition {
    fn spec(&self) -> &'static KindSpec {
        &SPEC
    }

    fn compile(&self, config: &Config) -> Result<Behaviour, Vec<ConfigFault>> {
        match expression(config, "expression") {
            Ok(Some(expression)) => Ok(Behaviour::Condition(expression)),
            Ok(None) => Err(vec![missing("expression")]),
            Err(fault) => Err(vec![fault]),
        }
    }
}
