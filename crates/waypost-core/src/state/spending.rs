//! What an execution has spent: the sum of what its attempts used, and what they may still use.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::State;
use crate::budget::{Amount, Money, SpendingLimits, TokensUsed};
use crate::json::is_zero;
use crate::path::At;
use crate::plan::Plan;

/// What an execution has spent, over all generations.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Spending {
    /// The tokens that were counted.
    #[serde(default)]
    pub used: TokensUsed,
    /// What they cost, as far as prices are known.
    #[serde(default)]
    pub cost: Money,
    /// What attempts may have used whose usage will never be known. A budget counts it as spent.
    #[serde(default)]
    pub lost: Amount,
    /// How many attempts those were.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_attempts: u32,
    /// The most that the attempts under way can use.
    #[serde(default)]
    pub reserved: Amount,
    /// The limits that a person set.
    #[serde(default)]
    pub set: SpendingLimits,
    /// The nodes that are QUEUED and have reserved nothing yet.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub waiting: BTreeSet<At>,
    /// The node whose attempt the budget was too small for, until the execution is resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exhausted: Option<Arc<str>>,
}

/// Does a budget have room for an attempt?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    Now,
    /// Not unless attempts under way use less than they reserved.
    Later,
    /// Not even if those under way use nothing.
    Never,
}

impl Spending {
    /// Is there nothing to show?
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What counts against the budget, reservations apart.
    pub fn spent(&self) -> Amount {
        Amount { tokens: self.used.tokens(), money: self.cost }.plus(self.lost)
    }

    /// An attempt ended with this reservation, and how much it used is unknown; or it never started.
    pub(crate) fn release(&mut self, amount: Amount, may_have_used: bool) {
        self.reserved = self.reserved.minus(amount);
        if may_have_used {
            self.lost = self.lost.plus(amount);
            self.lost_attempts = self.lost_attempts.saturating_add(1);
        }
    }
}

impl State {
    /// The limits of its budget: those of the definition, or what a person set in their place.
    pub fn budget_limits(&self, plan: &Plan) -> Option<SpendingLimits> {
        plan.budget.map(|budget| self.spending.set.or(budget.limits))
    }

    /// Does its budget have room for an attempt that may use so much?
    pub fn room_for(&self, plan: &Plan, amount: Amount) -> Room {
        let Some(limits) = self.budget_limits(plan) else { return Room::Now };
        let spent = self.spending.spent();
        if limits.allow(spent.plus(self.spending.reserved).plus(amount)) {
            Room::Now
        } else if limits.allow(spent.plus(amount)) {
            Room::Later
        } else {
            Room::Never
        }
    }
}
