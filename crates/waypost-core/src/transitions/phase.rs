//! Phases: the statuses, split where a pause, a quarantine or the kind of a wait decides what may
//! happen next. The state machines move between phases; people see statuses.

use crate::event::{PauseReason, Wait};
use crate::planted::{Bug, is_planted};
use crate::state::{NodeState, State};
use crate::status::{NodeStatus, Status};

/// One line per phase: its code in the tables, its name, and the status that users see.
macro_rules! phases {
    ($(#[$about:meta])* $phase:ident shows $status:ident, $count:literal:
     $($variant:ident $code:ident $name:literal $shown:ident;)+) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum $phase { $($variant),+ }

        impl $phase {
            /// Every phase, in the order of the tables' columns.
            pub const ALL: [Self; $count] = [$(Self::$variant),+];
            $(pub(super) const $code: Self = Self::$variant;)+

            /// The name: that of the status, with what splits it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// The status that users see.
            pub fn shown(self) -> $status {
                match self { $(Self::$variant => $status::$shown),+ }
            }
        }
    };
}

phases! {
    /// Where an execution is in its life.
    RunPhase shows Status, 16:
    Requested           REQ "REQUESTED"             Running;
    Scheduling          SNG "SCHEDULING"            Scheduling;
    Scheduled           SCH "SCHEDULED"             Running;
    Running             RUN "RUNNING"               Running;
    Pausing             PSG "PAUSING"               Running;
    Waiting             WAI "WAITING"               Waiting;
    Paused              PAU "PAUSED"                Paused;
    Quarantined         QUA "QUARANTINED"           Quarantined;
    Resuming            RES "RESUMING"              Running;
    ResumingPaused      RSP "RESUMING(paused)"      Paused;
    ResumingQuarantined RSQ "RESUMING(quarantined)" Quarantined;
    Ending              END "ENDING"                Ending;
    Completed           COM "COMPLETED"             Completed;
    Failed              FAI "FAILED"                Failed;
    Cancelled           CAN "CANCELLED"             Cancelled;
    TimedOut            TIM "TIMED_OUT"             TimedOut;
}

phases! {
    /// Where a node is in its life. A wait for the next attempt differs from a wait of the attempt.
    NodePhase shows NodeStatus, 12:
    Pending      PEN "PENDING"        Pending;
    Queued       QUE "QUEUED"         Queued;
    Running      RUN "RUNNING"        Running;
    Waiting      WAI "WAITING"        Waiting;
    WaitingRetry WRT "WAITING(retry)" Waiting;
    WaitingBody  WBO "WAITING(body)"  Waiting;
    WaitingChild WCH "WAITING(child)" Waiting;
    Completed    COM "COMPLETED"      Completed;
    Failed       FAI "FAILED"         Failed;
    TimedOut     TIM "TIMED_OUT"      TimedOut;
    Skipped      SKI "SKIPPED"        Skipped;
    Cancelled    CAN "CANCELLED"      Cancelled;
}

impl State {
    /// Its phase.
    pub fn phase(&self) -> RunPhase {
        let pausing = self.pausing && !is_planted(Bug::PauseIgnored);
        match self.status {
            Status::Requested | Status::Scheduled | Status::Running | Status::Resuming
                if pausing =>
            {
                RunPhase::Pausing
            }
            Status::Resuming if self.quarantine.is_some() => RunPhase::ResumingQuarantined,
            Status::Resuming if self.paused == Some(PauseReason::User) => RunPhase::ResumingPaused,
            Status::Requested => RunPhase::Requested,
            Status::Scheduling => RunPhase::Scheduling,
            Status::Scheduled => RunPhase::Scheduled,
            Status::Running => RunPhase::Running,
            Status::Paused => RunPhase::Paused,
            Status::Resuming => RunPhase::Resuming,
            Status::Ending => RunPhase::Ending,
            Status::Completed => RunPhase::Completed,
            Status::Failed => RunPhase::Failed,
            Status::Cancelled => RunPhase::Cancelled,
            Status::TimedOut => RunPhase::TimedOut,
            Status::Waiting => RunPhase::Waiting,
            Status::Quarantined => RunPhase::Quarantined,
        }
    }

    /// The status that users see. An owner that loaded an execution for a message leaves it paused or
    /// quarantined; everything else that is under way is RUNNING.
    pub fn shown_status(&self) -> Status {
        self.phase().shown()
    }

    /// Goes over to a phase: sets the status, and whether a pause is awaited.
    pub(crate) fn enter(&mut self, phase: RunPhase) {
        self.pausing = phase == RunPhase::Pausing;
        self.status = match phase {
            // Everything under way continues until the pause.
            RunPhase::Pausing => return,
            RunPhase::Requested => Status::Requested,
            RunPhase::Scheduled => Status::Scheduled,
            RunPhase::Resuming | RunPhase::ResumingPaused | RunPhase::ResumingQuarantined => {
                Status::Resuming
            }
            RunPhase::Scheduling
            | RunPhase::Running
            | RunPhase::Waiting
            | RunPhase::Paused
            | RunPhase::Quarantined
            | RunPhase::Ending
            | RunPhase::Completed
            | RunPhase::Failed
            | RunPhase::Cancelled
            | RunPhase::TimedOut => phase.shown(),
        };
    }
}

impl NodeState {
    /// Its phase.
    pub fn phase(&self) -> NodePhase {
        match self.status {
            NodeStatus::Waiting if matches!(self.wait, Some(Wait::Retry { .. })) => {
                NodePhase::WaitingRetry
            }
            NodeStatus::Waiting if self.wait == Some(Wait::Body) => NodePhase::WaitingBody,
            NodeStatus::Waiting if matches!(self.wait, Some(Wait::Child { .. })) => {
                NodePhase::WaitingChild
            }
            NodeStatus::Pending => NodePhase::Pending,
            NodeStatus::Queued => NodePhase::Queued,
            NodeStatus::Running => NodePhase::Running,
            NodeStatus::Waiting => NodePhase::Waiting,
            NodeStatus::Completed => NodePhase::Completed,
            NodeStatus::Failed => NodePhase::Failed,
            NodeStatus::TimedOut => NodePhase::TimedOut,
            NodeStatus::Skipped => NodePhase::Skipped,
            NodeStatus::Cancelled => NodePhase::Cancelled,
        }
    }
}
