//! Relations from the edges of a scope alone: predecessors and successors.

use std::collections::BTreeSet;

use super::{Join, Need, Node};

/// For each node, all that it depends on.
pub fn ancestors(nodes: &[Node]) -> Vec<BTreeSet<usize>> {
    let mut ancestors: Vec<BTreeSet<usize>> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let sources = node.sources();
        let above = sources.iter().flat_map(|source| &ancestors[*source]).copied();
        let all = above.chain(sources.iter().copied()).collect();
        ancestors.push(all);
    }
    ancestors
}

/// For each node, those that have surely settled when its turn comes: of a join of all, every
/// source; of one that takes the first sources, only what all of them have in common.
pub fn settled_before(nodes: &[Node]) -> Vec<BTreeSet<usize>> {
    let mut settled: Vec<BTreeSet<usize>> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let mut each = node.sources().into_iter().map(|source| {
            let mut before = settled[source].clone();
            before.insert(source);
            before
        });
        let first = each.next().unwrap_or_default();
        let all = match node.join {
            Join::All => each.fold(first, |all, next| all.union(&next).copied().collect()),
            Join::Count { .. } => {
                each.fold(first, |all, next| all.intersection(&next).copied().collect())
            }
        };
        settled.push(all);
    }
    settled
}

/// The nodes that lead only to a join: each way on from them ends there.
pub fn leads_only_to(nodes: &[Node], join: usize) -> BTreeSet<usize> {
    let mut only = BTreeSet::new();
    for at in (0..join).rev() {
        let mut successors = successors(nodes, at).peekable();
        let leads = successors.peek().is_some()
            && successors.all(|next| next == join || only.contains(&next));
        if leads {
            only.insert(at);
        }
    }
    only
}

/// The nodes that need a node.
pub fn successors(nodes: &[Node], at: usize) -> impl Iterator<Item = usize> + '_ {
    let needs = move |node: &Node| node.needs.iter().any(|need| need.source == at);
    nodes.iter().enumerate().filter(move |(_, node)| needs(node)).map(|(next, _)| next)
}

/// Does an edge use a branch of a node?
pub(super) fn is_asked_for(nodes: &[Node], at: usize, branch: &str) -> bool {
    let asks = |need: &Need| need.source == at && need.branch.as_deref() == Some(branch);
    nodes.iter().flat_map(|node| &node.needs).any(asks)
}
