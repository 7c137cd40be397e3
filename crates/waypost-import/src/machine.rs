//! Steps with transitions, which may go backwards, as a graph without cycles.
//!
//! Steps that can reach each other become the body of a `loop`. One iteration begins at the step by which
//! they are entered, and ends with a node that writes into a variable where it goes on: at its beginning, or at
//! the step behind the loop.
//!
//! ```text
//!   a ─▶ b ─▶ c ─▶ d          a ─▶ loop [ b ─▶ c ─▶ go on  ] ─▶ d
//!        ▲    │                         [      └─▶ to d   ]
//!        └────┘
//! ```

mod components;

use std::collections::{BTreeMap, HashMap};

use serde_json::json;

use crate::expr::{Expr, quoted};
use crate::names::Ids;
use crate::target::{NeedEdge, TargetNode};

/// How deep loops may be nested: containers nest up to 8 levels.
const LOOPS_MAX: usize = 6;
/// More than a workflow makes.
const ITERATIONS: u64 = 1_000_000_000;
/// The value of the variable of a loop that goes on.
const AGAIN: &str = "go on";

/// One step: some nodes, of which the first one is entered.
#[derive(Clone, Debug, Default)]
pub(crate) struct MachineStep {
    pub(crate) name: String,
    pub(crate) nodes: Vec<TargetNode>,
    pub(crate) outs: Vec<Transition>,
}

/// An edge from a node of a step to another step.
#[derive(Clone, Debug)]
pub(crate) struct Transition {
    pub(crate) from: NeedEdge,
    pub(crate) to: Goal,
}

/// Where a transition leads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Goal {
    Step(usize),
    End,
}

/// A machine as nodes.
#[derive(Debug, Default)]
pub(crate) struct Assembled {
    pub(crate) nodes: Vec<TargetNode>,
    /// The edges by which it ends.
    pub(crate) ends: Vec<NeedEdge>,
    /// Steps that no transition reaches, and that are left out.
    pub(crate) unreachable: Vec<usize>,
    /// Steps of a cycle that is entered in several places, or nested too deeply; they are placeholders.
    pub(crate) tangled: Vec<usize>,
}

/// Puts steps together, beginning at the first one after these edges.
pub(crate) fn assemble(
    steps: Vec<MachineStep>,
    start: usize,
    entry: &[NeedEdge],
    ids: &mut Ids,
) -> Assembled {
    let reachable = components::reachable(&steps, start);
    let unreachable = (0..steps.len()).filter(|at| !reachable.contains(at)).collect();
    let mut builder = Assembler { steps, ids, tangled: Vec::new() };
    let flow = builder.flow(&reachable, start, entry, 0);
    let mut ends = Vec::new();
    for (goal, edges) in flow.leaving {
        if goal == Goal::End {
            ends = edges;
        }
    }
    Assembled { nodes: flow.nodes, ends, unreachable, tangled: builder.tangled }
}

struct Assembler<'i> {
    steps: Vec<MachineStep>,
    ids: &'i mut Ids,
    tangled: Vec<usize>,
}

/// Some steps as nodes, and the edges that leave them.
#[derive(Default)]
struct AssembledFlow {
    nodes: Vec<TargetNode>,
    leaving: BTreeMap<Goal, Vec<NeedEdge>>,
}

