//! Maps a byte of a text to the byte of the source that it came from.
//!
//! Quotes, escapes, folded lines and indentation make the two differ. The parsers keep no map for
//! every text; the mapping is computed for the few texts that have faults.

use super::Style;

/// The offset in `raw` (quotes included) of the character that is at `offset` in `text`.
pub(super) fn raw_offset(raw: &str, text: &str, style: Style, offset: usize) -> usize {
    let mut walk = Aligner { raw, at: usize::from(style != Style::Bare), style };
    for (position, c) in text.char_indices() {
        walk.skip_layout(c);
        if position >= offset {
            return walk.at.min(raw.len());
        }
        walk.pass(c);
    }
    walk.at.min(raw.len())
}

struct Aligner<'a> {
    raw: &'a str,
    at: usize,
    style: Style,
}

impl Aligner<'_> {
    fn rest(&self) -> &str {
        self.raw.get(self.at..).unwrap_or_default()
    }

    /// Skips layout in the source: indentation and line breaks before a character that is neither.
    fn skip_layout(&mut self, c: char) {
        if !c.is_whitespace() {
            let rest = self.rest();
            self.at += rest.len() - rest.trim_start().len();
        }
        while self.style == Style::Double
            && (self.rest().starts_with("\\\n") || self.rest().starts_with("\\\r\n"))
        {
            let rest = self.rest();
            self.at += rest.len() - rest.trim_start_matches('\\').trim_start().len();
        }
    }

    /// Passes the source of one character.
    fn pass(&mut self, c: char) {
        let rest = self.rest();
        self.at += match self.style {
            Style::Double if rest.starts_with('\\') => escape_length(rest, c),
            Style::Single if c == '\'' && rest.starts_with("''") => 2,
            _ if c.is_whitespace() => {
                rest.chars().next().filter(|raw| raw.is_whitespace()).map_or(0, char::len_utf8)
            }
            _ => c.len_utf8(),
        };
    }
}

fn escape_length(rest: &str, c: char) -> usize {
    match rest.as_bytes().get(1) {
        // JSON spells characters beyond the basic plane as two escapes.
        Some(b'u') if u32::from(c) > 0xffff => 12,
        Some(b'u') => 6,
        Some(b'U') => 10,
        Some(b'x') => 4,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_offset_is_exact_in_every_spelling() {
        for (raw, text, style, wanted) in [
            ("plain X", "plain X", Style::Bare, 'X'),
            ("'it''s X'", "it's X", Style::Single, 'X'),
            (r#""a\tb\u00e9\"X""#, "a\tbé\"X", Style::Double, 'X'),
            (r#""\ud83d\ude00 X""#, "😀 X", Style::Double, 'X'),
            (r#""\U0001F600 X""#, "😀 X", Style::Double, 'X'),
            ("one\n    two X\n", "one\ntwo X\n", Style::Bare, 'X'),
            ("one\r\n\r\n    two X", "one\ntwo X", Style::Bare, 'X'),
            ("\"one\n   X\"", "one X", Style::Double, 'X'),
            ("\"one\\\n   X\"", "oneX", Style::Double, 'X'),
        ] {
            let found = raw_offset(raw, text, style, text.find(wanted).unwrap());
            assert_eq!(found, raw.find(wanted).unwrap(), "{raw:?}");
        }
    }
}
