//! A checker's access to a store, beyond that of the engine and of readers: everything that is
//! stored of every execution, in pieces, and repairs of what can be derived again.
//!
//! Nothing here judges. Reads are in chunks, each a snapshot of its own: one snapshot for as long
//! as it takes to read a large store would keep the store from cleaning up behind its writers.

mod triggers;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use triggers::{
    HeldEvents, InspectTriggers, InspectedGroup, InspectedGroups, InspectedTrigger,
    InspectedTriggers, NamedFire, TRIGGER_STRAYS_MAX, TriggerRepair, TriggerStray,
    TriggerStrayKind,
};
use waypost_core::frame::Parent;
use waypost_core::id::ExecutionNo;
use waypost_core::permits::PermitRequest;
use waypost_core::projection::columns::{Cell, NODE};
use waypost_core::projection::{ExecutionView, NodeChange, WaitChange};
use waypost_core::time::Timestamp;

use crate::query::Query;
use crate::store::{Control, History, Permit, Store, StoreError, Subscription, Urgency};

/// Bytes of frames after which [`Inspect::examine`] stops.
pub const EXAMINED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A checker's access to a store.
pub trait Inspect: Store + Query {
    /// The next executions that have a log, by number.
    fn executions(&self, request: &ChunkRequest) -> Result<Chunk, StoreError>;

    /// Everything that is stored of these executions, all from one snapshot, in the order of the
    /// request. Those without a log are left out. Stops early, after at least one, when the frames
    /// are more than [`EXAMINED_BYTES_MAX`]: call again for the rest.
    fn examine(&self, executions: &[ExecutionNo]) -> Result<Vec<Examined>, StoreError>;

    /// The projections of these executions, all from one snapshot, in the order of the request. A
    /// call of `examine` *after* this one is at least as new.
    fn shown(&self, executions: &[ExecutionNo]) -> Result<Vec<Shown>, StoreError>;

    /// Brings the projections as close to the log as this process may.
    fn catch_up(&self) -> Result<(), StoreError>;

    /// Rows of executions that have no log.
    fn strays(&self) -> Result<Vec<Stray>, StoreError>;

    /// Repairs the rows beside a log, if log and control row are still what the checker saw.
    /// Returns whether they were.
    fn repair(&self, repair: &Repair) -> Result<bool, StoreError>;

    /// The line of every concurrency key that has one, all from one moment.
    fn permit_queues(&self) -> Result<Vec<PermitQueue>, StoreError>;

    /// Assigns free permits to waiting executions, if that was missed.
    fn promote(&self) -> Result<(), StoreError>;

    /// Derives the projections of these executions again; of one without a log, none are left.
    fn reproject(&self, executions: &[ExecutionNo]) -> Result<(), StoreError>;
}

/// Which executions come next.
#[derive(Clone, Copy, Debug)]
pub struct ChunkRequest {
    pub after: Option<ExecutionNo>,
    /// At most so many are scanned.
    pub limit: usize,
    /// Only those whose last frame was stored at this time or later.
    pub since: Option<Timestamp>,
}

/// Some executions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chunk {
    /// The matching executions; maybe none, although there are more.
    pub executions: Vec<ExecutionNo>,
    /// Where to continue; none at the end.
    pub next: Option<ExecutionNo>,
}

/// Everything that is stored of one execution.
#[derive(Clone, Debug)]
pub struct Examined {
    /// The first page of the whole log, the newest snapshot, the control row and all mail.
    pub history: History,
    /// The columns that a claim uses besides; absent if there is no control row.
    pub standing: Option<Standing>,
    /// Its place in the queue of its concurrency key, also where it has no control row.
    pub permit: Option<Permit>,
    /// Its waits for signals by key, in their order.
    pub subscriptions: Vec<Subscription>,
}

/// The parts of a control row that only the store uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    pub ownership: Ownership,
    /// The least urgent mail that makes it ready.
    pub wakes_from: Urgency,
    /// The lowest fold that can read its frames.
    pub requires: u16,
}

/// The state of the owner that a control row names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ownership {
    /// There is none.
    Unowned,
    /// It is alive, or was at its last sign of life.
    Held,
    /// Its time ran out: claims treat the execution as an orphan.
    Expired,
    /// It is gone for good, or never existed, and no claim considers the execution.
    Lost,
}

