//! Projections: the rows of an execution for readers, derived from its events and from nothing
//! else.
//!
//! A store feeds frames in the order of the log and writes the gathered [`Changes`], as often as it
//! likes: several frames of one execution coalesce into one row each. Rows are copies; losing them
//! costs a rebuild, and nothing here decides anything about an execution.
//!
//! ```text
//!   stored row ──▶ Changes::resume(view) ─┐
//!   (or none)  ──▶ Changes::default()    ─┴─▶ apply(stamp, event)… ──▶ rows to write
//! ```
//!
//! Execution rows hold absolute values, because a status depends on the one before. Node rows are
//! differences, so that a store need not read thousands of rows in order to touch one.

mod canonical;
pub mod columns;
pub mod inputs;
mod waits;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::event::{
    AttemptReserved, AttemptUsed, EndCause, Event, FailureEnd, NodeEvent, RunCreated, RunEvent,
    Wait,
};
use crate::failure::{Failure, kind};
use crate::json::Json;
use crate::path::is_repeated;
use crate::status::{NodeStatus, Status};
use crate::time::Timestamp;
use crate::transitions::{node_status, status_after};

pub use canonical::{CanonicalNode, canonical_nodes};
pub use waits::{WaitDetail, WaitTerms};

/// The position of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// Its position in the log.
    pub seq: u64,
    /// When its frame was decided: the time that the state has, too, so that lists and single executions
    /// agree.
    pub at: Timestamp,
}

/// The row of an execution, without what never changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExecutionView {
    /// The last projected event.
    pub seq: u64,
    pub status: Status,
    /// Grows by one with each repair.
    pub generation: u32,
    /// Grows by one with each owner.
    pub epoch: u32,
    /// The instance that owns it.
    pub owner: Option<Arc<str>>,
    /// When this generation must have ended.
    pub deadline: Option<Timestamp>,
    /// When the first attempt of a node was handed off.
    pub started_at: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
    /// When the last event was stored.
    pub updated_at: Timestamp,
    /// When it last continued after a wait, a pause, a quarantine or the loss of its owner.
    pub resumed_at: Option<Timestamp>,
    /// Who resumed it: a person or program, or the instance that did so on its own.
    pub resumed_by: Option<Arc<str>>,
    /// How many nodes completed or failed, over all generations.
    pub nodes_executed: u64,
    /// The node that moved last; absent once it has ended.
    pub current_node: Option<Arc<str>>,
    /// How far the map is that was opened last, until it settles.
    pub progress: Option<MapProgress>,
    /// Why it failed or makes no progress.
    pub error: Option<Arc<str>>,
    /// Has a node ever waited? If not, no wait can be left to close.
    pub waited: bool,
}

/// How far a map of the definition is, as of the last time that it opened items: the end of an item
/// is no event.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct MapProgress {
    pub node: Arc<str>,
    pub count: u64,
    /// How many items are open or done.
    pub begun: u64,
    pub failed: u64,
}

impl Default for ExecutionView {
    fn default() -> Self {
        Self {
            seq: 0,
            status: Status::Running,
            generation: 1,
            epoch: 0,
            owner: None,
            deadline: None,
            started_at: None,
            completed_at: None,
            updated_at: Timestamp::default(),
            resumed_at: None,
            resumed_by: None,
            nodes_executed: 0,
            current_node: None,
            progress: None,
            error: None,
            waited: false,
        }
    }
}

/// The changes of a run of events in the rows of one execution.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Changes {
    /// The constant columns, if the run has the first event.
    pub created: Option<Created>,
    /// The execution's row after the run.
    pub view: ExecutionView,
    /// How it ended, where that changed; empty when a repair took the end back.
    pub end: Option<End>,
    /// Differences to node rows, by path.
    pub nodes: BTreeMap<Arc<str>, NodeChange>,
    /// Waits opened and closed, in order.
    pub waits: Vec<WaitChange>,
    /// Variables that nodes set.
    pub variables: BTreeMap<Arc<str>, Json>,
    /// When rows of earlier changes that are PENDING became CANCELLED, where they did.
    pub pending_cancelled: Option<Timestamp>,
}

