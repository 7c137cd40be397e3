//! `join`: where branches meet again. How many must arrive is the node's `join`, not its config.

use waypost_core::kind::{Behaviour, ConfigFault, Family, Kind, KindSpec};

use crate::NodeKind;
use crate::config::Config;

pub(crate) const KIND: &dyn NodeKind = &Join;

static SPEC: KindSpec = KindSpec {
    name: "join",
    aliases: &[],
    family: Family::Logic,
    summary: "Gathers the outputs of the nodes it needs: {dependency: output}.",
    fields: &[],
};

struct Join;

impl NodeKind for Join {}

impl Kind for Join {
    fn spec(&self) -> &'static KindSpec {
        &SPEC
    }

    fn compile(&self, _config: &Config) -> Result<Behaviour, Vec<ConfigFault>> {
        Ok(Behaviour::Gather)
    }
}
