//! `join`: where branches meet again. How many must arrive is the node's `join`, not its config.

use waypost_core::kind::{Behaviour, ConfigFault, Family, Kind, KindSpec};

use crate::NodeKind;
use crate::config::ConfigMap;

pub(crate) const KIND: &dyn NodeKind = &JoinKind;

static SPEC: KindSpec = KindSpec {
    name: "join",
    aliases: &[],
    family: Family::Logic,
    summary: "Gathers the outputs of the nodes it needs: {dependency: output}.",
    fields: &[],
};

struct JoinKind;

impl NodeKind for JoinKind {}

impl Kind for JoinKind {
    fn spec(&self) -> &'static KindSpec {
        &SPEC
    }

    fn compile(&self, _config: &ConfigMap) -> Result<Behaviour, Vec<ConfigFault>> {
        Ok(Behaviour::Gather)
    }
}
