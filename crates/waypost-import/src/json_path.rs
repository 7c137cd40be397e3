//! JSONPath, as far as our expressions can follow it.

use crate::expr::{EXPRESSION_BYTES_MAX, Expr, Shape, quoted};
use crate::report::shortened;

/// One step of a path.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum PathStep {
    Key(String),
    Index(i64),
    Slice(String, String),
    All,
}

/// Follows a path from a value, whose fields may be written out.
pub(crate) fn follow_shape(base: &Shape, steps: &[PathStep]) -> Result<Expr, String> {
    let keys = steps.iter().take_while(|step| matches!(step, PathStep::Key(_))).count();
    let (first, rest) = steps.split_at(keys);
    let here = first.iter().fold(base.clone(), |here, step| match step {
        PathStep::Key(key) => here.field(key),
        PathStep::Index(_) | PathStep::Slice(..) | PathStep::All => here,
    });
    follow(here.to_expr(), rest)
}

/// Follows a path from an expression.
pub(crate) fn follow(base: Expr, steps: &[PathStep]) -> Result<Expr, String> {
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
                let name = format!("attribute={}", quoted(key));
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
pub(crate) fn parse(text: &str) -> Result<Vec<PathStep>, String> {
    if text.len() > EXPRESSION_BYTES_MAX {
        return Err("the path is too long".to_owned());
    }
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
