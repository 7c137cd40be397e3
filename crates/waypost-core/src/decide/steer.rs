//! Requests to one map: cancel an item, hold or release it, change how many items may be open.
//!
//! They are done in a pause, too: people hold a map or cancel items first, and resume then.

use std::sync::Arc;

use super::Decider;
use crate::command::{Refusal, Tuning};
use crate::event::{NodeEvent, Origin};
use crate::failure::{Failure, kind};

impl Decider<'_> {
    /// Ends one item as a failure in it would: what runs in it is cancelled and awaited.
    pub(super) fn cancel_item(
        &mut self,
        path: &Arc<str>,
        reason: Option<String>,
        origin: Origin,
    ) -> Result<(), Refusal> {
        let scope = match self.state.item_to_cancel(self.plan, path) {
            Ok(scope) if self.state.is_awake() => scope,
            Ok(_) => return self.ignore(origin, Refusal::JustPaused),
            Err(refusal) => return self.ignore(origin, refusal),
        };
        let by = origin.actor.as_ref().map_or_else(String::new, |actor| format!(" by {actor}"));
        let why = reason.map_or_else(String::new, |reason| format!(": {reason}"));
        let failure =
            Failure::permanent(kind::CANCELLED, format!("the item was cancelled{by}{why}"));
        // The message names the request in the log: it is what justifies the end.
        let origin = self.identified(origin);
        self.end_scope(scope, failure, false, origin);
        Ok(())
    }

    pub(super) fn tune(
        &mut self,
        path: &Arc<str>,
        tuning: Tuning,
        reason: Option<String>,
        origin: Origin,
    ) -> Result<(), Refusal> {
        let at = match self.state.map_to_tune(self.plan, path, tuning) {
            Ok(at) if self.state.is_awake() => at,
            Ok(_) => return self.ignore(origin, Refusal::JustPaused),
            Err(refusal) => return self.ignore(origin, refusal),
        };
        let (node, attempt) = (Arc::clone(path), self.node(at).attempt);
        let Tuning { held, concurrency } = tuning;
        self.emit_at(at, NodeEvent::Tuned { node, attempt, held, concurrency, reason, origin });
        Ok(())
    }
}
