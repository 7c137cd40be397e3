//! Messages: which of them an event consumes, and which were consumed before.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::event::{EndCause, Event, MessageId, NodeEvent, RunEvent};
use crate::limits::MESSAGES_REMEMBERED_MAX;

/// The messages that were consumed last: as many as an execution promises to remember.
#[derive(Debug, Default)]
pub(super) struct Messages {
    order: VecDeque<MessageId>,
    pub(super) all: BTreeSet<MessageId>,
}

impl Messages {
    pub(super) fn remember(&mut self, message: &MessageId) {
        if self.order.len() == MESSAGES_REMEMBERED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.all.remove(&oldest);
        }
        if self.all.insert(Arc::clone(message)) {
            self.order.push_back(Arc::clone(message));
        }
    }
}

/// Does the event use up the id of its message? A message that was refused for now may come again.
pub(super) fn uses_up_message(event: &Event) -> bool {
    !matches!(event, Event::Run(RunEvent::MessageIgnored { repeatable: true, .. }))
}

/// The message that an event consumes.
pub(super) fn message_of(event: &Event) -> Option<&MessageId> {
    let event = match event {
        Event::Node(
            NodeEvent::Resumed { origin, .. }
            | NodeEvent::Requeued { origin, .. }
            | NodeEvent::BodyEnding { origin, .. }
            | NodeEvent::Tuned { origin, .. },
        ) => return origin.message.as_ref(),
        Event::Node(_) => return None,
        Event::Run(event) => event,
    };
    match event {
        RunEvent::PauseRequested { origin, .. }
        | RunEvent::BudgetSet { origin, .. }
        | RunEvent::Resumed { origin, .. }
        | RunEvent::Reopened { origin, .. }
        | RunEvent::SignalReceived { origin, .. }
        | RunEvent::Ending { cause: EndCause::Cancel { origin, .. }, .. } => {
            origin.message.as_ref()
        }
        RunEvent::MessageIgnored { message, .. } => Some(message),
        RunEvent::Created(_)
        | RunEvent::Owned { .. }
        | RunEvent::Queued { .. }
        | RunEvent::Admitted {}
        | RunEvent::BudgetExhausted { .. }
        | RunEvent::Paused { .. }
        | RunEvent::Quarantined { .. }
        | RunEvent::Ending { .. }
        | RunEvent::Completed { .. }
        | RunEvent::Failed { .. }
        | RunEvent::Cancelled { .. }
        | RunEvent::TimedOut {}
        | RunEvent::SignalDelivered { .. } => None,
    }
}
