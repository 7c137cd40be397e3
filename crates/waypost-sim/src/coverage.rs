//! Coverage: which arrows of the state machines were taken, and which faults have struck.

use std::collections::BTreeMap;
use std::sync::Arc;

use waypost_core::event::{Event, FailureEnd, NodeEvent, PauseReason, RunEvent};
use waypost_core::projection::{node_status, status_after};
use waypost_core::status::{NodeStatus, Status};

use crate::fault::Fault;

/// An arrow: from where, by what, to where.
pub type Arrow = (&'static str, &'static str, &'static str);

/// The coverage of a simulation, or of many.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// How often each arrow was taken.
    pub arrows: BTreeMap<Arrow, u64>,
    /// How often each fault has struck, by the order of [`Fault::ALL`].
    pub faults: Vec<u64>,
}

impl Coverage {
    /// Adds what another one has reached.
    pub fn add(&mut self, other: &Self) {
        for (arrow, count) in &other.arrows {
            *self.arrows.entry(*arrow).or_default() += count;
        }
        self.add_faults(&other.faults);
    }

    pub(crate) fn add_faults(&mut self, struck: &[u64]) {
        self.faults.resize(Fault::ALL.len(), 0);
        self.faults.iter_mut().zip(struck).for_each(|(sum, count)| *sum += count);
    }

    /// Arrows that were never taken, and faults that never struck.
    pub fn missing(&self) -> (Vec<Arrow>, Vec<Fault>) {
        let arrows = ARROWS.iter().filter(|arrow| !self.arrows.contains_key(*arrow));
        let never =
            |(at, _): &(usize, &Fault)| self.faults.get(*at).is_none_or(|count| *count == 0);
        let faults = Fault::ALL.iter().enumerate().filter(never).map(|(_, fault)| *fault);
        (arrows.copied().collect(), faults.collect())
    }

    /// Arrows that were taken and are not in `ARROWS`.
    pub fn unknown(&self) -> Vec<Arrow> {
        self.arrows.keys().filter(|arrow| !ARROWS.contains(arrow)).copied().collect()
    }
}

/// Follows one execution through its two machines as the projections do, by its events alone. The
/// auditor compares it with the state after every frame.
#[derive(Clone, Debug)]
pub struct Tracker {
    status: Status,
    nodes: BTreeMap<Arc<str>, NodeStatus>,
}

impl Default for Tracker {
    fn default() -> Self {
        Self { status: Status::Running, nodes: BTreeMap::new() }
    }
}

impl Tracker {
    /// Takes in the next event, and counts the arrow that it is.
    pub fn event(&mut self, event: &Event, coverage: &mut Coverage) {
        let before = self.status;
        self.status = status_after(before, event);
        if let Event::Run(RunEvent::Reopened { nodes, .. }) = event {
            self.nodes.retain(|node, _| !nodes.contains(node));
        }
        let arrow = match event {
            Event::Node(node) => {
                let to = node_status(node);
                let from = self.nodes.insert(Arc::clone(node.node()), to);
                (from.unwrap_or(NodeStatus::Pending).name(), name_of(event), to.name())
            }
            Event::Run(_) => (before.name(), name_of(event), self.status.name()),
        };
        *coverage.arrows.entry(arrow).or_default() += 1;
        if event.node().is_some() && self.status != before {
            let arrow = (before.name(), name_of(event), self.status.name());
            *coverage.arrows.entry(arrow).or_default() += 1;
        }
    }

    /// The status of the execution.
    pub fn status(&self) -> Status {
        self.status
    }
}

/// An event's name, with what makes two arrows of one event.
fn name_of(event: &Event) -> &'static str {
    match event {
        Event::Run(RunEvent::Paused { reason: PauseReason::User }) => "RunPaused(user)",
        Event::Run(RunEvent::Paused { reason: PauseReason::Waits }) => "RunPaused(waits)",
        Event::Node(NodeEvent::Failed { end: FailureEnd::RetryAt(_), .. }) => "NodeFailed(retry)",
        Event::Node(NodeEvent::Failed { end: FailureEnd::Abandoned(_), .. }) => {
            "NodeFailed(abandoned)"
        }
        Event::Node(NodeEvent::Resumed { origin, .. }) if origin.message.is_some() => {
            "NodeResumed(somebody)"
        }
        other => other.name(),
    }
}

