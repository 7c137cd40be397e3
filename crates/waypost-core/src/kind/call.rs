//! Behaviours that concern other executions: one starts an execution of a workflow, one sends a signal.

use super::Behaviour;
use crate::expr::Template;

/// Which workflow a node starts, and how the two are tied to each other.
#[derive(Debug, PartialEq)]
pub struct WorkflowCall {
    /// An object with `workflow`, `version` and `input`; rendered as the config of a task is.
    pub config: Template,
    /// Completes when the child has begun instead of when it has ended?
    pub detached: bool,
    /// Does the child go on when its parent ends?
    pub leave: bool,
}

/// A signal to another execution.
#[derive(Debug, PartialEq)]
pub struct EmitSpec {
    /// An object with `to` or `key`, `signal`, `body` and `keep`; rendered as the config of a task is.
    pub config: Template,
    /// Is it for every execution that waits for it by its key, instead of one execution?
    pub published: bool,
    /// Completes also if no execution receives it?
    pub optional: bool,
}

impl Behaviour {
    /// Does it send a signal by key, or wait for one?
    pub(crate) fn has_key(&self) -> bool {
        let sends = matches!(self, Self::Emit(EmitSpec { published: true, .. }));
        sends || self.signal_keys().flatten().next().is_some()
    }

    /// The config of a node that concerns another execution: the shell finds out which.
    pub fn call_config(&self) -> Option<&Template> {
        let (Self::Workflow(WorkflowCall { config, .. }) | Self::Emit(EmitSpec { config, .. })) =
            self
        else {
            return None;
        };
        Some(config)
    }
}
