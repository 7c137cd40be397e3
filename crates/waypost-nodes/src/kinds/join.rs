//! `join`: where branches meet again. How many must arrive is the node's `join`, not its config.

use waypost_core::kind::{Behaviour, Family, KindSpec};

use crate::NodeKind;

pub(crate) static KIND: NodeKind =
    NodeKind { spec: &SPEC, compile: |_| Ok(Behaviour::Gather), handler: None };

static SPEC: KindSpec = KindSpec {
    name: "join",
    aliases: &[],
    family: Family::Logic,
    body: None,
    summary: "Gathers the outputs of the nodes it needs: {dependency: output}.",
    fields: &[],
};
