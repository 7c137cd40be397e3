//! Switches, forks and terminations.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use waypost_lang::Tree;

use super::{Converter, OutputForm, Referred, TaskProblem, Upstream};
use crate::expr::{Expr, Shape, quoted};
use crate::names;
use crate::read::SourceFields;
use crate::script::Language;
use crate::target::{NeedEdge, TargetNode};

impl Converter<'_, '_> {
    pub(super) fn switch(
        &mut self,
        task: &Tree,
        exits: Vec<NeedEdge>,
        upstream: &mut Upstream,
        nodes: &mut Vec<TargetNode>,
    ) -> Vec<NeedEdge> {
        self.known(task);
        let value = match self.case_value(task, upstream) {
            Ok(value) => value,
            Err(reason) => return self.placeholder(task, reason, exits, upstream, nodes),
        };
        let id = self.id_of(task);
        let mut cases = Vec::new();
        let mut branches = vec![("default".to_owned(), task.get("defaultCase"))];
        for case in task.get("decisionCases").map(SourceFields::entries).unwrap_or_default() {
            let mut branch = names::identifier(&case.key);
            if branches.iter().any(|(known, _)| *known == branch) {
                branch = names::identifier(&format!("case_{}_{branch}", branches.len()));
            }
            // Cases are compared as texts.
            let is_word = serde_json::from_str::<Value>(&case.key).is_err();
            let when = if is_word {
                value.compare("==", &Expr::atom(quoted(&case.key)))
            } else {
                let both = json!([case.key, json!(case.key).to_string()]);
                value.filter("tojson", &[]).compare("in", &Expr::literal(&both))
            };
            cases.push(json!({ "when": when.text(), "branch": branch }));
            branches.push((branch, Some(&case.value)));
        }
        if cases.is_empty() {
            let reason = ("there are no `decisionCases`".to_owned(), "add a case".to_owned());
            return self.placeholder(task, reason, exits, upstream, nodes);
        }
        nodes.push(
            TargetNode::new(&id, "switch")
                .needing(exits)
                .with("cases", cases)
                .with("default", "default"),
        );
        self.report.exact(task, format!("SWITCH task `{id}`"));
        self.refer(task, &id, OutputForm::Switch, upstream);
        let before = upstream.clone();
        let mut ends = Vec::new();
        branches.rotate_left(1);
        for (branch, list) in branches {
            let mut inside = before.clone();
            let list = list.map(SourceFields::items).unwrap_or_default();
            ends.extend(self.list(list, vec![NeedEdge::on(&id, &branch)], &mut inside, nodes));
            for (name, referred) in inside.tasks {
                if is_new(&name, &referred, &before) {
                    upstream.tasks.insert(name, Referred { uncertain: true, ..referred });
                }
            }
        }
        ends
    }

    fn case_value(&mut self, task: &Tree, upstream: &Upstream) -> Result<Expr, TaskProblem> {
        let inputs = self.inputs(task, upstream)?;
        let script = match task.text("evaluatorType") {
            Some("value-param") => None,
            Some(_) => task.text("expression"),
            None => task.text("caseExpression"),
        };
        if let Some(source) = script {
            return self.script(source, Language::JavaScript, &inputs).map(|shape| shape.to_expr());
        }
        let name = task.text("caseValueParam").or(task.text("expression")).ok_or_else(|| {
            ("there is no `expression`".to_owned(), "say what the cases are of".to_owned())
        })?;
        let value = inputs.field(name);
        if matches!(&value, Shape::Expr(expr) if inputs.to_expr().field(name) == *expr) {
            let message = format!("there is no input parameter `{name}`");
            return Err((message, "name one".to_owned()));
        }
        Ok(value.to_expr())
    }

