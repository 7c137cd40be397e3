//! `waypost show`: one execution, its nodes and their timeline.

use anyhow::Result;
use serde_json::{Value, json};
use waypost_core::event::Wait;
use waypost_core::id::NodeIx;
use waypost_core::json::Json;
use waypost_core::status::NodeStatus;
use waypost_core::time::Timestamp;
use waypost_ports::clock::{Clock, SystemClock};

use super::find::Found;
use super::{Context, Exit, find};
use crate::output::{Format, print_json, print_line};
use crate::progress::paint;

/// Columns of the timeline's bars.
const BAR: usize = 32;
/// Most nodes that are drawn.
const NODES_MAX: usize = 200;
/// Most characters of a payload.
const PAYLOAD_CHARS_MAX: usize = 400;

pub(crate) fn run(args: &find::Named, context: &Context) -> Result<Exit> {
    let found = args.load(context)?;
    match context.format {
        Format::Json => print_json(&wire(&found))?,
        Format::Text => print(&found, context.color),
    }
    Ok(Exit::Done)
}

fn print(found: &Found, color: bool) {
    let state = &found.state;
    let created = &state.created;
    let now = state.end.as_ref().map_or_else(|| SystemClock.now(), |end| end.at);
    print_line(&format!("execution  {}", created.key));
    print_line(&format!("workflow   {} v{}", created.workflow, created.version));
    print_line(&format!("status     {}", state.status));
    print_line(&format!("started    {}", state.created_at));
    print_line(&format!("took       {}", now.since(state.created_at)));
    if !created.labels.is_empty() {
        let labels: Vec<_> = created.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
        print_line(&format!("labels     {}", labels.join(", ")));
    }
    if !created.input.is_null() {
        print_line(&format!("input      {}", short(&created.input)));
    }
    if let Some(end) = &state.end {
        if let Some(output) = end.output.as_ref().filter(|output| !output.is_null()) {
            print_line(&format!("output     {}", short(output)));
        }
        if let Some(failure) = &end.failure {
            print_line(&format!("failure    {} ({})", failure.message, failure.kind));
        }
    }
    print_line("");
    let width = found.plan.nodes.iter().map(|node| node.id.len()).max().unwrap_or(4).clamp(4, 40);
    for at in found.plan.positions().take(NODES_MAX) {
        print_line(&node_line(found, at, now, width, color));
    }
    if found.plan.nodes.len() > NODES_MAX {
        print_line(&format!("… and {} more nodes", found.plan.nodes.len() - NODES_MAX));
    }
}

fn node_line(found: &Found, at: NodeIx, now: Timestamp, width: usize, color: bool) -> String {
    let (node, state) = (found.plan.node(at), found.state.node(at));
    let begin = state.scheduled.as_ref().map(|first| first.at);
    let end = if state.status.is_settled() { state.settled_at } else { Some(now) };
    let (bar, took) = match (begin, end) {
        (Some(begin), Some(end)) => {
            (bar(found.state.created_at, now, begin, end), end.since(begin).to_string())
        }
        _ => (" ".repeat(BAR), String::new()),
    };
    let attempts =
        if state.attempt > 1 { format!("{} attempts", state.attempt) } else { String::new() };
    let note = match (&state.wait, &state.failure, &state.branch) {
        (Some(Wait::Delay { due }), ..) => format!("until {due}"),
        (Some(Wait::Signal { name, .. }), ..) => format!("for signal {name}"),
        (Some(Wait::Retry { due }), Some(failure), _) => {
            format!("{}; again at {due}", failure.message)
        }
        (None, Some(failure), _) if state.status != NodeStatus::Completed => {
            failure.message.clone()
        }
        (_, _, Some(branch)) => format!("branch {branch}"),
        _ => String::new(),
    };
    let status = paint(state.status, color);
    let line = format!("{:<width$}  {status}  |{bar}| {took:>8}  {attempts}  {note}", node.id);
    line.trim_end().to_owned()
}

/// A bar from `begin` to `end` in a line that spans the execution.
fn bar(from: Timestamp, to: Timestamp, begin: Timestamp, end: Timestamp) -> String {
    let span = to.since(from).0.max(1);
    let place = |at: Timestamp| {
        let share = at.since(from).0.saturating_mul(BAR as u64) / span;
        usize::try_from(share).unwrap_or(BAR).min(BAR - 1)
    };
    let (first, last) = (place(begin), place(end));
    (0..BAR).map(|column| if (first..=last).contains(&column) { '█' } else { ' ' }).collect()
}

fn short(json: &Json) -> String {
    let text = json.text();
    if text.chars().count() <= PAYLOAD_CHARS_MAX {
        return text.to_owned();
    }
    let head: String = text.chars().take(PAYLOAD_CHARS_MAX).collect();
    format!("{head}… ({} bytes)", text.len())
}

/// The execution as JSON.
pub(super) fn wire(found: &Found) -> Value {
    let (plan, state) = (&found.plan, &found.state);
    let created = &state.created;
    let value = |json: &Json| json.to_value().unwrap_or_else(|_| Value::from(json.text()));
    let time = |at: Timestamp| at.to_string();
    let nodes: Vec<_> = plan
        .positions()
        .map(|at| {
            let (node, state) = (plan.node(at), state.node(at));
            json!({
                "id": node.id, "type": node.kind, "label": node.label,
                "status": state.status.name(), "attempt": state.attempt,
                "scheduledAt": state.scheduled.as_ref().map(|first| time(first.at)),
                "startedAt": state.started_at.map(time), "settledAt": state.settled_at.map(time),
                "output": state.output.as_ref().map(value), "branch": state.branch,
                "failure": state.failure, "wait": state.wait,
            })
        })
        .collect();
    let end = state.end.as_ref();
    json!({
        "id": created.key, "workflow": created.workflow, "version": created.version,
        "definition": created.definition, "status": state.status.name(),
        "generation": state.generation, "seq": state.seq, "labels": created.labels,
        "createdAt": time(state.created_at), "endedAt": end.map(|end| time(end.at)),
        "input": value(&created.input), "output": end.and_then(|end| end.output.as_ref()).map(value),
        "failure": end.and_then(|end| end.failure.as_ref()),
        "variables": state.variables.iter().map(|(k, v)| (k.to_string(), value(v)))
            .collect::<std::collections::BTreeMap<_, _>>(),
        "held": found.control.as_ref().and_then(|control| control.held.clone()),
        "nodes": nodes,
    })
}
