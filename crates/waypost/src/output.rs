//! How results reach people and programs: tables on a terminal, JSON for `-o json`.
//!
//! | file | owns |
//! | --- | --- |
//! | `output/color` | whether a stream is in colour |
//! | `output/escape` | text without anything that acts on a terminal |
//! | `output/standard` | writing to the two streams, which may fail and never panics |
//! | `output/screen` | lines on a terminal that are redrawn while a command runs |
//! | `output/width` | how many columns text takes |

mod color;
mod escape;
pub(crate) mod screen;
mod standard;
mod width;

use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;

pub use color::Color;
pub use escape::{escape_control, escape_json, escape_line, escape_painted};
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
    print_text(&escape_json(&serde_json::to_string_pretty(value)?));
    Ok(())
}

/// Prints names and values in two columns.
pub fn print_table(rows: &[(impl AsRef<str>, impl AsRef<str>)]) {
    let width = rows.iter().map(|(name, _)| columns(name.as_ref())).max().unwrap_or(0);
    for (name, value) in rows {
        let value = escape_line(value.as_ref());
        print_line(&format!("{}  {value}", pad(name.as_ref(), width)));
    }
}

/// Prints a row for each item under headings, each column as wide as it needs.
pub fn print_columns<T>(headings: &[&str], items: &[T], cells: impl Fn(&T) -> Vec<String>) {
    let row = |item: &T| cells(item).iter().map(|cell| escape_line(cell)).collect();
    let rows: Vec<Vec<String>> = items.iter().map(row).collect();
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
    for row in &rows {
        print_row(&mut row.iter().map(String::as_str));
    }
}

/// Prints a line.
pub fn print_line(line: &str) {
    print_text(&escape_control(line));
}

/// Prints text with our colours in it: see [`escape_painted`].
pub fn print_painted(text: &str) {
    print_text(&escape_painted(text));
}

/// Prints a line on standard output, or on standard error if standard output fails: instructions
/// that the user needs.
pub fn print_line_somewhere(line: &str) {
    print_line(line);
    if failure().is_some() {
        complain(line);
    }
}

/// Prints a line on standard error: errors, and everything that must not mix with results.
pub fn complain(line: &str) {
    let line = format!("{}\n", escape_control(line));
    screen::leave(|| standard::write_err(line.as_bytes()));
}

/// Prints text with our colours in it on standard error: see [`escape_painted`].
pub fn complain_painted(text: &str) {
    let text = format!("{}\n", escape_painted(text));
    screen::leave(|| standard::write_err(text.as_bytes()));
}

fn print_text(text: &str) {
    screen::leave(|| standard::write_out(&format!("{text}\n")));
}

/// Prints what only informs, if it can be printed: a server outlives the terminal that it was started
/// from, and its exit code does not depend on it.
pub fn mention(line: &str) {
    let line = format!("{}\n", escape_control(line));
    screen::leave(|| standard::write_out_if_possible(&line));
}

/// As `mention`, with one JSON document.
pub fn mention_json(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    let text = escape_json(&text);
    screen::leave(|| standard::write_out_if_possible(&format!("{text}\n")));
    Ok(())
}

/// Shows the progress of long work: on a terminal only, on standard error, redrawn in one line.
pub fn progress_line(line: &str) {
    if let Some(columns) = screen::error_columns() {
        standard::write_err(
            format!("\r\x1b[K{}", fit(&escape_control(line), columns.saturating_sub(1))).as_bytes(),
        );
    }
}
