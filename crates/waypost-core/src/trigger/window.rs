//! Events that wait before they fire: for others to fire with, or for their turn.

use crate::expr::Expression;
use crate::time::Millis;

/// Events of one key are collected, or take turns.
#[derive(Debug)]
pub struct Window {
    /// By which events belong together; all of a trigger without one. Sees `event`.
    pub key: Option<Expression>,
    pub mode: WindowMode,
}

/// When what was collected fires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WindowMode {
    /// The last event fires, `period` after it, and at most `max` after the first one.
    Debounce { period: Millis, max: Millis },
    /// All of them fire as one list: when there are `size`, or `wait` after the first one.
    Batch { size: u32, wait: Millis },
    /// Each of them fires by itself, as soon as it may.
    Throttle(Throttle),
}

/// An event starts its execution once fewer than `limit` executions of its key were started in the time `per`
/// before it. So no window of this length has more than `limit` starts, wherever it begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Throttle {
    pub limit: u32,
    pub per: Millis,
    pub over: Over,
}

impl Throttle {
    /// Holds nothing back: for events that wait at a trigger that has no throttle any more.
    pub const OPEN: Self = Self { limit: u32::MAX, per: Millis(0), over: Over::Queue };
}

/// What becomes of an event beyond the limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Over {
    /// It waits, behind those that came before.
    Queue,
    /// It starts nothing.
    Drop,
    /// It waits in the place of the event that waited before, which starts nothing.
    Latest,
}

impl Over {
    /// As definitions spell them.
    pub const NAMES: [&'static str; 3] = ["queue", "drop", "latest"];
    const ALL: [Self; 3] = [Self::Queue, Self::Drop, Self::Latest];

    /// The one of this name.
    pub fn parse(name: &str) -> Option<Self> {
        let at = Self::NAMES.iter().position(|one| *one == name)?;
        Self::ALL.get(at).copied()
    }
}

impl WindowMode {
    /// As definitions spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Debounce { .. } => "debounce",
            Self::Batch { .. } => "batch",
            Self::Throttle(_) => "throttle",
        }
    }
}
