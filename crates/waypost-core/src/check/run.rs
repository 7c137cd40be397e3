//! The execution's own rules: created once, pauses hold, a cause fixes the end, the end is final,
//! messages are consumed once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::nodes::Nodes;
use super::{EventAt, Invariant, Verdict, broken};
use crate::event::{EndCause, Event, MessageId, PauseReason};
use crate::limits::{EARLY_SIGNALS_MAX, MESSAGES_REMEMBERED_MAX};
use crate::time::Timestamp;

/// Where an execution stands, as far as its own rules go.
#[derive(Debug, Default)]
pub(super) struct RunCheck {
    generation: u32,
    ended: Option<Ended>,
    cause: Option<Cause>,
    /// A user's pause or a quarantine keeps it, until somebody resumes it.
    held: bool,
    /// An instance has owned it, in this generation.
    owned: bool,
    /// Nobody owns it.
    parked: bool,
    /// Where it stands in the queue of its concurrency key, in this generation.
    line: QueueState,
    /// Somebody took it over after it was parked, and has not gone on yet.
    resuming: bool,
    /// When this generation must have ended, where the log says so.
    deadline: Option<Timestamp>,
    messages: Messages,
    /// Signals that nobody has taken, by message, with their names.
    signals: BTreeMap<MessageId, Arc<str>>,
    /// Signals that were taken in this frame: all who wait for one get it.
    taken: Vec<MessageId>,
    /// Rules that were reported.
    known: BTreeSet<Invariant>,
}

/// The line of a concurrency key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum QueueState {
    /// It has not come to it.
    #[default]
    Outside,
    /// It stands in it; does somebody own it meanwhile?
    Waits { owned: bool },
    /// It holds a slot.
    Admitted,
}

/// How a generation ended, as far as it matters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ended {
    Completed,
    Otherwise,
}

/// What fixed the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cause {
    Cancel,
    Failure,
    NotQueued,
    Deadline,
}

/// The messages that were consumed last: as many as an execution promises to remember.
#[derive(Debug, Default)]
struct Messages {
    order: VecDeque<MessageId>,
    all: BTreeSet<MessageId>,
}

