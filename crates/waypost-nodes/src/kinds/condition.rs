//! `condition`: selects branch `true` or `false`.

use waypost_core::kind::{Behaviour, ConfigFault, Family, Kind, KindSpec, Shape};

use crate::NodeKind;
use crate::config::{ConfigMap, expression, missing, required};

pub(crate) const KIND: &dyn NodeKind = &ConditionKind;

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

struct ConditionKind;

impl NodeKind for ConditionKind {}

impl Kind for ConditionKind {
    fn spec(&self) -> &'static KindSpec {
        &SPEC
    }

    fn compile(&self, config: &ConfigMap) -> Result<Behaviour, Vec<ConfigFault>> {
        match expression(config, "expression") {
            Ok(Some(expression)) => Ok(Behaviour::Condition(expression)),
            Ok(None) => Err(vec![missing("expression")]),
            Err(fault) => Err(vec![fault]),
        }
    }
}
