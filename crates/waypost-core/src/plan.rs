//! The plan: a definition compiled and validated, ready to be executed. Immutable.
//!
//! Nodes are addressed by position, edges are grouped into conditions (all edges from one source),
//! and everything that depends on the shape of the graph alone is worked out here, once.
//!
//! The nodes of the definition come first; the body of each container (`group`, `loop`, `map`)
//! follows as a run of positions of its own. Edges stay within a scope.

mod scopes;

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::breaker::BreakerSpec;
use crate::budget::{Budget, Meter};
use crate::expr::{Expression, Template};
use crate::failure::Failure;
use crate::id::{DefinitionHash, NodeIx};
use crate::json::Json;
use crate::kind::{Behaviour, Family};
use crate::retry::RetryPolicy;
use crate::time::Millis;
use crate::trigger::Trigger;

pub use scopes::PlanScope;
use scopes::scopes;

/// A compiled definition.
#[derive(Debug)]
pub struct Plan {
    pub workflow: Arc<str>,
    /// Identity of the definition it was compiled from.
    pub hash: DefinitionHash,
    /// The nodes, in the order of the definition; after them those of the bodies.
    pub nodes: Vec<PlanNode>,
    /// The definition itself, then the bodies.
    pub scopes: Vec<PlanScope>,
    /// The effect of an unhandled failure on the rest.
    pub failure_policy: FailurePolicy,
    /// How many executions may be under way at once.
    pub concurrency: Option<Concurrency>,
    /// How long an execution may take in all.
    pub timeout: Option<Millis>,
    /// JSON Schema of the input; checked where executions are started.
    pub input_schema: Option<Json>,
    /// May other executions start it?
    pub callable: bool,
    /// What each execution may spend.
    pub budget: Option<Budget>,
    /// What starts executions of it.
    pub triggers: Vec<Arc<Trigger>>,
    /// Is there a trigger node for starts by hand?
    has_manual: bool,
    requires: u16,
}

/// A limit on how many executions of a workflow may be under way at once.
#[derive(Debug)]
pub struct Concurrency {
    /// The key by which executions share permits; evaluated when an execution begins.
    pub key: Template,
    /// How many executions of one key may hold a slot; at least 1.
    pub limit: u32,
    pub policy: ConcurrencyPolicy,
}

/// What happens to an execution for which there is no permit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConcurrencyPolicy {
    /// It waits in the queue.
    #[default]
    Queue,
    /// It is not accepted.
    Reject,
    /// It waits in the queue, and the oldest of the key is cancelled.
    CancelOldest,
}

impl ConcurrencyPolicy {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Queue, Self::Reject, Self::CancelOldest];

    /// As definitions and events write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Reject => "reject",
            Self::CancelOldest => "cancel-oldest",
        }
    }

    /// The policy of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }
}

/// One node of a plan.
#[derive(Debug)]
pub struct PlanNode {
    /// Its id, which is unique among the nodes that see each other.
    pub id: Arc<str>,
    pub label: Option<Arc<str>>,
    /// The kind's name: `api-call`.
    pub kind: &'static str,
    pub family: Family,
    /// The long form's `registryId`, carried along.
    pub registry_id: Option<Arc<str>>,
    pub behaviour: Behaviour,
    /// Its conditions, one entry a source.
    pub needs: Vec<Condition>,
    pub join: Join,
    pub retry: Option<RetryPolicy>,
    /// How long one attempt may take.
    pub timeout: Option<Millis>,
    /// How long one attempt may give no sign of life.
    pub heartbeat: Option<Millis>,
    /// How long all attempts and the waits between them may take.
    pub deadline: Option<Millis>,
    /// The circuit breaker of its attempts.
    pub breaker: Option<Box<BreakerSpec>>,
    pub on_error: OnError,
    /// Does `on_error` handle mistakes of the definition, too?
    pub on_definition_errors: bool,
    pub delivery: Delivery,
    /// What its attempts use; absent for nodes that use no tokens.
    pub meter: Option<Meter>,
    /// Variables to set when it completes; expressions see its own result as `output`.
    pub variables: Vec<(Arc<str>, Template)>,
    /// Conditions that have this one as a source.
    pub successors: Vec<Outgoing>,
    /// Nodes that its expressions refer to: of its own scope, or of one that its scope is in.
    pub mentions: Vec<NodeIx>,
    /// For a join with `cancelRest`: the nodes that lead only here.
    pub only_here: Vec<NodeIx>,
    /// The place of its scope among the plan's.
    pub scope: usize,
    /// For a container: the place of its body among the plan's scopes.
    pub body: Option<usize>,
}

