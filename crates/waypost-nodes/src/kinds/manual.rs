//! `manual`: the trigger of an execution that is started by hand or by a program.

use waypost_core::kind::{Behaviour, Family, KindSpec};

use crate::NodeKind;

pub(crate) static KIND: NodeKind =
    NodeKind { spec: &SPEC, compile: |_| Ok(Behaviour::Trigger { manual: true }), handler: None };

static SPEC: KindSpec = KindSpec {
    name: "manual",
    aliases: &[],
    family: Family::Trigger,
    body: None,
    summary: "Starts when a person or a program starts the execution; its output is the input. Skipped when a \
              trigger that is a node starts it.",
    fields: &[],
};
