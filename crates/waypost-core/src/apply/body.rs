//! Bodies: scopes open, end as failed, and close when the last of their nodes has settled.

use super::Step;
use crate::event::{CancelReason, Wait};
use crate::failure::Failure;
use crate::json::Json;
use crate::kind::{Behaviour, Collect, Loop};
use crate::path::{At, ScopeNo};
use crate::plan::Plan;
use crate::state::{Scope, State, Timer, output_of};
use crate::time::Timestamp;

/// Is it this scope's turn?
pub(super) fn may_open(plan: &Plan, state: &State, at: At, index: Option<u64>) -> Step {
    plan.body(at.node).ok_or("the node has no body")?;
    let body = state.node(at).body.as_ref();
    let last = body.map_or(0, |body| body.opened);
    let is_loop = matches!(plan.node(at.node).behaviour, Behaviour::Loop(_));
    let follows = if is_loop { index == Some(last + 1) } else { index.is_none() && last == 0 };
    if !follows || body.is_some_and(|body| !body.open.is_empty()) {
        return Err(format!("it is not the turn of scope {index:?}"));
    }
    Ok(())
}

/// Opens the next scope of a container.
pub(super) fn opened(plan: &Plan, state: &mut State, at: At, index: Option<u64>) {
    let Some(body) = plan.body(at.node) else { return };
    state.scopes_opened += 1;
    let number = ScopeNo(state.scopes_opened);
    let path = state.path(plan, at);
    let prefix = match index {
        Some(index) => format!("{path}[{index}]/"),
        None => format!("{path}/"),
    };
    let node = state.node_mut(at);
    let attempt = node.attempt;
    let known = node.body.get_or_insert_default();
    known.opened += 1;
    known.open.insert(index, number);
    node.wait = Some(Wait::Body);
    let scope = Scope {
        container: Some(at),
        index,
        attempt,
        prefix: prefix.into(),
        ..Scope::new(plan, body)
    };
    state.inner.insert(number, scope);
}

/// A node of a body failed, and nothing in the body handles it: the container will fail.
pub(super) fn failed(plan: &Plan, state: &mut State, at: At) {
    let Some(failure) = state.node(at).failure.as_deref() else { return };
    let message = format!("node {} failed: {}", state.path(plan, at), failure.message);
    let failure = Failure { message, on_error_skipped: false, ..failure.clone() };
    let Some(scope) = state.scope_mut(at.scope) else { return };
    scope.failed = true;
    if let Some(container) = scope.container
        && let Some(body) = &mut state.node_mut(container).body
    {
        body.failure.get_or_insert_with(|| Box::new(failure));
    }
}

/// A scope ends as failed, and with it those of the containers in it: what is PENDING will never
/// begin.
pub(super) fn ending(
    state: &mut State,
    at: At,
    (index, failure): (Option<u64>, &Failure),
    (grace, now): (Timestamp, Timestamp),
) -> Step {
    let body = state.node(at).body.as_ref().ok_or("it has opened no scope")?;
    let number = body.scope(index).ok_or_else(|| format!("scope {index:?} is not open"))?;
    if state.scope(number).is_some_and(|scope| scope.ending) {
        return Err(format!("scope {index:?} is ending already"));
    }
    if let Some(body) = &mut state.node_mut(at).body {
        body.failure.get_or_insert_with(|| Box::new(failure.clone()));
    }
    state.timers.insert((grace, Timer::Body(number)));
    let seq = state.seq + 1;
    for number in state.scopes_in(number) {
        if let Some(scope) = state.scope_mut(number) {
            scope.ending = true;
            scope.grace = scope.grace.or(Some(grace));
            scope.cancel_pending(seq, now, CancelReason::Body);
        }
    }
    Ok(())
}

/// Closes the scopes in which every node has settled.
pub(super) fn close_settled(plan: &Plan, state: &mut State) {
    let settled = state.inner.iter().filter(|(_, scope)| scope.unsettled == 0);
    for number in settled.map(|(number, _)| *number).collect::<Vec<_>>() {
        close_if_settled(plan, state, number);
    }
}

/// Closes a scope if every node of it has settled: its container keeps the output, and has
/// something to do.
pub(super) fn close_if_settled(plan: &Plan, state: &mut State, number: ScopeNo) {
    if state.scope(number).is_none_or(|scope| scope.unsettled > 0 || scope.container.is_none()) {
        return;
    }
    let Some(scope) = state.inner.remove(&number) else { return };
    let Some(container) = scope.container else { return };
    if let Some(grace) = scope.grace {
        state.timers.remove(&(grace, Timer::Body(number)));
    }
    let outputs = plan.body(container.node).map_or(&[][..], |body| &body.outputs);
    let completed = !scope.ending && !scope.failed;
    let output = completed.then(|| output_of(plan, &scope, outputs));
    let collects = matches!(
        plan.node(container.node).behaviour,
        Behaviour::Loop(Loop { collect: Collect::All, .. })
    );
    if let Some(body) = &mut state.node_mut(container).body {
        body.open.remove(&scope.index);
        if collects {
            body.collected.extend(output.clone());
        }
        body.output = output.filter(|output: &Json| !output.is_null());
    }
    state.due_bodies.insert(container);
}

/// A container has settled, or begins again: its scopes are gone, whatever was in them.
pub(super) fn drop_scopes(state: &mut State, at: At) {
    state.due_bodies.remove(&at);
    if state.node(at).body.is_none() {
        return;
    }
    for number in state.scopes_of(at) {
        let Some(scope) = state.inner.remove(&number) else { continue };
        for (node, dropped) in scope.iter() {
            let at = At { scope: number, node };
            state.due_bodies.remove(&at);
            state.forget(at, dropped);
        }
        if let Some(grace) = scope.grace {
            state.timers.remove(&(grace, Timer::Body(number)));
        }
    }
    state.node_mut(at).body = None;
}
