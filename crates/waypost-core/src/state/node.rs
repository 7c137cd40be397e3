//! The state of one node. Wide executions have ten thousand of them, most of which are PENDING or
//! settled: fields that few nodes have at a time are in a box.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Body, Variables};
use crate::budget::Amount;
use crate::child::ChildState;
use crate::ended::Ended;
use crate::event::{CancelReason, Wait};
use crate::failure::Failure;
use crate::id::{NodeIx, Token, WorkerId};
use crate::json::{Json, present};
use crate::status::NodeStatus;
use crate::time::Timestamp;

/// The state of a node. The fields of [`NodeDetails`] are read as if they were its own.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(from = "StoredNode", into = "StoredNode")]
pub struct NodeState {
    pub status: NodeStatus,
    pub cancelled: Option<CancelReason>,
    /// The last attempt, from 1; 0 before the first.
    pub attempt: u32,
    /// The generation that its idempotency key names: that of its first attempt.
    pub generation: u32,
    /// Under which ownership its attempt was started: an attempt of an earlier one is lost.
    pub started_epoch: u32,
    /// How many of its conditions are open, were met, cannot be met.
    pub open: u32,
    pub taken: u32,
    pub dead: u32,
    /// The event that settled it; 0 before.
    pub settled_seq: u64,
    /// Its output; absent for `null`.
    pub output: Option<Json>,
    /// When its first attempt was scheduled, and the variables of that moment: every attempt
    /// renders its config from these.
    pub scheduled: Option<Scheduled>,
    pub started_at: Option<Timestamp>,
    pub settled_at: Option<Timestamp>,
    details: Boxed,
}

/// What few nodes have at a time: attempts at a worker, waits, failures, bodies.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct NodeDetails {
    /// Attempts that count against the retry policy.
    pub tries: u32,
    /// Attempts that were lost since a person last looked.
    pub abandoned: u32,
    pub wait: Option<Wait>,
    /// The event that opened that wait; 0 where there is none.
    pub wait_seq: u64,
    pub token: Option<Token>,
    /// The remote worker that runs its attempt.
    pub remote: Option<WorkerId>,
    /// How its remote attempts ended, oldest first; bounded.
    pub ended: VecDeque<Ended>,
    pub branch: Option<Arc<str>>,
    pub failure: Option<Box<Failure>>,
    pub checkpoint: Option<Json>,
    /// The number of the last mark of the attempt under way; 0 where there is none, or none that was
    /// counted.
    pub marks: u32,
    /// When all its attempts must have ended.
    pub deadline: Option<Timestamp>,
    /// When a silent attempt is given up.
    pub attempt_due: Option<Timestamp>,
    /// Of a container that has opened a scope.
    pub body: Option<Box<Body>>,
    /// Of a node that waits for an execution, or waited for one: a further attempt has the same child.
    pub child: Option<Box<ChildState>>,
    /// Does it run in order to start an execution?
    pub launching: bool,
    /// Of a node that waits for several signals: those that came, by position.
    pub arrived: Vec<Option<Arrived>>,
    /// Of a node that uses tokens: what its attempt reserved, until its usage is counted.
    pub reserved: Option<Amount>,
}

/// One of several signals that a node waits for, which has come.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Arrived {
    pub name: Arc<str>,
    pub body: Json,
}

/// The details of a node that has none.
static NO_DETAILS: NodeDetails = NodeDetails {
    tries: 0,
    abandoned: 0,
    wait: None,
    wait_seq: 0,
    token: None,
    remote: None,
    ended: VecDeque::new(),
    branch: None,
    failure: None,
    checkpoint: None,
    marks: 0,
    deadline: None,
    attempt_due: None,
    body: None,
    child: None,
    launching: false,
    arrived: Vec::new(),
    reserved: None,
};

/// The details, if there are any. Whether there is a box for none makes no difference.
#[derive(Clone, Debug, Default)]
struct Boxed(Option<Box<NodeDetails>>);

impl Boxed {
    fn get(&self) -> &NodeDetails {
        self.0.as_deref().unwrap_or(&NO_DETAILS)
    }
}

impl PartialEq for Boxed {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Deref for NodeState {
    type Target = NodeDetails;

    fn deref(&self) -> &NodeDetails {
        self.details.get()
    }
}

/// The moment a node was first scheduled.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Scheduled {
    pub at: Timestamp,
    pub seq: u64,
    pub variables: Variables,
    /// Of the nodes that its expressions mention, those that had not settled then, and their
    /// statuses. They may settle between two attempts, which must not send different configs. No
    /// default for snapshots without it: those are from before, and are ignored.
    pub unsettled: Unsettled,
}

/// Nodes that had not settled; most often none, which takes no room.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Vec<(NodeIx, NodeStatus)>", into = "Vec<(NodeIx, NodeStatus)>")]
pub struct Unsettled(
    #[expect(clippy::box_collection, reason = "a third of the room")]
    Option<Box<Vec<(NodeIx, NodeStatus)>>>,
);

impl Deref for Unsettled {
    type Target = [(NodeIx, NodeStatus)];

    fn deref(&self) -> &Self::Target {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }
}

impl From<Vec<(NodeIx, NodeStatus)>> for Unsettled {
    fn from(nodes: Vec<(NodeIx, NodeStatus)>) -> Self {
        Self((!nodes.is_empty()).then(|| Box::new(nodes)))
    }
}

impl From<Unsettled> for Vec<(NodeIx, NodeStatus)> {
    fn from(unsettled: Unsettled) -> Self {
        unsettled.0.map(|nodes| *nodes).unwrap_or_default()
    }
}

