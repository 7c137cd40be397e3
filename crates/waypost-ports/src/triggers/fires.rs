//! Fires: what a trigger did with each item.

use std::sync::Arc;

use waypost_core::id::ExecutionNo;
use waypost_core::time::Timestamp;
use waypost_core::trigger::{ItemDigest, TriggerCursor};

use super::{GroupFence, TriggerAt, TriggerNo};

/// The fire that an execution begins with, stored with its first frame.
#[derive(Clone, PartialEq, Debug)]
pub struct Fire {
    /// Stale where the trigger is not active any more, or at another revision.
    pub at: TriggerAt,
    /// Where this item fired before, the frame is a [duplicate](crate::store::TakenName::Item), or, where it
    /// started nothing, [known](crate::store::Appended::ItemSettled). Judged before all other names: the
    /// same fire again must not find its own id taken.
    pub item: ItemDigest,
    /// The item as people read it, at most 512 bytes.
    pub label: Arc<str>,
    /// The nominal time of a schedule.
    pub nominal: Option<Timestamp>,
    /// The trigger's next cursor, if this fire moves it.
    pub advance: Option<Advance>,
    /// The group of a window that it empties, if it does.
    pub group: Option<GroupFence>,
}

/// A cursor that moves with a fire, or without one. It ends the claim of the trigger.
#[derive(Clone, PartialEq, Debug)]
pub struct Advance {
    /// The seq of the row that it was decided on: stale at any other.
    pub seq: u64,
    pub cursor: TriggerCursor,
    pub next_due: Option<Timestamp>,
}

/// What became of an item.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FireOutcome {
    /// It started an execution.
    Started,
    /// Its condition did not hold.
    Filtered,
    /// An execution of an earlier time had not ended, or a concurrency limit refused it.
    Skipped,
    /// It was due too long ago.
    Missed,
    /// It could not start one, and is a dead letter.
    Dead,
    /// It was put into a window, whose fire has an item of its own.
    Collected,
    /// Entries of a stream were removed before they could be read.
    Gap,
}

impl FireOutcome {
    /// Every outcome. Stores keep an outcome by its position here.
    pub const ALL: [Self; 7] = [
        Self::Started,
        Self::Filtered,
        Self::Skipped,
        Self::Missed,
        Self::Dead,
        Self::Collected,
        Self::Gap,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Filtered => "filtered",
            Self::Skipped => "skipped",
            Self::Missed => "missed",
            Self::Dead => "dead",
            Self::Collected => "collected",
            Self::Gap => "gap",
        }
    }

    /// As a store keeps it.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The outcome that a store keeps as this number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

/// A trigger that moves on without an execution.
#[derive(Clone, PartialEq, Debug)]
pub struct Settlement {
    /// Not stored where the trigger is not active, or at another revision.
    pub at: TriggerAt,
    /// Not stored where the row has another seq. Without it, items are recorded, and the cursor, the failures
    /// and the claim stay as they are.
    pub advance: Option<Advance>,
    /// The group of a window that it empties; not stored where another event has arrived in it since.
    pub group: Option<GroupFence>,
    /// Items that started nothing. An item that is known already stays as it is.
    pub fires: Vec<SettledFire>,
    /// Reads in a row that failed; 0 where this one did not. Kept with an advance.
    pub failures: u32,
    pub failure: Option<Arc<str>>,
    /// It cannot go on, for this reason.
    pub broken: Option<Arc<str>>,
    /// Executions to cancel, with a reason.
    pub cancel: Vec<(ExecutionNo, Arc<str>)>,
}

impl Settlement {
    /// Is one of its items a dead letter?
    pub fn has_dead(&self) -> bool {
        self.fires.iter().any(|fire| fire.dead.is_some())
    }
}

/// An item that started nothing.
#[derive(Clone, PartialEq, Debug)]
pub struct SettledFire {
    pub item: ItemDigest,
    pub label: Arc<str>,
    pub nominal: Option<Timestamp>,
    pub outcome: FireOutcome,
    /// Why; for times that were missed, how many.
    pub reason: Option<Arc<str>>,
    /// For [`FireOutcome::Dead`]: what it is kept with.
    pub dead: Option<DeadFire>,
}

/// What a dead letter needs to be fired again: the payload, as JSON.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadFire {
    pub payload: Arc<str>,
}

/// One item of a trigger's history.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FireRow {
    /// For paging.
    pub place: i64,
    pub item: ItemDigest,
    pub label: Arc<str>,
    pub at: Timestamp,
    pub nominal: Option<Timestamp>,
    pub outcome: FireOutcome,
    pub reason: Option<Arc<str>>,
    pub execution: Option<ExecutionNo>,
}

/// Which fires to list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FiresRequest {
    pub trigger: TriggerNo,
    pub outcome: Option<FireOutcome>,
    /// Before this place, for paging.
    pub before: Option<i64>,
    pub limit: usize,
}

/// A page of fires.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FiresPage {
    pub rows: Vec<FireRow>,
    pub more: bool,
}

/// Where a dead letter of a trigger is in its life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DeadFireState {
    Dead,
    /// A person had it fired again.
    Retried,
    Discarded,
}

impl DeadFireState {
    /// Every state. Stores keep a state by its position here.
    pub const ALL: [Self; 3] = [Self::Dead, Self::Retried, Self::Discarded];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::Retried => "retried",
            Self::Discarded => "discarded",
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

/// A stored dead letter of a trigger.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadFireRow {
    pub id: i64,
    pub trigger: TriggerNo,
    pub item: ItemDigest,
    pub label: Arc<str>,
    pub at: Timestamp,
    pub reason: Arc<str>,
    /// JSON.
    pub payload: Arc<str>,
    pub state: DeadFireState,
}

/// Which dead letters to list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeadFiresRequest {
    pub trigger: Option<TriggerNo>,
    pub state: Option<DeadFireState>,
    pub id: Option<i64>,
    /// Before this id, for paging.
    pub before: Option<i64>,
    pub limit: usize,
}
