//! The copy of an execution that parks, for a mirror: its state, and a few fields for people.

use std::sync::Arc;

use waypost_core::json::Json;
use waypost_core::plan::PlanNode;
use waypost_core::state::NodeState;
use waypost_core::status::NodeStatus;
use waypost_ports::mirror::Context;

use super::Live;

/// Nodes of the path that are included: the last ones.
const PATH_MAX: usize = 1_000;

impl Live {
    pub(super) fn context(&self) -> Context {
        let (plan, state) = (&self.plan, &self.state);
        let nodes = || plan.positions().map(|at| (plan.node(at), state.node(at)));
        let waits = |node: &NodeState| node.status == NodeStatus::Waiting;
        let bytes = |value: &Json| u64::try_from(value.bytes()).unwrap_or(u64::MAX);
        let output = |(plan, node): (&PlanNode, &NodeState)| {
            node.output.as_ref().map(|output| (Arc::clone(&plan.id), bytes(output)))
        };
        let waiting = nodes().filter(|(_, node)| waits(node));
        let variables = state.variables.iter();
        Context {
            execution: state.created.key.clone(),
            workflow: Arc::clone(&plan.workflow),
            started_at: state.created_at,
            current_nodes: waiting.map(|(plan, _)| Arc::clone(&plan.id)).collect(),
            path: self.path(),
            seq: state.seq,
            outputs: nodes().filter_map(output).collect(),
            variables: variables.map(|(name, value)| (Arc::clone(name), bytes(value))).collect(),
            state: state.encode(),
        }
    }

    /// The nodes that ran, in the order in which they settled.
    fn path(&self) -> Vec<Arc<str>> {
        let made = |node: &NodeState| node.attempt > 0 && node.settled_seq > 0;
        let nodes = self.plan.positions().map(|at| (at, self.state.node(at)));
        let made = nodes.filter(|(_, node)| made(node));
        let mut made: Vec<_> = made.map(|(at, node)| (node.settled_seq, at)).collect();
        made.sort_unstable();
        let last = made.split_off(made.len().saturating_sub(PATH_MAX));
        last.into_iter().map(|(_, at)| Arc::clone(&self.plan.node(at).id)).collect()
    }
}
