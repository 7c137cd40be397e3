//! `waypost waits`: the open waits of all executions.

pub(crate) mod links;

use anyhow::Result;
use waypost_core::id::WaitId;
use waypost_ports::query::WaitsRequest;
use waypost_server::reader::{PAGE_MAX, WAIT_KINDS};
use waypost_server::wire;

use super::{Context, Exit, Usage, input};
use crate::output::{print_columns, print_line};
use crate::target::Target;

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Only waits of this kind: delay, signal, retry, approval or breaker
    #[arg(long)]
    kind: Option<String>,
    /// Only waits of executions of this workflow
    #[arg(long)]
    workflow: Option<String>,
    /// Maximum number of results (at most 1,000 per page)
    #[arg(long, default_value_t = 50, value_parser = input::count())]
    limit: usize,
    /// Continue after the last result of an earlier page
    #[arg(long, value_name = "CURSOR")]
    before: Option<String>,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    if let Some(kind) = args.kind.as_deref().filter(|kind| !WAIT_KINDS.contains(kind)) {
        let known = WAIT_KINDS.join(", ");
        return Err(Usage(format!("no kind {kind:?}; there are: {known}")).into());
    }
    let cursor = |text: &str| {
        let bad = |_| Usage(format!("{text:?} is not the id of a wait, such as exe_1~7"));
        text.parse::<WaitId>().map_err(bad)
    };
    let behind = args.before.as_deref().map(cursor).transpose()?;
    let request = WaitsRequest {
        workflow: args.workflow.clone(),
        limit: args.limit.min(PAGE_MAX),
        ..WaitsRequest::default()
    };
    let target = Target::open(&context.settings)?;
    let list = target.waits(args.kind.as_deref(), behind, request).await?;
    context.show(&list, || print(&list))
}

fn print(list: &wire::WaitList) {
    if list.waits.is_empty() {
        print_line("no open waits");
    } else {
        let headings = ["WAIT", "KIND", "WORKFLOW", "NODE", "SINCE", "DUE", "FOR"];
        print_columns(&headings, &list.waits, columns);
    }
    if let Some(next) = &list.next {
        print_line(&format!("more: repeat with --before {next}"));
    }
    let behind = list.as_of.frames_behind;
    if behind > 0 {
        let commits = if behind == 1 { "commit" } else { "commits" };
        print_line(&format!("the list is {behind} {commits} behind"));
    }
}

fn columns(wait: &wire::ListedWait) -> Vec<String> {
    vec![
        wait.id.clone(),
        wait.kind.clone(),
        wait.workflow.clone(),
        wait.node.clone(),
        wait.since.0.to_string(),
        wait.due.map_or_else(String::new, |due| due.0.to_string()),
        match &wait.title {
            Some(title) if wait.approvers.is_empty() => title.clone(),
            Some(title) => format!("{title} ({})", wait.approvers.join(", ")),
            None => wait.breaker.clone().unwrap_or_else(|| wait.signals.join(", ")),
        },
    ]
}
