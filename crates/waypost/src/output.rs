//! How results reach people and programs: tables on a terminal, JSON for `-o json`.

#![expect(clippy::print_stdout, reason = "this is where the program prints its results")]

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

/// Prints a line.
pub fn print_line(line: &str) {
    println!("{line}");
}
