//! Tasks that become one node.

use serde_json::{Map, Value, json};
use waypost_lang::Tree;

use super::{Converter, OutputForm, TaskProblem, Upstream, policy};
use crate::expr::Shape;
use crate::names;
use crate::read::SourceFields;
use crate::report::shortened;
use crate::script::{self, Language, ScriptNames};
use crate::target::{NeedEdge, TargetNode};

/// SourceFields that all tasks may have.
const COMMON: &[&str] = &[
    "name",
    "taskReferenceName",
    "type",
    "inputParameters",
    "description",
    "optional",
    "startDelay",
    "taskDefinition",
    "retryCount",
    "defaultExclusiveJoinTask",
    "asyncComplete",
    "loopOver",
    "joinOn",
    "forkTasks",
    "decisionCases",
    "defaultCase",
    "rateLimited",
    "permissive",
    "onStateChange",
    "cacheConfig",
    "dynamicForkTasks",
    "workflowTaskType",
    "subWorkflowParam",
    "evaluatorType",
    "expression",
    "sink",
    "caseValueParam",
    "caseExpression",
    "loopCondition",
    "scriptExpression",
    "dynamicTaskNameParam",
    "dynamicForkTasksParam",
    "dynamicForkTasksInputParamName",
    "dynamicForkJoinTasksParam",
];
/// Of these, the ones that have no counterpart unless they are empty.
const REFUSED: &[&str] = &["asyncComplete", "onStateChange", "cacheConfig", "startDelay"];

impl Converter<'_, '_> {
    /// A task that is one node.
    pub(super) fn single(
        &mut self,
        kind: &str,
        task: &Tree,
        exits: Vec<NeedEdge>,
        upstream: &mut Upstream,
        nodes: &mut Vec<TargetNode>,
    ) -> Vec<NeedEdge> {
        let lost = self.report.lost_count();
        self.known(task);
        let id = task.text("taskReferenceName").unwrap_or("task").to_owned();
        let made = self.node(kind, &id, task, upstream);
        let (mut node, form) = match made {
            Ok(made) => made,
            Err(reason) => return self.placeholder(task, reason, exits, upstream, nodes),
        };
        node.id = self.id_of(task);
        let definition =
            task.get("taskDefinition").or_else(|| self.policies.find(task.text("name")?));
        if matches!(node.kind, "worker" | "api-call" | "workflow") {
            policy::apply(&mut node, task, definition);
            if definition.is_none() && node.kind == "worker" && kind == "SIMPLE" {
                let advice = "import the task definitions together with the workflow";
                self.report.different(
                    task,
                    "there is no task definition: no retries, no timeouts",
                    advice,
                );
            }
        }
        if task.flag("optional") == Some(true) {
            node.set("onError", "continue");
            let at = task.get("optional").unwrap_or(task);
            let message = "an execution with a failed optional task is COMPLETED, and its output has `failure`";
            self.report.different(at, message, "check references to its output");
        }
        node.notes.extend(task.text("description").map(ToOwned::to_owned));
        let mut entry = exits;
        if self.report.lost_count() > lost {
            let name = task.text("taskReferenceName").unwrap_or("task");
            let stop = self.ids.beside(&node.id, "not_converted");
            let what = format!("a part of {}", shortened(name));
            nodes.push(TargetNode::placeholder(&stop, &what).needing(entry));
            entry = vec![NeedEdge::to(&stop)];
        }
        let id = node.id.clone();
        nodes.push(node.needing(entry));
        self.refer(task, &id, form, upstream);
        vec![NeedEdge::to(&id)]
    }

    /// Reports fields of a task that are unknown, or have no counterpart.
    pub(super) fn known(&mut self, task: &Tree) {
        self.report.leftovers(task, COMMON);
        for field in REFUSED {
            let is_set = |at: &&Tree| {
                at.as_flag().unwrap_or(true)
                    && at.as_number() != Some(0.0)
                    && (at.as_map().is_none_or(|map| !map.is_empty()))
            };
            if let Some(at) = task.get(field).filter(is_set) {
                self.report.lost(at, format!("`{field}` has no counterpart"), "write it by hand");
            }
        }
    }

    /// The inputs of a task.
    pub(super) fn inputs(&self, task: &Tree, upstream: &Upstream) -> Result<Shape, TaskProblem> {
        match task.get("inputParameters") {
            Some(inputs) => self.template(inputs, upstream),
            None => Ok(Shape::Constant(Value::Object(Map::new()))),
        }
    }

