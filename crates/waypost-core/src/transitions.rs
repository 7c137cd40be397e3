//! The two state machines, as data: where each event leads from each phase, and what it means.
//!
//! ```text
//!   RUN, NODE ─▶ apply                        rejects events without an arrow, and sets the status
//!             ├▶ projections                  the status that users see
//!             ├▶ the simulator                which arrows were taken
//!             └▶ docs/reference/states.md, events.md
//! ```
//!
//! The tables define which phases an event connects. Further requirements of an event (the next
//! epoch, nothing running, the cause that fixes this end) are in `apply`. The checker has a second
//! reading of the machines, on purpose, and does not use the tables.

mod phase;

use crate::event::{Event, FailureEnd, NodeEvent, PauseReason, RunEvent};
use crate::status::{NodeStatus, Status};

pub use phase::{NodePhase, RunPhase};

/// An arrow between statuses that users see: from, by which row, to.
pub type Arrow = (&'static str, &'static str, &'static str);

/// An event, or one case of an event that leads to several places.
#[derive(Debug)]
pub struct Row<P: 'static, const N: usize> {
    /// The event's name in the log.
    pub event: &'static str,
    /// Its name, with the case.
    pub name: &'static str,
    /// Where it leads from each phase, in the order of `ALL`.
    pub to: [Option<P>; N],
    /// The phases of its execution in which an event of a node may happen.
    pub during: &'static [RunPhase],
    /// When it is recorded, and what it means.
    pub about: &'static str,
}

/// A row of executions.
pub type RunRow = Row<RunPhase, 16>;
/// A row of nodes.
pub type NodeRow = Row<NodePhase, 12>;

/// Something may start, and a wait may be ended by hand: nothing holds the execution.
const ACTING: &[RunPhase] = &[RunPhase::Scheduled, RunPhase::Running, RunPhase::Resuming];
/// An instance owns the execution, or awaits what still runs at its end.
const ANY: &[RunPhase] = &[
    RunPhase::Ending,
    RunPhase::Scheduled,
    RunPhase::Running,
    RunPhase::Pausing,
    RunPhase::Resuming,
    RunPhase::ResumingPaused,
    RunPhase::ResumingQuarantined,
];
/// An instance owns the execution, and its end is not fixed.
const OWNED: &[RunPhase] = ANY.split_at(1).1;
/// Events of executions say it with their own cells.
const SELF: &[RunPhase] = &[];

/// A cell of a table.
macro_rules! cell {
    ($phase:ident -) => {
        None
    };
    ($phase:ident $code:ident) => {
        Some($phase::$code)
    };
}

/// A table: for each event its name, its case, its cells, when it may happen, and what it means.
macro_rules! machine {
    ($table:ident: $row:ident of $phase:ident, $of:ident, $status:ident;
     [$($column:ident)+]
     $($event:pat $(if $guard:expr)? =>
        $name:literal $($case:literal)? [$($cell:tt)+] $during:ident $text:literal;)+) => {
        // The columns are in the order of the phases.
        const _: () = {
            let columns = [$($phase::$column as usize),+];
            let mut at = 0;
            while at < columns.len() {
                assert!(columns[at] == at);
                at += 1;
            }
        };

        /// The machine's rows: where each event leads from each phase.
        pub const $table: &[&$row] = &[$(&$row {
            event: $name,
            name: concat!($name $(, $case)?),
            to: [$(cell!($phase $cell)),+],
            during: $during,
            about: $text,
        }),+];

        impl $of {
            /// Its row in the table of transitions.
            pub fn row(&self) -> &'static $row {
                match self {
                    $($event $(if $guard)? => const { &$row {
                        event: $name,
                        name: concat!($name $(, $case)?),
                        to: [$(cell!($phase $cell)),+],
                        during: $during,
                        about: $text,
                    } },)+
                }
            }
        }

        impl $row {
            /// Where it leads from a phase.
            pub fn from(&self, phase: $phase) -> Option<$phase> {
                self.to.get(phase as usize).copied().flatten()
            }

            /// Its arrows between the statuses that users see.
            pub fn arrows(&self) -> impl Iterator<Item = ($status, $status)> + '_ {
                let arrow = |from: $phase| Some((from.shown(), self.from(from)?.shown()));
                $phase::ALL.into_iter().filter_map(arrow)
            }
        }
    };
}

