//! What attempts reserve and use, folded into what the execution has spent.

use std::sync::Arc;

use super::{Step, refuse};
use crate::budget::{Amount, Money, SpendingLimits, TokensUsed};
use crate::path::At;
use crate::plan::Plan;
use crate::planted::{Bug, is_planted};
use crate::state::State;

/// An attempt is QUEUED: with a budget, it waits until there is room for it.
pub(super) fn scheduled(plan: &Plan, state: &mut State, at: At) {
    if plan.reservation(at.node).is_some() {
        state.spending.waiting.insert(at);
    }
}

pub(super) fn reserved(state: &mut State, at: At, amount: Amount) -> Step {
    if state.node(at).reserved.is_some() {
        return refuse("the attempt has reserved before");
    }
    state.spending.waiting.remove(&at);
    state.spending.reserved = state.spending.reserved.plus(amount);
    state.node_mut(at).details_mut().reserved = Some(amount);
    Ok(())
}

/// An attempt of a node that uses tokens: until its usage is known, it is lost if it ends.
pub(super) fn started(plan: &Plan, state: &mut State, at: At) {
    if plan.node(at.node).meter.is_some() {
        state.node_mut(at).details_mut().reserved.get_or_insert_default();
    }
}

pub(super) fn used(state: &mut State, at: At, usage: TokensUsed, cost: Option<Money>) -> Step {
    let details = state.node_mut(at).known_details_mut();
    let Some(reserved) = details.and_then(|details| details.reserved.take()) else {
        return refuse("its attempt uses no tokens, or they were counted before");
    };
    let spending = &mut state.spending;
    if !is_planted(Bug::ReservationKept) {
        spending.release(reserved, false);
    }
    let used = spending.used;
    spending.used = TokensUsed {
        input: used.input.saturating_add(usage.input),
        output: used.output.saturating_add(usage.output),
    };
    let cost = cost.map_or(0, |cost| cost.0);
    spending.cost = Money(spending.cost.0.saturating_add(cost));
    Ok(())
}

/// A pause begins, because there is no room for an attempt of this node.
pub(super) fn exhausted(state: &mut State, node: &Arc<str>, reason: &str) {
    state.pause_reason = Some(reason.to_owned());
    state.spending.exhausted = Some(Arc::clone(node));
}

/// A person set limits; what is absent stays as it is.
pub(super) fn set(plan: &Plan, state: &mut State, limits: SpendingLimits) -> Step {
    if plan.budget.is_none() {
        return refuse("the definition has no budget");
    }
    state.spending.set = limits.or(state.spending.set);
    Ok(())
}
