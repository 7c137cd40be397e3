//! `transform`: a value made from other values.

use waypost_core::kind::{Behaviour, ConfigFault, Family, Kind, KindSpec, Shape};

use crate::NodeKind;
use crate::config::{ConfigMap, missing, required, template};

pub(crate) const KIND: &dyn NodeKind = &Transform;

static SPEC: KindSpec = KindSpec {
    name: "transform",
    aliases: &[],
    family: Family::Logic,
    summary: "Makes a value from other values; it is the node's output.",
    fields: &[required("value", Shape::Any, "The value; any JSON, with `${{ }}` anywhere in it.")],
};

struct Transform;

impl NodeKind for Transform {}

impl Kind for Transform {
    fn spec(&self) -> &'static KindSpec {
        &SPEC
    }

    fn compile(&self, config: &ConfigMap) -> Result<Behaviour, Vec<ConfigFault>> {
        match template(config, "value") {
            Ok(Some(template)) => Ok(Behaviour::Value { template, result: false }),
            Ok(None) => Err(vec![missing("value")]),
            Err(fault) => Err(vec![fault]),
        }
    }
}
