//! Values as text: JSON for results and `tojson`, and the way they read inside of other texts.

use std::fmt::Write as _;

use super::budget::{Budget, Stop, TEXT_BYTES_MAX};
use super::value::{Key, Value};
use crate::json::Json;

/// How JSON is laid out.
#[derive(Clone, Copy)]
pub(super) enum Style {
    /// As results are written.
    Compact,
    /// As `tojson` writes: with blanks, and safe inside of HTML.
    Spaced,
    /// As above with a line per item, indented by so many blanks.
    Indented(usize),
}

pub(super) fn json(
    value: &Value,
    style: Style,
    out: &mut String,
    budget: &Budget,
) -> Result<(), Stop> {
    Writer { out, budget, style, depth: 0 }.value(value)
}

struct Writer<'a> {
    out: &'a mut String,
    budget: &'a Budget,
    style: Style,
    depth: usize,
}

impl Writer<'_> {
    fn value(&mut self, value: &Value) -> Result<(), Stop> {
        self.room(0)?;
        match value {
            Value::Undefined | Value::None => self.out.push_str("null"),
            Value::Bool(value) => self.out.push_str(if *value { "true" } else { "false" }),
            Value::Int(_) | Value::Float(_) | Value::Spelled(..) => self.number(value)?,
            Value::Text(text) => self.text(text)?,
            Value::Blob(blob) => {
                self.room(128)?;
                self.out.push_str(Json::reference(**blob).text());
            }
            Value::List(list) => {
                self.open('[')?;
                for (position, item) in list.items.iter().enumerate() {
                    self.begin_item(position)?;
                    self.value(item)?;
                }
                self.close(']', list.items.is_empty())?;
            }
            Value::Map(map) => {
                self.open('{')?;
                for (position, (key, item)) in map.entries.iter().enumerate() {
                    self.begin_item(position)?;
                    if position == 0 && matches!(key, Key::Text(key) if **key == *"$blob") {
                        // A blank, so that it is no reference.
                        self.out.push(' ');
                    }
                    self.key(key)?;
                    self.out.push_str(match self.style {
                        Style::Compact => ":",
                        Style::Spaced | Style::Indented(_) => ": ",
                    });
                    self.value(item)?;
                }
                self.close('}', map.entries.is_empty())?;
            }
        }
        Ok(())
    }

    fn room(&self, bytes: usize) -> Result<(), Stop> {
        if self.out.len() + bytes > TEXT_BYTES_MAX {
            return Err(Stop::Limit(format!("gave more than {TEXT_BYTES_MAX} bytes")));
        }
        self.budget.bytes(bytes + 1)
    }

    fn number(&mut self, value: &Value) -> Result<(), Stop> {
        match value {
            Value::Spelled(text, _) => {
                self.room(text.len())?;
                self.out.push_str(text);
            }
            Value::Float(value) => {
                self.budget.work(8)?;
                match serde_json::Number::from_f64(*value) {
                    Some(number) => write(self.out, format_args!("{number}")),
                    None => self.out.push_str("null"),
                }
            }
            Value::Int(value) => {
                self.budget.work(if *value < 1 << 63 { 1 } else { 3 })?;
                write_int(self.out, *value);
            }
            _ => {}
        }
        Ok(())
    }

    fn key(&mut self, key: &Key) -> Result<(), Stop> {
        match key {
            Key::Text(text) => return self.text(text),
            Key::Bool(value) => write(self.out, format_args!("\"{value}\"")),
            Key::Int(value) => write(self.out, format_args!("\"{value}\"")),
        }
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), Stop> {
        self.room(text.len())?;
        self.out.push('"');
        escaped(text, !matches!(self.style, Style::Compact), self.out, self.budget)?;
        self.out.push('"');
        Ok(())
    }

    fn open(&mut self, bracket: char) -> Result<(), Stop> {
        self.budget.work(1)?;
        self.depth += 1;
        self.out.push(bracket);
        Ok(())
    }

    fn begin_item(&mut self, position: usize) -> Result<(), Stop> {
        match (self.style, position) {
            (Style::Compact | Style::Spaced, 0) => {}
            (Style::Compact, _) => self.out.push(','),
            (Style::Spaced, _) => self.out.push_str(", "),
            (Style::Indented(_), 0) => self.line()?,
            (Style::Indented(_), _) => {
                self.out.push(',');
                self.line()?;
            }
        }
        Ok(())
    }

    fn close(&mut self, bracket: char, is_empty: bool) -> Result<(), Stop> {
        self.depth -= 1;
        if !is_empty && matches!(self.style, Style::Indented(_)) {
            self.line()?;
        }
        self.out.push(bracket);
        Ok(())
    }

    fn line(&mut self) -> Result<(), Stop> {
        let Style::Indented(blanks) = self.style else { return Ok(()) };
        let blanks = blanks.saturating_mul(self.depth);
        self.room(blanks.saturating_add(1).min(TEXT_BYTES_MAX + 1))?;
        self.out.push('\n');
        self.out.extend(std::iter::repeat_n(' ', blanks));
        Ok(())
    }
}

