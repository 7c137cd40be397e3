//! `approval`: waits for a person to approve or reject.

use serde_json::{Map, Value};
use waypost_core::expr::Template;
use waypost_core::json::Json;
use waypost_core::kind::{
    ApprovalSpec, Behaviour, ConfigFault, Escalation, Family, KindSpec, Shape,
};
use waypost_core::limits::APPROVERS_MAX;

use crate::NodeKind;
use crate::config::{
    ConfigMap, duration, fault_at, missing, optional, required, required_template, template,
};

pub(crate) static KIND: NodeKind = NodeKind { spec: &SPEC, compile, handler: None };

static SPEC: KindSpec = KindSpec {
    name: "approval",
    aliases: &[],
    family: Family::Logic,
    body: None,
    summary: "Waits for a person to decide, and selects branch `approved`, `rejected` or `expired`.",
    fields: &[
        required("title", Shape::Text, "What is to be decided, in a line."),
        optional("description", Shape::Text, "More about it."),
        optional(
            "form",
            Shape::Schema,
            "JSON Schema of the `form` that comes with an approval; checked when it is given.",
        ),
        optional(
            "approvers",
            Shape::Any,
            "Who may decide: a list of names of API keys, or of people who get a link. Without it, \
             anyone who may control executions.",
        ),
        optional("timeout", Shape::Duration, "Selects branch `expired` after this long."),
        optional(
            "reminder",
            Shape::Duration,
            "Reminds the approvers after this long, by a message `approval.reminded`.",
        ),
        optional(
            "escalate",
            Shape::Custom,
            "Who else may decide, and when: `{after: duration, to: [names]}`.",
        ),
    ],
};

fn compile(config: &ConfigMap) -> Result<Behaviour, Vec<ConfigFault>> {
    let mut faults = Vec::new();
    let title = take(title(config), &mut faults);
    let description = take(template(config, "description"), &mut faults).flatten();
    let approvers = take(approvers(config), &mut faults).flatten();
    let timeout = take(duration(config, "timeout", None), &mut faults).flatten();
    let reminder = take(duration(config, "reminder", None), &mut faults).flatten();
    // Fixed, and checked as such: the server compiles it when a form is given.
    let form = config.get("form").map(Json::from_value);
    let escalate = take(escalation(config), &mut faults).flatten();
    match title.filter(|_| faults.is_empty()) {
        Some(title) => Ok(Behaviour::Approval(Box::new(ApprovalSpec {
            title,
            description,
            form,
            approvers,
            timeout,
            reminder,
            escalate,
        }))),
        None => Err(faults),
    }
}

fn take<T>(found: Result<T, ConfigFault>, faults: &mut Vec<ConfigFault>) -> Option<T> {
    found.map_err(|fault| faults.push(fault)).ok()
}

fn title(config: &ConfigMap) -> Result<Template, ConfigFault> {
    match config.get("title") {
        Some(Value::String(text)) if text.trim().is_empty() => {
            Err(fault_at(&["title"], "must not be empty"))
        }
        _ => required_template(config, "title"),
    }
}

fn approvers(config: &ConfigMap) -> Result<Option<Template>, ConfigFault> {
    if let Some(names) = config.get("approvers") {
        are_names(names, &["approvers"])?;
    }
    template(config, "approvers")
}

/// A list of names, or an expression that gives one.
fn are_names(names: &Value, path: &[&str]) -> Result<(), ConfigFault> {
    let right = match names {
        Value::Array(names) => {
            (1..=APPROVERS_MAX).contains(&names.len()) && names.iter().all(is_text)
        }
        text => is_text(text),
    };
    let message = format!("must be a list of 1 to {APPROVERS_MAX} names");
    if right { Ok(()) } else { Err(fault_at(path, message)) }
}

fn is_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.trim().is_empty())
}

fn escalation(config: &ConfigMap) -> Result<Option<Escalation>, ConfigFault> {
    let Some(value) = config.get("escalate") else { return Ok(None) };
    let Value::Object(fields) = value else {
        return Err(ConfigFault::at("escalate", "`escalate` must be `{after, to}`"));
    };
    let other = fields.keys().find(|key| !matches!(key.as_str(), "after" | "to"));
    if let Some(other) = other {
        let fault = fault_at(&["escalate", other], format!("`escalate` has no field `{other}`"));
        return Err(fault.hint("it has `after` and `to`"));
    }
    let below = |fault: ConfigFault| ConfigFault {
        path: std::iter::once("escalate".to_owned()).chain(fault.path).collect(),
        ..fault
    };
    let fields: &Map<String, Value> = fields;
    let after =
        duration(fields, "after", None).and_then(|after| after.ok_or_else(|| missing("after")));
    let to = match fields.get("to") {
        Some(names) => are_names(names, &["to"]).and_then(|()| required_template(fields, "to")),
        None => Err(missing("to")),
    };
    Ok(Some(Escalation { after: after.map_err(below)?, to: to.map_err(below)? }))
}
