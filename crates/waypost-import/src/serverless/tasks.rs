//! One task as a step: its kind, its data, and where it leads.

use serde_json::{Value, json};
use waypost_lang::Tree;

use super::{CONTEXT, Converter, EXPRESSION, Problem, TaskView, constant_duration};
use crate::expr::{Expr, Shape};
use crate::machine::{Goal, MachineStep, Transition};
use crate::read::SourceFields;
use crate::report::shortened;
use crate::target::{NeedEdge, TargetNode};

/// The nodes of a task: those before its main node, that one, and what is behind it.
pub(super) struct Made {
    pub(super) before: Vec<TargetNode>,
    pub(super) main: TargetNode,
    pub(super) after: Vec<TargetNode>,
    /// The result, as the variables of the main node see it; without one, the data stays as it is.
    pub(super) result: Option<Shape>,
    /// Further ways to what follows.
    pub(super) exits: Vec<NeedEdge>,
    /// Does the main node itself lead on?
    pub(super) goes_on: bool,
}

impl Made {
    pub(super) fn of(main: TargetNode, result: Option<Shape>) -> Self {
        Self { before: vec![], main, after: vec![], result, exits: vec![], goes_on: true }
    }
}

const COMMON: &[&str] = &["if", "input", "output", "export", "timeout", "then", "metadata"];

