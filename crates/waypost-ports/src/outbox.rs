//! The outbox: webhook endpoints, and the messages that wait for them.
//!
//! ```text
//!   append: Side.messages ─▶ one row for each endpoint that subscribes ─▶ claim_messages ─▶ (sent) ─▶
//!   settle_messages ─▶ delivered, due again, or dead ─▶ trim_outbox
//! ```
//!
//! Rows are written only where their frame went in, by the endpoints that are registered when it does. What
//! becomes of a message is decided by [`waypost_core::outbox::delivery`]; a store locks an endpoint while it
//! claims or settles messages of it, so that the limits hold for all instances together.
//!
//! Order: of the messages about one execution for one endpoint, only the one with the lowest seq is claimed.

mod awaited;
mod name;

use std::fmt;
use std::sync::Arc;

use uuid::Uuid;
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_core::outbox::delivery::{Delivered, EndpointHealth, Jitter};
use waypost_core::outbox::{MessageKind, MessageKinds};
use waypost_core::time::{Millis, Timestamp};

pub use awaited::AwaitedResult;
pub use name::{MessageName, frame_mark};

use crate::store::StoreError;
use crate::triggers::TriggerAt;

/// Pending messages of one endpoint; beyond that, the oldest are dead letters.
pub const PENDING_MAX: usize = 100_000;
/// How long a delivered message is kept: the history of deliveries.
pub const DELIVERED_KEPT: Millis = Millis::from_secs(7 * 24 * 3_600);
/// How long a message may wait, for an endpoint that is paused or disabled; then it is a dead letter.
pub const PENDING_KEPT: Millis = Millis::from_secs(7 * 24 * 3_600);
/// How long a dead letter is kept.
pub const DEAD_KEPT: Millis = Millis::from_secs(30 * 24 * 3_600);
/// How long a former secret still signs, beside the new one.
pub const FORMER_SECRET_KEPT: Millis = Millis::from_secs(24 * 3_600);
/// Rows that one call of [`Outbox::trim_outbox`] changes at most, of each kind.
pub const TRIM_MAX: usize = 1_000;

/// Why a message is a dead letter though no attempt made it one.
pub const EXPIRED: &str = "the message waited longer than 7 days";
/// See [`EXPIRED`].
pub const OVER_QUOTA: &str = "the endpoint had more than 100,000 messages waiting";

/// What the ids of endpoints begin with that are triggers of ends. No other endpoint may have such an id.
pub const TRIGGER_ENDPOINT_PREFIX: &str = "trigger-";

/// Is this the id of an endpoint that belongs to a trigger? Such endpoints are not shown.
pub fn is_trigger_endpoint(id: &str) -> bool {
    id.starts_with(TRIGGER_ENDPOINT_PREFIX)
}

/// The interface of the dispatcher and of the API to the outbox.
pub trait Outbox: Send + Sync {
    /// Keeps an endpoint. Every frame that is committed after this returns is matched against it. Refused
    /// where there is one of its id.
    fn add_endpoint(&self, endpoint: &NewEndpoint) -> Result<(), StoreError>;

    /// Every endpoint, oldest first.
    fn endpoints(&self) -> Result<Vec<EndpointRow>, StoreError>;

    /// Changes an endpoint; `false` where there is none of this id.
    fn change_endpoint(&self, id: &str, change: &EndpointChange) -> Result<bool, StoreError>;

    /// Deletes an endpoint with all its messages; `false` where there is none of this id. To a node that waits for
    /// one of them, what it has accepted is delivered, and the rest has failed.
    fn delete_endpoint(&self, id: &str) -> Result<bool, StoreError>;

    /// Deletes an endpoint of a trigger that no longer wants it, with all its messages. `false` where the trigger
    /// has changed since: a deploy may want the endpoint again.
    fn delete_endpoint_of(&self, id: &str, at: TriggerAt) -> Result<bool, StoreError>;

    /// Takes messages that are due, of endpoints that may get one, until the claim ends. What another instance
    /// claimed is due again as soon as its lease has expired; an instance whose own lease has expired gets
    /// nothing. One that left in order still records what it was sending, so its claims stay.
    fn claim_messages(&self, request: &MessageClaim) -> Result<ClaimedMessages, StoreError>;

    /// Records what became of claimed messages. A result is dropped where another claim has taken the
    /// message since: it will be sent again, under the same id. Returns the executions that got the result of
    /// a message that they wait for.
    fn settle_messages(
        &self,
        claim: Uuid,
        results: &[MessageResult],
    ) -> Result<Vec<ExecutionNo>, StoreError>;

    /// A page of messages, newest first.
    fn messages(&self, request: &MessagesRequest) -> Result<MessagesPage, StoreError>;

    /// Makes settled messages of an endpoint pending again, due now, with their ids and all attempts.
    /// Returns how many.
    fn replay_messages(&self, endpoint: &str, which: &Replay) -> Result<u64, StoreError>;

    /// Deletes what is no longer kept, except for deliveries of a message that a node waits for, whose
    /// result counts them; and gives up what has waited too long or is more than `pending_max`
    /// ([`PENDING_MAX`]) messages of one endpoint, the oldest first. Returns how many rows it
    /// changed. To be called again while that is [`TRIM_MAX`] or more.
    fn trim_outbox(&self, pending_max: usize) -> Result<u64, StoreError>;

    /// Counts, for metrics.
    fn outbox_stats(&self) -> Result<OutboxStats, StoreError>;
}

