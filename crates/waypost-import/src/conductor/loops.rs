//! `DO_WHILE` as a loop: the outputs of its body are the output of an iteration.

use serde_json::json;
use waypost_lang::Tree;

use super::{Converter, OutputForm, Referred, TaskProblem, Upstream};
use crate::expr::{Expr, Shape};
use crate::read::SourceFields;
use crate::report::shortened;
use crate::script::{self, Language, ScriptNames};
use crate::target::{NeedEdge, TargetNode};

impl Converter<'_, '_> {
    pub(super) fn do_while(
        &mut self,
        task: &Tree,
        exits: Vec<NeedEdge>,
        upstream: &mut Upstream,
        nodes: &mut Vec<TargetNode>,
    ) -> Vec<NeedEdge> {
        self.known(task);
        let id = self.id_of(task);
        let body = task.get("loopOver").map(SourceFields::items).unwrap_or_default();
        let mut inside = Upstream { inner: true, ..upstream.clone() };
        // What the body has not done yet in this iteration, it did in the one before.
        let previous = Expr::atom("previous").or_default(&json!({}));
        let mut names = Vec::new();
        references(body, &mut names, 0);
        for (name, form) in &names {
            let base = previous.field(&crate::names::identifier(name));
            let referred = Referred { base, form: form.clone(), uncertain: true };
            inside.tasks.insert(name.clone(), referred);
        }
        if let Some(name) = task.text("taskReferenceName") {
            let base = Expr::atom("iteration");
            let referred = Referred { base, form: OutputForm::Iteration, uncertain: false };
            inside.tasks.insert(name.to_owned(), referred);
        }
        let mut inner = Vec::new();
        let ends = self.list(body, Vec::new(), &mut inside, &mut inner);
        let mut fields = vec![("iteration".to_owned(), Shape::Expr(Expr::atom("iteration")))];
        for (name, _) in &names {
            let Some(referred) = inside.tasks.get(name) else { continue };
            if referred.base.text().starts_with("nodes") && referred.form != OutputForm::Opaque {
                let output = referred.base.filter("default", &[Expr::atom("none")]);
                let output = if referred.uncertain { output } else { referred.base.clone() };
                fields.push((crate::names::identifier(name), Shape::Expr(output)));
            }
        }
        let condition = match self.condition(task, &names, upstream) {
            Ok(condition) => condition,
            Err(reason) => return self.placeholder(task, reason, exits, upstream, nodes),
        };
        if ends.is_empty() {
            let reason =
                ("no way through the body goes on".to_owned(), "write it by hand".to_owned());
            return self.placeholder(task, reason, exits, upstream, nodes);
        }
        inner.push(
            TargetNode::new(&self.ids.beside(&id, "outputs"), "output")
                .needing(ends)
                .with("value", Shape::object(fields).to_value()),
        );
        let mut node = TargetNode::new(&id, "loop")
            .needing(exits)
            .with("until", condition.negated().text())
            .with("maxIterations", 1_000_000_000);
        node.nodes = inner;
        nodes.push(node);
        self.report.exact(task, format!("DO_WHILE task `{}`", shortened(&id)));
        self.refer(task, &id, OutputForm::Loop, upstream);
        for (name, form) in names {
            let base = Expr::output_of(&id).field(&crate::names::identifier(&name));
            upstream.tasks.insert(name, Referred { base, form, uncertain: true });
        }
        vec![NeedEdge::to(&id)]
    }

    /// Whether the loop goes on; it sees the outputs of its body as `previous`.
    fn condition(
        &mut self,
        task: &Tree,
        names: &[(String, OutputForm)],
        upstream: &Upstream,
    ) -> Result<Expr, TaskProblem> {
        let advice = || "write `until` by hand".to_owned();
        let source = task
            .text("loopCondition")
            .filter(|source| !source.trim().is_empty())
            .ok_or_else(|| ("there is no `loopCondition`".to_owned(), advice()))?;
        let mut seen = upstream.clone();
        for (name, form) in names {
            let base = Expr::atom("previous").field(&crate::names::identifier(name));
            let referred = Referred { base, form: form.clone(), uncertain: false };
            seen.tasks.insert(name.clone(), referred);
        }
        let inputs = self.inputs(task, &seen)?;
        let own = task.text("taskReferenceName").unwrap_or_default();
        let resolve = |name: &str, fields: &[String]| -> Result<(Shape, usize), String> {
            if name != "$" {
                return Err(format!("the name `{}` is unknown", shortened(name)));
            }
            let Some(first) = fields.first() else { return Ok((inputs.clone(), 0)) };
            if first == own {
                let is_count = fields.get(1).is_some_and(|field| field == "iteration");
                let known = is_count.then(|| (Shape::Expr(Expr::atom("iteration")), 2));
                return known.ok_or_else(|| format!("a field of `{}` is unknown", shortened(own)));
            }
            if let Some((_, form)) = names.iter().find(|(name, _)| name == first) {
                let path = fields[1..].iter().take(2).map(String::as_str).collect::<Vec<_>>();
                let base = Expr::atom("previous").field(&crate::names::identifier(first));
                return Ok(match (form, &path[..]) {
                    (OutputForm::Http, ["response", "statusCode"]) => {
                        (base.field("status").into(), 3)
                    }
                    (OutputForm::Http, ["response", part]) => (base.field(part).into(), 3),
                    (OutputForm::Result, ["result", ..]) => (base.into(), 2),
                    (OutputForm::Same, _) => (base.into(), 1),
                    _ => return Err(format!("a field of `{}` is unknown", shortened(first))),
                });
            }
            Ok((inputs.clone(), 0))
        };
        let names = ScriptNames { language: Language::JavaScript, dot: None, resolve: &resolve };
        let found = script::parse(source, Language::JavaScript).and_then(|ast| names.truth(&ast));
        found.map_err(|message| (format!("the condition: {message}"), advice()))
    }
}

/// The names of the tasks in a body, also in its branches, with the form of their outputs.
fn references(tasks: &[Tree], found: &mut Vec<(String, OutputForm)>, depth: usize) {
    if depth > super::DEPTH_MAX {
        return;
    }
    for task in tasks {
        let form = match task.text("type").unwrap_or("SIMPLE") {
            "HTTP" => OutputForm::Http,
            "INLINE" | "LAMBDA" | "JSON_JQ_TRANSFORM" => OutputForm::Result,
            "SWITCH" | "DECISION" => OutputForm::Switch,
            "START_WORKFLOW" => OutputForm::Started,
            "SET_VARIABLE" | "JOIN" | "FORK_JOIN" | "TERMINATE" | "EXCLUSIVE_JOIN" => {
                OutputForm::Opaque
            }
            "DO_WHILE" => OutputForm::Loop,
            _ => OutputForm::Same,
        };
        if let Some(name) = task.text("taskReferenceName") {
            found.push((name.to_owned(), form));
        }
        let cases = task.get("decisionCases").map(SourceFields::entries).unwrap_or_default();
        let lists = cases.iter().map(|case| &case.value).chain(task.get("defaultCase"));
        let forks = task.get("forkTasks").map(SourceFields::items).unwrap_or_default();
        for list in lists.chain(forks) {
            references(list.items(), found, depth + 1);
        }
    }
}
