//! The execution's own rules: created once, pauses hold, a cause fixes the end, the end is final,
//! messages are consumed once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::invariant::Invariant::{
    CauseDecides, CreatedFirst, EndsOnce, Fenced, Limits, MessagesOnce, PausesHold, PermitsHold,
    WaitsEndInTime,
};
use super::messages::{Messages, message_of, uses_up_message};
use super::nodes::Nodes;
use super::{EventAt, Invariant, Verdict, broken, require, require_with};
use crate::event::{EndCause, Event, MessageId, NodeEvent, PauseReason, RunEvent};
use crate::limits::EARLY_SIGNALS_MAX;
use crate::published::split_name;
use crate::reserved::is_reserved;
use crate::time::Timestamp;

/// The state of an execution, as far as its own rules go.
#[derive(Debug, Default)]
pub(super) struct RunCheck {
    generation: u32,
    ended: Option<Ended>,
    cause: Option<Cause>,
    /// A user's pause or a quarantine keeps it, until it is resumed.
    pub(super) held: bool,
    /// An instance has owned it, in this generation.
    owned: bool,
    /// It is unowned.
    parked: bool,
    /// Its place in the queue of its concurrency key, in this generation.
    queue: QueueState,
    /// An instance took it over after it was parked, and has not continued it yet.
    resuming: bool,
    /// When this generation must have ended, if the log has it.
    deadline: Option<Timestamp>,
    messages: Messages,
    /// Signals that no wait has consumed, by message.
    signals: BTreeMap<MessageId, KeptSignal>,
    /// Signals that were taken in this frame: all who wait for one get it.
    taken: Vec<MessageId>,
    /// Rules that were reported.
    known: BTreeSet<Invariant>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum QueueState {
    /// It has not come to it.
    #[default]
    Outside,
    /// It is queued; does an instance own it meanwhile?
    Waits { owned: bool },
    /// It holds a permit.
    Admitted,
}

/// A signal that waits may take.
#[derive(Debug)]
struct KeptSignal {
    name: Arc<str>,
    /// The event by which the first of many got it: the others waited before.
    spread_since: Option<u64>,
}

/// How a generation ended, as far as it matters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ended {
    Completed,
    Otherwise,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cause {
    Cancel,
    Failure,
    NotQueued,
    Deadline,
}

impl RunCheck {
    /// Is this the first report of a rule about the execution?
    pub(super) fn is_news(&mut self, invariant: Invariant) -> bool {
        self.known.insert(invariant)
    }

    pub(super) fn is_ending(&self) -> bool {
        self.cause.is_some()
    }

    pub(super) fn is_admitted(&self) -> bool {
        self.queue == QueueState::Admitted
    }

    pub(super) fn is_queued(&self) -> bool {
        matches!(self.queue, QueueState::Waits { .. })
    }

    /// May nothing start?
    fn is_paused(&self) -> bool {
        self.held || self.parked
    }

    /// Did a signal of this name come with this message, and may a wait that this event opened take it:
    /// had no wait consumed it before this frame, or was it on its way to this one, too?
    pub(super) fn has_signal(&self, message: &MessageId, name: &str, opened: u64) -> bool {
        self.signals.get(message).is_some_and(|received| {
            *received.name == *name && received.spread_since.is_none_or(|since| opened < since)
        })
    }

    /// Is the event possible here? Returns the broken rule and changes nothing.
    pub(super) fn judge(&self, place: EventAt, event: &Event, nodes: &Nodes) -> Verdict {
        self.is_first_or_later(place, event)?;
        self.is_before_the_end(event)?;
        self.consumes_once(event)?;
        match event {
            Event::Run(event) => self.judge_run(place, event, nodes),
            Event::Node(_) => Ok(()),
        }
    }

