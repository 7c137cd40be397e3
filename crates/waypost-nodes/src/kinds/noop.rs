//! `noop`: a node that does nothing, as a meeting point of edges or a placeholder.

use waypost_core::kind::{Behaviour, Family, KindSpec};

use crate::NodeKind;

pub(crate) static KIND: NodeKind =
    NodeKind { spec: &SPEC, compile: |_| Ok(Behaviour::Pass), handler: None };

static SPEC: KindSpec = KindSpec {
    name: "noop",
    aliases: &[],
    family: Family::Logic,
    body: None,
    summary: "Does nothing; its output is null.",
    fields: &[],
};