impl Assembler<'_> {
    /// The steps `within`, entered at `start`. Transitions to steps outside of them leave it.
    fn flow(
        &mut self,
        within: &[usize],
        start: usize,
        entry: &[NeedEdge],
        depth: usize,
    ) -> AssembledFlow {
        self.flow_without(within, start, None, entry, depth)
    }

    /// The same, where transitions to `head` leave it, too: the body of a loop.
    fn flow_without(
        &mut self,
        within: &[usize],
        start: usize,
        head: Option<usize>,
        entry: &[NeedEdge],
        depth: usize,
    ) -> AssembledFlow {
        let inside = |goal: Goal| match goal {
            Goal::Step(to) => within.binary_search(&to).is_ok() && Some(to) != head,
            Goal::End => false,
        };
        let groups = components::strongly_connected(&self.steps, within, head);
        let mut waiting: HashMap<usize, Vec<NeedEdge>> = HashMap::new();
        waiting.insert(start, entry.to_vec());
        let mut flow = AssembledFlow::default();
        for group in groups {
            let parts = if group.is_cycle {
                self.cycle(&group.steps, start, &mut waiting, depth)
            } else {
                let at = group.steps[0];
                let mut step = std::mem::take(&mut self.steps[at]);
                if let Some(first) = step.nodes.first_mut() {
                    first.need(waiting.remove(&at).unwrap_or_default());
                }
                let mut leaving: BTreeMap<Goal, Vec<NeedEdge>> = BTreeMap::new();
                for out in step.outs {
                    leaving.entry(out.to).or_default().push(out.from);
                }
                AssembledFlow { nodes: step.nodes, leaving }
            };
            flow.nodes.extend(parts.nodes);
            for (goal, edges) in parts.leaving {
                match goal {
                    Goal::Step(to) if inside(goal) => waiting.entry(to).or_default().extend(edges),
                    _ => flow.leaving.entry(goal).or_default().extend(edges),
                }
            }
        }
        flow
    }

    /// Steps that can reach each other, as a loop.
    fn cycle(
        &mut self,
        steps: &[usize],
        start: usize,
        waiting: &mut HashMap<usize, Vec<NeedEdge>>,
        depth: usize,
    ) -> AssembledFlow {
        let mut heads: Vec<usize> =
            steps.iter().copied().filter(|at| waiting.contains_key(at) || *at == start).collect();
        heads.dedup();
        let [head] = heads[..] else { return self.tangle(steps, &heads, waiting) };
        if depth >= LOOPS_MAX {
            return self.tangle(steps, &heads, waiting);
        }
        let name = self.steps[head].name.clone();
        let id = self.ids.beside(&name, "loop");
        let variable = self.ids.beside(&name, "next");
        let body = self.flow_without(steps, head, Some(head), &[], depth + 1);
        let mut nodes = body.nodes;
        let mut exits = Vec::new();
        for (goal, edges) in body.leaving {
            let goal_leaves = goal != Goal::Step(head);
            let word = match goal {
                Goal::Step(to) if to == head => AGAIN.to_owned(),
                Goal::Step(to) => self.steps[to].name.clone(),
                Goal::End => self.ids.fresh("end"),
            };
            let marker = self.ids.fresh(&format!("to_{word}").replace(' ', "_"));
            nodes.push(
                TargetNode::new(&marker, "noop").needing(edges).variable(&variable, word.as_str()),
            );
            if goal_leaves {
                exits.push((goal, word));
            }
        }
        let until = Expr::variable(&variable).compare("!=", &Expr::atom(quoted(AGAIN)));
        let mut container = TargetNode::new(&id, "loop")
            .with("until", until.text())
            .with("maxIterations", ITERATIONS)
            .needing(waiting.remove(&head).unwrap_or_default());
        container.nodes = nodes;
        let mut flow = AssembledFlow { nodes: vec![container], leaving: BTreeMap::new() };
        self.choose_exit(&id, &variable, exits, &mut flow);
        flow
    }

    /// Behind a loop with several exits, a switch takes the one that its variable names.
    fn choose_exit(
        &mut self,
        id: &str,
        variable: &str,
        exits: Vec<(Goal, String)>,
        flow: &mut AssembledFlow,
    ) {
        if let [(goal, _)] = exits[..] {
            flow.leaving.insert(goal, vec![NeedEdge::to(id)]);
            return;
        }
        if exits.is_empty() {
            return;
        }
        let chooser = self.ids.beside(id, "exit");
        let cases: Vec<_> = exits
            .iter()
            .map(|(_, word)| {
                let when = Expr::variable(variable).compare("==", &Expr::atom(quoted(word)));
                json!({ "when": when.text(), "branch": word })
            })
            .collect();
        flow.nodes.push(
            TargetNode::new(&chooser, "switch")
                .needing(vec![NeedEdge::to(id)])
                .with("cases", cases),
        );
        for (goal, word) in exits {
            flow.leaving.insert(goal, vec![NeedEdge::on(&chooser, &word)]);
        }
    }

    /// A cycle that is no loop: a placeholder at each of its entries.
    fn tangle(
        &mut self,
        steps: &[usize],
        heads: &[usize],
        waiting: &mut HashMap<usize, Vec<NeedEdge>>,
    ) -> AssembledFlow {
        self.tangled.extend(steps);
        let mut flow = AssembledFlow::default();
        for head in heads {
            let name = &self.steps[*head].name;
            let what = "steps that repeat each other, and are entered in several places";
            let id = self.ids.beside(name, "cycle");
            let needs = waiting.remove(head).unwrap_or_default();
            flow.nodes.push(TargetNode::placeholder(&id, what).needing(needs));
        }
        flow
    }
}
