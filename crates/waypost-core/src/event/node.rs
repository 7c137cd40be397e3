//! Events of one node: attempts, waits, and how it settles.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{AttemptReserved, AttemptUsed, CancelReason, FailureEnd, MessageId, Origin, Wait};
use crate::failure::Failure;
use crate::id::{DefinitionHash, ExecutionId, ExecutionNo, InstanceId, Token, WorkerId};
use crate::json::{Json, present};
use crate::status::Status;
use crate::time::{Millis, Timestamp};

/// A recorded fact about a node. Names in the log begin with `Node`, `Body`, `Map`, `Items`, `Child` or `Signal`.
/// The table of `transitions` says what each means.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum NodeEvent {
    #[serde(rename = "NodeScheduled")]
    Scheduled {
        /// The node's path.
        node: Arc<str>,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// The seq of the events that settled its conditions.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        cause: Vec<u64>,
        /// When the node times out, over all attempts; with the first attempt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline: Option<Timestamp>,
    },
    #[serde(rename = "NodeReserved")]
    Reserved(AttemptReserved),
    #[serde(rename = "NodeUsed")]
    Used(AttemptUsed),
    #[serde(rename = "NodeStarted")]
    Started {
        /// The node's path.
        node: Arc<str>,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// The instance whose slot runs it; absent if the engine evaluates the node itself, and for a
        /// remote worker.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        worker: Option<InstanceId>,
        /// The remote worker that runs it; it may outlive several owners of the execution.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remote: Option<WorkerId>,
        /// The right to report on it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token: Option<Token>,
        /// When the attempt is abandoned, if its worker has not reported.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        due: Option<Timestamp>,
    },
    #[serde(rename = "NodeCheckpointed")]
    Checkpointed {
        /// The node's path.
        node: Arc<str>,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// The mark, as the handler gave it.
        data: Json,
        /// Which mark of its attempt, from 1; 0 if marks were not numbered.
        #[serde(default, skip_serializing_if = "crate::json::is_zero")]
        number: u32,
    },
    #[serde(rename = "NodeCompleted")]
    Completed {
        /// The node's path.
        node: Arc<str>,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// Its output; absent for `null`.
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
        output: Option<Json>,
        /// The selected branch.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<Arc<str>>,
        /// The variables that it set.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        variables: BTreeMap<Arc<str>, Json>,
    },
    /// An attempt failed; whether the node did depends on `end`.
    #[serde(rename = "NodeFailed")]
    Failed {
        /// The node's path.
        node: Arc<str>,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// The failure.
        failure: Failure,
        /// The consequence for the node.
        end: FailureEnd,
        /// How long the next attempt waits at least, from this decision.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wait: Option<Millis>,
    },
    #[serde(rename = "NodeWaiting")]
    Waiting {
        /// The node's path.
        node: Arc<str>,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// What it waits for.
        wait: Wait,
        /// How long it lasts at least, from this decision; absent if the definition names a time, or no
        /// timeout.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        span: Option<Millis>,
        /// What is sent to webhook endpoints, if the node waits for the delivery of that.
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
        message: Option<Json>,
    },
    /// One of several signals that the node waits for has come.
    #[serde(rename = "NodeSignalled")]
    Signalled {
        /// The node's path.
        node: Arc<str>,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// Which of them, from 0.
        which: u32,
        /// The message that it came in.
        message: MessageId,
        /// Do others that wait for the signal get it in later events?
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        more: bool,
    },
    /// The approvers of a wait were to be reminded, or others may decide, too.
    #[serde(rename = "NodeReminded")]
    Reminded {
        /// The node's path.
        node: Arc<str>,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// May others decide from now on, as the wait says?
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        escalated: bool,
    },
    /// The awaited event has come, or a person completed the wait. A retry continues with
    /// NodeScheduled.
    #[serde(rename = "NodeResumed")]
    Resumed {
        /// The node's path.
        node: Arc<str>,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// The message of the signal that ended the wait; absent if time or a person ended it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<MessageId>,
        /// Who completed the wait by hand, through which message.
        #[serde(default, skip_serializing_if = "Origin::is_unknown")]
        origin: Origin,
        /// Did the wait end by its timeout, which is a branch?
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        timed_out: bool,
        /// Do others that wait for the signal get it in later events?
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        more: bool,
    },
    /// An attempt that waited for a circuit breaker, and was not made, is queued again.
    #[serde(rename = "NodeRequeued")]
    Requeued {
        /// The node's path.
        node: Arc<str>,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// Who ended the wait by hand, through which message.
        #[serde(default, skip_serializing_if = "Origin::is_unknown")]
        origin: Origin,
    },
    /// A container opened its body: a group's only scope, or a loop's next iteration.
    BodyOpened {
        /// The container's path.
        node: Arc<str>,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// The number of the iteration, from 1; absent for a group.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        index: Option<u64>,
    },
    /// A map knows its items; none of them is open yet.
    MapOpened {
        /// The map's path.
        node: Arc<str>,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// How many items there are.
        count: u64,
        /// The items, or a reference to them; absent where they are the numbers from 0 on.
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
        items: Option<Json>,
        /// How many may fail without the map failing.
        #[serde(default, skip_serializing_if = "crate::json::is_none")]
        tolerated: u64,
        /// Bytes of results that its output has, at most; above, they are a blob. Absent for 256 KiB.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        results_max: Option<u64>,
    },
    /// A map opened items: as many as there were free places.
    ItemsOpened {
        /// The map's path.
        node: Arc<str>,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// The first one, from 0.
        from: u64,
        /// How many.
        count: u64,
        /// These items, where they come from a blob.
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
        items: Option<Json>,
        /// How many items had failed so far, for lists. Logs of older builds do not have it.
        #[serde(default, skip_serializing_if = "crate::json::is_none")]
        failed: u64,
    },
    /// A scope of a container will end as failed: nothing more begins in it.
    BodyEnding {
        /// The container's path.
        node: Arc<str>,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// Which scope; absent for a group.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        index: Option<u64>,
        /// Why.
        failure: Failure,
        /// Does the container itself fail with it, whatever its other scopes do?
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        whole: bool,
        /// When attempts that were cancelled and have not ended are abandoned.
        grace: Timestamp,
        /// Who cancelled the item, through which message; unknown where no request did.
        #[serde(default, skip_serializing_if = "Origin::is_unknown")]
        origin: Origin,
    },
    /// A person changed how a map opens its items, for as long as this attempt of it lasts.
    #[serde(rename = "NodeTuned")]
    Tuned {
        /// The map's path.
        node: Arc<str>,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// Whether it opens no more items; absent where that stays as it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held: Option<bool>,
        /// How many items may be open at once; absent where that stays as it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        concurrency: Option<u32>,
        /// Why, as the request gave it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Who asked, through which message.
        #[serde(default, skip_serializing_if = "Origin::is_unknown")]
        origin: Origin,
    },
    /// An execution began with this event's commit.
    ChildStarted {
        /// The node's path.
        node: Arc<str>,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// The number of the new execution.
        execution: ExecutionNo,
        /// Its id.
        child: ExecutionId,
        /// Its workflow.
        workflow: Arc<str>,
        /// The version of the workflow.
        version: u32,
        /// The hash of the definition.
        definition: DefinitionHash,
        /// Whether its end is not awaited.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        detached: bool,
        /// Whether it goes on when this execution ends; always, where its end is not awaited.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        leave: bool,
    },
    /// A further attempt waits for the child of an earlier one, which was reopened with this event's commit,
    /// unless it was under way again already.
    ChildReopened {
        /// The node's path.
        node: Arc<str>,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// The child's number.
        execution: ExecutionNo,
        /// Its id.
        child: ExecutionId,
    },
    /// The child ended.
    ChildEnded {
        /// The node's path.
        node: Arc<str>,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// The child's number.
        execution: ExecutionNo,
        /// The generation that ended.
        generation: u32,
        /// How it ended.
        status: Status,
    },
    /// A signal was sent to another execution with this event's commit.
    SignalSent {
        /// The node's path.
        node: Arc<str>,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// The number of the execution that it is for; absent if it is for every execution that waits for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        execution: Option<ExecutionNo>,
        /// The id of that execution.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        receiver: Option<ExecutionId>,
        /// The name of the signal, with its key if it has one: `paid[order-7]`.
        signal: Arc<str>,
        /// The message's id, by which the receiver knows duplicates.
        message: MessageId,
    },
    #[serde(rename = "NodeSkipped")]
    Skipped {
        /// The node's path.
        node: Arc<str>,
        /// The seq of the events that settled its conditions.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        cause: Vec<u64>,
    },
    #[serde(rename = "NodeCancelled")]
    Cancelled {
        /// The node's path.
        node: Arc<str>,
        /// Why it was stopped.
        reason: CancelReason,
    },
}

