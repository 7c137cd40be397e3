//! Bodies: what a container knows of the scopes that it has opened.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{MapState, NodeState, Scope, State, Timer};
use crate::event::Wait;
use crate::failure::{Failure, kind};
use crate::id::NodeIx;
use crate::json::{Json, present};
use crate::path::{At, ScopeNo};
use crate::plan::Plan;
use crate::status::{NodeStatus, Status};

/// The body of a container that is under way.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Body {
    /// The scopes that are open, by index. A group has one at most, without an index.
    #[serde(with = "crate::json::pairs")]
    pub open: BTreeMap<Option<u64>, ScopeNo>,
    /// How many scopes were opened in this attempt.
    pub opened: u64,
    /// The output of the scope that closed last; absent for `null`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub output: Option<Json>,
    /// The outputs of all scopes, for a loop that collects them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub collected: Vec<Json>,
    /// Bytes of these outputs.
    #[serde(default)]
    pub collected_bytes: usize,
    /// Of a map.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map: Option<Box<MapState>>,
    /// Why the container will fail when its scopes have closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Box<Failure>>,
    /// Have the polls of an operation taken too long?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub late: bool,
}

impl Body {
    /// What is left of a map or a loop after its end, without items and outputs. Scopes that were open
    /// are cancelled.
    pub(crate) fn into_kept(self) -> Self {
        let mut map = self.map;
        if let Some(map) = &mut map {
            for index in self.open.keys().filter_map(|index| *index) {
                map.item_failed(index, Some(Box::new(cut_short())));
            }
            (map.items, map.outputs) = (None, BTreeMap::new());
            (map.held, map.concurrency) = (None, None);
        }
        Self { opened: self.opened, failure: self.failure, map, ..Self::default() }
    }

    /// The open scope of this index.
    pub fn scope(&self, index: Option<u64>) -> Option<ScopeNo> {
        self.open.get(&index).copied()
    }
}

impl State {
    /// Is a node in a scope that ends as failed, or does the whole execution end?
    pub fn is_ending(&self, at: At) -> bool {
        self.status == Status::Ending || self.is_scope_ending(at.scope)
    }

    pub(crate) fn is_scope_ending(&self, scope: ScopeNo) -> bool {
        self.scope(scope).is_some_and(|scope| scope.ending)
    }

    /// Has a map items to open, and may it?
    pub fn wants_items(&self) -> bool {
        let wants = |at: &At| {
            let body = self.get(*at).and_then(|node| node.body.as_ref());
            body.is_some_and(|body| body.map.as_ref().is_some_and(|map| map.has_items_left()))
        };
        self.acts() && self.due_bodies.iter().any(|at| wants(at) && !self.is_ending(*at))
    }

    /// Is this a container that only awaits the end of its scopes? Its deadline then changes nothing.
    pub(crate) fn is_failing(&self, at: At) -> bool {
        self.get(at).and_then(|node| node.body.as_ref()).is_some_and(|body| {
            let drains = !body.open.is_empty()
                && body.open.values().all(|scope| self.is_scope_ending(*scope));
            body.failure.is_some() || drains
        })
    }

    /// Does a container that ends still have open scopes? A map that had items to open when its end was
    /// fixed is still listed as due, and can do nothing before they have closed.
    pub(crate) fn awaits_scopes(&self, at: At) -> bool {
        self.get(at).and_then(|node| node.body.as_ref()).is_some_and(|body| {
            !body.open.is_empty() && (self.is_ending(at) || body.failure.is_some())
        })
    }

    /// The open scopes of a container, and those of the containers in them, the outer ones first.
    pub(crate) fn scopes_of(&self, container: At) -> Vec<ScopeNo> {
        let body = self.get(container).and_then(|node| node.body.as_ref());
        let open = body.into_iter().flat_map(|body| body.open.values().copied());
        open.flat_map(|number| self.scopes_in(number)).collect()
    }

    /// A scope, and the open scopes of the containers in it, the outer ones first.
    pub(crate) fn scopes_in(&self, scope: ScopeNo) -> Vec<ScopeNo> {
        let mut found = vec![scope];
        let mut next = 0;
        while let Some(number) = found.get(next).copied() {
            next += 1;
            let nodes = self.scope(number).into_iter().flat_map(|scope| &scope.nodes);
            let bodies = nodes.filter_map(|node| node.body.as_ref());
            found.extend(bodies.flat_map(|body| body.open.values().copied()));
        }
        found
    }

    /// Does a node of this scope run, or one of a scope in it?
    pub(crate) fn runs_in(&self, scope: ScopeNo) -> bool {
        let scopes = self.scopes_in(scope);
        let mut nodes =
            scopes.into_iter().filter_map(|scope| self.scope(scope)).flat_map(|s| &s.nodes);
        nodes.any(|node| node.status == NodeStatus::Running)
    }

    /// Takes back what a node adds to the counters and timers of the execution.
    pub(crate) fn forget(&mut self, at: At, node: &NodeState) {
        self.queued -= u32::from(node.status == NodeStatus::Queued);
        self.running -= u32::from(node.status == NodeStatus::Running);
        self.spending.waiting.remove(&at);
        if let Some(amount) = node.reserved {
            self.spending.release(amount, node.status == NodeStatus::Running);
        }
        self.launching -= u32::from(node.launching);
        self.children_open -= u32::from(matches!(node.wait, Some(Wait::Child { .. })));
        if let Some(wait) = &node.wait {
            self.disarm(at, wait);
        }
        for (due, timer) in
            [(node.attempt_due, Timer::Attempt(at)), (node.deadline, Timer::Node(at))]
        {
            due.map(|due| self.timers.remove(&(due, timer)));
        }
    }

    /// Removes the timers of a wait.
    pub(crate) fn disarm(&mut self, at: At, wait: &Wait) {
        let due = wait.due().map(|due| (due, Timer::Wait(at)));
        let reminders = wait.reminders().map(|due| (due, Timer::Reminder(at)));
        for timer in due.into_iter().chain(reminders) {
            self.timers.remove(&timer);
        }
    }
}

/// The failure of an item that was open when its map or its execution ended.
pub(crate) fn cut_short() -> Failure {
    Failure::permanent(kind::CANCELLED, "the item was cancelled because its map ended")
}

/// The value of a scope: that of the only node that gives one, or a map of several.
pub(crate) fn output_of(plan: &Plan, scope: &Scope, outputs: &[NodeIx]) -> Json {
    let output = |at: &NodeIx| {
        let node = scope.get(*at)?;
        let completed = node.status == NodeStatus::Completed;
        completed.then(|| node.output.clone().unwrap_or_else(Json::null))
    };
    let value = match outputs {
        [] => None,
        [only] => output(only),
        several => {
            let field = |at: &NodeIx| Some((Arc::clone(&plan.node(*at).id), output(at)?));
            Json::object(several.iter().filter_map(field)).ok()
        }
    };
    value.unwrap_or_else(Json::null)
}
