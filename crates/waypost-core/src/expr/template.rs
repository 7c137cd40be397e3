//! Templates: JSON trees whose strings may contain `${{ expression }}`.
//!
//! A string that is exactly one hole keeps the JSON type of its value; a string with text around
//! its holes becomes text. Keys are never templates.

use std::ops::Range;

use super::{Expression, Scope};
use crate::failure::{Failure, kind};
use crate::json::Json;

/// A JSON tree with holes, compiled.
#[derive(Debug, PartialEq)]
pub enum Template {
    /// No hole inside.
    Literal(Json),
    /// Exactly one hole.
    Hole(Box<Expression>),
    /// Text with holes.
    Text(Vec<Piece>),
    /// An array with holes somewhere inside.
    List(Vec<Self>),
    /// An object with holes somewhere inside.
    Map(Vec<(String, Self)>),
}

/// A part of a text with holes.
#[derive(Debug, PartialEq)]
pub enum Piece {
    /// Text.
    Text(String),
    /// A hole.
    Hole(Box<Expression>),
}

/// Why a template was refused: where in the tree, and where in the string found there.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct TemplateFault {
    /// What is wrong.
    pub message: String,
    /// Keys and positions from the root of the template to the string.
    pub path: Vec<String>,
    /// Bytes of that string.
    pub range: Range<usize>,
}

const OPEN: &str = "${{";

impl Template {
    /// Compiles a tree, stopping at the first fault.
    pub fn compile(value: &serde_json::Value) -> Result<Self, TemplateFault> {
        Self::compile_at(value, &mut Vec::new())
    }

    fn compile_at(
        value: &serde_json::Value,
        path: &mut Vec<String>,
    ) -> Result<Self, TemplateFault> {
        use serde_json::Value;
        match value {
            Value::String(text) if text.contains(OPEN) => Self::compile_text(text)
                .map_err(|(message, range)| TemplateFault { message, path: path.clone(), range }),
            Value::Array(items) => {
                let mut compiled = Vec::with_capacity(items.len());
                for (position, item) in items.iter().enumerate() {
                    path.push(position.to_string());
                    compiled.push(Self::compile_at(item, path)?);
                    path.pop();
                }
                let literal = compiled.iter().all(Self::is_literal);
                Ok(if literal {
                    Self::Literal(Json::from_value(value))
                } else {
                    Self::List(compiled)
                })
            }
            Value::Object(fields) => {
                let mut compiled = Vec::with_capacity(fields.len());
                for (key, field) in fields {
                    path.push(key.clone());
                    compiled.push((key.clone(), Self::compile_at(field, path)?));
                    path.pop();
                }
                let literal = compiled.iter().all(|(_, field)| field.is_literal());
                Ok(if literal {
                    Self::Literal(Json::from_value(value))
                } else {
                    Self::Map(compiled)
                })
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                Ok(Self::Literal(Json::from_value(value)))
            }
        }
    }

    fn compile_text(text: &str) -> Result<Self, (String, Range<usize>)> {
        let mut pieces = Vec::new();
        for segment in segments(text)? {
            pieces.push(match segment {
                Segment::Text(part) => Piece::Text(part.to_owned()),
                Segment::Hole { source, start } => {
                    let leading = source.len() - source.trim_start().len();
                    let at = start + leading;
                    let expression = Expression::compile(source.trim()).map_err(|fault| {
                        (fault.message, at + fault.range.start..at + fault.range.end)
                    })?;
                    Piece::Hole(Box::new(expression))
                }
            });
        }
        Ok(match <[Piece; 1]>::try_from(pieces) {
            Ok([Piece::Hole(expression)]) => Self::Hole(expression),
            Ok(single) => Self::Text(single.into()),
            Err(pieces) => Self::Text(pieces),
        })
    }

    /// Is there no hole anywhere in it?
    pub fn is_literal(&self) -> bool {
        matches!(self, Self::Literal(_))
    }

    /// The literal, where there is no hole.
    pub fn as_literal(&self) -> Option<&Json> {
        match self {
            Self::Literal(json) => Some(json),
            Self::Hole(_) | Self::Text(_) | Self::List(_) | Self::Map(_) => None,
        }
    }

