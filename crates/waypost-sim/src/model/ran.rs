//! What happened: an execution as its log and the sink recorded it, in the terms of the judge.

mod children;
mod items;
mod operations;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;
use waypost_core::command::Tuning;
use waypost_core::event::{CancelReason, EndCause, Event, FailureEnd, NodeEvent, RunEvent};
use waypost_core::failure::kind;
use waypost_core::id::ExecutionNo;
use waypost_core::status::{NodeStatus, Status};
use waypost_core::time::Timestamp;

use super::World;
pub use children::ChildRan;
pub use items::ItemsRan;
pub use operations::OperationRan;

/// What happened to an execution.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Ran {
    pub end: End,
    /// The execution's output.
    pub output: Option<Json>,
    /// The cause of its end, and its event.
    pub cause: Option<(u64, Cause)>,
    /// Events that ended it, in this generation.
    pub ends: u32,
    /// From 1; the judge checks first generations only.
    pub generation: u32,
    /// Its nodes, by id; those without events are PENDING.
    pub nodes: BTreeMap<String, NodeRan>,
    /// The paths of events that are about no node of an open body.
    pub strays: Vec<String>,
    /// The calls that the sink saw: by the node's path, by idempotency key.
    pub sink: BTreeMap<String, BTreeMap<String, Calls>>,
    /// The outputs of the executions that it started, by their number and generation.
    pub children: BTreeMap<(ExecutionNo, u32), Json>,
    /// The actions of people, and the faults.
    pub world: World,
}

/// Where an execution stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum End {
    /// It has not ended, and nothing will happen by itself: it waits for signals.
    #[default]
    Waiting,
    /// It has not ended, and a person holds it: paused, or in quarantine.
    Held,
    Ended(Status),
}

/// What fixed the end of an execution.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cause {
    Cancel,
    /// The failure of this node.
    Failure(String),
    /// The execution's timeout.
    Deadline,
}

/// What happened to a node.
#[derive(Clone, PartialEq, Debug)]
pub struct NodeRan {
    pub status: NodeStatus,
    /// The branch it selected.
    pub branch: Option<String>,
    pub output: Option<Json>,
    /// The kind of its last failure; gone when it completes.
    pub failure: Option<String>,
    /// The HTTP status of its last failure.
    pub failure_status: Option<u16>,
    /// Does its last failure pass by itself?
    pub retryable: bool,
    /// The event that first scheduled it.
    pub scheduled: Option<u64>,
    /// When all its attempts must have ended, as it was recorded.
    pub deadline: Option<Timestamp>,
    /// When time alone ends its last wait, as it was recorded.
    pub due: Option<Timestamp>,
    /// The event that settled it.
    pub settled: Option<u64>,
    /// How often it settled: once, at most.
    pub settlements: u32,
    /// Attempts that were started.
    pub starts: u32,
    /// Attempts that were started and came to an end that counts.
    pub tries: u32,
    /// Attempts that timed out.
    pub timeouts: u32,
    /// Attempts that were lost or interrupted, and do not count.
    pub abandoned: u32,
    /// Why it was cancelled.
    pub cancelled: Option<CancelReason>,
    /// The event that opened its last wait.
    pub wait: Option<u64>,
    /// Its last start: waits before it were for that.
    pub started: u64,
    /// The waits that were completed by hand, each by the event that opened it.
    pub resumed: Vec<u64>,
    /// Which of several signals came for it.
    pub came: BTreeSet<usize>,
    /// The scopes that it opened, in order, if it is a container.
    pub bodies: Vec<BodyRan>,
    /// The items that it found, if it is a map.
    pub items: Option<ItemsRan>,
    /// The executions that it started, in order.
    pub children: Vec<ChildRan>,
    /// Its waits for callbacks, in order, if it starts operations.
    pub operations: Vec<OperationRan>,
    /// How people tuned it, and the events that recorded it.
    pub tuned: Vec<(u64, Tuning)>,
}

/// What happened in one scope of a container: the body of one try of a group, one iteration, or one
/// item.
#[derive(Clone, PartialEq, Debug)]
pub struct BodyRan {
    /// The attempt of its container.
    pub attempt: u32,
    /// The iteration, or the index of the item.
    pub index: Option<u64>,
    /// The event that decided on it: it opened it, or the delay before it.
    pub decided: u64,
    pub opened: u64,
    /// The event that fixed its end, if that did not come by itself.
    pub ending: Option<u64>,
    /// Did a person end it?
    pub cancelled: bool,
    /// Its nodes, by id; those without events are PENDING.
    pub nodes: BTreeMap<String, NodeRan>,
}

