//! Messages to webhook endpoints: which events cause one, and what it says.
//!
//! ```text
//!   events of a frame ─▶ announce ─▶ Outgoing ─▶ outbox row, in the frame's commit ─▶ delivery
//! ```
//!
//! A message is about a change that users see. Steps in between (an owner that loads a paused execution
//! for a signal and releases it again) cause none. [`delivery`] decides when a message is sent, sent
//! again, and given up.

mod data;
pub mod delivery;
mod nodes;

pub use data::MessageData;
use data::ShownFailure;
pub use nodes::{NOTE_BYTES_MAX, NOTIFY, announce_nodes, announces};

use std::sync::Arc;

use crate::event::{Event, NodeEvent, RunCreated, RunEvent};
use crate::state::State;
use crate::status::Status;
use crate::transitions::RunPhase;

/// What a message is about. Stores keep a kind by its position in [`MessageKind::ALL`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MessageKind {
    Created,
    /// An instance owns it, and its nodes may start.
    Scheduled,
    Paused,
    /// A person resumed it, or released it from quarantine.
    Resumed,
    Quarantined,
    Completed,
    Failed,
    Cancelled,
    TimedOut,
    /// A retry opened its next generation.
    Reopened,
    /// A `notify` node completed.
    Notified,
    /// An `approval` node waits for a decision.
    ApprovalRequested,
    /// Its approvers are reminded.
    ApprovalReminded,
    /// Others may decide it, too.
    ApprovalEscalated,
    /// A remote worker took an attempt. Only for endpoints that ask for it: see [`announce_nodes`].
    Handoff,
}

/// A subscription to every kind that is about the status of an execution, and not about a node.
pub const STATUS_CHANGED: &str = "execution.status_changed";

/// Bytes of a failure's message in a message; also of the title and of the description of an approval.
pub const FAILURE_TEXT_BYTES_MAX: usize = 4 * 1024;

impl MessageKind {
    /// Every kind.
    pub const ALL: [Self; 15] = [
        Self::Created,
        Self::Scheduled,
        Self::Paused,
        Self::Resumed,
        Self::Quarantined,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::TimedOut,
        Self::Reopened,
        Self::Notified,
        Self::ApprovalRequested,
        Self::ApprovalReminded,
        Self::ApprovalEscalated,
        Self::Handoff,
    ];

    /// The `type` of its messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Created => "execution.created",
            Self::Scheduled => "execution.scheduled",
            Self::Paused => "execution.paused",
            Self::Resumed => "execution.resumed",
            Self::Quarantined => "execution.quarantined",
            Self::Completed => "execution.completed",
            Self::Failed => "execution.failed",
            Self::Cancelled => "execution.cancelled",
            Self::TimedOut => "execution.timed_out",
            Self::Reopened => "execution.reopened",
            Self::Notified => "execution.notified",
            Self::ApprovalRequested => "approval.requested",
            Self::ApprovalReminded => "approval.reminded",
            Self::ApprovalEscalated => "approval.escalated",
            Self::Handoff => "execution.handoff",
        }
    }

    /// Is it about the status of an execution, and not about a node?
    pub fn is_status(self) -> bool {
        match self {
            Self::Created
            | Self::Scheduled
            | Self::Paused
            | Self::Resumed
            | Self::Quarantined
            | Self::Completed
            | Self::Failed
            | Self::Cancelled
            | Self::TimedOut
            | Self::Reopened => true,
            Self::Notified
            | Self::ApprovalRequested
            | Self::ApprovalReminded
            | Self::ApprovalEscalated
            | Self::Handoff => false,
        }
    }

    /// The kind of a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The kind that a store keeps as this number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// As a store keeps it.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Is it about the end of a generation?
    pub fn is_end(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled | Self::TimedOut)
    }

    /// Is it about an approval?
    pub fn is_approval(self) -> bool {
        matches!(self, Self::ApprovalRequested | Self::ApprovalReminded | Self::ApprovalEscalated)
    }

    /// The kind of a change from one phase to another, if it causes a message.
    fn of(event: &RunEvent, from: Option<RunPhase>, to: RunPhase) -> Option<Self> {
        let Some(from) = from else { return Some(Self::Created) };
        if matches!(event, RunEvent::Reopened { .. }) {
            return Some(Self::Reopened);
        }
        let is_new = matches!(from, RunPhase::Requested | RunPhase::Scheduling);
        match (from.shown(), to.shown()) {
            (before, after) if before == after => {
                (is_new && to == RunPhase::Scheduled).then_some(Self::Scheduled)
            }
            (_, Status::Paused) => Some(Self::Paused),
            (_, Status::Quarantined) => Some(Self::Quarantined),
            (_, Status::Completed) => Some(Self::Completed),
            (_, Status::Failed) => Some(Self::Failed),
            (_, Status::Cancelled) => Some(Self::Cancelled),
            (_, Status::TimedOut) => Some(Self::TimedOut),
            (Status::Paused | Status::Quarantined, Status::Running) => Some(Self::Resumed),
            (_, Status::Running) => {
                (is_new && to == RunPhase::Scheduled).then_some(Self::Scheduled)
            }
            (
                _,
                Status::Requested
                | Status::Scheduling
                | Status::Scheduled
                | Status::Resuming
                | Status::Ending
                | Status::Waiting,
            ) => None,
        }
    }
}

