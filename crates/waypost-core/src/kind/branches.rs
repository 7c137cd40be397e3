//! The branches of behaviours.

use super::{APPROVED, Behaviour, EXPIRED, OperationSpec, REJECTED, SignalsSpec};

impl Behaviour {
    /// The branches that this behaviour can select; `None` where it has no branches.
    pub fn branches(&self) -> Option<Vec<&str>> {
        match self {
            Self::Condition(_) => Some(vec!["true", "false"]),
            Self::Switch { cases, default } => {
                let mut names: Vec<&str> = cases.iter().map(|case| case.branch.as_str()).collect();
                names.extend(default.as_deref());
                names.dedup();
                Some(names)
            }
            Self::Signal { on_timeout: Some(branch), .. }
            | Self::Signals(SignalsSpec { on_timeout: Some(branch), .. })
            | Self::Operation(OperationSpec { on_timeout: Some(branch), .. })
            | Self::Polled(branch) => Some(vec![branch]),
            Self::Approval(_) => Some(vec![APPROVED, REJECTED, EXPIRED]),
            Self::Pass
            | Self::Input
            | Self::Trigger { .. }
            | Self::Gather
            | Self::Value { .. }
            | Self::Fail(_)
            | Self::Delay(_)
            | Self::Signal { .. }
            | Self::Signals(_)
            | Self::Notify(_)
            | Self::Task { .. }
            | Self::Group
            | Self::Operation(_)
            | Self::Loop(_)
            | Self::Map(_)
            | Self::Workflow(_)
            | Self::Emit(_) => None,
        }
    }
}