/// Writes an integer; those of 64 bits are written twice as fast as those of 128.
fn write_int(out: &mut String, value: i128) {
    match i64::try_from(value) {
        Ok(value) => write(out, format_args!("{value}")),
        Err(_) => write(out, format_args!("{value}")),
    }
}

fn write(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a `String` cannot fail.
    out.write_fmt(arguments).ok();
}

/// Writes a text as part of a JSON string.
pub(super) fn escaped(
    text: &str,
    for_html: bool,
    out: &mut String,
    budget: &Budget,
) -> Result<(), Stop> {
    budget.scan(text.len())?;
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        let is_special = byte < 0x20
            || matches!(byte, b'"' | b'\\')
            || for_html && matches!(byte, b'<' | b'>' | b'&' | b'\'');
        if !is_special {
            continue;
        }
        budget.bytes(6)?;
        budget.work(1)?;
        out.push_str(text.get(from..at).unwrap_or_default());
        from = at + 1;
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            0x08 => out.push_str("\\b"),
            0x0c => out.push_str("\\f"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            byte => {
                budget.work(4)?;
                write(out, format_args!("\\u{byte:04x}"));
            }
        }
        if out.len() > TEXT_BYTES_MAX {
            return Err(Stop::Limit(format!("gave more than {TEXT_BYTES_MAX} bytes")));
        }
    }
    out.push_str(text.get(from..).unwrap_or_default());
    Ok(())
}

/// Writes a value as it reads inside of a text: texts as they are, all else as Python would.
pub(super) fn display(value: &Value, out: &mut String, budget: &Budget) -> Result<(), Stop> {
    match value {
        Value::Undefined => Ok(()),
        Value::Text(text) => push(text, out, budget),
        Value::Float(value) => {
            room(out, 330, budget)?;
            budget.work(60)?;
            let start = out.len();
            write(out, format_args!("{value}"));
            if !out.get(start..).unwrap_or_default().contains('.') {
                out.push_str(".0");
            }
            Ok(())
        }
        other => represent(other, out, budget),
    }
}

pub(super) fn push(text: &str, out: &mut String, budget: &Budget) -> Result<(), Stop> {
    room(out, text.len(), budget)?;
    out.push_str(text);
    Ok(())
}

fn room(out: &str, bytes: usize, budget: &Budget) -> Result<(), Stop> {
    if out.len() + bytes > TEXT_BYTES_MAX {
        return Err(Stop::too_large("the text"));
    }
    budget.bytes(bytes + 16)
}

/// As Python's `repr`.
fn represent(value: &Value, out: &mut String, budget: &Budget) -> Result<(), Stop> {
    room(out, 16, budget)?;
    budget.work(2)?;
    match value {
        Value::Undefined => out.push_str("undefined"),
        Value::None => out.push_str("None"),
        Value::Bool(value) => out.push_str(if *value { "True" } else { "False" }),
        Value::Int(value) => write_int(out, *value),
        Value::Float(value) => {
            room(out, 330, budget)?;
            budget.work(20)?;
            write(out, format_args!("{value:?}"));
        }
        Value::Spelled(text, _) => {
            room(out, text.len(), budget)?;
            out.push_str(text);
        }
        Value::Text(text) => quoted(text, out, budget)?,
        Value::Blob(blob) => push(&format!("<blob {}>", blob.digest), out, budget)?,
        Value::List(list) => {
            out.push('[');
            for (position, item) in list.items.iter().enumerate() {
                out.push_str(if position > 0 { ", " } else { "" });
                represent(item, out, budget)?;
            }
            out.push(']');
        }
        Value::Map(map) => {
            out.push('{');
            for (position, (key, item)) in map.entries.iter().enumerate() {
                out.push_str(if position > 0 { ", " } else { "" });
                represent(&key.to_value(), out, budget)?;
                out.push_str(": ");
                represent(item, out, budget)?;
            }
            out.push('}');
        }
    }
    Ok(())
}

fn quoted(text: &str, out: &mut String, budget: &Budget) -> Result<(), Stop> {
    room(out, text.len().saturating_mul(2), budget)?;
    budget.chars(text.len())?;
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for part in text.chars() {
        match part {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            part if part == quote => out.extend(['\\', part]),
            part if part.is_control() => {
                room(out, 6, budget)?;
                write(out, format_args!("\\x{:02x}", u32::from(part)));
            }
            part => out.push(part),
        }
    }
    out.push(quote);
    Ok(())
}
