//! Behaviours with a body: how often it runs, and what becomes of the outputs.

use std::sync::Arc;

use super::DurationTemplate;
use crate::expr::{Expression, Template};

/// How a container runs its body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BodyKind {
    Once,
    /// Once, as well; the nodes are made of the fields `start` and `poll` of its config.
    Made,
    /// Again and again. Expressions in the body and in the container's config see `iteration` and
    /// `previous`.
    Repeated,
    /// For each item. Expressions in the body see `item` and `index`.
    Each,
}

impl BodyKind {
    /// May it run more than once?
    pub fn is_repeated(self) -> bool {
        match self {
            Self::Once | Self::Made => false,
            Self::Repeated | Self::Each => true,
        }
    }
}

/// A behaviour with a body.
#[derive(Clone, Copy, Debug)]
pub enum Container<'a> {
    Group,
    Operation(&'a OperationSpec),
    Loop(&'a Loop),
    Map(&'a MapSpec),
}

/// How long an operation that was started may take to call back.
#[derive(Debug, PartialEq)]
pub struct OperationSpec {
    /// Fails with kind `timeout` after this long, or selects a branch.
    pub timeout: Option<DurationTemplate>,
    /// The branch that it selects then.
    pub on_timeout: Option<Arc<str>>,
}

/// Over what a map runs its body, and how.
#[derive(Debug, PartialEq)]
pub struct MapSpec {
    /// A list, or a number n for the items 0 to n-1.
    pub items: Template,
    /// How many items may be open at once; at least 1.
    pub concurrency: u32,
    pub tolerate: Tolerate,
    /// Open no more items once more have failed than are tolerated.
    pub stop_on_failure: bool,
    /// Does the output have the outputs of the items?
    pub collect: bool,
}

/// How many items of a map may fail without the map failing.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Tolerate {
    Count(u64),
    /// Of all items: 0 to 100.
    Percent(f64),
}

impl Tolerate {
    /// How many of so many items may fail.
    pub fn of(self, count: u64) -> u64 {
        match self {
            Self::Count(most) => most,
            // Rounded down: 5 % of 19 items is none. A share of at most 10^7 items is exact enough,
            // and its whole part fits.
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "0 to count"
            )]
            Self::Percent(percent) => (count as f64 * percent / 100.0 + 1e-9).floor() as u64,
        }
    }
}

/// How often a loop runs its body, and what becomes of the outputs.
#[derive(Debug, PartialEq)]
pub struct Loop {
    pub test: LoopTest,
    /// The loop fails instead of beginning one more iteration than this.
    pub iterations_max: u64,
    /// The time between two iterations.
    pub delay: Option<DurationTemplate>,
    pub collect: Collect,
}

/// When a loop ends. The expression sees `iteration`, the number of iterations so far, and
/// `previous`, the output of the last one.
#[derive(Debug, PartialEq)]
pub enum LoopTest {
    /// Evaluated before each iteration: it must hold for the iteration to begin.
    While(Expression),
    /// Evaluated after each iteration: the loop ends when it holds.
    Until(Expression),
}

/// The output of a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Collect {
    /// That of its last iteration.
    Last,
    /// A list of those of all iterations.
    All,
}
