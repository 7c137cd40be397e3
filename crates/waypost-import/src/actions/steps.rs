//! Steps that run commands, as `shell` nodes.

use serde_json::json;
use waypost_lang::Tree;

use super::{ADVICE, Converter, Defaults, JobScope, Problem};
use crate::expr::Shape;
use crate::read::SourceFields;
use crate::report::shortened;
use crate::target::{NeedEdge, TargetNode};

/// Steps of one job.
const STEPS_MAX: usize = 1_000;
/// Where a step writes its outputs.
const OUTPUT_FILE: &str = "GITHUB_OUTPUT";
/// Files that have no counterpart.
const OTHER_FILES: &[&str] = &["GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE"];

const STEP: &[&str] = &[
    "id",
    "name",
    "if",
    "run",
    "shell",
    "working-directory",
    "env",
    "timeout-minutes",
    "continue-on-error",
];

impl<'f> Converter<'_, 'f> {
    /// The steps of a job, one after the other, and the edges behind the last one.
    pub(super) fn steps(
        &mut self,
        job: &str,
        steps: &'f Tree,
        scope: &mut JobScope,
        defaults: &Defaults,
    ) -> Result<(Vec<TargetNode>, Vec<NeedEdge>), Problem<'f>> {
        let mut nodes = Vec::new();
        let mut before: Vec<NeedEdge> = Vec::new();
        if steps.items().is_empty() {
            return Err(Problem::new(steps, "the job has no steps", "add one"));
        }
        if steps.items().len() > STEPS_MAX {
            return Err(Problem::new(steps, "the job has more than 1,000 steps", "split it"));
        }
        for (number, step) in steps.items().iter().enumerate() {
            let name = step.text("id").or(step.text("name")).filter(|name| !name.contains("${{"));
            let id = match name {
                Some(name) => self.ids.fresh(name),
                None => self.ids.beside(job, &format!("step_{}", number + 1)),
            };
            let (mark, lost) = (self.report.mark(), self.report.lost_count());
            let made = self.step(&id, step, scope, defaults).and_then(|node| {
                Ok((
                    node,
                    step.get("if").map(|at| self.condition(at, scope)).transpose()?.flatten(),
                ))
            });
            let (mut node, condition) = match made {
                Ok(made) => made,
                Err(problem) => {
                    let what = format!("step {}: {}", number + 1, problem.message);
                    self.report.lost(problem.at, problem.message, problem.advice);
                    (TargetNode::placeholder(&id, &what), None)
                }
            };
            if self.report.lost_count() > lost && node.kind != "fail" {
                let stop = self.ids.beside(&id, "not_converted");
                let what = format!("a part of step {}", number + 1);
                nodes.push(TargetNode::placeholder(&stop, &what).needing(before));
                before = vec![NeedEdge::to(&stop)];
            }
            let mut skipped = None;
            if let Some(condition) = condition {
                let asked = self.ids.beside(&id, "if");
                let ask = TargetNode::new(&asked, "condition").with("expression", condition.text());
                nodes.push(ask.needing(before));
                before = vec![NeedEdge::on(&asked, "true")];
                skipped = Some(NeedEdge::on(&asked, "false"));
            }
            node.need(before);
            node.label = step.text("name").filter(|name| **name != *id).map(ToOwned::to_owned);
            nodes.push(node);
            before = std::iter::once(NeedEdge::to(&id)).chain(skipped).collect();
            if let Some(name) = step.text("id") {
                scope.steps.insert(name.to_owned(), id.clone());
            }
            self.report.exact_since(mark, step, format!("step `{id}`"));
        }
        Ok((nodes, before))
    }

    fn step(
        &mut self,
        id: &str,
        step: &'f Tree,
        scope: &JobScope,
        defaults: &Defaults,
    ) -> Result<TargetNode, Problem<'f>> {
        if let Some(at) = step.get("uses") {
            let message = format!(
                "the action `{}` has no counterpart",
                shortened(at.as_text().unwrap_or("?"))
            );
            return Err(Problem::new(at, message, "write what it does as a command"));
        }
        self.report.leftovers(step, STEP);
        let at = step
            .get("run")
            .ok_or_else(|| Problem::new(step, "the step runs nothing", "add `run`"))?;
        let mut own = scope.clone();
        self.environment(step.get("env"), &mut own)?;
        let source = at.as_text().unwrap_or_default();
        if let Some(file) = OTHER_FILES.iter().find(|file| source.contains(**file)) {
            let message = format!("`{file}` has no counterpart");
            return Err(Problem::new(
                at,
                message,
                "pass values on as outputs, or write them in `env`",
            ));
        }
        let args = self.args(step, at, &own, defaults)?;
        let mut node = TargetNode::new(id, "shell").with("args", json!(args));
        if !own.env.is_empty() {
            let env: Vec<(String, Shape)> =
                own.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
            node = node.with("env", Shape::object(env).to_value());
        }
        let folder = step.get("working-directory").map(|at| self.text(at, &own)).transpose()?;
        let folder = match (folder, &defaults.folder) {
            (Some(folder), _) => Some(folder),
            (None, Some(folder)) => {
                let found = self.template(folder, &own);
                Some(found.map_err(|message| Problem::new(step, message, ADVICE))?)
            }
            (None, None) => None,
        };
        if let Some(folder) = folder {
            node = node.with("cwd", folder.to_value());
        }
        if let Some(minutes) = step.get("timeout-minutes") {
            let count = minutes.as_number().filter(|count| *count > 0.0);
            let count =
                count.ok_or_else(|| Problem::new(minutes, "the timeout is computed", ADVICE))?;
            node.set("timeout", crate::convert::millis(count * 60_000.0));
        }
        match step.get("continue-on-error") {
            Some(at) if at.as_flag() == Some(true) => node.set("onError", "continue"),
            Some(at) if at.as_flag().is_none() => {
                return Err(Problem::new(at, "`continue-on-error` is computed", ADVICE));
            }
            _ => {}
        }
        Ok(node)
    }

    /// The program of a step, and its script.
    fn args(
        &mut self,
        step: &'f Tree,
        at: &'f Tree,
        scope: &JobScope,
        defaults: &Defaults,
    ) -> Result<Vec<String>, Problem<'f>> {
        let source = at.as_text().unwrap_or_default();
        let script = self.text(at, scope)?.to_value();
        let script = script.as_str().unwrap_or_default();
        if script.contains("${{ secrets.") {
            let message = "a secret may not be in a command, which every process can read";
            return Err(Problem::new(at, message, "put it into `env`, and use the variable"));
        }
        if source.contains("${{") {
            let message = "values become a part of the command, with their quotes";
            self.report.different(at, message, "put them into `env`, and use the variables");
        }
        let script = match source.contains(OUTPUT_FILE) {
            true => {
                self.outputs(at, source);
                with_outputs(script)
            }
            false => script.to_owned(),
        };
        let shell = step.text("shell").map(ToOwned::to_owned).or_else(|| defaults.shell.clone());
        let program: &[&str] = match shell.as_deref() {
            None => &["bash", "-e", "-c"],
            Some("bash") => &["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c"],
            Some("sh") => &["sh", "-e", "-c"],
            Some("python") if !source.contains(OUTPUT_FILE) => &["python3", "-c"],
            Some(other) => {
                let place = step.get("shell").unwrap_or(step);
                let message = format!("the shell `{}` has no counterpart", shortened(other));
                return Err(Problem::new(place, message, "write `args` by hand"));
            }
        };
        let mut args: Vec<String> = program.iter().map(|word| (*word).to_owned()).collect();
        args.push(script);
        Ok(args)
    }

    fn outputs(&mut self, at: &Tree, source: &str) {
        if source.contains("<<") {
            let message = "outputs of several lines are cut to their first line";
            self.report.different(at, message, "write each output as one line, `name=value`");
        }
    }
}

/// The script with its outputs as its only output to stdout: what else it prints goes to stderr.
fn with_outputs(script: &str) -> String {
    format!(
        "{OUTPUT_FILE}=$(mktemp)\nexport {OUTPUT_FILE}\n(\n{}\n) >&2\ncat \"${OUTPUT_FILE}\"\nrm -f \"${OUTPUT_FILE}\"\n",
        script.trim_end()
    )
}