// The machine of executions. A cell is where the event leads; `-` is refused.
machine! {
    RUN: RunRow of RunPhase, RunEvent, Status;
                      [REQ SNG SCH RUN PSG WAI PAU QUA RES RSP RSQ END COM FAI CAN TIM]
    RunEvent::Created(_) => "RunCreated"
                      [ -   -   -   -   -   -   -   -   -   -   -   -   -   -   -   - ] SELF
        "The first event: the execution was accepted and is durable.";
    RunEvent::Owned { .. } => "RunOwned"
                      [SCH SNG SCH RUN PSG RES RSP RSQ RES RSP RSQ END  -   -   -   - ] SELF
        "An instance took the execution over; appends of earlier owners are rejected from here on.";
    RunEvent::Queued { .. } => "RunQueued"
                      [ -  SNG SNG  -   -   -   -   -   -   -   -   -   -   -   -   - ] SELF
        "The execution entered the queue of its concurrency key, or returned to its place in it; no instance owns it.";
    RunEvent::Admitted {} => "RunAdmitted"
                      [ -  SCH  -   -   -   -   -   -   -   -   -   -   -   -   -   - ] SELF
        "The execution got a permit of its concurrency key, and holds it until it ends.";
    RunEvent::PauseRequested { .. } => "RunPauseRequested"
                      [PSG  -  PSG PSG  -  PAU  -   -  PSG  -   -   -   -   -   -   - ] SELF
        "A person asked for a pause. Running attempts may end first; a parked execution is PAUSED at once.";
    RunEvent::BudgetExhausted { .. } => "RunBudgetExhausted"
                      [ -   -   -  PSG  -   -   -   -   -   -   -   -   -   -   -   - ] SELF
        "The budget has no room for an attempt, whatever the attempts under way give back, and its policy is to pause: running attempts may end first.";
    RunEvent::BudgetSet { .. } => "RunBudgetSet"
                      [ -  SNG SCH RUN PSG  -   -   -  RES RSP RSQ  -   -   -   -   - ] SELF
        "A person changed the limits of the budget.";
    RunEvent::Paused { reason: PauseReason::Waits } => "RunPaused" "(waits)"
                      [ -   -   -  WAI  -   -   -   -   -   -   -   -   -   -   -   - ] SELF
        "Nothing is left to do until a timer, a signal or a retry: the execution left memory.";
    RunEvent::Paused { reason: PauseReason::User } => "RunPaused" "(user)"
                      [ -   -   -   -  PAU  -   -   -   -  PAU QUA  -   -   -   -   - ] SELF
        "The requested pause is complete, or an owner that loaded the execution for a message released it again.";
    RunEvent::Paused { reason: PauseReason::Children } => "RunPaused" "(children)"
                      [ -   -   -   -   -   -   -   -   -   -   -  END  -   -   -   - ] SELF
        "The execution is ending, and left memory until the executions that it started have ended.";
    RunEvent::Resumed { .. } => "RunResumed"
                      [ -   -   -   -  RUN  -  RUN RUN RUN RUN RUN  -   -   -   -   - ] SELF
        "The execution continues: a person resumed it, or an owner loaded it after it was parked.";
    RunEvent::Quarantined { .. } => "RunQuarantined"
                      [ -   -   -  QUA QUA  -   -   -   -   -   -   -   -   -   -   - ] SELF
        "Waypost cannot safely continue the execution; a person decides.";
    RunEvent::Ending { .. } => "RunEnding"
                      [END END END END END END END END END END END  -   -   -   -   - ] SELF
        "The end is fixed: nodes that were PENDING become CANCELLED, and running attempts are cancelled and awaited.";
    RunEvent::Completed { .. } => "RunCompleted"
                      [ -   -  COM COM COM  -   -   -  COM  -   -   -   -   -   -   - ] SELF
        "Every node settled, and no failure was left unhandled.";
    RunEvent::Failed { .. } => "RunFailed"
                      [ -   -   -  FAI FAI  -   -   -  FAI  -   -  FAI  -   -   -   - ] SELF
        "Every node settled, and a failure was not handled.";
    RunEvent::Cancelled { .. } => "RunCancelled"
                      [ -   -   -   -   -   -   -   -   -   -   -  CAN  -   -   -   - ] SELF
        "The execution was cancelled, and nothing of it runs any more.";
    RunEvent::TimedOut {} => "RunTimedOut"
                      [ -   -   -   -   -   -   -   -   -   -   -  TIM  -   -   -   - ] SELF
        "The execution took longer than its timeout, and nothing of it runs any more.";
    RunEvent::Reopened { .. } => "RunReopened"
                      [ -   -   -   -   -   -   -   -   -   -   -   -   -  SCH SCH SCH] SELF
        "A retry opened the next generation: the listed nodes are PENDING again.";
    RunEvent::SignalReceived { .. } => "SignalReceived"
                      [REQ SNG SCH RUN PSG WAI PAU QUA RES RSP RSQ  -   -   -   -   - ] SELF
        "A signal arrived. The events that follow say what it ends; until a node waits for it, it is kept.";
    RunEvent::SignalDelivered { .. } => "SignalDelivered"
                      [ -   -   -  RUN  -   -   -   -  RES  -   -   -   -   -   -   - ] SELF
        "A signal that more nodes waited for than one frame can take has reached all of them.";
    RunEvent::MessageIgnored { .. } => "MessageIgnored"
                      [REQ SNG SCH RUN PSG WAI PAU QUA RES RSP RSQ END  -   -   -   - ] SELF
        "A message was consumed and changed nothing.";
}

