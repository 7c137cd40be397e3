//! `waypost list`.

use anyhow::Result;
use serde_json::json;
use waypost_core::id::ExecutionId;
use waypost_core::status::Status;
use waypost_core::time::Timestamp;
use waypost_ports::clock::{Clock, SystemClock};
use waypost_ports::query::{ExecutionRow, ListRequest, Query};

use super::{Context, Exit, Usage, when};
use crate::output::{Format, print_columns, print_json, print_line};
use crate::wiring;

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
    /// At most so many
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Go on where an earlier page ended
    #[arg(long, value_name = "CURSOR")]
    before: Option<i64>,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit> {
    let request = request(args)?;
    let store = wiring::open_store(&context.settings.data)?;
    let page = store.list(&request)?;
    if context.format == Format::Json {
        let rows: Vec<_> = page.rows.iter().map(wire).collect();
        let next = page.next.map(|next| next.0);
        print_json(&json!({
            "executions": rows, "next": next, "framesBehind": page.lag.frames,
            "asOf": page.lag.as_of.map(|at| at.to_string()),
        }))?;
        return Ok(Exit::Done);
    }
    if page.rows.is_empty() {
        print_line("no executions");
    } else {
        let now = SystemClock.now();
        let rows: Vec<_> = page.rows.iter().map(|row| columns(row, now)).collect();
        let heads = ["EXECUTION", "WORKFLOW", "STATUS", "STARTED", "TOOK", "NODES", "NOTE"];
        print_columns(&heads, &rows);
    }
    if let Some(next) = page.next {
        print_line(&format!("more: the same with --before {}", next.0));
    }
    if page.lag.frames > 0 {
        let commits = if page.lag.frames == 1 { "commit" } else { "commits" };
        print_line(&format!("the list is {} {commits} behind", page.lag.frames));
    }
    Ok(Exit::Done)
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
        labels: args.label.iter().map(|text| label(text)).collect::<Result<_>>()?,
        text: args.text.clone(),
        before: args.before.map(ExecutionId),
        limit: args.limit,
    })
}

fn status(name: &str) -> Result<Status> {
    Status::parse(name.trim()).ok_or_else(|| {
        let known = Status::ALL.map(Status::name).join(", ");
        Usage(format!("no status {name:?}; there are: {known}")).into()
    })
}

fn label(text: &str) -> Result<(String, String)> {
    match text.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err(Usage(format!("--label {text:?} has no value: write NAME=VALUE")).into()),
    }
}

fn columns(row: &ExecutionRow, now: Timestamp) -> Vec<String> {
    let note = match (&row.error, row.resume_at, &row.current_node) {
        (Some(error), ..) => error.clone(),
        (None, Some(at), Some(node)) => format!("{node} until {at}"),
        (None, None, Some(node)) => format!("at {node}"),
        (None, ..) => String::new(),
    };
    vec![
        row.key.to_string(),
        format!("{} v{}", row.workflow, row.version),
        row.status.to_string(),
        row.created_at.to_string(),
        row.completed_at.unwrap_or(now).since(row.created_at).to_string(),
        row.nodes_executed.to_string(),
        note.chars().take(80).collect(),
    ]
}

fn wire(row: &ExecutionRow) -> serde_json::Value {
    json!({
        "id": row.key, "workflow": row.workflow, "version": row.version,
        "status": row.status.name(), "createdAt": row.created_at.to_string(),
        "completedAt": row.completed_at.map(|at| at.to_string()),
        "nodesExecuted": row.nodes_executed, "error": row.error,
        "currentNode": row.current_node, "resumeAt": row.resume_at.map(|at| at.to_string()),
        "labels": row.labels,
    })
}
