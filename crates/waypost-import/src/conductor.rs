//! Conductor: lists of tasks, with forks, switches and loops, that refer to each other's outputs.
//!
//! A list becomes a chain of nodes. The nodes that are upstream are followed along the way: only these can
//! be referred to.

mod control;
mod loops;
mod policy;
mod references;
mod tasks;
mod workflows;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use waypost_lang::Tree;

pub(crate) use policy::TaskDefinitions;

use crate::expr::{Expr, Shape};
use crate::names::{self, Ids};
use crate::read::SourceFields;
use crate::report::{Reporter, shortened};
use crate::target::{NeedEdge, TargetDefinition, TargetNode};

/// Tasks of one workflow.
const TASKS_MAX: usize = 3_000;
/// How deep lists of tasks may be nested.
const DEPTH_MAX: usize = 40;

/// Why a task cannot be converted, and what to do.
type TaskProblem = (String, String);

/// A task that others may refer to.
#[derive(Clone, Debug)]
struct Referred {
    /// How its output is reached.
    base: Expr,
    form: OutputForm,
    /// May it have been skipped?
    uncertain: bool,
}

/// How the output of a task looks in Conductor, compared with ours.
#[derive(Clone, PartialEq, Eq, Debug)]
enum OutputForm {
    Same,
    /// `response.body`, `response.statusCode`, `response.headers`.
    Http,
    /// `result`.
    Result,
    /// `workflowId`.
    Started,
    /// `evaluationResult`.
    Switch,
    /// Outputs by the names of the tasks that it joins.
    Join,
    /// `iteration`, beside the outputs of the body.
    Loop,
    /// The loop around it: `iteration` alone.
    Iteration,
    /// Not known.
    Opaque,
}

/// What is upstream at a place of the workflow.
#[derive(Clone, Debug, Default)]
struct Upstream {
    tasks: BTreeMap<String, Referred>,
    /// The last task: its output is that of a workflow that names none.
    last: Option<String>,
    depth: usize,
    /// Inside of a fork or of a loop, a termination cannot end the workflow.
    inner: bool,
}

struct Converter<'r, 'f> {
    report: &'r mut Reporter<'f>,
    ids: Ids,
    policies: &'r TaskDefinitions<'r>,
    /// The ends of the workflow, with the result that is set before them.
    terminations: Vec<TargetNode>,
    has_terminations: bool,
    /// How many tasks there were so far.
    tasks: usize,
}

/// Converts a file: a workflow, or a list of workflows and task definitions.
pub(crate) fn convert(
    root: &Tree,
    policies: &TaskDefinitions<'_>,
    report: &mut Reporter<'_>,
) -> Vec<TargetDefinition> {
    let all = if root.as_list().is_some() { root.items() } else { std::slice::from_ref(root) };
    let mut definitions = Vec::new();
    for one in all {
        if one.has("tasks") {
            definitions.push(workflow(one, policies, report));
        } else {
            policy::report(one, report);
        }
    }
    definitions
}

const METADATA: &[&str] = &[
    "name",
    "description",
    "version",
    "tasks",
    "outputParameters",
    "inputParameters",
    "schemaVersion",
    "timeoutSeconds",
    "timeoutPolicy",
    "ownerEmail",
    "ownerApp",
    "createTime",
    "updateTime",
    "createdBy",
    "updatedBy",
    "restartable",
    "variables",
    "failureWorkflow",
    "accessPolicy",
    "tags",
    "metadata",
    "workflowStatusListenerEnabled",
    "inputTemplate",
    "enforceSchema",
];

