//! The shape of the graph: no cycles, a beginning, an end, and a way to every node.

use std::collections::VecDeque;

use super::Graph;
use crate::definition::ParsedDefinition;
use crate::diagnostics::{Code, Faults, quoted};

/// Nodes of a cycle that a message names.
const NAMED_MAX: usize = 12;

/// An order in which every node comes after its sources, edges inside of cycles left out.
#[derive(Debug)]
pub(super) struct TopologicalOrder {
    pub(super) nodes: Vec<usize>,
    /// The cycle that each node is part of, or a number of its own.
    pub(super) component: Vec<usize>,
}

impl TopologicalOrder {
    /// Are these two nodes part of one cycle?
    pub(super) fn in_one_cycle(&self, a: usize, b: usize) -> bool {
        a != b && self.component[a] == self.component[b]
    }
}

pub(super) fn check(
    definition: &ParsedDefinition<'_>,
    graph: &Graph,
    faults: &mut Faults,
) -> TopologicalOrder {
    let count = graph.successors.len();
    let component = components(&graph.successors);
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (node, component) in component.iter().enumerate() {
        members[*component].push(node);
    }
    let cyclic: Vec<&Vec<usize>> = members.iter().filter(|members| members.len() > 1).collect();
    for members in &cyclic {
        report_cycle(members, definition, graph, &component, faults);
    }
    if !cyclic.is_empty() {
        check_ends(definition, graph, &component, &members, faults);
    }
    TopologicalOrder { nodes: sorted(graph, &component), component }
}

/// An entry, an exit, a way to every node: without cycles all three are there by themselves.
fn check_ends(
    definition: &ParsedDefinition<'_>,
    graph: &Graph,
    component: &[usize],
    members: &[Vec<usize>],
    faults: &mut Faults,
) {
    let entries: Vec<usize> =
        (0..graph.conditions.len()).filter(|at| graph.conditions[*at].is_empty()).collect();
    for scope in definition.scopes.iter().filter(|scope| !scope.nodes.is_empty()) {
        if scope.nodes.clone().all(|at| !graph.conditions[at].is_empty()) {
            let message = "every node needs another one: nothing can start";
            let hint = "take `needs` out of the first node";
            faults.error(Code::NoEntry, &scope.nodes_span, message).hint(hint);
        }
        if scope.nodes.clone().all(|at| !graph.successors[at].is_empty()) {
            let message = "every node is needed by another one: nothing can end";
            faults.error(Code::NoExit, &scope.nodes_span, message);
        }
    }
    let mut reached = vec![false; graph.conditions.len()];
    let mut queue: VecDeque<usize> = entries.into();
    while let Some(node) = queue.pop_front() {
        if !std::mem::replace(&mut reached[node], true) {
            queue.extend(graph.successors[node].iter().filter(|next| !reached[**next]));
        }
    }
    for (at, node) in definition.nodes.iter().enumerate() {
        if !reached[at] && members[component[at]].len() == 1 {
            let message = format!("no path leads to {}", quoted(&node.id));
            let hint = "every path to it passes through a cycle";
            faults.error(Code::Unreachable, &node.id_span, message).hint(hint);
        }
    }
}

/// Names the shortest cycle through the first of these nodes, at the edge that closes it.
fn report_cycle(
    members: &[usize],
    definition: &ParsedDefinition<'_>,
    graph: &Graph,
    component: &[usize],
    faults: &mut Faults,
) {
    let start = members[0];
    let mut came_from = std::collections::HashMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(node) = queue.pop_front() {
        let inside = graph.successors[node].iter().filter(|n| component[**n] == component[start]);
        for next in inside {
            came_from.entry(*next).or_insert_with(|| {
                queue.push_back(*next);
                node
            });
        }
        if came_from.contains_key(&start) {
            break;
        }
    }
    let mut cycle = vec![start];
    let mut here = start;
    while let Some(before) = came_from.get(&here).copied() {
        cycle.push(before);
        here = before;
        if here == start {
            break;
        }
    }
    cycle.reverse();
    let id = |at: usize| definition.nodes[at].id.as_str();
    let mut names: Vec<&str> = cycle.iter().map(|at| id(*at)).collect();
    if names.len() > NAMED_MAX + 1 {
        names.splice(NAMED_MAX / 2..names.len() - NAMED_MAX / 2, ["…"]);
    }
    let last = cycle[cycle.len() - 2];
    let node = &definition.nodes[start];
    let span = node.need_span(id(last));
    let message = format!("the nodes wait for each other: {}", names.join(" → "));
    faults.error(Code::Cycle, span, message).hint("take one of these edges out of `needs`");
}

/// Every node after its sources; edges inside of a cycle do not count.
fn sorted(graph: &Graph, component: &[usize]) -> Vec<usize> {
    let crossing = |a: usize, b: usize| component[a] != component[b];
    let mut open: Vec<usize> = graph
        .conditions
        .iter()
        .enumerate()
        .map(|(at, all)| all.iter().filter(|c| crossing(c.source.at(), at)).count())
        .collect();
    let mut order: Vec<usize> = (0..open.len()).filter(|at| open[*at] == 0).collect();
    let mut next = 0;
    while let Some(node) = order.get(next).copied() {
        next += 1;
        for successor in graph.successors[node].iter().filter(|s| crossing(node, **s)) {
            open[*successor] -= 1;
            if open[*successor] == 0 {
                order.push(*successor);
            }
        }
    }
    order
}

/// The strongly connected component of each node: Tarjan's algorithm with a stack of its own.
fn components(successors: &[Vec<usize>]) -> Vec<usize> {
    const UNSEEN: usize = usize::MAX;
    let count = successors.len();
    let mut number = vec![UNSEEN; count];
    let mut low = vec![0; count];
    let mut component = vec![UNSEEN; count];
    let (mut numbers, mut components) = (0, 0);
    let mut path: Vec<usize> = Vec::new();
    let mut calls: Vec<(usize, usize)> = Vec::new();
    for root in 0..count {
        if number[root] != UNSEEN {
            continue;
        }
        calls.push((root, 0));
        while let Some((node, edge)) = calls.last_mut() {
            let node = *node;
            if *edge == 0 {
                number[node] = numbers;
                low[node] = numbers;
                numbers += 1;
                path.push(node);
            }
            if let Some(next) = successors[node].get(*edge).copied() {
                *edge += 1;
                if number[next] == UNSEEN {
                    calls.push((next, 0));
                } else if component[next] == UNSEEN {
                    low[node] = low[node].min(number[next]);
                }
                continue;
            }
            calls.pop();
            if let Some((parent, _)) = calls.last() {
                low[*parent] = low[*parent].min(low[node]);
            }
            if low[node] == number[node] {
                while let Some(member) = path.pop() {
                    component[member] = components;
                    if member == node {
                        break;
                    }
                }
                components += 1;
            }
        }
    }
    component
}
