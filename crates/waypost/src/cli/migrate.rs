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
    let newest = before.pending.last().map_or(before.current, |migration| migration.version);
    let applied = if args.dry_run { 0 } else { waypost_sqlite::migrate(folder)?.len() };
    if context.format == Format::Json {
        print_json(&json!({ "layout": before.current, "newest": newest, "applied": applied }))?;
        return Ok(Exit::Done);
    }
    if args.dry_run {
        print_line(&format!("layout {} of {newest}", before.current));
        for migration in &before.pending {
            print_line(&format!("would apply {}: {}", migration.version, migration.name));
        }
    } else {
        print_line(&format!("layout {newest}: {applied} applied"));
    }
    Ok(Exit::Done)
}
