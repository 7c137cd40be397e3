//! What the expressions of a node see, and what follows from them for its task.

use std::sync::Arc;

use super::graph::output_of;
use super::queue::key_text;
use crate::breaker::BreakerRef;
use crate::expr::{Contents, Rendered, Scope, ScopeNode};
use crate::failure::Failure;
use crate::id::NodeIx;
use crate::json::Json;
use crate::kind::Behaviour;
use crate::limits::BREAKER_KEY_BYTES_MAX;
use crate::path::At;
use crate::plan::Plan;
use crate::planted::{Bug, is_planted};
use crate::state::{State, Variables};
use crate::status::NodeStatus;
use crate::time::Timestamp;
use crate::trigger::Fired;

/// The scope of a node's expressions. Of the nodes in `earlier` nothing but their status at that
/// moment can be seen.
pub(super) fn scope(
    plan: &Plan,
    state: &State,
    at: At,
    (now, variables): (Timestamp, &Variables),
    earlier: &[(NodeIx, NodeStatus)],
    contents: &Contents,
) -> Scope {
    let mut scope = outer_scope(state, now, contents);
    scope.shared("variables", variables);
    add_iteration(plan, state, at, &mut scope);
    add_item(state, at, &mut scope);
    let mentions = &plan.node(at.node).mentions;
    let visible = mentions.iter().filter_map(|node| state.visible(at.scope, *node));
    scope.nodes(visible.map(|at| {
        let id = plan.node(at.node).id.to_string();
        if let Some((_, status)) = earlier.iter().find(|(unsettled, _)| *unsettled == at.node) {
            let (output, failure) = (Json::null(), Json::null());
            return (id, ScopeNode { status: status.name(), output, failure });
        }
        let node = state.node(at);
        let failed = matches!(node.status, NodeStatus::Failed | NodeStatus::TimedOut);
        let failure = node.failure.as_deref().filter(|_| failed);
        let failure = failure.map(|failure| Json::from_value(&serde_json::json!(failure)));
        let shown = ScopeNode {
            status: node.status.name(),
            output: output_of(plan, state, at),
            failure: failure.unwrap_or_else(Json::null),
        };
        (id, shown)
    }));
    scope
}

/// `iteration` and `previous`: of the loop itself, or of the nearest loop around the node.
fn add_iteration(plan: &Plan, state: &State, at: At, scope: &mut Scope) {
    let is_loop = |at: At| matches!(plan.node(at.node).behaviour, Behaviour::Loop(_));
    let mut nearest = Some(at).filter(|at| is_loop(*at));
    let mut around = state.scope(at.scope);
    while let (None, Some(here)) = (nearest, around) {
        nearest = here.container.filter(|container| is_loop(*container));
        around = here.container.and_then(|container| state.scope(container.scope));
    }
    let Some(of) = nearest else { return };
    let body = state.node(of).body.as_deref();
    let previous = body.and_then(|body| body.output.clone());
    scope.json("iteration", &Json::from_value(&body.map_or(0, |body| body.opened).into()));
    scope.json("previous", &previous.unwrap_or_else(Json::null));
}

/// `item` and `index`: of the nearest map around the node.
fn add_item(state: &State, at: At, scope: &mut Scope) {
    let mut around = state.scope(at.scope);
    while let Some(here) = around {
        let Some(container) = here.container else { return };
        let body = state.node(container).body.as_ref();
        if let (Some(map), Some(index)) = (body.and_then(|body| body.map.as_ref()), here.index) {
            scope.json("item", &map.item(index));
            scope.json("index", &Json::from_value(&index.into()));
            return;
        }
        around = state.scope(container.scope);
    }
}

/// The scope outside of any node.
pub(super) fn outer_scope(state: &State, now: Timestamp, contents: &Contents) -> Scope {
    let mut scope = Scope::over(contents);
    scope.json("input", &state.created.input);
    scope.json("trigger", &Fired::seen_as(state.created.trigger.as_deref()));
    scope.fields(
        "execution",
        &[
            ("id", state.created.key.to_string()),
            ("workflow", state.created.workflow.to_string()),
            ("version", state.created.version.to_string()),
            ("startedAt", state.created_at.to_string()),
            ("now", now.to_string()),
        ],
    );
    scope
}

/// The config of a task with every expression evaluated but its secrets, from the state as of the
/// node's first `NodeScheduled`: a retry sends what the first attempt sent, with the secrets of its
/// time. Fails if a content is missed.
pub fn render_task(
    plan: &Plan,
    state: &State,
    at: At,
    contents: &Contents,
) -> Result<Rendered, Failure> {
    let behaviour = &plan.node(at.node).behaviour;
    let task = if let Behaviour::Task { config, .. } = behaviour { Some(config) } else { None };
    let Some(config) = task.or_else(|| behaviour.call_config()) else {
        return Ok(Rendered { config: Json::null(), secrets: Vec::new() });
    };
    config.render_around_secrets(&task_scope(plan, state, at, contents))
}

/// The scope of a task: the state as of the node's first `NodeScheduled`.
fn task_scope(plan: &Plan, state: &State, at: At, contents: &Contents) -> Scope {
    match &state.node(at).scheduled {
        Some(first) => {
            let moment = (first.at, &first.variables);
            scope(plan, state, at, moment, &first.unsettled, contents)
        }
        None => {
            let moment = (state.updated_at, state.variables(at.scope));
            scope(plan, state, at, moment, &[], contents)
        }
    }
}

/// The key of a node's circuit breaker, if it has one: equal in every attempt, as the config is.
pub fn render_breaker(
    plan: &Plan,
    state: &State,
    at: At,
    contents: &Contents,
) -> Result<Option<BreakerRef>, Failure> {
    let Some(breaker) = plan.node(at.node).breaker.as_deref() else { return Ok(None) };
    let value = breaker.key.render(&task_scope(plan, state, at, contents))?;
    let key = key_text(&value, "the key of a breaker", BREAKER_KEY_BYTES_MAX)?;
    Ok(Some(BreakerRef { key: key.into(), policy: breaker.policy }))
}

/// The key by which outside systems deduplicate a node's calls: equal in every attempt.
pub fn idempotency_key(plan: &Plan, state: &State, at: At) -> String {
    let node = state.node(at);
    let generation = node.generation;
    let path = key_path(plan, state, at);
    let key = format!("{}/{path}/{generation}", state.created.key);
    match is_planted(Bug::AttemptInKey) {
        true => format!("{key}/{}", node.attempt),
        false => key,
    }
}

/// The path of a node in its idempotency key. A group that is tried again runs its body anew, which
/// makes other calls: the number of its attempt is a part of their keys from the second one on.
pub(crate) fn key_path(plan: &Plan, state: &State, at: At) -> Arc<str> {
    let scopes = std::iter::successors(state.scope(at.scope), |scope| {
        scope.container.and_then(|container| state.scope(container.scope))
    });
    let again: Vec<(usize, u32)> = scopes
        .filter(|scope| scope.attempt > 1)
        .map(|scope| (scope.prefix.len().saturating_sub(1), scope.attempt))
        .collect();
    let path = state.path(plan, at);
    if again.is_empty() || is_planted(Bug::KeysIgnoreTries) {
        return path;
    }
    let mut text = path.to_string();
    // From the innermost scope outwards, so that earlier places stay where they are.
    for (place, attempt) in again {
        text.insert_str(place, &format!("@{attempt}"));
    }
    text.into()
}
