//! Copies outside of the store: for speed, and for people who inspect them. They never decide
//! anything; their content may be gone, old, or forged.

use std::sync::Arc;

use waypost_core::id::{ExecutionId, InstanceId};
use waypost_core::time::{Millis, Timestamp};

/// How often an instance repeats which executions it owns.
pub const MIRROR_EVERY: Millis = Millis::from_secs(10);

/// Where copies go. No call blocks for longer than it takes to hand over: copies that cannot be
/// made now are dropped and counted. Only [`contexts`](Self::contexts) and [`owner`](Self::owner)
/// wait for an answer, briefly.
pub trait Mirror: Send + Sync {
    /// An instance is alive.
    fn alive(&self, instance: &Presence);

    /// It owns these executions, still.
    fn owned(&self, instance: InstanceId, executions: &[ExecutionId]);

    /// It does not own these any more.
    fn released(&self, instance: InstanceId, executions: &[ExecutionId]);

    /// The instance that the mirror names as the owner of this execution. The entry may be
    /// outdated, or missing for a new owner.
    fn owner(&self, execution: &ExecutionId) -> Option<InstanceId>;

    /// Keeps what parked executions were parked with.
    fn keep(&self, contexts: Vec<Context>);

    /// Forgets the contexts of executions that have ended.
    fn forget(&self, executions: &[ExecutionId]);

    /// The states of parked executions, where they are known, in order. The caller compares the
    /// digest of each with the one in the store and uses nothing that differs.
    fn contexts(&self, executions: &[ExecutionId]) -> Vec<Option<Vec<u8>>>;

    /// Does it work?
    fn health(&self) -> Health;
}

/// What is published about an instance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Presence {
    pub instance: InstanceId,
    pub version: Arc<str>,
    pub address: Option<Arc<str>>,
    /// Executions in memory.
    pub owned: u64,
    pub running: u64,
    /// The store's time.
    pub at: Timestamp,
}

/// The copy of a parked execution.
#[derive(Clone, PartialEq, Debug)]
pub struct Context {
    pub execution: ExecutionId,
    pub workflow: Arc<str>,
    pub started_at: Timestamp,
    pub current_nodes: Vec<Arc<str>>,
    /// The nodes that it has behind it, in order; of many, the last.
    pub path: Vec<Arc<str>>,
    /// The last event that the state includes.
    pub seq: u64,
    /// Each node's output in bytes, for those that have one.
    pub outputs: Vec<(Arc<str>, u64)>,
    /// Each variable in bytes.
    pub variables: Vec<(Arc<str>, u64)>,
    /// The encoded state, of which the store has the digest.
    pub state: Vec<u8>,
}

/// Does a mirror work?
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Health {
    /// There is none, and none is wanted.
    Absent,
    Up,
    Down {
        reason: String,
        /// For how long it has been.
        since: Millis,
    },
}

/// No copies.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMirror;

impl Mirror for NoMirror {
    fn alive(&self, _: &Presence) {}

    fn owned(&self, _: InstanceId, _: &[ExecutionId]) {}

    fn released(&self, _: InstanceId, _: &[ExecutionId]) {}

    fn owner(&self, _: &ExecutionId) -> Option<InstanceId> {
        None
    }

    fn keep(&self, _: Vec<Context>) {}

    fn forget(&self, _: &[ExecutionId]) {}

    fn contexts(&self, executions: &[ExecutionId]) -> Vec<Option<Vec<u8>>> {
        vec![None; executions.len()]
    }

    fn health(&self) -> Health {
        Health::Absent
    }
}
