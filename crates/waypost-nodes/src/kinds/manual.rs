//! `manual`: the trigger of an execution that is started by hand or by a program.

use waypost_core::kind::{Behaviour, ConfigFault, Family, Kind, KindSpec};

use crate::NodeKind;
use crate::config::ConfigMap;

pub(crate) const KIND: &dyn NodeKind = &Manual;

static SPEC: KindSpec = KindSpec {
    name: "manual",
    aliases: &[],
    family: Family::Trigger,
    summary: "Starts when a person or a program starts the execution; its output is the input.",
    fields: &[],
};

struct Manual;

impl NodeKind for Manual {}

impl Kind for Manual {
    fn spec(&self) -> &'static KindSpec {
        &SPEC
    }

    fn compile(&self, _config: &ConfigMap) -> Result<Behaviour, Vec<ConfigFault>> {
        Ok(Behaviour::Input)
    }
}
