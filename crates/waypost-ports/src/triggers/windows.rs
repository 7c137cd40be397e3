//! Windows: events that wait in groups until they fire together.
//!
//! An arrival locks the row of its group and nothing else. A group that is due is closed: what arrives from
//! then on, for the same key, is the beginning of the next group. So a busy trigger does not stand in the way
//! of its own flushes. A flush is a [`Fire`](super::Fire) that names the group as it was read: it deletes
//! the group in the commit of the execution, or is stale where another flush did, or an event arrived since.

use std::sync::Arc;

use waypost_core::time::Timestamp;
use waypost_core::trigger::{ItemDigest, WindowMode};

use super::{TriggerAt, TriggerRow};

/// An event on its way into a window.
#[derive(Clone, PartialEq, Debug)]
pub struct Arrival {
    /// Stale where the trigger is not active any more, or at another revision.
    pub at: TriggerAt,
    /// The key of its group.
    pub group: Arc<str>,
    /// Once only.
    pub item: ItemDigest,
    pub label: Arc<str>,
    pub rule: WindowRule,
    /// JSON.
    pub payload: Arc<str>,
}

/// When the group fires.
pub type WindowRule = WindowMode;

/// What became of an arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrived {
    Held,
    /// This item was held or fired before.
    Duplicate,
    /// The trigger is not active, or at another revision.
    Stale,
    /// The trigger holds as many groups as it may. To be repeated later.
    Full,
}

/// A group that is due.
#[derive(Clone, PartialEq, Debug)]
pub struct DueGroup {
    /// The trigger as it is now. Groups of triggers that are not active are not claimed.
    pub row: Arc<TriggerRow>,
    pub fence: GroupFence,
    pub first_at: Timestamp,
    pub last_at: Timestamp,
    /// The events to fire, the oldest first, as pairs of payload and label: all of a batch, the last one of a
    /// debounce.
    pub payloads: Vec<(Arc<str>, Arc<str>)>,
}

/// A group as it was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupFence {
    pub group: Arc<str>,
    /// Grows with every arrival; no two groups of a trigger have the same.
    pub seq: u64,
}
