//! Which nodes come before a node, and which of them may have been skipped when its turn comes.
//!
//! A *fact* is something that must be so for a node to run: "`adult` selected `true`", or, for a
//! join whose sources have nothing in common, "this join ran". The *guard* of a node is the set of
//! facts that it runs under, and it is exact: when they all hold, the node runs (failures aside).
//! Guards grow along edges and shrink where branches merge:
//!
//! ```text
//!            ┌─ true ──▶ a   {adult: true}  ─┐
//!   adult ───┤                               ├──▶ merge  {}    a and b may be skipped, adult not
//!            └─ false ─▶ b   {adult: false} ─┘
//! ```

use std::collections::{HashMap, HashSet};

use waypost_core::kind::Behaviour;
use waypost_core::plan::{Condition, Join, OnError};

use super::Graph;
use super::bits::{self, Bits};
use super::shape::TopologicalOrder;
use crate::definition::ParsedDefinition;
use crate::diagnostics::{Code, Faults, quoted};

/// Facts that are tracked. A definition with more branches than this gets no warnings about them:
/// a bit per node and fact would no longer be cheap.
const FACTS_MAX: usize = 4_096;

/// What follows from the graph's paths.
pub(super) struct Paths<'d> {
    graph: &'d Graph,
    order: &'d TopologicalOrder,
    facts: Facts<'d>,
    /// Per node: the facts it runs under.
    guards: Bits,
    /// Per node: its ancestors, and those of them that have surely run. Computed only if needed.
    ancestors: Option<Bits>,
    sure: Option<Bits>,
    /// Nodes with something missing upstream.
    incomplete: Vec<bool>,
    /// The trigger nodes of a definition that has several: not all of them run.
    entries: HashSet<usize>,
}

/// Which outcomes of its source a condition accepts.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Accepts<'d> {
    /// Every outcome but a failure.
    Success,
    /// These branches, sorted.
    Branches(Vec<&'d str>),
}

