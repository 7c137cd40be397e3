//! The executions that a node started, as its log recorded them.

use waypost_core::event::NodeEvent;
use waypost_core::id::ExecutionNo;
use waypost_core::status::{NodeStatus, Status};

use super::NodeRan;

/// An execution that a node started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChildRan {
    pub execution: ExecutionNo,
    pub key: String,
    pub awaited: bool,
    /// The generations whose end the node took.
    pub ends: Vec<(u32, Status)>,
}

impl NodeRan {
    pub(super) fn read_child(&mut self, seq: u64, event: &NodeEvent) {
        match event {
            NodeEvent::ChildStarted { execution, child, detached, .. } => {
                let (execution, key, awaited) = (*execution, child.to_string(), !detached);
                self.children.push(ChildRan { execution, key, awaited, ends: Vec::new() });
                if awaited {
                    self.await_child(seq);
                }
            }
            NodeEvent::ChildReopened { .. } => self.await_child(seq),
            NodeEvent::ChildEnded { execution, generation, status, .. } => {
                let mut children = self.children.iter_mut().rev();
                if let Some(child) = children.find(|child| child.execution == *execution) {
                    child.ends.push((*generation, *status));
                }
                self.status = NodeStatus::Running;
            }
            _ => {}
        }
    }

    fn await_child(&mut self, seq: u64) {
        (self.wait, self.due) = (Some(seq), None);
        self.status = NodeStatus::Waiting;
    }
}