/// A set of kinds: what an endpoint subscribes to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct MessageKinds(u32);

impl MessageKinds {
    /// Every kind.
    pub const ALL: Self = Self((1 << MessageKind::ALL.len()) - 1);

    /// Every kind that is about the status of an execution: those before [`MessageKind::Notified`].
    pub const STATUS: Self = Self((1 << MessageKind::Notified as u32) - 1);

    /// The set that a store keeps as this number; bits without a kind are left out.
    pub fn from_bits(bits: u32) -> Self {
        Self(bits & Self::ALL.0)
    }

    /// One bit for each kind, by its code.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// The kinds that a subscription of this name adds: one, or all changes of status.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            STATUS_CHANGED => Some(Self::STATUS),
            name => MessageKind::parse(name).map(Self::from),
        }
    }

    /// This set and another one.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Is this kind in it?
    pub fn contains(self, kind: MessageKind) -> bool {
        self.0 & Self::from(kind).0 != 0
    }

    /// Is no kind in it?
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Its kinds, in their order.
    pub fn iter(self) -> impl Iterator<Item = MessageKind> {
        MessageKind::ALL.into_iter().filter(move |kind| self.contains(*kind))
    }
}

impl From<MessageKind> for MessageKinds {
    fn from(kind: MessageKind) -> Self {
        Self(1 << kind.code())
    }
}

/// A message that a frame causes. The store writes one row for each endpoint that subscribes to it.
#[derive(Clone, PartialEq, Debug)]
pub struct Outgoing {
    /// Of the event that it is about.
    pub seq: u64,
    pub kind: MessageKind,
    pub workflow: Arc<str>,
    /// The field `data` of its body, without the output.
    pub data: MessageData,
    /// Does a node wait for what becomes of it? Its signal is [`delivery_signal`].
    pub awaited: bool,
}

/// Does a node wait for what becomes of one of these?
pub fn are_awaited(messages: &[Outgoing]) -> bool {
    messages.iter().any(|message| message.awaited)
}

/// The name of the signal with which a store says what became of a message, by the seq of the event that it
/// is about. Its body has `delivered` and `failed`, the numbers of endpoints.
pub fn delivery_signal(seq: u64) -> Arc<str> {
    format!("waypost.delivery.{seq}").into()
}

/// The messages of a frame: its events, the phase before them (none before the first event), and the state
/// after them.
pub fn announce(before: Option<RunPhase>, events: &[Event], after: &State) -> Vec<Outgoing> {
    let mut messages = Vec::new();
    let mut phase = before;
    let reopened = |event: &&Event| matches!(event, Event::Run(RunEvent::Reopened { .. }));
    let later = u32::try_from(events.iter().filter(reopened).count()).unwrap_or(u32::MAX);
    let mut generation = after.generation.saturating_sub(later);
    let first_seq = (after.seq + 1).saturating_sub(events.len() as u64);
    for (seq, event) in (first_seq..).zip(events) {
        let event = match event {
            Event::Run(event) => event,
            Event::Node(event) => {
                // With its first attempt, an execution that was taken over runs.
                let begins = matches!(event, NodeEvent::Scheduled { .. });
                let waits = matches!(phase, Some(RunPhase::Scheduled | RunPhase::Resuming));
                phase = if begins && waits { Some(RunPhase::Running) } else { phase };
                continue;
            }
        };
        let to = match phase {
            None => RunPhase::Requested,
            Some(from) => event.row().from(from).unwrap_or(from),
        };
        generation += u32::from(matches!(event, RunEvent::Reopened { .. }));
        let kind = MessageKind::of(event, phase, to);
        phase = Some(to);
        if to == RunPhase::Scheduling {
            // Its first owner queues it for a permit: it is scheduled when it has one.
            messages.pop_if(|message: &mut Outgoing| message.kind == MessageKind::Scheduled);
        }
        let Some(kind) = kind else { continue };
        messages.push(Outgoing {
            seq,
            kind,
            workflow: Arc::clone(&after.created.workflow),
            data: MessageData::of(
                &after.created,
                ShownFailure::of(event),
                (seq, generation, to.shown()),
            ),
            awaited: false,
        });
    }
    messages
}

/// The message of the first frame of an execution that begins with another one's frame.
pub fn announce_birth(created: &RunCreated) -> Outgoing {
    let status = RunPhase::Requested.shown();
    Outgoing {
        seq: 1,
        kind: MessageKind::Created,
        workflow: Arc::clone(&created.workflow),
        data: MessageData::of(&Arc::new(created.clone()), None, (1, 1, status)),
        awaited: false,
    }
}

#[cfg(test)]
mod tests;
