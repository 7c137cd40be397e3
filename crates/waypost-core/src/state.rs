//! The state of an execution: the fold of its events, and nothing else.
//!
//! Every field is public for readers. Only `apply` writes, so that live state and replayed state
//! can not differ. A [`State`] can be stored and loaded as a snapshot, which is a cache.

mod body;
mod items;
mod map;
mod node;
mod place;
mod room;
mod scope;
mod spending;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::event::{EndCause, MessageId, PauseReason, RunCreated};
use crate::failure::Failure;
use crate::id::{DefinitionHash, ExecutionNo, InstanceId};
use crate::json::{Json, present};
use crate::limits::{CHILDREN_OPEN_MAX, MESSAGES_REMEMBERED_MAX};
use crate::path::{At, ScopeNo};
use crate::plan::Plan;
use crate::planted::{Bug, is_planted};
use crate::status::{NodeStatus, Status};
use crate::time::Timestamp;

pub use body::Body;
pub(crate) use body::{cut_short, output_of};
pub use items::{ItemView, ItemsPage, ItemsRequest};
pub use map::{MapHold, MapState};
pub use node::{Arrived, NodeDetails, NodeState, Scheduled};
pub use place::{PAUSED, Place, Quarantine};
pub use room::SignalRoom;
pub use scope::Scope;
pub use spending::{Room, Spending};

/// Variables, shared: a node keeps those of the moment it was scheduled.
pub type Variables = Arc<BTreeMap<Arc<str>, Json>>;

/// Where an execution stands.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct State {
    pub execution: ExecutionNo,
    /// The definition that it follows.
    pub definition: DefinitionHash,
    pub created: Arc<RunCreated>,
    pub created_at: Timestamp,
    /// The last event that is folded in.
    pub seq: u64,
    /// Its status. The name in snapshots changes with the meaning of a field, so that snapshots of older
    /// builds are passed over.
    #[serde(rename = "status/3")]
    pub status: Status,
    /// From 1; a retry opens the next.
    pub generation: u32,
    /// Grows with each owner.
    pub epoch: u32,
    pub owner: Option<InstanceId>,
    /// Why it is WAITING or PAUSED, or was before it became RESUMING.
    pub paused: Option<PauseReason>,
    /// A user's pause awaits the attempts that run.
    pub pausing: bool,
    /// Why the user paused it, until it is resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_reason: Option<String>,
    /// Why and since when it cannot continue without a person.
    pub quarantine: Option<Quarantine>,
    pub cause: Option<EndCause>,
    pub end: Option<End>,
    /// Its place in the queue of its concurrency key; absent where it has no key, or has not come to
    /// it in this generation.
    pub place: Option<Place>,
    /// The definition's own nodes.
    pub root: Scope,
    /// The bodies that are open, by the number of their scope.
    pub inner: BTreeMap<ScopeNo, Scope>,
    /// How many scopes were opened so far, the first one not counted.
    pub scopes_opened: u64,
    /// Containers with something to do: a scope has closed, or a map has items to open.
    pub due_bodies: BTreeSet<At>,
    /// How many nodes of all scopes are QUEUED and RUNNING.
    pub queued: u32,
    pub running: u32,
    /// How many nodes run in order to start an execution, and how many wait for one that they started.
    #[serde(default, skip_serializing_if = "crate::json::is_zero")]
    pub launching: u32,
    #[serde(default, skip_serializing_if = "crate::json::is_zero")]
    pub children_open: u32,
    /// What its attempts use and may use.
    #[serde(default, skip_serializing_if = "Spending::is_empty")]
    pub spending: Spending,
    /// Signals that nothing has waited for yet, oldest first.
    pub early: VecDeque<EarlySignal>,
    /// Messages that were consumed, oldest first; bounded.
    pub messages: Messages,
    /// Everything that time will do, earliest first.
    pub timers: BTreeSet<(Timestamp, Timer)>,
    pub updated_at: Timestamp,
    /// For a reader of the log that collects the results of a map.
    #[serde(skip)]
    pub tap: Option<Box<ResultsTap>>,
}

/// Takes the results of the items of one map while a log is folded.
#[derive(Clone, PartialEq, Debug)]
pub struct ResultsTap {
    pub map: At,
    pub attempt: u32,
    /// The indexes of items, as they close, and their results; `null` if an item failed.
    pub results: Vec<(u64, Json)>,
}

/// How an execution ended.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct End {
    pub at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub output: Option<Json>,
    pub failure: Option<Failure>,
}

/// A signal that nothing has waited for yet.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct EarlySignal {
    pub message: MessageId,
    pub name: Arc<str>,
    pub body: Json,
    /// The event by which the first of many nodes got it; 0 before. From then on only those get it that
    /// waited before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub spread_since: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Something that time will do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Timer {
    Deadline,
    /// The end of patience with attempts that were cancelled.
    Grace,
    Wait(At),
    /// A node's silent attempt.
    Attempt(At),
    Node(At),
    /// A reminder of a wait, or its escalation.
    Reminder(At),
    /// The end of patience with cancelled attempts of a body that is ending.
    Body(ScopeNo),
}

/// Message ids, remembered up to a limit.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Messages(VecDeque<MessageId>);

impl Messages {
    /// Was this message consumed?
    pub fn contains(&self, message: &str) -> bool {
        self.0.iter().any(|seen| &**seen == message) && !is_planted(Bug::MessageTwice)
    }

