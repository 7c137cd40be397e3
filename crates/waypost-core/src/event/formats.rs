//! The lowest log formats that can read the events of nodes.

use super::{
    BLOBS_LOG_FORMAT, BODIES_LOG_FORMAT, BREAKERS_LOG_FORMAT, BUDGETS_LOG_FORMAT,
    CHILDREN_LOG_FORMAT, DELIVERY_LOG_FORMAT, EMIT_LOG_FORMAT, KEYS_LOG_FORMAT, NodeEvent,
    REMOTE_LOG_FORMAT, STEERED_LOG_FORMAT, WAITS_LOG_FORMAT,
};

impl NodeEvent {
    /// The lowest log format that can read it.
    pub fn requires(&self) -> u16 {
        match self {
            Self::Reserved(_) | Self::Used(_) => BUDGETS_LOG_FORMAT,
            Self::Started { remote: Some(_), .. } => REMOTE_LOG_FORMAT,
            Self::Failed { failure, .. } if failure.on_error_skipped => 4,
            Self::Waiting { message: Some(_), .. } => DELIVERY_LOG_FORMAT,
            Self::Waiting { wait, .. } => wait.requires(),
            Self::Signalled { .. }
            | Self::Reminded { .. }
            | Self::Resumed { timed_out: true, .. }
            | Self::Resumed { more: true, .. } => WAITS_LOG_FORMAT,
            Self::Resumed { origin, .. } if !origin.is_unknown() => 2,
            Self::ItemsOpened { items: Some(_), .. }
            | Self::MapOpened { results_max: Some(_), .. } => BLOBS_LOG_FORMAT,
            Self::BodyEnding { origin, .. } if !origin.is_unknown() => STEERED_LOG_FORMAT,
            Self::Tuned { .. } => STEERED_LOG_FORMAT,
            Self::Requeued { .. } => BREAKERS_LOG_FORMAT,
            Self::SignalSent { receiver: None, .. } => KEYS_LOG_FORMAT,
            Self::SignalSent { .. } => EMIT_LOG_FORMAT,
            Self::ChildStarted { .. } | Self::ChildReopened { .. } | Self::ChildEnded { .. } => {
                CHILDREN_LOG_FORMAT
            }
            Self::BodyOpened { .. }
            | Self::BodyEnding { .. }
            | Self::MapOpened { .. }
            | Self::ItemsOpened { .. } => BODIES_LOG_FORMAT,
            Self::Scheduled { .. }
            | Self::Started { .. }
            | Self::Checkpointed { .. }
            | Self::Completed { .. }
            | Self::Failed { .. }
            | Self::Resumed { .. }
            | Self::Skipped { .. }
            | Self::Cancelled { .. } => 1,
        }
    }
}