impl NodeEvent {
    /// The path of the node it is about.
    pub fn node(&self) -> &Arc<str> {
        match self {
            Self::Scheduled { node, .. }
            | Self::Reserved(AttemptReserved { node, .. })
            | Self::Used(AttemptUsed { node, .. })
            | Self::Started { node, .. }
            | Self::Checkpointed { node, .. }
            | Self::Completed { node, .. }
            | Self::Failed { node, .. }
            | Self::Waiting { node, .. }
            | Self::Signalled { node, .. }
            | Self::Reminded { node, .. }
            | Self::Resumed { node, .. }
            | Self::Requeued { node, .. }
            | Self::BodyOpened { node, .. }
            | Self::MapOpened { node, .. }
            | Self::ItemsOpened { node, .. }
            | Self::BodyEnding { node, .. }
            | Self::Tuned { node, .. }
            | Self::ChildStarted { node, .. }
            | Self::ChildReopened { node, .. }
            | Self::ChildEnded { node, .. }
            | Self::SignalSent { node, .. }
            | Self::Skipped { node, .. }
            | Self::Cancelled { node, .. } => node,
        }
    }

    pub(super) fn payload_bytes(&self) -> usize {
        match self {
            Self::Checkpointed { data, .. } => data.bytes(),
            Self::Completed { output, variables, .. } => {
                output.iter().chain(variables.values()).map(Json::bytes).sum()
            }
            Self::Failed { failure, .. } | Self::BodyEnding { failure, .. } => {
                failure.payload_bytes()
            }
            Self::Scheduled { .. }
            | Self::Reserved(_)
            | Self::Used(_)
            | Self::Started { .. }
            | Self::Signalled { .. }
            | Self::Reminded { .. }
            | Self::Resumed { .. }
            | Self::Requeued { .. }
            | Self::BodyOpened { .. }
            | Self::Tuned { .. }
            | Self::ChildStarted { .. }
            | Self::ChildReopened { .. }
            | Self::ChildEnded { .. }
            | Self::SignalSent { .. }
            | Self::Skipped { .. }
            | Self::Cancelled { .. } => 0,
            Self::MapOpened { items, .. }
            | Self::ItemsOpened { items, .. }
            | Self::Waiting { message: items, .. } => items.as_ref().map_or(0, Json::bytes),
        }
    }
}
