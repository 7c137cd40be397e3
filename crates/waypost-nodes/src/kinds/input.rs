//! `input`: the execution's input as a node of the graph.

use waypost_core::kind::{Behaviour, ConfigFault, Family, Kind, KindSpec};

use crate::NodeKind;
use crate::config::ConfigMap;

pub(crate) const KIND: &dyn NodeKind = &Input;

static SPEC: KindSpec = KindSpec {
    name: "input",
    aliases: &[],
    family: Family::Action,
    summary: "Gives the execution's input as its output.",
    fields: &[],
};

struct Input;

impl NodeKind for Input {}

impl Kind for Input {
    fn spec(&self) -> &'static KindSpec {
        &SPEC
    }

    fn compile(&self, _config: &ConfigMap) -> Result<Behaviour, Vec<ConfigFault>> {
        Ok(Behaviour::Input)
    }
}
