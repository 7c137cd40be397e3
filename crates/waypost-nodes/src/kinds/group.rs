//! `group`: runs the nodes of its body once.

use waypost_core::kind::{Behaviour, BodyKind, Family, KindSpec};

use crate::NodeKind;

pub(crate) static KIND: NodeKind =
    NodeKind { spec: &SPEC, compile: |_| Ok(Behaviour::Group), handler: None };

static SPEC: KindSpec = KindSpec {
    name: "group",
    aliases: &[],
    family: Family::Logic,
    body: Some(BodyKind::Once),
    summary: "Runs the nodes of its body; an unhandled failure in it is the group's.",
    fields: &[],
};
