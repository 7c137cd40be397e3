//! Budgets, read a second time: what attempts reserve before they start, what they use, and when there is
//! nothing left.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::invariant::Invariant::BudgetHolds;
use super::{Verdict, broken, require, require_with};
use crate::budget::{Amount, Meter, Money, OnExhausted, SpendingLimits, TokensUsed};
use crate::event::{AttemptReserved, AttemptUsed, Event, NodeEvent, RunEvent};
use crate::failure::kind;
use crate::plan::Plan;
use crate::state::Spending;

/// What was spent and reserved, as the log has it.
#[derive(Debug, Default)]
pub(super) struct BudgetCheck {
    used: TokensUsed,
    cost: Money,
    lost: Amount,
    lost_attempts: u32,
    /// The attempts under way, by the paths of their nodes.
    open: BTreeMap<Arc<str>, OpenAttempt>,
    set: SpendingLimits,
}

#[derive(Clone, Copy, Debug, Default)]
struct OpenAttempt {
    /// What it reserved and has not given back.
    reserved: Amount,
    started: bool,
    counted: bool,
}

impl BudgetCheck {
    /// Is the event possible here? Returns the broken rule and changes nothing.
    pub(super) fn judge(&self, plan: &Plan, event: &Event) -> Verdict {
        match event {
            Event::Node(NodeEvent::Reserved(reserved)) => self.may_reserve(plan, reserved),
            Event::Node(NodeEvent::Started { node, .. }) => {
                let must = plan.budget.is_some() && meter(plan, node).is_some();
                let has = self.open.get(node).is_some_and(|open| !open.started);
                require(has || !must, BudgetHolds, "it started and had reserved nothing")
            }
            Event::Node(NodeEvent::Used(used)) => self.may_have_used(plan, used),
            Event::Node(NodeEvent::Failed { node, failure, .. })
                // A container may fail as one of its nodes did, and a handler as it likes.
                if failure.kind == kind::BUDGET_EXHAUSTED
                    && meter(plan, node).is_some()
                    && self.open.get(node).is_none_or(|open| !open.started) =>
            {
                self.is_exhausted(plan, node, OnExhausted::Fail)
            }
            Event::Run(RunEvent::BudgetExhausted { node, .. }) => {
                self.is_exhausted(plan, node, OnExhausted::Pause)
            }
            Event::Run(RunEvent::BudgetSet { .. }) => {
                require(plan.budget.is_some(), BudgetHolds, "the definition has no budget")
            }
            Event::Node(_) | Event::Run(_) => Ok(()),
        }
    }

    fn may_reserve(&self, plan: &Plan, reserved: &AttemptReserved) -> Verdict {
        let AttemptReserved { node, amount, .. } = reserved;
        require(!self.open.contains_key(node), BudgetHolds, "it had reserved before")?;
        let (Some(limits), Some(meter)) = (self.limits(plan), meter(plan, node)) else {
            return broken(BudgetHolds, "it reserved, and has no budget or uses no tokens");
        };
        let most = most_of(meter);
        require_with(*amount == most, BudgetHolds, || {
            format!("it reserved {amount}, and may use {most}")
        })?;
        let total = self.spent().plus(self.reserved());
        require_with(limits.allow(total.plus(*amount)), BudgetHolds, || {
            format!("it reserved {amount}, where {total} of {limits} are spent or reserved")
        })
    }

    fn may_have_used(&self, plan: &Plan, used: &AttemptUsed) -> Verdict {
        let AttemptUsed { node, usage, cost, .. } = used;
        let runs = self.open.get(node).is_some_and(|open| open.started && !open.counted);
        require(runs, BudgetHolds, "its usage was counted before, or it uses no tokens")?;
        let prices = meter(plan, node).and_then(|meter| meter.prices);
        let expected = prices.map(|prices| prices.cost(*usage));
        require(*cost == expected, BudgetHolds, "its cost is not what the prices give")
    }

