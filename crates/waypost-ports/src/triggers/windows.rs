//! Windows: events that wait in groups until they fire together; for throttles, see [`super::throttles`].
//!
//! An arrival locks the row of its group and nothing else. A group that is due is closed: what arrives from
//! then on, for the same key, is the beginning of the next group. So a busy trigger does not stand in the way
//! of its own flushes. A flush is a [`Fire`](super::Fire) that names the group as it was read: it deletes
//! the group in the commit of the execution, or is stale where another flush did, or an event arrived since.

use std::sync::Arc;

use waypost_core::planted::{Bug, is_planted};
use waypost_core::time::Timestamp;
use waypost_core::trigger::{ItemDigest, WindowMode};

use super::{GROUP_BYTES_MAX, GROUP_EVENTS_MAX, TriggerAt, TriggerRow};

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
    /// It is held in the place of an event that waited for a throttle, and that is skipped now.
    Replaced,
    /// A throttle lets it start: it is a group of its own now, with this number, which its caller is to fire.
    /// Other instances leave the group alone for [`PERMIT_LEASE`](super::throttles::PERMIT_LEASE).
    Permitted {
        seq: u64,
    },
    /// A throttle lets it start nothing.
    Skipped,
    /// This item was held or fired before.
    Duplicate,
    /// The trigger is not active, or at another revision.
    Stale,
    /// The trigger holds as many groups as it may, or the queue of a throttle as many events. To be repeated
    /// later.
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
    /// debounce, the one of a throttle.
    pub payloads: Vec<(Arc<str>, Arc<str>)>,
}

/// Events of a trigger that wait, in windows or for its throttle.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WaitingEvents {
    pub events: u64,
    /// When the next of them are due, unless the trigger is not active.
    pub next_due: Option<Timestamp>,
}

/// A group as it was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupFence {
    pub group: Arc<str>,
    /// Grows with every arrival; no two groups of a trigger have the same.
    pub seq: u64,
}

/// What a store keeps of a group besides its events. The rules of all stores are here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredGroup {
    pub first_at: Timestamp,
    pub last_at: Timestamp,
    /// Events that arrived, also those that a later one has replaced.
    pub events: u32,
    /// Of the events that it holds.
    pub bytes: usize,
    pub due: Timestamp,
}

impl StoredGroup {
    /// A group that begins with this event.
    pub fn of(arrival: &Arrival, now: Timestamp) -> Self {
        let due = match arrival.rule {
            WindowMode::Debounce { period, max } => now.plus(period.min(max)),
            WindowMode::Batch { size, .. } if size <= 1 => now,
            WindowMode::Batch { wait, .. } => now.plus(wait),
            // A permit.
            WindowMode::Throttle(_) => now,
        };
        let bytes = arrival.payload.len();
        Self { first_at: now, last_at: now, events: 1, bytes, due }
    }

    /// The group with one more event; none if it is due or full, so that the event begins the next one.
    #[must_use]
    pub fn with(self, arrival: &Arrival, now: Timestamp) -> Option<Self> {
        if self.due <= now {
            return None;
        }
        let Self { first_at, events, .. } = self;
        let events = events.saturating_add(1);
        let more = arrival.payload.len();
        let (bytes, due) = match arrival.rule {
            WindowMode::Debounce { period, max } => {
                let latest = match is_planted(Bug::DebouncedForEver) {
                    true => now.plus(max),
                    false => first_at.plus(max),
                };
                (more, now.plus(period).min(latest))
            }
            WindowMode::Batch { .. }
                if events > GROUP_EVENTS_MAX || self.bytes + more > GROUP_BYTES_MAX =>
            {
                return None;
            }
            WindowMode::Batch { size, .. } if events >= size => (self.bytes + more, now),
            WindowMode::Batch { .. } => (self.bytes + more, self.due),
            WindowMode::Throttle(_) => return None,
        };
        Some(Self { first_at, last_at: now, events, bytes, due })
    }
}

impl Arrival {
    /// Does it replace the events before it in its group?
    pub fn replaces(&self) -> bool {
        matches!(self.rule, WindowMode::Debounce { .. })
    }
}