/// The part of an execution's row that is written once.
#[derive(Clone, PartialEq, Debug)]
pub struct Created {
    /// When it was accepted.
    pub at: Timestamp,
    /// Its first event.
    pub run: Box<RunCreated>,
}

/// How an execution ended.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct End {
    /// The result of the output nodes.
    pub output: Option<Json>,
    pub failure: Option<Failure>,
}

/// The changes of one node's row. `None` leaves a column as it is.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct NodeChange {
    /// The row starts anew: a repair made the node PENDING again.
    pub reset: bool,
    /// An attempt was scheduled: there is an input to show.
    pub scheduled: bool,
    pub status: Option<NodeStatus>,
    /// The first event of the row.
    pub seq: Option<u64>,
    /// When that happened.
    pub created_at: Option<Timestamp>,
    /// When the last event happened: the end of a node that has settled.
    pub updated_at: Option<Timestamp>,
    /// When all attempts must have ended.
    pub deadline: Option<Timestamp>,
    /// The newest attempt.
    pub attempt: Option<u32>,
    /// When an attempt began. Only the first start of a row counts.
    pub started_at: Option<Timestamp>,
    pub output: Option<Json>,
    /// The branch it selected.
    pub branch: Option<Arc<str>>,
    /// The failure of its last attempt. Boxed, because few nodes fail and changes are moved a lot.
    pub failure: Option<Box<Failure>>,
    /// Attempts that failed and are followed by another, oldest first.
    pub retries: Vec<Retry>,
}

/// An attempt that failed and is followed by another.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// Which attempt failed.
    pub attempt: u32,
    pub at: Timestamp,
    /// When the next one begins.
    pub due: Timestamp,
    /// Was it lost through no fault of the node?
    pub abandoned: bool,
    pub failure: Failure,
}

/// A wait that began or ended.
#[derive(Clone, PartialEq, Debug)]
pub enum WaitChange {
    /// A node waits.
    Opened {
        /// Where; with the seq it names the wait.
        stamp: Stamp,
        node: Arc<str>,
        wait: Wait,
    },
    /// A node's wait is over, if it had one open.
    Closed {
        at: Timestamp,
        /// Which node; every node where the execution ended.
        node: Option<Arc<str>>,
        end: WaitEnd,
    },
}

/// How a wait ended; its number is that of the rows, where 0 is a wait that is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitEnd {
    /// The awaited event came.
    Completed = 1,
    /// It took too long.
    Timeout = 2,
    /// The node failed or was stopped.
    Failed = 3,
}

impl ExecutionView {
    /// A map opens, opens items, or settles.
    fn note_progress(&mut self, event: &NodeEvent, status: NodeStatus) {
        if let NodeEvent::MapOpened { node, count, .. } = event {
            let (node, count) = (Arc::clone(node), *count);
            self.progress = Some(MapProgress { node, count, begun: 0, failed: 0 });
        }
        let Some(progress) = self.progress.as_mut().filter(|known| known.node == *event.node())
        else {
            return;
        };
        if let NodeEvent::ItemsOpened { from, count, failed, .. } = event {
            progress.begun = from.saturating_add(*count);
            progress.failed = *failed;
        }
        let over = status.is_settled() || matches!(event, NodeEvent::Failed { .. });
        self.progress = self.progress.take().filter(|known| !over || known.node != *event.node());
    }

    /// It continues, by an actor or by its owner.
    fn resume(&mut self, at: Timestamp, actor: Option<Arc<str>>) {
        self.resumed_at = Some(at);
        self.resumed_by = actor.or_else(|| self.owner.clone());
    }
}

impl Changes {
    /// Changes to an execution that has a row already.
    pub fn resume(view: ExecutionView) -> Self {
        Self { view, ..Self::default() }
    }

