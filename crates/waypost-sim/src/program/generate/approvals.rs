//! Approvals: some nodes of a random program ask a person, also in bodies. From a stream of its own, so
//! that programs without any do not change.

use waypost_core::kind::{APPROVED, EXPIRED, REJECTED};

use super::Appetite;
use super::bodies::Bodies;
use crate::program::{Approval, Kind, Node, Program};
use crate::random::Random;

impl Program {
    /// Lets some nodes ask a person.
    pub(super) fn add_approvals(&mut self, random: &Random, appetite: &Appetite) {
        let mut random = random.split("approvals");
        if !random.percent(appetite.approvals_percent) {
            return;
        }
        let chosen = self.some_places(&mut random, 2);
        ask_in(&mut self.nodes, &mut 0, &chosen, (&mut random, appetite));
    }
}

/// Visits the nodes of a scope, and those of the bodies in it.
fn ask_in(
    nodes: &mut [Node],
    at: &mut usize,
    chosen: &[usize],
    (random, appetite): (&mut Random, &Appetite),
) {
    let mut asks = Vec::new();
    for (place, node) in nodes.iter_mut().enumerate() {
        let is_chosen = chosen.contains(at);
        *at += 1;
        if let Some(body) = node.kind.body_mut() {
            ask_in(body, at, chosen, (&mut *random, appetite));
        } else if is_chosen && ask(node, random, appetite) {
            asks.push(place);
        }
    }
    // What follows it follows one of its branches, or an approval alone.
    for need in nodes.iter_mut().flat_map(|node| &mut node.needs) {
        if asks.contains(&need.source) && random.percent(70) {
            let branch = *random.pick(&[APPROVED, REJECTED, EXPIRED]);
            need.branch = Some(branch.to_owned());
        }
    }
}

/// Makes a node ask a person. Others may need the branches of one that chooses.
fn ask(node: &mut Node, random: &mut Random, appetite: &Appetite) -> bool {
    if matches!(node.kind, Kind::Condition(_) | Kind::Switch { .. }) {
        return false;
    }
    let most = appetite.delay_ms_max.max(200);
    let mut after = |percent: u32| {
        // Some of them within the time in which things go wrong.
        let within = if random.percent(70) { most.min(15_000) } else { most };
        random.percent(percent).then(|| random.between(100, within))
    };
    let (timeout_ms, reminder_ms, escalate_ms) = (after(60), after(60), after(40));
    let named = random.percent(50);
    node.kind = Kind::Approval(Approval { named, timeout_ms, reminder_ms, escalate_ms });
    (node.timeout_ms, node.at_most_once, node.remote, node.retry) = (None, false, false, None);
    if node.deadline_ms.is_some() {
        let mut bodies = Bodies::new(random, appetite);
        node.deadline_ms = Some(bodies.builder(&node.id.clone(), 0).deadline(node));
    }
    true
}