impl Default for NodeRan {
    fn default() -> Self {
        Self {
            status: NodeStatus::Pending,
            branch: None,
            output: None,
            failure: None,
            failure_status: None,
            retryable: false,
            scheduled: None,
            deadline: None,
            due: None,
            settled: None,
            settlements: 0,
            starts: 0,
            tries: 0,
            timeouts: 0,
            abandoned: 0,
            cancelled: None,
            wait: None,
            started: 0,
            resumed: Vec::new(),
            came: BTreeSet::new(),
            bodies: Vec::new(),
            items: None,
            children: Vec::new(),
            operations: Vec::new(),
            tuned: Vec::new(),
        }
    }
}

/// The calls that the sink saw under one idempotency key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Calls {
    /// Calls in all.
    pub calls: u32,
    /// Those that had their effect.
    pub effects: u32,
}

impl Ran {
    /// Reads a log, from its first event. What the log does not have (the sink, the world, the
    /// holders of open attempts) is left for the caller to fill in.
    pub fn read<'e>(events: impl IntoIterator<Item = &'e Event>) -> Self {
        let mut ran = Self { generation: 1, ..Self::default() };
        for (event, seq) in events.into_iter().zip(1..) {
            match event {
                Event::Run(event) => ran.read_run(seq, event),
                Event::Node(event) => match node_at(&mut ran.nodes, event.node()) {
                    Some(node) => node.read(seq, event),
                    None => ran.strays.push(event.node().to_string()),
                },
            }
        }
        ran
    }

    /// A node of the program itself, by id.
    pub fn node(&self, id: &str) -> NodeRan {
        let ending = self.cause.as_ref().map(|(seq, _)| (*seq, CancelReason::Ending));
        node_in(&self.nodes, id, ending)
    }

    fn read_run(&mut self, seq: u64, event: &RunEvent) {
        match event {
            RunEvent::Ending { cause, .. } => {
                let cause = match cause {
                    EndCause::Cancel { .. } => Cause::Cancel,
                    EndCause::Failure { node, .. } => Cause::Failure(node.to_string()),
                    // Keys of programs are always there.
                    EndCause::NotQueued { .. } => unreachable!("a program's key can be evaluated"),
                    EndCause::Deadline => Cause::Deadline,
                };
                self.cause = Some((seq, cause));
            }
            RunEvent::Completed { output } => {
                self.ended(Status::Completed, Some(value(output)));
            }
            RunEvent::Failed { output, .. } => {
                self.ended(Status::Failed, output.as_ref().map(value));
            }
            RunEvent::Cancelled { .. } => self.ended(Status::Cancelled, None),
            RunEvent::TimedOut {} => self.ended(Status::TimedOut, None),
            RunEvent::Reopened { generation, nodes, .. } => {
                self.generation = *generation;
                (self.end, self.output, self.cause, self.ends) = (End::Waiting, None, None, 0);
                for path in nodes {
                    self.nodes.remove(&**path);
                }
            }
            _ => {}
        }
    }

    fn ended(&mut self, status: Status, output: Option<Json>) {
        self.end = End::Ended(status);
        self.output = output;
        self.ends += 1;
    }
}

/// The node of a path: where it names a body, in the last one of that index that was opened.
fn node_at<'m>(nodes: &'m mut BTreeMap<String, NodeRan>, path: &str) -> Option<&'m mut NodeRan> {
    let Some((step, rest)) = path.split_once('/') else {
        return Some(nodes.entry(path.to_owned()).or_default());
    };
    let (id, index) = match step.strip_suffix(']').and_then(|step| step.split_once('[')) {
        Some((id, index)) => (id, Some(index.parse::<u64>().ok()?)),
        None => (step, None),
    };
    let mut bodies = nodes.get_mut(id)?.bodies.iter_mut().rev();
    let body = bodies.find(|body| body.index == index)?;
    node_at(&mut body.nodes, rest)
}

/// A node of a scope whose end this event fixed. Nodes that had not begun are cancelled by that
/// event, without one of their own.
pub(super) fn node_in(
    nodes: &BTreeMap<String, NodeRan>,
    id: &str,
    ending: Option<(u64, CancelReason)>,
) -> NodeRan {
    match (nodes.get(id), ending) {
        (Some(node), _) => node.clone(),
        (None, None) => NodeRan::default(),
        (None, Some((seq, reason))) => NodeRan {
            status: NodeStatus::Cancelled,
            settled: Some(seq),
            settlements: 1,
            cancelled: Some(reason),
            ..NodeRan::default()
        },
    }
}

