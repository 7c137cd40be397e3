//! CNCF Serverless Workflow 1.0: lists of tasks, with directives where to go on, whose data is passed from
//! one to the next.
//!
//! The data of a list is one variable, which each task replaces; a list inside of another one is a body
//! with a variable of its own. [`crate::machine`] turns the directives into a graph.

mod calls;
mod control;
mod events;
mod expressions;
mod faults;
mod tasks;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use waypost_lang::{Tree, TreeValue};

use crate::expr::{Expr, Shape};
use crate::machine::{self, Goal, MachineStep, Transition};
use crate::names::{self, Ids};
use crate::read::SourceFields;
use crate::report::{Problem, Reporter, shortened};
use crate::target::{NeedEdge, TargetDefinition, TargetNode};

/// The variable with what tasks export.
const CONTEXT: &str = "context";
/// Tasks of one list.
const TASKS_MAX: usize = 5_000;
/// How deep lists of tasks may be nested: more than bodies may be.
const DEPTH_MAX: usize = 12;

/// A list of tasks.
#[derive(Clone, Debug)]
struct ListScope {
    /// The variable with the data.
    data: String,
    /// `$item` and the like.
    names: BTreeMap<String, Shape>,
    depth: usize,
}

impl ListScope {
    fn data(&self) -> Expr {
        Expr::variable(&self.data)
    }
}

/// A task that is being converted.
#[derive(Clone, Copy, Debug)]
struct TaskView<'t, 's> {
    name: &'t str,
    tree: &'t Tree,
    scope: &'s ListScope,
}

struct Converter<'r, 'f> {
    report: &'r mut Reporter<'f>,
    ids: Ids,
    /// `use`: what tasks refer to by name.
    shared: Option<&'f Tree>,
    exports: bool,
    /// `$input` of the task that is being converted.
    input: Option<Shape>,
}

/// Converts a workflow.
pub(crate) fn convert<'f>(root: &'f Tree, report: &mut Reporter<'f>) -> TargetDefinition {
    let lost = report.lost_count();
    let document = root.get("document").unwrap_or(root);
    let name = names::workflow(document.text("name").unwrap_or("imported"));
    let mut definition = TargetDefinition { name, ..TargetDefinition::default() };
    let mut ids = Ids::default();
    let [data, begin, done] = ["data", "begin", "done"].map(|name| ids.fresh(name));
    drop(ids.fresh(CONTEXT));
    let exports = has_key(root, "export", 0);
    let mut converter = Converter { report, ids, shared: root.get("use"), exports, input: None };
    converter.head(root, document, &mut definition);
    let scope = ListScope { data, names: BTreeMap::new(), depth: 0 };
    let mut start = TargetNode::new(&begin, "input").variable(&scope.data, "${{ output }}");
    if exports {
        start.variables.insert(CONTEXT.to_owned(), json!({}));
    }
    let from = root.get("input").and_then(|input| input.get("from"));
    if let Some(from) = from {
        match converter.evaluate(from, &Shape::Expr(Expr::atom("output")), &scope, "") {
            Ok(shape) => drop(start.variables.insert(scope.data.clone(), shape.to_value())),
            Err(message) => converter.report.lost(from, message, EXPRESSION),
        }
    }
    let mut entry = NeedEdge::to(&begin);
    definition.nodes.push(start);
    if converter.report.lost_count() > lost {
        let stop = converter.ids.fresh("not_converted");
        let stop = TargetNode::placeholder(&stop, "fields of the workflow").needing(vec![entry]);
        entry = NeedEdge::to(&stop.id);
        definition.nodes.push(stop);
    }
    let list = root.get("do").unwrap_or(root);
    let (nodes, ends) = converter.list(list, list.items(), &scope, vec![entry]);
    definition.nodes.extend(nodes);
    converter.finish(root, &scope, &done, ends, &mut definition.nodes);
    if uses_jq(root, 0) {
        let message = "a missing field makes an expression fail, and is null in jq";
        converter.report.different(
            list,
            message,
            "add `| default(…)` where a field may be missing",
        );
    }
    definition
}

