//! `input`: the execution's input as a node of the graph.

use waypost_core::kind::{Behaviour, Family, KindSpec};

use crate::NodeKind;

pub(crate) static KIND: NodeKind =
    NodeKind { spec: &SPEC, compile: |_| Ok(Behaviour::Input), handler: None };

static SPEC: KindSpec = KindSpec {
    name: "input",
    aliases: &[],
    family: Family::Action,
    body: None,
    summary: "Gives the execution's input as its output.",
    fields: &[],
};
