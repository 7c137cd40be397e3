//! Executions that may kill the process that drives them: how deaths of owners are counted.
//!
//! ```text
//!   0 ── any death with it in hand ──▶ 1 ── a death while in doubt ──▶ 2 ── a death while in doubt ──▶ 3 …
//!        taken in batches                   taken in batches, in doubt     taken alone, in doubt
//! ```
//!
//! The first death says nothing about any one of thousands of executions that were in hand. From
//! then on an execution is *in doubt* from its claim until its owner has made all decisions that
//! follow from loading it, and again before its owner decides anything else; only a death within
//! that time counts. From [`SUSPECT_FROM`] on an owner takes such executions one at a time, so that
//! a death points at one of them. Progress clears the count: a frame beyond the take-over, a park,
//! an end.

use waypost_core::planted::{Bug, is_planted};

/// From this count on an execution is a suspect: its owner takes it alone.
pub const SUSPECT_FROM: u32 = 2;

/// What a frame proves about an execution that was in hand when an owner died.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Settled {
    /// All decisions that follow from loading it are made: it is not in doubt any more.
    Decided,
    /// It makes progress: the deaths do not count any more.
    Progress,
}

/// The count after the death of an owner that had the execution in hand.
pub fn crashes_after_death(crashes: u32, doubt: bool) -> u32 {
    let counts = (crashes == 0 || doubt) && !is_planted(Bug::CrashUncounted);
    crashes.saturating_add(u32::from(counts))
}
