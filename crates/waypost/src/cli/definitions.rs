//! `waypost definitions`: deployed definitions.

use anyhow::Result;
use waypost_server::wire;

use super::{Context, Exit, input};
use crate::output::{Format, print_columns, print_json, print_line};
use crate::target::Target;

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Show the versions of this workflow; all workflows if absent
    workflow: Option<String>,
    /// Print this version
    #[arg(long, value_name = "N", requires = "workflow",
          value_parser = clap::value_parser!(u32).range(1..))]
    version: Option<u32>,
    /// Maximum number of results (at most 1,000 per page)
    #[arg(long, default_value_t = 50, value_parser = input::count())]
    limit: usize,
    /// Continue after the last result of an earlier page
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    let target = Target::open(&context.settings)?;
    if let (Some(name), Some(version)) = (&args.workflow, args.version) {
        let definition = target.definition(name, version).await?;
        match context.format {
            Format::Json => print_json(&definition)?,
            Format::Text => print_json(&definition.definition.0.to_value()?)?,
        }
        return Ok(Exit::Done);
    }
    let list =
        target.definitions(args.workflow.as_deref(), args.after.as_deref(), args.limit).await?;
    context.show(&list, || print(&list))
}

fn print(list: &wire::DefinitionList) {
    if list.definitions.is_empty() {
        return print_line("no definitions; `waypost deploy FILE` adds one");
    }
    let columns = |row: &wire::DefinitionSummary| {
        let deployed = row.created_at.map(|at| at.0.to_string()).unwrap_or_default();
        let hash = row.hash.chars().take(16).collect();
        let current = row.current.to_string();
        vec![row.workflow.clone(), row.version.to_string(), current, deployed, hash]
    };
    let headings = ["WORKFLOW", "VERSION", "CURRENT", "DEPLOYED", "HASH"];
    print_columns(&headings, &list.definitions, columns);
    if let Some(next) = &list.next {
        print_line(&format!("more: the same with --after {next}"));
    }
}
