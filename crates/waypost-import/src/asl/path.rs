//! Reference paths and JSONPath, as far as our expressions can follow them.

use serde_json::Value;

use super::{MachineScope, intrinsics};
use crate::expr::{Expr, Shape};
use crate::report::shortened;

/// What paths are relative to.
#[derive(Clone, Debug)]
pub(super) struct PathRoot<'s> {
    /// `$`.
    pub(super) root: Shape,
    pub(super) state: &'s str,
    pub(super) scope: &'s MachineScope,
}

/// One step of a path.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum PathStep {
    Key(String),
    Index(i64),
    Slice(String, String),
    All,
}

impl PathRoot<'_> {
    /// The value of a path or an intrinsic function.
    pub(super) fn eval(&self, text: &str) -> Result<Expr, String> {
        if text.starts_with('$') { self.path(text) } else { intrinsics::call(text, self) }
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
                            fields.push((key.to_owned(), Shape::Expr(self.eval(path)?)));
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

/// Follows a path from a value, whose fields may be written out.
fn follow_shape(base: &Shape, steps: &[PathStep]) -> Result<Expr, String> {
    let keys = steps.iter().take_while(|step| matches!(step, PathStep::Key(_))).count();
    let (first, rest) = steps.split_at(keys);
    let here = first.iter().fold(base.clone(), |here, step| match step {
        PathStep::Key(key) => here.field(key),
        PathStep::Index(_) | PathStep::Slice(..) | PathStep::All => here,
    });
    follow(here.to_expr(), rest)
}

/// Follows a path from an expression.
pub(super) fn follow(base: Expr, steps: &[PathStep]) -> Result<Expr, String> {
    let mut here = base;
    let mut of_each = false;
    for step in steps {
        here = match step {
            PathStep::All if of_each => return Err("a path may have one `[*]` only".to_owned()),
            PathStep::All => {
                of_each = true;
                here
            }
            PathStep::Key(key) if of_each => {
                if key.contains('.') {
                    return Err(format!("`[*]` before the field `{}`", shortened(key)));
                }
                let name = format!("attribute={}", crate::expr::quoted(key));
                here.filter("map", &[Expr::atom(name)]).filter("list", &[])
            }
            _ if of_each => return Err("`[*]` before an index".to_owned()),
            PathStep::Key(key) => here.field(key),
            PathStep::Index(at) => here.index(&Expr::atom(at.to_string())),
            PathStep::Slice(from, to) => here.slice(from, to),
        };
    }
    Ok(here)
}

/// The steps after the root of a path.
pub(super) fn parse(text: &str) -> Result<Vec<PathStep>, String> {
    let mut steps = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let bad = || format!("the path `{}` cannot be followed", shortened(text));
        if rest.starts_with("..") {
            return Err(format!("`..` in a path has no counterpart: `{}`", shortened(text)));
        }
        if let Some(after) = rest.strip_prefix('.') {
            let length = after.find(['.', '[']).unwrap_or(after.len());
            let name = &after[..length];
            rest = &after[length..];
            let is_name = name.chars().all(|c| c.is_alphanumeric() || "_-".contains(c));
            match name {
                "*" => steps.push(PathStep::All),
                "" => return Err(bad()),
                name if is_name => steps.push(PathStep::Key(name.to_owned())),
                _ => return Err(bad()),
            }
            continue;
        }
        let inner = rest.strip_prefix('[').ok_or_else(bad)?;
        if inner.starts_with("?(") || inner.starts_with("?@") {
            return Err(format!("a filter in a path has no counterpart: `{}`", shortened(text)));
        }
        let (step, length) = bracket(inner).ok_or_else(bad)?;
        steps.push(step);
        rest = &inner[length..];
    }
    Ok(steps)
}

/// What is in brackets, and how many bytes it has with the closing one.
fn bracket(inner: &str) -> Option<(PathStep, usize)> {
    if let Some(quote) = inner.chars().next().filter(|c| "'\"".contains(*c)) {
        let end = inner[1..].find(quote)? + 1;
        let key = &inner[1..end];
        let closes = inner[end + 1..].starts_with(']') && !key.contains('\\');
        return closes.then(|| (PathStep::Key(key.to_owned()), end + 2));
    }
    let end = inner.find(']')?;
    let content = inner[..end].trim();
    let number = |text: &str| text.trim().parse::<i64>().ok();
    let step = match content.split_once(':') {
        _ if content == "*" => PathStep::All,
        None => PathStep::Index(number(content)?),
        Some((from, to)) => {
            let bound = |text: &str| text.trim().is_empty() || number(text).is_some();
            if !bound(from) || !bound(to) {
                return None;
            }
            PathStep::Slice(from.trim().to_owned(), to.trim().to_owned())
        }
    };
    Some((step, end + 1))
}
