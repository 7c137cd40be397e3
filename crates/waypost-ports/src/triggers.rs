//! Triggers, as the store keeps them: a row for each, the items that have fired, windows, dead letters.
//!
//! ```text
//!   define ─▶ rows ─▶ claim_triggers ─▶ (prepare) ─▶ append { Submission.fire }: item, cursor, first frame
//!                                            └─────▶ settle_trigger: what started no execution
//! ```
//!
//! A row has two counters. `revision` grows with what people and deploys change: a fire that was prepared on
//! an older revision is [stale](crate::store::Appended::Stale), so that a trigger that was paused, retired or
//! given another secret starts nothing once that is answered. `seq` grows whenever the cursor moves: of two
//! instances that read the same cursor, one moves it and the other is stale.
//!
//! What a trigger does is decided outside of the store; it compares and stores.

mod fires;
pub mod rules;
pub mod throttles;
mod windows;

use std::sync::Arc;

use waypost_core::id::DefinitionHash;
use waypost_core::outbox::MessageKinds;
use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::{Throttle, TriggerCursor, TriggerKindName};

pub use fires::{
    Advance, DeadFire, DeadFireRow, DeadFireState, DeadFiresRequest, Fire, FireOutcome, FireRow,
    FiresPage, FiresRequest, SettledFire, Settlement,
};
pub use windows::{Arrival, Arrived, DueGroup, GroupFence, StoredGroup, WaitingEvents, WindowRule};

use crate::store::StoreError;

/// How long an item is remembered at least, after it fired.
pub const ITEM_KEPT: Millis = Millis::from_secs(8 * 24 * 3_600);
/// How long a dead letter of a trigger is kept.
pub const DEAD_FIRE_KEPT: Millis = Millis::from_secs(30 * 24 * 3_600);
/// Dead letters of one trigger that wait for a person; with as many, it is broken.
pub const DEAD_FIRES_MAX: u64 = 10_000;
/// Triggers of all workflows together.
pub const TRIGGERS_MAX: u64 = 100_000;
/// Events that one group of a window, or the queue of a throttle, holds.
pub const GROUP_EVENTS_MAX: u32 = 1_000;
/// Bytes of events that one group of a window, or the queue of a throttle, holds.
pub const GROUP_BYTES_MAX: usize = 1 << 20;
/// Groups of one trigger that wait. The queue of a throttle is one, also while only its last starts count.
pub const GROUPS_MAX: u64 = 100_000;
/// How exact the time of the last fire is, where none moves a cursor: so that the row of a busy webhook is not
/// written with each.
pub const LAST_FIRED_STEP: Millis = Millis::from_secs(1);
/// Rows that one call of [`Triggers::trim_triggers`] deletes at most, of each kind.
pub const TRIM_MAX: usize = 1_000;

/// The interface of everything that fires triggers, and of the API to them.
pub trait Triggers: Send + Sync {
    /// Takes triggers that are due, for others to leave alone until the claim ends: a hint that saves double
    /// work, and no lock.
    fn claim_triggers(&self, request: &TriggerClaim) -> Result<ClaimedTriggers, StoreError>;

    /// Gives a trigger back that was claimed, so that another instance may claim it at once; nothing where its
    /// cursor has moved since, which has ended the claim.
    fn release_trigger(&self, trigger: TriggerNo, seq: u64) -> Result<(), StoreError>;

    /// Moves a trigger on where no execution begins with it: nothing was due, a time was skipped, an item is
    /// dead. `false` where the row has moved on since it was read, and then nothing is stored.
    fn settle_trigger(&self, settlement: &Settlement) -> Result<bool, StoreError>;

    /// One trigger.
    fn trigger(&self, workflow: &str, name: &str) -> Result<Option<TriggerRow>, StoreError>;

    /// A page of triggers, by workflow and name.
    fn triggers(&self, request: &TriggersRequest) -> Result<TriggersPage, StoreError>;

    /// A number that changes with each change of which triggers there are, of their state or revision.
    fn roster_revision(&self) -> Result<u64, StoreError>;

    /// Changes a trigger, if it is still at this revision, and at the seq that the change names, and not retired. Waits for fires under way: none that
    /// was prepared before starts anything once this has returned.
    fn change_trigger(
        &self,
        at: TriggerAt,
        change: &TriggerChange,
    ) -> Result<Option<TriggerRow>, StoreError>;

