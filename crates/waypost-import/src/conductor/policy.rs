//! Task definitions: retries and timeouts of the tasks that have their name.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use waypost_lang::Tree;

use crate::read::{SourceFields, SourceFile};
use crate::report::{Reporter, shortened};
use crate::target::TargetNode;

/// The task definitions of all files, by name.
#[derive(Debug)]
pub(crate) struct TaskDefinitions<'t>(BTreeMap<&'t str, &'t Tree>);

const KNOWN: &[&str] = &[
    "name",
    "description",
    "retryCount",
    "retryLogic",
    "retryDelaySeconds",
    "backoffScaleFactor",
    "timeoutSeconds",
    "timeoutPolicy",
    "responseTimeoutSeconds",
    "totalTimeoutSeconds",
    "pollTimeoutSeconds",
    "ownerEmail",
    "ownerApp",
    "createTime",
    "updateTime",
    "createdBy",
    "updatedBy",
    "inputKeys",
    "outputKeys",
    "inputTemplate",
    "concurrentExecLimit",
    "rateLimitPerFrequency",
    "rateLimitFrequencyInSeconds",
    "accessPolicy",
    "tags",
    "executionNameSpace",
    "isolationGroupId",
    "enforceSchema",
    "baseType",
];

const RETRIES_DEFAULT: f64 = 3.0;
const DELAY_DEFAULT: f64 = 60.0;

impl<'t> TaskDefinitions<'t> {
    pub(crate) fn of(files: impl Iterator<Item = &'t SourceFile<'t>>) -> Self {
        let mut found = BTreeMap::new();
        for file in files {
            let root = file.root();
            let all =
                if root.as_list().is_some() { root.items() } else { std::slice::from_ref(root) };
            for one in all.iter().filter(|one| !one.has("tasks")) {
                if let Some(name) = one.text("name") {
                    found.insert(name, one);
                }
            }
        }
        Self(found)
    }

    pub(super) fn find(&self, name: &str) -> Option<&'t Tree> {
        self.0.get(name).copied()
    }
}

/// Reports what a task definition has.
pub(super) fn report(definition: &Tree, report: &mut Reporter<'_>) {
    let mark = report.mark();
    report.leftovers(definition, KNOWN);
    for field in ["concurrentExecLimit", "rateLimitPerFrequency", "pollTimeoutSeconds"] {
        if let Some(at) = definition.get(field).filter(|at| at.as_number() != Some(0.0)) {
            let advice = "limit the slots of its workers";
            report.different(at, format!("`{field}` is not applied"), advice);
        }
    }
    if let Some(at) = definition.get("inputTemplate").filter(|at| !at.entries().is_empty()) {
        report.different(
            at,
            "defaults of the input are not applied",
            "add them to the nodes' `input`",
        );
    }
    if let Some(at) = definition.get("retryLogic")
        && at.as_text() == Some("LINEAR_BACKOFF")
    {
        report.different(
            at,
            "waits that grow evenly become equal waits",
            "choose the waits by hand",
        );
    }
    if let Some(at) = definition.get("timeoutPolicy")
        && at.as_text() == Some("ALERT_ONLY")
    {
        report.different(at, "a timeout that only alerts is not applied", "use an alert instead");
    }
    let name = definition.text("name").unwrap_or_default();
    report.exact_since(mark, definition, format!("task definition `{}`", shortened(name)));
}

/// Sets retries and timeouts of a node, by the definition and what the task says itself.
pub(super) fn apply(node: &mut TargetNode, task: &Tree, definition: Option<&Tree>) {
    let text = |field: &str| definition.and_then(|definition| definition.text(field));
    let number = |field: &str| definition.and_then(|definition| definition.number(field));
    let retries = task.number("retryCount").or_else(|| {
        definition.map(|definition| definition.number("retryCount").unwrap_or(RETRIES_DEFAULT))
    });
    let alert_only = text("timeoutPolicy") == Some("ALERT_ONLY");
    let timeout = number("timeoutSeconds").filter(|seconds| *seconds > 0.0 && !alert_only);
    if let Some(retries) = retries.filter(|retries| *retries > 0.0) {
        let delay = number("retryDelaySeconds").unwrap_or(DELAY_DEFAULT);
        let mut block = Map::new();
        let attempts = crate::convert::whole(retries.min(999.0)) + 1;
        block.insert("maxAttempts".to_owned(), json!(attempts));
        block.insert("waitDuration".to_owned(), seconds(delay));
        block.insert("jitter".to_owned(), json!(0));
        if text("retryLogic") == Some("EXPONENTIAL_BACKOFF") {
            block.insert("maxWait".to_owned(), json!("30d"));
        } else {
            block.insert("exponentialBackoff".to_owned(), json!(false));
            if delay > 300.0 {
                block.insert("maxWait".to_owned(), seconds(delay));
            }
        }
        if matches!(text("timeoutPolicy"), None | Some("TIME_OUT_WF")) && timeout.is_some() {
            block.insert("ignoreExceptions".to_owned(), json!(["timeout"]));
        }
        node.set("retry", Value::Object(block));
    }
    if let Some(count) = timeout {
        node.set("timeout", seconds(count));
    }
    let response = number("responseTimeoutSeconds").filter(|seconds| *seconds > 0.0);
    if let Some(count) =
        response.filter(|response| timeout.is_none_or(|timeout| *response < timeout))
        && node.kind == "worker"
        && !alert_only
    {
        node.set("heartbeat", seconds(count));
    }
    if let Some(count) = number("totalTimeoutSeconds").filter(|seconds| *seconds > 0.0) {
        node.set("deadline", seconds(count));
    }
}

/// A number of seconds as a duration.
pub(super) fn seconds(count: f64) -> Value {
    crate::convert::millis(count * 1_000.0)
}
