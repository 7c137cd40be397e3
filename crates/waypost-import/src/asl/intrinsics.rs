//! The intrinsic functions, `States.Format('…', $.a)`, as expressions.

use serde_json::Value;

use super::path::PathRoot;
use crate::expr::{Binds, EXPRESSION_BYTES_MAX, Expr, Shape};
use crate::report::shortened;

/// How deep calls may be nested.
const DEPTH_MAX: usize = 10;

/// An argument: its expression, and its text if it is a constant text.
#[derive(Clone, Debug)]
struct Argument {
    expr: Expr,
    text: Option<String>,
}

struct Reader<'t, 'r> {
    rest: &'t str,
    root: &'r PathRoot<'r>,
    depth: usize,
}

/// The value of a call.
pub(super) fn call(text: &str, root: &PathRoot<'_>) -> Result<Shape, String> {
    if text.len() > EXPRESSION_BYTES_MAX {
        return Err("the call is too long".to_owned());
    }
    let mut reader = Reader { rest: text.trim(), root, depth: 0 };
    let found = reader.call()?;
    match reader.rest.trim() {
        "" => Ok(found),
        _ => Err(format!("`{}` is no call of an intrinsic function", shortened(text))),
    }
}

impl Reader<'_, '_> {
    fn call(&mut self) -> Result<Shape, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("calls are nested deeper than {DEPTH_MAX} levels"));
        }
        let length = self.rest.find('(').unwrap_or(self.rest.len());
        let name = self.rest[..length].trim().to_owned();
        if !name.starts_with("States.") {
            return Err(format!(
                "`{}` is neither a path nor an intrinsic function",
                shortened(&name)
            ));
        }
        self.rest = self.rest[length..].strip_prefix('(').ok_or("a call needs parentheses")?;
        let mut arguments = Vec::new();
        loop {
            self.rest = self.rest.trim_start();
            if let Some(rest) = self.rest.strip_prefix(')') {
                self.rest = rest;
                break;
            }
            arguments.push(self.argument()?);
            self.rest = self.rest.trim_start();
            match self.rest.strip_prefix(',') {
                Some(rest) => self.rest = rest,
                None if self.rest.starts_with(')') => {}
                None => return Err(format!("the arguments of `{name}` cannot be read")),
            }
        }
        self.depth -= 1;
        match (name.as_str(), &arguments[..]) {
            ("States.Format", [template, values @ ..]) => format(template, values),
            _ => apply(&name, &arguments).map(Shape::Expr),
        }
    }

    fn argument(&mut self) -> Result<Argument, String> {
        if let Some(rest) = self.rest.strip_prefix('\'') {
            let (text, length) = unquoted(rest).ok_or("a text has no end")?;
            self.rest = &rest[length..];
            let expr = Expr::literal(&Value::from(text.as_str()));
            return Ok(Argument { expr, text: Some(text) });
        }
        if self.rest.starts_with("States.") {
            return Ok(Argument { expr: self.call()?.to_expr(), text: None });
        }
        let mut depth = 0_u32;
        let end = self.rest.find(|c: char| {
            match c {
                '[' => depth += 1,
                ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0 && (c == ',' || c == ')')
        });
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        let word = word.trim();
        if word.starts_with('$') {
            return Ok(Argument { expr: self.root.path(word)?, text: None });
        }
        match serde_json::from_str::<Value>(word) {
            Ok(value @ (Value::Null | Value::Bool(_) | Value::Number(_))) => {
                Ok(Argument { expr: Expr::literal(&value), text: None })
            }
            _ => Err(format!("`{}` is no argument", shortened(word))),
        }
    }
}

/// A text up to its quote, and how many bytes it has with it.
fn unquoted(rest: &str) -> Option<(String, usize)> {
    let mut text = String::new();
    let mut characters = rest.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '\'' => return Some((text, at + 1)),
            '\\' => match characters.next()?.1 {
                // Braces stay escaped for `States.Format`.
                brace @ ('{' | '}') => text.extend(['\\', brace]),
                other => text.push(other),
            },
            c => text.push(c),
        }
    }
    None
}

fn apply(name: &str, arguments: &[Argument]) -> Result<Expr, String> {
    let function = name.trim_start_matches("States.");
    let all: Vec<Expr> = arguments.iter().map(|argument| argument.expr.clone()).collect();
    match (function, &all[..]) {
        ("JsonToString", [value]) => Ok(value.filter("tojson", &[])),
        ("Array", items) => Ok(Expr::list(items)),
        ("ArrayPartition", [list, size]) => {
            Ok(list.filter("batch", std::slice::from_ref(size)).filter("list", &[]))
        }
        ("ArrayContains", [list, value]) => Ok(value.compare("in", list)),
        ("ArrayRange", [from, to, step]) => {
            let beyond = to.binary("+", &Expr::atom("1"), Binds::Add);
            let call = format!("range({}, {}, {})", from.text(), beyond.text(), step.text());
            Ok(Expr::atom(call).filter("list", &[]))
        }
        ("ArrayGetItem", [list, at]) => Ok(list.index(at)),
        ("ArrayLength", [list]) => Ok(list.filter("length", &[])),
        ("ArrayUnique", [list]) => Ok(list.filter("unique", &[]).filter("list", &[])),
        ("JsonMerge", [one, other, ..]) => Ok(one.merged(other)),
        ("MathAdd", [one, other]) => Ok(one.binary("+", other, Binds::Add)),
        ("StringSplit", [text, _]) => {
            let separator = arguments[1].text.as_deref().unwrap_or_default();
            if separator.chars().count() != 1 {
                return Err("`States.StringSplit` with other than one character".to_owned());
            }
            let parts = text.filter("split", &[Expr::literal(&Value::from(separator))]);
            Ok(parts.filter("reject", &[Expr::atom("'eq', ''")]).filter("list", &[]))
        }
        ("UUID" | "MathRandom" | "Hash" | "Base64Encode" | "Base64Decode" | "StringToJson", _) => {
            Err(format!("`{name}` has no counterpart"))
        }
        _ => Err(format!("`{}` with {} arguments is unknown", shortened(name), all.len())),
    }
}

/// Each `{}` stands for a value.
fn format(template: &Argument, values: &[Argument]) -> Result<Shape, String> {
    let template = template.text.as_deref().ok_or("`States.Format` without a constant text")?;
    let mut parts: Vec<(String, Option<Expr>)> = vec![(String::new(), None)];
    let mut left = values.iter();
    let mut places = 0;
    let mut characters = template.chars().peekable();
    while let Some(c) = characters.next() {
        let Some((text, expr)) = parts.last_mut() else { break };
        match c {
            '\\' => text.extend(characters.next()),
            '{' if characters.peek() == Some(&'}') => {
                characters.next();
                places += 1;
                *expr = left.next().map(|value| value.expr.clone());
                parts.push((String::new(), None));
            }
            c => text.push(c),
        }
    }
    if places != values.len() {
        let count = values.len();
        return Err(format!("`States.Format` has {places} places for {count} values"));
    }
    Ok(Shape::Text(parts))
}