    /// Takes in the next event of the execution.
    pub fn apply(&mut self, stamp: Stamp, event: Event) {
        self.view.seq = stamp.seq;
        self.view.updated_at = stamp.at;
        let before = self.view.status;
        self.view.status = status_after(before, &event);
        match event {
            Event::Run(event) => self.apply_to_run(stamp, before, event),
            Event::Node(event) => self.apply_to_node(stamp, event),
        }
    }

    fn apply_to_run(&mut self, stamp: Stamp, before: Status, event: RunEvent) {
        if event.is_end() {
            self.close_run(stamp.at);
        }
        let view = &mut self.view;
        match event {
            RunEvent::Created(run) => {
                view.deadline = run.deadline;
                self.created = Some(Created { at: stamp.at, run });
            }
            RunEvent::Owned { instance, epoch } => {
                view.epoch = epoch;
                // Its wait is over, or its last owner is gone. Otherwise it begins, or stays paused.
                let resumes = before == Status::Waiting || view.owner.is_some();
                view.owner = Some(instance.to_string().into());
                if resumes {
                    view.resume(stamp.at, None);
                }
            }
            RunEvent::Queued { .. } | RunEvent::Paused { .. } => view.owner = None,
            RunEvent::Resumed { origin, .. } => {
                view.resume(stamp.at, origin.actor);
                view.error = None;
            }
            RunEvent::Quarantined { reason } => {
                view.owner = None;
                view.error = Some(reason.into());
            }
            RunEvent::Ending { cause, .. } => {
                view.error = describe(&cause);
                self.cancel_pending(stamp.at);
            }
            RunEvent::Completed { output } => {
                view.error = None;
                self.end = Some(End { output: Some(output), failure: None });
            }
            RunEvent::Failed { failure, output, .. } => {
                view.error = Some(failure.message.as_str().into());
                self.end = Some(End { output, failure: Some(failure) });
            }
            RunEvent::Cancelled { reason } => {
                view.error = reason.map(Into::into);
                self.end = Some(End::default());
            }
            RunEvent::TimedOut {} => {
                view.error = describe(&EndCause::Deadline);
                self.end = Some(End::default());
            }
            RunEvent::Reopened { generation, nodes, deadline, .. } => {
                view.deadline = deadline;
                self.reopen(stamp, generation, nodes);
            }
            // The status shows it, or later events do.
            RunEvent::Admitted {}
            | RunEvent::PauseRequested { .. }
            | RunEvent::BudgetExhausted { .. }
            | RunEvent::BudgetSet { .. }
            | RunEvent::SignalReceived { .. }
            | RunEvent::SignalDelivered { .. }
            | RunEvent::MessageIgnored { .. } => {}
        }
    }

    fn close_run(&mut self, at: Timestamp) {
        self.view.completed_at = Some(at);
        self.view.current_node = None;
        self.view.progress = None;
        self.view.owner = None;
        if self.view.waited {
            self.waits.push(WaitChange::Closed { at, node: None, end: WaitEnd::Failed });
        }
    }

    /// Cancels the nodes that an earlier retry made PENDING: no event names them.
    fn cancel_pending(&mut self, at: Timestamp) {
        if self.view.generation == 1 {
            return;
        }
        self.pending_cancelled = Some(at);
        let pending = |node: &&mut NodeChange| node.status == Some(NodeStatus::Pending);
        for node in self.nodes.values_mut().filter(pending) {
            node.status = Some(NodeStatus::Cancelled);
            node.updated_at = Some(at);
        }
    }

    fn reopen(&mut self, stamp: Stamp, generation: u32, nodes: Vec<Arc<str>>) {
        self.view.generation = generation;
        self.view.completed_at = None;
        self.view.error = None;
        self.end = Some(End::default());
        for node in nodes {
            let anew = NodeChange {
                reset: true,
                status: Some(NodeStatus::Pending),
                seq: Some(stamp.seq),
                created_at: Some(stamp.at),
                updated_at: Some(stamp.at),
                ..NodeChange::default()
            };
            self.nodes.insert(node, anew);
        }
    }

