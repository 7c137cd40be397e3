//! Calls of HTTP, of functions that `use` has, of other workflows, and of commands.

use serde_json::{Map, Value, json};
use waypost_lang::Tree;

use super::tasks::{Made, output};
use super::{Converter, Problem, TaskView};
use crate::expr::{Expr, Shape};
use crate::names;
use crate::read::SourceFields;
use crate::report::shortened;
use crate::target::TargetNode;

impl<'f> Converter<'_, 'f> {
    pub(super) fn call(
        &mut self,
        id: &str,
        view: TaskView<'f, '_>,
        at: &'f Tree,
        input: &Shape,
    ) -> Result<Made, Problem<'f>> {
        let with = view.tree.get("with").unwrap_or(at);
        match at.as_text().unwrap_or_default() {
            "http" => self.http(id, view, with, input),
            name @ ("openapi" | "grpc" | "asyncapi" | "a2a" | "mcp") => {
                let message = format!("calls of `{name}` have no counterpart");
                Err(Problem::new(at, message, "use an `api-call`, or a `worker` node"))
            }
            name => {
                let Some(function) = self.shared("functions", name) else {
                    let message = format!("the function `{}` is not in `use`", shortened(name));
                    return Err(Problem::new(at, message, "write the call in place"));
                };
                let is_http = function.text("call") == Some("http");
                let Some(inner) = function.get("with").filter(|_| is_http) else {
                    let message = "only functions that call `http` can be converted";
                    return Err(Problem::new(at, message, "write the node by hand"));
                };
                self.report.leftovers(function, &["call", "with"]);
                let arguments = match view.tree.get("with") {
                    Some(with) => self.value(with, view, input)?,
                    None => input.clone(),
                };
                self.http(id, view, inner, &arguments)
            }
        }
    }

    fn http(
        &mut self,
        id: &str,
        view: TaskView<'f, '_>,
        with: &'f Tree,
        input: &Shape,
    ) -> Result<Made, Problem<'f>> {
        const KNOWN: &[&str] =
            &["method", "endpoint", "headers", "body", "query", "output", "redirect"];
        self.report.leftovers(with, KNOWN);
        let endpoint = with
            .get("endpoint")
            .ok_or_else(|| Problem::new(with, "the call needs an `endpoint`", "add it"))?;
        let uri = endpoint.get("uri").unwrap_or(endpoint);
        let url = match uri.as_text() {
            Some(text) if super::expressions::expression_of(text).is_none() => {
                uri_template(text, input)
            }
            _ => self.value(uri, view, input)?,
        };
        let mut node = TargetNode::new(id, "api-call").with("url", url.to_value());
        let method = with.text("method").unwrap_or("get").to_ascii_uppercase();
        if method != "GET" {
            node = node.with("method", method);
        }
        for field in ["headers", "query", "body"] {
            if let Some(value) = with.get(field) {
                node = node.with(field, self.value(value, view, input)?.to_value());
            }
        }
        if with.flag("redirect") != Some(true) {
            // A redirect that is not followed is an error.
            let redirected = "response.status >= 300 and response.status < 400";
            node = node.with("followRedirects", false).with("failWhen", redirected);
        }
        if let Some(policy) = endpoint.get("authentication") {
            self.authenticate(policy, view, input, &mut node)?;
        }
        let whole = Expr::atom("output");
        let result = match with.text("output") {
            None | Some("content") => Shape::Expr(whole.field("body")),
            Some("response") => Shape::object(vec![
                ("statusCode".to_owned(), Shape::Expr(whole.field("status"))),
                ("headers".to_owned(), Shape::Expr(whole.field("headers"))),
                ("content".to_owned(), Shape::Expr(whole.field("body"))),
            ]),
            Some(_) => {
                let at = with.get("output").unwrap_or(with);
                return Err(Problem::new(at, "raw output has no counterpart", "use `content`"));
            }
        };
        Ok(Made::of(node, Some(result)))
    }

    fn authenticate(
        &mut self,
        policy: &'f Tree,
        view: TaskView<'f, '_>,
        input: &Shape,
        node: &mut TargetNode,
    ) -> Result<(), Problem<'f>> {
        let shared = policy.text("use").and_then(|name| self.shared("authentications", name));
        let place = shared.map_or(policy, |shared| shared);
        let bad = || {
            let message = "this authentication has no counterpart";
            Problem::new(policy, message, "add a header with `${{ secrets.name }}`")
        };
        let mut field = |of: &Tree, name: &str| -> Result<Value, Problem<'f>> {
            if let Some(secret) = of.text("use") {
                let message = format!("the secret `{}` has one value here", shortened(secret));
                let advice = format!("grant the secret `{}_{name}`", names::secret(secret));
                self.report.different(policy, message, advice);
                return Ok(json!(format!("${{{{ secrets.{}_{name} }}}}", names::secret(secret))));
            }
            let at = of.get(name).ok_or_else(bad)?;
            let value = self.evaluate(at, input, view.scope, view.name).map_err(|_| bad())?;
            Ok(value.to_value())
        };
        if let Some(basic) = place.get("basic") {
            let (username, password) = (field(basic, "username")?, field(basic, "password")?);
            node.config.insert(
                "basicAuth".to_owned(),
                json!({ "username": username, "password": password }),
            );
            return Ok(());
        }
        let bearer = place.get("bearer").ok_or_else(bad)?;
        let token = field(bearer, "token")?;
        let token = token.as_str().unwrap_or_default();
        let header = json!(format!("Bearer {token}"));
        match node.config.entry("headers").or_insert_with(|| json!({})) {
            Value::Object(headers) => drop(headers.insert("authorization".to_owned(), header)),
            _ => return Err(bad()),
        }
        Ok(())
    }

    pub(super) fn run(
        &mut self,
        id: &str,
        view: TaskView<'f, '_>,
        at: &'f Tree,
        input: &Shape,
    ) -> Result<Made, Problem<'f>> {
        self.report.leftovers(at, &["container", "script", "shell", "workflow", "await", "return"]);
        if at.flag("await") == Some(false) && !at.has("workflow") {
            let message = "a process that is not waited for has no counterpart";
            return Err(Problem::new(at, message, "wait for it"));
        }
        if let Some(workflow) = at.get("workflow") {
            return self.workflow(id, view, at, workflow, input);
        }
        let mut node = TargetNode::new(id, "shell");
        if let Some(shell) = at.get("shell") {
            self.report.leftovers(shell, &["command", "arguments", "environment"]);
            let command = shell
                .get("command")
                .ok_or_else(|| Problem::new(shell, "the shell needs a `command`", "add it"))?;
            let command_value = self.value(command, view, input)?.to_value();
            node = match shell.get("arguments").map(|arguments| (arguments, arguments.as_list())) {
                None => node.with("command", command_value),
                Some((arguments, Some(_))) => {
                    let Value::Array(more) = self.value(arguments, view, input)?.to_value() else {
                        return Err(Problem::new(
                            arguments,
                            "the arguments are no list",
                            "write them",
                        ));
                    };
                    let mut all = vec![command_value];
                    all.extend(more);
                    node.with("args", all)
                }
                Some((arguments, None)) => {
                    let message = "named arguments of a command have no counterpart";
                    return Err(Problem::new(arguments, message, "write them as a list"));
                }
            };
            node = self.environment(node, shell, view, input)?;
        } else if let Some(script) = at.get("script") {
            node = self.script(node, script, view, input)?;
        } else {
            let place = at.get("container").unwrap_or(at);
            let message = "containers have no counterpart";
            return Err(Problem::new(
                place,
                message,
                "use a `shell` node with your container tool",
            ));
        }
        let whole = Expr::atom("output");
        let result = match at.text("return") {
            None | Some("stdout") => Some(Shape::Expr(whole.field("stdout"))),
            Some("stderr") => Some(Shape::Expr(whole.field("stderr"))),
            Some("code") => Some(Shape::Expr(whole.field("exitCode"))),
            Some("none") => Some(Shape::Constant(Value::Null)),
            Some("all") => Some(Shape::object(vec![
                ("code".to_owned(), Shape::Expr(whole.field("exitCode"))),
                ("stdout".to_owned(), Shape::Expr(whole.field("stdout"))),
                ("stderr".to_owned(), Shape::Expr(whole.field("stderr"))),
            ])),
            Some(_) => return Err(Problem::new(at, "`return` is unknown", "correct it")),
        };
        let message =
            "the command runs on the machine of the engine, where exit codes other than 0 fail";
        self.report.different(at, message, "make sure that its program is there");
        Ok(Made::of(node, result))
    }

    fn script(
        &mut self,
        node: TargetNode,
        script: &'f Tree,
        view: TaskView<'f, '_>,
        input: &Shape,
    ) -> Result<TargetNode, Problem<'f>> {
        self.report.leftovers(script, &["language", "code", "environment"]);
        let program = match script.text("language").map(str::to_ascii_lowercase).as_deref() {
            Some("python") => ["python3", "-c"],
            Some("js" | "javascript") => ["node", "-e"],
            _ => {
                return Err(Problem::new(
                    script,
                    "scripts of this language have no counterpart",
                    "use a `shell` node",
                ));
            }
        };
        let code = script.text("code").ok_or_else(|| {
            Problem::new(script, "a script in another document", "write it in place")
        })?;
        let args = json!([program[0], program[1], crate::expr::literal_text(code)]);
        self.environment(node.with("args", args), script, view, input)
    }

    fn environment(
        &mut self,
        node: TargetNode,
        place: &'f Tree,
        view: TaskView<'f, '_>,
        input: &Shape,
    ) -> Result<TargetNode, Problem<'f>> {
        match place.get("environment") {
            Some(environment) => {
                Ok(node.with("env", self.value(environment, view, input)?.to_value()))
            }
            None => Ok(node),
        }
    }

    fn workflow(
        &mut self,
        id: &str,
        view: TaskView<'f, '_>,
        run: &'f Tree,
        workflow: &'f Tree,
        input: &Shape,
    ) -> Result<Made, Problem<'f>> {
        self.report.leftovers(workflow, &["namespace", "name", "version", "input"]);
        let name = workflow
            .text("name")
            .ok_or_else(|| Problem::new(workflow, "the workflow needs a `name`", "add it"))?;
        let message = "namespaces and versions have no counterpart: the current version is started";
        self.report.different(workflow, message, "deploy the workflow under its name");
        let given = match workflow.get("input") {
            Some(at) => self.value(at, view, input)?.to_value(),
            None => Value::Object(Map::new()),
        };
        let mut node = TargetNode::new(id, "workflow")
            .with("workflow", names::workflow(name))
            .with("input", given);
        if run.flag("await") == Some(false) {
            node = node.with("wait", false);
            return Ok(Made::of(node, None));
        }
        Ok(Made::of(node, Some(output())))
    }
}

/// `https://…/{id}`: names in braces are fields of the input.
fn uri_template(text: &str, input: &Shape) -> Shape {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, inner)) = rest.split_once('{') {
        let Some((name, after)) = inner.split_once('}') else { break };
        let name = name.trim_start_matches('+');
        parts.push((before.to_owned(), Some(input.field(name).to_expr())));
        rest = after;
    }
    if parts.is_empty() {
        return Shape::Constant(Value::from(text));
    }
    parts.push((rest.to_owned(), None));
    Shape::Text(parts)
}