fn workflow(
    root: &Tree,
    policies: &TaskDefinitions<'_>,
    report: &mut Reporter<'_>,
) -> TargetDefinition {
    let lost = report.lost_count();
    let name = names::workflow(root.text("name").unwrap_or("imported"));
    let mut definition = TargetDefinition { name, ..TargetDefinition::default() };
    report.leftovers(root, METADATA);
    head(root, &mut definition, report);
    let mut ids = Ids::default();
    let done = ids.fresh("done");
    ["result"].iter().for_each(|name| drop(ids.fresh(name)));
    let mut converter = Converter {
        report,
        ids,
        policies,
        terminations: Vec::new(),
        has_terminations: false,
        tasks: 0,
    };
    let mut entry = Vec::new();
    if let Some(variables) = root.get("variables").filter(|v| !v.entries().is_empty()) {
        let mut node = TargetNode::new(&converter.ids.fresh("begin"), "noop");
        for variable in variables.entries() {
            let value = crate::expr::literal_value(&variable.value.json());
            node.variables.insert(names::identifier(&variable.key), value);
        }
        entry = vec![NeedEdge::to(&node.id)];
        definition.nodes.push(node);
    }
    if converter.report.lost_count() > lost {
        let id = converter.ids.fresh("not_converted");
        let node = TargetNode::placeholder(&id, "fields of the workflow").needing(entry);
        entry = vec![NeedEdge::to(&id)];
        definition.nodes.push(node);
    }
    let mut upstream = Upstream::default();
    let tasks = root.get("tasks").map(SourceFields::items).unwrap_or_default();
    if has_references(root, 0) {
        let at = root.get("tasks").unwrap_or(root);
        let message = "a reference to a missing field fails, and is null in Conductor";
        converter.report.different(at, message, "add `| default(…)` where a field may be missing");
    }
    let exits = converter.list(tasks, entry, &mut upstream, &mut definition.nodes);
    converter.finish(root, &done, exits, &upstream, &mut definition.nodes);
    if definition.nodes.is_empty() {
        definition.nodes.push(TargetNode::new("empty", "noop"));
    }
    definition
}

fn head(root: &Tree, definition: &mut TargetDefinition, report: &mut Reporter<'_>) {
    if let Some(description) = root.text("description") {
        definition.fields.push(("description", json!(description)));
    }
    if let Some(seconds) = root.number("timeoutSeconds").filter(|seconds| *seconds > 0.0) {
        if root.text("timeoutPolicy") == Some("ALERT_ONLY") {
            let at = root.get("timeoutPolicy").unwrap_or(root);
            let advice = "use an alert on the duration of executions";
            report.different(at, "a timeout that only alerts has no counterpart", advice);
        } else {
            definition.fields.push(("timeout", policy::seconds(seconds)));
        }
    }
    if let Some(at) = root.get("failureWorkflow") {
        let message =
            "the workflow that is started after a failure is not started by this definition";
        let advice = "give it a `workflow-ended` trigger with `status: [FAILED, TIMED_OUT]`";
        report.different(at, message, advice);
    }
    if let Some(at) = root.get("inputTemplate").filter(|input| !input.entries().is_empty()) {
        report.lost(
            at,
            "defaults of the input have no counterpart",
            "write `default(…)` where it is used",
        );
    }
}

impl Converter<'_, '_> {
    /// The tasks of a list, one after the other. Returns the edges by which the list ends.
    fn list(
        &mut self,
        tasks: &[Tree],
        entry: Vec<NeedEdge>,
        upstream: &mut Upstream,
        nodes: &mut Vec<TargetNode>,
    ) -> Vec<NeedEdge> {
        let mut exits = entry;
        let mut at = 0;
        while let Some(task) = tasks.get(at) {
            at += 1;
            self.tasks += 1;
            if self.tasks > TASKS_MAX {
                if self.tasks == TASKS_MAX + 1 {
                    self.report.lost(task, "there are more than 3,000 tasks", "split the workflow");
                }
                return self.stop_here(exits, nodes);
            }
            let mark = self.report.mark();
            let kind = task.text("type").unwrap_or("SIMPLE");
            let reference = task.text("taskReferenceName").or(task.text("name")).unwrap_or("task");
            if upstream.depth > DEPTH_MAX {
                self.report.lost(task, "lists of tasks are nested too deeply", "use sub-workflows");
                return self.stop_here(exits, nodes);
            }
            upstream.depth += 1;
            exits = match kind {
                "SWITCH" | "DECISION" => self.switch(task, exits, upstream, nodes),
                "FORK_JOIN" | "FORK" => {
                    let join = tasks.get(at).filter(|next| is_join(next));
                    at += usize::from(join.is_some());
                    self.fork(task, join, exits, upstream, nodes)
                }
                "DO_WHILE" => self.do_while(task, exits, upstream, nodes),
                "TERMINATE" => self.terminate(task, exits, upstream, nodes),
                _ => self.single(kind, task, exits, upstream, nodes),
            };
            upstream.depth -= 1;
            upstream.last = Some(reference.to_owned());
            let what = format!("{} task `{}`", shortened(kind), shortened(reference));
            self.report.exact_since(mark, task, what);
        }
        exits
    }

