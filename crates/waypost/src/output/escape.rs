//! Text without anything that acts on a terminal: names, outputs, failures, definitions and the
//! texts of servers come from untrusted places.
//!
//! Control characters (C0 except line ends and tabs, DEL, C1) and characters that change the
//! writing direction or are invisible are spelt out. Coloured text is composed of parts that were
//! escaped one by one, because our colours cannot be distinguished from foreign ones afterwards.

use std::borrow::Cow;

/// Would it act on a terminal, or make text look like another?
fn acts(char: char) -> bool {
    let unseen = matches!(char,
        '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    unseen || char.is_control() && !matches!(char, '\n' | '\t')
}

/// The text with everything spelt out that would act on a terminal, colours included.
pub fn escape_control(text: &str) -> Cow<'_, str> {
    match text.contains(acts) {
        true => Cow::Owned(spell_out(text, |_| None)),
        false => Cow::Borrowed(text),
    }
}

/// As [`escape_control`], in one line: a cell of a table.
pub fn escape_line(text: &str) -> String {
    escape_control(text).replace(['\n', '\t'], " ")
}

/// As above for text with our colours in it, which stay. All foreign text in it must have been
/// escaped before.
pub fn escape_painted(text: &str) -> Cow<'_, str> {
    match text.contains(acts) {
        true => Cow::Owned(spell_out(text, color_length)),
        false => Cow::Borrowed(text),
    }
}

/// A JSON document with the same value. Everything that is spelt out is inside of its strings.
pub fn escape_json(document: &str) -> Cow<'_, str> {
    if !document.contains(acts) {
        return Cow::Borrowed(document);
    }
    let mut clean = String::with_capacity(document.len());
    for char in document.chars() {
        match acts(char) {
            true => {
                for unit in char.encode_utf16(&mut [0; 2]) {
                    clean.push_str(&format!("\\u{unit:04x}"));
                }
            }
            false => clean.push(char),
        }
    }
    Cow::Owned(clean)
}

/// Spells out characters that act; `stays` returns how many bytes at the start of a text are left
/// as they are.
fn spell_out(text: &str, stays: impl Fn(&str) -> Option<usize>) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(char) = rest.chars().next() {
        let stays = stays(rest);
        let (piece, after) = rest.split_at(stays.unwrap_or(char.len_utf8()));
        match stays.is_none() && acts(char) {
            true => clean.extend(char.escape_unicode()),
            false => clean.push_str(piece),
        }
        rest = after;
    }
    clean
}

/// How long the change of colour is that a text begins with.
pub(super) fn color_length(text: &str) -> Option<usize> {
    let code = text.strip_prefix("\x1b[")?;
    let end = code.find(|char: char| !char.is_ascii_digit() && char != ';')?;
    code.get(end..)?.starts_with('m').then_some(2 + end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_control_spells_out_what_would_act_on_a_terminal() {
        for (text, shown) in [
            ("plain äöü\tand\nlines", "plain äöü\tand\nlines"),
            ("\x1b[32mCOMPLETED\x1b[0m", "\\u{1b}[32mCOMPLETED\\u{1b}[0m"),
            ("\x1b]0;title\x07", "\\u{1b}]0;title\\u{7}"),
            ("\x1b[2J\x1b[", "\\u{1b}[2J\\u{1b}["),
            ("a\u{9b}31mb\u{202e}c\x7f", "a\\u{9b}31mb\\u{202e}c\\u{7f}"),
            ("\u{61c}\u{200e}\u{2066}\u{2069}", "\\u{61c}\\u{200e}\\u{2066}\\u{2069}"),
            ("over\rwritten", "over\\u{d}written"),
        ] {
            assert_eq!(escape_control(text), shown);
        }
        assert_eq!(escape_line("two\nlines\tand\r"), "two lines and\\u{d}");
    }

    #[test]
    fn harmless_painted_keeps_colours_and_nothing_else() {
        for (text, shown) in [
            ("\x1b[32mCOMPLETED\x1b[0m", "\x1b[32mCOMPLETED\x1b[0m"),
            ("\x1b[2J\u{9b}31m", "\\u{1b}[2J\\u{9b}31m"),
        ] {
            assert_eq!(escape_painted(text), shown);
        }
    }

    #[test]
    fn harmless_json_has_the_same_value() {
        let every: String = (0..0x11_0000).filter_map(char::from_u32).collect();
        let value = serde_json::json!({ "key \u{202e}\u{9b}": [every] });
        let document = serde_json::to_string_pretty(&value).unwrap();
        let clean = escape_json(&document);
        assert!(!clean.contains(acts));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&clean).unwrap(), value);
        assert!(matches!(escape_json("{\n  \"a\": 1\n}"), Cow::Borrowed(_)));
    }
}
