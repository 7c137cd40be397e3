//! Which steps can be reached, and which can reach each other. Iterative: a machine may have as many
//! steps as a file has room for.

use std::collections::HashMap;

use super::{Goal, MachineStep};

/// Steps that can all reach each other, or a single one.
#[derive(Debug)]
pub(super) struct Component {
    pub(super) steps: Vec<usize>,
    pub(super) is_cycle: bool,
}

/// The steps that can be reached from this one, sorted.
pub(super) fn reachable(steps: &[MachineStep], start: usize) -> Vec<usize> {
    let mut found = vec![false; steps.len()];
    let mut open = vec![start];
    while let Some(at) = open.pop() {
        let Some(seen @ false) = found.get_mut(at) else { continue };
        *seen = true;
        open.extend(steps[at].outs.iter().filter_map(|out| step_of(out.to)));
    }
    (0..steps.len()).filter(|at| found[*at]).collect()
}

fn step_of(goal: Goal) -> Option<usize> {
    match goal {
        Goal::Step(to) => Some(to),
        Goal::End => None,
    }
}

/// The components of some steps, each before those that it leads to. Transitions to `head` do not count.
/// Tarjan's algorithm, with its own stack.
pub(super) fn strongly_connected(
    steps: &[MachineStep],
    within: &[usize],
    head: Option<usize>,
) -> Vec<Component> {
    let number: HashMap<usize, usize> =
        within.iter().enumerate().map(|(number, at)| (*at, number)).collect();
    let follows: Vec<Vec<usize>> = within
        .iter()
        .map(|at| {
            let goals = steps[*at].outs.iter().filter_map(|out| step_of(out.to));
            goals.filter(|to| Some(*to) != head).filter_map(|to| number.get(&to).copied()).collect()
        })
        .collect();
    let mut search = Search {
        follows: &follows,
        index: vec![None; within.len()],
        low: vec![0; within.len()],
        on_stack: vec![false; within.len()],
        stack: Vec::new(),
        next: 0,
        found: Vec::new(),
    };
    for root in 0..within.len() {
        search.visit(root);
    }
    let mut found = search.found;
    // Found from the last one to the first.
    found.reverse();
    found
        .into_iter()
        .map(|component| {
            let is_cycle = component.len() > 1 || follows[component[0]].contains(&component[0]);
            let mut steps: Vec<usize> = component.iter().map(|number| within[*number]).collect();
            steps.sort_unstable();
            Component { steps, is_cycle }
        })
        .collect()
}

struct Search<'f> {
    follows: &'f [Vec<usize>],
    index: Vec<Option<usize>>,
    low: Vec<usize>,
    on_stack: Vec<bool>,
    stack: Vec<usize>,
    next: usize,
    found: Vec<Vec<usize>>,
}

impl Search<'_> {
    fn visit(&mut self, root: usize) {
        if self.index[root].is_some() {
            return;
        }
        let mut open = vec![(root, 0)];
        self.enter(root);
        while let Some((at, edge)) = open.pop() {
            let Some(to) = self.follows[at].get(edge).copied() else {
                self.leave(at);
                if let Some((parent, _)) = open.last() {
                    self.low[*parent] = self.low[*parent].min(self.low[at]);
                }
                continue;
            };
            open.push((at, edge + 1));
            match self.index[to] {
                None => {
                    self.enter(to);
                    open.push((to, 0));
                }
                Some(index) if self.on_stack[to] => self.low[at] = self.low[at].min(index),
                Some(_) => {}
            }
        }
    }

    fn enter(&mut self, at: usize) {
        self.index[at] = Some(self.next);
        self.low[at] = self.next;
        self.next += 1;
        self.stack.push(at);
        self.on_stack[at] = true;
    }

    /// All steps above the first one of a component on the stack belong to it.
    fn leave(&mut self, at: usize) {
        if Some(self.low[at]) != self.index[at] {
            return;
        }
        let mut component = Vec::new();
        while let Some(last) = self.stack.pop() {
            self.on_stack[last] = false;
            component.push(last);
            if last == at {
                break;
            }
        }
        self.found.push(component);
    }
}
