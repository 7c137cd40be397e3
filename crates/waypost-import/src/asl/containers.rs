//! Parallel and Map states: groups of branches, and maps, each with a machine in its body.

use serde_json::{Value, json};
use waypost_lang::Tree;

use super::data::StateView;
use super::{Converter, MachineScope, Problem};
use crate::expr::{Expr, Shape};
use crate::machine::MachineStep;
use crate::read::SourceFields;
use crate::target::{NeedEdge, TargetNode};

/// Items of a map that may be open at once.
const CONCURRENCY_MAX: f64 = 10_000.0;

impl Converter<'_, '_> {
    pub(super) fn parallel<'t>(
        &mut self,
        id: &str,
        view: StateView<'t>,
    ) -> Result<MachineStep, Problem<'t>> {
        self.only(view.tree, &["Branches"]);
        let input = view.effective_input()?;
        let branches = view.tree.get("Branches").map(SourceFields::items).unwrap_or_default();
        if branches.is_empty() {
            return Err(Problem::new(
                view.tree,
                "a Parallel state needs `Branches`",
                "add a branch",
            ));
        }
        self.report.exact(view.tree, format!("Parallel state `{id}`"));
        let mut node = TargetNode::new(id, "group");
        let mut outputs = Vec::new();
        for (number, branch) in branches.iter().enumerate() {
            self.report.leftovers(branch, &["Comment", "StartAt", "States", "QueryLanguage"]);
            let name = self.ids.beside(id, &format!("branch_{}", number + 1));
            let mut group = TargetNode::new(&name, "group");
            group.nodes = self.body(&name, branch, input.to_value(), view.scope);
            outputs.push(Expr::output_of(&name));
            node.nodes.push(group);
        }
        let needs = node.nodes.iter().map(|branch| NeedEdge::to(&branch.id)).collect();
        let value: Vec<Value> = outputs.iter().map(Expr::template).collect();
        let mut all =
            TargetNode::new(&self.ids.beside(id, "outputs"), "output").with("value", value);
        all.needs = needs;
        node.nodes.push(all);
        self.finish(view, node, &Shape::Expr(Expr::atom("output")))
    }

    /// A machine in a body: its data is what it is given.
    fn body(
        &mut self,
        id: &str,
        machine: &Tree,
        data: Value,
        outer: &MachineScope,
    ) -> Vec<TargetNode> {
        let variable = self.ids.beside(id, "data");
        let scope = self.scope(machine, variable, outer.assigned.clone());
        let start = self.ids.beside(id, "start");
        let begin = TargetNode::new(&start, "noop").variable(&scope.data, data);
        let (nodes, ends) = self.machine(machine, &scope, &[NeedEdge::to(&start)]);
        let mut body = vec![begin];
        body.extend(nodes);
        if !ends.is_empty() {
            let value = scope.data().template();
            let end = self.ids.beside(id, "end");
            body.push(TargetNode::new(&end, "output").needing(ends).with("value", value));
        }
        body
    }

    pub(super) fn map<'t>(
        &mut self,
        id: &str,
        view: StateView<'t>,
    ) -> Result<MachineStep, Problem<'t>> {
        const FIELDS: &[&str] = &[
            "ItemsPath",
            "ItemSelector",
            "Iterator",
            "ItemProcessor",
            "MaxConcurrency",
            "ToleratedFailureCount",
            "ToleratedFailurePercentage",
            "Label",
            "ItemReader",
            "ItemBatcher",
            "ResultWriter",
            "MaxConcurrencyPath",
            "ToleratedFailureCountPath",
            "ToleratedFailurePercentagePath",
        ];
        self.only(view.tree, FIELDS);
        for field in &FIELDS[8..] {
            if let Some(at) = view.tree.get(field) {
                let advice = "give the items as a list, and write constants";
                return Err(Problem::new(at, format!("`{field}` has no counterpart"), advice));
            }
        }
        let input = view.input()?;
        let items = view.path("ItemsPath", input.clone())?.unwrap_or_else(|| input.clone());
        let item = match (view.tree.get("ItemSelector"), view.tree.get("Parameters")) {
            (Some(_), _) => view.template("ItemSelector", &input)?,
            (None, Some(_)) => view.template("Parameters", &input)?,
            (None, None) => Shape::Expr(Expr::atom("item")),
        };
        let machine = view.tree.get("ItemProcessor").or_else(|| view.tree.get("Iterator"));
        let Some(machine) = machine else {
            return Err(Problem::new(view.tree, "a Map state needs an `ItemProcessor`", "add it"));
        };
        self.report.exact(view.tree, format!("Map state `{id}`"));
        self.mode(machine);
        let retried = view.tree.get("Retry").is_some_and(|retry| !retry.items().is_empty());
        let map_id = if retried { self.ids.beside(id, "items") } else { id.to_owned() };
        let mut node = TargetNode::new(&map_id, "map").with("items", items.template());
        node = limits(node, view.tree);
        node.nodes = self.body(id, machine, item.to_value(), view.scope);
        if !retried {
            let results = results(&Expr::atom("output"));
            return self.finish(view, node, &Shape::Expr(results));
        }
        // A map cannot be tried again as a whole; a group can.
        let results = results(&Expr::output_of(&map_id)).template();
        let output = TargetNode::new(&self.ids.beside(id, "results"), "output")
            .needing(vec![NeedEdge::to(&map_id)])
            .with("value", results);
        let mut group = TargetNode::new(id, "group");
        group.nodes = vec![node, output];
        self.finish(view, group, &Shape::Expr(Expr::atom("output")))
    }

    fn mode(&mut self, machine: &Tree) {
        let known = &["Comment", "StartAt", "States", "ProcessorConfig", "QueryLanguage"];
        self.report.leftovers(machine, known);
        let config = machine.get("ProcessorConfig");
        if let Some(at) = config.and_then(|config| config.get("Mode"))
            && at.as_text() == Some("DISTRIBUTED")
        {
            let message = "the items run in this execution, not as executions of their own";
            self.report.different(at, message, "use a `workflow` node in the body for that");
        }
    }

    fn finish<'t>(
        &mut self,
        view: StateView<'t>,
        mut node: TargetNode,
        result: &Shape,
    ) -> Result<MachineStep, Problem<'t>> {
        if let Some(after) = view.data_after(result)? {
            node.variables.insert(view.scope.data.clone(), after.to_value());
        }
        view.assign(view.tree, &result.to_expr(), &mut node)?;
        Ok(MachineStep { nodes: vec![node], ..MachineStep::default() })
    }
}

/// The outputs of all items, also of none.
fn results(output: &Expr) -> Expr {
    output.field("results").filter("default", &[Expr::atom("[]")])
}

fn limits(node: TargetNode, state: &Tree) -> TargetNode {
    let mut node = node;
    let most = state.number("MaxConcurrency").filter(|most| *most > 0.0).unwrap_or(CONCURRENCY_MAX);
    node = node.with("concurrency", crate::convert::whole(most.min(CONCURRENCY_MAX)));
    let tolerated = [("ToleratedFailureCount", "count"), ("ToleratedFailurePercentage", "percent")]
        .into_iter()
        .find_map(|(field, ours)| Some((ours, state.number(field)?)));
    match tolerated {
        Some((ours, count)) => node.with("tolerate", json!({ ours: crate::convert::whole(count) })),
        None => node.with("stopOnFailure", true),
    }
}
