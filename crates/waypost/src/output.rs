//! How results reach people and programs: tables on a terminal, JSON for `-o json`.
//!
//! | file | owns |
//! | --- | --- |
//! | `output/standard` | writing to the two streams, which may fail and never panics |
//! | `output/screen` | lines on a terminal that are drawn again while something goes on |
//! | `output/width` | how many columns text takes |

pub(crate) mod screen;
mod standard;
mod width;

use std::borrow::Cow;

use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;

pub use standard::{LogWriter, failure, is_reader_gone};
pub use width::{columns, fit, pad};

/// How results are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
}

/// Prints a value as one JSON document.
pub fn print_json(value: &impl Serialize) -> Result<()> {
    print_text(&serde_json::to_string_pretty(value)?);
    Ok(())
}

/// Prints names and values in two columns.
pub fn print_table(rows: &[(String, String)]) -> Result<()> {
    let width = rows.iter().map(|(name, _)| columns(name)).max().unwrap_or(0);
    for (name, value) in rows {
        print_line(&format!("{}  {value}", pad(name, width)));
    }
    Ok(())
}

/// Prints rows under headings, each column as wide as it needs.
pub fn print_columns(headings: &[&str], rows: &[Vec<String>]) {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| columns(cell));
        cells.chain(headings.get(column).map(|heading| columns(heading))).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let print_row = |cells: &mut dyn Iterator<Item = &str>| {
        let line: Vec<String> = cells.zip(&widths).map(|(cell, width)| pad(cell, *width)).collect();
        print_line(line.join("  ").trim_end());
    };
    print_row(&mut headings.iter().copied());
    for row in rows {
        print_row(&mut row.iter().map(String::as_str));
    }
}

/// Prints a line.
pub fn print_line(line: &str) {
    print_text(&harmless(line));
}

/// Prints a line on standard output, or on standard error where standard output takes no more: what
/// people need in order to go on.
pub fn print_line_somewhere(line: &str) {
    print_line(line);
    if failure().is_some() {
        complain(line);
    }
}

/// Prints a line on standard error: what is wrong, and all that must not mix with results.
pub fn complain(line: &str) {
    let line = format!("{}\n", harmless(line));
    screen::leave(|| standard::write_err(line.as_bytes()));
}

fn print_text(text: &str) {
    screen::leave(|| standard::write_out(&format!("{text}\n")));
}

/// The same text without what would do something to a terminal: names, outputs and errors come from
/// anywhere. Line ends and our own colours stay; other control characters, and those that turn the
/// direction of writing, are spelt out.
pub fn harmless(text: &str) -> Cow<'_, str> {
    let acts = |char: char| {
        let turns = matches!(char, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' | '\u{feff}');
        turns || char.is_control() && !matches!(char, '\n' | '\t')
    };
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(char) = rest.chars().next() {
        let length = color_length(rest).unwrap_or(char.len_utf8());
        let (piece, after) = rest.split_at(length);
        match color_length(rest).is_none() && acts(char) {
            true => clean.extend(char.escape_unicode()),
            false => clean.push_str(piece),
        }
        rest = after;
    }
    Cow::Owned(clean)
}

/// How long the change of colour is that a text begins with.
fn color_length(text: &str) -> Option<usize> {
    let code = text.strip_prefix("\x1b[")?;
    let end = code.find(|char: char| !char.is_ascii_digit() && char != ';')?;
    code.get(end..)?.starts_with('m').then_some(2 + end + 1)
}

/// Prints what only informs, if it can be printed: a server outlives the terminal that it was started
/// from, and its exit code does not depend on it.
pub fn mention(line: &str) {
    let line = format!("{}\n", harmless(line));
    screen::leave(|| standard::write_out_if_possible(&line));
}

/// The same as one JSON document.
pub fn mention_json(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    screen::leave(|| standard::write_out_if_possible(&format!("{text}\n")));
    Ok(())
}

/// Shows how far long work is: on a terminal only, on standard error, over and over in one line.
pub fn progress_line(line: &str) {
    if let Some(columns) = screen::error_columns() {
        standard::write_err(format!("\r\x1b[K{}", fit(line, columns.saturating_sub(1))).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::harmless;

    #[test]
    fn what_would_act_on_a_terminal_is_spelt_out() {
        for (text, shown) in [
            ("plain äöü\tand\nlines", "plain äöü\tand\nlines"),
            ("\x1b[32mCOMPLETED\x1b[0m", "\x1b[32mCOMPLETED\x1b[0m"),
            ("\x1b]0;title\x07", "\\u{1b}]0;title\\u{7}"),
            ("\x1b[2J\x1b[", "\\u{1b}[2J\\u{1b}["),
            ("a\u{9b}31mb\u{202e}c\x7f", "a\\u{9b}31mb\\u{202e}c\\u{7f}"),
            ("over\rwritten", "over\\u{d}written"),
        ] {
            assert_eq!(harmless(text), shown);
        }
    }
}
