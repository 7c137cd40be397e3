//! The copy of an execution that parks, for a mirror: its state, and a few fields for people.

use std::sync::Arc;

use waypost_core::json::Json;
use waypost_core::path::{At, ScopeNo};
use waypost_core::state::NodeState;
use waypost_core::status::NodeStatus;
use waypost_ports::mirror::Context;

use super::Live;

/// Nodes of the path that are included: the last ones.
const PATH_MAX: usize = 1_000;

impl Live {
    pub(super) fn context(&self) -> Context {
        let (plan, state) = (&self.plan, &self.state);
        let nodes = || state.nodes();
        let waits = |node: &NodeState| node.status == NodeStatus::Waiting;
        let bytes = |value: &Json| u64::try_from(value.bytes()).unwrap_or(u64::MAX);
        let output = |(at, node): (At, &NodeState)| {
            node.output.as_ref().map(|output| (state.path(plan, at), bytes(output)))
        };
        let waiting = nodes().filter(|(_, node)| waits(node));
        let variables = state.variables(ScopeNo::ROOT).iter();
        Context {
            execution: state.created.key.clone(),
            workflow: Arc::clone(&plan.workflow),
            started_at: state.created_at,
            current_nodes: waiting.map(|(at, _)| state.path(plan, at)).collect(),
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
        let made = self.state.nodes().filter(|(_, node)| made(node));
        let mut made: Vec<_> = made.map(|(at, node)| (node.settled_seq, at)).collect();
        made.sort_unstable();
        let last = made.split_off(made.len().saturating_sub(PATH_MAX));
        last.into_iter().map(|(_, at)| self.state.path(&self.plan, at)).collect()
    }
}