    /// Branches side by side, and the join behind them.
    pub(super) fn fork(
        &mut self,
        task: &Tree,
        join: Option<&Tree>,
        exits: Vec<NeedEdge>,
        upstream: &mut Upstream,
        nodes: &mut Vec<TargetNode>,
    ) -> Vec<NeedEdge> {
        self.known(task);
        let mut ends_of: BTreeMap<String, Vec<NeedEdge>> = BTreeMap::new();
        let mut lasts = Vec::new();
        let before = upstream.clone();
        for branch in task.get("forkTasks").map(SourceFields::items).unwrap_or_default() {
            let mut inside = Upstream { inner: true, last: None, ..before.clone() };
            let mut here = exits.clone();
            for one in branch.items() {
                here = self.list(std::slice::from_ref(one), here, &mut inside, nodes);
                if let Some(name) = one.text("taskReferenceName") {
                    ends_of.insert(name.to_owned(), here.clone());
                }
            }
            lasts.push(here);
            for (name, referred) in inside.tasks {
                if is_new(&name, &referred, &before) {
                    upstream.tasks.insert(name, referred);
                }
            }
        }
        let Some(join) = join else {
            let id = self.id_of(task);
            let needs = lasts.into_iter().map(|ends| self.settled(&id, ends, nodes)).collect();
            let mut node = TargetNode::new(&id, "noop");
            node.needs = needs;
            nodes.push(node);
            return vec![NeedEdge::to(&id)];
        };
        self.known(join);
        let id = self.id_of(join);
        let names: Vec<&str> = join
            .get("joinOn")
            .map(SourceFields::items)
            .unwrap_or_default()
            .iter()
            .filter_map(Tree::as_text)
            .collect();
        let mut ends: Vec<Vec<NeedEdge>> =
            names.iter().filter_map(|name| ends_of.get(*name).cloned()).collect();
        if ends.len() < names.len() {
            let reason = (
                "`joinOn` names a task that is not in the fork".to_owned(),
                "correct it".to_owned(),
            );
            return self.placeholder(join, reason, exits, upstream, nodes);
        }
        if names.is_empty() {
            ends = lasts;
        } else if names.len() < lasts.len() {
            let message = "branches that are not joined run beside what follows, which cannot use their outputs";
            self.report.different(join, message, "join all branches whose outputs are used");
            upstream.tasks.retain(|name, _| {
                before.tasks.contains_key(name) || names.contains(&name.as_str())
            });
        }
        let mut needs: Vec<NeedEdge> =
            ends.into_iter().map(|ends| self.settled(&id, ends, nodes)).collect();
        needs.sort();
        needs.dedup();
        let mut node = TargetNode::new(&id, "noop");
        if join.text("type") == Some("EXCLUSIVE_JOIN") && needs.len() > 1 {
            node.join = Some(json!("any"));
        }
        node.needs = needs;
        nodes.push(node);
        self.report.exact(task, format!("FORK_JOIN task, joined by `{id}`"));
        self.refer(join, &id, OutputForm::Join, upstream);
        vec![NeedEdge::to(&id)]
    }

    /// One edge that is taken by all of several exclusive ways.
    fn settled(&mut self, id: &str, ends: Vec<NeedEdge>, nodes: &mut Vec<TargetNode>) -> NeedEdge {
        if let [NeedEdge { node, branch: None }] = &ends[..] {
            return NeedEdge::to(node);
        }
        let merge = self.ids.beside(id, "way");
        nodes.push(TargetNode::new(&merge, "noop").needing(ends));
        NeedEdge::to(&merge)
    }

    pub(super) fn terminate(
        &mut self,
        task: &Tree,
        exits: Vec<NeedEdge>,
        upstream: &mut Upstream,
        nodes: &mut Vec<TargetNode>,
    ) -> Vec<NeedEdge> {
        self.known(task);
        let inputs = match self.inputs(task, upstream) {
            Ok(inputs) => inputs,
            Err(reason) => return self.placeholder(task, reason, exits, upstream, nodes),
        };
        let place = task.get("inputParameters").unwrap_or(task);
        let status = place.text("terminationStatus").unwrap_or_default();
        let output = place.get("workflowOutput").map(|_| inputs.field("workflowOutput").to_value());
        match status {
            "COMPLETED" if !upstream.inner => {
                let id = self.id_of(task);
                let node = TargetNode::new(&id, "noop")
                    .needing(exits)
                    .variable("result", output.unwrap_or(json!({})));
                self.has_terminations = true;
                self.terminations.push(node);
                Vec::new()
            }
            "FAILED" | "TERMINATED" => {
                let id = self.id_of(task);
                let reason = match place.get("terminationReason") {
                    Some(_) => inputs.field("terminationReason").to_value(),
                    None => json!("terminated"),
                };
                let reason = if reason == "" { json!("terminated") } else { reason };
                let mut node = TargetNode::new(&id, "fail").needing(exits).with("message", reason);
                if status == "TERMINATED" {
                    let message =
                        "a terminated execution is FAILED here, with the kind `terminated`";
                    self.report.different(task, message, "look for this kind");
                    node = node.with("kind", "terminated");
                }
                if let Some(output) = output {
                    node = node.with("details", output);
                }
                nodes.push(node);
                Vec::new()
            }
            "COMPLETED" => {
                let message =
                    "the end of the workflow from inside of a fork or a loop has no counterpart";
                let advice = "end the loop or the branch, and decide behind it".to_owned();
                self.placeholder(task, (message.to_owned(), advice), exits, upstream, nodes)
            }
            _ => {
                let reason = (
                    "the status is computed, or missing".to_owned(),
                    "write it by hand".to_owned(),
                );
                self.placeholder(task, reason, exits, upstream, nodes)
            }
        }
    }
}

/// Was the task not known before, or as that of an earlier iteration?
fn is_new(name: &str, referred: &Referred, before: &Upstream) -> bool {
    before.tasks.get(name).is_none_or(|known| known.base != referred.base)
}
