//! Task states: what calls a function becomes a `worker` node, a call of HTTP an `api-call`, a started
//! machine a `workflow`.

use serde_json::{Map, Value, json};

use super::data::{self, StateView};
use super::{Converter, Problem};
use crate::expr::{Expr, Shape};
use crate::machine::MachineStep;
use crate::names;
use crate::read::SourceFields;
use crate::report::shortened;
use crate::target::TargetNode;

const TOKEN: &str = ".waitForTaskToken";

/// The node that does the work, and its result as the state sees it.
struct TaskCall {
    node: TargetNode,
    result: Shape,
}

impl Converter<'_, '_> {
    pub(super) fn task<'t>(
        &mut self,
        id: &str,
        view: StateView<'t>,
    ) -> Result<MachineStep, Problem<'t>> {
        const FIELDS: &[&str] = &[
            "Resource",
            "TimeoutSeconds",
            "TimeoutSecondsPath",
            "HeartbeatSeconds",
            "HeartbeatSecondsPath",
            "Credentials",
        ];
        self.only(view.tree, FIELDS);
        for field in ["TimeoutSecondsPath", "HeartbeatSecondsPath", "Credentials"] {
            if let Some(at) = view.tree.get(field) {
                let advice = "write a fixed value by hand";
                self.report.lost(at, format!("`{field}` has no counterpart"), advice);
            }
        }
        let at = view.tree.get("Resource").unwrap_or(view.tree);
        let resource = at
            .as_text()
            .ok_or_else(|| Problem::new(at, "a Task state needs a `Resource`", "name it"))?;
        let waits = resource.ends_with(TOKEN);
        let resource = resource.trim_end_matches(TOKEN);
        let input = view.effective_input()?;
        let mut call = if resource.starts_with("arn:")
            && resource.contains(":states:::states:startExecution")
        {
            self.start_execution(id, view, resource, &input)?
        } else if resource.ends_with(":states:::http:invoke") {
            self.http(id, view, &input)?
        } else {
            self.worker(id, view, resource, &input)?
        };
        if waits {
            call = wait_for_token(id, call);
        }
        let TaskCall { mut node, result } = call;
        let is_wait = node.kind == "async-operation";
        if let Some(count) = view.tree.number("TimeoutSeconds") {
            match is_wait {
                true => node = node.with("timeout", data::seconds(count)),
                false if node.kind == "workflow" => node.set("deadline", data::seconds(count)),
                false => node.set("timeout", data::seconds(count)),
            }
        }
        if let Some(count) = view.tree.number("HeartbeatSeconds") {
            if is_wait || node.kind == "workflow" {
                let at = view.tree.get("HeartbeatSeconds").unwrap_or(view.tree);
                let message =
                    "a heartbeat of a callback has no counterpart: only the timeout counts";
                self.report.different(at, message, "choose the timeout accordingly");
            } else {
                node.set("heartbeat", data::seconds(count));
            }
        }
        let output = result.clone();
        if let Some(after) = view.data_after(&result)? {
            node.variables.insert(view.scope.data.clone(), after.to_value());
        }
        view.assign(view.tree, &output.to_expr(), &mut node)?;
        Ok(MachineStep { nodes: vec![node], ..MachineStep::default() })
    }

    fn worker<'t>(
        &mut self,
        id: &str,
        view: StateView<'t>,
        resource: &str,
        input: &Shape,
    ) -> Result<TaskCall, Problem<'t>> {
        let at = view.tree.get("Resource").unwrap_or(view.tree);
        let output = Shape::Expr(Expr::atom("output"));
        let parts: Vec<&str> = resource.split(':').collect();
        let call = |handler: &str, input: Value, result: Shape| TaskCall {
            node: TargetNode::new(id, "worker")
                .with("handler", names::handler(handler))
                .with("input", input),
            result,
        };
        match parts[..] {
            ["arn", _, "states", _, _, "lambda", "invoke", ..] => {
                let Some(function) =
                    view.tree.get("Parameters").and_then(|p| p.text("FunctionName"))
                else {
                    let advice = "write the handler of a `worker` node by hand";
                    return Err(Problem::new(at, "the function's name is computed", advice));
                };
                let payload = match part_of(input, "Payload") {
                    Some(payload) => payload.to_value(),
                    None => json!({}),
                };
                let message =
                    "the result has `Payload` and `StatusCode`, and nothing else of Lambda's";
                self.report.different(at, message, "serve the handler with `waypost worker`");
                let result = Shape::object(vec![
                    ("Payload".to_owned(), output),
                    ("StatusCode".to_owned(), Shape::Constant(json!(200))),
                ]);
                let name = function.split(":function:").last().unwrap_or(function);
                Ok(call(name.split(':').next().unwrap_or(name), payload, result))
            }
            ["arn", _, "lambda", _, _, "function", name, ..] => {
                Ok(call(name, input.to_value(), output))
            }
            // The kind of resource that a worker polls for.
            ["arn", _, "states", _, _, kind, name] if kind.starts_with("activit") => {
                Ok(call(name, input.to_value(), output))
            }
            ["arn", _, "states", _, _, ref service @ ..] if !service.is_empty() => {
                let name = service.join(".");
                let handler =
                    names::handler(name.trim_end_matches(".sync").trim_end_matches(".sync:2"));
                let message =
                    format!("a worker has to call the service: its handler is `{handler}`");
                self.report.different(at, message, "write the handler, or use an `api-call`");
                Ok(call(&handler, input.to_value(), output))
            }
            _ => {
                let name = resource.rsplit([':', '/']).next().unwrap_or(resource);
                let message = format!(
                    "`{}` becomes the handler `{}`",
                    shortened(resource),
                    names::handler(name)
                );
                self.report.different(at, message, "serve this handler with a worker");
                Ok(call(name, input.to_value(), output))
            }
        }
    }

    /// `http:invoke`.
    fn http<'t>(
        &mut self,
        id: &str,
        view: StateView<'t>,
        input: &Shape,
    ) -> Result<TaskCall, Problem<'t>> {
        let at = view.tree.get("Parameters").unwrap_or(view.tree);
        let bad = |field: &str| {
            Problem::new(at, format!("the request needs its `{field}`"), "write it in `Parameters`")
        };
        let value = |field: &str| part_of(input, field).map(|shape| shape.to_value());
        let mut node = TargetNode::new(id, "api-call");
        node = node.with("url", value("ApiEndpoint").ok_or_else(|| bad("ApiEndpoint"))?);
        let method = value("Method").ok_or_else(|| bad("Method"))?;
        if method != "GET" {
            node = node.with("method", method);
        }
        for (field, ours) in
            [("Headers", "headers"), ("QueryParameters", "query"), ("RequestBody", "body")]
        {
            if let Some(value) = value(field) {
                node = node.with(ours, value);
            }
        }
        if let Some(tree) = view.tree.get("Parameters") {
            let known = [
                "ApiEndpoint",
                "Method",
                "Headers",
                "QueryParameters",
                "RequestBody",
                "Authentication",
            ];
            let known: Vec<String> =
                known.iter().flat_map(|name| [(*name).to_owned(), format!("{name}.$")]).collect();
            self.report.leftovers(tree, &known.iter().map(String::as_str).collect::<Vec<_>>());
            if let Some(at) = tree.get("Authentication") {
                let message = "the credentials of a connection stay where they are";
                let advice = "add a header with `${{ secrets.name }}`, and grant the secret";
                self.report.lost(at, message, advice);
            }
        }
        let output = Expr::atom("output");
        let result = Shape::object(vec![
            ("ResponseBody".to_owned(), Shape::Expr(output.field("body"))),
            ("StatusCode".to_owned(), Shape::Expr(output.field("status"))),
            ("Headers".to_owned(), Shape::Expr(output.field("headers"))),
        ]);
        Ok(TaskCall { node, result })
    }

    /// `startExecution`, also with `.sync`.
    fn start_execution<'t>(
        &mut self,
        id: &str,
        view: StateView<'t>,
        resource: &str,
        input: &Shape,
    ) -> Result<TaskCall, Problem<'t>> {
        let at = view.tree.get("Parameters").unwrap_or(view.tree);
        let Some(arn) = at.text("StateMachineArn") else {
            let message = "the name of the machine is computed";
            return Err(Problem::new(at, message, "write the name of the workflow by hand"));
        };
        self.report.leftovers(at, &["StateMachineArn", "Input", "Input.$", "Name", "Name.$"]);
        let name = names::workflow(arn.rsplit(':').next().unwrap_or(arn));
        let mut node = TargetNode::new(id, "workflow").with("workflow", name);
        node =
            node.with("input", part_of(input, "Input").map_or(json!({}), |shape| shape.to_value()));
        let output = Expr::atom("output");
        let result = if resource.contains(".sync") {
            let text = if resource.ends_with(":2") { output } else { output.filter("tojson", &[]) };
            Shape::object(vec![("Output".to_owned(), Shape::Expr(text))])
        } else {
            node = node.with("wait", false);
            Shape::object(vec![("ExecutionArn".to_owned(), Shape::Expr(output.field("execution")))])
        };
        let message = "the result has the output of the execution, or its id, and nothing else";
        self.report.different(at, message, "deploy the other workflow under this name");
        Ok(TaskCall { node, result })
    }
}

/// A node that starts something, and waits for its callback.
fn wait_for_token(id: &str, call: TaskCall) -> TaskCall {
    let TaskCall { node, .. } = call;
    let mut start = Map::new();
    start.insert("type".to_owned(), json!(node.kind));
    start.insert("config".to_owned(), Value::Object(node.config));
    let node = TargetNode::new(id, "async-operation").with("start", Value::Object(start));
    TaskCall { node, result: Shape::Expr(Expr::atom("output")) }
}

/// A field of a template, if the template has its fields written out.
fn part_of(shape: &Shape, field: &str) -> Option<Shape> {
    match shape {
        Shape::Object(fields) => {
            fields.iter().find(|(key, _)| key == field).map(|(_, value)| value.clone())
        }
        Shape::Constant(Value::Object(map)) => map.get(field).cloned().map(Shape::Constant),
        Shape::Expr(_) | Shape::List(_) | Shape::Constant(_) | Shape::Text(_) => None,
    }
}
