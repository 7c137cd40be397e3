//! Scopes: the nodes of the definition, and those of each body that is open.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{NodeState, State, Variables};
use crate::event::CancelReason;
use crate::failure::Failure;
use crate::id::NodeIx;
use crate::path::{At, ScopeNo, segments};
use crate::plan::{Plan, PlanScope};
use crate::status::NodeStatus;
use crate::time::Timestamp;

/// Nodes that see each other.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Scope {
    /// The container that opened it; absent for the definition's own nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<At>,
    /// Which iteration of the container it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u64>,
    /// The attempt of the container that opened it.
    pub attempt: u32,
    /// A node of it failed, and nothing handles that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// Why it ends as failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Box<Failure>>,
    /// It ends as failed: nothing more begins in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ending: bool,
    /// Until when its cancelled attempts are awaited then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace: Option<Timestamp>,
    /// The path of its nodes up to their ids; empty for the definition's own nodes.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub prefix: Arc<str>,
    /// The position of its first node in the plan.
    pub first: u32,
    /// Its nodes, by position.
    pub nodes: Vec<NodeState>,
    /// How many of them are not settled.
    pub unsettled: u32,
    /// Nodes that failed with nothing to handle it, in order.
    pub unhandled: Vec<NodeIx>,
    /// The variables that its nodes see; absent where they are those of the scope around it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variables: Option<Variables>,
}

impl Scope {
    pub(crate) fn new(plan: &Plan, scope: &PlanScope) -> Self {
        let nodes = scope.positions().map(|at| NodeState::pending(plan.node(at).needs.len()));
        let nodes: Vec<NodeState> = nodes.collect();
        Self {
            container: None,
            index: None,
            attempt: 0,
            failed: false,
            failure: None,
            ending: false,
            grace: None,
            prefix: "".into(),
            first: scope.nodes.start,
            unsettled: u32::try_from(nodes.len()).unwrap_or(u32::MAX),
            nodes,
            unhandled: Vec::new(),
            variables: None,
        }
    }

    /// The place of a position among its nodes.
    fn place(&self, node: NodeIx) -> usize {
        // A position before the first one wraps, and is none of its nodes either.
        node.0.wrapping_sub(self.first) as usize
    }

    pub(crate) fn get(&self, node: NodeIx) -> Option<&NodeState> {
        self.nodes.get(self.place(node))
    }

    fn get_mut(&mut self, node: NodeIx) -> Option<&mut NodeState> {
        let place = self.place(node);
        self.nodes.get_mut(place)
    }

    /// Settles the nodes that had no attempt.
    pub(crate) fn cancel_pending(&mut self, seq: u64, at: Timestamp, reason: CancelReason) {
        let pending = self.nodes.iter_mut().filter(|node| node.status == NodeStatus::Pending);
        for node in pending {
            node.status = NodeStatus::Cancelled;
            node.settled_seq = seq;
            node.settled_at = Some(at);
            node.cancelled = Some(reason);
            self.unsettled -= 1;
        }
    }

    /// Its nodes with their positions.
    pub fn iter(&self) -> impl Iterator<Item = (NodeIx, &NodeState)> {
        (self.first..).map(NodeIx).zip(&self.nodes)
    }
}

impl State {
    /// A scope that is open.
    pub fn scope(&self, scope: ScopeNo) -> Option<&Scope> {
        if scope == ScopeNo::ROOT { Some(&self.root) } else { self.inner.get(&scope) }
    }

    pub(crate) fn scope_mut(&mut self, scope: ScopeNo) -> Option<&mut Scope> {
        if scope == ScopeNo::ROOT { Some(&mut self.root) } else { self.inner.get_mut(&scope) }
    }

    pub(crate) fn scopes_mut(&mut self) -> impl Iterator<Item = &mut Scope> {
        std::iter::once(&mut self.root).chain(self.inner.values_mut())
    }

    /// The scopes that are open, the definition's own first.
    pub fn scopes(&self) -> impl Iterator<Item = (ScopeNo, &Scope)> {
        let inner = self.inner.iter().map(|(number, scope)| (*number, scope));
        std::iter::once((ScopeNo::ROOT, &self.root)).chain(inner)
    }

    /// The nodes of all scopes that are open.
    pub fn nodes(&self) -> impl Iterator<Item = (At, &NodeState)> {
        self.scopes().flat_map(|(number, scope)| {
            scope.iter().map(move |(node, state)| (At { scope: number, node }, state))
        })
    }

    /// Where the nodes of all open scopes are. For steps that change the state on the way.
    pub(crate) fn positions(&self) -> Vec<At> {
        self.nodes().map(|(at, _)| at).collect()
    }

    /// A node's state, if its scope is open.
    pub fn get(&self, at: impl Into<At>) -> Option<&NodeState> {
        let at = at.into();
        self.scope(at.scope).and_then(|scope| scope.get(at.node))
    }

    /// A node's state.
    ///
    /// # Panics
    /// When there is no such node in an open scope.
    pub fn node(&self, at: impl Into<At>) -> &NodeState {
        self.get(at).expect("the state has one entry per node of an open scope")
    }

    pub(crate) fn node_mut(&mut self, at: At) -> &mut NodeState {
        let node = self.scope_mut(at.scope).and_then(|scope| scope.get_mut(at.node));
        node.expect("the state has one entry per node of an open scope")
    }

    /// The node of this path, if its scope is open.
    pub fn find(&self, plan: &Plan, path: &str) -> Option<At> {
        let mut steps = segments(path).peekable();
        let (mut number, mut scope) = (ScopeNo::ROOT, plan.root());
        while let Some(step) = steps.next() {
            let at = At { scope: number, node: plan.find_in(scope, step.id)? };
            if steps.peek().is_none() {
                return step.index.is_none().then_some(at);
            }
            number = self.get(at)?.body.as_ref()?.scope(step.index)?;
            scope = plan.body(at.node)?;
        }
        None
    }

    /// The path of a node.
    pub fn path(&self, plan: &Plan, at: impl Into<At>) -> Arc<str> {
        let at = at.into();
        let id = &plan.node(at.node).id;
        match self.scope(at.scope) {
            Some(scope) if !scope.prefix.is_empty() => format!("{}{id}", scope.prefix).into(),
            _ => Arc::clone(id),
        }
    }

    /// Where a node is that the expressions of a scope can see: in that scope, or in one around it.
    pub(crate) fn visible(&self, mut from: ScopeNo, node: NodeIx) -> Option<At> {
        loop {
            let scope = self.scope(from)?;
            if scope.get(node).is_some() {
                return Some(At { scope: from, node });
            }
            from = scope.container?.scope;
        }
    }

    /// The variables that the nodes of a scope see.
    pub fn variables(&self, mut from: ScopeNo) -> &Variables {
        loop {
            let scope = self.scope(from).unwrap_or(&self.root);
            match (&scope.variables, scope.container) {
                (Some(variables), _) => return variables,
                (None, Some(container)) => from = container.scope,
                (None, None) => unreachable!("the definition's own nodes have variables"),
            }
        }
    }

    pub(crate) fn variables_mut(&mut self, mut from: ScopeNo) -> &mut Variables {
        while let Some(scope) = self.scope(from)
            && scope.variables.is_none()
            && let Some(container) = scope.container
        {
            from = container.scope;
        }
        let scope = self.scope_mut(from).expect("the scopes around an open scope are open");
        scope.variables.get_or_insert_default()
    }
}
