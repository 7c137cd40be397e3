//! `waypost migrate`.

use std::path::Path;

use anyhow::Result;
use serde_json::json;
use waypost_ports::migration::{Migration, Migrations};

use super::{Context, Exit};
use crate::output::print_line;
use crate::settings::Database;
use crate::wiring;

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Print the migrations that would be applied, and change nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit> {
    let (before, applied) = match &context.settings.cluster.database {
        Some(database) => in_database(args, database)?,
        None => in_folder(args, &context.settings.data)?,
    };
    let newest = before.pending.last().map_or(before.current, |last| last.version);
    let result = json!({ "layout": before.current, "newest": newest, "applied": applied });
    context.show(&result, || {
        if !args.dry_run {
            return print_line(&format!("layout {newest}: {applied} applied"));
        }
        print_line(&format!("layout {} of {newest}", before.current));
        for Migration { version, name, additive, .. } in &before.pending {
            let note = if *additive { " (additive: older versions can go on)" } else { "" };
            print_line(&format!("would apply {version}: {name}{note}"));
        }
    })
}

fn in_folder(args: &Args, folder: &Path) -> Result<(Migrations, usize)> {
    let found = waypost_sqlite::migrations(folder)?;
    let applied = if args.dry_run { 0 } else { waypost_sqlite::migrate(folder)?.len() };
    Ok((found, applied))
}

fn in_database(args: &Args, database: &Database) -> Result<(Migrations, usize)> {
    let (url, options) = (&database.url.0, wiring::database_options(database));
    let found = waypost_postgres::migrations(url, &options)?;
    let applied = if args.dry_run { 0 } else { waypost_postgres::migrate(url, &options)?.len() };
    Ok((found, applied))
}
