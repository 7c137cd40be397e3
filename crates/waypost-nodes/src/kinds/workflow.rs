//! `workflow`: starts an execution of a workflow, and waits for its end.

use serde_json::Value;
use waypost_core::child::CURRENT_VERSION;
use waypost_core::kind::{Behaviour, ConfigFault, Family, KindSpec, Shape, WorkflowCall};

use crate::NodeKind;
use crate::config::{ConfigMap, fields_template, optional, required};

pub(crate) static KIND: NodeKind = NodeKind {
    spec: &SPEC,
    compile: |config| read(config).map(Behaviour::Workflow).map_err(|fault| vec![fault]),
    handler: None,
};

static SPEC: KindSpec = KindSpec {
    name: "workflow",
    aliases: &["child-workflow", "call-workflow"],
    family: Family::Logic,
    body: None,
    summary: "Starts an execution of a workflow; its output is that execution's output.",
    fields: &[
        required("workflow", Shape::Text, "The name of the workflow."),
        optional(
            "version",
            Shape::Any,
            "The number of a version, or `current`, which is also meant if absent.",
        ),
        optional("input", Shape::Any, "What the execution is started with; null if absent."),
        optional(
            "wait",
            Shape::Boolean,
            "Whether the node waits for the end of the execution. If not, its output is `{execution: id}`, and `onParentEnd` is `leave`.",
        ),
        optional(
            "onParentEnd",
            Shape::OneOf(&["cancel", "leave"]),
            "What becomes of the execution if this one ends first; `cancel` if absent.",
        ),
    ],
};

fn read(config: &ConfigMap) -> Result<WorkflowCall, ConfigFault> {
    let named = match config.get("workflow") {
        Some(Value::String(name)) => !name.trim().is_empty(),
        _ => false,
    };
    if !named {
        return Err(ConfigFault::at(
            "workflow",
            "the name of a workflow must be text and not empty",
        ));
    }
    if let Some(version) = config.get("version") {
        let open = |text: &str| text == CURRENT_VERSION || text.contains("${{");
        let is_open = version.as_str().is_some_and(open);
        if !is_open && version.as_u64().is_none_or(|number| number == 0) {
            let message = "`version` must be a whole number from 1, or `current`";
            let hint = "`current`, or no `version`, starts the version that is current then";
            return Err(ConfigFault::at("version", message).hint(hint));
        }
    }
    let detached = config.get("wait").and_then(Value::as_bool) == Some(false);
    let on_end = config.get("onParentEnd").and_then(Value::as_str);
    if detached && on_end == Some("cancel") {
        let message = "an execution that is not awaited cannot be cancelled with its parent";
        let hint = "remove `wait: false`, or write `onParentEnd: leave`";
        return Err(ConfigFault::at("onParentEnd", message).hint(hint));
    }
    let config = fields_template(config, &["workflow", "version", "input"])?;
    Ok(WorkflowCall { config, detached, leave: detached || on_end == Some("leave") })
}
