//! Errors: `raise`, and `try` with `catch` and `retry`.

use serde_json::{Map, Value, json};
use waypost_lang::Tree;

use super::tasks::{Made, output};
use super::{Converter, EXPRESSION, Problem, TaskView, constant_duration};
use crate::expr::{Expr, Shape, quoted};
use crate::names;
use crate::read::SourceFields;
use crate::report::shortened;
use crate::target::{NeedEdge, TargetNode};

const CAUGHT: &str = "caught";

/// The kinds of failures that a type of errors stands for.
fn kinds_of(kind: &str) -> Vec<String> {
    let last = kind.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or(kind);
    if !kind.contains("serverlessworkflow.io") {
        return vec![names::failure_kind(last)];
    }
    let known: &[&str] = match last {
        "communication" => &["http", "connection", "timeout"],
        "timeout" => &["timeout"],
        "expression" => &["expression"],
        "authentication" | "authorization" => &["http"],
        "configuration" => &["invalid_config"],
        _ => return vec![names::failure_kind(last)],
    };
    known.iter().map(|kind| (*kind).to_owned()).collect()
}

impl<'f> Converter<'_, 'f> {
    pub(super) fn raise(
        &mut self,
        id: &str,
        view: TaskView<'f, '_>,
        at: &'f Tree,
        input: &Shape,
    ) -> Result<Made, Problem<'f>> {
        let error = at.get("error").unwrap_or(at);
        let error = match error.as_text() {
            Some(name) => self.shared("errors", name).ok_or_else(|| {
                Problem::new(
                    error,
                    format!("the error `{}` is not in `use`", shortened(name)),
                    "add it",
                )
            })?,
            None => error,
        };
        self.report.leftovers(error, &["type", "status", "title", "detail", "instance"]);
        let shape = self.value(error, view, input)?;
        let mut node = TargetNode::new(id, "fail");
        let part = |field: &str| error.get(field).map(|_| shape.field(field).to_value());
        let message = part("detail").or_else(|| part("title")).filter(|m| m != "");
        node = node.with("message", message.unwrap_or_else(|| json!("an error was raised")));
        if let Some(kind) = error.text("type").filter(|kind| !kind.contains("${")) {
            let last = kind.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or(kind);
            let own = names::failure_kind(last);
            let message = format!("the type `{}` has the kind `{own}` here", shortened(kind));
            self.report.different(error, message, "use this kind where you look for it");
            node = node.with("kind", own);
        }
        node = node.with("details", shape.to_value());
        let mut made = Made::of(node, None);
        made.goes_on = false;
        Ok(made)
    }

    /// `try`: a group, which may be tried again, and whose failure may be handled.
    pub(super) fn attempt(
        &mut self,
        id: &str,
        view: TaskView<'f, '_>,
        list: &'f Tree,
        input: &Shape,
    ) -> Result<Made, Problem<'f>> {
        let catch = view.tree.get("catch").unwrap_or(list);
        let mut node = TargetNode::new(id, "group");
        node.nodes = self.body(id, (list, list.items()), &[(None, input.clone())], view.scope);
        let mut made = Made::of(node, Some(output()));
        if !view.tree.has("catch") {
            return Ok(made);
        }
        self.report.leftovers(catch, &["errors", "as", "when", "exceptWhen", "retry", "do"]);
        let filter = catch.get("errors").and_then(|errors| errors.get("with"));
        if let Some(filter) = filter {
            self.report.leftovers(filter, &["type", "status"]);
        }
        if let Some(retry) = catch.get("retry") {
            let block = self.retry(retry, filter)?;
            made.main.set("retry", block);
        }
        let failure = Expr::atom("nodes").field(id).field("failure");
        let error = error_of(&failure);
        let mut scope = view.scope.clone();
        scope.names.insert(catch.text("as").unwrap_or("error").to_owned(), error);
        made.main.set("onError", CAUGHT);
        let mut edge = NeedEdge::on(id, CAUGHT);
        if let Some(condition) = self.caught(catch, filter, view, input, &scope, &failure)? {
            let asked = self.ids.beside(id, "is_caught");
            made.after.push(
                TargetNode::new(&asked, "condition")
                    .needing(vec![edge])
                    .with("expression", condition.text()),
            );
            made.after.push(
                TargetNode::new(&self.ids.beside(id, "uncaught"), "fail")
                    .needing(vec![NeedEdge::on(&asked, "false")])
                    .with("message", failure.field("message").template())
                    .with("details", failure.template()),
            );
            let message = "a failure that is not caught fails the execution with the kind `failed`";
            self.report.different(catch, message, "its kind is in the `details`");
            edge = NeedEdge::on(&asked, "true");
        }
        let Some(list) = catch.get("do") else {
            let caught = self.ids.beside(id, "ignored");
            made.after.push(TargetNode::new(&caught, "noop").needing(vec![edge]));
            made.exits.push(NeedEdge::to(&caught));
            return Ok(made);
        };
        let handler = self.ids.beside(id, "catch");
        let mut group = TargetNode::new(&handler, "group").needing(vec![edge]);
        group.nodes = self.body(&handler, (list, list.items()), &[(None, input.clone())], &scope);
        group.variables.insert(view.scope.data.clone(), output().to_value());
        made.after.push(group);
        made.exits.push(NeedEdge::to(&handler));
        Ok(made)
    }

    /// The condition under which a failure is caught, if not always.
    fn caught(
        &mut self,
        catch: &'f Tree,
        filter: Option<&'f Tree>,
        view: TaskView<'f, '_>,
        input: &Shape,
        scope: &super::ListScope,
        failure: &Expr,
    ) -> Result<Option<Expr>, Problem<'f>> {
        let mut parts = Vec::new();
        if let Some(filter) = filter {
            if let Some(kind) = filter.text("type") {
                let kinds = kinds_of(kind);
                let at = filter.get("type").unwrap_or(filter);
                let message = format!("failures have kinds and no types: {}", kinds.join(", "));
                self.report.different(at, message, "check that these kinds are meant");
                parts.push(match &kinds[..] {
                    [one] => failure.field("kind").compare("==", &Expr::atom(quoted(one))),
                    all => failure.field("kind").compare("in", &Expr::literal(&json!(all))),
                });
            }
            if let Some(status) = filter.get("status") {
                let found = error_of(failure).field("status").to_expr();
                parts.push(found.compare("==", &Expr::literal(&status.json())));
            }
        }
        for (field, wanted) in [("when", true), ("exceptWhen", false)] {
            let Some(at) = catch.get(field) else { continue };
            let text = at.as_text().unwrap_or_default();
            let condition = self.condition(text, input, scope, view.name);
            let condition = condition.map_err(|message| Problem::new(at, message, EXPRESSION))?;
            parts.push(if wanted { condition } else { condition.negated() });
        }
        Ok(parts.into_iter().reduce(|all, part| all.and(&part)))
    }

    fn retry(&mut self, at: &'f Tree, filter: Option<&'f Tree>) -> Result<Value, Problem<'f>> {
        let policy = match at.as_text() {
            Some(name) => self.shared("retries", name).ok_or_else(|| {
                Problem::new(
                    at,
                    format!("the policy `{}` is not in `use`", shortened(name)),
                    "add it",
                )
            })?,
            None => at,
        };
        self.report.leftovers(policy, &["delay", "backoff", "limit", "jitter"]);
        let mut block = Map::new();
        let limit = policy.get("limit");
        let count = limit.and_then(|limit| limit.get("attempt")).and_then(|a| a.number("count"));
        block.insert(
            "maxAttempts".to_owned(),
            json!(crate::convert::whole(count.unwrap_or(999.0)) + 1),
        );
        if count.is_none() {
            let message = "attempts without a limit end after 1,000";
            self.report.different(policy, message, "set `limit`");
        }
        for at in [
            limit.and_then(|l| l.get("duration")),
            limit.and_then(|l| l.get("attempt")).and_then(|a| a.get("duration")),
        ]
        .into_iter()
        .flatten()
        {
            let message = "a limit of the time of all attempts has no counterpart in `retry`";
            self.report.different(at, message, "set a `deadline`");
        }
        let delay = policy.get("delay").map(constant_duration);
        let delay = match delay {
            Some(Some(delay)) => delay,
            Some(None) => return Err(Problem::new(policy, "the delay is no constant", "write it")),
            None => json!(0),
        };
        block.insert("waitDuration".to_owned(), delay);
        match policy.get("backoff") {
            Some(backoff) if backoff.has("exponential") => {}
            Some(backoff) if backoff.has("linear") => {
                let message = "waits that grow evenly become equal waits";
                self.report.different(backoff, message, "choose the waits by hand");
                block.insert("exponentialBackoff".to_owned(), json!(false));
            }
            _ => drop(block.insert("exponentialBackoff".to_owned(), json!(false))),
        }
        if let Some(jitter) = policy.get("jitter") {
            let message = "jitter is a share of the wait here";
            self.report.different(jitter, message, "choose `jitter` by hand");
        } else {
            block.insert("jitter".to_owned(), json!(0));
        }
        let kinds = filter.and_then(|filter| filter.text("type")).map(kinds_of);
        let status = filter.and_then(|filter| filter.number("status"));
        let only: Vec<Value> = match (kinds, status) {
            (Some(kinds), _) => kinds.into_iter().map(Value::from).collect(),
            (None, Some(status)) => vec![json!(crate::convert::whole(status))],
            (None, None) => Vec::new(),
        };
        if only.is_empty() {
            let message = "only failures that are marked as retryable are tried again";
            self.report.different(at, message, "list kinds in `retryOn`");
        } else {
            block.insert("retryOn".to_owned(), Value::Array(only));
        }
        Ok(Value::Object(block))
    }
}

/// An error as `catch` sees it: what was raised has its fields in the details of the failure.
fn error_of(failure: &Expr) -> Shape {
    let details = failure.field("details").or_default(&json!({}));
    let known = |name: &str, ours: &str| {
        let found = details.field(name).filter("default", &[failure.field(ours)]);
        (name.to_owned(), Shape::Expr(found))
    };
    Shape::object(vec![
        known("type", "kind"),
        known("status", "status"),
        known("title", "message"),
        known("detail", "message"),
        ("details".to_owned(), Shape::Expr(failure.field("details"))),
    ])
}