/// All edges from one source to one node: met when any of them is taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Condition {
    pub source: NodeIx,
    /// Is there an edge without a branch?
    pub unlabelled: bool,
    pub branches: Vec<Arc<str>>,
}

/// A condition, seen from its source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outgoing {
    /// The node that has the condition.
    pub node: NodeIx,
    /// Its place among that node's `needs`.
    pub condition: u32,
}

/// How a node's conditions combine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Join {
    All,
    /// The first `count` of them.
    Count {
        /// How many; `any` is 1.
        count: u32,
        /// Cancel what leads only here when it fires.
        cancel_rest: bool,
    },
}

/// What follows a node's failure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OnError {
    /// The execution ends.
    Fail,
    /// As if it had completed, with output `{failure}`.
    Continue,
    /// The edges of this branch are taken.
    Branch(Arc<str>),
}

/// The effect of an unhandled failure on the rest of the execution.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FailurePolicy {
    /// It ends at once.
    #[default]
    FailFast,
    /// Branches that do not depend on the failed node continue.
    Partial,
}

/// The meaning of an interrupted attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Delivery {
    /// Try again, under the same idempotency key.
    #[default]
    AtLeastOnce,
    /// Never start twice: an interrupted attempt fails with `outcome_unknown`.
    AtMostOnce,
}

/// The input of [`Plan::build`]; the fields mean what those of [`Plan`] do.
#[derive(Debug)]
pub struct PlanDraft {
    pub workflow: Arc<str>,
    pub hash: DefinitionHash,
    /// The nodes; `successors`, `mentions`, `only_here`, `scope` and `body` are filled in by `build`.
    pub nodes: Vec<PlanNode>,
    /// The containers with the positions of their bodies, which follow the definition's own nodes
    /// in this order. A container comes before the containers in its body.
    pub bodies: Vec<(NodeIx, Range<u32>)>,
    pub failure_policy: FailurePolicy,
    pub concurrency: Option<Concurrency>,
    pub timeout: Option<Millis>,
    pub input_schema: Option<Json>,
    pub callable: bool,
    pub budget: Option<Budget>,
    pub triggers: Vec<Trigger>,
}

/// Why a draft is not a plan. Validation finds these first, with positions; this is the last line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PlanFault {
    #[error("node id {0:?} is used twice")]
    DuplicateId(Arc<str>),
    /// A condition names a position beyond the last node.
    #[error("node {0:?} needs a node that does not exist")]
    Dangling(Arc<str>),
    #[error("the nodes form a cycle")]
    Cycle,
    /// The bodies do not divide the nodes into scopes, or an edge leads out of one.
    #[error("the bodies of the containers do not fit the nodes")]
    Bodies,
}

impl PlanNode {
    /// What follows the node's failure, given how it was recorded.
    pub fn error_handling(&self, failure: Option<&Failure>) -> &OnError {
        static FAIL: OnError = OnError::Fail;
        match failure {
            Some(failure) if failure.on_error_skipped => &FAIL,
            _ => &self.on_error,
        }
    }

    /// Visits its expressions.
    fn visit<'a>(&'a self, note: &mut dyn FnMut(&'a Expression)) {
        self.behaviour.visit(note);
        self.breaker.iter().for_each(|breaker| breaker.key.visit(note));
        self.variables.iter().for_each(|(_, template)| template.visit(note));
    }

    /// Does its `onError` pass this failure by?
    pub fn skips_on_error(&self, failure: &Failure) -> bool {
        let handled = self.on_error != OnError::Fail && !self.on_definition_errors;
        handled && failure.is_definition_error()
    }
}