    pub(crate) fn remember(&mut self, message: &MessageId) {
        if self.0.len() == MESSAGES_REMEMBERED_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Arc::clone(message));
    }
}

impl State {
    /// The state before the first event.
    pub fn new(
        plan: &Plan,
        execution: ExecutionNo,
        created: Arc<RunCreated>,
        at: Timestamp,
    ) -> Self {
        let deadline = created.deadline.map(|due| (due, Timer::Deadline));
        Self {
            execution,
            definition: created.definition,
            created,
            created_at: at,
            seq: 0,
            status: Status::Requested,
            generation: 1,
            epoch: 0,
            owner: None,
            paused: None,
            pausing: false,
            pause_reason: None,
            quarantine: None,
            cause: None,
            end: None,
            place: None,
            root: Scope { variables: Some(Variables::default()), ..Scope::new(plan, plan.root()) },
            inner: BTreeMap::new(),
            scopes_opened: 0,
            due_bodies: BTreeSet::new(),
            queued: 0,
            running: 0,
            launching: 0,
            children_open: 0,
            spending: Spending::default(),
            early: VecDeque::new(),
            messages: Messages::default(),
            timers: deadline.into_iter().collect(),
            updated_at: at,
            tap: None,
        }
    }

    /// Is there nothing that keeps it: no pause by a user, no quarantine, no end?
    pub fn moves(&self) -> bool {
        (!self.pausing || is_planted(Bug::PauseIgnored))
            && self.quarantine.is_none()
            && self.paused != Some(PauseReason::User)
            && !matches!(self.status, Status::Ending)
            && !self.status.is_end()
    }

    /// May nodes start and waits end right now? Only while an instance owns the execution: what
    /// happens to a parked one is recorded, and takes effect at the next take-over.
    pub fn acts(&self) -> bool {
        self.moves() && self.is_awake()
    }

    /// Is it in an owner's memory, and not ending?
    pub fn is_awake(&self) -> bool {
        matches!(self.status, Status::Scheduled | Status::Running | Status::Resuming)
    }

    /// When a timer next has an effect. Timers that cannot act in this state (the end of a wait
    /// while the execution is paused) are left out: one that is due and does nothing would make its
    /// owner spin.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.timers.iter().find(|(_, timer)| self.may_fire(*timer)).map(|(due, _)| *due)
    }

    /// Would this timer do something, were it due?
    pub(crate) fn may_fire(&self, timer: Timer) -> bool {
        match timer {
            Timer::Deadline | Timer::Attempt(_) => true,
            Timer::Body(scope) => self.runs_in(scope),
            Timer::Grace => self.running > 0,
            // A signal on its way came before the end of the waits that it is for.
            Timer::Wait(_) => self.moves() && !self.is_spreading(),
            Timer::Reminder(_) => self.moves(),
            Timer::Node(at) => self.moves() && !self.is_failing(at),
        }
    }

    /// Is there nothing to do until a timer fires or a message comes?
    pub fn is_idle(&self) -> bool {
        let no_body = self.due_bodies.iter().all(|at| self.awaits_scopes(*at));
        let rests = self.queued == 0 && no_body && !self.is_spreading();
        self.running == 0 && !self.pausing && (rests || !self.moves())
    }

    /// Is a signal on its way to more nodes than one frame can take?
    pub(crate) fn is_spreading(&self) -> bool {
        self.early.iter().any(|early| early.spread_since > 0)
    }

    /// Is there a signal to be delivered to more nodes, and may it?
    pub fn wants_delivery(&self) -> bool {
        self.acts() && self.status != Status::Scheduled && self.is_spreading()
    }

    /// May one more node start an execution?
    pub fn has_room_for_child(&self) -> bool {
        self.launching + self.children_open < CHILDREN_OPEN_MAX
    }

    /// The nodes that are under way: QUEUED, RUNNING or WAITING.
    pub fn current(&self) -> impl Iterator<Item = (At, &NodeState)> {
        self.nodes().filter(|(_, node)| {
            matches!(node.status, NodeStatus::Queued | NodeStatus::Running | NodeStatus::Waiting)
        })
    }

    /// The node whose open wait this event opened.
    pub fn waiting_since(&self, wait: u64) -> Option<At> {
        let is_it = |since: u64| since > 0 && (since == wait || is_planted(Bug::AnyWait));
        self.nodes().find(|(_, node)| is_it(node.wait_seq)).map(|(at, _)| at)
    }

    /// Writes the state as a snapshot.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a state always serialises: its keys are strings")
    }

    /// The definition that a snapshot belongs to; `None` where it is not one of this build's.
    pub fn definition_of(snapshot: &[u8]) -> Option<DefinitionHash> {
        #[derive(Deserialize)]
        struct Created {
            definition: DefinitionHash,
        }
        #[derive(Deserialize)]
        struct Head {
            /// Older builds do not have it.
            definition: Option<DefinitionHash>,
            created: Created,
        }
        let head: Head = serde_json::from_slice(snapshot).ok()?;
        Some(head.definition.unwrap_or(head.created.definition))
    }

    /// Reads a snapshot; `None` where it is not one of this build's for this plan.
    pub fn decode(snapshot: &[u8], plan: &Plan) -> Option<Self> {
        let state: Self = serde_json::from_slice(snapshot).ok()?;
        (state.root.nodes.len() == plan.root().nodes.len()).then_some(state)
    }
}
