//! `output`: the execution's result.

use waypost_core::kind::{Behaviour, ConfigFault, Family, Kind, KindSpec, Shape};

use crate::NodeKind;
use crate::config::{ConfigMap, missing, required, template};

pub(crate) const KIND: &dyn NodeKind = &Output;

static SPEC: KindSpec = KindSpec {
    name: "output",
    aliases: &[],
    family: Family::Action,
    summary: "Makes a value the execution's output.",
    fields: &[required("value", Shape::Any, "The value; any JSON, with `${{ }}` anywhere in it.")],
};

struct Output;

impl NodeKind for Output {}

impl Kind for Output {
    fn spec(&self) -> &'static KindSpec {
        &SPEC
    }

    fn compile(&self, config: &ConfigMap) -> Result<Behaviour, Vec<ConfigFault>> {
        match template(config, "value") {
            Ok(Some(template)) => Ok(Behaviour::Value { template, result: true }),
            Ok(None) => Err(vec![missing("value")]),
            Err(fault) => Err(vec![fault]),
        }
    }
}
