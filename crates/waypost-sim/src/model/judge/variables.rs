//! What the variable was, and when. An item of a map has one of its own.

use std::collections::BTreeMap;
use std::rc::Rc;

use waypost_core::status::NodeStatus;

use super::Judge;
use crate::model::NodeRan;
use crate::program::{Kind, Node, Setting};

impl Judge<'_> {
    /// The variable as of an event.
    pub(super) fn variable(&self, seq: u64) -> u64 {
        let before = self.settings.iter().rev().find(|(at, _)| *at < seq);
        before.map_or(0, |(_, value)| *value)
    }
}

/// The values of the variable, each with the event that set it; the first one it had from the beginning.
pub(super) fn settings(
    nodes: &[Node],
    ran: &BTreeMap<String, NodeRan>,
    first: u64,
) -> Rc<[(u64, u64)]> {
    let mut set = Vec::new();
    collect(nodes, ran, &mut set);
    set.sort_by_key(|(seq, _)| *seq);
    let mut value = first;
    let next = |(seq, setting)| {
        value = match setting {
            Setting::To(value) => value,
            Setting::More => value + 1,
        };
        (seq, value)
    };
    std::iter::once((0, first)).chain(set.into_iter().map(next)).collect()
}

/// The settings of nodes and of those in their bodies, but for the items of maps.
fn collect(nodes: &[Node], ran: &BTreeMap<String, NodeRan>, set: &mut Vec<(u64, Setting)>) {
    for node in nodes {
        let Some(found) = ran.get(&node.id) else { continue };
        let completed = found.settled.filter(|_| found.status == NodeStatus::Completed);
        set.extend(completed.zip(node.sets));
        if matches!(node.kind, Kind::Map(_)) {
            continue;
        }
        for body in &found.bodies {
            collect(node.body().unwrap_or_default(), &body.nodes, set);
        }
    }
}
