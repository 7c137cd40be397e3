//! `waypost list`.

use std::sync::Arc;

use anyhow::Result;
use waypost_core::id::ExecutionNo;
use waypost_core::status::Status;
use waypost_core::time::Timestamp;
use waypost_ports::clock::{Clock, SystemClock};
use waypost_ports::query::{ListCondition, ListRequest};
use waypost_server::wire;

use super::check::grouped;
use super::{Context, Exit, Usage, input, when};
use crate::output::{print_columns, print_line};
use crate::target::Target;

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Only executions of this status; several with commas, or by repeating it
    #[arg(long, value_delimiter = ',')]
    status: Vec<String>,
    /// Only executions of this workflow
    #[arg(long)]
    workflow: Option<String>,
    /// Only executions accepted in this span, such as `2h`, or since a time such as
    /// `2026-01-31T09:00:00Z`
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Only executions accepted longer ago than this span, or before a time
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,
    /// Only executions with this label; repeat it for executions with all of them
    #[arg(long, value_name = "NAME=VALUE")]
    label: Vec<String>,
    /// Only executions with this text in their id, error, labels or input, in any case
    #[arg(long)]
    text: Option<String>,
    /// Only executions for which this expression holds, such as
    /// `input.total >= 100 and created > ago('7d')`
    #[arg(long = "where", value_name = "EXPRESSION")]
    condition: Option<String>,
    /// Maximum number of results (at most 1,000 per page)
    #[arg(long, default_value_t = 50, value_parser = input::count())]
    limit: usize,
    /// Continue after the last result of an earlier page
    #[arg(long, value_name = "CURSOR")]
    before: Option<i64>,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    let request = request(args)?;
    let list = Target::open(&context.settings)?.list(request).await?;
    context.show(&list, || print(&list))
}

fn print(list: &wire::ExecutionList) {
    if list.executions.is_empty() {
        print_line("no executions");
    } else {
        let now = SystemClock.now();
        let headings = ["EXECUTION", "WORKFLOW", "STATUS", "CREATED", "TOOK", "NODES", "NOTE"];
        print_columns(&headings, &list.executions, |row| columns(row, now));
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

fn request(args: &Args) -> Result<ListRequest> {
    let when = |flag, text: &Option<String>| {
        text.as_deref().map(|text| when::parse(flag, text)).transpose()
    };
    Ok(ListRequest {
        statuses: args.status.iter().map(|name| status(name)).collect::<Result<_>>()?,
        workflow: args.workflow.clone(),
        since: when("--since", &args.since)?,
        until: when("--until", &args.until)?,
        labels: input::labels(&args.label)?,
        text: args.text.clone(),
        condition: args.condition.as_deref().map(condition).transpose()?,
        before: args.before.map(ExecutionNo),
        limit: args.limit,
    })
}

fn condition(text: &str) -> Result<Arc<ListCondition>> {
    let compiled = ListCondition::compile(text, SystemClock.now());
    Ok(Arc::new(compiled.map_err(|why| Usage(format!("--where, {why}")))?))
}

fn status(name: &str) -> Result<Status> {
    Status::parse(name.trim()).ok_or_else(|| {
        let known = Status::SHOWN.map(Status::name).join(", ");
        Usage(format!("no status {name:?}; there are: {known}")).into()
    })
}

/// "each 412,310/1,000,000 begun, 17 failed".
fn far(progress: &wire::execution::MapProgress) -> String {
    let wire::execution::MapProgress { node, count, begun, failed } = progress;
    let failed = if *failed > 0 { format!(", {} failed", grouped(*failed)) } else { String::new() };
    format!("{node} {}/{} begun{failed}", grouped(*begun), grouped(*count))
}

fn columns(row: &wire::ExecutionSummary, now: Timestamp) -> Vec<String> {
    let note = match (&row.failure, row.resume_at, &row.current_node) {
        (Some(failure), ..) => failure.message.clone(),
        (None, _, Some(_)) if let Some(progress) = &row.progress => far(progress),
        (None, Some(at), Some(node)) => format!("{node} until {}", at.0),
        (None, None, Some(node)) => format!("at {node}"),
        (None, ..) => String::new(),
    };
    let end = row.ended_at.map_or(now, |at| at.0);
    vec![
        row.id.clone(),
        format!("{} v{}", row.workflow, row.version),
        row.status.0.to_string(),
        row.created_at.0.to_string(),
        end.since(row.created_at.0).to_string(),
        row.nodes_executed.to_string(),
        note.chars().take(80).collect(),
    ]
}
