//! `waypost list`.

use anyhow::Result;
use serde_json::json;
use waypost_core::id::ExecutionId;
use waypost_core::status::Status;
use waypost_core::time::Timestamp;
use waypost_ports::clock::{Clock, SystemClock};
use waypost_ports::query::{ExecutionRow, ListRequest, Query};

use super::{Context, Exit, Usage};
use crate::output::{Format, print_columns, print_json, print_line};
use crate::wiring;

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Only executions of this status
    #[arg(long)]
    status: Option<String>,
    /// Only executions of this workflow
    #[arg(long)]
    workflow: Option<String>,
    /// At most so many
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Go on where an earlier page ended
    #[arg(long, value_name = "CURSOR")]
    before: Option<i64>,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit> {
    let status = match &args.status {
        None => None,
        Some(name) => match Status::parse(name) {
            Some(status) => Some(status),
            None => {
                let known = Status::ALL.map(Status::name).join(", ");
                return Err(Usage(format!("no status {name:?}; there are: {known}")).into());
            }
        },
    };
    let store = wiring::open_store(&context.settings.data)?;
    let page = store.list(&ListRequest {
        statuses: status.into_iter().collect(),
        workflow: args.workflow.clone(),
        before: args.before.map(ExecutionId),
        limit: args.limit,
        ..ListRequest::default()
    })?;
    if context.format == Format::Json {
        let rows: Vec<_> = page.rows.iter().map(wire).collect();
        let next = page.next.map(|next| next.0);
        print_json(&json!({ "executions": rows, "next": next, "framesBehind": page.lag.frames }))?;
        return Ok(Exit::Done);
    }
    if page.rows.is_empty() {
        print_line("no executions");
        return Ok(Exit::Done);
    }
    let now = SystemClock.now();
    let rows: Vec<_> = page.rows.iter().map(|row| columns(row, now)).collect();
    print_columns(&["EXECUTION", "WORKFLOW", "STATUS", "STARTED", "TOOK", "NODES", "NOTE"], &rows);
    if let Some(next) = page.next {
        print_line(&format!("more: waypost list --before {}", next.0));
    }
    if page.lag.frames > 0 {
        let commits = if page.lag.frames == 1 { "commit" } else { "commits" };
        print_line(&format!("the list is {} {commits} behind", page.lag.frames));
    }
    Ok(Exit::Done)
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
    })
}
