//! Budgets: attempts that use tokens reserve the most that they can use before they start.
//!
//! A reservation is an event of its own. `start` leaves an attempt that has none in the queue; the end
//! of each decision makes the reservations, in the order of the nodes:
//!
//! 1. attempts for which nothing can be left any more fail, or pause the execution;
//! 2. the others get their reservation, up to the first one that must wait until attempts under way
//!    have given back what they did not use. Smaller ones behind it wait, too, or it might wait for ever.

use super::Decider;
use crate::budget::{Amount, OnExhausted, SpendingLimits, TokensUsed};
use crate::command::{Outcome, Refusal};
use crate::event::{AttemptReserved, AttemptUsed, FailureEnd, NodeEvent, Origin, RunEvent};
use crate::expr::Template;
use crate::failure::{Failure, kind};
use crate::id::NodeIx;
use crate::json::Json;
use crate::path::At;
use crate::plan::Plan;
use crate::state::{Room, State};
use crate::status::Status;

/// Statuses with which a gateway answers in the place of a server that may have done the work.
const GATEWAY_STATUSES: &[u16] = &[408, 499, 502, 504, 520, 521, 522, 523, 524];

impl Decider<'_> {
    /// Must a QUEUED attempt reserve before it may start?
    pub(super) fn must_reserve(&self, at: At) -> bool {
        self.state.spending.waiting.contains(&at)
    }

    /// Makes the reservations that there is room for. True if that failed nodes, so that bodies may have
    /// come to their end.
    pub(super) fn make_reservations(&mut self) -> bool {
        let Some(budget) = self.plan.budget else { return false };
        if let Some((at, amount)) = self.first_waiting(|room| room == Room::Never) {
            match budget.on_exhausted {
                OnExhausted::Fail => {
                    let failure = self.exhausted(at, amount);
                    self.fail_for_good(at, failure, FailureEnd::Final);
                    return true;
                }
                OnExhausted::Pause => {
                    let (node, reason) = (self.path(at), self.exhausted(at, amount).message);
                    self.emit(RunEvent::BudgetExhausted { node, reason });
                    return false;
                }
            }
        }
        while let Some((at, amount)) = self.first_waiting(|_| true) {
            if self.state.room_for(self.plan, amount) != Room::Now {
                break;
            }
            let (node, attempt) = (self.path(at), self.node(at).attempt);
            self.emit_at(at, NodeEvent::Reserved(AttemptReserved { node, attempt, amount }));
            self.start(at);
        }
        false
    }

    /// The first attempt that waits for the budget and finds such room in it.
    fn first_waiting(&self, fits: impl Fn(Room) -> bool) -> Option<(At, Amount)> {
        if !self.state.acts() {
            return None;
        }
        let waiting = self.state.spending.waiting.iter();
        let mut waiting = waiting.filter(|at| !self.state.is_ending(**at));
        waiting.find_map(|at| {
            let amount = self.plan.reservation(at.node)?;
            fits(self.state.room_for(self.plan, amount)).then_some((*at, amount))
        })
    }

    fn exhausted(&self, at: At, amount: Amount) -> Failure {
        let limits = self.state.budget_limits(self.plan).unwrap_or_default();
        let (spent, node) = (self.state.spending.spent(), self.path(at));
        let message = format!(
            "the budget is exhausted: attempt {} of {node} may use {amount}, and {spent} of {limits} \
             are spent",
            self.node(at).attempt
        );
        Failure::permanent(kind::BUDGET_EXHAUSTED, message)
    }

    /// Is everything at hand that the usage of an attempt is read from? Asked before its first event.
    pub(super) fn has_usage_of(&self, at: At, outcome: &Outcome) -> bool {
        if self.plan_node(at).meter.is_some() && self.env.contents.has_references() {
            self.usage_of(at, outcome);
        }
        !self.env.contents.has_missed()
    }

    /// Records the usage of an attempt that ends, if it is known.
    pub(super) fn count_usage(&mut self, at: At, outcome: &Outcome) {
        if self.node(at).reserved.is_none() {
            return;
        }
        let Some(usage) = self.usage_of(at, outcome) else { return };
        self.used(at, usage);
    }

    /// Records that an attempt used nothing: it was never sent.
    pub(super) fn used_nothing(&mut self, at: At) {
        if self.node(at).reserved.is_some() {
            self.used(at, TokensUsed::default());
        }
    }

    fn used(&mut self, at: At, usage: TokensUsed) {
        let (node, attempt) = (self.path(at), self.node(at).attempt);
        let prices = self.plan_node(at).meter.and_then(|meter| meter.prices);
        let cost = prices.map(|prices| prices.cost(usage));
        self.emit_at(at, NodeEvent::Used(AttemptUsed { node, attempt, usage, cost }));
    }

    fn usage_of(&self, at: At, outcome: &Outcome) -> Option<TokensUsed> {
        match outcome {
            Outcome::Completed(output) if output.as_reference().is_some() => {
                self.usage_in_blob(at, output)
            }
            Outcome::Completed(output) => TokensUsed::within(output.text()),
            Outcome::Failed(failure) => usage_of_failure(failure),
            Outcome::Blocked(_) => Some(TokensUsed::default()),
            Outcome::Started | Outcome::Cancelled | Outcome::Lost(_) | Outcome::Checkpoint(_) => {
                None
            }
        }
    }

    /// The usage in an output that is a blob: read by an expression, which asks for the content.
    fn usage_in_blob(&self, at: At, output: &Json) -> Option<TokensUsed> {
        let template = Template::compile(&serde_json::json!("${{ output.usage }}")).ok()?;
        let mut scope = self.scope(at);
        scope.json("output", output);
        TokensUsed::read(template.render(&scope).ok()?.text())
    }

    /// Changes the limits of the budget, on request.
    pub(super) fn set_budget(
        &mut self,
        limits: SpendingLimits,
        reason: Option<String>,
        origin: Origin,
    ) -> Result<(), Refusal> {
        if let Some(refusal) = self.state.refuses_budget(self.plan, limits) {
            return self.ignore(origin, refusal);
        }
        let owned = self.state.is_awake() || self.state.status == Status::Scheduling;
        if !owned || self.state.owner.is_none() {
            return self.ignore(origin, Refusal::JustPaused);
        }
        self.emit(RunEvent::BudgetSet { limits, reason, origin });
        Ok(())
    }
}

