//! The scopes of a plan: which nodes see each other, and look-ups by id and path.

use std::ops::Range;

use super::{Plan, PlanFault, PlanNode, id_at, position};
use crate::event::{
    BODIES_LOG_FORMAT, BREAKERS_LOG_FORMAT, BUDGETS_LOG_FORMAT, CALLBACKS_LOG_FORMAT,
    CHILDREN_LOG_FORMAT, DELIVERY_LOG_FORMAT, EMIT_LOG_FORMAT, HEARTBEAT_LOG_FORMAT,
    KEYS_LOG_FORMAT, TRIGGERS_LOG_FORMAT, WAITS_LOG_FORMAT, WORKER_SECRETS_LOG_FORMAT,
};
use crate::id::NodeIx;
use crate::kind::Behaviour;
use crate::path::segments;
use crate::trigger::Fired;

/// Nodes that see each other: those of the definition, or the body of a container.
#[derive(Debug)]
pub struct PlanScope {
    /// Whose body it is; absent for the definition itself.
    pub container: Option<NodeIx>,
    /// The positions of its nodes.
    pub nodes: Range<u32>,
    /// Nodes whose value is the scope's output: its `output` nodes, or those that nothing follows.
    pub outputs: Vec<NodeIx>,
    /// How many containers it is in.
    pub depth: u32,
    /// Positions sorted by id, for look-ups by path.
    by_id: Vec<NodeIx>,
}

impl PlanNode {
    /// The lowest log format in which it can be recorded.
    fn requires(&self) -> u16 {
        let has = [
            (self.heartbeat.is_some(), HEARTBEAT_LOG_FORMAT),
            (matches!(self.behaviour, Behaviour::Workflow(_)), CHILDREN_LOG_FORMAT),
            (self.behaviour.needs_waits_format(), WAITS_LOG_FORMAT),
            (matches!(self.behaviour, Behaviour::Emit(_)), EMIT_LOG_FORMAT),
            (self.behaviour.has_key(), KEYS_LOG_FORMAT),
            (self.behaviour.waits_for_events(), TRIGGERS_LOG_FORMAT),
            (matches!(self.behaviour, Behaviour::Polled(_)), TRIGGERS_LOG_FORMAT),
            (matches!(self.behaviour, Behaviour::Notify(_)), DELIVERY_LOG_FORMAT),
            (self.meter.is_some(), BUDGETS_LOG_FORMAT),
            (self.breaker.is_some(), BREAKERS_LOG_FORMAT),
            (self.behaviour.sends_secrets(), WORKER_SECRETS_LOG_FORMAT),
            (matches!(self.behaviour, Behaviour::Operation(_)), CALLBACKS_LOG_FORMAT),
        ];
        has.into_iter().filter(|(has, _)| *has).map(|(_, format)| format).max().unwrap_or(1)
    }
}

impl Plan {
    /// The lowest log format in which its executions can be recorded. Every frame asks.
    pub fn requires(&self) -> u16 {
        self.requires
    }

    /// See [`requires`](Self::requires).
    pub(super) fn find_requires(&self) -> u16 {
        let own = [
            (self.scopes.len() > 1, BODIES_LOG_FORMAT),
            (!self.callable, CHILDREN_LOG_FORMAT),
            (self.budget.is_some(), BUDGETS_LOG_FORMAT),
            // A build without that format does not know the name `trigger`.
            (!self.triggers.is_empty() || self.mentions("trigger"), TRIGGERS_LOG_FORMAT),
        ];
        let own = own.into_iter().filter(|(has, _)| *has).map(|(_, format)| format);
        own.chain(self.nodes.iter().map(PlanNode::requires)).max().unwrap_or(1)
    }

    /// Does an execution begin at this node, if it was started by this fire or, without one, by hand? False
    /// for a trigger that had no part in it. In a body, every trigger is a beginning.
    pub fn begins_at(&self, node: NodeIx, fired: Option<&Fired>) -> bool {
        let is_in_body = self.node(node).scope != 0;
        let Behaviour::Trigger { manual } = self.node(node).behaviour else { return true };
        match fired.and_then(|fired| fired.node.as_deref()) {
            _ if is_in_body => true,
            Some(fired) => *self.node(node).id == *fired,
            None => manual || !self.has_manual,
        }
    }

    /// The definition's own scope.
    pub fn root(&self) -> &PlanScope {
        self.scopes.first().expect("a plan has the scope of its definition")
    }

