//! `waypost items`: the items of a map, or the iterations of a loop, by page and status.

use anyhow::Result;
use waypost_core::state::ItemsRequest;
use waypost_core::status::NodeStatus;
use waypost_server::reader::PAGE_MAX;
use waypost_server::wire;

use super::{Context, Exit, Usage, find, input};
use crate::output::{print_columns, print_line};

/// Statuses that an item can have.
const STATUSES: [NodeStatus; 5] = [
    NodeStatus::Pending,
    NodeStatus::Running,
    NodeStatus::Completed,
    NodeStatus::Failed,
    NodeStatus::Cancelled,
];
/// Most characters of a note.
const NOTE_CHARS_MAX: usize = 100;

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    named: find::Named,
    /// The path of a map or a loop, such as `each` or `outer[2]/each`
    node: String,
    /// Only items of this status: pending, running, completed, failed or cancelled
    #[arg(long)]
    status: Option<String>,
    /// Only items after this index
    #[arg(long, value_name = "INDEX")]
    after: Option<u64>,
    /// Maximum number of items (at most 1,000 per page)
    #[arg(long, default_value_t = 50, value_parser = input::count())]
    limit: usize,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    let status = args.status.as_deref().map(status).transpose()?;
    let request = ItemsRequest { status, after: args.after, limit: args.limit.min(PAGE_MAX) };
    let (target, id) = args.named.open(context).await?;
    let list = target.items(&id, &args.node, request).await?.items;
    let list = list.unwrap_or(wire::execution::ItemList { count: None, page: vec![], next: None });
    context.show(&list, || {
        if list.page.is_empty() {
            return print_line("no items");
        }
        print_columns(&["INDEX", "STATUS", "SINCE", "NOTE"], &list.page, columns);
        if let Some(next) = list.next {
            print_line(&format!("more: --after {next}"));
        }
    })
}

fn status(name: &str) -> Result<NodeStatus> {
    let found = STATUSES.into_iter().find(|status| status.name().eq_ignore_ascii_case(name.trim()));
    found.ok_or_else(|| {
        let known = STATUSES.map(NodeStatus::name).join(", ");
        Usage(format!("no status {name:?}; items have: {known}")).into()
    })
}

fn columns(item: &wire::execution::Item) -> Vec<String> {
    let note = match (&item.failure, &item.output, item.output_bytes) {
        (Some(failure), ..) => format!("{}: {}", failure.kind, failure.message),
        (None, Some(output), _) => output.0.text().to_owned(),
        (None, None, Some(bytes)) => format!("an output of {bytes} bytes"),
        (None, None, None) => String::new(),
    };
    let short: String = note.chars().take(NOTE_CHARS_MAX).collect();
    let short = if short.len() < note.len() { format!("{short}…") } else { short };
    vec![
        item.index.to_string(),
        item.status.0.to_string(),
        item.started_at.map_or_else(String::new, |at| at.0.to_string()),
        short,
    ]
}
