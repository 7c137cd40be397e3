//! The Amazon States Language: states with transitions, whose data is passed from one to the next.
//!
//! The data of a scope (the machine, a branch, an item) is one variable, which each state replaces: that
//! is what input and output paths mean. [`crate::machine`] turns the transitions into a graph.

mod choice;
mod containers;
mod data;
mod errors;
mod intrinsics;
mod path;
mod states;
mod task;

use std::collections::BTreeMap;

use serde_json::json;
use waypost_lang::{Tree, TreeEntry};

use crate::expr::Expr;
use crate::machine::{self, Goal, MachineStep, Transition};
use crate::names::{self, Ids};
use crate::read::SourceFields;
use crate::report::{Problem, Reporter, shortened};
use crate::target::{NeedEdge, TargetDefinition, TargetNode};

/// States of one machine: half as many as a definition may have nodes.
const STATES_MAX: usize = 5_000;

/// A machine, a branch, or the body of a map.
#[derive(Clone, Debug)]
struct MachineScope {
    /// The variable with the data.
    data: String,
    /// The workflow variables that its states assign, and those of the scopes around it.
    assigned: BTreeMap<String, String>,
}

impl MachineScope {
    fn data(&self) -> Expr {
        Expr::variable(&self.data)
    }
}

struct Converter<'r, 'f> {
    report: &'r mut Reporter<'f>,
    ids: Ids,
}

/// Converts a state machine. The name is that of its file.
pub(crate) fn convert(name: &str, root: &Tree, report: &mut Reporter<'_>) -> TargetDefinition {
    let mut definition =
        TargetDefinition { name: names::workflow(name), ..TargetDefinition::default() };
    let mut ids = Ids::default();
    let [data, start, done] = ["data", "begin", "done"].map(|name| ids.fresh(name));
    // Ids in the bodies of operations.
    ["start", "check", "poll"].iter().for_each(|name| drop(ids.fresh(name)));
    let known = &[
        "Comment",
        "StartAt",
        "States",
        "TimeoutSeconds",
        "Version",
        "QueryLanguage",
        "ProcessorConfig",
    ];
    report.leftovers(root, known);
    if let Some(comment) = root.text("Comment") {
        definition.fields.push(("description", json!(comment)));
    }
    if let Some(seconds) = root.number("TimeoutSeconds") {
        definition.fields.push(("timeout", data::seconds(seconds)));
    }
    let mut converter = Converter { report, ids };
    let scope = converter.scope(root, data, BTreeMap::new());
    let start = TargetNode::new(&start, "input").variable(&scope.data, "${{ output }}");
    let mut entry = NeedEdge::to(&start.id);
    definition.nodes = vec![start];
    if converter.report.lost_count() > 0 {
        let stop = converter.ids.fresh("not_converted");
        let stop = TargetNode::placeholder(&stop, "fields of the machine").needing(vec![entry]);
        entry = NeedEdge::to(&stop.id);
        definition.nodes.push(stop);
    }
    let (nodes, ends) = converter.machine(root, &scope, &[entry]);
    definition.nodes.extend(nodes);
    if !ends.is_empty() {
        let value = scope.data().template();
        definition.nodes.push(TargetNode::new(&done, "output").needing(ends).with("value", value));
    }
    definition
}

impl Converter<'_, '_> {
    /// The variables of a scope, which no other scope sets.
    fn scope(
        &mut self,
        machine: &Tree,
        data: String,
        mut assigned: BTreeMap<String, String>,
    ) -> MachineScope {
        let states = machine.get("States").map(SourceFields::entries).unwrap_or_default();
        for state in states.iter().map(|state| &state.value) {
            let catchers = state.get("Catch").map(SourceFields::items).unwrap_or_default();
            let choices = state.get("Choices").map(SourceFields::items).unwrap_or_default();
            let places = std::iter::once(state).chain(catchers).chain(choices);
            for entry in
                places.filter_map(|place| place.get("Assign")).flat_map(SourceFields::entries)
            {
                let name = entry.key.trim_end_matches(".$");
                if !assigned.contains_key(name) {
                    assigned.insert(name.to_owned(), self.ids.fresh(name));
                }
            }
        }
        MachineScope { data, assigned }
    }