impl NodeRan {
    fn read(&mut self, seq: u64, event: &NodeEvent) {
        let under_way = matches!(self.status, NodeStatus::Running)
            || self.status == NodeStatus::Waiting && self.failure.is_none();
        self.read_operation(seq, event);
        match event {
            NodeEvent::Scheduled { deadline, .. } => {
                self.scheduled.get_or_insert(seq);
                (self.deadline, self.status) = (self.deadline.or(*deadline), NodeStatus::Queued);
            }
            NodeEvent::Started { .. } => {
                self.starts += 1;
                (self.started, self.failure, self.status) = (seq, None, NodeStatus::Running);
            }
            NodeEvent::Waiting { wait, .. } => {
                (self.wait, self.due, self.status) = (Some(seq), wait.due(), NodeStatus::Waiting);
            }
            NodeEvent::ChildStarted { .. }
            | NodeEvent::ChildReopened { .. }
            | NodeEvent::ChildEnded { .. } => self.read_child(seq, event),
            NodeEvent::Requeued { .. } => self.status = NodeStatus::Queued,
            NodeEvent::Signalled { which, .. } => drop(self.came.insert(*which as usize)),
            NodeEvent::Resumed { origin, .. } => {
                self.resumed.extend(self.wait.filter(|_| origin.message.is_some()));
                self.status = NodeStatus::Running;
            }
            NodeEvent::Completed { output, branch, .. } => {
                self.tries += 1;
                self.failure = None;
                self.output = output.as_ref().map(value);
                self.branch = branch.as_ref().map(ToString::to_string);
                self.settle(seq, NodeStatus::Completed);
            }
            NodeEvent::Failed { failure, end, .. } => {
                match end {
                    FailureEnd::Abandoned(_) => self.abandoned += 1,
                    _ if under_way => self.tries += 1,
                    _ => {}
                }
                self.timeouts += u32::from(*failure.kind == *kind::TIMEOUT);
                self.failure = Some(failure.kind.to_string());
                (self.failure_status, self.retryable) = (failure.status, failure.retryable);
                match end {
                    FailureEnd::RetryAt(_) | FailureEnd::Abandoned(_) => {
                        self.wait = Some(seq);
                        self.status = NodeStatus::Waiting;
                    }
                    FailureEnd::Final => self.settle(seq, NodeStatus::Failed),
                    FailureEnd::TimedOut => self.settle(seq, NodeStatus::TimedOut),
                }
            }
            NodeEvent::BodyOpened { attempt, index, .. } => self.opened(seq, *attempt, *index),
            NodeEvent::MapOpened { .. }
            | NodeEvent::ItemsOpened { .. }
            | NodeEvent::Tuned { .. } => {
                self.read_map(seq, event);
            }
            NodeEvent::BodyEnding { index, origin, .. } => {
                self.ending(seq, *index, origin.message.is_some());
            }
            NodeEvent::Skipped { .. } => self.settle(seq, NodeStatus::Skipped),
            NodeEvent::Cancelled { reason, .. } => {
                self.cancelled = Some(*reason);
                self.settle(seq, NodeStatus::Cancelled);
            }
            NodeEvent::Reminded { .. }
            | NodeEvent::SignalSent { .. }
            | NodeEvent::Reserved(_)
            | NodeEvent::Used(_)
            | NodeEvent::Checkpointed { .. } => {}
        }
    }

    fn opened(&mut self, seq: u64, attempt: u32, index: Option<u64>) {
        let last = self.bodies.last().map_or(0, |body| body.opened).max(self.started);
        let decided = self.wait.filter(|wait| *wait > last && index.is_some());
        self.bodies.push(BodyRan {
            attempt,
            index,
            decided: decided.unwrap_or(seq),
            opened: seq,
            ending: None,
            cancelled: false,
            nodes: BTreeMap::new(),
        });
        self.status = NodeStatus::Waiting;
    }

    fn ending(&mut self, seq: u64, index: Option<u64>, cancelled: bool) {
        let mut bodies = self.bodies.iter_mut().rev();
        if let Some(body) = bodies.find(|body| body.index == index) {
            body.ending.get_or_insert(seq);
            body.cancelled = cancelled;
        }
    }

    fn settle(&mut self, seq: u64, status: NodeStatus) {
        self.status = status;
        self.settled = Some(seq);
        self.settlements += 1;
    }
}

fn value(json: &waypost_core::json::Json) -> Json {
    json.to_value().unwrap_or_default()
}