    /// Calls `visit` with every expression in the tree.
    pub fn visit<'a>(&'a self, visit: &mut dyn FnMut(&'a Expression)) {
        match self {
            Self::Literal(_) => {}
            Self::Hole(expression) => visit(expression),
            Self::Text(pieces) => pieces.iter().for_each(|piece| {
                if let Piece::Hole(expression) = piece {
                    visit(expression);
                }
            }),
            Self::List(items) => items.iter().for_each(|item| item.visit(visit)),
            Self::Map(fields) => fields.iter().for_each(|(_, field)| field.visit(visit)),
        }
    }

    /// Fills the holes. The scope must hold what the expressions refer to.
    pub fn render(&self, scope: &Scope) -> Result<Json, Failure> {
        if let Self::Literal(json) = self {
            return Ok(json.clone());
        }
        let mut text = String::new();
        self.render_into(scope, &mut text)?;
        Json::parse(&text).map_err(Failure::from)
    }

    fn render_into(&self, scope: &Scope, out: &mut String) -> Result<(), Failure> {
        match self {
            Self::Literal(json) => out.push_str(json.text()),
            Self::Hole(expression) => out.push_str(expression.eval(scope)?.text()),
            Self::Text(pieces) => {
                let mut text = String::new();
                for piece in pieces {
                    match piece {
                        Piece::Text(part) => text.push_str(part),
                        Piece::Hole(expression) => text.push_str(&expression.eval_text(scope)?),
                    }
                    check_size(text.len())?;
                }
                push_string(out, &text);
            }
            Self::List(items) => {
                out.push('[');
                for (position, item) in items.iter().enumerate() {
                    if position > 0 {
                        out.push(',');
                    }
                    item.render_into(scope, out)?;
                }
                out.push(']');
            }
            Self::Map(fields) => {
                out.push('{');
                for (position, (key, field)) in fields.iter().enumerate() {
                    if position > 0 {
                        out.push(',');
                    }
                    push_string(out, key);
                    out.push(':');
                    field.render_into(scope, out)?;
                }
                out.push('}');
            }
        }
        check_size(out.len())
    }
}

fn check_size(bytes: usize) -> Result<(), Failure> {
    let limit = super::RESULT_BYTES_MAX;
    if bytes <= limit {
        return Ok(());
    }
    let message = format!("the rendered value is larger than {limit} bytes");
    Err(Failure::permanent(kind::EXPRESSION_LIMIT, message))
}

fn push_string(out: &mut String, text: &str) {
    out.push_str(&serde_json::Value::from(text).to_string());
}

enum Segment<'a> {
    Text(&'a str),
    Hole { source: &'a str, start: usize },
}

/// Splits a string at its holes. `}}` inside a quoted text or a nested `{}` does not end a hole.
fn segments(text: &str) -> Result<Vec<Segment<'_>>, (String, Range<usize>)> {
    let mut segments = Vec::new();
    let mut rest = 0;
    while let Some(found) = text.get(rest..).and_then(|tail| tail.find(OPEN)) {
        let open = rest + found;
        if found > 0 {
            segments.push(Segment::Text(text.get(rest..open).unwrap_or_default()));
        }
        let start = open + OPEN.len();
        let tail = text.get(start..).unwrap_or_default();
        let Some(length) = hole_length(tail) else {
            return Err(("`${{` is not closed by `}}`".into(), open..text.len()));
        };
        segments.push(Segment::Hole { source: tail.get(..length).unwrap_or_default(), start });
        rest = start + length + 2;
    }
    if rest < text.len() {
        segments.push(Segment::Text(text.get(rest..).unwrap_or_default()));
    }
    Ok(segments)
}

fn hole_length(tail: &str) -> Option<usize> {
    let (mut depth, mut quote, mut escaped) = (0u32, None, false);
    let bytes = tail.as_bytes();
    for (at, byte) in bytes.iter().copied().enumerate() {
        match (quote, byte) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), b'\\') => escaped = true,
            (Some(open), byte) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'{') => depth += 1,
            (None, b'}') if depth > 0 => depth -= 1,
            (None, b'}') if bytes.get(at + 1) == Some(&b'}') => return Some(at),
            (None, _) => {}
        }
    }
    None
}