/// The usage that a failure reports; nothing, where the request was not sent or not accepted.
fn usage_of_failure(failure: &Failure) -> Option<TokensUsed> {
    let reported = failure.details.as_ref().and_then(|details| TokensUsed::within(details.text()));
    let unsent = failure.unsent || failure.is_before_call();
    // Providers do not charge for a request that they answer with an error.
    let refused = failure.kind == kind::HTTP
        && failure.status.is_some_and(|status| !GATEWAY_STATUSES.contains(&status));
    reported.or((unsent || refused).then(TokensUsed::default))
}

/// Why these limits could be set in no execution of this definition.
fn refuses_limits(plan: &Plan, limits: SpendingLimits) -> Option<Refusal> {
    let idle = || (limits == SpendingLimits::default()).then_some(Refusal::BadBudget);
    plan.budget.is_none().then_some(Refusal::NoBudget).or_else(idle)
}

impl State {
    /// Why the limits of its budget would not be changed.
    pub fn refuses_budget(&self, plan: &Plan, limits: SpendingLimits) -> Option<Refusal> {
        let refusal = refuses_limits(plan, limits);
        match self.refusal_if_ended() {
            Some(_) if refusal.is_none() && self.retries(plan).is_ok() => {
                Some(Refusal::RaisedWithRetry(self.status))
            }
            ended => ended.or(refusal),
        }
    }

    /// The nodes that a retry with these limits of the budget runs again.
    pub fn retries_with(
        &self,
        plan: &Plan,
        budget: Option<SpendingLimits>,
    ) -> Result<Vec<NodeIx>, Refusal> {
        let nodes = self.retries(plan)?;
        match budget.and_then(|limits| refuses_limits(plan, limits)) {
            Some(refusal) => Err(refusal),
            None => Ok(nodes),
        }
    }
}