    fn node(
        &mut self,
        kind: &str,
        id: &str,
        task: &Tree,
        upstream: &Upstream,
    ) -> Result<(TargetNode, OutputForm), TaskProblem> {
        let inputs = self.inputs(task, upstream)?;
        let new = |kind| TargetNode::new(id, kind);
        let worker = |handler: &str| {
            new("worker").with("handler", names::handler(handler)).with("input", inputs.to_value())
        };
        match kind {
            "SIMPLE" | "USER_DEFINED" => {
                Ok((worker(task.text("name").unwrap_or("task")), OutputForm::Same))
            }
            "HTTP" => Ok((self.http(id, task, &inputs)?, OutputForm::Http)),
            "NOOP" => Ok((new("noop"), OutputForm::Same)),
            "INLINE" | "LAMBDA" => Ok((self.inline(id, task, &inputs)?, OutputForm::Result)),
            "JSON_JQ_TRANSFORM" => Ok((self.jq(id, task, &inputs)?, OutputForm::Result)),
            "SET_VARIABLE" => Ok((set_variable(id, &inputs), OutputForm::Opaque)),
            "WAIT" => self.wait(id, task, &inputs),
            "HUMAN" => Ok((self.wait_for_signal(id, task), OutputForm::Same)),
            "SUB_WORKFLOW" => self.sub_workflow(id, task, &inputs),
            "START_WORKFLOW" => self.start_workflow(id, task, &inputs),
            "EVENT" | "KAFKA_PUBLISH" => {
                let sink = task.text("sink").unwrap_or_default();
                let handler = match kind {
                    "EVENT" => names::handler(&format!("event.{}", sink.replace(':', "."))),
                    _ => "kafka.publish".to_owned(),
                };
                let message =
                    format!("a worker has to send the message: its handler is `{handler}`");
                self.report.different(
                    task,
                    message,
                    "write the handler, or use `emit` or an `api-call`",
                );
                Ok((worker(&handler), OutputForm::Same))
            }
            "JOIN" | "EXCLUSIVE_JOIN" => Ok((new("noop"), OutputForm::Join)),
            "FORK_JOIN_DYNAMIC" => self.dynamic_fork(id, task, &inputs),
            other => {
                let message = format!("tasks of type `{}` have no counterpart", shortened(other));
                Err((message, "write a `worker` node, and a handler for it".to_owned()))
            }
        }
    }

    fn http(&mut self, id: &str, task: &Tree, inputs: &Shape) -> Result<TargetNode, TaskProblem> {
        let place = task.get("inputParameters").unwrap_or(task);
        let nested = place.get("http_request").is_some();
        let request = if nested { inputs.field("http_request") } else { inputs.clone() };
        let tree = place.get("http_request").unwrap_or(place);
        const FIELDS: &[&str] = &[
            "uri",
            "method",
            "headers",
            "body",
            "accept",
            "contentType",
            "connectionTimeOut",
            "readTimeOut",
            "encode",
        ];
        if tree.as_map().is_none() {
            return Err((
                "the request is computed".to_owned(),
                "write its fields by hand".to_owned(),
            ));
        }
        self.report.leftovers(tree, FIELDS);
        let value = |field: &str| tree.get(field).map(|_| request.field(field).to_value());
        let url = value("uri").ok_or_else(|| {
            ("the request needs a `uri`".to_owned(), "write it in `http_request`".to_owned())
        })?;
        let mut node = TargetNode::new(id, "api-call").with("url", url);
        match value("method") {
            Some(Value::String(method)) if method.contains("${{") => {
                return Err((
                    "the method is computed".to_owned(),
                    "use a node per method".to_owned(),
                ));
            }
            Some(Value::String(method)) if !method.eq_ignore_ascii_case("GET") => {
                node = node.with("method", method.to_ascii_uppercase());
            }
            _ => {}
        }
        let mut headers = match value("headers") {
            Some(Value::Object(headers)) => headers,
            _ => Map::new(),
        };
        for (field, header) in [("accept", "accept"), ("contentType", "content-type")] {
            if let Some(text) = value(field).filter(Value::is_string) {
                headers.entry(header).or_insert(text);
            }
        }
        if !headers.is_empty() {
            node = node.with("headers", Value::Object(headers));
        }
        if let Some(body) = value("body") {
            node = node.with("body", body);
        }
        if let Some(limit) = tree.number("connectionTimeOut").filter(|limit| *limit > 0.0) {
            node = node.with("connectTimeout", crate::convert::millis(limit));
        }
        if let Some(limit) = tree.number("readTimeOut").filter(|limit| *limit > 0.0) {
            node.set("timeout", crate::convert::millis(limit));
        }
        Ok(node)
    }

