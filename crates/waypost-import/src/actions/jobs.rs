//! Jobs: groups of steps that need each other, or maps over the combinations of a matrix.

use std::collections::BTreeMap;

use serde_json::Value;
use waypost_lang::Tree;

use super::{ADVICE, Converter, Defaults, JobScope, Problem};
use crate::expr::{Expr, Shape, literal_value};
use crate::read::SourceFields;
use crate::report::shortened;
use crate::target::{NeedEdge, TargetNode};

/// Jobs of one workflow that are followed.
const JOBS_MAX: usize = 500;

impl<'f> Converter<'_, 'f> {
    /// All jobs, those that others need first.
    pub(super) fn jobs(
        &mut self,
        jobs: &'f Tree,
        scope: &JobScope,
        defaults: &Defaults,
        entry: &[NeedEdge],
        nodes: &mut Vec<TargetNode>,
    ) {
        let mut done: BTreeMap<&str, String> = BTreeMap::new();
        let mut skippable: Vec<String> = Vec::new();
        let mut open: Vec<(&str, &Tree)> =
            jobs.entries().iter().take(JOBS_MAX).map(|e| (e.key.as_str(), &e.value)).collect();
        if jobs.entries().len() > JOBS_MAX {
            self.report.lost(jobs, "there are more than 500 jobs", "split the workflow");
        }
        while !open.is_empty() {
            let ready = open
                .iter()
                .position(|(_, job)| needs_of(job).iter().all(|need| done.contains_key(need)));
            let Some(at) = ready else {
                for (name, job) in open {
                    let place = job.get("needs").unwrap_or(job);
                    let message = "the job needs one that is not there, or that needs it";
                    self.report.lost(place, message, "correct `needs`");
                    let id = self.ids.fresh(name);
                    nodes.push(TargetNode::placeholder(&id, message).needing(entry.to_vec()));
                }
                return;
            };
            let (name, job) = open.remove(at);
            let id = self.ids.fresh(name);
            let needs: Vec<(&str, String)> =
                needs_of(job).into_iter().map(|need| (need, done[need].clone())).collect();
            let may_skip = needs.iter().any(|(_, node)| skippable.contains(node));
            if may_skip || job.has("if") {
                skippable.push(id.clone());
            }
            self.job(&id, name, job, (scope, defaults), &needs, (entry, may_skip), nodes);
            done.insert(name, id);
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "what a job depends on comes from several places"
    )]
    fn job(
        &mut self,
        id: &str,
        name: &str,
        job: &'f Tree,
        (scope, defaults): (&JobScope, &Defaults),
        needs: &[(&str, String)],
        (entry, may_skip): (&[NeedEdge], bool),
        nodes: &mut Vec<TargetNode>,
    ) {
        let mut before: Vec<NeedEdge> = needs.iter().map(|(_, node)| NeedEdge::to(node)).collect();
        if before.is_empty() {
            before = entry.to_vec();
        }
        let lost = self.report.lost_count();
        let scope = JobScope {
            needs: needs.iter().map(|(name, node)| ((*name).to_owned(), node.clone())).collect(),
            ..scope.clone()
        };
        let made = self.group(id, job, scope.clone(), defaults).and_then(|node| {
            Ok((node, job.get("if").map(|at| self.condition(at, &scope)).transpose()?.flatten()))
        });
        let (mut node, mut condition) = match made {
            Ok(made) => made,
            Err(problem) => {
                let what = format!("job {}: {}", shortened(name), problem.message);
                self.report.lost(problem.at, problem.message, problem.advice);
                let mut node = TargetNode::placeholder(id, &what);
                node.needs = before;
                nodes.push(node);
                return;
            }
        };
        // A job is skipped if one that it needs was.
        if may_skip {
            let all = needs.iter().map(|(_, need)| {
                let status = Expr::atom("nodes").field(need).field("status");
                status.compare("==", &Expr::atom("'COMPLETED'"))
            });
            let ran = all.reduce(|all, one| all.and(&one));
            condition = match (ran, condition) {
                (Some(ran), Some(condition)) => Some(ran.and(&condition)),
                (ran, condition) => ran.or(condition),
            };
        }
        if let Some(condition) = condition {
            let asked = self.ids.beside(id, "if");
            let mut ask = TargetNode::new(&asked, "condition").with("expression", condition.text());
            ask.needs = before;
            nodes.push(ask);
            before = vec![NeedEdge::on(&asked, "true")];
        }
        if self.report.lost_count() > lost && !has_placeholder(&node) {
            let stop = self.ids.beside(id, "not_converted");
            let mut placeholder =
                TargetNode::placeholder(&stop, &format!("a part of {}", shortened(name)));
            placeholder.needs = before;
            nodes.push(placeholder);
            before = vec![NeedEdge::to(&stop)];
        }
        node.label = job.text("name").filter(|name| !name.contains("${{")).map(ToOwned::to_owned);
        node.needs = before;
        nodes.push(node);
    }

    /// The node of a job, with its steps.
    fn group(
        &mut self,
        id: &str,
        job: &'f Tree,
        mut scope: JobScope,
        defaults: &Defaults,
    ) -> Result<TargetNode, Problem<'f>> {
        const KNOWN: &[&str] = &[
            "name",
            "needs",
            "if",
            "runs-on",
            "env",
            "defaults",
            "steps",
            "timeout-minutes",
            "strategy",
            "continue-on-error",
            "outputs",
            "permissions",
        ];
        for (field, advice) in [
            ("uses", "import the other workflow, and use a `workflow` node"),
            ("container", "run the container in the commands"),
            ("services", "start the services before, or in the commands"),
        ] {
            if let Some(at) = job.get(field) {
                return Err(Problem::new(at, format!("`{field}` has no counterpart"), advice));
            }
        }
        self.report.leftovers(job, KNOWN);
        let mut node = TargetNode::new(id, "group");
        if let Some(strategy) = job.get("strategy") {
            self.report.leftovers(strategy, &["matrix", "fail-fast", "max-parallel"]);
            let matrix = strategy.get("matrix").unwrap_or(strategy);
            let items = self.combinations(matrix)?;
            scope.has_matrix = true;
            node = TargetNode::new(id, "map")
                .with("items", literal_value(&Value::Array(items)))
                .with("stopOnFailure", strategy.flag("fail-fast") != Some(false));
            if let Some(most) = strategy.number("max-parallel").filter(|most| *most >= 1.0) {
                node = node.with("concurrency", crate::convert::whole(most).min(10_000));
            }
        }
        self.environment(job.get("env"), &mut scope)?;
        let defaults = self.defaults(job, defaults);
        let steps = job.get("steps").unwrap_or(job);
        let (steps, last) = self.steps(id, steps, &mut scope, &defaults)?;
        node.nodes = steps;
        if let Some(outputs) = job.get("outputs") {
            let mut fields = Vec::new();
            for output in outputs.entries() {
                fields.push((output.key.clone(), self.text(&output.value, &scope)?));
            }
            let output = TargetNode::new(&self.ids.beside(id, "outputs"), "output")
                .needing(last)
                .with("value", Shape::object(fields).to_value());
            node.nodes.push(output);
        }
        if let Some(minutes) = job.get("timeout-minutes") {
            let count = minutes
                .as_number()
                .ok_or_else(|| Problem::new(minutes, "the timeout is computed", ADVICE))?;
            node.set("deadline", crate::convert::millis(count * 60_000.0));
        }
        if job.flag("continue-on-error") == Some(true) {
            node.set("onError", "continue");
        }
        let what = if scope.has_matrix { "job with a matrix" } else { "job" };
        self.report.exact(job, format!("{what} `{id}`"));
        Ok(node)
    }
}

fn has_placeholder(node: &TargetNode) -> bool {
    node.nodes.iter().any(|inner| inner.notes.iter().any(|note| note.starts_with("NOT CONVERTED")))
}

fn needs_of(job: &Tree) -> Vec<&str> {
    match job.get("needs") {
        Some(needs) => match needs.as_text() {
            Some(one) => vec![one],
            None => needs.items().iter().filter_map(Tree::as_text).collect(),
        },
        None => Vec::new(),
    }
}