impl Messages {
    fn remember(&mut self, message: &MessageId) {
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

impl RunCheck {
    /// Is this the first report of a rule about the execution?
    pub(super) fn is_news(&mut self, invariant: Invariant) -> bool {
        self.known.insert(invariant)
    }

    /// Is the end fixed?
    pub(super) fn is_ending(&self) -> bool {
        self.cause.is_some()
    }

    /// Does somebody have to resume it?
    pub(super) fn is_held(&self) -> bool {
        self.held
    }

    /// Does it hold a permit of its concurrency key?
    pub(super) fn is_admitted(&self) -> bool {
        self.line == QueueState::Admitted
    }

    /// Does it wait for one?
    pub(super) fn is_queued(&self) -> bool {
        matches!(self.line, QueueState::Waits { .. })
    }

    /// May nothing start?
    fn is_paused(&self) -> bool {
        self.held || self.parked
    }

    /// Did a signal of this name come with this message, and was nobody given it before this frame?
    pub(super) fn has_signal(&self, message: &MessageId, name: &str) -> bool {
        self.signals.get(message).is_some_and(|received| **received == *name)
    }

    /// Is the event possible here? Says what is wrong and changes nothing.
    pub(super) fn judge(&self, place: EventAt, event: &Event, nodes: &Nodes) -> Verdict {
        self.is_first_or_later(place, event)?;
        self.is_before_the_end(event)?;
        self.consumes_once(event)?;
        match event {
            Event::RunQueued { .. } if self.line == QueueState::Admitted => {
                broken(Invariant::PermitsHold, "it went into the line with a slot")
            }
            Event::RunQueued { .. } if self.line == (QueueState::Waits { owned: false }) => {
                broken(Invariant::PermitsHold, "it stood in the queue already")
            }
            Event::RunAdmitted {} if !self.is_queued() => {
                broken(Invariant::PermitsHold, "it was admitted and did not stand in the queue")
            }
            Event::RunPauseRequested { .. } | Event::RunQuarantined { .. } if self.is_queued() => {
                broken(Invariant::PausesHold, "it was paused before it had begun")
            }
            Event::RunPauseRequested { .. } if self.held => {
                broken(Invariant::PausesHold, "a pause was requested while it was held")
            }
            Event::RunPaused { .. } if self.parked => {
                broken(Invariant::PausesHold, "it was paused already")
            }
            Event::RunPaused { reason } if (*reason == PauseReason::User) != self.held => {
                broken(Invariant::PausesHold, "its reason is not why it stands still")
            }
            Event::RunResumed { .. } if !self.held && !self.resuming => {
                broken(Invariant::PausesHold, "it was not paused")
            }
            Event::RunQueued { .. } | Event::RunPaused { .. } | Event::RunQuarantined { .. }
                if nodes.is_any_running() =>
            {
                broken(Invariant::PausesHold, "a node runs")
            }
            Event::RunEnding { .. } if self.cause.is_some() => {
                broken(Invariant::CauseDecides, "its end was fixed before")
            }
            Event::RunEnding { cause: EndCause::Deadline, .. }
                if self.deadline.is_some_and(|deadline| place.at < deadline) =>
            {
                let what = format!("its deadline struck at {}, before it was due", place.at);
                broken(Invariant::WaitsEndInTime, what)
            }
            event if event.is_end() => self.ends_as_it_must(event, nodes),
            _ => Ok(()),
        }
    }

    /// Does the execution allow events of this kind about its nodes right now?
    pub(super) fn may_happen_now(&self, event: &Event) -> Verdict {
        let starts = matches!(
            event,
            Event::NodeScheduled { .. } | Event::NodeStarted { .. } | Event::NodeSkipped { .. }
        );
        let goes_on = matches!(event, Event::NodeWaiting { .. } | Event::NodeResumed { .. });
        if self.is_ending() && (starts || goes_on) {
            return broken(Invariant::CauseDecides, "after the end was fixed");
        }
        // What was made remotely and has ended is a fact, and its start with it.
        let fact = matches!(event, Event::NodeStarted { remote: Some(_), .. });
        if (starts && !fact && self.is_paused()) || self.parked {
            return broken(Invariant::PausesHold, "while the execution was paused");
        }
        if !self.owned && !self.is_ending() {
            return broken(Invariant::Fenced, "before an instance owned the execution");
        }
        Ok(())
    }

    /// Takes the event in, whatever was said of it.
    pub(super) fn advance(&mut self, event: &Event) {
        if let Some(message) = message_of(event) {
            self.messages.remember(message);
        }
        match event {
            Event::RunCreated(created) => {
                self.generation = 1;
                self.deadline = created.deadline;
            }
            Event::RunOwned { .. } => {
                self.owned = true;
                self.resuming |= self.parked;
                self.parked = false;
                if self.is_queued() {
                    self.line = QueueState::Waits { owned: true };
                }
            }
            Event::RunQueued { .. } => self.line = QueueState::Waits { owned: false },
            Event::RunAdmitted {} => self.line = QueueState::Admitted,
            Event::RunPauseRequested { .. } => self.held = true,
            Event::RunPaused { .. } => (self.parked, self.resuming) = (true, false),
            Event::RunQuarantined { .. } => {
                (self.held, self.parked, self.resuming) = (true, true, false);
            }
            Event::RunResumed { .. } => {
                self.owned = true;
                self.go_on();
            }
            Event::RunEnding { cause, .. } => {
                self.go_on();
                self.cause = Some(match cause {
                    EndCause::Cancel { .. } => Cause::Cancel,
                    EndCause::Failure { .. } => Cause::Failure,
                    EndCause::NotQueued { .. } => Cause::NotQueued,
                    EndCause::Deadline => Cause::Deadline,
                });
            }
            Event::RunReopened { generation, deadline, .. } => {
                self.deadline = *deadline;
                self.go_on();
                self.line = QueueState::Outside;
                self.owned = false;
                self.generation = *generation;
                (self.ended, self.cause) = (None, None);
            }
            Event::SignalReceived { name, origin, .. } => {
                if let Some(message) = &origin.message {
                    self.signals.insert(Arc::clone(message), Arc::clone(name));
                }
            }
            Event::NodeResumed { message: Some(message), .. } => {
                self.taken.push(Arc::clone(message));
            }
            Event::NodeScheduled { .. } => self.resuming = false,
            Event::RunCompleted { .. } => self.ended = Some(Ended::Completed),
            event if event.is_end() => self.ended = Some(Ended::Otherwise),
            _ => {}
        }
    }

    /// Ends a frame.
    pub(super) fn close(&mut self) -> Verdict {
        for message in self.taken.drain(..) {
            self.signals.remove(&message);
        }
        if self.signals.len() > EARLY_SIGNALS_MAX {
            let what = format!("{} signals are kept", self.signals.len());
            return broken(Invariant::Limits, what);
        }
        Ok(())
    }

    fn go_on(&mut self) {
        (self.held, self.parked, self.resuming) = (false, false, false);
    }

    fn is_first_or_later(&self, place: EventAt, event: &Event) -> Verdict {
        match (place.seq, event) {
            (1, Event::RunCreated(_)) => Ok(()),
            (1, _) => {
                let what = format!("the log begins with {}", event.name());
                broken(Invariant::CreatedFirst, what)
            }
            (_, Event::RunCreated(_)) => broken(Invariant::CreatedFirst, "it was created before"),
            _ => Ok(()),
        }
    }

    fn is_before_the_end(&self, event: &Event) -> Verdict {
        match (event, self.ended) {
            (Event::RunReopened { .. }, None) => {
                broken(Invariant::EndsOnce, "reopened before it had ended")
            }
            (Event::RunReopened { .. }, Some(Ended::Completed)) => {
                broken(Invariant::EndsOnce, "reopened after it had completed")
            }
            (Event::RunReopened { generation, .. }, Some(Ended::Otherwise))
                if self.generation.checked_add(1) != Some(*generation) =>
            {
                let what = format!("generation {generation} follows {}", self.generation);
                broken(Invariant::EndsOnce, what)
            }
            (Event::RunReopened { .. }, Some(Ended::Otherwise)) | (_, None) => Ok(()),
            (_, Some(_)) => broken(Invariant::EndsOnce, format!("{} after the end", event.name())),
        }
    }

    fn consumes_once(&self, event: &Event) -> Verdict {
        match message_of(event) {
            Some(message) if self.messages.all.contains(message) => {
                let what = format!("message {message:?} was consumed before");
                broken(Invariant::MessagesOnce, what)
            }
            _ => Ok(()),
        }
    }

    fn ends_as_it_must(&self, event: &Event, nodes: &Nodes) -> Verdict {
        let unhandled = nodes.has_unhandled_failure();
        let fits = match (event, self.cause) {
            (Event::RunCompleted { .. }, None) => unhandled != Some(true),
            (Event::RunFailed { .. }, None) => unhandled != Some(false),
            (Event::RunFailed { .. }, Some(Cause::Failure | Cause::NotQueued))
            | (Event::RunCancelled { .. }, Some(Cause::Cancel))
            | (Event::RunTimedOut {}, Some(Cause::Deadline)) => true,
            _ => false,
        };
        if !fits {
            let what = match self.cause {
                Some(cause) => format!("{}, although the cause was {cause:?}", event.name()),
                None => format!("{} without a cause", event.name()),
            };
            return broken(Invariant::CauseDecides, what);
        }
        match nodes.unsettled() {
            Some(0) | None => Ok(()),
            Some(open) => broken(Invariant::EndsOnce, format!("{open} nodes are not settled")),
        }
    }
}

/// The message that an event consumes.
fn message_of(event: &Event) -> Option<&MessageId> {
    match event {
        Event::RunPauseRequested { origin, .. }
        | Event::RunResumed { origin }
        | Event::RunReopened { origin, .. }
        | Event::SignalReceived { origin, .. }
        | Event::NodeResumed { origin, .. }
        | Event::RunEnding { cause: EndCause::Cancel { origin, .. }, .. } => {
            origin.message.as_ref()
        }
        Event::MessageIgnored { message, .. } => Some(message),
        _ => None,
    }
}
