//! The invariants by name: rules for every store, each with its meaning in a sentence.

use std::fmt;

use crate::id::ExecutionNo;

/// Declares the invariants, with the name that `waypost check` prints (the subject, and what must
/// hold) and the meaning.
macro_rules! invariants {
    ($($invariant:ident = $name:literal, $meaning:literal;)+) => {
        /// Something that must always be true.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Invariant {
            $(#[doc = $meaning] $invariant,)+
        }

        impl Invariant {
            /// Every invariant, for tables and tests.
            pub const ALL: &[Self] = &[$(Self::$invariant),+];

            /// Its name, as `waypost check` prints it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$invariant => $name),+ }
            }

            /// Its meaning, in a sentence.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$invariant => $meaning),+ }
            }
        }
    };
}

invariants! {
    Linked = "log.gapless", "a log has no gap, and each frame follows the one before it";
    CreatedFirst = "log.created-first", "an execution is created once, by its first event";
    Fenced = "log.fenced", "an owner that was replaced never appends";
    EndsOnce = "log.single-end", "a generation ends once, when all is settled, and nothing follows";
    AttemptsOnce = "attempt.once", "an attempt starts once and ends once";
    AttemptsInOrder = "attempt.consecutive", "attempts are consecutive and no more than allowed";
    SettlesOnce = "node.settles-once", "a node that has settled does not run again";
    JoinsInTime = "join.on-time", "a join fires when its conditions are met, and not before";
    Justified = "graph.justified", "every start, skip and cancellation follows from the graph";
    BodiesInOrder = "body.in-order",
        "a container opens its scopes in order, and settles after what is in them";
    ChildrenOnce = "child.once",
        "an execution that a node starts begins once, and its end is taken once";
    ChildMatchesParent = "child.matches-parent",
        "what parent and child record of each other agrees";
    WaitsEndInTime = "wait.ends-once", "a wait ends once, by what it waited for, and never early";
    MessagesOnce = "message.consumed-once", "a message is consumed once";
    PausesHold = "pause.holds", "pause and resume alternate, and nothing starts in between";
    CauseDecides = "end.follows-cause",
        "once the end is fixed nothing starts, and it ends that way";
    Folds = "log.readable", "every event can be read and is possible at its position";
    SnapshotFolds = "snapshot.matches-log", "a snapshot is the state that the log gives";
    DefinitionPinned = "definition.pinned",
        "the definition that an execution was created with is there";
    BudgetHolds = "budget.holds",
        "attempts reserve before they start, and what is spent and reserved stays within the budget";
    AppendsOnce = "append.once", "an append is applied once";
    Limits = "limits.hold", "limits hold";
    TimeGoesOn = "time.monotonic", "the store's time never goes back, and decisions precede it";
    VersionsGrow = "log.format-known", "no instance appends behind a frame that it cannot read";
    ProjectionsFold = "projection.matches-log", "the projections show what the log says";
    ReasonToWake = "wake.has-reason", "every unfinished execution has a reason to wake";
    PermitsHold = "concurrency.within-limit",
        "an execution with a concurrency key starts with a permit, up to the limit";
    MailWakes = "mail.wakes", "mail wakes the execution it is for";
    ControlAgrees = "control.matches-log", "the control row agrees with the log";
    NothingStray = "rows.belong", "no row belongs to an execution without a log";
    TriggerItemsOnce = "trigger.one-execution-per-item",
        "an execution that a trigger started and the item that started it name each other, and no other";
    TriggerCursorHolds = "trigger.cursor-covers-fires",
        "the cursor of a schedule is not before a time that has fired";
    TriggerDue = "trigger.due",
        "an active trigger is due when its definition and its cursor say, and no other trigger is";
    TriggerMatchesVersion = "trigger.matches-version",
        "the row of a trigger is what the current version of its workflow declares";
    TriggerEndpoint = "trigger.has-endpoint",
        "a trigger that fires with ends has its endpoint";
    TriggerGroups = "trigger.groups-match-events",
        "a group of a window agrees with the events that it holds and with the state of its trigger";
    TriggerDeadLetters = "trigger.dead-letters-match-items",
        "an item that is dead has its dead letter, and a dead letter its item";
    TriggerRoster = "trigger.roster-current",
        "the revision of the list of triggers is not behind that of a trigger";
    BlobsStored = "blobs.stored", "every blob that an execution names is stored, and its bytes hash to its digest";
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// An invariant that does not hold, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    pub execution: ExecutionNo,
    pub invariant: Invariant,
    /// At which event; for rows beside the log, the last one they should include.
    pub seq: u64,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { execution, invariant, seq, what } = self;
        write!(f, "{execution} seq {seq}: {invariant} ({}): {what}", invariant.meaning())
    }
}
