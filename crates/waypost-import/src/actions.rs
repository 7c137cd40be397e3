//! GitHub Actions, as far as steps run commands: jobs become groups of `shell` nodes, with a matrix maps.

mod contexts;
mod jobs;
mod matrix;
mod steps;
mod triggers;

use std::collections::BTreeMap;

use serde_json::json;
use waypost_lang::Tree;

use crate::expr::Shape;
use crate::names::{self, Ids};
use crate::read::SourceFields;
use crate::report::{Problem, Reporter};
use crate::target::{NeedEdge, TargetDefinition, TargetNode};

/// Environment variables of a step.
const VARIABLES_MAX: usize = 200;
const ADVICE: &str = "write it by hand";

/// What expressions see at a place of a job.
#[derive(Clone, Debug, Default)]
struct JobScope {
    /// Environment variables, of the workflow, the job and the step.
    env: BTreeMap<String, Shape>,
    /// Steps before, by their ids: their nodes.
    steps: BTreeMap<String, String>,
    /// Jobs that this one needs: their nodes.
    needs: BTreeMap<String, String>,
    has_matrix: bool,
}

/// `defaults.run`, of the workflow or the job.
#[derive(Clone, Debug, Default)]
struct Defaults {
    shell: Option<String>,
    folder: Option<String>,
}

struct Converter<'r, 'f> {
    report: &'r mut Reporter<'f>,
    ids: Ids,
    /// Is a push what starts the workflow, if anything but a person does?
    by_push: bool,
    /// Defaults of the inputs of a start by hand.
    inputs: BTreeMap<String, serde_json::Value>,
}

/// Converts a workflow. Without a name of its own, it has that of its file.
pub(crate) fn convert<'f>(
    name: &str,
    root: &'f Tree,
    report: &mut Reporter<'f>,
) -> TargetDefinition {
    let lost = report.lost_count();
    let name = names::workflow(root.text("name").unwrap_or(name));
    let mut definition = TargetDefinition { name, ..TargetDefinition::default() };
    let ids = Ids::default();
    let mut converter = Converter { report, ids, by_push: false, inputs: BTreeMap::new() };
    let known =
        &["name", "run-name", "on", "env", "defaults", "jobs", "permissions", "concurrency"];
    converter.report.leftovers(root, known);
    for field in ["run-name", "permissions"] {
        if let Some(at) = root.get(field) {
            converter.report.different(at, format!("`{field}` has no effect"), "leave it out");
        }
    }
    definition.fields.push(("failurePolicy", json!("partial")));
    if let Some(on) = root.get("on") {
        converter.triggers(on, &mut definition);
    }
    if let Some(at) = root.get("concurrency") {
        converter.concurrency(at, &mut definition);
    }
    let mut scope = JobScope::default();
    let env = converter.environment(root.get("env"), &mut scope);
    let defaults = converter.defaults(root, &Defaults::default());
    let mut entry = Vec::new();
    if let Err(problem) = env {
        converter.report.lost(problem.at, problem.message, problem.advice);
    }
    if converter.report.lost_count() > lost {
        let id = converter.ids.fresh("not_converted");
        definition.nodes.push(TargetNode::placeholder(&id, "fields of the workflow"));
        entry.push(NeedEdge::to(&id));
    }
    let jobs = root.get("jobs").unwrap_or(root);
    let message = "commands run on the machine of the engine, in its folder, without a checkout";
    let advice = "prepare the folder, or write `cwd`; clone the repository in a step";
    converter.report.different(jobs, message, advice);
    converter.jobs(jobs, &scope, &defaults, &entry, &mut definition.nodes);
    if definition.nodes.is_empty() {
        converter.report.lost(jobs, "there are no jobs", "add one");
        definition.nodes.push(TargetNode::placeholder("jobs", "there are no jobs"));
    }
    definition
}

impl Converter<'_, '_> {
    /// Adds environment variables to those that are known. Later ones may use earlier ones.
    fn environment<'t>(
        &mut self,
        env: Option<&'t Tree>,
        scope: &mut JobScope,
    ) -> Result<(), Problem<'t>> {
        let Some(env) = env else { return Ok(()) };
        let outer = scope.clone();
        if env.entries().len() + outer.env.len() > VARIABLES_MAX {
            let message = "there are more than 200 variables";
            return Err(Problem::new(env, message, "set fewer of them"));
        }
        for entry in env.entries() {
            let value = self.text(&entry.value, &outer)?;
            scope.env.insert(entry.key.clone(), value);
        }
        Ok(())
    }

    fn defaults(&mut self, place: &Tree, outer: &Defaults) -> Defaults {
        let mut defaults = outer.clone();
        let Some(all) = place.get("defaults") else { return defaults };
        self.report.leftovers(all, &["run"]);
        if let Some(run) = all.get("run") {
            self.report.leftovers(run, &["shell", "working-directory"]);
            defaults.shell = run.text("shell").map(ToOwned::to_owned).or(defaults.shell);
            defaults.folder =
                run.text("working-directory").map(ToOwned::to_owned).or(defaults.folder);
        }
        defaults
    }
}
