//! The invariants by name: rules for every store, each with its meaning in a sentence.

use std::fmt;

use crate::id::ExecutionNo;

/// Something that must always be true.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Invariant {
    /// I1.
    Linked,
    /// I2.
    CreatedFirst,
    /// I3.
    Fenced,
    /// I4.
    EndsOnce,
    /// I5.
    AttemptsOnce,
    /// I6.
    AttemptsInOrder,
    /// I7.
    SettlesOnce,
    /// I8.
    JoinsInTime,
    /// I9.
    Justified,
    /// I10.
    WaitsEndInTime,
    /// I11.
    MessagesOnce,
    /// I12.
    PausesHold,
    /// I13.
    CauseDecides,
    /// I14.
    Folds,
    /// I14.
    SnapshotFolds,
    /// I15.
    DefinitionPinned,
    /// I17.
    AppendsOnce,
    /// I18.
    Limits,
    /// T1.
    TimeGoesOn,
    /// V1.
    VersionsGrow,
    /// G7.
    ProjectionsFold,
    /// G8.
    ReasonToWake,
    /// G10.
    PermitsHold,
    /// G11.
    MailWakes,
    /// R1.
    ControlAgrees,
    /// R2.
    NothingStray,
}

impl Invariant {
    /// Every invariant, for tables and tests.
    pub const ALL: [Self; 26] = [
        Self::Linked,
        Self::CreatedFirst,
        Self::Fenced,
        Self::EndsOnce,
        Self::AttemptsOnce,
        Self::AttemptsInOrder,
        Self::SettlesOnce,
        Self::JoinsInTime,
        Self::Justified,
        Self::WaitsEndInTime,
        Self::MessagesOnce,
        Self::PausesHold,
        Self::CauseDecides,
        Self::Folds,
        Self::SnapshotFolds,
        Self::DefinitionPinned,
        Self::AppendsOnce,
        Self::Limits,
        Self::TimeGoesOn,
        Self::VersionsGrow,
        Self::ProjectionsFold,
        Self::ReasonToWake,
        Self::PermitsHold,
        Self::MailWakes,
        Self::ControlAgrees,
        Self::NothingStray,
    ];

    /// Its name, as `waypost check` prints it: its subject, and what must hold.
    pub fn name(self) -> &'static str {
        match self {
            Self::Linked => "log.gapless",
            Self::CreatedFirst => "log.created-first",
            Self::Fenced => "log.fenced",
            Self::EndsOnce => "log.single-end",
            Self::AttemptsOnce => "attempt.once",
            Self::AttemptsInOrder => "attempt.consecutive",
            Self::SettlesOnce => "node.settles-once",
            Self::JoinsInTime => "join.on-time",
            Self::Justified => "graph.justified",
            Self::WaitsEndInTime => "wait.ends-once",
            Self::MessagesOnce => "message.consumed-once",
            Self::PausesHold => "pause.holds",
            Self::CauseDecides => "end.follows-cause",
            Self::Folds => "log.readable",
            Self::SnapshotFolds => "snapshot.matches-log",
            Self::DefinitionPinned => "definition.pinned",
            Self::AppendsOnce => "append.once",
            Self::Limits => "limits.hold",
            Self::TimeGoesOn => "time.monotonic",
            Self::VersionsGrow => "log.format-known",
            Self::ProjectionsFold => "projection.matches-log",
            Self::ReasonToWake => "wake.has-reason",
            Self::PermitsHold => "concurrency.within-limit",
            Self::MailWakes => "mail.wakes",
            Self::ControlAgrees => "control.matches-log",
            Self::NothingStray => "rows.belong",
        }
    }

    /// Its meaning, in a sentence.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Linked => "a log has no gap, and each frame follows the one before it",
            Self::CreatedFirst => "an execution is created once, by its first event",
            Self::Fenced => "an owner that was replaced never appends",
            Self::EndsOnce => "a generation ends once, when all is settled, and nothing follows",
            Self::AttemptsOnce => "an attempt starts once and ends once",
            Self::AttemptsInOrder => "attempts are consecutive and no more than allowed",
            Self::SettlesOnce => "a node that has settled does not run again",
            Self::JoinsInTime => "a join fires when its conditions are met, and not before",
            Self::Justified => "every start, skip and cancellation follows from the graph",
            Self::WaitsEndInTime => "a wait ends once, by what it waited for, and never early",
            Self::MessagesOnce => "a message is consumed once",
            Self::PausesHold => "pause and resume alternate, and nothing starts in between",
            Self::CauseDecides => "once the end is fixed nothing starts, and it ends that way",
            Self::Folds => "every event can be read and is possible at its position",
            Self::SnapshotFolds => "a snapshot is the state that the log gives",
            Self::DefinitionPinned => "the definition that an execution was created with is there",
            Self::AppendsOnce => "an append is applied once",
            Self::Limits => "limits hold",
            Self::TimeGoesOn => "the store's time never goes back, and decisions precede it",
            Self::VersionsGrow => "no instance appends behind a frame that it cannot read",
            Self::ProjectionsFold => "the projections show what the log says",
            Self::ReasonToWake => "every unfinished execution has a reason to wake",
            Self::PermitsHold => {
                "an execution with a concurrency key starts with a permit, up to the limit"
            }
            Self::MailWakes => "mail wakes the execution it is for",
            Self::ControlAgrees => "the control row agrees with the log",
            Self::NothingStray => "no row belongs to an execution without a log",
        }
    }
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
    /// The violation, in words.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { execution, invariant, seq, what } = self;
        write!(f, "{execution} seq {seq}: {invariant} ({}): {what}", invariant.meaning())
    }
}
