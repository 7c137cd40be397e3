//! Payloads as values: JSON that was checked when it came in, read when an expression first uses
//! it.

use std::sync::Arc;

use super::budget::{Budget, Stop};
use super::number;
use super::value::{Key, Value};
use crate::json::{DEPTH_MAX, reference_at};

/// Reads a payload. Numbers keep the way they are written.
pub(super) fn json(text: &str, budget: &Budget) -> Result<Value, Stop> {
    budget.scan(text.len())?;
    let mut reader = ValueReader { text, at: 0, depth: 0, budget, empty: Empty::default() };
    let value = reader.value()?;
    reader.skip_blanks();
    if reader.at < text.len() { Err(broken()) } else { Ok(value) }
}

struct ValueReader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    budget: &'a Budget,
    empty: Empty,
}

/// Empty lists, maps and texts are built once, and shared: a payload may have hundreds of thousands
/// of them.
#[derive(Default)]
struct Empty {
    list: Option<Value>,
    map: Option<Value>,
    text: Option<Arc<str>>,
}

/// Cannot be met by payloads that were checked.
fn broken() -> Stop {
    Stop::failed("a payload is not well-formed JSON")
}

impl ValueReader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn skip(&mut self, byte: u8) -> bool {
        self.skip_blanks();
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Result<(), Stop> {
        if self.skip(byte) { Ok(()) } else { Err(broken()) }
    }

    /// Is there an item before the closing bracket? Skips the comma before all but the first.
    fn next(&mut self, close: u8, is_first: bool) -> Result<bool, Stop> {
        if self.skip(close) {
            return Ok(false);
        }
        if !is_first {
            self.expect(b',')?;
        }
        Ok(true)
    }

    fn value(&mut self) -> Result<Value, Stop> {
        self.budget.work(1)?;
        self.skip_blanks();
        match self.peek().ok_or_else(broken)? {
            b'[' => self.nested(Self::list),
            b'{' => match self.text.get(self.at..).and_then(reference_at) {
                Some((blob, length)) => {
                    self.budget.bytes(64)?;
                    self.at += length;
                    Ok(Value::Blob(Arc::new(blob)))
                }
                None => self.nested(Self::map),
            },
            b'"' => Ok(Value::Text(self.string()?)),
            b't' => self.word("true", Value::Bool(true)),
            b'f' => self.word("false", Value::Bool(false)),
            b'n' => self.word("null", Value::None),
            _ => self.number(),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Value, Stop>) -> Result<Value, Stop> {
        self.at += 1;
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(broken());
        }
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn list(&mut self) -> Result<Value, Stop> {
        let mut items = Vec::new();
        if self.skip(b']') {
            return shared(&mut self.empty.list, || Value::list(items, self.budget));
        }
        // Most lists that nest have one item; a vector that grows takes room for four.
        items.reserve_exact(1);
        while self.next(b']', items.is_empty())? {
            self.budget.item()?;
            items.push(self.value()?);
        }
        Value::list(items, self.budget)
    }

    fn map(&mut self) -> Result<Value, Stop> {
        let mut entries = Vec::new();
        if self.skip(b'}') {
            return shared(&mut self.empty.map, || Value::map(entries, self.budget));
        }
        entries.reserve_exact(1);
        while self.next(b'}', entries.is_empty())? {
            self.skip_blanks();
            self.budget.bytes(96)?;
            self.budget.work(2)?;
            let key = Key::Text(self.string()?);
            self.expect(b':')?;
            entries.push((key, self.value()?));
        }
        Value::map(entries, self.budget)
    }

    fn string(&mut self) -> Result<Arc<str>, Stop> {
        let start = self.at;
        let mut escapes = false;
        let bytes = self.text.as_bytes();
        if self.peek() != Some(b'"') {
            return Err(broken());
        }
        let mut at = start + 1;
        loop {
            match bytes.get(at).ok_or_else(broken)? {
                b'"' => break,
                b'\\' => {
                    escapes = true;
                    at += 2;
                }
                _ => at += 1,
            }
        }
        self.at = at + 1;
        let inner = self.text.get(start + 1..at).ok_or_else(broken)?;
        if inner.is_empty() {
            return shared(&mut self.empty.text, || Ok(inner.into()));
        }
        self.budget.bytes(inner.len() + 32)?;
        self.budget.work(2)?;
        if !escapes {
            return Ok(inner.into());
        }
        self.budget.work(inner.len() / 2 + 5)?;
        let quoted = self.text.get(start..self.at).ok_or_else(broken)?;
        let text: String = serde_json::from_str(quoted)
            .map_err(|error| Stop::failed(format!("a text of a payload is broken: {error}")))?;
        Ok(text.into())
    }

    fn number(&mut self) -> Result<Value, Stop> {
        let rest = self.text.get(self.at..).ok_or_else(broken)?;
        let is_part = |byte: &u8| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9');
        let length = rest.as_bytes().iter().take_while(|byte| is_part(byte)).count();
        if length == 0 {
            return Err(broken());
        }
        self.at += length;
        self.budget.work(length / 2)?;
        let number = number::read(rest.get(..length).unwrap_or_default());
        if matches!(number, Value::Spelled(..)) {
            self.budget.work(length / 2 + 3)?;
            self.budget.bytes(length + 32)?;
        }
        Ok(number)
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, Stop> {
        if !self.text.get(self.at..).is_some_and(|rest| rest.starts_with(word)) {
            return Err(broken());
        }
        self.at += word.len();
        Ok(value)
    }
}

/// A copy of the shared value, which the first call creates.
fn shared<T: Clone>(
    first: &mut Option<T>,
    make: impl FnOnce() -> Result<T, Stop>,
) -> Result<T, Stop> {
    if let Some(first) = first {
        return Ok(first.clone());
    }
    let made = make()?;
    *first = Some(made.clone());
    Ok(made)
}