impl Plan {
    /// Works out everything that follows from the shape of the graph. O(V+E).
    pub fn build(draft: PlanDraft) -> Result<Self, PlanFault> {
        let mut nodes = draft.nodes;
        let count = nodes.len();
        let mut successors = vec![Vec::new(); count];
        let mut open: Vec<usize> = nodes.iter().map(|node| node.needs.len()).collect();
        for (at, node) in nodes.iter().enumerate() {
            for (place, condition) in node.needs.iter().enumerate() {
                let outgoing = Outgoing { node: position(at), condition: position(place).0 };
                successors
                    .get_mut(condition.source.at())
                    .ok_or_else(|| PlanFault::Dangling(Arc::clone(&node.id)))?
                    .push(outgoing);
            }
        }
        let mut order: Vec<NodeIx> =
            (0..count).filter(|at| open.get(*at) == Some(&0)).map(position).collect();
        let mut next = 0;
        while let Some(node) = order.get(next).copied() {
            next += 1;
            for successor in successors.get(node.at()).into_iter().flatten() {
                if let Some(open) = open.get_mut(successor.node.at()) {
                    *open -= 1;
                    if *open == 0 {
                        order.push(successor.node);
                    }
                }
            }
        }
        if order.len() != count {
            return Err(PlanFault::Cycle);
        }
        for (node, successors) in nodes.iter_mut().zip(successors) {
            node.successors = successors;
        }
        let scopes = scopes(&mut nodes, &draft.bodies)?;
        let is_manual = |node: &PlanNode| node.behaviour == Behaviour::Trigger { manual: true };
        let has_manual = nodes.iter().any(|node| node.scope == 0 && is_manual(node));
        let mut plan = Self {
            workflow: draft.workflow,
            hash: draft.hash,
            nodes,
            scopes,
            failure_policy: draft.failure_policy,
            concurrency: draft.concurrency,
            timeout: draft.timeout,
            input_schema: draft.input_schema,
            callable: draft.callable,
            budget: draft.budget,
            triggers: draft.triggers.into_iter().map(Arc::new).collect(),
            has_manual,
            requires: 1,
        };
        plan.requires = plan.find_requires();
        plan.find_what_leads_only_to_joins(&order);
        plan.find_mentions();
        Ok(plan)
    }

    /// The node at a position.
    ///
    /// # Panics
    /// When the position is not of this plan: only the plan creates positions.
    pub fn node(&self, at: NodeIx) -> &PlanNode {
        self.nodes.get(at.at()).expect("node positions are made by the plan that is asked")
    }

    /// Positions of the definition's own nodes, in order.
    pub fn positions(&self) -> impl Iterator<Item = NodeIx> + use<> {
        self.root().positions()
    }

    fn all(&self) -> impl Iterator<Item = NodeIx> + use<> {
        (0..self.nodes.len()).map(position)
    }

    /// Does an expression of a node, or of the concurrency key, mention this top-level name?
    fn mentions(&self, name: &str) -> bool {
        let mut found = false;
        let mut note = |expression: &Expression| found |= expression.references().mentions(name);
        self.nodes.iter().for_each(|node| node.visit(&mut note));
        self.concurrency.iter().for_each(|concurrency| concurrency.key.visit(&mut note));
        found
    }

    fn find_mentions(&mut self) {
        for at in self.all() {
            let mut mentions = Vec::new();
            let node = self.node(at);
            node.visit(&mut |expression: &Expression| {
                let ids = expression.references().nodes.iter();
                mentions.extend(ids.filter_map(|found| self.find_from(node.scope, &found.id)));
            });
            mentions.sort_unstable();
            mentions.dedup();
            if let Some(node) = self.nodes.get_mut(at.at()) {
                node.mentions = mentions;
            }
        }
    }

    /// For each join with `cancelRest`: a node leads only there if each of its successors is the
    /// join or leads only there. One walk against the topological order per such join.
    fn find_what_leads_only_to_joins(&mut self, order: &[NodeIx]) {
        let joins: Vec<NodeIx> = self
            .all()
            .filter(|at| matches!(self.node(*at).join, Join::Count { cancel_rest: true, .. }))
            .collect();
        for join in joins {
            let mut leads = vec![false; self.nodes.len()];
            for at in order.iter().rev() {
                let successors = &self.node(*at).successors;
                let only = !successors.is_empty()
                    && successors
                        .iter()
                        .all(|next| next.node == join || leads.get(next.node.at()) == Some(&true));
                if let Some(leads) = leads.get_mut(at.at()) {
                    *leads = only && *at != join;
                }
            }
            let only_here = self.all().filter(|at| leads.get(at.at()) == Some(&true)).collect();
            if let Some(node) = self.nodes.get_mut(join.at()) {
                node.only_here = only_here;
            }
        }
    }
}

fn position(at: usize) -> NodeIx {
    NodeIx(u32::try_from(at).expect("a definition has fewer than 2^32 nodes"))
}

fn id_at(nodes: &[PlanNode], at: NodeIx) -> &str {
    nodes.get(at.at()).map_or("", |node| &node.id)
}