    /// Which of these items fired before, in order.
    fn fired(
        &self,
        trigger: TriggerNo,
        items: &[waypost_core::trigger::ItemDigest],
    ) -> Result<Vec<Option<FireRow>>, StoreError>;

    /// A page of the history of a trigger, newest first.
    fn fires(&self, request: &FiresRequest) -> Result<FiresPage, StoreError>;

    /// Which unfinished executions this trigger started, oldest first, at most `limit`. One that had ended and
    /// was retried may be left out.
    fn open_executions(
        &self,
        trigger: TriggerNo,
        limit: usize,
    ) -> Result<Vec<waypost_core::id::ExecutionNo>, StoreError>;

    /// Puts events into windows and before throttles, each at most once, in the order of the list.
    fn arrive(&self, arrivals: &[Arrival]) -> Result<Vec<Arrived>, StoreError>;

    /// Takes groups of windows that are due, as [`Triggers::claim_triggers`], and events of throttles that may
    /// start now. What is due is due later after that, or gone.
    fn claim_groups(&self, limit: usize, lease: Millis) -> Result<Vec<DueGroup>, StoreError>;

    /// The events of a trigger that wait.
    fn waiting_events(&self, trigger: TriggerNo) -> Result<WaitingEvents, StoreError>;

    /// A page of dead letters of triggers, newest first.
    fn dead_fires(&self, request: &DeadFiresRequest) -> Result<Vec<DeadFireRow>, StoreError>;

    /// Marks a dead letter as retried or discarded; `false` where it was already, or there is none.
    fn settle_dead_fire(&self, id: i64, state: DeadFireState) -> Result<bool, StoreError>;

    /// Deletes what is no longer kept: items older than [`ITEM_KEPT`], dead letters older than
    /// [`DEAD_FIRE_KEPT`]. Returns how many rows it deleted; to be called again while that is
    /// [`TRIM_MAX`] or more.
    fn trim_triggers(&self) -> Result<u64, StoreError>;

    /// Counts, for metrics.
    fn trigger_stats(&self) -> Result<TriggerStats, StoreError>;
}

/// The number of a trigger: the row of a workflow and a name, over all versions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TriggerNo(pub i64);

/// A trigger at a revision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TriggerAt {
    pub trigger: TriggerNo,
    pub revision: u64,
}

/// A trigger that a deploy registers.
#[derive(Clone, PartialEq, Debug)]
pub struct NewTrigger {
    pub name: Arc<str>,
    pub kind: TriggerKindName,
    /// Of what makes it fire, without its conditions and templates: where that changed, a schedule begins
    /// anew, and otherwise it goes on from its cursor; events that wait in a window become dead letters.
    pub timing: [u8; 32],
    /// Where it begins if it is new, or its timing has changed.
    pub cursor: TriggerCursor,
    /// When it is due first.
    pub next_due: Option<Timestamp>,
    /// Is it active after the deploy, if it was not paused by a person?
    pub enabled: bool,
    /// Event types of an event trigger, or the workflow of a `workflow-ended` trigger: how it is found.
    pub topics: Vec<Arc<str>>,
    /// What holds its events back, from the deploy on also those that wait already. Without one they start.
    pub throttle: Option<Throttle>,
    /// Of a `workflow-ended` trigger: with what it fires. Its endpoint is stored with its row, so that it gets
    /// every end from the deploy on, also if the process dies that deploys.
    pub ends: Option<EndsWanted>,
}

/// The ends with which a trigger fires.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndsWanted {
    /// Of which workflow; of all without one.
    pub workflow: Option<Arc<str>>,
    /// The kinds of messages about them.
    pub kinds: MessageKinds,
}

/// May a trigger fire?
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TriggerState {
    Active,
    /// By a person, by `enabled: false`, or by `deploy --paused`.
    Paused,
    /// It cannot go on without a person; its row says why.
    Broken,
    /// The current version of its workflow does not have it. It keeps its cursor and its items.
    Retired,
}

