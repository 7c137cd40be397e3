//! A behaviour that starts an execution of a workflow.

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