const EXPRESSION: &str = "write the expression by hand";

impl<'f> Converter<'_, 'f> {
    fn head(&mut self, root: &Tree, document: &Tree, definition: &mut TargetDefinition) {
        let known = &["document", "input", "use", "do", "timeout", "output", "schedule"];
        self.report.leftovers(root, known);
        let known =
            &["dsl", "namespace", "name", "version", "title", "summary", "tags", "metadata"];
        self.report.leftovers(document, known);
        if let Some(dsl) = document.text("dsl").filter(|dsl| !dsl.starts_with("1.")) {
            let at = document.get("dsl").unwrap_or(document);
            let message = format!("the version `{}` of the language is unknown", shortened(dsl));
            self.report.lost(at, message, "write it in version 1");
        }
        let parts = [document.text("title"), document.text("summary")];
        let description = parts.into_iter().flatten().collect::<Vec<_>>().join(". ");
        if !description.is_empty() {
            definition.fields.push(("description", json!(description)));
        }
        self.input_schema(root, definition);
        if let Some(at) = root.get("timeout") {
            match self.timeout(at) {
                Some(duration) => definition.fields.push(("timeout", duration)),
                None => {
                    self.report.lost(at, "the timeout is no constant duration", "write it by hand")
                }
            }
        }
        if let Some(schedule) = root.get("schedule") {
            self.schedule(schedule, definition);
        }
        if let Some(shared) = root.get("use") {
            let known =
                &["authentications", "errors", "functions", "retries", "secrets", "timeouts"];
            self.report.leftovers(shared, known);
        }
    }

    fn input_schema(&mut self, root: &Tree, definition: &mut TargetDefinition) {
        for place in ["input", "output"] {
            let Some(field) = root.get(place) else { continue };
            self.report.leftovers(field, &["schema", "from", "as"]);
            let Some(schema) = field.get("schema") else { continue };
            match schema.get("document") {
                Some(document) if place == "input" => {
                    definition.fields.push(("input", document.json()));
                }
                Some(_) => {
                    let advice = "check the output where it is used";
                    self.report.different(
                        schema,
                        "the schema of the output is not checked",
                        advice,
                    );
                }
                None => {
                    self.report.lost(schema, "a schema in another document", "write it in place")
                }
            }
        }
    }

    /// The tasks of a list as nodes, and the edges by which it ends.
    fn list(
        &mut self,
        list: &'f Tree,
        items: &'f [Tree],
        scope: &ListScope,
        entry: Vec<NeedEdge>,
    ) -> (Vec<TargetNode>, Vec<NeedEdge>) {
        let tasks: Vec<(&'f str, &'f Tree)> = items
            .iter()
            .filter_map(|item| item.entries().first())
            .map(|entry| (entry.key.as_str(), &entry.value))
            .collect();
        if tasks.len() < items.len()
            || tasks.is_empty()
            || tasks.len() > TASKS_MAX
            || scope.depth > DEPTH_MAX
        {
            self.report.lost(list, "the list of tasks cannot be read", "give each task a name");
            let id = self.ids.fresh("list");
            return (vec![TargetNode::placeholder(&id, "a list of tasks").needing(entry)], vec![]);
        }
        let names: Vec<&str> = tasks.iter().map(|(name, _)| *name).collect();
        let mut steps = Vec::new();
        for (at, (name, tree)) in tasks.iter().enumerate() {
            let id = self.ids.fresh(name);
            let (mark, lost) = (self.report.mark(), self.report.lost_count());
            let view = TaskView { name, tree, scope };
            let next = if at + 1 < tasks.len() { Goal::Step(at + 1) } else { Goal::End };
            let mut step = match self.step(&id, view, next, &names) {
                Ok(step) => step,
                Err(problem) => self.placeholder(&id, name, next, problem),
            };
            if self.report.lost_count() > lost {
                self.stop_before(&mut step, name);
            }
            if let Some(node) = step.nodes.iter_mut().find(|node| node.id == id) {
                node.label = (*name != id).then(|| (*name).to_owned());
            }
            self.report.exact_since(mark, tree, format!("task `{}`", shortened(name)));
            steps.push(step);
        }
        let assembled = machine::assemble(steps, 0, &entry, &mut self.ids);
        for at in assembled.unreachable {
            let message = format!("no task leads to `{}`: it is left out", shortened(names[at]));
            self.report.different(tasks[at].1, message, "remove it, or lead to it");
        }
        for at in assembled.tangled {
            let message = "tasks repeat each other, and are entered in several places, or loops are \
                           nested too deeply";
            self.report.lost(tasks[at].1, message, "enter the cycle at one task");
        }
        (assembled.nodes, assembled.ends)
    }

    fn placeholder(
        &mut self,
        id: &str,
        name: &str,
        next: Goal,
        problem: Problem<'_>,
    ) -> MachineStep {
        let what = format!("{}: {}", shortened(name), problem.message);
        self.report.lost(problem.at, problem.message, problem.advice);
        let node = TargetNode::placeholder(id, &what);
        let outs = vec![Transition { from: NeedEdge::to(id), to: next }];
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

    fn finish(
        &mut self,
        root: &Tree,
        scope: &ListScope,
        done: &str,
        ends: Vec<NeedEdge>,
        nodes: &mut Vec<TargetNode>,
    ) {
        if ends.is_empty() {
            return;
        }
        self.input = None;
        let mut ends = ends;
        let mut value = Shape::Expr(scope.data());
        if let Some(output) = root.get("output").and_then(|output| output.get("as")) {
            match self.evaluate(output, &value, scope, "") {
                Ok(shape) => value = shape,
                Err(message) => {
                    self.report.lost(output, message, EXPRESSION);
                    let id = self.ids.fresh("not_converted");
                    nodes.push(TargetNode::placeholder(&id, "output").needing(ends));
                    ends = vec![NeedEdge::to(&id)];
                }
            }
        }
        let node = TargetNode::new(done, "output").needing(ends).with("value", value.to_value());
        nodes.push(node);
    }

    /// What a task refers to by name in a part of `use`.
    fn shared(&self, part: &str, name: &str) -> Option<&'f Tree> {
        self.shared?.get(part)?.get(name)
    }

    /// `timeout`: in place, or by name.
    fn timeout(&self, at: &Tree) -> Option<Value> {
        match at.as_text() {
            Some(name) => constant_duration(self.shared("timeouts", name)?.get("after")?),
            None => constant_duration(at.get("after")?),
        }
    }
}