    fn judge_run(&self, place: EventAt, event: &RunEvent, nodes: &Nodes) -> Verdict {
        let begun = || require(!self.is_queued(), PausesHold, "it was paused before it had begun");
        let idle = || require(nodes.running == 0, PausesHold, "a node runs");
        match event {
            RunEvent::Queued { .. } => {
                require(!self.is_admitted(), PermitsHold, "it entered the queue with a permit")?;
                let queued = self.queue == (QueueState::Waits { owned: false });
                require(!queued, PermitsHold, "it was in the queue already")?;
                idle()
            }
            RunEvent::Admitted {} => {
                require(self.is_queued(), PermitsHold, "it was admitted and was not in the queue")
            }
            RunEvent::PauseRequested { .. } | RunEvent::BudgetExhausted { .. } => {
                begun()?;
                require(!self.held, PausesHold, "a pause was requested while it was held")
            }
            RunEvent::Paused { reason } => {
                require(!self.parked, PausesHold, "it was paused already")?;
                let fits = (*reason == PauseReason::User) == self.held;
                require(fits, PausesHold, "its reason is not why it stands still")?;
                let ending = (*reason == PauseReason::Children) == self.is_ending();
                require(ending, PausesHold, "only an end waits for children")?;
                idle()
            }
            RunEvent::Quarantined { .. } => begun().and_then(|()| idle()),
            RunEvent::Resumed { .. } => {
                require(self.held || self.resuming, PausesHold, "it was not paused")
            }
            RunEvent::Ending { cause, .. } => {
                require(self.cause.is_none(), CauseDecides, "its end was fixed before")?;
                let early = matches!(cause, EndCause::Deadline)
                    && self.deadline.is_some_and(|deadline| place.at < deadline);
                require_with(!early, WaitsEndInTime, || {
                    format!("its deadline struck at {}, before it was due", place.at)
                })
            }
            RunEvent::Completed { .. }
            | RunEvent::Failed { .. }
            | RunEvent::Cancelled { .. }
            | RunEvent::TimedOut {} => self.ends_as_it_must(event, nodes),
            RunEvent::SignalDelivered { message } => {
                let signal = self.signals.get(message);
                let spread = signal.and_then(|signal| Some((&signal.name, signal.spread_since?)));
                let Some((name, since)) = spread else {
                    return broken(MessagesOnce, "the signal was not on its way to many");
                };
                let missed = nodes.waits_for(name, since);
                require_with(missed.is_none(), MessagesOnce, || {
                    format!(
                        "{} waited for the signal and did not get it",
                        missed.unwrap_or_default()
                    )
                })
            }
            RunEvent::Created(_)
            | RunEvent::Owned { .. }
            | RunEvent::Reopened { .. }
            | RunEvent::BudgetSet { .. }
            | RunEvent::SignalReceived { .. }
            | RunEvent::MessageIgnored { .. } => Ok(()),
        }
    }

    /// Does the execution allow events of this kind about its nodes right now?
    pub(super) fn may_happen_now(&self, event: &NodeEvent) -> Verdict {
        let starts = matches!(
            event,
            NodeEvent::Scheduled { .. }
                | NodeEvent::Reserved(_)
                | NodeEvent::Started { .. }
                | NodeEvent::Skipped { .. }
        );
        let continues = matches!(
            event,
            NodeEvent::Waiting { .. }
                | NodeEvent::Signalled { .. }
                | NodeEvent::Reminded { .. }
                | NodeEvent::Resumed { .. }
                | NodeEvent::Requeued { .. }
                | NodeEvent::ChildStarted { .. }
                | NodeEvent::ChildReopened { .. }
                | NodeEvent::SignalSent { .. }
        );
        let late = self.is_ending() && (starts || continues);
        require(!late, CauseDecides, "after the end was fixed")?;
        // The end of a remote attempt is a fact, and its start with it.
        let fact = matches!(event, NodeEvent::Started { remote: Some(_), .. });
        let held = (starts && !fact && self.is_paused()) || self.parked;
        require(!held, PausesHold, "while the execution was paused")?;
        require(self.owned || self.is_ending(), Fenced, "before an instance owned the execution")
    }

    /// Applies the event, whatever the verdict was.
    pub(super) fn advance(&mut self, place: EventAt, event: &Event) {
        if let Some(message) = message_of(event).filter(|_| uses_up_message(event)) {
            self.messages.remember(message);
        }
        match event {
            Event::Run(event) => self.advance_run(event),
            Event::Node(
                NodeEvent::Resumed { message: Some(message), more, .. }
                | NodeEvent::Signalled { message, more, .. },
            ) => match self.signals.get_mut(message).filter(|_| *more) {
                Some(signal) => {
                    signal.spread_since.get_or_insert(place.seq);
                }
                None => self.taken.push(Arc::clone(message)),
            },
            Event::Node(NodeEvent::Scheduled { .. }) => self.resuming = false,
            Event::Node(_) => {}
        }
    }

