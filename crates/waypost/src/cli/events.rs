//! `waypost events`.

use anyhow::Result;
use serde_json::{Value, json};
use waypost_ports::query::{EventRow, EventsRequest, Query};

use super::{Context, Exit, find};
use crate::output::{Format, print_columns, print_json, print_line};
use crate::wiring;

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    named: find::Named,
    /// Only events of this node
    #[arg(long)]
    node: Option<String>,
    /// Only events of this type, for example NodeFailed
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Only events after this position
    #[arg(long, default_value_t = 0, value_name = "SEQ")]
    after: u64,
    /// At most so many
    #[arg(long, default_value_t = 1_000)]
    limit: usize,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit> {
    let store = wiring::open_store(&context.settings.data)?;
    let execution = args.named.find(&store)?;
    let rows = store.events(&EventsRequest {
        execution,
        node: args.node.clone(),
        kind: args.kind.clone(),
        after: args.after,
        limit: args.limit,
    })?;
    if context.format == Format::Json {
        print_json(&rows.iter().map(wire).collect::<Result<Vec<_>>>()?)?;
        return Ok(Exit::Done);
    }
    if rows.is_empty() {
        print_line("no events");
        return Ok(Exit::Done);
    }
    let lines: Vec<_> = rows.iter().map(columns).collect();
    print_columns(&["SEQ", "AT", "TYPE", "NODE", "DETAILS"], &lines);
    if rows.len() == args.limit
        && let Some(last) = rows.last()
    {
        print_line(&format!("more: --after {}", last.seq));
    }
    Ok(Exit::Done)
}

fn columns(row: &EventRow) -> Vec<String> {
    let node = match (&row.node, row.attempt) {
        (Some(node), Some(attempt)) if attempt > 1 => format!("{node} #{attempt}"),
        (Some(node), _) => node.clone(),
        (None, _) => String::new(),
    };
    let mut details = row.fields.to_value().unwrap_or_default();
    if let Value::Object(fields) = &mut details {
        fields.remove("node");
        fields.remove("attempt");
    }
    let details = if details == json!({}) { String::new() } else { details.to_string() };
    let short: String = details.chars().take(160).collect();
    let short = if short.len() < details.len() { format!("{short}…") } else { short };
    vec![row.seq.to_string(), row.at.to_string(), row.kind.clone(), node, short]
}

fn wire(row: &EventRow) -> Result<Value> {
    let mut event = json!({
        "seq": row.seq, "at": row.at.to_string(), "epoch": row.epoch, "type": row.kind,
    });
    if let (Value::Object(event), Value::Object(fields)) = (&mut event, row.fields.to_value()?) {
        event.extend(fields);
    }
    Ok(event)
}