// The machine of nodes, likewise.
machine! {
    NODE: NodeRow of NodePhase, NodeEvent, NodeStatus;
                      [PEN QUE RUN WAI WRT WBO WCH COM FAI TIM SKI CAN]
    NodeEvent::Scheduled { .. } => "NodeScheduled"
                      [QUE  -   -   -  QUE  -   -   -   -   -   -   - ] ACTING
        "An attempt may be made: the node's conditions are met, or its retry is due.";
    NodeEvent::Reserved(_) => "NodeReserved"
                      [ -  QUE  -   -   -   -   -   -   -   -   -   - ] ACTING
        "The budget has room for the attempt, which reserved the most that it can use.";
    NodeEvent::Used(_) => "NodeUsed"
                      [ -   -  RUN  -   -   -   -   -   -   -   -   - ] ANY
        "An attempt that ends with one of the next events used so many tokens; what it had reserved is given back.";
    NodeEvent::Started { remote: None, .. } => "NodeStarted"
                      [ -  RUN  -   -   -   -   -   -   -   -   -   - ] ACTING
        "An attempt is made by the engine, or in a slot of an instance.";
    NodeEvent::Started { remote: Some(_), .. } => "NodeStarted" "(remote)"
                      [ -  RUN  -   -   -   -   -   -   -   -   -   - ] OWNED
        "A remote worker took the attempt.";
    NodeEvent::Checkpointed { .. } => "NodeCheckpointed"
                      [ -   -  RUN  -   -   -   -   -   -   -   -   - ] ANY
        "An attempt left a mark from which a later one may continue.";
    NodeEvent::Completed { .. } => "NodeCompleted"
                      [ -   -  COM  -   -  COM  -   -   -   -   -   - ] ANY
        "The node is done.";
    NodeEvent::Failed { end: FailureEnd::RetryAt(_), .. } => "NodeFailed" "(retry)"
                      [ -   -  WRT WRT  -  WRT  -   -   -   -   -   - ] ANY
        "An attempt failed, and the next one waits for its time.";
    NodeEvent::Failed { end: FailureEnd::Abandoned(_), .. } => "NodeFailed" "(abandoned)"
                      [ -   -  WRT  -   -   -   -   -   -   -   -   - ] ANY
        "An attempt was abandoned, through no fault of the node; the next one waits for its time, and this one does not count against `maxAttempts`.";
    NodeEvent::Failed { end: FailureEnd::Final, .. } => "NodeFailed" "(final)"
                      [ -  FAI FAI  -   -  FAI  -   -   -   -   -   - ] ANY
        "The last attempt failed, and the node with it.";
    NodeEvent::Failed { end: FailureEnd::TimedOut, .. } => "NodeFailed" "(timed_out)"
                      [ -  TIM TIM TIM TIM TIM TIM  -   -   -   -   - ] ANY
        "The node took too long; what follows treats it as failed.";
    NodeEvent::Waiting { .. } => "NodeWaiting"
                      [ -   -  WAI  -   -  WAI  -   -   -   -   -   - ] OWNED
        "The node waits durably, for a time or a signal.";
    NodeEvent::Signalled { .. } => "NodeSignalled"
                      [ -   -   -  WAI  -   -   -   -   -   -   -   - ] OWNED
        "One of several signals that the node waits for came.";
    NodeEvent::Reminded { .. } => "NodeReminded"
                      [ -   -   -  WAI  -   -   -   -   -   -   -   - ] ACTING
        "An approval was not decided for a while: its approvers are to be reminded, or others may decide, too.";
    NodeEvent::Resumed { timed_out: true, .. } => "NodeResumed" "(timed_out)"
                      [ -   -   -  RUN  -   -   -   -   -   -   -   - ] ACTING
        "The wait took too long, and the node continues on its branch for that.";
    NodeEvent::Resumed { origin, .. } if origin.message.is_none() => "NodeResumed"
                      [ -   -   -  RUN  -   -   -   -   -   -   -   - ] OWNED
        "What the node waited for came: its time, or a signal.";
    NodeEvent::Resumed { .. } => "NodeResumed" "(by_hand)"
                      [ -   -   -  RUN WRT  -   -   -   -   -   -   - ] ACTING
        "A person ended the wait. A retry is due at once, and continues with NodeScheduled.";
    NodeEvent::Requeued { .. } => "NodeRequeued"
                      [ -   -   -  QUE  -   -   -   -   -   -   -   - ] ACTING
        "An attempt that waited for a circuit breaker, and was not made, may be made: it asks the breaker again.";
    NodeEvent::BodyOpened { .. } => "BodyOpened"
                      [ -   -  WBO  -   -  WBO  -   -   -   -   -   - ] OWNED
        "A container opened its body: a group's nodes, or the next iteration of a loop.";
    NodeEvent::MapOpened { .. } => "MapOpened"
                      [ -   -  WBO  -   -   -   -   -   -   -   -   - ] OWNED
        "A map evaluated its items, and begins to open them.";
    NodeEvent::ItemsOpened { .. } => "ItemsOpened"
                      [ -   -   -   -   -  WBO  -   -   -   -   -   - ] ACTING
        "A map opened its next items, up to its concurrency.";
    NodeEvent::BodyEnding { .. } => "BodyEnding"
                      [ -   -   -   -   -  WBO  -   -   -   -   -   - ] OWNED
        "A failure in the body was not handled, the container took too long, or a person cancelled the item: nodes of the body that were PENDING become CANCELLED, and running attempts are cancelled and awaited.";
    NodeEvent::Tuned { .. } => "NodeTuned"
                      [ -   -   -   -   -  WBO  -   -   -   -   -   - ] OWNED
        "A person held or released a map, or changed how many of its items may be open at once.";
    NodeEvent::ChildStarted { detached: false, .. } => "ChildStarted"
                      [ -   -  WCH  -   -   -   -   -   -   -   -   - ] OWNED
        "An execution began with this event, and the node waits for its end.";
    NodeEvent::ChildStarted { detached: true, .. } => "ChildStarted" "(detached)"
                      [ -   -  RUN  -   -   -   -   -   -   -   -   - ] OWNED
        "An execution began with this event, and the node does not wait for its end.";
    NodeEvent::ChildReopened { .. } => "ChildReopened"
                      [ -   -  WCH  -   -   -   -   -   -   -   -   - ] OWNED
        "A further attempt waits for the execution that an earlier one had started, and that is under way again.";
    NodeEvent::ChildEnded { .. } => "ChildEnded"
                      [ -   -   -   -   -   -  RUN  -   -   -   -   - ] ANY
        "The execution that the node had started ended.";
    NodeEvent::SignalSent { .. } => "SignalSent"
                      [ -   -  RUN  -   -   -   -   -   -   -   -   - ] OWNED
        "A signal was sent to another execution with this event.";
    NodeEvent::Skipped { .. } => "NodeSkipped"
                      [SKI  -   -   -   -   -   -   -   -   -   -   - ] ACTING
        "The node's conditions cannot be met.";
    NodeEvent::Cancelled { .. } => "NodeCancelled"
                      [CAN CAN CAN CAN CAN CAN CAN  -   -   -   -   - ] ANY
        "The node was stopped: the execution or the body that it is in is ending, a join fired without it, or its worker did not stop in time.";
}

