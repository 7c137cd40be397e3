//! The budget of one evaluation: units of work, and bytes of memory.
//!
//! Every operator, filter, test and function takes from the budget before it loops or allocates,
//! and so do the reading of payloads and the writing of results. The sums are counted, not timed:
//! an expression over equal values always stops at the same place, on every machine.
//!
//! A unit of work is about ten nanoseconds of a release build. Memory is expensive if a process has
//! to get it from the system: up to 0.7 ns a byte in a virtual machine, so that bytes count as
//! work, and are bounded besides. The long form of the fuzz test measures that nothing costs more
//! than its price, and `fuzz_expressions prices` what each operation costs.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::failure::Failure;

/// Units of work that one evaluation may do: together about 50 ms of CPU time at most.
pub const WORK_MAX: u64 = 3_500_000;
/// Bytes that one evaluation may allocate, including freed ones.
pub const MEMORY_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Largest text that an operator or a filter may build.
pub(super) const TEXT_BYTES_MAX: usize = super::RESULT_BYTES_MAX;
/// How deep the lists and maps that an expression builds may nest.
pub(super) const VALUE_DEPTH_MAX: u16 = 200;

/// Why an evaluation stopped without a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Stop {
    /// A wrong type, an undefined name.
    Failed(String),
    /// The budget is used up, or a value would be too large.
    Limit(String),
    /// A number that cannot be computed with, or that a computation would give.
    Range,
    /// The content of a blob cannot be had.
    Blob(Box<Failure>),
}

impl Stop {
    pub(super) fn failed(message: impl Into<String>) -> Self {
        Self::Failed(message.into())
    }

    pub(super) fn undefined() -> Self {
        Self::failed("a value is undefined; use default() if it may be missing")
    }

    pub(super) fn too_large(what: &str) -> Self {
        Self::Limit(format!("{what} would be larger than {TEXT_BYTES_MAX} bytes"))
    }
}

/// The rest of the budget for the evaluations of one [`Scope`](super::Scope).
///
/// Atomic only so that a scope may be held across threads; no two of them evaluate over one.
#[derive(Debug)]
pub(super) struct Budget {
    work_max: u64,
    work: AtomicU64,
    bytes: AtomicU64,
}

impl Clone for Budget {
    fn clone(&self) -> Self {
        let copy = |left: &AtomicU64| AtomicU64::new(left.load(Relaxed));
        Self { work_max: self.work_max, work: copy(&self.work), bytes: copy(&self.bytes) }
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::of(WORK_MAX)
    }
}

impl Budget {
    pub(super) fn of(work_max: u64) -> Self {
        Self::of_memory(work_max, MEMORY_BYTES_MAX)
    }

    pub(super) fn of_memory(work_max: u64, bytes: u64) -> Self {
        Self { work_max, work: work_max.into(), bytes: bytes.into() }
    }

    pub(super) fn used(&self) -> u64 {
        self.work_max - self.work.load(Relaxed)
    }

    pub(super) fn work(&self, units: usize) -> Result<(), Stop> {
        take(&self.work, units, || format!("took more than {} units of work", self.work_max))
    }

    /// Takes bytes that are about to be allocated, and the work of filling them.
    pub(super) fn bytes(&self, bytes: usize) -> Result<(), Stop> {
        self.work(bytes / 32 + 1)?;
        self.memory(bytes)
    }

    fn memory(&self, bytes: usize) -> Result<(), Stop> {
        take(&self.bytes, bytes, || format!("took more than {MEMORY_BYTES_MAX} bytes of memory"))
    }

    /// Takes room for one more item of a list.
    pub(super) fn item(&self) -> Result<(), Stop> {
        self.work(2)?;
        self.memory(40)
    }

    /// Takes room for copies of so many items, made at once.
    pub(super) fn copies(&self, count: usize) -> Result<(), Stop> {
        self.bytes(count.saturating_mul(32))?;
        self.work(count)
    }

    /// Takes room for a text, which may not be longer than [`TEXT_BYTES_MAX`].
    pub(super) fn text(&self, what: &str, bytes: usize) -> Result<(), Stop> {
        if bytes > TEXT_BYTES_MAX {
            return Err(Stop::too_large(what));
        }
        self.bytes(bytes + 32)
    }

    /// Takes the work of reading text once, byte after byte.
    pub(super) fn scan(&self, bytes: usize) -> Result<(), Stop> {
        self.work(bytes / 8 + 1)
    }

    /// Takes the work of looking for a part in a text.
    pub(super) fn search(&self, text: usize, part: usize) -> Result<(), Stop> {
        self.work(text / 4 + part / 2 + 10)
    }

    /// Takes the work of looking at each character.
    pub(super) fn chars(&self, bytes: usize) -> Result<(), Stop> {
        self.work(bytes / 2 + 1)
    }
}

/// Takes from what is left, all of it where that is too little.
#[inline]
fn take(left: &AtomicU64, count: usize, limit: impl FnOnce() -> String) -> Result<(), Stop> {
    let rest = left.load(Relaxed).checked_sub(count as u64);
    left.store(rest.unwrap_or(0), Relaxed);
    rest.map(drop).ok_or_else(|| Stop::Limit(limit()))
}