    /// An attempt must wait while those under way may give back enough.
    fn is_exhausted(&self, plan: &Plan, node: &str, policy: OnExhausted) -> Verdict {
        let (Some(limits), Some(meter)) = (self.limits(plan), meter(plan, node)) else {
            return broken(BudgetHolds, "it has no budget that could be exhausted");
        };
        let is_policy = plan.budget.is_some_and(|budget| budget.on_exhausted == policy);
        require(is_policy, BudgetHolds, "that is not what follows an exhausted budget")?;
        let fits = limits.allow(self.spent().plus(most_of(meter)));
        require(!fits, BudgetHolds, "the budget has room for the attempt, or may have")
    }

    /// Applies the event, whatever the verdict was.
    pub(super) fn advance(&mut self, plan: &Plan, event: &Event) {
        let event = match event {
            Event::Run(RunEvent::BudgetSet { limits, .. }) => {
                self.set = limits.or(self.set);
                return;
            }
            Event::Run(_) => return,
            Event::Node(event) => event,
        };
        if let NodeEvent::Reserved(AttemptReserved { node, amount, .. }) = event {
            let open = OpenAttempt { reserved: *amount, ..OpenAttempt::default() };
            self.open.insert(Arc::clone(node), open);
        }
        if let NodeEvent::Started { node, .. } = event
            && meter(plan, node).is_some()
        {
            self.open.entry(Arc::clone(node)).or_default().started = true;
        }
        if let NodeEvent::Used(AttemptUsed { node, usage, cost, .. }) = event {
            if let Some(open) = self.open.get_mut(node) {
                (open.reserved, open.counted) = (Amount::default(), true);
            }
            self.used.input = self.used.input.saturating_add(usage.input);
            self.used.output = self.used.output.saturating_add(usage.output);
            let cost = cost.map_or(0, |cost| cost.0);
            self.cost = Money(self.cost.0.saturating_add(cost));
        }
        if let NodeEvent::Completed { node, .. }
        | NodeEvent::Failed { node, .. }
        | NodeEvent::Cancelled { node, .. }
        | NodeEvent::Requeued { node, .. } = event
        {
            self.close(node);
        }
    }

    /// A node's attempt ended, and with a container everything that is in it. What an attempt used that
    /// had started and was not counted is unknown.
    fn close(&mut self, path: &str) {
        if self.open.is_empty() {
            return;
        }
        let Self { open, lost, lost_attempts, .. } = self;
        open.retain(|node, attempt| {
            let inside = |rest: &str| rest.is_empty() || rest.starts_with(['/', '[']);
            if !node.strip_prefix(path).is_some_and(inside) {
                return true;
            }
            if attempt.started && !attempt.counted {
                *lost = lost.plus(attempt.reserved);
                *lost_attempts = lost_attempts.saturating_add(1);
            }
            false
        });
    }

    /// Does the state count the same?
    pub(super) fn compare(&self, state: &Spending) -> Verdict {
        let reserved = self.reserved();
        let counted = (state.used, state.cost, state.lost, state.lost_attempts, state.reserved);
        let expected = (self.used, self.cost, self.lost, self.lost_attempts, reserved);
        require_with(counted == expected, BudgetHolds, || {
            format!("the state counts {counted:?}, and the log has {expected:?}")
        })
    }

    fn limits(&self, plan: &Plan) -> Option<SpendingLimits> {
        plan.budget.map(|budget| self.set.or(budget.limits))
    }

    fn reserved(&self) -> Amount {
        self.open.values().fold(Amount::default(), |sum, open| sum.plus(open.reserved))
    }

    fn spent(&self) -> Amount {
        let tokens = self.used.input.saturating_add(self.used.output);
        Amount { tokens, money: self.cost }.plus(self.lost)
    }
}

/// The meter of a node, by its path.
fn meter(plan: &Plan, path: &str) -> Option<Meter> {
    plan.node(plan.locate(path)?).meter
}

/// The most that an attempt can use.
fn most_of(meter: Meter) -> Amount {
    let usage =
        TokensUsed { input: meter.max_input.unwrap_or(0), output: meter.max_output.unwrap_or(0) };
    let money = meter.prices.map_or(Money::ZERO, |prices| prices.cost(usage));
    Amount { tokens: usage.input.saturating_add(usage.output), money }
}