    /// The states of a machine as nodes, and the edges by which it ends.
    fn machine(
        &mut self,
        machine: &Tree,
        scope: &MachineScope,
        entry: &[NeedEdge],
    ) -> (Vec<TargetNode>, Vec<NeedEdge>) {
        let all = machine.get("States").unwrap_or(machine);
        let states = all.entries();
        if states.len() > STATES_MAX {
            self.report.lost(all, "there are more than 5,000 states", "split the machine");
            let id = self.ids.fresh("states");
            return (vec![TargetNode::placeholder(&id, "States").needing(entry.to_vec())], vec![]);
        }
        let position = |name: &str| states.iter().position(|state| state.key == name);
        let start = machine.text("StartAt").and_then(position);
        let Some(start) = start else {
            let at = machine.get("StartAt").unwrap_or(machine);
            self.report.lost(at, "`StartAt` names no state", "name the first state");
            let id = self.ids.fresh("start_at");
            return (vec![TargetNode::placeholder(&id, "StartAt").needing(entry.to_vec())], vec![]);
        };
        if machine.text("QueryLanguage") == Some("JSONata")
            && let Some(at) = machine.get("QueryLanguage")
        {
            self.report.lost(at, "JSONata has no counterpart", JSONATA);
        }
        let jsonata = machine.text("QueryLanguage") == Some("JSONata");
        let mut steps = Vec::new();
        for state in states {
            let id = self.ids.fresh(&state.key);
            let (mark, lost) = (self.report.mark(), self.report.lost_count());
            let problem = |at| Problem::new(at, "JSONata has no counterpart", JSONATA);
            let uses_jsonata =
                state.value.text("QueryLanguage").map_or(jsonata, |q| q == "JSONata");
            let converted = if uses_jsonata {
                Err(problem(&state.value))
            } else {
                self.state(&id, &state.key, all, &state.value, scope)
            };
            let mut step = match converted {
                Ok(step) => step,
                Err(problem) => self.placeholder(&id, state, all, &problem),
            };
            if self.report.lost_count() > lost {
                self.stop_before(&mut step, &state.key);
            }
            for out in &mut step.outs {
                self.resolve(&state.value, &mut out.to, states.len());
            }
            if let Some(node) = step.nodes.iter_mut().find(|node| node.id == id) {
                node.label = (state.key != id).then(|| state.key.clone());
                node.notes.extend(state.value.text("Comment").map(ToOwned::to_owned));
            }
            let kind = state.value.text("Type").unwrap_or_default();
            let what = format!("{kind} state `{}`", shortened(&state.key));
            self.report.exact_since(mark, &state.value, what);
            steps.push(step);
        }
        let assembled = machine::assemble(steps, start, entry, &mut self.ids);
        for at in assembled.unreachable {
            let message = format!("no state leads to `{}`: it is left out", states[at].key);
            self.report.different(&states[at].value, message, "remove it, or lead to it");
        }
        for at in assembled.tangled {
            let message = "states repeat each other, and are entered in several places, or loops are \
                           nested too deeply";
            let advice = "enter the cycle at one state";
            self.report.lost(&states[at].value, message, advice);
        }
        (assembled.nodes, assembled.ends)
    }

    /// Transitions name their state by its position; one beyond the last state names none.
    fn resolve(&mut self, state: &Tree, goal: &mut Goal, count: usize) {
        if matches!(goal, Goal::Step(to) if *to >= count) {
            self.report.lost(state, "a transition names no state", "name a state of this machine");
            *goal = Goal::End;
        }
    }

    /// A step in the place of a state, with its transitions: what follows stays where it is.
    fn placeholder(
        &mut self,
        id: &str,
        state: &TreeEntry,
        states: &Tree,
        problem: &Problem<'_>,
    ) -> MachineStep {
        self.report.lost(problem.at, problem.message.clone(), problem.advice.clone());
        let what = format!("{}: {}", shortened(&state.key), problem.message);
        let node = TargetNode::placeholder(id, &what);
        let state = &state.value;
        let lists = [state.get("Choices"), state.get("Catch")];
        let places = lists.into_iter().flatten().flat_map(SourceFields::items);
        let names = std::iter::once(state)
            .chain(places)
            .filter_map(|place| place.text("Next"))
            .chain(state.text("Default"));
        let to = |name: &str| states.entries().iter().position(|state| state.key == name);
        let from = NeedEdge::to(id);
        let outs = names
            .filter_map(to)
            .map(|to| Transition { from: from.clone(), to: Goal::Step(to) })
            .collect();
        MachineStep { name: id.to_owned(), nodes: vec![node], outs }
    }

    /// Puts a node that fails before a step of which a part was not converted.
    fn stop_before(&mut self, step: &mut MachineStep, name: &str) {
        let Some(first) = step.nodes.first_mut().filter(|first| first.kind != "fail") else {
            return;
        };
        let what = format!("a part of {}", shortened(name));
        let stop = TargetNode::placeholder(&self.ids.beside(&first.id, "not_converted"), &what);
        first.need(vec![NeedEdge::to(&stop.id)]);
        step.nodes.insert(0, stop);
    }
}

const JSONATA: &str = "write the state with JSONPath, or write its node by hand";

/// The transition from a node to what `Next` names, or to the end.
fn next_of(state: &Tree, states: &Tree, from: NeedEdge) -> Vec<Transition> {
    let position = |name: &str| states.entries().iter().position(|state| state.key == name);
    let to = match state.text("Next") {
        Some(name) => Goal::Step(position(name).unwrap_or(usize::MAX)),
        None => Goal::End,
    };
    vec![Transition { from, to }]
}
