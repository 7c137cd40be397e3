//! Templates: JSON trees whose strings may contain `${{ expression }}`.
//!
//! A string that is exactly one hole keeps the JSON type of its value; a string with text around
//! its holes becomes text. Keys are never templates.
//!
//! A hole that names a secret is left empty, and its place is noted. A place cannot be forged by
//! data, as a marker in the text could be: whatever the other holes were filled with, it is not
//! where a secret goes.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

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
    Text(String),
    Hole(Box<Expression>),
}

/// Why a template was refused: where in the tree, and where in the string found there.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct TemplateFault {
    pub message: String,
    /// Keys and positions from the root of the template to the string.
    pub path: Vec<String>,
    /// Bytes of that string.
    pub range: Range<usize>,
}

/// A config with every hole filled, but for its secrets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rendered {
    /// The config; strings that need a secret lack it.
    pub config: Json,
    /// Where the secrets belong, in order.
    pub secrets: Vec<Placeholder>,
}

/// A place in a rendered config where a secret belongs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Placeholder {
    /// The byte of the config's text before which it goes; always inside of a string.
    pub at: usize,
    pub name: Arc<str>,
}

impl Placeholder {
    /// Is it for the link of a callback, `callback.<field>`? Names of secrets have no dot.
    pub fn is_callback(&self) -> bool {
        self.name.contains('.')
    }
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
        let literal = || Ok(Self::Literal(Json::from_value(value)));
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
                let is_literal = compiled.iter().all(Self::is_literal);
                if is_literal { literal() } else { Ok(Self::List(compiled)) }
            }
            Value::Object(fields) => {
                let mut compiled = Vec::with_capacity(fields.len());
                for (key, field) in fields {
                    path.push(key.clone());
                    compiled.push((key.clone(), Self::compile_at(field, path)?));
                    path.pop();
                }
                let is_literal = compiled.iter().all(|(_, field)| field.is_literal());
                if is_literal { literal() } else { Ok(Self::Map(compiled)) }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => literal(),
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

    /// Evaluates the expressions. The scope must have their references; a secret is a failure.
    pub fn render(&self, scope: &Scope) -> Result<Json, Failure> {
        if let Self::Literal(json) = self {
            return Ok(json.clone());
        }
        let mut out = Out { scope, text: String::new(), secrets: None };
        out.push(self)?;
        Json::parse_own(&out.text).map_err(Failure::from)
    }

    /// Fills the holes, and notes the places of those that name a secret.
    pub fn render_around_secrets(&self, scope: &Scope) -> Result<Rendered, Failure> {
        let mut out = Out { scope, text: String::new(), secrets: Some(Vec::new()) };
        out.push(self)?;
        let config = Json::parse_own(&out.text)?;
        Ok(Rendered { config, secrets: out.secrets.unwrap_or_default() })
    }
}

/// A template's text as it is being rendered.
struct Out<'a> {
    scope: &'a Scope,
    text: String,
    /// Absent where there may be no secrets.
    secrets: Option<Vec<Placeholder>>,
}

impl Out<'_> {
    fn push(&mut self, template: &Template) -> Result<(), Failure> {
        match template {
            Template::Literal(json) => self.text.push_str(json.text()),
            Template::Hole(expression) if self.is_secret(expression) => {
                self.text.push('"');
                self.leave_place(expression);
                self.text.push('"');
            }
            Template::Hole(expression) => expression.write(self.scope, &mut self.text)?,
            Template::Text(pieces) => {
                self.text.push('"');
                for piece in pieces {
                    self.push_piece(piece)?;
                }
                self.text.push('"');
            }
            Template::List(items) => {
                self.text.push('[');
                for (position, item) in items.iter().enumerate() {
                    self.push_comma(position);
                    self.push(item)?;
                }
                self.text.push(']');
            }
            Template::Map(fields) => {
                self.text.push('{');
                for (position, (key, field)) in fields.iter().enumerate() {
                    self.push_comma(position);
                    if position == 0 && key == "$blob" {
                        // A blank, so that it is no reference.
                        self.text.push(' ');
                    }
                    self.text.push('"');
                    push_escaped(&mut self.text, key);
                    self.text.push_str("\":");
                    self.push(field)?;
                }
                self.text.push('}');
            }
        }
        check_size(self.text.len())
    }

    fn push_piece(&mut self, piece: &Piece) -> Result<(), Failure> {
        match piece {
            Piece::Text(part) => push_escaped(&mut self.text, part),
            Piece::Hole(expression) if self.is_secret(expression) => self.leave_place(expression),
            Piece::Hole(expression) => expression.write_inside(self.scope, &mut self.text)?,
        }
        check_size(self.text.len())
    }

    fn push_comma(&mut self, position: usize) {
        if position > 0 {
            self.text.push(',');
        }
    }

    /// Is a place left for this expression? Where there may be no secrets it is evaluated like any
    /// other, and fails: no scope has them.
    fn is_secret(&self, expression: &Expression) -> bool {
        self.secrets.is_some() && expression.secret().is_some()
    }

    fn leave_place(&mut self, expression: &Expression) {
        if let (Some(secrets), Some(name)) = (&mut self.secrets, expression.secret()) {
            secrets.push(Placeholder { at: self.text.len(), name: name.into() });
        }
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

/// The text as part of a JSON string.
fn push_escaped(out: &mut String, text: &str) {
    let quoted = serde_json::Value::from(text).to_string();
    out.push_str(quoted.get(1..quoted.len() - 1).unwrap_or_default());
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
