//! The text of a definition, and the position of a byte in it.
//!
//! Lines end at `\n` (a `\r` before it belongs to the line end), columns count characters from 1. A
//! tab is one character: terminals disagree about its width, editors agree about its position.

use std::ops::Range;

use waypost_core::limits::DEFINITION_BYTES_MAX;

use crate::diagnostics::{Code, Fault};

/// Bytes of the source, from the first to the one after the last.
pub type Span = Range<usize>;

/// A source text with an index of its lines.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    pub(crate) text: &'a str,
    line_starts: Vec<usize>,
}

impl<'a> Source<'a> {
    /// Takes bytes from outside. Rejects those that are too large or not UTF-8 before anything else
    /// reads them.
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self, Fault> {
        if bytes.len() > DEFINITION_BYTES_MAX {
            let message = format!(
                "the definition has {} bytes, more than the limit of {DEFINITION_BYTES_MAX}",
                bytes.len()
            );
            return Err(Fault::error(Code::SourceTooLarge, 0..0, message));
        }
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Self::of(text)),
            Err(error) => {
                let at = error.valid_up_to();
                let message = format!("the definition is not valid UTF-8 at byte {at}");
                let fault = Fault::error(Code::InvalidUtf8, at..at, message)
                    .with_hint("save the file with the encoding UTF-8");
                let valid = bytes.get(..at).and_then(|good| std::str::from_utf8(good).ok());
                Err(Source::of(valid.unwrap_or_default()).place(fault))
            }
        }
    }

    fn of(text: &'a str) -> Self {
        let after_breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        Self { text, line_starts: std::iter::once(0).chain(after_breaks).collect() }
    }

    /// Fills in the line and column of a fault.
    pub(crate) fn place(&self, fault: Fault) -> Fault {
        let (line, column) = self.position(fault.span.start);
        Fault { line, column, ..fault }
    }

    /// Line and column of a byte, both from 1.
    pub(crate) fn position(&self, byte: usize) -> (usize, usize) {
        let (line, span) = self.line_of(byte);
        let before = self.text.get(span.start..byte.min(self.text.len())).unwrap_or_default();
        // A byte order mark is invisible: it does not move the first column.
        let characters = before.chars().filter(|c| *c != '\u{feff}').count();
        (line, characters + 1)
    }

    /// The number of a byte's line from 1, and the bytes of that line without its end.
    pub(crate) fn line_of(&self, byte: usize) -> (usize, Span) {
        let line = self.line_starts.partition_point(|start| *start <= byte).max(1);
        let start = self.line_starts.get(line - 1).copied().unwrap_or(0);
        let end = self.line_starts.get(line).map_or(self.text.len(), |next| next - 1);
        let text = self.text.get(start..end).unwrap_or_default();
        (line, start..start + text.trim_end_matches('\r').len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters_whatever_the_line_ends() {
        let source = Source::new("a: 1\r\n\té: x\r\nlast".as_bytes()).unwrap();
        for (byte, expected) in [
            (0, (1, 1)),
            (3, (1, 4)),
            (6, (2, 1)),
            (7, (2, 2)),
            (9, (2, 3)),
            (11, (2, 5)),
            (14, (3, 1)),
            (18, (3, 5)),
            (999, (3, 5)),
        ] {
            assert_eq!(source.position(byte), expected, "byte {byte}");
        }
        assert_eq!(source.line_of(8), (2, 6..12));
    }

    #[test]
    fn a_byte_order_mark_has_no_width() {
        let source = Source::new("\u{feff}a: 1".as_bytes()).unwrap();
        assert_eq!(source.position(3), (1, 1));
    }
}
