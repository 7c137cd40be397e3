//! `waypost validate`.

use std::path::PathBuf;

use anyhow::Result;
use serde_json::json;

use super::input::Source;
use super::{Context, Exit};
use crate::output::{Format, escape_control, print_json, print_painted};
use crate::wiring;

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Definition files, or `-` for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Exit with 1 if there are warnings, too
    #[arg(long)]
    deny_warnings: bool,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit> {
    let mut exit = Exit::Done;
    let mut reports = Vec::new();
    for Source { name, bytes: source } in Source::read_all(&args.files)? {
        let (report, text) = match wiring::compile(&source) {
            Ok(compiled) => {
                let warnings =
                    compiled.warnings.render(&source, &escape_control(&name), context.color);
                let denied = args.deny_warnings && !compiled.warnings.is_empty();
                if denied && matches!(exit, Exit::Done) {
                    exit = Exit::Failed;
                }
                let (nodes, hash) = (compiled.plan.nodes.len(), compiled.hash);
                let report = json!({
                    "file": name, "valid": true, "workflow": compiled.name, "nodes": nodes,
                    "hash": hash, "diagnostics": compiled.warnings,
                });
                let (file, workflow) = (escape_control(&name), &compiled.name);
                let line = format!("{file}: ok, workflow {workflow}, {nodes} nodes");
                (report, if warnings.is_empty() { line } else { format!("{warnings}\n{line}") })
            }
            Err(faults) => {
                exit = Exit::Wrong;
                let report = json!({ "file": name, "valid": false, "diagnostics": faults });
                (report, faults.render(&source, &escape_control(&name), context.color))
            }
        };
        if context.format == Format::Text {
            print_painted(text.trim_end());
        }
        reports.push(report);
    }
    if context.format == Format::Json {
        print_json(&reports)?;
    }
    Ok(exit)
}

/// Prints the JSON Schema of definitions.
pub(crate) fn schema() -> Result<Exit> {
    print_json(&waypost_lang::schema(&waypost_nodes::catalog()))?;
    Ok(Exit::Done)
}
