//! Reference paths: JSONPath from the data, the context object or a variable.

use serde_json::Value;

use super::{MachineScope, intrinsics};
use crate::expr::{Expr, Shape};
use crate::json_path::{PathStep, follow, follow_shape, parse};
use crate::report::shortened;

/// What paths are relative to.
#[derive(Clone, Debug)]
pub(super) struct PathRoot<'s> {
    /// `$`.
    pub(super) root: Shape,
    pub(super) state: &'s str,
    pub(super) scope: &'s MachineScope,
}

impl PathRoot<'_> {
    /// The value of a path or an intrinsic function.
    pub(super) fn eval(&self, text: &str) -> Result<Expr, String> {
        self.shape(text).map(|shape| shape.to_expr())
    }

    fn shape(&self, text: &str) -> Result<Shape, String> {
        if text.starts_with('$') {
            return self.path(text).map(Shape::Expr);
        }
        intrinsics::call(text, self)
    }

    pub(super) fn path(&self, text: &str) -> Result<Expr, String> {
        if let Some(rest) = text.strip_prefix("$$") {
            return self.context(&parse(rest)?, text);
        }
        let rest =
            text.strip_prefix('$').ok_or_else(|| format!("`{}` is no path", shortened(text)))?;
        let word: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if word.is_empty() {
            return follow_shape(&self.root, &parse(rest)?);
        }
        let variable = self.scope.assigned.get(&word);
        let name = variable.ok_or_else(|| format!("no state assigns the variable `${word}`"))?;
        follow(Expr::variable(name), &parse(&rest[word.len()..])?)
    }

    /// A path into the context object.
    fn context(&self, steps: &[PathStep], text: &str) -> Result<Expr, String> {
        let keys: Vec<&str> = steps
            .iter()
            .map_while(|step| match step {
                PathStep::Key(key) => Some(key.as_str()),
                _ => None,
            })
            .collect();
        let (base, used) = match keys[..] {
            ["Execution", "Input", ..] => (Expr::atom("input"), 2),
            ["Execution", "Id" | "Name", ..] => (Expr::atom("execution.id"), 2),
            ["Execution", "StartTime", ..] => (Expr::atom("execution.startedAt"), 2),
            ["State", "EnteredTime", ..] => (Expr::atom("execution.now"), 2),
            ["State", "Name", ..] => (Expr::literal(&Value::from(self.state)), 2),
            ["StateMachine", "Name" | "Id", ..] => (Expr::atom("execution.workflow"), 2),
            ["Map", "Item", "Index", ..] => (Expr::atom("index"), 3),
            ["Map", "Item", "Value", ..] => (Expr::atom("item"), 3),
            ["Task", "Token"] => (Expr::atom("callback.token"), 2),
            _ => return Err(format!("`{}` has no counterpart", shortened(text))),
        };
        follow(base, &steps[used..])
    }

    /// A payload template: fields whose names end in `.$` are paths.
    pub(super) fn template(&self, value: &Value) -> Result<Shape, String> {
        match value {
            Value::Object(map) => {
                let mut fields = Vec::new();
                for (key, value) in map {
                    match (key.strip_suffix(".$"), value) {
                        (Some(key), Value::String(path)) => {
                            fields.push((key.to_owned(), self.shape(path)?));
                        }
                        (Some(_), _) => return Err(format!("`{}` is no path", shortened(key))),
                        (None, value) => fields.push((key.clone(), self.template(value)?)),
                    }
                }
                Ok(Shape::object(fields))
            }
            Value::Array(items) => Ok(Shape::list(
                items.iter().map(|item| self.template(item)).collect::<Result<_, _>>()?,
            )),
            other => Ok(Shape::Constant(other.clone())),
        }
    }
}