impl RunRow {
    /// The status that it ends a generation with, if it does.
    pub fn end(&self) -> Option<Status> {
        self.arrows().next().map(|(_, to)| to).filter(|to| to.is_end())
    }

    /// The status that users see after the event. Where the table has no arrow (the log is damaged),
    /// an event that always leads to one status leads there, and any other changes nothing.
    fn status_after(&self, before: Status) -> Status {
        if let Some((_, to)) = self.arrows().find(|(from, _)| *from == before) {
            return to;
        }
        let mut ends = self.arrows().map(|(_, to)| to);
        ends.next().filter(|first| ends.all(|end| end == *first)).unwrap_or(before)
    }
}

/// The status that users see of an execution after an event.
pub fn status_after(before: Status, event: &Event) -> Status {
    match event {
        Event::Run(event) => event.row().status_after(before),
        // Facts about their nodes alone.
        Event::Node(_) => before,
    }
}

/// The status that users see of a node after an event about it, wherever it was before.
pub fn node_status(event: &NodeEvent) -> NodeStatus {
    let mut to = event.row().to.iter();
    to.find_map(|to| *to).expect("every event of a node leads somewhere").shown()
}

/// Does an event of this name end an execution, until it is retried?
pub fn is_end(event: &str) -> bool {
    RUN.iter().any(|row| row.event == event && row.end().is_some())
}

/// Every arrow between the statuses that users see, of executions first.
pub fn arrows() -> Vec<Arrow> {
    let mut arrows: Vec<Arrow> = Vec::new();
    let run = RUN.iter().flat_map(|row| row.arrows().map(|(a, b)| (a.name(), row.name, b.name())));
    let node =
        NODE.iter().flat_map(|row| row.arrows().map(|(a, b)| (a.name(), row.name, b.name())));
    for arrow in run.chain(node) {
        if !arrows.contains(&arrow) {
            arrows.push(arrow);
        }
    }
    arrows
}
