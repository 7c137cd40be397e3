//! `stream`: a trigger of this kind as a node. The language reads its config, as it reads an entry of `on`.

use waypost_core::kind::{Family, KindSpec};
use waypost_core::trigger::TriggerKindName;

use crate::NodeKind;
use crate::config;

pub(crate) static KIND: NodeKind =
    NodeKind { spec: &SPEC, compile: |config| config::trigger(config, &SPEC), handler: None };

static SPEC: KindSpec = KindSpec {
    name: "stream",
    aliases: &[],
    family: Family::Trigger,
    body: None,
    summary: TriggerKindName::Stream.summary(),
    fields: TriggerKindName::Stream.fields(),
};
