//! A checker's access to triggers: rows as they are stored, what belongs to nothing, and repairs of what can be
//! derived from definitions and from other rows.

use std::sync::Arc;

use waypost_core::id::ExecutionNo;
use waypost_core::time::Timestamp;

use super::Inspect;
use crate::outbox::Outbox;
use crate::store::StoreError;
use crate::triggers::rules::StoredTrigger;
use crate::triggers::throttles::GroupRole;
use crate::triggers::{FireRow, StoredGroup, TriggerAt, TriggerNo, TriggerState, Triggers};

/// Most rows that [`InspectTriggers::trigger_strays`] returns of each kind.
pub const TRIGGER_STRAYS_MAX: usize = 1_000;

/// A checker's access to triggers. Each call reads from one snapshot.
pub trait InspectTriggers: Inspect + Triggers + Outbox {
    /// A page of the rows of triggers, by number.
    fn stored_triggers(
        &self,
        after: Option<TriggerNo>,
        limit: usize,
    ) -> Result<InspectedTriggers, StoreError>;

    /// The items that name these executions, by execution.
    fn fires_of(&self, executions: &[ExecutionNo]) -> Result<Vec<NamedFire>, StoreError>;

    /// A page of the groups of windows, by number.
    fn stored_groups(
        &self,
        after: Option<i64>,
        limit: usize,
    ) -> Result<InspectedGroups, StoreError>;

    /// Rows that miss their other half, at most [`TRIGGER_STRAYS_MAX`] of each kind.
    fn trigger_strays(&self) -> Result<Vec<TriggerStray>, StoreError>;

    /// Writes a row as it follows from its definition, if it is still as the checker saw it, and raises the
    /// revision of the list of triggers above that of each of them. The groups of the trigger follow its state; of
    /// its windows, the claims end, and those without an event are deleted. Returns whether it was.
    fn repair_trigger(&self, repair: &TriggerRepair) -> Result<bool, StoreError>;
}

/// A page of triggers.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct InspectedTriggers {
    pub rows: Vec<InspectedTrigger>,
    /// The store's time.
    pub at: Timestamp,
}

/// The whole row of a trigger.
#[derive(Clone, PartialEq, Debug)]
pub struct InspectedTrigger {
    pub stored: StoredTrigger,
    /// When a claim may take it.
    pub claimable_at: Option<Timestamp>,
}

/// An item that names an execution.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedFire {
    pub execution: ExecutionNo,
    pub trigger: TriggerNo,
    /// The workflow and the name of its trigger; absent where there is no such trigger.
    pub names: Option<(Arc<str>, Arc<str>)>,
    pub fire: FireRow,
}

/// A page of groups.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct InspectedGroups {
    pub groups: Vec<InspectedGroup>,
    /// The store's time.
    pub at: Timestamp,
}

/// The whole row of a group, with what it holds and the state of its trigger.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InspectedGroup {
    pub number: i64,
    pub role: GroupRole,
    pub trigger: TriggerNo,
    /// Absent where there is no such trigger.
    pub state: Option<TriggerState>,
    pub key: Arc<str>,
    pub seq: u64,
    pub stored: StoredGroup,
    /// When a claim may take it.
    pub claimable_at: Timestamp,
    /// Does what arrives from now on belong to the next group?
    pub closed: bool,
    /// Is it marked as one of a trigger that is not active?
    pub paused: bool,
    pub held: HeldEvents,
}

/// The events that a group holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HeldEvents {
    pub count: u64,
    /// Of their payloads.
    pub bytes: u64,
    /// The id of the last one; 0 without any.
    pub last: u64,
    /// Those whose items are not known, so that they could arrive again.
    pub unknown: u64,
}

/// A row that misses its other half.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TriggerStray {
    pub kind: TriggerStrayKind,
    /// Absent where the row does not say.
    pub trigger: Option<TriggerNo>,
    /// The item as people read it.
    pub label: Arc<str>,
}

/// What is missing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TriggerStrayKind {
    /// An item that started an execution, and no log of it.
    StartWithoutLog,
    /// An event in a window, and no group that holds it.
    EventWithoutGroup,
    /// An item that is dead, and no dead letter.
    DeadItemWithoutLetter,
    /// A dead letter, and no item that is dead. Letters of windows that are gone are left out: their items are
    /// older.
    LetterWithoutItem,
}

impl TriggerStrayKind {
    /// Every kind. Stores name a kind by its position here.
    pub const ALL: [Self; 4] = [
        Self::StartWithoutLog,
        Self::EventWithoutGroup,
        Self::DeadItemWithoutLetter,
        Self::LetterWithoutItem,
    ];

    /// The kind of this position.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

/// A row of a trigger as a checker derived it.
#[derive(Clone, PartialEq, Debug)]
pub struct TriggerRepair {
    /// The row that was seen.
    pub at: TriggerAt,
    pub seq: u64,
    pub derived: StoredTrigger,
}

impl TriggerRepair {
    /// Is this the row that was seen?
    pub fn is_of(&self, stored: &StoredTrigger) -> bool {
        stored.row.at() == self.at && stored.row.seq == self.seq
    }
}