/// Every arrow that the engine can take, of executions first, with the statuses that users see.
pub const ARROWS: &[Arrow] = &[
    ("RUNNING", "RunCreated", "RUNNING"),
    ("RUNNING", "RunOwned", "RUNNING"),
    ("RUNNING", "RunQueued", "SCHEDULING"),
    ("SCHEDULING", "RunOwned", "SCHEDULING"),
    ("SCHEDULING", "RunQueued", "SCHEDULING"),
    ("SCHEDULING", "RunAdmitted", "RUNNING"),
    ("SCHEDULING", "SignalReceived", "SCHEDULING"),
    ("SCHEDULING", "MessageIgnored", "SCHEDULING"),
    ("SCHEDULING", "RunEnding", "ENDING"),
    ("RUNNING", "SignalReceived", "RUNNING"),
    ("RUNNING", "MessageIgnored", "RUNNING"),
    ("RUNNING", "RunPauseRequested", "RUNNING"),
    ("RUNNING", "RunPaused(user)", "PAUSED"),
    ("RUNNING", "RunPaused(waits)", "WAITING"),
    ("RUNNING", "RunQuarantined", "QUARANTINED"),
    ("RUNNING", "RunResumed", "RUNNING"),
    ("RUNNING", "RunEnding", "ENDING"),
    ("RUNNING", "RunCompleted", "COMPLETED"),
    ("RUNNING", "RunFailed", "FAILED"),
    ("WAITING", "RunOwned", "RUNNING"),
    ("PAUSED", "RunOwned", "PAUSED"),
    ("PAUSED", "SignalReceived", "PAUSED"),
    ("PAUSED", "MessageIgnored", "PAUSED"),
    ("PAUSED", "RunPaused(user)", "PAUSED"),
    ("PAUSED", "RunResumed", "RUNNING"),
    ("PAUSED", "RunEnding", "ENDING"),
    ("QUARANTINED", "RunOwned", "QUARANTINED"),
    ("QUARANTINED", "SignalReceived", "QUARANTINED"),
    ("QUARANTINED", "MessageIgnored", "QUARANTINED"),
    ("QUARANTINED", "RunPaused(user)", "QUARANTINED"),
    ("QUARANTINED", "RunResumed", "RUNNING"),
    ("QUARANTINED", "RunEnding", "ENDING"),
    ("ENDING", "RunOwned", "ENDING"),
    ("ENDING", "MessageIgnored", "ENDING"),
    ("ENDING", "RunFailed", "FAILED"),
    ("ENDING", "RunCancelled", "CANCELLED"),
    ("ENDING", "RunTimedOut", "TIMED_OUT"),
    ("FAILED", "RunReopened", "RUNNING"),
    ("CANCELLED", "RunReopened", "RUNNING"),
    ("TIMED_OUT", "RunReopened", "RUNNING"),
    ("PENDING", "NodeScheduled", "QUEUED"),
    ("PENDING", "NodeSkipped", "SKIPPED"),
    ("PENDING", "NodeCancelled", "CANCELLED"),
    ("QUEUED", "NodeStarted", "RUNNING"),
    ("QUEUED", "NodeFailed", "FAILED"),
    ("QUEUED", "NodeFailed", "TIMED_OUT"),
    ("QUEUED", "NodeCancelled", "CANCELLED"),
    ("RUNNING", "NodeCheckpointed", "RUNNING"),
    ("RUNNING", "NodeWaiting", "WAITING"),
    ("RUNNING", "NodeCompleted", "COMPLETED"),
    ("RUNNING", "NodeFailed(retry)", "WAITING"),
    ("RUNNING", "NodeFailed(abandoned)", "WAITING"),
    ("RUNNING", "NodeFailed", "FAILED"),
    ("RUNNING", "NodeFailed", "TIMED_OUT"),
    ("RUNNING", "NodeCancelled", "CANCELLED"),
    ("WAITING", "NodeResumed", "RUNNING"),
    ("WAITING", "NodeResumed(somebody)", "RUNNING"),
    // A retry that was started by hand: rows show RUNNING, for a part of one frame.
    ("RUNNING", "NodeScheduled", "QUEUED"),
    ("WAITING", "NodeScheduled", "QUEUED"),
    ("WAITING", "NodeFailed", "TIMED_OUT"),
    ("WAITING", "NodeCancelled", "CANCELLED"),
];
