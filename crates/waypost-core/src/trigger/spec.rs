//! A trigger as a plan has it.

use std::sync::Arc;

use super::{StreamTrigger, Verify, Window};
use crate::expr::{Expression, Template};
use crate::json::Json;
use crate::schedule::{Schedule, ScheduleSpec};
use crate::status::Status;
use crate::time::Millis;

/// One trigger of a definition, compiled.
#[derive(Debug)]
pub struct Trigger {
    /// Unique among the triggers of its workflow, and its identity over all versions.
    pub name: Arc<str>,
    pub description: Option<Arc<str>>,
    /// The id of the trigger node, for one that is written as a node.
    pub node: Option<Arc<str>>,
    /// Does a deploy leave it active?
    pub enabled: bool,
    /// What must hold for a fire to start an execution: the field `if`.
    pub condition: Option<Expression>,
    /// The execution's input; without one, the payload, which a schedule does not have.
    pub input: Option<Template>,
    /// The execution's id; made up without one.
    pub id: Option<Template>,
    pub labels: Vec<(Arc<str>, Template)>,
    pub kind: TriggerKind,
}

/// What makes a trigger fire.
#[derive(Debug)]
pub enum TriggerKind {
    Schedule(Box<ScheduleTrigger>),
    Webhook(Box<WebhookTrigger>),
    Event(Box<EventTrigger>),
    Poll(Box<PollTrigger>),
    Stream(Box<StreamTrigger>),
    WorkflowEnded(Box<WorkflowEndedTrigger>),
}

/// The kinds of triggers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TriggerKindName {
    Schedule,
    Webhook,
    Event,
    Poll,
    Stream,
    WorkflowEnded,
}

impl TriggerKindName {
    /// Every kind. Stores keep a kind by its position here.
    pub const ALL: [Self; 6] =
        [Self::Schedule, Self::Webhook, Self::Event, Self::Poll, Self::Stream, Self::WorkflowEnded];

    /// As definitions spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Webhook => "webhook",
            Self::Event => "event",
            Self::Poll => "poll",
            Self::Stream => "stream",
            Self::WorkflowEnded => "workflow-ended",
        }
    }

    /// As a store keeps it.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The kind that a store keeps as this number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// The kind of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl Trigger {
    /// Its kind, without the details.
    pub fn kind_name(&self) -> TriggerKindName {
        match &self.kind {
            TriggerKind::Schedule(_) => TriggerKindName::Schedule,
            TriggerKind::Webhook(_) => TriggerKindName::Webhook,
            TriggerKind::Event(_) => TriggerKindName::Event,
            TriggerKind::Poll(_) => TriggerKindName::Poll,
            TriggerKind::Stream(_) => TriggerKindName::Stream,
            TriggerKind::WorkflowEnded(_) => TriggerKindName::WorkflowEnded,
        }
    }
}

/// Fires at the times of a schedule.
#[derive(Debug)]
pub struct ScheduleTrigger {
    /// As the definition has it.
    pub spec: ScheduleSpec,
    pub schedule: Schedule,
    pub overlap: Overlap,
}

/// What happens to a time that is due while an execution of an earlier time has not ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Overlap {
    /// It starts an execution beside the other one.
    #[default]
    Allow,
    /// It starts none.
    Skip,
    /// It waits for the end of the other one. At most [`QUEUE_MAX`](Self::QUEUE_MAX) times wait; the next
    /// ones are skipped.
    Queue,
    /// The other one is cancelled; it starts when that one has ended.
    CancelRunning,
}

impl Overlap {
    /// Times of a schedule that may wait for an execution to end.
    pub const QUEUE_MAX: u32 = 100;

    /// All of them.
    pub const ALL: [Self; 4] = [Self::Allow, Self::Skip, Self::Queue, Self::CancelRunning];

    /// As definitions spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Skip => "skip",
            Self::Queue => "queue",
            Self::CancelRunning => "cancel-running",
        }
    }

    /// The one of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|overlap| overlap.name() == name)
    }
}

/// Fires with requests of other systems.
#[derive(Debug)]
pub struct WebhookTrigger {
    pub verify: Verify,
    /// What identifies a delivery; by default what the scheme signs as its id.
    pub dedupe: Option<Expression>,
    pub respond: Respond,
    /// Request headers that expressions see, in lower case, besides `content-type` and `user-agent`.
    pub headers: Vec<Arc<str>>,
    pub challenge: Option<Challenge>,
    /// May a GET fire it? Only with a token in its path.
    pub allow_get: bool,
    /// The largest body, in bytes.
    pub body_max: usize,
}

/// What the sender of a delivery gets as an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Respond {
    /// That the execution will run.
    #[default]
    Accepted,
    /// What the execution results in.
    Output,
}

/// How a webhook answers the question whether it is there, which starts no execution.
#[derive(Debug)]
pub struct Challenge {
    pub condition: Expression,
    /// The text of the answer.
    pub value: Expression,
}

/// Fires with events that are published.
#[derive(Debug)]
pub struct EventTrigger {
    /// Types of events: `order.paid`, or `order.*` for all that begin with `order.`.
    pub types: Vec<Arc<str>>,
    /// Which source an event must have, if not any.
    pub source: Option<Arc<str>>,
    pub window: Option<Window>,
}

impl EventTrigger {
    /// Is an event of this type and source for this trigger?
    pub fn matches(&self, kind: &str, source: &str) -> bool {
        let by_type = self.types.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(prefix) => kind.starts_with(prefix),
            None => kind == &**pattern,
        });
        by_type && self.source.as_deref().is_none_or(|wanted| wanted == source)
    }
}

/// Fires with the items of an HTTP resource that is read again and again.
#[derive(Debug)]
pub struct PollTrigger {
    pub every: Millis,
    /// The config of the `api-call` that reads a page; sees `cursor` and `secrets`.
    pub request: Template,
    /// The list of items in a page; sees `body`, `status` and `headers`.
    pub items: Expression,
    /// What identifies an item; sees `item`. Absent with `cursorOnly`.
    pub key: Option<Expression>,
    /// The cursor after a page; sees `body`, `headers`, `cursor` and the last `item`.
    pub next: Option<Template>,
    /// Is there another page to be read at once? Sees what `next` sees.
    pub more: Option<Expression>,
    /// How far back the cursor is moved before each read, for entries that appear late.
    pub lookback: Option<Millis>,
    /// The cursor of the first read; `{}` by default. `lookback` and `now` are written into it by templates.
    pub start: Option<Json>,
}

/// Fires with the ends of executions.
#[derive(Debug)]
pub struct WorkflowEndedTrigger {
    /// Of which workflow.
    pub workflow: Arc<str>,
    /// With which of the final statuses; any if empty.
    pub statuses: Vec<Status>,
}
