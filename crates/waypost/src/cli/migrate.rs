//! `waypost migrate`.

use anyhow::Result;
use serde_json::json;

use super::{Context, Exit};
use crate::output::{Format, print_json, print_line};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Say what would be done and do nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit> {
    let folder = &context.settings.data;
    let before = waypost_sqlite::migrations(folder)?;
    let applied = if args.dry_run { 0 } else { waypost_sqlite::migrate(folder)? };
    match context.format {
        Format::Json => print_json(&json!({
            "layout": before.current, "newest": before.newest, "applied": applied,
        }))?,
        Format::Text if args.dry_run => print_line(&format!(
            "layout {} of {}: {} to apply",
            before.current,
            before.newest,
            before.newest - before.current
        )),
        Format::Text => print_line(&format!("layout {}: {applied} applied", before.newest)),
    }
    Ok(Exit::Done)
}
