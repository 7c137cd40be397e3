//! How much is read and written at once: as much as is fast, and never more than a statement can carry in its
//! time.

use crate::error::{DbError, Result};

/// How much of the log is taken up at once. One frame is, however large.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Portion {
    /// Executions in one transaction.
    pub(super) executions: usize,
    /// Frames that are read at a time.
    pub(super) frames: usize,
    /// Bytes of frames that are read at a time, or of rows that are written by one statement.
    pub(super) bytes: usize,
}

impl Portion {
    /// The portion while there are no errors.
    pub(super) const FULL: Self = Self { executions: 2_000, frames: 5_000, bytes: 4 << 20 };

    fn part(self, divisor: usize) -> Self {
        let part = |whole: usize| (whole / divisor).max(1);
        Self {
            executions: part(self.executions),
            frames: part(self.frames),
            bytes: part(self.bytes),
        }
    }
}

/// Takes smaller portions after errors: what fails as a whole may succeed in parts, and must be
/// projected eventually.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PortionSize {
    failures: u32,
}

/// From one failure to the next, the portion is divided by this.
const DIVISOR: usize = 8;

/// With so many of them, one execution is taken at a time.
const FAILURES_MAX: u32 = 5;

impl PortionSize {
    pub(super) fn portion(self) -> Portion {
        // A single failure does not count: connections break.
        Portion::FULL.part(DIVISOR.pow(self.failures.saturating_sub(1)))
    }

    /// Records the result of a portion. A rejection because of data is independent of the size.
    pub(super) fn judge<T>(&mut self, result: &Result<T>) {
        self.failures = match result {
            Ok(_) => 0,
            Err(DbError::Data(_)) => self.failures,
            Err(_) => (self.failures + 1).min(FAILURES_MAX),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portions_shrink_with_repeated_errors() {
        let mut pace = PortionSize::default();
        let failed: Result<(), _> = Err(DbError::Unavailable("too slow".to_owned()));
        let refused: Result<(), _> = Err(DbError::Data("no JSON".to_owned()));
        let mut executions = Vec::new();
        for _ in 0..7 {
            executions.push(pace.portion().executions);
            pace.judge(&failed);
            pace.judge(&refused);
        }
        assert_eq!(executions, [2_000, 2_000, 250, 31, 3, 1, 1]);
        assert!(pace.portion().bytes >= 1 && pace.portion().frames >= 1);
        pace.judge(&Ok(()));
        assert_eq!(pace.portion(), Portion::FULL);
    }
}
