//! Nudges: "poll now", from one instance to another. They carry nothing that is not in the store
//! and may be lost, doubled or late; an instance that misses one polls anyway, within a second.

use std::sync::Arc;

use waypost_core::id::InstanceId;

/// What to poll.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Nudge {
    /// Executions of this owner have mail.
    Mail(InstanceId),
    /// Executions can be claimed, by any instance.
    Claimable,
    /// Tasks of this handler wait.
    Offered(Arc<str>),
    /// A worker that talks to this instance is to stop something.
    Cancelled(InstanceId),
}

/// Called with every nudge that is for this instance. Must be quick.
pub type OnNudge = Arc<dyn Fn(Nudge) + Send + Sync>;

/// How instances nudge each other.
pub trait Nudges: Send + Sync {
    /// Sends a nudge, soon; equal ones may be sent as one. Never blocks.
    fn send(&self, nudge: Nudge);

    /// From now on `on_nudge` is called with nudges of others to this instance or to all; its own need
    /// not come back.
    fn listen(&self, instance: InstanceId, on_nudge: OnNudge);
}

/// For a process without peers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl Nudges for Alone {
    fn send(&self, _: Nudge) {}

    fn listen(&self, _: InstanceId, _: OnNudge) {}
}