/// The facts of a definition, numbered.
struct Facts<'d> {
    /// The source and what of it is accepted; `None` for "this join ran".
    known: Vec<Option<(usize, Accepts<'d>)>>,
    numbers: HashMap<(usize, Accepts<'d>), usize>,
    /// Per node: the facts about it.
    about: Vec<Vec<usize>>,
    /// Per node and condition: the fact that it requires, if any.
    of_condition: Vec<Vec<Option<usize>>>,
    /// Per node: the branches that it can select when it completes. Without branches that is one
    /// nameless entry.
    selectable: Vec<Vec<&'d str>>,
    /// Per node: the branch that only its failures take.
    failure: Vec<Option<&'d str>>,
}

impl<'d> Paths<'d> {
    pub(super) fn find(
        definition: &'d ParsedDefinition<'_>,
        graph: &'d Graph,
        order: &'d TopologicalOrder,
    ) -> Self {
        let count = definition.nodes.len();
        let facts = Facts::of(definition, graph);
        let tracked = if facts.known.len() > FACTS_MAX {
            0
        } else {
            FACTS_MAX.min(facts.known.len() + count)
        };
        let wants_ancestors = definition.nodes.iter().any(|node| {
            !node.variables.is_empty()
                || node.expressions.iter().any(|e| !e.references.nodes.is_empty())
        });
        let matrix = || wants_ancestors.then(|| Bits::new(count, count));
        let mut paths = Self {
            graph,
            order,
            facts,
            guards: Bits::new(count, tracked),
            ancestors: matrix(),
            sure: matrix(),
            incomplete: graph.incomplete.clone(),
            entries: definition.entries(),
        };
        for node in &order.nodes {
            paths.visit(*node, definition.nodes[*node].join, tracked);
        }
        paths
    }

    /// Is the node upstream of the other? Nodes of one cycle count as upstream of each other.
    pub(super) fn is_upstream(&self, node: usize, of: usize) -> bool {
        self.ancestors.as_ref().is_some_and(|ancestors| ancestors.get(of, node))
            || self.order.in_one_cycle(node, of)
    }

    /// Has the node surely run when the turn of the other comes? Only for upstream nodes.
    pub(super) fn has_surely_run(&self, node: usize, before: usize) -> bool {
        self.facts.are_too_many()
            || self.sure.as_ref().is_some_and(|sure| sure.get(before, node))
            || self.order.in_one_cycle(node, before)
    }

    /// Is something missing upstream, so that nothing can be concluded?
    pub(super) fn is_incomplete(&self, node: usize) -> bool {
        self.incomplete[node]
    }

    /// Do the two nodes run under facts that cannot both hold?
    pub(super) fn exclude_each_other(&self, a: usize, b: usize) -> bool {
        bits::ones(self.guards.row(a)).any(|fact| {
            bits::ones(self.guards.row(b)).any(|other| self.facts.exclude_each_other(fact, other))
        })
    }

    /// Does the node run under a fact that cannot hold together with this one?
    fn contradicts(&self, fact: usize, node: usize) -> bool {
        self.facts.rivals(fact).iter().any(|rival| {
            self.guards.get(node, *rival) && self.facts.exclude_each_other(fact, *rival)
        })
    }

    /// A join of all with an edge straight from one branch and a path from another branch of one
    /// node: the straight edge is dead exactly when the other path was taken.
    pub(super) fn warn_about_mixed_merges(
        &self,
        definition: &ParsedDefinition<'_>,
        faults: &mut Faults,
    ) {
        for (at, node) in definition.nodes.iter().enumerate() {
            if node.join != Join::All || self.facts.are_too_many() {
                continue;
            }
            let conditions = &self.graph.conditions[at];
            for (straight, fact) in conditions.iter().zip(&self.facts.of_condition[at]) {
                let Some(fact) = fact else { continue };
                let other = conditions.iter().find(|other| {
                    other.source != straight.source && self.contradicts(*fact, other.source.at())
                });
                let Some(other) = other else { continue };
                let id =
                    |condition: &Condition| quoted(&definition.nodes[condition.source.at()].id);
                let message = format!(
                    "{} is skipped when {} runs: its edge from {} belongs to another branch",
                    quoted(&node.id),
                    id(other),
                    id(straight)
                );
                let source = &definition.nodes[straight.source.at()].id;
                let span = node.need_span(source);
                let hint = "write `join: any` to run whichever branch was taken";
                faults.warning(Code::MixedMerge, span, message).hint(hint);
                break;
            }
        }
    }

    /// Works out one node from its sources, which have been visited.
    fn visit(&mut self, node: usize, join: Join, tracked: usize) {
        let graph = self.graph;
        let conditions: Vec<(usize, Option<usize>)> = graph.conditions[node]
            .iter()
            .map(|condition| condition.source.at())
            .zip(self.facts.of_condition[node].iter().copied())
            .filter(|(source, _)| !self.order.in_one_cycle(*source, node))
            .collect();
        if conditions.is_empty() && self.entries.contains(&node) {
            self.may_not_begin(node, tracked);
        }
        self.incomplete[node] |= conditions.iter().any(|(source, _)| self.incomplete[*source]);
        let certain = self.visit_guard(node, join, &conditions, tracked);
        self.visit_ancestors(node, &conditions, &certain);
    }

    /// A node at which an execution may begin, or not: a fact of its own, as that a join ran.
    fn may_not_begin(&mut self, node: usize, tracked: usize) {
        let began = self.facts.known.len();
        self.facts.known.push(None);
        if began < tracked {
            let mut guard = self.guards.row(node).to_vec();
            bits::insert(&mut guard, began);
            self.guards.set_row(node, &guard);
        }
    }

    /// Sets the guard of a node and returns which of its sources have surely run before it.
    fn visit_guard(
        &mut self,
        node: usize,
        join: Join,
        conditions: &[(usize, Option<usize>)],
        tracked: usize,
    ) -> Vec<bool> {
        if conditions.is_empty() || tracked == 0 {
            return vec![false; conditions.len()];
        }
        let rows: Vec<Vec<u64>> = conditions
            .iter()
            .map(|(source, fact)| {
                let mut row = self.guards.row(*source).to_vec();
                fact.iter().for_each(|fact| bits::insert(&mut row, *fact));
                row
            })
            .collect();
        let mut common = rows[0].clone();
        rows.iter().for_each(|row| bits::intersect(&mut common, row));
        let needed = match join {
            Join::All => None,
            Join::Count { count, .. } => Some(count as usize),
        };
        let takes_all = needed == Some(rows.len()) || rows.len() == 1;
        let certain: Vec<bool> = conditions
            .iter()
            .map(|(source, _)| {
                takes_all || needed.is_none() && bits::is_subset(self.guards.row(*source), &common)
            })
            .collect();
        let mut guard = common.clone();
        for (row, _) in rows.iter().zip(&certain).filter(|(_, certain)| **certain) {
            bits::unite(&mut guard, row);
        }
        let exact = takes_all
            || match needed {
                // One source runs for certain, and no other has an edge that can be dead.
                None => {
                    let others_alive = conditions
                        .iter()
                        .zip(&certain)
                        .all(|((_, fact), certain)| *certain || fact.is_none());
                    others_alive && (certain.contains(&true) || self.facts.exhaust(&rows, &common))
                }
                Some(needed) => {
                    let always = rows.iter().filter(|row| bits::is_subset(row, &common)).count();
                    always >= needed || (needed == 1 && self.facts.exhaust(&rows, &common))
                }
            };
        if !exact {
            let ran = self.facts.known.len();
            self.facts.known.push(None);
            if ran < tracked {
                bits::insert(&mut guard, ran);
            }
        }
        self.guards.set_row(node, &guard);
        certain
    }

    fn visit_ancestors(
        &mut self,
        node: usize,
        conditions: &[(usize, Option<usize>)],
        certain: &[bool],
    ) {
        let (Some(ancestors), Some(sure)) = (&mut self.ancestors, &mut self.sure) else { return };
        let mut before = ancestors.blank();
        let mut always = sure.blank();
        let mut in_every_way: Option<Vec<u64>> = None;
        for ((source, _), certain) in conditions.iter().zip(certain) {
            bits::unite(&mut before, ancestors.row(*source));
            bits::insert(&mut before, *source);
            let mut this_way = sure.row(*source).to_vec();
            bits::insert(&mut this_way, *source);
            if *certain {
                bits::unite(&mut always, &this_way);
            }
            match &mut in_every_way {
                Some(every) => bits::intersect(every, &this_way),
                None => in_every_way = Some(this_way),
            }
        }
        bits::unite(&mut always, &in_every_way.unwrap_or_default());
        ancestors.set_row(node, &before);
        sure.set_row(node, &always);
    }
}

impl<'d> Facts<'d> {
    fn of(definition: &'d ParsedDefinition<'_>, graph: &'d Graph) -> Self {
        let count = definition.nodes.len();
        let mut facts = Self {
            known: Vec::new(),
            numbers: HashMap::new(),
            about: vec![Vec::new(); count],
            of_condition: Vec::with_capacity(count),
            selectable: Vec::with_capacity(count),
            failure: Vec::with_capacity(count),
        };
        for (node, on_error) in definition.nodes.iter().zip(&graph.on_error) {
            let branches = node.behaviour.as_ref().and_then(Behaviour::branches);
            let branches = branches.unwrap_or_else(|| vec![""]);
            facts.failure.push(match on_error {
                OnError::Branch(branch) if !branches.contains(&&**branch) => Some(branch),
                _ => None,
            });
            facts.selectable.push(branches);
        }
        for conditions in &graph.conditions {
            let asked = conditions.iter().map(|condition| facts.number(condition)).collect();
            facts.of_condition.push(asked);
        }
        facts
    }

    /// The number of the fact that a condition requires; `None` if every outcome will do.
    fn number(&mut self, condition: &'d Condition) -> Option<usize> {
        let source = condition.source.at();
        let accepts = self.accepts(condition)?;
        let next = self.known.len();
        let number = *self.numbers.entry((source, accepts.clone())).or_insert(next);
        if number == next {
            self.known.push(Some((source, accepts)));
            self.about[source].push(number);
        }
        Some(number)
    }

    fn accepts(&self, condition: &'d Condition) -> Option<Accepts<'d>> {
        let source = condition.source.at();
        let mut branches: Vec<&str> = condition.branches.iter().map(|branch| &**branch).collect();
        branches.sort_unstable();
        let has = |branch: &&str| branches.binary_search(branch).is_ok();
        let failures_too = self.failure[source].as_ref().is_none_or(has);
        if condition.unlabelled {
            return (!failures_too).then_some(Accepts::Success);
        }
        let all = failures_too && self.selectable[source].iter().all(has);
        (!all).then_some(Accepts::Branches(branches))
    }

    fn are_too_many(&self) -> bool {
        self.known.len() > FACTS_MAX
    }

    /// The facts about its node.
    fn rivals(&self, fact: usize) -> &[usize] {
        match self.known.get(fact) {
            Some(Some((source, _))) => &self.about[*source],
            _ => &[],
        }
    }

    /// Can the two facts never hold together?
    fn exclude_each_other(&self, a: usize, b: usize) -> bool {
        let (Some(Some((source, first))), Some(Some((other, second)))) =
            (self.known.get(a), self.known.get(b))
        else {
            return false;
        };
        source == other
            && match (first, second) {
                (Accepts::Branches(a), Accepts::Branches(b)) => {
                    a.iter().all(|branch| b.binary_search(branch).is_err())
                }
                (Accepts::Success, Accepts::Branches(branches))
                | (Accepts::Branches(branches), Accepts::Success) => {
                    branches.iter().all(|branch| self.failure[*source] == Some(branch))
                }
                (Accepts::Success, Accepts::Success) => false,
            }
    }

    /// Do the rows differ in one fact each, all about one node, that together cover all it can do?
    fn exhaust(&self, rows: &[Vec<u64>], common: &[u64]) -> bool {
        let mut about = None;
        let mut covered: HashSet<&str> = HashSet::new();
        for row in rows {
            let own: Vec<u64> = row.iter().zip(common).map(|(row, common)| row & !common).collect();
            let mut own = bits::ones(&own);
            let (Some(fact), None) = (own.next(), own.next()) else { return false };
            let Some(Some((source, accepts))) = self.known.get(fact) else { return false };
            if *about.get_or_insert(*source) != *source {
                return false;
            }
            match accepts {
                Accepts::Branches(branches) => covered.extend(branches),
                Accepts::Success => covered.extend(&self.selectable[*source]),
            }
        }
        about.is_some_and(|source| {
            let mut outcomes = self.selectable[source].iter().chain(&self.failure[source]);
            outcomes.all(|outcome| covered.contains(outcome))
        })
    }
}
