//! Events that are collected before they fire.

use crate::expr::Expression;
use crate::time::Millis;

/// Events of one key are collected.
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
}

impl WindowMode {
    /// As definitions spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Debounce { .. } => "debounce",
            Self::Batch { .. } => "batch",
        }
    }
}