impl TriggerState {
    /// Every state. Stores keep a state by its position here.
    pub const ALL: [Self; 4] = [Self::Active, Self::Paused, Self::Broken, Self::Retired];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Broken => "broken",
            Self::Retired => "retired",
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

/// A stored trigger.
#[derive(Clone, PartialEq, Debug)]
pub struct TriggerRow {
    pub number: TriggerNo,
    pub workflow: Arc<str>,
    pub name: Arc<str>,
    pub kind: TriggerKindName,
    /// The version of the workflow that has it, and that it starts.
    pub version: u32,
    pub definition: DefinitionHash,
    pub revision: u64,
    pub seq: u64,
    /// Part of the identity of its items.
    pub incarnation: u32,
    pub state: TriggerState,
    /// Why it is paused or broken.
    pub reason: Option<Arc<str>>,
    pub cursor: TriggerCursor,
    /// Absent unless it is active.
    pub next_due: Option<Timestamp>,
    /// Reads in a row that failed.
    pub failures: u32,
    /// The last failure.
    pub failure: Option<Arc<str>>,
    pub topics: Vec<Arc<str>>,
    pub registered_at: Timestamp,
    /// Where a fire moves no cursor, to [`LAST_FIRED_STEP`].
    pub last_fired_at: Option<Timestamp>,
}

impl TriggerRow {
    /// The trigger as it is now.
    pub fn at(&self) -> TriggerAt {
        TriggerAt { trigger: self.number, revision: self.revision }
    }
}

/// Which triggers to claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TriggerClaim {
    pub limit: usize,
    /// How long others leave them alone.
    pub lease: Millis,
    /// Those of this kind, or of any.
    pub only: Option<TriggerKindName>,
    /// Not these.
    pub except: Vec<TriggerNo>,
}

impl TriggerClaim {
    /// Of any kind, and without exceptions.
    pub fn any(limit: usize, lease: Millis) -> Self {
        Self { limit, lease, only: None, except: Vec::new() }
    }

    /// May it take this trigger?
    pub fn admits(&self, row: &TriggerRow) -> bool {
        self.only.is_none_or(|kind| kind == row.kind) && !self.except.contains(&row.number)
    }
}

/// Triggers that were claimed.
#[derive(Clone, Debug, Default)]
pub struct ClaimedTriggers {
    pub triggers: Vec<TriggerRow>,
    /// When such a claim may take the next one: when it is due, or when its claim ends, also of those that this
    /// call has claimed.
    pub next_due: Option<Timestamp>,
    /// The same for groups of windows.
    pub next_group: Option<Timestamp>,
    /// The store's time.
    pub at: Timestamp,
}

/// A change of a trigger. Each raises its revision, and its seq where the cursor changes.
#[derive(Clone, PartialEq, Debug)]
pub enum TriggerChange {
    Pause {
        reason: Option<Arc<str>>,
    },
    /// Active again, from this cursor on, also if it is broken.
    Resume {
        cursor: TriggerCursor,
        next_due: Option<Timestamp>,
    },
    /// It cannot go on.
    Break {
        reason: Arc<str>,
    },
    /// Another cursor, which people chose: a rewind, a backfill.
    Move {
        /// The seq of the row that the cursor was made from: not done at any other. Absent where the cursor does
        /// not depend on the one before.
        seq: Option<u64>,
        cursor: TriggerCursor,
        next_due: Option<Timestamp>,
        /// May items fire again that did?
        again: bool,
    },
}

/// Which triggers to list.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TriggersRequest {
    pub workflow: Option<Arc<str>>,
    pub kind: Option<TriggerKindName>,
    pub state: Option<TriggerState>,
    /// Those with this topic: an event type, exactly or by prefix, or a workflow that ends.
    pub topic: Option<Arc<str>>,
    /// After this workflow and name, for paging.
    pub after: Option<(Arc<str>, Arc<str>)>,
    pub limit: usize,
}

/// A page of triggers.
#[derive(Clone, Debug, Default)]
pub struct TriggersPage {
    pub rows: Vec<TriggerRow>,
    pub more: bool,
    /// The store's time.
    pub at: Timestamp,
}

/// Counts of triggers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TriggerStats {
    /// By kind and state.
    pub triggers: Vec<(TriggerKindName, TriggerState, u64)>,
    /// Active ones whose reads fail.
    pub failing: u64,
    pub dead: u64,
    /// Groups of windows that wait, and queues of throttles with events.
    pub groups: u64,
    /// How long the most overdue active trigger is due.
    pub overdue: Millis,
}
