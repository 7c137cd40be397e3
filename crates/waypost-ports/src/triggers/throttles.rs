//! Throttles: events that wait for their turn. The rules of all stores are here.
//!
//! ```text
//!   arrive ──▶ queue of the key ── claim_groups ──▶ permit: a group of one event ──▶ fire: the permit goes,
//!        └── the limit is not reached ────────────────▲                                    and its time stays
//! ```
//!
//! A permit is given in the transaction that stores the event, or in the one that claims the queue, and it
//! counts until the transaction of its fire. There the permit is deleted and the time of the start is written
//! down, which counts for `per`. So of any `limit + 1` starts within `per`, the one that got its permit last
//! would have found the others, each as a permit or as a start, and would have got none.
//!
//! A queue is a row for each key, and its lock. It is deleted when it holds nothing back any more.

use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::{Over, Throttle, WindowMode};

use super::{Arrival, GROUP_BYTES_MAX, GROUP_EVENTS_MAX};

/// How long a permit is left to the instance that has stored its event.
pub const PERMIT_LEASE: Millis = Millis::from_secs(10);
/// Why an event of a throttle was skipped when it arrived.
pub const OVER_LIMIT: &str = "the limit of the trigger's throttle was reached";
/// Why an event of a throttle was skipped that had waited.
pub const REPLACED: &str =
    "a later event took its place while it waited for the trigger's throttle";

/// What the row of a group is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupRole {
    /// Events that fire together.
    Window,
    /// The events of one key that wait for their turn. They do not fire together.
    Queue,
    /// An event of a throttle that may fire.
    Permit,
}

impl GroupRole {
    /// As a store keeps it.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The role that a store keeps as this number.
    pub fn from_code(code: u8) -> Option<Self> {
        [Self::Window, Self::Queue, Self::Permit].into_iter().find(|role| role.code() == code)
    }
}

/// What a store keeps of a queue besides its events.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredQueue {
    pub limit: u32,
    pub per: Millis,
    /// When executions started, the oldest first.
    pub starts: Vec<Timestamp>,
    /// Events that wait.
    pub waiting: u32,
    /// Of the events that wait.
    pub bytes: usize,
}

/// What becomes of an event at a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// It gets a permit.
    Start,
    /// It waits behind the others.
    Wait,
    /// It waits, and those that waited are skipped.
    Replace,
    /// It is skipped.
    Skip,
    /// There is no room for it.
    Full,
}

impl StoredQueue {
    /// The queue of a key that has had no event.
    pub fn new(throttle: Throttle) -> Self {
        let Throttle { limit, per, over: _ } = throttle;
        Self { limit, per, starts: Vec::new(), waiting: 0, bytes: 0 }
    }

    /// What becomes of an event, while so many permits of the queue are out. Counts it if it waits.
    pub fn admit(
        &mut self,
        over: Over,
        arrival: &Arrival,
        permits: u32,
        now: Timestamp,
    ) -> Admission {
        let more = arrival.payload.len();
        if self.waiting == 0 && self.room(permits, now) > 0 {
            return Admission::Start;
        }
        match over {
            Over::Drop => Admission::Skip,
            Over::Latest => {
                let admission = if self.waiting > 0 { Admission::Replace } else { Admission::Wait };
                (self.waiting, self.bytes) = (1, more);
                admission
            }
            Over::Queue
                if self.waiting >= GROUP_EVENTS_MAX
                    || self.waiting > 0 && self.bytes + more > GROUP_BYTES_MAX =>
            {
                Admission::Full
            }
            Over::Queue => {
                self.waiting += 1;
                self.bytes += more;
                Admission::Wait
            }
        }
    }

    /// How many of the events that wait may start now.
    pub fn grants(&mut self, permits: u32, now: Timestamp) -> u32 {
        self.room(permits, now).min(self.waiting)
    }

    /// The oldest of the events that wait got permits: so many, of so many bytes.
    pub fn granted(&mut self, events: u32, bytes: usize) {
        self.waiting = self.waiting.saturating_sub(events);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// So many permits have become starts.
    pub fn started(&mut self, count: usize, now: Timestamp) {
        self.forget(now);
        self.starts.extend(std::iter::repeat_n(now, count));
    }

    /// When a claim is to look at it; `None` for a queue that holds nothing back, and can be deleted. An event
    /// whose permit is out is taken as one that starts now: its fire writes down the true time.
    pub fn due(&mut self, permits: u32, now: Timestamp) -> Option<Timestamp> {
        self.forget(now);
        let frees = |start: &Timestamp| start.plus(self.per);
        if self.waiting == 0 {
            let of_permits = || (permits > 0).then(|| now.plus(self.per.max(PERMIT_LEASE)));
            return self.starts.last().map(frees).or_else(of_permits);
        }
        let used = self.used(permits);
        if used < self.limit {
            return Some(now);
        }
        let first = usize::try_from(used - self.limit).unwrap_or(usize::MAX);
        Some(self.starts.get(first).map_or_else(|| now.plus(self.per), frees))
    }

    fn used(&self, permits: u32) -> u32 {
        permits.saturating_add(u32::try_from(self.starts.len()).unwrap_or(u32::MAX))
    }

    fn room(&mut self, permits: u32, now: Timestamp) -> u32 {
        self.forget(now);
        self.limit.saturating_sub(self.used(permits))
    }

    /// Forgets starts that do not count any more. One of a clock that was ahead counts as one of now.
    fn forget(&mut self, now: Timestamp) {
        let per = self.per;
        self.starts.iter_mut().for_each(|start| *start = (*start).min(now));
        self.starts.retain(|start| now.since(*start) < per);
    }
}

impl Arrival {
    /// Its throttle, if its trigger has one.
    pub fn throttle(&self) -> Option<Throttle> {
        match self.rule {
            WindowMode::Throttle(throttle) => Some(throttle),
            WindowMode::Debounce { .. } | WindowMode::Batch { .. } => None,
        }
    }
}
