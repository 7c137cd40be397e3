//! `${task.output.x}`, as expressions.

use serde_json::Value;
use waypost_lang::{Tree, TreeValue};

use super::{Converter, OutputForm, Referred, TaskProblem, Upstream};
use crate::expr::{Expr, Shape};
use crate::json_path::{self, PathStep};
use crate::names;
use crate::report::shortened;

const ADVICE: &str = "write the expression by hand";

fn bad(message: String) -> TaskProblem {
    (message, ADVICE.to_owned())
}

impl Converter<'_, '_> {
    /// A value with references in it.
    pub(super) fn template(&self, tree: &Tree, upstream: &Upstream) -> Result<Shape, TaskProblem> {
        match &tree.value {
            TreeValue::Text { text, .. } => text_of(text, upstream),
            TreeValue::List(items) => {
                let items: Result<Vec<Shape>, TaskProblem> =
                    items.iter().map(|item| self.template(item, upstream)).collect();
                Ok(Shape::list(items?))
            }
            TreeValue::Map(entries) => {
                let fields: Result<Vec<(String, Shape)>, TaskProblem> = entries
                    .iter()
                    .map(|entry| Ok((entry.key.clone(), self.template(&entry.value, upstream)?)))
                    .collect();
                Ok(Shape::object(fields?))
            }
            _ => Ok(Shape::Constant(tree.to_json())),
        }
    }
}

/// A text with references in it.
fn text_of(text: &str, upstream: &Upstream) -> Result<Shape, TaskProblem> {
    let mut parts: Vec<(String, Option<Expr>)> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let inner = &rest[at + 2..];
        let end =
            inner.find('}').ok_or_else(|| bad(format!("`{}` has no end", shortened(rest))))?;
        let expr = reference(inner[..end].trim(), upstream)?;
        parts.push((rest[..at].to_owned(), Some(expr)));
        rest = &inner[end + 1..];
    }
    match &parts[..] {
        [] => Ok(Shape::Constant(Value::from(text))),
        [(before, Some(expr))] if before.is_empty() && rest.is_empty() => {
            Ok(Shape::Expr(expr.clone()))
        }
        _ => {
            parts.push((rest.to_owned(), None));
            Ok(Shape::Text(parts))
        }
    }
}

/// What is between the braces.
fn reference(text: &str, upstream: &Upstream) -> Result<Expr, TaskProblem> {
    let steps = json_path::parse(&format!(".{text}")).map_err(bad)?;
    let keys: Vec<&str> = steps
        .iter()
        .map_while(|step| match step {
            PathStep::Key(key) => Some(key.as_str()),
            _ => None,
        })
        .collect();
    let unknown = || bad(format!("`${{{}}}` has no counterpart", shortened(text)));
    let (base, used) = match keys[..] {
        ["workflow", "input", ..] => (Expr::atom("input"), 2),
        ["workflow", "variables", name, ..] => (Expr::variable(&names::identifier(name)), 3),
        ["workflow", "variables"] => (Expr::atom("variables"), 2),
        ["workflow", "secrets", name] => (Expr::atom("secrets").field(&names::secret(name)), 3),
        ["workflow", "workflowId"] => (Expr::atom("execution.id"), 2),
        ["workflow", "workflowType" | "name"] => (Expr::atom("execution.workflow"), 2),
        ["workflow", "version"] => (Expr::atom("execution.version"), 2),
        ["workflow", ..] => return Err(unknown()),
        [task, "output", ..] => {
            return output(task, &steps[2..], upstream, text);
        }
        [task, "status"] => match upstream.tasks.get(task).map(|task| task.base.text()) {
            Some(base) if base.starts_with("nodes") => {
                let node = base.strip_suffix(".output").unwrap_or(base);
                (Expr::atom(node).field("status"), 2)
            }
            _ => return Err(unknown()),
        },
        _ => return Err(unknown()),
    };
    json_path::follow(base, &steps[used..]).map_err(bad)
}

/// The output of a task, or a part of it.
fn output(
    task: &str,
    steps: &[PathStep],
    upstream: &Upstream,
    text: &str,
) -> Result<Expr, TaskProblem> {
    let Some(referred) = upstream.tasks.get(task) else {
        let message =
            format!("`${{{}}}` refers to a task that has not run before", shortened(text));
        return Err((message, "refer to a task upstream".to_owned()));
    };
    let Referred { base, form, uncertain } = referred;
    let key = |at: usize| match steps.get(at) {
        Some(PathStep::Key(key)) => Some(key.as_str()),
        _ => None,
    };
    let empty = Value::Object(serde_json::Map::new());
    let is_whole = steps.is_empty() || *form == OutputForm::Result && steps.len() == 1;
    let base = if *uncertain && !is_whole { base.or_default(&empty) } else { base.clone() };
    let (base, used) = match (form, key(0), key(1)) {
        (OutputForm::Same | OutputForm::Loop, ..) => (base, 0),
        (OutputForm::Http, Some("response"), Some("body")) => (base.field("body"), 2),
        (OutputForm::Http, Some("response"), Some("headers")) => (base.field("headers"), 2),
        (OutputForm::Http, Some("response"), Some("statusCode")) => (base.field("status"), 2),
        (OutputForm::Result, Some("result"), _) => (base, 1),
        (OutputForm::Iteration, Some("iteration"), _) => (Expr::atom("iteration"), 1),
        (OutputForm::Started, Some("workflowId"), _) => (base.field("execution"), 1),
        (OutputForm::Switch, Some("evaluationResult"), _) => (Expr::list(&[base]), 1),
        (OutputForm::Join, Some(joined), _) => return output(joined, &steps[1..], upstream, text),
        _ => return Err(bad(format!("`${{{}}}` has no counterpart", shortened(text)))),
    };
    let found = json_path::follow(base, &steps[used..]).map_err(bad)?;
    Ok(if *uncertain { found.filter("default", &[Expr::atom("none")]) } else { found })
}
