//! `noop`: a node that does nothing, as a meeting point of edges or a placeholder.

use waypost_core::kind::{Behaviour, ConfigFault, Family, Kind, KindSpec};

use crate::NodeKind;
use crate::config::ConfigMap;

pub(crate) const KIND: &dyn NodeKind = &Noop;

static SPEC: KindSpec = KindSpec {
    name: "noop",
    aliases: &[],
    family: Family::Logic,
    summary: "Does nothing; its output is null.",
    fields: &[],
};

struct Noop;

impl NodeKind for Noop {}

impl Kind for Noop {
    fn spec(&self) -> &'static KindSpec {
        &SPEC
    }

    fn compile(&self, _config: &ConfigMap) -> Result<Behaviour, Vec<ConfigFault>> {
        Ok(Behaviour::Pass)
    }
}
