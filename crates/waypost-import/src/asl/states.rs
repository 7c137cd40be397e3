//! One state as a step: its nodes, and its transitions.

use serde_json::json;
use waypost_lang::Tree;

use super::data::{self, StateView};
use super::{Converter, MachineScope, Problem, choice, next_of};
use crate::expr::{Shape, literal_text};
use crate::machine::{Goal, MachineStep, Transition};
use crate::names;
use crate::read::SourceFields;
use crate::report::shortened;
use crate::target::{NeedEdge, TargetNode};

/// SourceFields that most states have.
const COMMON: &[&str] = &[
    "Type",
    "Comment",
    "Next",
    "End",
    "InputPath",
    "OutputPath",
    "Parameters",
    "ResultSelector",
    "ResultPath",
    "Retry",
    "Catch",
    "Assign",
    "QueryLanguage",
];

impl Converter<'_, '_> {
    /// The step of a state.
    pub(super) fn state<'t>(
        &mut self,
        id: &str,
        name: &'t str,
        states: &'t Tree,
        state: &'t Tree,
        scope: &'t MachineScope,
    ) -> Result<MachineStep, Problem<'t>> {
        let view = StateView { name, tree: state, states, scope };
        let mut step = match state.text("Type") {
            Some("Pass") => self.pass(id, view)?,
            Some("Task") => self.task(id, view)?,
            Some("Wait") => self.wait(id, view)?,
            Some("Choice") => return self.choice(id, view),
            Some("Succeed") => return self.succeed(id, view),
            Some("Fail") => return self.fail(id, view),
            Some("Parallel") => self.parallel(id, view)?,
            Some("Map") => self.map(id, view)?,
            kind => {
                let message =
                    format!("states of type `{}` are unknown", shortened(kind.unwrap_or("?")));
                return Err(Problem::new(
                    state.get("Type").unwrap_or(state),
                    message,
                    "correct it",
                ));
            }
        };
        step.name = id.to_owned();
        step.outs.extend(next_of(state, states, NeedEdge::to(&step.nodes[0].id)));
        if matches!(state.text("Type"), Some("Task" | "Parallel" | "Map")) {
            if let Some(retry) = super::errors::retry(state, self.report) {
                step.nodes[0].set("retry", retry);
            }
            self.catch(view, &mut step, 0)?;
        }
        Ok(step)
    }

    /// Reports the fields that neither this type of state nor all states have.
    pub(super) fn only(&mut self, state: &Tree, fields: &[&str]) {
        let known: Vec<&str> = COMMON.iter().chain(fields).copied().collect();
        self.report.leftovers(state, &known);
    }

    fn pass<'t>(&mut self, id: &str, view: StateView<'t>) -> Result<MachineStep, Problem<'t>> {
        self.only(view.tree, &["Result"]);
        let result = match view.tree.get("Result") {
            Some(result) => Shape::Constant(result.json()),
            None => view.effective_input()?,
        };
        let mut node = TargetNode::new(id, "noop");
        if let Some(data) = view.data_after(&result)?
            && data != Shape::Expr(view.scope.data())
        {
            node.variables.insert(view.scope.data.clone(), data.to_value());
        }
        view.assign(view.tree, &view.scope.data(), &mut node)?;
        Ok(MachineStep { nodes: vec![node], ..MachineStep::default() })
    }

    fn wait<'t>(&mut self, id: &str, view: StateView<'t>) -> Result<MachineStep, Problem<'t>> {
        self.only(view.tree, &["Seconds", "SecondsPath", "Timestamp", "TimestampPath"]);
        let input = view.input()?;
        let mut node = TargetNode::new(id, "delay");
        if let Some(count) = view.tree.number("Seconds") {
            node = node.with("duration", data::seconds(count));
        } else if let Some(path) = view.path("SecondsPath", input.clone())? {
            node = node.with("duration", path.template()).with("unit", "seconds");
        } else if let Some(time) = view.tree.text("Timestamp") {
            node = node.with("until", literal_text(time));
        } else if let Some(path) = view.path("TimestampPath", input.clone())? {
            node = node.with("until", path.template());
        } else {
            let message = "a Wait state needs `Seconds` or `Timestamp`";
            return Err(Problem::new(view.tree, message, "say how long it waits"));
        }
        if let Some(data) = view.data_after(&Shape::Expr(input.clone()))?
            && data != Shape::Expr(view.scope.data())
        {
            node.variables.insert(view.scope.data.clone(), data.to_value());
        }
        view.assign(view.tree, &input, &mut node)?;
        Ok(MachineStep { nodes: vec![node], ..MachineStep::default() })
    }

    fn choice<'t>(&mut self, id: &str, view: StateView<'t>) -> Result<MachineStep, Problem<'t>> {
        self.only(view.tree, &["Choices", "Default"]);
        let states = view.states;
        let input = view.input()?;
        let mut step = MachineStep { name: id.to_owned(), ..MachineStep::default() };
        let mut cases = Vec::new();
        let mut after = Vec::new();
        let narrows = view.tree.has("InputPath") || view.tree.has("OutputPath");
        for (number, rule) in
            view.tree.get("Choices").map(SourceFields::items).unwrap_or_default().iter().enumerate()
        {
            let when = choice::condition(view, rule, &input, 0, self.report)?;
            let branch =
                rule.text("Next").map_or_else(|| format!("case_{}", number + 1), names::identifier);
            cases.push(json!({ "when": when.text(), "branch": branch }));
            let mut from = NeedEdge::on(id, &branch);
            if rule.has("Assign") || narrows {
                let name = format!("case_{}", number + 1);
                let mut node =
                    TargetNode::new(&self.ids.beside(id, &name), "noop").needing(vec![from]);
                self.narrow(view, &mut node)?;
                view.assign(rule, &input, &mut node)?;
                from = NeedEdge::to(&node.id);
                after.push(node);
            }
            step.outs.extend(next_of(rule, states, from));
        }
        if cases.is_empty() {
            return Err(Problem::new(view.tree, "a Choice state needs `Choices`", "add a rule"));
        }
        let mut node = TargetNode::new(id, "switch").with("cases", cases);
        if let Some(default) = view.tree.get("Default") {
            node = node.with("default", "default");
            let mut from = NeedEdge::on(id, "default");
            if view.tree.has("Assign") || narrows {
                let mut node =
                    TargetNode::new(&self.ids.beside(id, "default"), "noop").needing(vec![from]);
                self.narrow(view, &mut node)?;
                view.assign(view.tree, &input, &mut node)?;
                from = NeedEdge::to(&node.id);
                after.push(node);
            }
            let to = states
                .entries()
                .iter()
                .position(|state| Some(state.key.as_str()) == default.as_text());
            step.outs.push(Transition { from, to: Goal::Step(to.unwrap_or(usize::MAX)) });
        }
        step.nodes.push(node);
        step.nodes.extend(after);
        Ok(step)
    }

    /// Sets the data to what `InputPath` and `OutputPath` leave of it.
    fn narrow<'t>(
        &mut self,
        view: StateView<'t>,
        node: &mut TargetNode,
    ) -> Result<(), Problem<'t>> {
        let input = Shape::Expr(view.input()?);
        if let Some(data) = view.data_after(&input)?
            && data != Shape::Expr(view.scope.data())
        {
            node.variables.insert(view.scope.data.clone(), data.to_value());
        }
        Ok(())
    }

    fn succeed<'t>(&mut self, id: &str, view: StateView<'t>) -> Result<MachineStep, Problem<'t>> {
        self.only(view.tree, &[]);
        let mut node = TargetNode::new(id, "noop");
        self.narrow(view, &mut node)?;
        let outs = vec![Transition { from: NeedEdge::to(id), to: Goal::End }];
        Ok(MachineStep { name: id.to_owned(), nodes: vec![node], outs })
    }

    fn fail<'t>(&mut self, id: &str, view: StateView<'t>) -> Result<MachineStep, Problem<'t>> {
        self.only(view.tree, &["Error", "Cause", "ErrorPath", "CausePath"]);
        let data = view.scope.data();
        let error = view.tree.text("Error");
        let message = match (view.path("CausePath", data.clone())?, view.tree.text("Cause")) {
            (Some(cause), _) => cause.to_text().template(),
            (None, Some(cause)) if !cause.trim().is_empty() => literal_text(cause),
            _ => literal_text(error.filter(|error| !error.trim().is_empty()).unwrap_or("failed")),
        };
        let mut node = TargetNode::new(id, "fail").with("message", message);
        if let Some(error) = error {
            let kind = names::failure_kind(error);
            if kind != error {
                let at = view.tree.get("Error").unwrap_or(view.tree);
                let message =
                    format!("the error `{}` has the kind `{kind}` here", shortened(error));
                self.report.different(at, message, "use this kind where you look for it");
            }
            node = node.with("kind", kind);
        }
        if let Some(path) = view.path("ErrorPath", data)? {
            let at = view.tree.get("ErrorPath").unwrap_or(view.tree);
            let message = "a failure's kind cannot be computed: it is `failed`, with `details`";
            self.report.different(at, message, "use one `fail` node for each kind");
            node = node.with("details", json!({ "Error": path.template() }));
        }
        Ok(MachineStep { name: id.to_owned(), nodes: vec![node], outs: Vec::new() })
    }
}
