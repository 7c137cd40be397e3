//! The executions of one driver, where an instance has several.

use waypost_core::id::ExecutionNo;

/// The executions whose number modulo `of` is `at`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    pub at: u32,
    /// At least 1.
    pub of: u32,
}

impl Share {
    /// All executions.
    pub const ALL: Self = Self { at: 0, of: 1 };

    /// Does it contain this execution?
    pub fn has(self, execution: ExecutionNo) -> bool {
        execution.0.rem_euclid(i64::from(self.of)) == i64::from(self.at)
    }

    /// Divisor and remainder, where it is not everything: for a store's statement.
    pub fn modulo(self) -> Option<(i64, i64)> {
        (self.of > 1).then_some((self.of.into(), self.at.into()))
    }
}
