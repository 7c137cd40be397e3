//! Resolves `needs` to edges, and checks each edge by itself: its source, its branch, its join.

use std::collections::{HashMap, HashSet};

use waypost_core::id::NodeIx;
use waypost_core::kind::Behaviour;
use waypost_core::limits::EDGES_MAX;
use waypost_core::plan::{Condition, Join, OnError};

use super::Graph;
use super::scopes::Scopes;
use crate::definition::{Need, ParsedDefinition, ParsedNode};
use crate::diagnostics::{Code, Faults, did_you_mean, listed, quoted};

/// The branch that needs no `onError` to be declared.
const ERROR_BRANCH: &str = "error";

pub(super) fn resolve(
    definition: &ParsedDefinition<'_>,
    scopes: &Scopes<'_>,
    faults: &mut Faults,
) -> Option<Graph> {
    let nodes = &definition.nodes;
    let edges: usize = nodes.iter().map(|node| node.needs.len()).sum();
    if edges > EDGES_MAX {
        let message = format!("there are {edges} edges, more than {EDGES_MAX}");
        faults.error(Code::TooLarge, &definition.scopes.first()?.nodes_span, message);
        return None;
    }
    let mut graph = Graph {
        conditions: Vec::with_capacity(nodes.len()),
        successors: vec![Vec::new(); nodes.len()],
        on_error: Vec::new(),
        incomplete: nodes.iter().map(|node| node.incomplete).collect(),
    };
    for (at, node) in nodes.iter().enumerate() {
        let conditions = conditions(at, node, scopes, &mut graph.incomplete[at], faults);
        for condition in &conditions {
            graph.successors[condition.source.at()].push(at);
        }
        check_join(node, conditions.len(), graph.incomplete[at], faults);
        graph.conditions.push(conditions);
    }
    let branches = Branches::of(nodes, &graph.conditions);
    branches.check(scopes, faults);
    graph.on_error = branches.on_error();
    Some(graph)
}

fn conditions(
    at: usize,
    node: &ParsedNode<'_>,
    scopes: &Scopes<'_>,
    incomplete: &mut bool,
    faults: &mut Faults,
) -> Vec<Condition> {
    let mut conditions: Vec<Condition> = Vec::new();
    let mut positions: HashMap<usize, usize> = HashMap::new();
    let mut seen: HashSet<(usize, Option<&str>)> = HashSet::new();
    for need in &node.needs {
        let Some(source) = scopes.sibling(at, &need.node) else {
            *incomplete = true;
            if let Some(fault) = scopes.need_across(at, &need.node, need.node_span.clone()) {
                faults.add(fault);
                continue;
            }
            let message = format!("there is no node {}", quoted(&need.node));
            let likely = faults.likely(&need.node, scopes.sibling_ids(at));
            faults.error(Code::UnknownNode, &need.node_span, message).suggest(likely);
            continue;
        };
        if source == at {
            let message = format!("{} needs itself", quoted(&node.id));
            faults.error(Code::SelfDependency, &need.node_span, message);
            continue;
        }
        if !seen.insert((source, need.branch.as_deref())) {
            let message = format!("the edge from {} is given twice", quoted(&need.node));
            faults.warning(Code::DuplicateNeed, &need.node_span, message);
            continue;
        }
        let position = *positions.entry(source).or_insert_with(|| {
            let source = NodeIx(u32::try_from(source).expect("fewer than 2^32 nodes"));
            conditions.push(Condition { source, unlabelled: false, branches: Vec::new() });
            conditions.len() - 1
        });
        let condition = &mut conditions[position];
        match &need.branch {
            Some(branch) => condition.branches.push(branch.as_str().into()),
            None => condition.unlabelled = true,
        }
    }
    conditions
}

fn check_join(node: &ParsedNode<'_>, sources: usize, incomplete: bool, faults: &mut Faults) {
    let Join::Count { count, .. } = node.join else { return };
    if incomplete || count as usize <= sources {
        return;
    }
    let have = match sources {
        0 => "needs no other node".to_owned(),
        1 => "needs only 1 node".to_owned(),
        _ => format!("needs only {sources} nodes"),
    };
    let message = format!("the join waits for {count}, but {} {have}", quoted(&node.id));
    faults.error(Code::JoinTooLarge, &node.join_span, message);
}

/// The branches that exist, and the edges that use them.
struct Branches<'d, 't> {
    nodes: &'d [ParsedNode<'t>],
    /// The branches that each node's behaviour can select; `None` if the behaviour is unknown.
    selectable: Vec<Option<HashSet<&'d str>>>,
    /// The branches of the edges that leave each node.
    asked: Vec<HashSet<&'d str>>,
}

