//! Permits: how many executions of a concurrency key may be under way at once, and who is next.

use std::sync::Arc;

use waypost_core::command::Request;
use waypost_core::frame::FrameHeader;
use waypost_core::id::ExecutionNo;

use super::Mail;
#[cfg(doc)]
use super::{Appended, ControlChange};

/// A place in the queue for a concurrency key. The row is born with this frame and goes with the one
/// that ends the execution ([`ControlChange::Ended`]), so that a permit is released exactly once. Where
/// the execution has a row already (somebody owned it for a while, for another reason than a permit),
/// the row stays as it is and where it is.
///
/// Rows of a key stand in the order of their commits. While fewer hold a permit than the first of those
/// that wait has as its `limit`, that one comes to hold one: whenever a row is born or goes, and,
/// where that was lost, when somebody claims. Nobody overtakes. Whoever comes to hold one is not held
/// any more ([`ControlChange::Held`]) and is ready, unless somebody owns it: that one finds out when it
/// reads the execution the next time, or when it appends a frame with a permit request again. After
/// *such* a frame, an execution that holds a permit is never held, and is ready.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PermitRequest {
    /// Executions of one key share its permits.
    pub key: Arc<str>,
    /// How many may hold one at once; at least 1.
    pub limit: u32,
    /// What happens where that many do.
    pub policy: PermitPolicy,
}

/// What happens to an execution for which there is no permit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PermitPolicy {
    /// It waits in the queue.
    Queue,
    /// It is not accepted: [`Appended::Rejected`].
    Reject,
    /// It waits in the queue, and the oldest that holds a permit, or is queued before it, is sent a
    /// cancellation in the same commit or soon after: one, of the id [`cancel_message`] gives, and only where
    /// those before it that were not sent one yet are at least as many as its limit. Whoever was is
    /// passed over: each newcomer costs somebody else his place.
    CancelOldest,
}

/// The message with which the frame of a newcomer cancels somebody under
/// [`PermitPolicy::CancelOldest`]. The same when the append is repeated.
pub fn cancel_message(newcomer: &FrameHeader, key: &str, oldest: ExecutionNo) -> Mail {
    let message = format!("permit-{}-{}", newcomer.execution.0, newcomer.first_seq);
    let reason = format!("a newer execution of concurrency key {key:?} took its place");
    let body = Request::Cancel { reason: Some(reason) }.into();
    Mail { execution: oldest, message: message.into(), actor: None, body }
}

/// Where an execution stands in the queue for its key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Permit {
    /// The key.
    pub key: Arc<str>,
    /// Does it hold a permit?
    pub holding: bool,
    /// How many stand before it, those that hold a permit included.
    pub before: u64,
}
