//! `waypost events`: the log of an execution; `waypost events publish`: events for triggers.

use std::collections::BTreeMap;

use anyhow::Result;
use waypost_core::json::Json;
use waypost_server::wire;

use super::{Context, Exit, find, input, triggers};
use crate::output::{print_columns, print_line};
use crate::target::EventsOf;

#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    publish: Option<triggers::EventAction>,
    /// The execution's id, or `last` for the newest one
    #[arg(value_name = "EXECUTION", required = true)]
    execution: Option<String>,
    /// Only events of this node
    #[arg(long)]
    node: Option<String>,
    /// Only events of this type, for example NodeFailed
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Only events after this position
    #[arg(long, default_value_t = 0, value_name = "SEQ")]
    after: u64,
    /// Maximum number of events
    #[arg(long, default_value_t = 1_000, value_parser = input::count())]
    limit: usize,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    if let Some(publish) = &args.publish {
        return triggers::events(publish, context).await;
    }
    let named = find::Named { execution: args.execution.clone().unwrap_or_default() };
    let (target, id) = named.open(context).await?;
    let wanted = EventsOf {
        node: args.node.clone(),
        kind: args.kind.clone(),
        after: args.after,
        limit: args.limit,
    };
    let list = target.events(&id, &wanted).await?;
    context.show(&list, || {
        if list.events.is_empty() {
            return print_line("no events");
        }
        print_columns(&["SEQ", "AT", "TYPE", "NODE", "DETAILS"], &list.events, columns);
        if let Some(next) = list.next {
            print_line(&format!("more: --after {next}"));
        }
    })
}

fn columns(event: &wire::Event) -> Vec<String> {
    let node = match (&event.node, event.attempt) {
        (Some(node), Some(attempt)) if attempt > 1 => format!("{node} #{attempt}"),
        (Some(node), _) => node.clone(),
        (None, _) => String::new(),
    };
    // Field by field, so that numbers are shown as they were written.
    let mut details: BTreeMap<String, Json> =
        serde_json::from_str(event.data.0.text()).unwrap_or_default();
    details.remove("node");
    details.remove("attempt");
    let details = if details.is_empty() { None } else { serde_json::to_string(&details).ok() };
    let details = details.unwrap_or_default();
    let short: String = details.chars().take(160).collect();
    let short = if short.len() < details.len() { format!("{short}…") } else { short };
    vec![event.seq.to_string(), event.at.0.to_string(), event.kind.clone(), node, short]
}
