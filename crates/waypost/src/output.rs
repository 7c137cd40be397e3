//! How results reach people and programs: tables on a terminal, JSON for `-o json`.

#![expect(clippy::print_stdout, reason = "this is where the program prints its results")]

use std::io::{IsTerminal, Write};

use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;

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
    println!("{}", serde_json::to_string_pretty(value)?);
    Ok(())
}

/// Prints names and values in two columns.
pub fn print_table(rows: &[(String, String)]) -> Result<()> {
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    for (name, value) in rows {
        println!("{name:<width$}  {value}");
    }
    Ok(())
}

/// Prints rows under headings, each column as wide as it needs.
pub fn print_columns(headings: &[&str], rows: &[Vec<String>]) {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(headings.get(column).map(|heading| heading.chars().count())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let print_row = |cells: &mut dyn Iterator<Item = &str>| {
        let line: Vec<String> =
            cells.zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        println!("{}", line.join("  ").trim_end());
    };
    print_row(&mut headings.iter().copied());
    for row in rows {
        print_row(&mut row.iter().map(String::as_str));
    }
}

/// Prints a line.
pub fn print_line(line: &str) {
    println!("{line}");
}

/// Prints a line if somebody reads it: what goes on for long outlives whoever started it, and must
/// not end because nobody listens.
pub fn mention(line: &str) {
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{line}").and_then(|()| stdout.flush()).unwrap_or_default();
}

/// Shows how far long work is: on a terminal only, on standard error, over and over in one line.
#[expect(clippy::print_stderr, reason = "progress must not mix with results")]
pub fn progress_line(line: &str) {
    let mut stderr = std::io::stderr();
    if stderr.is_terminal() {
        eprint!("\r\x1b[K{line}");
        // A progress line that cannot be shown is no reason to stop the work.
        stderr.flush().unwrap_or_default();
    }
}
