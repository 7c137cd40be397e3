//! Tasks that start workflows, and forks over their inputs.

use serde_json::json;
use waypost_lang::Tree;

use super::{Converter, OutputForm, TaskProblem, policy};
use crate::expr::Shape;
use crate::names;
use crate::read::SourceFields;
use crate::target::TargetNode;

impl Converter<'_, '_> {
    pub(super) fn sub_workflow(
        &mut self,
        id: &str,
        task: &Tree,
        inputs: &Shape,
    ) -> Result<(TargetNode, OutputForm), TaskProblem> {
        let parameters = task.get("subWorkflowParam").unwrap_or(task);
        if parameters.has("workflowDefinition") {
            let advice = "import it from a file of its own, and name it".to_owned();
            return Err((
                "a workflow that is defined in place has no counterpart".to_owned(),
                advice,
            ));
        }
        let name =
            parameters.text("name").filter(|name| !name.contains("${")).ok_or_else(|| {
                ("the name of the workflow is computed".to_owned(), "write it by hand".to_owned())
            })?;
        self.version(parameters);
        let node = TargetNode::new(id, "workflow")
            .with("workflow", names::workflow(name))
            .with("input", inputs.to_value());
        Ok((node, OutputForm::Same))
    }

    fn version(&mut self, parameters: &Tree) {
        if let Some(at) = parameters.get("version") {
            let message = "versions have other numbers here: the current one is started";
            self.report.different(at, message, "deploy the version that is meant last");
        }
    }

    pub(super) fn start_workflow(
        &mut self,
        id: &str,
        task: &Tree,
        inputs: &Shape,
    ) -> Result<(TargetNode, OutputForm), TaskProblem> {
        let start = task.get("inputParameters").and_then(|inputs| inputs.get("startWorkflow"));
        let start = start.unwrap_or(task);
        let name = start.text("name").filter(|name| !name.contains("${")).ok_or_else(|| {
            ("the name of the workflow is computed".to_owned(), "write it by hand".to_owned())
        })?;
        self.version(start);
        self.report.leftovers(
            start,
            &["name", "version", "input", "inputParameters", "type", "taskReferenceName"],
        );
        let input = match start.get("input") {
            Some(_) => inputs.field("startWorkflow").field("input").to_value(),
            None => json!({}),
        };
        let node = TargetNode::new(id, "workflow")
            .with("workflow", names::workflow(name))
            .with("wait", false)
            .with("input", input);
        Ok((node, OutputForm::Started))
    }

    /// One task or workflow for each of several inputs; forks over computed tasks have no counterpart.
    pub(super) fn dynamic_fork(
        &mut self,
        id: &str,
        task: &Tree,
        inputs: &Shape,
    ) -> Result<(TargetNode, OutputForm), TaskProblem> {
        let place = task.get("inputParameters").unwrap_or(task);
        let is_fixed = |name: &&str| !name.contains("${");
        let item = self.ids.beside(&names::identifier(id), "item");
        let inner = if let Some(name) = place.text("forkTaskWorkflow").filter(is_fixed) {
            TargetNode::new(&item, "workflow").with("workflow", names::workflow(name))
        } else if let Some(name) = place.text("forkTaskName").filter(is_fixed) {
            let mut node = TargetNode::new(&item, "worker").with("handler", names::handler(name));
            policy::apply(&mut node, task, self.policies.find(name));
            node
        } else {
            let advice =
                "use a `map` over the inputs, with a `switch` on the kind of task".to_owned();
            return Err(("a fork over computed tasks has no counterpart".to_owned(), advice));
        };
        let items = place.get("forkTaskInputs").map(|_| inputs.field("forkTaskInputs").to_value());
        let items = items.ok_or_else(|| {
            ("there are no `forkTaskInputs`".to_owned(), "write the items of the `map`".to_owned())
        })?;
        let mut node = TargetNode::new(id, "map").with("items", items).with("stopOnFailure", true);
        node.nodes = vec![inner.with("input", "${{ item }}")];
        let message = "the outputs are a list, `results`, and not fields by the names of tasks";
        self.report.different(task, message, "check references to the join");
        Ok((node, OutputForm::Same))
    }
}