/// The projections of one execution.
#[derive(Clone, PartialEq, Debug)]
pub struct Shown {
    pub execution: ExecutionNo,
    /// The first seq of the last frame that they have to show by now; 0 for none.
    pub due: u64,
    pub rows: Option<ShownRows>,
}

/// The rows of one execution.
#[derive(Clone, PartialEq, Debug)]
pub struct ShownRows {
    pub key: Arc<str>,
    pub created_at: Timestamp,
    pub view: ExecutionView,
    /// Its output, as JSON.
    pub output: Option<String>,
    /// Its nodes, in any order.
    pub nodes: Vec<ShownNode>,
    /// Its open waits, in any order.
    pub waits: Vec<ShownWait>,
}

/// The row of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShownNode {
    pub path: String,
    /// The values of those columns of [`NODE`] that the log determines.
    pub cells: Vec<Cell<'static>>,
}

impl ShownNode {
    /// The row that a log leads to.
    pub fn of(path: &str, change: &NodeChange) -> Self {
        let columns = NODE.iter().filter(|column| column.is_folded());
        let cells = columns.map(|column| column.get(change).into_owned()).collect();
        Self { path: path.to_owned(), cells }
    }
}

/// The row of a wait that is open.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ShownWait {
    /// The event that opened it.
    pub seq: u64,
    pub path: String,
    pub due: Option<Timestamp>,
}

/// The line of a concurrency key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PermitQueue {
    pub key: Arc<str>,
    pub holding: u64,
    /// The largest limit of the executions that hold a permit; 0 where none does.
    pub limit_max: u32,
    pub last_holding: Option<ExecutionNo>,
    /// The first one that waits, with its limit.
    pub first_waiting: Option<(ExecutionNo, u32)>,
}

/// Rows of an execution that has no log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Stray {
    pub execution: ExecutionNo,
    pub kind: StrayKind,
}

/// Where stray rows are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum StrayKind {
    Control,
    Mail,
    Snapshot,
    Permit,
    Projection,
}

/// A change of the rows beside one log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Repair {
    pub execution: ExecutionNo,
    /// The last frame of its log when it was examined; none where there was no log, and then it does
    /// not matter what row there is.
    pub last: Option<Parent>,
    /// Its control row when it was examined.
    pub seen: Option<Control>,
    pub remedy: Remedy,
}

/// A repair of the rows beside a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Remedy {
    /// A control row that this follows from, derived from the log.
    Control {
        row: DerivedRow,
        /// The ownership that the log has reached; a row that is ahead stays so.
        epoch: u32,
        /// The lowest fold that can read its frames.
        requires: u16,
        /// Its place in the queue of its concurrency key; none, and no row of one, where it has no key.
        permit: Option<DerivedPermit>,
        /// Its waits for signals by key, and no others.
        subscriptions: Vec<Subscription>,
    },
    /// No control row, no mail, no snapshot, no subscriptions and no place in a line: it has ended, or has no log.
    Nothing,
    /// Deletes the snapshot: it is not the state of the log.
    NoSnapshot,
}

/// A place in the queue of a concurrency key, as derived from a log. An existing row of this key
/// keeps its place; a missing one comes last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DerivedPermit {
    pub request: PermitRequest,
    /// Does it hold a permit, regardless of the limit? A row that does keeps it.
    pub admitted: bool,
}

/// A control row as derived from a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DerivedRow {
    /// It is unowned and must be claimed.
    Ready,
    /// It is unowned until it is due or has mail.
    Parked { next_due: Option<Timestamp> },
    /// It is unowned, and only urgent mail makes it ready.
    Held { reason: String, next_due: Option<Timestamp> },
}

/// The waits that are open after these changes.
pub fn open_waits(changes: &[WaitChange]) -> Vec<ShownWait> {
    let mut open = BTreeMap::new();
    for change in changes {
        match change {
            WaitChange::Opened { stamp, node, wait } => {
                let (seq, path, due) = (stamp.seq, node.to_string(), wait.due());
                open.insert(node, ShownWait { seq, path, due });
            }
            WaitChange::Closed { node: Some(node), .. } => drop(open.remove(node)),
            WaitChange::Closed { node: None, .. } => open.clear(),
        }
    }
    open.into_values().collect()
}