impl NodeState {
    pub(super) fn pending(conditions: usize) -> Self {
        let open = u32::try_from(conditions).unwrap_or(u32::MAX);
        Self { open, ..Self::default() }
    }

    /// As it was before its first attempt, except that attempt numbers continue: a report of an
    /// earlier generation must never fit a later one. And it keeps its child.
    pub(crate) fn reset(&mut self, conditions: usize) {
        let details = self.details.0.take().map(|details| *details).unwrap_or_default();
        *self = Self { attempt: self.attempt, ..Self::pending(conditions) };
        if !details.ended.is_empty() || details.child.is_some() {
            let NodeDetails { ended, child, .. } = details;
            *self.details_mut() = NodeDetails { ended, child, ..NodeDetails::default() };
        }
    }

    /// The details, to be set.
    pub fn details_mut(&mut self) -> &mut NodeDetails {
        self.details.0.get_or_insert_default()
    }

    /// The details, to be changed or taken back; `None` where it has none.
    pub(crate) fn known_details_mut(&mut self) -> Option<&mut NodeDetails> {
        self.details.0.as_deref_mut()
    }

    pub(crate) fn body_mut(&mut self) -> Option<&mut Body> {
        self.known_details_mut()?.body.as_deref_mut()
    }

    /// Frees the room of details where none is left.
    pub(crate) fn trim(&mut self) {
        self.details.0.take_if(|details| **details == NO_DETAILS);
    }
}

/// A node in snapshots: all of its fields side by side.
#[derive(Serialize, Deserialize)]
struct StoredNode {
    status: NodeStatus,
    attempt: u32,
    generation: u32,
    tries: u32,
    abandoned: u32,
    wait: Option<Wait>,
    /// No default for snapshots without it: those are from before, and are passed over.
    wait_seq: u64,
    token: Option<Token>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    remote: Option<WorkerId>,
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    ended: VecDeque<Ended>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    output: Option<Json>,
    branch: Option<Arc<str>>,
    failure: Option<Box<Failure>>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    checkpoint: Option<Json>,
    #[serde(default, skip_serializing_if = "crate::json::is_zero")]
    marks: u32,
    scheduled: Option<Scheduled>,
    started_at: Option<Timestamp>,
    started_epoch: u32,
    settled_at: Option<Timestamp>,
    settled_seq: u64,
    cancelled: Option<CancelReason>,
    open: u32,
    taken: u32,
    dead: u32,
    deadline: Option<Timestamp>,
    attempt_due: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<Box<Body>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    child: Option<Box<ChildState>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    launching: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    arrived: Vec<Option<Arrived>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reserved: Option<Amount>,
}

impl From<StoredNode> for NodeState {
    fn from(stored: StoredNode) -> Self {
        let mut node = Self {
            status: stored.status,
            cancelled: stored.cancelled,
            attempt: stored.attempt,
            generation: stored.generation,
            started_epoch: stored.started_epoch,
            open: stored.open,
            taken: stored.taken,
            dead: stored.dead,
            settled_seq: stored.settled_seq,
            output: stored.output,
            scheduled: stored.scheduled,
            started_at: stored.started_at,
            settled_at: stored.settled_at,
            details: Boxed(Some(Box::new(NodeDetails {
                tries: stored.tries,
                abandoned: stored.abandoned,
                wait: stored.wait,
                wait_seq: stored.wait_seq,
                token: stored.token,
                remote: stored.remote,
                ended: stored.ended,
                branch: stored.branch,
                failure: stored.failure,
                checkpoint: stored.checkpoint,
                marks: stored.marks,
                deadline: stored.deadline,
                attempt_due: stored.attempt_due,
                body: stored.body,
                child: stored.child,
                launching: stored.launching,
                arrived: stored.arrived,
                reserved: stored.reserved,
            }))),
        };
        node.trim();
        node
    }
}

impl From<NodeState> for StoredNode {
    fn from(node: NodeState) -> Self {
        let details = node.details.0.map(|details| *details).unwrap_or_default();
        Self {
            status: node.status,
            attempt: node.attempt,
            generation: node.generation,
            tries: details.tries,
            abandoned: details.abandoned,
            wait: details.wait,
            wait_seq: details.wait_seq,
            token: details.token,
            remote: details.remote,
            ended: details.ended,
            output: node.output,
            branch: details.branch,
            failure: details.failure,
            checkpoint: details.checkpoint,
            marks: details.marks,
            scheduled: node.scheduled,
            started_at: node.started_at,
            started_epoch: node.started_epoch,
            settled_at: node.settled_at,
            settled_seq: node.settled_seq,
            cancelled: node.cancelled,
            open: node.open,
            taken: node.taken,
            dead: node.dead,
            deadline: details.deadline,
            attempt_due: details.attempt_due,
            body: details.body,
            child: details.child,
            launching: details.launching,
            arrived: details.arrived,
            reserved: details.reserved,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_without_details_is_small() {
        assert!(size_of::<NodeState>() <= 128, "{} bytes", size_of::<NodeState>());
    }

    #[test]
    fn node_whose_details_are_taken_back_equals_one_that_never_had_any() {
        let mut node = NodeState::default();
        node.details_mut().tries = 1;
        node.trim();
        assert_eq!(node.tries, 1, "some are left");
        node.details_mut().tries = 0;
        node.trim();
        assert!(node.details.0.is_none());
        assert_eq!(node, NodeState::default());
    }
}
