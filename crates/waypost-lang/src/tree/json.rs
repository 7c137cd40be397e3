//! JSON, exactly: RFC 8259 and nothing more, with positions.

use super::builder::Builder;
use super::{Style, Tree, TreeValue, number};
use crate::diagnostics::{Code, Fault, Faults};

pub(super) fn parse(text: &str, faults: &mut Faults) -> Result<Tree, Fault> {
    let at = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut parser = JsonParser { text, at, builder: Builder::new(faults) };
    loop {
        parser.skip_space();
        if parser.builder.wants_key() {
            parser.key()?;
        }
        if parser.value()? && parser.after_value()? {
            break;
        }
    }
    parser.builder.finish().ok_or_else(|| Fault::error(Code::EmptyDefinition, 0..0, "empty"))
}

struct JsonParser<'s, 'f> {
    text: &'s str,
    at: usize,
    builder: Builder<'f>,
}

impl JsonParser<'_, '_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn key(&mut self) -> Result<(), Fault> {
        if self.peek() != Some(b'"') {
            return Err(self.expected("a field name between double quotes"));
        }
        let start = self.at;
        let text = self.string()?;
        self.builder.key(text, start..self.at)?;
        self.skip_space();
        if self.peek() != Some(b':') {
            return Err(self.expected("`:` after the field name"));
        }
        self.at += 1;
        self.skip_space();
        Ok(())
    }

    /// Reads a scalar, or opens a list or an object. True when a value is complete.
    fn value(&mut self) -> Result<bool, Fault> {
        let start = self.at;
        let value = match self.peek() {
            Some(open @ (b'{' | b'[')) => {
                let close = if open == b'{' {
                    self.builder.open_map(start)?;
                    b'}'
                } else {
                    self.builder.open_list(start)?;
                    b']'
                };
                self.at += 1;
                self.skip_space();
                if self.peek() != Some(close) {
                    return Ok(false);
                }
                self.at += 1;
                self.builder.close(Some(self.at))?;
                return Ok(true);
            }
            Some(b'"') => TreeValue::Text { text: self.string()?, style: Style::Double },
            Some(b'-' | b'0'..=b'9') => self.number()?,
            _ => self.literal()?,
        };
        self.builder.scalar(start..self.at, value)?;
        Ok(true)
    }

    /// Continues after a value: past a comma, out of lists and mappings that end here. True at the
    /// end of the text.
    fn after_value(&mut self) -> Result<bool, Fault> {
        loop {
            self.skip_space();
            if self.builder.is_closed() {
                return match self.peek() {
                    None => Ok(true),
                    Some(_) => Err(self.expected("the end of the text")),
                };
            }
            let (close, what) =
                if self.builder.wants_key() { (b'}', "`,` or `}`") } else { (b']', "`,` or `]`") };
            match self.peek() {
                Some(b',') => {
                    self.at += 1;
                    return Ok(false);
                }
                Some(byte) if byte == close => {
                    self.at += 1;
                    self.builder.close(Some(self.at))?;
                }
                _ => return Err(self.expected(what)),
            }
        }
    }

    fn literal(&mut self) -> Result<TreeValue, Fault> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let words = [
            ("true", TreeValue::Bool(true)),
            ("false", TreeValue::Bool(false)),
            ("null", TreeValue::Null),
        ];
        match words.into_iter().find(|(word, _)| rest.starts_with(word)) {
            Some((word, value)) => {
                self.at += word.len();
                Ok(value)
            }
            None => Err(self.expected("a value")),
        }
    }

    fn number(&mut self) -> Result<TreeValue, Fault> {
        let start = self.at;
        let digits = |parser: &mut Self| {
            let from = parser.at;
            while matches!(parser.peek(), Some(b'0'..=b'9')) {
                parser.at += 1;
            }
            parser.at - from
        };
        self.at += usize::from(self.peek() == Some(b'-'));
        let leading_zero = self.peek() == Some(b'0');
        let whole = digits(self);
        if whole == 0 || (leading_zero && whole > 1) {
            self.at = start;
            return Err(self.expected("a number without leading zeros"));
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            if digits(self) == 0 {
                return Err(self.expected("a digit after the point"));
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            if digits(self) == 0 {
                return Err(self.expected("a digit in the exponent"));
            }
        }
        let text = self.text.get(start..self.at).unwrap_or_default();
        let number = number::json(text)
            .unwrap_or_else(|bad| bad.replaced(&(start..self.at), self.builder.faults));
        Ok(TreeValue::Number(number))
    }

    fn string(&mut self) -> Result<String, Fault> {
        let start = self.at;
        self.at += 1;
        let mut text = String::new();
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let plain = rest.find(|c: char| c == '"' || c == '\\' || c < ' ').unwrap_or(rest.len());
            text.push_str(rest.get(..plain).unwrap_or_default());
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => text.push(self.escape()?),
                Some(_) => return Err(self.expected("no bare control character in a text")),
                None => {
                    self.at = start;
                    return Err(self.expected("a closing `\"` for this text"));
                }
            }
        }
    }

    fn escape(&mut self) -> Result<char, Fault> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        // `\n`, `\u00e9`, or a surrogate pair, which is one character in two escapes.
        let decoded = [2, 6, 12].into_iter().find_map(|length| {
            let text: String =
                serde_json::from_str(&format!("\"{}\"", rest.get(..length)?)).ok()?;
            Some((length, text.chars().next()?))
        });
        let Some((length, c)) = decoded else {
            let what = "an escape of JSON: `\\n`, `\\\"`, `\\u00e9`, a whole surrogate pair";
            return Err(self.expected(what));
        };
        self.at += length;
        Ok(c)
    }

    fn expected(&self, what: &str) -> Fault {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let width = rest.chars().next().map_or(0, char::len_utf8);
        let message = format!("not valid JSON: expected {what}");
        Fault::error(Code::Syntax, self.at..self.at + width, message)
    }
}