    /// A node that fails behind the tasks that are converted.
    fn stop_here(&mut self, exits: Vec<NeedEdge>, nodes: &mut Vec<TargetNode>) -> Vec<NeedEdge> {
        let id = self.ids.fresh("not_converted");
        nodes.push(TargetNode::placeholder(&id, "further tasks").needing(exits));
        vec![NeedEdge::to(&id)]
    }

    /// The id of a task's node.
    fn id_of(&mut self, task: &Tree) -> String {
        let name = task.text("taskReferenceName").or(task.text("name")).unwrap_or("task");
        self.ids.fresh(name)
    }

    fn refer(&mut self, task: &Tree, id: &str, form: OutputForm, upstream: &mut Upstream) {
        if let Some(name) = task.text("taskReferenceName") {
            let referred = Referred { base: Expr::output_of(id), form, uncertain: false };
            upstream.tasks.insert(name.to_owned(), referred);
        }
    }

    /// A node that fails in the place of a task.
    fn placeholder(
        &mut self,
        task: &Tree,
        reason: TaskProblem,
        exits: Vec<NeedEdge>,
        upstream: &mut Upstream,
        nodes: &mut Vec<TargetNode>,
    ) -> Vec<NeedEdge> {
        let (message, advice) = reason;
        let id = self.id_of(task);
        let name = task.text("taskReferenceName").unwrap_or("task");
        let what = format!("{}: {message}", shortened(name));
        self.report.lost(task, message, advice);
        nodes.push(TargetNode::placeholder(&id, &what).needing(exits));
        self.refer(task, &id, OutputForm::Same, upstream);
        vec![NeedEdge::to(&id)]
    }

    /// The node with the output of the workflow.
    fn finish(
        &mut self,
        root: &Tree,
        done: &str,
        mut exits: Vec<NeedEdge>,
        upstream: &Upstream,
        nodes: &mut Vec<TargetNode>,
    ) {
        let value = match root.get("outputParameters").filter(|output| !output.entries().is_empty())
        {
            Some(output) => match self.template(output, upstream) {
                Ok(shape) => Some(shape),
                Err((message, advice)) => {
                    self.report.lost(output, message, advice);
                    let id = self.ids.fresh("not_converted");
                    let stop = TargetNode::placeholder(&id, "outputParameters").needing(exits);
                    nodes.push(stop);
                    exits = vec![NeedEdge::to(&id)];
                    None
                }
            },
            None => {
                let last = upstream.last.as_ref().and_then(|last| upstream.tasks.get(last));
                last.map(|last| Shape::Expr(last.base.clone()))
            }
        };
        let value = value.unwrap_or(Shape::Constant(Value::Object(Map::new())));
        let mut node = TargetNode::new(done, "output");
        if !self.has_terminations {
            if !exits.is_empty() {
                nodes.push(node.needing(exits).with("value", value.to_value()));
            }
            return;
        }
        let mut ends: Vec<NeedEdge> =
            self.terminations.iter().map(|end| NeedEdge::to(&end.id)).collect();
        nodes.append(&mut self.terminations);
        if !exits.is_empty() {
            let last = TargetNode::new(&self.ids.fresh("finish"), "noop")
                .needing(exits)
                .variable("result", value.to_value());
            ends.push(NeedEdge::to(&last.id));
            nodes.push(last);
        }
        node = node.needing(ends).with("value", Expr::variable("result").template());
        nodes.push(node);
    }
}

fn is_join(task: &Tree) -> bool {
    matches!(task.text("type"), Some("JOIN" | "EXCLUSIVE_JOIN"))
}

fn has_references(tree: &Tree, depth: usize) -> bool {
    depth < 100
        && (tree.as_text().is_some_and(|text| text.contains("${"))
            || tree.entries().iter().any(|entry| has_references(&entry.value, depth + 1))
            || tree.items().iter().any(|item| has_references(item, depth + 1)))
}