impl<'d, 't> Branches<'d, 't> {
    fn of(nodes: &'d [ParsedNode<'t>], conditions: &'d [Vec<Condition>]) -> Self {
        let mut asked = vec![HashSet::new(); nodes.len()];
        for condition in conditions.iter().flatten() {
            asked[condition.source.at()].extend(condition.branches.iter().map(|b| &**b));
        }
        let selectable = nodes
            .iter()
            .map(|node| {
                let branches = node.behaviour.as_ref()?.branches();
                Some(branches.into_iter().flatten().collect())
            })
            .collect();
        Self { nodes, selectable, asked }
    }

    /// All edges, with the node that each leads to.
    fn needs(&self) -> impl Iterator<Item = (usize, &'d Need)> + use<'_, 'd, 't> {
        let nodes = self.nodes.iter().enumerate();
        nodes.flat_map(|(at, node)| node.needs.iter().map(move |need| (at, need)))
    }

    fn selects(&self, at: usize, branch: &str) -> bool {
        self.selectable[at].as_ref().is_some_and(|branches| branches.contains(branch))
    }

    /// What follows each node's failure: its own `onError`, or what an edge on `error` implies.
    fn on_error(&self) -> Vec<OnError> {
        let effective = |(at, node): (usize, &ParsedNode<'_>)| match &node.on_error {
            Some(on_error) => on_error.clone(),
            None if self.asked[at].contains(ERROR_BRANCH) && !self.selects(at, ERROR_BRANCH) => {
                OnError::Branch(ERROR_BRANCH.into())
            }
            None => OnError::Fail,
        };
        self.nodes.iter().enumerate().map(effective).collect()
    }

    fn check(&self, scopes: &Scopes<'_>, faults: &mut Faults) {
        for (at, need) in self.needs() {
            if let (Some(branch), Some(source)) = (&need.branch, scopes.sibling(at, &need.node)) {
                self.check_edge(need, branch, source, faults);
            }
        }
        self.warn_of_edges_never_taken(scopes, faults);
        for (at, node) in self.nodes.iter().enumerate() {
            let Some(OnError::Branch(branch)) = &node.on_error else { continue };
            if self.asked[at].contains(&**branch) {
                continue;
            }
            let message = format!(
                "a failure of {} goes to the branch {}, but no edge takes it",
                quoted(&node.id),
                quoted(branch)
            );
            let known = ["fail", "continue"].into_iter().chain(self.asked[at].iter().copied());
            let likely = faults.likely(branch, known);
            let fault = faults.warning(Code::UnusedErrorBranch, &node.on_error_span, message);
            fault.hint(match likely {
                Some(likely) => did_you_mean(likely),
                None => format!(
                    "write `needs: [{{ node: {}, branch: {branch} }}]` where it should go, or \
                     `onError: fail` or `continue`",
                    node.id
                ),
            });
        }
    }

    /// A `fail` node never completes: an edge without a branch is dead unless its failure is passed
    /// over.
    fn warn_of_edges_never_taken(&self, scopes: &Scopes<'_>, faults: &mut Faults) {
        for (at, need) in self.needs() {
            let source = scopes.sibling(at, &need.node).map(|source| &self.nodes[source]);
            let Some(source) = source.filter(|_| need.branch.is_none()) else { continue };
            let fails = matches!(source.behaviour, Some(Behaviour::Fail(_)));
            if !fails || source.on_error == Some(OnError::Continue) {
                continue;
            }
            let id = quoted(&source.id);
            let message = format!("this edge is never taken: {id} always fails");
            let hint = format!(
                "nothing follows a `fail` node, unless it has `onError: continue` or the edge is \
                 `{{ node: {}, branch: error }}`",
                source.id
            );
            faults.warning(Code::NeverTaken, &need.node_span, message).hint(hint);
        }
    }

    fn check_edge(&self, need: &Need, branch: &str, at: usize, faults: &mut Faults) {
        let source = &self.nodes[at];
        let Some(selectable) = &self.selectable[at] else { return };
        let own = match &source.on_error {
            Some(OnError::Branch(own)) => Some(&**own),
            None => Some(ERROR_BRANCH),
            Some(OnError::Fail | OnError::Continue) => None,
        };
        if selectable.contains(branch) || own == Some(branch) {
            return;
        }
        if let (ERROR_BRANCH, Some(OnError::Fail | OnError::Continue)) = (branch, &source.on_error)
        {
            let says = if source.on_error == Some(OnError::Fail) { "fail" } else { "continue" };
            let id = quoted(&source.id);
            let message = format!("{id} never takes the branch `error`: it has `onError: {says}`");
            let hint = format!("remove `onError: {says}` from {id}, or this edge");
            faults.error(Code::ErrorBranchConflict, &need.branch_span, message).hint(hint);
            return;
        }
        let kind = source.kind.map_or("node", |kind| kind.name);
        let message = format!("{} ({kind}) has no branch {}", quoted(&source.id), quoted(branch));
        let mut known: Vec<&str> = selectable.iter().copied().chain(own).collect();
        known.sort_unstable();
        let likely = faults.likely(branch, known.iter().copied());
        faults.error(Code::UnknownBranch, &need.branch_span, message).hint(match likely {
            Some(likely) => did_you_mean(likely),
            None if known.is_empty() => "leave `branch` out".to_owned(),
            None => format!("its branches are {}", listed(known, "and")),
        });
    }
}
