//! Bodies: scopes open, end as failed, and close when the last of their nodes has settled.

use std::sync::Arc;

use super::node::move_to;
use super::{Step, refuse};
use crate::event::{CancelReason, NodeEvent, Origin, Wait};
use crate::failure::{Failure, kind};
use crate::json::Json;
use crate::kind::{Behaviour, Collect, Container, Loop};
use crate::path::{At, ScopeNo};
use crate::plan::Plan;
use crate::planted::{Bug, is_planted};
use crate::state::{Body, MapHold, MapState, NodeState, Scope, State, Timer, cut_short, output_of};
use crate::status::NodeStatus;
use crate::time::Timestamp;

/// Folds an event about a body; its attempt is the current one.
pub(super) fn apply(
    plan: &Plan,
    state: &mut State,
    at: At,
    event: &NodeEvent,
    now: Timestamp,
) -> Step {
    match event {
        NodeEvent::BodyOpened { index, .. } => {
            may_open(plan, state, at, *index)?;
            move_to(state, at, NodeStatus::Waiting);
            opened(plan, state, at, *index);
        }
        NodeEvent::MapOpened { count, items, tolerated, results_max, .. } => {
            if !matches!(plan.node(at.node).behaviour, Behaviour::Map(_)) {
                return refuse("the node is not a map");
            }
            let source = items.as_ref().and_then(Json::as_reference);
            let items = items_of(*count, items.as_ref().filter(|_| source.is_none()))?;
            move_to(state, at, NodeStatus::Waiting);
            let results_max = *results_max;
            let map = MapState { source, results_max, ..MapState::new(*count, items, *tolerated) };
            mapped(state, at, map);
            note_due(plan, state, at);
        }
        NodeEvent::ItemsOpened { from, count, items, .. } => {
            may_open_items(state, at, *from, *count)?;
            note_items(state, at, *from, items_of(*count, items.as_ref())?.as_deref())?;
            items_opened(plan, state, at, *count);
            note_due(plan, state, at);
        }
        NodeEvent::BodyEnding { index, failure, whole, grace, origin, .. } => {
            let ending = ending(state, at, (*index, failure, *whole), (*grace, now))?;
            for number in ending {
                close_if_settled(plan, state, number);
            }
            note_due(plan, state, at);
            remember(state, origin);
        }
        NodeEvent::Tuned { held, concurrency, reason, origin, .. } => {
            let body = state.node_mut(at).body_mut().and_then(|body| body.map.as_mut());
            let map = body.ok_or("the node is not a map that knows its items")?;
            if let Some(held) = held {
                let by =
                    MapHold { actor: origin.actor.clone(), reason: reason.clone(), since: now };
                map.held = held.then_some(by);
            }
            map.concurrency = concurrency.or(map.concurrency);
            note_due(plan, state, at);
            remember(state, origin);
        }
        NodeEvent::Scheduled { .. }
        | NodeEvent::Started { .. }
        | NodeEvent::Reserved(_)
        | NodeEvent::Used(_)
        | NodeEvent::Checkpointed { .. }
        | NodeEvent::Completed { .. }
        | NodeEvent::Failed { .. }
        | NodeEvent::Waiting { .. }
        | NodeEvent::Signalled { .. }
        | NodeEvent::Reminded { .. }
        | NodeEvent::Resumed { .. }
        | NodeEvent::Requeued { .. }
        | NodeEvent::ChildStarted { .. }
        | NodeEvent::ChildReopened { .. }
        | NodeEvent::ChildEnded { .. }
        | NodeEvent::SignalSent { .. }
        | NodeEvent::Skipped { .. }
        | NodeEvent::Cancelled { .. } => {}
    }
    Ok(())
}

/// Notes that a message was consumed.
fn remember(state: &mut State, origin: &Origin) {
    if let Some(message) = &origin.message {
        state.messages.remember(message);
    }
}

