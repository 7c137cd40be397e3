//! Tasks for remote workers: waiting tasks, the workers that serve each handler, and cancellations.
//!
//! ```text
//!   owner ── offer ──▶ [ offers by handler ] ── take ──▶ instance that a worker polls ──▶ worker
//!   owner ── cancel ─▶ [ by worker         ] ── poll ──▶            "               ──▶ worker
//! ```
//!
//! Everything here is a hint and may be lost at any moment: the log says which attempts wait, and their
//! owner offers an attempt again that was not started in time. A lost offer costs latency. An offer taken
//! twice costs a refused report, since an attempt is started under one token only.

use std::sync::Arc;

use waypost_core::id::{ExecutionNo, InstanceId, Token, WorkerId};
use waypost_core::time::{Millis, Timestamp};

use crate::store::StoreError;

/// How long a worker counts as alive after a sign of life, by the clock of the component that
/// stores it.
pub const WORKER_LEASE: Millis = Millis::from_secs(15);

/// Where tasks wait for workers, and where workers are known. Calls block, as those of a
/// [`Store`](crate::store::Store) do.
pub trait Tasks: Send + Sync {
    /// Offers tasks. One that is offered already, by its [`OfferId`], stays as it is.
    fn offer(&self, offers: &[Offer]) -> Result<(), StoreError>;

    /// Withdraws tasks that must not start any more. Those that were taken stay taken.
    fn withdraw(&self, offers: &[OfferId]) -> Result<(), StoreError>;

    /// Takes the oldest tasks of some handlers, each for one taker. Taken tasks are deleted: if the
    /// taker loses one, its owner offers it again.
    fn take(&self, handlers: &[Arc<str>], limit: usize) -> Result<Vec<Offer>, StoreError>;

    /// Records a sign of life of a worker. Returns the cancellations that no earlier call has
    /// returned; if an earlier response was lost, the attempt's owner cancels again.
    fn record_presence(&self, sign: &SignOfLife) -> Result<Vec<Token>, StoreError>;

    /// Stores cancellations for workers. Returns the instances that the live ones among those
    /// workers talk to, each once, so that they can be nudged.
    fn cancel(&self, cancels: &[(WorkerId, Token)]) -> Result<Vec<InstanceId>, StoreError>;

    /// Whether workers are alive and have attempts, by their last signs of life: an answer for each
    /// question, in order. Their other tasks are not returned.
    fn who_holds(&self, asked: &[(WorkerId, Token)]) -> Result<Vec<Holds>, StoreError>;

    /// All workers that are alive or were within the last hour, by id.
    fn workers(&self) -> Result<Vec<WorkerRow>, StoreError>;

    /// How much waits, by handler.
    fn depths(&self) -> Result<Vec<Depth>, StoreError>;

    /// The key that only the instances of this cluster share: it signs tokens and seals values.
    /// Constant for the life of the store.
    fn cluster_key(&self) -> Result<[u8; 32], StoreError>;
}

/// Which attempt an offer is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OfferId {
    pub execution: ExecutionNo,
    /// The node's path.
    pub path: Arc<str>,
    pub attempt: u32,
}

/// A task that waits for a worker.
#[derive(Clone, PartialEq, Debug)]
pub struct Offer {
    pub id: OfferId,
    pub handler: Arc<str>,
    pub owner: InstanceId,
    /// The task, encoded and sealed by the instance that offers it. Opaque here.
    pub body: Vec<u8>,
}

/// A worker's sign of life.
#[derive(Clone, PartialEq, Debug)]
pub struct SignOfLife {
    pub worker: WorkerId,
    pub name: Arc<str>,
    pub handlers: Vec<Arc<str>>,
    /// How many tasks it takes at once.
    pub capacity: u32,
    pub running: u32,
    /// The instance that it talks to.
    pub through: InstanceId,
    /// The last one: its attempts are abandoned.
    pub leaving: bool,
    /// What it has in hand; absent if it does not say, and in every [`WorkerRow`]: tokens are not
    /// for display.
    pub hand: Option<Hand>,
    /// Was there a notification of a cancellation for it? Then every place that may have one is
    /// read, not only the fastest. Of this call; never set in a [`WorkerRow`].
    pub thorough: bool,
}

/// The tasks that a worker lists: each from when it was handed over until the report of its end was
/// answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hand {
    pub tokens: Arc<[Token]>,
    /// How long ago the worker sent this. A waiting poll is recorded repeatedly but was sent once:
    /// by then its worker may have got a task through another poll.
    pub sent_ago: Millis,
}

/// Does a worker have an attempt?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holds {
    /// It is not alive, or unknown.
    Gone,
    /// It is alive, and does not list its tasks.
    Unsaid,
    /// It lists the attempt.
    Yes,
    /// Its list does not have the attempt.
    No {
        /// How long ago it said so, by the clock of the component that stores it.
        sent_ago: Millis,
    },
}

/// A worker as people see it.
#[derive(Clone, PartialEq, Debug)]
pub struct WorkerRow {
    pub sign: SignOfLife,
    pub seen_at: Timestamp,
    pub alive: bool,
}

/// Tasks that wait for the workers of one handler.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Depth {
    pub handler: Arc<str>,
    pub waiting: u64,
    /// How long the oldest has waited.
    pub oldest: Millis,
}
