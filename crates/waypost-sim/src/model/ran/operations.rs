//! The waits of a node for callbacks, as its log recorded them.

use waypost_core::event::{NodeEvent, Wait};

use super::NodeRan;

/// A wait for a callback, and how it ended.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OperationRan {
    pub operation: String,
    /// The event that opened it.
    pub opened: u64,
    /// The message of the callback that ended it.
    pub called_back: Option<String>,
    /// Did a person end it?
    pub by_hand: bool,
    /// Did it continue on the branch of its timeout?
    pub late: bool,
    /// The kind of the failure that followed, and whether it passes by itself.
    pub failure: Option<(String, bool)>,
    over: bool,
}

impl NodeRan {
    pub(super) fn read_operation(&mut self, seq: u64, event: &NodeEvent) {
        if let NodeEvent::Waiting { wait: Wait::Callback { operation, .. }, .. } = event {
            let operation = operation.to_string();
            let open = OperationRan { operation, opened: seq, ..OperationRan::default() };
            return self.operations.push(open);
        }
        let Some(open) = self.operations.last_mut().filter(|operation| !operation.over) else {
            return;
        };
        match event {
            NodeEvent::Resumed { message, origin, timed_out, .. } => {
                open.called_back = message.as_ref().map(ToString::to_string);
                (open.by_hand, open.late) = (origin.message.is_some(), *timed_out);
            }
            NodeEvent::Failed { failure, .. } => {
                open.failure = Some((failure.kind.to_string(), failure.retryable));
                open.over = true;
            }
            NodeEvent::Completed { .. } | NodeEvent::Cancelled { .. } => open.over = true,
            _ => {}
        }
    }
}