/// Is it this scope's turn?
fn may_open(plan: &Plan, state: &State, at: At, index: Option<u64>) -> Step {
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
fn opened(plan: &Plan, state: &mut State, at: At, index: Option<u64>) {
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
    let details = node.details_mut();
    let known = details.body.get_or_insert_default();
    known.opened += 1;
    known.open.insert(index, number);
    details.wait = Some(Wait::Body);
    let scope = Scope {
        container: Some(at),
        index,
        attempt,
        prefix: prefix.into(),
        ..Scope::new(plan, body)
    };
    state.inner.insert(number, scope);
}

/// A map knows its items.
fn mapped(state: &mut State, at: At, map: MapState) {
    let details = state.node_mut(at).details_mut();
    details.body.get_or_insert_default().map = Some(Box::new(map));
    details.wait = Some(Wait::Body);
}

/// The items of a `MapOpened`, one by one.
fn items_of(count: u64, items: Option<&Json>) -> Result<Option<Arc<[Json]>>, String> {
    let Some(items) = items else { return Ok(None) };
    let list: Vec<Json> = serde_json::from_str(items.text()).map_err(|error| error.to_string())?;
    if u64::try_from(list.len()) != Ok(count) {
        return Err(format!("{count} items, and a list of {}", list.len()));
    }
    Ok(Some(list.into()))
}

/// Are these the next items of a map?
fn may_open_items(state: &State, at: At, from: u64, count: u64) -> Step {
    let map = state.node(at).body.as_ref().and_then(|body| body.map.as_ref());
    let map = map.ok_or("the node is not a map that knows its items")?;
    let fits = map.next == from && count > 0 && map.count - map.next >= count && !map.stopped;
    if fits { Ok(()) } else { Err(format!("items {from} and {count} more are not the next")) }
}

/// Keeps the items of a blob that are about to be open.
fn note_items(state: &mut State, at: At, from: u64, items: Option<&[Json]>) -> Step {
    let Some(body) = state.node_mut(at).body_mut() else { return Ok(()) };
    let Some(map) = &mut body.map else { return Ok(()) };
    if map.source.is_some() != items.is_some() {
        return refuse("items come with the event if, and only if, they are in a blob");
    }
    map.open_items.extend((from..).zip(items.into_iter().flatten().cloned()));
    Ok(())
}

/// Opens the next items of a map.
fn items_opened(plan: &Plan, state: &mut State, at: At, count: u64) {
    let Some(body) = plan.body(at.node) else { return };
    let path = state.path(plan, at);
    let variables = Arc::clone(state.variables(at.scope));
    let attempt = state.node(at).attempt;
    let blank = Scope::new(plan, body);
    for _ in 0..count {
        state.scopes_opened += 1;
        let number = ScopeNo(state.scopes_opened);
        let Some(body) = state.node_mut(at).body_mut() else { return };
        let Some(map) = &mut body.map else { return };
        let index = map.next;
        map.next += 1;
        body.opened += 1;
        body.open.insert(Some(index), number);
        let scope = Scope {
            container: Some(at),
            index: Some(index),
            attempt,
            prefix: format!("{path}[{index}]/").into(),
            variables: Some(Arc::clone(&variables)),
            ..blank.clone()
        };
        state.inner.insert(number, scope);
    }
    if is_planted(Bug::ItemOpenedTwice)
        && count > 1
        && let Some(map) = state.node_mut(at).body_mut().and_then(|body| body.map.as_mut())
    {
        map.next -= 1;
    }
}

/// A node of a body failed, and nothing in the body handles it: the container will fail.
pub(super) fn failed(plan: &Plan, state: &mut State, at: At, now: Timestamp) {
    let node = state.node(at);
    let Some(failure) = node.failure.as_deref() else { return };
    let is_late = failure.kind == kind::TIMEOUT && node.deadline.is_some_and(|due| due <= now);
    let message = format!("node {} failed: {}", state.path(plan, at), failure.message);
    let failure = Failure { message, on_error_skipped: false, ..failure.clone() };
    let Some(scope) = state.scope_mut(at.scope) else { return };
    scope.failed = true;
    scope.failure.get_or_insert_with(|| Box::new(failure));
    if let Some(container) = scope.container.filter(|_| is_late)
        && plan.node(container.node).behaviour.is_late_with(plan.node(at.node))
        && let Some(body) = state.node_mut(container).body_mut()
    {
        body.late = true;
    }
}

/// A scope ends as failed, and with it those of the containers in it: what is PENDING will never
/// begin.
fn ending(
    state: &mut State,
    at: At,
    (index, failure, whole): (Option<u64>, &Failure, bool),
    (grace, now): (Timestamp, Timestamp),
) -> Result<Vec<ScopeNo>, String> {
    let body = state.node(at).body.as_ref().ok_or("it has opened no scope")?;
    let number = body.scope(index).ok_or_else(|| format!("scope {index:?} is not open"))?;
    if state.scope(number).is_some_and(|scope| scope.ending) {
        return Err(format!("scope {index:?} is ending already"));
    }
    if let Some(scope) = state.scope_mut(number) {
        scope.failure.get_or_insert_with(|| Box::new(failure.clone()));
    }
    if whole && let Some(body) = state.node_mut(at).body_mut() {
        body.failure.get_or_insert_with(|| Box::new(failure.clone()));
    }
    state.timers.insert((grace, Timer::Body(number)));
    let seq = state.seq + 1;
    let ending = state.scopes_in(number);
    for inner in &ending {
        if let Some(scope) = state.scope_mut(*inner) {
            scope.ending = true;
            scope.cancel_pending(seq, now, CancelReason::Body);
        }
    }
    if let Some(scope) = state.scope_mut(number) {
        scope.grace = Some(grace);
    }
    Ok(ending)
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
    // The execution ended before the scope did.
    let cancelled = |node: &NodeState| {
        matches!(node.cancelled, Some(CancelReason::Ending | CancelReason::Grace))
    };
    let ends = !scope.ending && scope.nodes.iter().any(cancelled);
    let completed = !scope.ending && !scope.failed && !ends;
    let output = completed.then(|| output_of(plan, &scope, outputs));
    let collects = matches!(
        plan.node(container.node).behaviour,
        Behaviour::Loop(Loop { collect: Collect::All, .. })
    );
    let spec = match plan.node(container.node).behaviour.container() {
        Some(Container::Map(spec)) => Some(spec),
        _ => None,
    };
    if let (Some(tap), Some(index)) = (&mut state.tap, scope.index)
        && (tap.map, tap.attempt) == (container, scope.attempt)
    {
        tap.results.push((index, output.clone().unwrap_or_else(Json::null)));
    }
    if let Some(body) = state.node_mut(container).body_mut() {
        body.open.remove(&scope.index);
        match (&mut body.map, spec) {
            (Some(map), Some(spec)) => {
                let index = scope.index.unwrap_or_default();
                match completed {
                    true => map.completed(index, output.filter(|_| spec.collect)),
                    false if ends => map.item_failed(index, Some(Box::new(cut_short()))),
                    false => map.item_failed(index, scope.failure),
                }
                map.stopped |= spec.stop_on_failure && map.failed > map.tolerated;
            }
            _ => {
                if collects && let Some(output) = &output {
                    body.collected_bytes += output.bytes() + 1;
                    body.collected.push(output.clone());
                }
                body.output = output.filter(|output: &Json| !output.is_null());
                body.failure = body.failure.take().or(scope.failure);
            }
        }
    }
    note_due(plan, state, container);
}

/// A container has settled: what is left of its body are numbers and failures.
pub(super) fn settled(plan: &Plan, state: &mut State, at: At) {
    let body = drop_scopes(state, at);
    let repeats = matches!(plan.node(at.node).behaviour, Behaviour::Map(_) | Behaviour::Loop(_));
    if let Some(body) = body.filter(|_| repeats) {
        state.node_mut(at).details_mut().body = Some(Box::new(body.into_kept()));
    }
}

/// A container has settled, or begins again: its scopes are gone, whatever was in them.
pub(super) fn drop_scopes(state: &mut State, at: At) -> Option<Box<Body>> {
    state.due_bodies.remove(&at);
    state.node(at).body.as_ref()?;
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
    state.node_mut(at).known_details_mut()?.body.take()
}

/// Notes whether a container has something to do: see [`State::due_bodies`].
fn note_due(plan: &Plan, state: &mut State, at: At) {
    let due = state.get(at).is_some_and(|node| {
        node.status == NodeStatus::Waiting
            && node.body.as_ref().is_some_and(|body| has_work(plan, state, at, body))
    });
    match due {
        true => state.due_bodies.insert(at),
        false => state.due_bodies.remove(&at),
    };
}

fn has_work(plan: &Plan, state: &State, at: At, body: &Body) -> bool {
    let (Behaviour::Map(spec), Some(map)) = (&plan.node(at.node).behaviour, &body.map) else {
        return body.open.is_empty();
    };
    let ends = body.failure.is_some() || state.is_ending(at);
    if !ends && map.has_items_left() {
        return (body.open.len() as u64) < map.places(spec);
    }
    body.open.is_empty()
        || (!ends && map.stopped && !body.open.values().all(|scope| state.is_scope_ending(*scope)))
}