    /// The expression of a script; `$` are the inputs.
    pub(super) fn script(
        &self,
        source: &str,
        language: Language,
        inputs: &Shape,
    ) -> Result<Shape, TaskProblem> {
        let resolve = |name: &str, _: &[String]| match name {
            "$" => Ok((inputs.clone(), 0)),
            other => Err(format!("the name `{}` is unknown", shortened(other))),
        };
        let names = ScriptNames { language, dot: Some(inputs.clone()), resolve: &resolve };
        let found =
            script::parse(source, language).and_then(|ast| script::emit_shape(&ast, &names));
        found.map_err(|message| {
            (format!("the script: {message}"), "write the expression by hand".to_owned())
        })
    }

    fn inline(&mut self, id: &str, task: &Tree, inputs: &Shape) -> Result<TargetNode, TaskProblem> {
        let place = task.get("inputParameters").unwrap_or(task);
        let source = place
            .text("expression")
            .or_else(|| place.text("scriptExpression"))
            .ok_or_else(|| ("there is no `expression`".to_owned(), "write it".to_owned()))?;
        if place.text("evaluatorType").is_some_and(|evaluator| evaluator == "value-param") {
            return Ok(
                TargetNode::new(id, "transform").with("value", inputs.field(source).to_value())
            );
        }
        if place.text("evaluatorType") == Some("python") {
            return Err((
                "scripts in Python have no counterpart".to_owned(),
                "use a `shell` node".to_owned(),
            ));
        }
        let expr = self.script(source, Language::JavaScript, inputs)?;
        Ok(TargetNode::new(id, "transform").with("value", expr.to_value()))
    }

    fn jq(&mut self, id: &str, task: &Tree, inputs: &Shape) -> Result<TargetNode, TaskProblem> {
        let place = task.get("inputParameters").unwrap_or(task);
        let source = place
            .text("queryExpression")
            .ok_or_else(|| ("there is no `queryExpression`".to_owned(), "write it".to_owned()))?;
        let expr = self.script(source, Language::Jq, inputs)?;
        Ok(TargetNode::new(id, "transform").with("value", expr.to_value()))
    }

    fn wait(
        &mut self,
        id: &str,
        task: &Tree,
        inputs: &Shape,
    ) -> Result<(TargetNode, OutputForm), TaskProblem> {
        let place = task.get("inputParameters").unwrap_or(task);
        let node = TargetNode::new(id, "delay");
        if let Some(text) = place.text("duration") {
            let duration = match inputs.field("duration") {
                Shape::Constant(_) => json!(duration(text).ok_or_else(|| {
                    (format!("`{}` is no duration", shortened(text)), "write it by hand".to_owned())
                })?),
                computed => computed.to_value(),
            };
            return Ok((node.with("duration", duration), OutputForm::Same));
        }
        if let Some(text) = place.text("until") {
            let is_rfc3339 = text.as_bytes().get(10) == Some(&b'T') || text.contains("${");
            if !is_rfc3339 {
                let message = format!("the time `{}` is not in RFC 3339", shortened(text));
                return Err((message, "write it as `2026-12-24T09:00:00Z`".to_owned()));
            }
            return Ok((node.with("until", inputs.field("until").to_value()), OutputForm::Same));
        }
        Ok((self.wait_for_signal(id, task), OutputForm::Same))
    }

    fn wait_for_signal(&mut self, id: &str, task: &Tree) -> TargetNode {
        let message =
            format!("it ends with the signal `{}`, whose body is its output", shortened(id));
        self.report.different(task, message, "send it with `waypost signal`, or use an `approval`");
        TargetNode::new(id, "wait-for-events").with("name", crate::expr::literal_text(id))
    }
}

fn set_variable(id: &str, inputs: &Shape) -> TargetNode {
    let mut node = TargetNode::new(id, "noop");
    let fields: Vec<(String, Shape)> = match inputs {
        Shape::Object(fields) => fields.clone(),
        Shape::Constant(Value::Object(map)) => {
            map.iter().map(|(key, value)| (key.clone(), Shape::Constant(value.clone()))).collect()
        }
        _ => Vec::new(),
    };
    for (name, value) in fields {
        node.variables.insert(names::identifier(&name), value.to_value());
    }
    node
}

/// `2 days 3 hours`, `10s`: as one of ours.
fn duration(text: &str) -> Option<String> {
    let mut parts = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, after) = rest.split_at(digits);
        let after = after.trim_start();
        let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let unit = match unit.to_ascii_lowercase().as_str() {
            "d" | "day" | "days" => "d",
            "h" | "hr" | "hrs" | "hour" | "hours" => "h",
            "m" | "min" | "mins" | "minute" | "minutes" => "m",
            "s" | "sec" | "secs" | "second" | "seconds" => "s",
            _ => return None,
        };
        if number.is_empty() || number.len() > 9 {
            return None;
        }
        parts.push(format!("{number}{unit}"));
        rest = after.trim_start();
    }
    (!parts.is_empty()).then(|| parts.join(" "))
}