/// A duration that is no expression: ISO 8601, or fields.
fn constant_duration(at: &Tree) -> Option<Value> {
    match &at.value {
        TreeValue::Text { text, .. } => text.starts_with('P').then(|| json!(text)),
        TreeValue::Map(entries) => {
            let mut text = Vec::new();
            for entry in entries {
                let unit = match entry.key.as_str() {
                    "days" => "d",
                    "hours" => "h",
                    "minutes" => "m",
                    "seconds" => "s",
                    "milliseconds" => "ms",
                    _ => return None,
                };
                let count = entry.value.as_number().filter(|count| *count >= 0.0)?;
                text.push(format!("{}{unit}", crate::convert::whole(count)));
            }
            (!text.is_empty()).then(|| json!(text.join(" ")))
        }
        _ => None,
    }
}

fn has_key(tree: &Tree, key: &str, depth: usize) -> bool {
    depth < 100
        && (tree.entries().iter().any(|e| e.key == key || has_key(&e.value, key, depth + 1))
            || tree.items().iter().any(|item| has_key(item, key, depth + 1)))
}

/// Does a text have an expression with a path?
fn uses_jq(tree: &Tree, depth: usize) -> bool {
    let own = tree.as_text().is_some_and(|text| text.contains("${") && text.contains('.'));
    depth < 100
        && (own
            || tree.entries().iter().any(|entry| uses_jq(&entry.value, depth + 1))
            || tree.items().iter().any(|item| uses_jq(item, depth + 1)))
}
