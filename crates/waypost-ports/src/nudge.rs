//! Nudges: "poll now", from one instance to another. They carry nothing that is not in the store
//! and may be lost, doubled or late; an instance that misses one polls anyway, within a second.

use std::sync::Arc;

use waypost_core::id::InstanceId;

/// What there is to look at.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Nudge {
    /// Executions of this owner have mail.
    Mail(InstanceId),
    /// Something can be claimed, by anybody.
    Claimable,
    /// Tasks of this handler wait.
    Offered(Arc<str>),
    /// A worker that talks to this instance is to stop something.
    Cancelled(InstanceId),
}

/// Called with every nudge that is for this instance. Must be quick.
pub type Hear = Arc<dyn Fn(Nudge) + Send + Sync>;

/// How instances nudge each other.
pub trait Nudges: Send + Sync {
    /// Sends a nudge, soon; several that say the same may be sent as one. Never blocks.
    fn send(&self, nudge: Nudge);

    /// From now on `hear` is called with what others send to this instance or to all; what it sends
    /// itself need not come back.
    fn listen(&self, instance: InstanceId, hear: Hear);
}

/// For a process without peers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl Nudges for Alone {
    fn send(&self, _: Nudge) {}

    fn listen(&self, _: InstanceId, _: Hear) {}
}