    fn apply_to_node(&mut self, stamp: Stamp, event: NodeEvent) {
        let path = Arc::clone(event.node());
        let status = node_status(&event);
        if self.view.waited
            && let Some(end) = wait_end(&event)
        {
            self.waits.push(WaitChange::Closed { at: stamp.at, node: Some(path.clone()), end });
        }
        if let Some(wait) = opened_wait(&event) {
            self.view.waited = true;
            self.waits.push(WaitChange::Opened { stamp, node: path.clone(), wait });
        }
        if !status.is_settled() {
            self.view.current_node = Some(shown_path(&path));
        } else if matches!(
            status,
            NodeStatus::Completed | NodeStatus::Failed | NodeStatus::TimedOut
        ) {
            self.view.nodes_executed += 1;
        }
        if matches!(event, NodeEvent::Started { .. }) && self.view.started_at.is_none() {
            self.view.started_at = Some(stamp.at);
        }
        if let NodeEvent::Completed { variables, .. } = &event {
            self.variables
                .extend(variables.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        // There may be any number of nodes in loops: the log has them.
        if !is_repeated(&path) {
            self.view.note_progress(&event, status);
            self.nodes.entry(path).or_default().apply(stamp, status, event);
        }
    }

    /// Were attempts scheduled?
    pub fn schedules(&self) -> bool {
        self.nodes.values().any(|node| node.scheduled)
    }
}

impl NodeChange {
    fn apply(&mut self, Stamp { seq, at }: Stamp, status: NodeStatus, event: NodeEvent) {
        self.seq.get_or_insert(seq);
        self.created_at.get_or_insert(at);
        self.updated_at = Some(at);
        self.status = Some(status);
        match event {
            NodeEvent::Scheduled { attempt, deadline, .. } => {
                self.scheduled = true;
                self.attempt = Some(attempt);
                self.deadline = deadline.or(self.deadline);
            }
            NodeEvent::Started { attempt, .. } => {
                self.attempt = Some(attempt);
                self.started_at = self.started_at.or(Some(at));
            }
            NodeEvent::Completed { attempt, output, branch, .. } => {
                self.attempt = Some(attempt);
                self.output = output;
                self.branch = branch;
            }
            NodeEvent::Failed { attempt, failure, end, .. } => {
                self.attempt = Some(attempt);
                let (due, abandoned) = match end {
                    FailureEnd::RetryAt(due) => (Some(due), false),
                    FailureEnd::Abandoned(due) => (Some(due), true),
                    FailureEnd::Final | FailureEnd::TimedOut => (None, false),
                };
                if let Some(due) = due {
                    let failure = failure.clone();
                    self.retries.push(Retry { attempt, at, due, abandoned, failure });
                }
                self.failure = Some(Box::new(failure));
            }
            NodeEvent::Waiting { attempt, .. }
            | NodeEvent::Signalled { attempt, .. }
            | NodeEvent::Reminded { attempt, .. }
            | NodeEvent::Reserved(AttemptReserved { attempt, .. })
            | NodeEvent::Used(AttemptUsed { attempt, .. })
            | NodeEvent::Resumed { attempt, .. }
            | NodeEvent::Requeued { attempt, .. }
            | NodeEvent::BodyOpened { attempt, .. }
            | NodeEvent::MapOpened { attempt, .. }
            | NodeEvent::ItemsOpened { attempt, .. }
            | NodeEvent::BodyEnding { attempt, .. }
            | NodeEvent::Tuned { attempt, .. }
            | NodeEvent::ChildStarted { attempt, .. }
            | NodeEvent::ChildReopened { attempt, .. }
            | NodeEvent::ChildEnded { attempt, .. }
            | NodeEvent::SignalSent { attempt, .. } => self.attempt = Some(attempt),
            // Their status is all that a row has.
            NodeEvent::Checkpointed { .. }
            | NodeEvent::Skipped { .. }
            | NodeEvent::Cancelled { .. } => {}
        }
    }
}

/// The node that is shown as the current one: the outermost loop, for what is in it.
fn shown_path(path: &Arc<str>) -> Arc<str> {
    path.split_once('[').map_or_else(|| Arc::clone(path), |(container, _)| container.into())
}

/// How an event ends the wait that its node may have.
fn wait_end(event: &NodeEvent) -> Option<WaitEnd> {
    match event {
        NodeEvent::Resumed { timed_out: true, .. } => Some(WaitEnd::Timeout),
        NodeEvent::Scheduled { .. }
        | NodeEvent::Resumed { .. }
        | NodeEvent::Requeued { .. }
        | NodeEvent::ChildEnded { .. }
        | NodeEvent::Completed { .. } => Some(WaitEnd::Completed),
        NodeEvent::Failed { end: FailureEnd::TimedOut, .. } => Some(WaitEnd::Timeout),
        NodeEvent::Failed { failure, .. } if failure.kind == kind::TIMEOUT => {
            Some(WaitEnd::Timeout)
        }
        NodeEvent::Failed { .. } | NodeEvent::Skipped { .. } | NodeEvent::Cancelled { .. } => {
            Some(WaitEnd::Failed)
        }
        NodeEvent::Started { .. }
        | NodeEvent::Reserved(_)
        | NodeEvent::Used(_)
        | NodeEvent::Checkpointed { .. }
        | NodeEvent::Waiting { .. }
        | NodeEvent::Signalled { .. }
        | NodeEvent::Reminded { .. }
        | NodeEvent::BodyOpened { .. }
        | NodeEvent::MapOpened { .. }
        | NodeEvent::ItemsOpened { .. }
        | NodeEvent::BodyEnding { .. }
        | NodeEvent::ChildStarted { .. }
        | NodeEvent::ChildReopened { .. }
        | NodeEvent::SignalSent { .. }
        | NodeEvent::Tuned { .. } => None,
    }
}

/// The wait that an event opens.
fn opened_wait(event: &NodeEvent) -> Option<Wait> {
    match event {
        NodeEvent::Waiting { wait, .. } => Some(wait.clone()),
        NodeEvent::ChildStarted { detached: false, child, .. }
        | NodeEvent::ChildReopened { child, .. } => Some(Wait::Child { child: child.clone() }),
        NodeEvent::Failed {
            end: FailureEnd::RetryAt(due) | FailureEnd::Abandoned(due), ..
        } => Some(Wait::Retry { due: *due }),
        NodeEvent::Failed { end: FailureEnd::Final | FailureEnd::TimedOut, .. }
        | NodeEvent::Scheduled { .. }
        | NodeEvent::Started { .. }
        | NodeEvent::Reserved(_)
        | NodeEvent::Used(_)
        | NodeEvent::Checkpointed { .. }
        | NodeEvent::Completed { .. }
        | NodeEvent::Signalled { .. }
        | NodeEvent::Reminded { .. }
        | NodeEvent::Resumed { .. }
        | NodeEvent::Requeued { .. }
        | NodeEvent::BodyOpened { .. }
        | NodeEvent::MapOpened { .. }
        | NodeEvent::ItemsOpened { .. }
        | NodeEvent::BodyEnding { .. }
        | NodeEvent::Tuned { .. }
        | NodeEvent::ChildStarted { .. }
        | NodeEvent::ChildEnded { .. }
        | NodeEvent::SignalSent { .. }
        | NodeEvent::Skipped { .. }
        | NodeEvent::Cancelled { .. } => None,
    }
}

fn describe(cause: &EndCause) -> Option<Arc<str>> {
    match cause {
        EndCause::Cancel { reason, .. } => reason.as_deref().map(Into::into),
        EndCause::Failure { failure, .. } | EndCause::NotQueued { failure } => {
            Some(failure.message.as_str().into())
        }
        EndCause::Deadline => Some("took longer than its timeout".into()),
    }
}

#[cfg(test)]
mod tests;