/// A key that signs messages. Not printable.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningSecret(pub Vec<u8>);

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret")
    }
}

/// An endpoint to keep.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewEndpoint {
    /// Part of the ids of its messages, and never used again.
    pub id: Arc<str>,
    pub url: Arc<str>,
    pub description: Arc<str>,
    /// Of which workflow it gets messages; of all where there is none.
    pub workflow: Option<Arc<str>>,
    pub kinds: MessageKinds,
    /// Is the execution's output part of messages about its end?
    pub with_output: bool,
    /// Do messages about approvals have a link for each approver?
    pub with_links: bool,
    pub secret: SigningSecret,
}

/// May an endpoint get messages?
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum EndpointState {
    Active,
    /// By a person. Its messages wait.
    Paused,
    /// It answered 410. It gets no new messages, and those that are there wait.
    Disabled,
}

impl EndpointState {
    /// Every state. Stores keep a state by its position here.
    pub const ALL: [Self; 3] = [Self::Active, Self::Paused, Self::Disabled];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Disabled => "disabled",
        }
    }

    /// As a store keeps it.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The state that a store keeps as this number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

/// A stored endpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndpointRow {
    pub endpoint: NewEndpoint,
    pub state: EndpointState,
    pub health: EndpointHealth,
    /// The secret before the last rotation, and until when it signs.
    pub former: Option<(SigningSecret, Timestamp)>,
    pub created_at: Timestamp,
}

/// A change of an endpoint by a person.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EndpointChange {
    Pause,
    /// Also of one that was disabled, or cools.
    Resume,
    /// The former secret signs beside it for [`FORMER_SECRET_KEPT`].
    Rotate(SigningSecret),
}

/// Which messages to claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessageClaim {
    /// The identity of this claim; a new one for each.
    pub claim: Uuid,
    /// Whose dispatcher sends them.
    pub instance: InstanceId,
    pub limit: usize,
    /// How long others leave the messages alone.
    pub lease: Millis,
    /// Are messages taken that fire triggers? An instance that fires none leaves them to others.
    pub for_triggers: bool,
}

/// A stored message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutboxMessage {
    pub name: MessageName,
    pub kind: MessageKind,
    /// When its frame was committed.
    pub at: Timestamp,
    /// The first seq of its frame.
    pub frame_seq: u64,
    /// The field `data` of its body, as JSON, without the output.
    pub data: Vec<u8>,
}

/// Messages that were claimed.
#[derive(Clone, Debug, Default)]
pub struct ClaimedMessages {
    /// Each with its endpoint, as it was when they were claimed.
    pub messages: Vec<(OutboxMessage, Arc<EndpointRow>)>,
    /// When the next message is due that was not claimed, if one waits for its time.
    pub next_due: Option<Timestamp>,
    /// Executions that got the result of a message that they wait for, and that no settlement reported.
    pub reported: Vec<ExecutionNo>,
    /// Are there endpoints?
    pub endpoints: bool,
    /// Does one of them ask for [`MessageKind::Handoff`]?
    pub handoffs: bool,
    /// The store's time.
    pub at: Timestamp,
}

/// What became of a claimed message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MessageResult {
    pub name: MessageName,
    pub result: Delivered,
    pub took: Millis,
    pub jitter: Jitter,
}

/// Where a message is in its life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MessageState {
    Pending,
    Delivered,
    /// A dead letter: it is sent no more, unless it is replayed.
    Dead,
}

impl MessageState {
    /// Every state. Stores keep a state by its position here.
    pub const ALL: [Self; 3] = [Self::Pending, Self::Delivered, Self::Dead];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Dead => "dead",
        }
    }

    /// As a store keeps it.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The state that a store keeps as this number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

/// A message and its deliveries so far.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MessageRow {
    /// For paging.
    pub place: u64,
    pub message: OutboxMessage,
    pub state: MessageState,
    pub attempts: u32,
    /// When it may be sent; while it is claimed, when the claim ends.
    pub due: Timestamp,
    pub last: Option<LastAttempt>,
    /// When it was delivered or given up.
    pub settled_at: Option<Timestamp>,
}

/// The latest attempt at a message, or why there will be none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LastAttempt {
    pub status: Option<u16>,
    pub took: Millis,
    pub reason: Option<Arc<str>>,
}

/// Which messages to list.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MessagesRequest {
    pub endpoint: Option<Arc<str>>,
    /// The execution that they are about.
    pub execution: Option<ExecutionNo>,
    pub state: Option<MessageState>,
    /// Before this place, for paging.
    pub before: Option<u64>,
    pub limit: usize,
}

/// A page of messages.
#[derive(Clone, Debug)]
pub struct MessagesPage {
    pub rows: Vec<MessageRow>,
    pub more: bool,
}

/// Which messages to send again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Replay {
    /// All dead letters of the endpoint.
    Dead,
    /// Those that were committed at this time or later, delivered or dead.
    Since(Timestamp),
    /// These; names of other endpoints are ignored.
    Only(Vec<MessageName>),
}

/// Counts of the outbox.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OutboxStats {
    pub pending: u64,
    pub dead: u64,
    /// When the oldest pending message of an active endpoint was committed.
    pub oldest: Option<Timestamp>,
    pub active: u64,
    /// Of the active ones.
    pub cooling: u64,
    pub paused: u64,
    pub disabled: u64,
    /// The store's time.
    pub at: Timestamp,
}