    fn advance_run(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Created(created) => {
                self.generation = 1;
                self.deadline = created.deadline;
            }
            RunEvent::Owned { .. } => {
                self.owned = true;
                self.resuming |= self.parked;
                self.parked = false;
                if self.is_queued() {
                    self.queue = QueueState::Waits { owned: true };
                }
            }
            RunEvent::Queued { .. } => self.queue = QueueState::Waits { owned: false },
            RunEvent::Admitted {} => self.queue = QueueState::Admitted,
            RunEvent::PauseRequested { .. } | RunEvent::BudgetExhausted { .. } => self.held = true,
            RunEvent::Paused { .. } => (self.parked, self.resuming) = (true, false),
            RunEvent::Quarantined { .. } => {
                (self.held, self.parked, self.resuming) = (true, true, false);
            }
            RunEvent::Resumed { .. } => {
                self.owned = true;
                self.go_on();
            }
            RunEvent::Ending { cause, .. } => {
                self.go_on();
                self.cause = Some(match cause {
                    EndCause::Cancel { .. } => Cause::Cancel,
                    EndCause::Failure { .. } => Cause::Failure,
                    EndCause::NotQueued { .. } => Cause::NotQueued,
                    EndCause::Deadline => Cause::Deadline,
                });
            }
            RunEvent::Reopened { generation, deadline, .. } => {
                self.deadline = *deadline;
                self.go_on();
                self.queue = QueueState::Outside;
                self.owned = false;
                self.generation = *generation;
                (self.ended, self.cause) = (None, None);
            }
            RunEvent::SignalReceived { name, origin, .. } => {
                if let Some(message) = &origin.message {
                    let signal = KeptSignal { name: Arc::clone(name), spread_since: None };
                    self.signals.insert(Arc::clone(message), signal);
                }
            }
            RunEvent::Completed { .. } => self.ended = Some(Ended::Completed),
            RunEvent::Failed { .. } | RunEvent::Cancelled { .. } | RunEvent::TimedOut {} => {
                self.ended = Some(Ended::Otherwise);
            }
            RunEvent::SignalDelivered { message } => {
                self.signals.remove(message);
            }
            RunEvent::BudgetSet { .. } | RunEvent::MessageIgnored { .. } => {}
        }
    }

    pub(super) fn close(&mut self) -> Verdict {
        for message in self.taken.drain(..) {
            self.signals.remove(&message);
        }
        if self.signals.len() <= EARLY_SIGNALS_MAX {
            return Ok(());
        }
        let limited = self.signals.values().filter(|signal| !is_reserved(&signal.name));
        let (keyed, plain): (Vec<_>, Vec<_>) =
            limited.partition(|signal| split_name(&signal.name).1.is_some());
        let kept = keyed.len().max(plain.len());
        require_with(kept <= EARLY_SIGNALS_MAX, Limits, || format!("{kept} signals are kept"))
    }

    fn go_on(&mut self) {
        (self.held, self.parked, self.resuming) = (false, false, false);
    }

    fn is_first_or_later(&self, place: EventAt, event: &Event) -> Verdict {
        let (first, creates) = (place.seq == 1, matches!(event, Event::Run(RunEvent::Created(_))));
        require_with(creates || !first, CreatedFirst, || {
            format!("the log begins with {}", event.name())
        })?;
        require(first || !creates, CreatedFirst, "it was created before")
    }

    fn is_before_the_end(&self, event: &Event) -> Verdict {
        let Event::Run(RunEvent::Reopened { generation, .. }) = event else {
            return require_with(self.ended.is_none(), EndsOnce, || {
                format!("{} after the end", event.name())
            });
        };
        match self.ended {
            None => broken(EndsOnce, "reopened before it had ended"),
            Some(Ended::Completed) => broken(EndsOnce, "reopened after it had completed"),
            Some(Ended::Otherwise) => {
                let next = self.generation.checked_add(1) == Some(*generation);
                require_with(next, EndsOnce, || {
                    format!("generation {generation} follows {}", self.generation)
                })
            }
        }
    }

    fn consumes_once(&self, event: &Event) -> Verdict {
        let Some(message) = message_of(event) else { return Ok(()) };
        require_with(!self.messages.all.contains(message), MessagesOnce, || {
            format!("message {message:?} was consumed before")
        })
    }

    fn ends_as_it_must(&self, event: &RunEvent, nodes: &Nodes) -> Verdict {
        let unhandled = nodes.has_unhandled_failure();
        let fits = match (event, self.cause) {
            (RunEvent::Completed { .. }, None) => unhandled != Some(true),
            (RunEvent::Failed { .. }, None) => unhandled != Some(false),
            (RunEvent::Failed { .. }, Some(Cause::Failure | Cause::NotQueued))
            | (RunEvent::Cancelled { .. }, Some(Cause::Cancel))
            | (RunEvent::TimedOut {}, Some(Cause::Deadline)) => true,
            _ => false,
        };
        let name = event.row().event;
        require_with(fits, CauseDecides, || match self.cause {
            Some(cause) => format!("{name}, although the cause was {cause:?}"),
            None => format!("{name} without a cause"),
        })?;
        let open = nodes.unsettled().unwrap_or(0);
        require_with(open == 0, EndsOnce, || format!("{open} nodes are not settled"))
    }
}