    /// The body of a container.
    pub fn body(&self, container: NodeIx) -> Option<&PlanScope> {
        self.node(container).body.and_then(|body| self.scopes.get(body))
    }

    /// The node of the definition that has this id.
    pub fn find(&self, id: &str) -> Option<NodeIx> {
        self.find_in(self.root(), id)
    }

    /// The node of a scope that has this id.
    pub fn find_in(&self, scope: &PlanScope, id: &str) -> Option<NodeIx> {
        let found = scope.by_id.binary_search_by(|at| id_at(&self.nodes, *at).cmp(id)).ok();
        found.and_then(|found| scope.by_id.get(found).copied())
    }

    /// The node that a path is about, whichever iteration it names.
    pub fn locate(&self, path: &str) -> Option<NodeIx> {
        let (mut scope, mut found) = (Some(self.root()), None);
        for step in segments(path) {
            let at = self.find_in(scope?, step.id)?;
            (scope, found) = (self.body(at), Some(at));
        }
        found
    }

    /// The node that an expression of a scope means by an id: the nearest one.
    pub(super) fn find_from(&self, scope: usize, id: &str) -> Option<NodeIx> {
        let mut scope = self.scopes.get(scope);
        while let Some(here) = scope {
            let found = self.find_in(here, id);
            if found.is_some() {
                return found;
            }
            scope = here.container.and_then(|outer| self.scopes.get(self.node(outer).scope));
        }
        None
    }
}

impl PlanScope {
    /// Positions of its nodes, in order.
    pub fn positions(&self) -> impl Iterator<Item = NodeIx> + use<> {
        self.nodes.clone().map(NodeIx)
    }
}

/// Divides the nodes into scopes.
pub(super) fn scopes(
    nodes: &mut [PlanNode],
    bodies: &[(NodeIx, Range<u32>)],
) -> Result<Vec<PlanScope>, PlanFault> {
    let count = position(nodes.len()).0;
    let own = bodies.first().map_or(count, |(_, body)| body.start);
    let mut scopes = vec![scope(nodes, (None, 0), 0..own)?];
    for (container, body) in bodies {
        let follows = scopes.last().is_some_and(|last| last.nodes.end == body.start);
        let outer = scopes.iter().position(|outer| outer.nodes.contains(&container.0));
        let (true, Some(outer)) = (follows && !body.is_empty(), outer) else {
            return Err(PlanFault::Bodies);
        };
        let depth = scopes.get(outer).map_or(0, |outer| outer.depth) + 1;
        let place = scopes.len();
        if let Some(node) = nodes.get_mut(container.at()) {
            node.body = Some(place);
        }
        for at in body.clone() {
            if let Some(node) = nodes.get_mut(at as usize) {
                node.scope = place;
            }
        }
        scopes.push(scope(nodes, (Some(*container), depth), body.clone())?);
    }
    let ends = scopes.last().is_some_and(|last| last.nodes.end == count);
    let stay = scopes.iter().all(|scope| {
        scope.positions().filter_map(|at| nodes.get(at.at())).all(|node| {
            node.needs.iter().all(|condition| scope.nodes.contains(&condition.source.0))
        })
    });
    if ends && stay { Ok(scopes) } else { Err(PlanFault::Bodies) }
}

fn scope(
    nodes: &[PlanNode],
    (container, depth): (Option<NodeIx>, u32),
    range: Range<u32>,
) -> Result<PlanScope, PlanFault> {
    let mut by_id: Vec<NodeIx> = range.clone().map(NodeIx).collect();
    let own = by_id.iter().filter_map(|at| Some((*at, nodes.get(at.at())?)));
    let is_result =
        |node: &PlanNode| matches!(node.behaviour, Behaviour::Value { result: true, .. });
    let mut outputs: Vec<NodeIx> =
        own.clone().filter(|(_, node)| is_result(node)).map(|(at, _)| at).collect();
    if outputs.is_empty() && container.is_some() {
        let exits = own.filter(|(_, node)| node.successors.is_empty());
        outputs.extend(exits.map(|(at, _)| at));
    }
    by_id.sort_by(|a, b| id_at(nodes, *a).cmp(id_at(nodes, *b)));
    for pair in by_id.windows(2) {
        if let [a, b] = pair
            && id_at(nodes, *a) == id_at(nodes, *b)
        {
            return Err(PlanFault::DuplicateId(id_at(nodes, *a).into()));
        }
    }
    Ok(PlanScope { container, nodes: range, outputs, depth, by_id })
}