impl<'f> Converter<'_, 'f> {
    pub(super) fn step(
        &mut self,
        id: &str,
        view: TaskView<'f, '_>,
        next: Goal,
        names: &[&str],
    ) -> Result<MachineStep, Problem<'f>> {
        let bad = |at, message: String| Problem::new(at, message, EXPRESSION);
        let data = Shape::Expr(view.scope.data());
        let input = match view.tree.get("input").and_then(|input| input.get("from")) {
            Some(from) => {
                let input = self.evaluate(from, &data, view.scope, view.name);
                input.map_err(|message| bad(from, message))?
            }
            None => data.clone(),
        };
        if let Some(cases) = view.tree.get("switch") {
            self.input = Some(input.clone());
            return self.switch(id, view, cases, &input, next, names);
        }
        self.input = Some(input.clone());
        let mut made = self.made(id, view, &input)?;
        self.input = Some(input);
        self.data_after(view, &mut made)?;
        if let Some(at) = view.tree.get("timeout") {
            match self.timeout(at) {
                Some(duration) => made.main.set("deadline", duration),
                None => {
                    self.report.lost(at, "the timeout is no constant duration", "write it by hand")
                }
            }
        }
        let goal = match view.tree.get("then") {
            Some(at) => self.goal(at, view, next, names),
            None => next,
        };
        let mut step = MachineStep { name: id.to_owned(), ..MachineStep::default() };
        for exit in made.exits {
            step.outs.push(Transition { from: exit, to: goal });
        }
        if made.goes_on {
            step.outs.push(Transition { from: NeedEdge::to(&made.main.id), to: goal });
        }
        step.nodes = made.before;
        step.nodes.push(made.main);
        step.nodes.extend(made.after);
        if let Some(at) = view.tree.get("if") {
            let source = at.as_text().unwrap_or_default();
            let condition = self.condition(source, &data, view.scope, view.name);
            let condition = condition.map_err(|message| bad(at, message))?;
            let asked = self.ids.beside(id, "if");
            let node = TargetNode::new(&asked, "condition").with("expression", condition.text());
            step.nodes[0].need(vec![NeedEdge::on(&asked, "true")]);
            step.nodes.insert(0, node);
            step.outs.push(Transition { from: NeedEdge::on(&asked, "false"), to: next });
        }
        Ok(step)
    }

    /// Where a directive leads.
    pub(super) fn goal(
        &mut self,
        at: &Tree,
        view: TaskView<'_, '_>,
        next: Goal,
        names: &[&str],
    ) -> Goal {
        match at.as_text() {
            Some("continue") => next,
            Some("exit") => Goal::End,
            Some("end") if view.scope.depth == 0 => Goal::End,
            Some("end") => {
                let message = "the end of the workflow from inside of a body has no counterpart";
                self.report.lost(at, message, "use `exit`, and decide behind the body");
                Goal::End
            }
            Some(name) => match names.iter().position(|known| *known == name) {
                Some(step) => Goal::Step(step),
                None => {
                    let message = format!("there is no task `{}` in this list", shortened(name));
                    self.report.lost(at, message, "name a task of the same list");
                    next
                }
            },
            None => next,
        }
    }

    fn made(
        &mut self,
        id: &str,
        view: TaskView<'f, '_>,
        input: &Shape,
    ) -> Result<Made, Problem<'f>> {
        const KINDS: &[(&str, &[&str])] = &[
            ("call", &["with"]),
            ("emit", &[]),
            ("for", &["while", "do"]),
            ("fork", &[]),
            ("listen", &["foreach"]),
            ("raise", &[]),
            ("run", &[]),
            ("set", &[]),
            ("try", &["catch"]),
            ("wait", &[]),
            ("do", &[]),
        ];
        let tree = view.tree;
        let Some((kind, more)) = KINDS.iter().find(|(kind, _)| tree.has(kind)) else {
            let message = "the task has none of the known kinds";
            return Err(Problem::new(tree, message, "write its node by hand"));
        };
        let known: Vec<&str> = COMMON.iter().chain(*more).chain([kind]).copied().collect();
        self.report.leftovers(tree, &known);
        let at = tree.get(kind).unwrap_or(tree);
        if ["for", "fork", "try", "do"].contains(kind) {
            // What is in its lists is reported by itself.
            self.report.exact(tree, format!("`{kind}` task `{}`", shortened(view.name)));
        }
        match *kind {
            "call" => self.call(id, view, at, input),
            "emit" => self.emit(id, view, at, input),
            "for" => self.repeat(id, view, at, input),
            "fork" => self.fork(id, view, at, input),
            "listen" => self.listen(id, view, at, input),
            "raise" => self.raise(id, view, at, input),
            "run" => self.run(id, view, at, input),
            "try" => self.attempt(id, view, at, input),
            "do" => self.nested(id, view, at, input),
            "wait" => {
                let duration = match constant_duration(at) {
                    Some(duration) => duration,
                    None => self.value(at, view, input)?.to_value(),
                };
                let node = TargetNode::new(id, "delay").with("duration", duration);
                let result = (tree.has("input") || tree.has("output")).then(|| input.clone());
                Ok(Made::of(node, result))
            }
            _ => {
                let value = self.value(at, view, input)?;
                Ok(Made::of(TargetNode::new(id, "noop"), Some(value)))
            }
        }
    }

    /// A value with expressions of a task.
    pub(super) fn value(
        &self,
        at: &'f Tree,
        view: TaskView<'f, '_>,
        input: &Shape,
    ) -> Result<Shape, Problem<'f>> {
        let value = self.evaluate(at, input, view.scope, view.name);
        value.map_err(|message| Problem::new(at, message, EXPRESSION))
    }

    /// `output.as` and `export.as`.
    fn data_after(&mut self, view: TaskView<'f, '_>, made: &mut Made) -> Result<(), Problem<'f>> {
        for part in ["input", "output", "export"] {
            let Some(field) = view.tree.get(part) else { continue };
            self.report.leftovers(field, &["from", "as", "schema"]);
            if let Some(schema) = field.get("schema") {
                let message = "the data between tasks is not checked against a schema";
                self.report.different(schema, message, "check it in a `condition`");
            }
        }
        let bad = |at, message: String| Problem::new(at, message, EXPRESSION);
        let data = Shape::Expr(view.scope.data());
        let mut output = made.result.clone();
        if let Some(at) = view.tree.get("output").and_then(|output| output.get("as")) {
            let raw = output.as_ref().unwrap_or(&data);
            let value = self.evaluate(at, raw, view.scope, view.name);
            output = Some(value.map_err(|message| bad(at, message))?);
        }
        if let Some(at) = view.tree.get("export").and_then(|export| export.get("as")) {
            let raw = output.as_ref().unwrap_or(&data);
            let value = self.evaluate(at, raw, view.scope, view.name);
            let value = value.map_err(|message| bad(at, message))?;
            made.main.variables.insert(CONTEXT.to_owned(), value.to_value());
        }
        if let Some(output) = output.filter(|output| *output != data) {
            made.main.variables.insert(view.scope.data.clone(), output.to_value());
        }
        Ok(())
    }

    fn switch(
        &mut self,
        id: &str,
        view: TaskView<'f, '_>,
        cases: &'f Tree,
        input: &Shape,
        next: Goal,
        names: &[&str],
    ) -> Result<MachineStep, Problem<'f>> {
        self.report.leftovers(view.tree, &["switch", "input", "then", "metadata"]);
        if let Some(at) = view.tree.get("input") {
            let message = "`input` of a switch has no counterpart";
            return Err(Problem::new(at, message, "use a `set` task before it"));
        }
        let mut step = MachineStep { name: id.to_owned(), ..MachineStep::default() };
        let mut written: Vec<Value> = Vec::new();
        let mut default = None;
        for (number, case) in cases.items().iter().filter_map(|c| c.entries().first()).enumerate() {
            let goal = match case.value.get("then") {
                Some(at) => self.goal(at, view, next, names),
                None => next,
            };
            let branch = format!("{}_{}", crate::names::identifier(&case.key), number + 1);
            let branch: String =
                branch.chars().rev().take(64).collect::<Vec<_>>().into_iter().rev().collect();
            let Some(at) = case.value.get("when") else {
                default = Some(goal);
                break;
            };
            let source = at.as_text().unwrap_or_default();
            let when = self.condition(source, input, view.scope, view.name);
            let when = when.map_err(|message| Problem::new(at, message, EXPRESSION))?;
            written.push(json!({ "when": when.text(), "branch": branch }));
            step.outs.push(Transition { from: NeedEdge::on(id, &branch), to: goal });
        }
        if written.is_empty() {
            return Err(Problem::new(cases, "a `switch` needs a case with `when`", "add one"));
        }
        step.outs
            .push(Transition { from: NeedEdge::on(id, "default"), to: default.unwrap_or(next) });
        step.nodes
            .push(TargetNode::new(id, "switch").with("cases", written).with("default", "default"));
        Ok(step)
    }
}

/// The output of the node itself.
pub(super) fn output() -> Shape {
    Shape::Expr(Expr::atom("output"))
}
