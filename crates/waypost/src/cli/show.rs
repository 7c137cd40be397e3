//! `waypost show`: one execution, its nodes and their timeline.

use anyhow::Result;
use serde::Serialize;
use waypost_core::budget::{Money, SpendingLimits};
use waypost_core::json::Json;
use waypost_core::status::NodeStatus;
use waypost_core::time::Timestamp;
use waypost_ports::clock::{Clock, SystemClock};
use waypost_server::wire;

use super::{Context, Exit, failed, find};
use crate::output::{
    Format, columns, escape_control, escape_line, pad, print_json, print_line, print_painted,
};
use crate::progress::paint;
use crate::target::Target;

/// Columns of the timeline's bars.
const BAR: usize = 32;
/// Most nodes that are drawn.
const NODES_MAX: usize = 200;
/// Most characters of a payload.
const PAYLOAD_CHARS_MAX: usize = 400;

/// An execution with its nodes; what `-o json` prints.
#[derive(Debug, Serialize)]
pub(super) struct ShownExecution {
    #[serde(flatten)]
    pub(super) execution: wire::Execution,
    pub(super) nodes: Vec<wire::Node>,
}

impl ShownExecution {
    pub(super) async fn read(target: &Target, id: &str) -> Result<Self> {
        let execution = target.execution(id).await?;
        let nodes = target.nodes(id).await?.nodes;
        Ok(Self { execution, nodes })
    }
}

pub(crate) async fn run(args: &find::Named, context: &Context) -> Result<Exit> {
    let (target, id) = args.open(context).await?;
    let shown = ShownExecution::read(&target, &id).await?;
    match context.format {
        Format::Json => print_json(&shown)?,
        Format::Text => print(&target, &shown, context.color).await?,
    }
    Ok(Exit::Done)
}

/// Which trigger started an execution, and with which item; `-o json` has all of it.
fn about_trigger(trigger: &Json) -> String {
    let fields = trigger.to_value().unwrap_or_default();
    let text = |name: &str| fields[name].as_str().map(escape_line).unwrap_or_default();
    format!("{} ({}), item {}", text("name"), text("kind"), text("key"))
}

async fn print(target: &Target, shown: &ShownExecution, color: bool) -> Result<()> {
    let execution = &shown.execution;
    let created_at = execution.created_at.0;
    let now = execution.ended_at.map_or_else(|| SystemClock.now(), |at| at.0);
    print_line(&format!("execution  {}", execution.id));
    print_line(&format!("workflow   {} v{}", execution.workflow, execution.version));
    print_line(&format!("status     {}", execution.status.0));
    print_line(&format!("created    {created_at}"));
    print_line(&format!("took       {}", now.since(created_at)));
    if !execution.labels.is_empty() {
        let labels: Vec<_> = execution.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
        print_line(&format!("labels     {}", labels.join(", ")));
    }
    if let Some(trigger) = &execution.trigger {
        print_line(&format!("trigger    {}", about_trigger(&trigger.0)));
    }
    if !execution.input.0.is_null() {
        print_line(&format!("input      {}", short(&execution.input.0)));
    }
    if let Some(output) = execution.output.as_ref().filter(|output| !output.0.is_null()) {
        print_line(&format!("output     {}", short(&output.0)));
    }
    if let Some(failure) = &execution.failure {
        let sentences = failed::sentences(target, &execution.id, failure, &shown.nodes).await?;
        sentences.iter().for_each(|sentence| print_line(&format!("failure    {sentence}")));
    }
    if let Some(place) = &execution.concurrency {
        let wire::execution::Concurrency { key, limit, queue_position, admitted, .. } = place;
        let permit = match admitted {
            true => "holds a permit".to_owned(),
            false => format!("queued, {queue_position} ahead of it"),
        };
        print_line(&format!("key        {key:?}, limit {limit}: {permit}"));
    }
    if let Some(spending) = &execution.spending {
        spent(spending).iter().for_each(|line| print_line(line));
    }
    if let Some(parent) = &execution.parent {
        print_line(&format!("started by {}, node {}", parent.id, parent.node));
    }
    if let Some(reason) = &execution.reason {
        print_line(&format!("reason     {reason}"));
    }
    if let Some(quarantine) = &execution.quarantine {
        print_line(&format!("quarantine {} (since {})", quarantine.reason, quarantine.since.0));
    }
    print_line("");
    let width = shown
        .nodes
        .iter()
        .map(|node| columns(&escape_control(&node.id)))
        .max()
        .unwrap_or(4)
        .clamp(4, 40);
    let span = (created_at, now);
    for node in shown.nodes.iter().take(NODES_MAX) {
        print_painted(&node_line(node, span, width, color));
        let failure = node.failure.as_ref().filter(|_| node.status.0 != NodeStatus::Completed);
        for line in failure.map(failed::printed).unwrap_or_default() {
            print_line(&line);
        }
    }
    if shown.nodes.len() > NODES_MAX {
        print_line(&format!("… and {} more nodes", shown.nodes.len() - NODES_MAX));
    }
    Ok(())
}

/// What was used; what attempts may have used besides, and may use; and the budget.
fn spent(spending: &wire::execution::Spending) -> Vec<String> {
    let wire::execution::Spending { input_tokens, output_tokens, cost, lost, reserved, budget } =
        spending;
    let money = |cost: Money| match cost.is_zero() {
        true => String::new(),
        false => format!(", cost {cost}"),
    };
    let cost = money(cost.0);
    let mut lines =
        vec![format!("tokens     {input_tokens} of requests, {output_tokens} of replies{cost}")];
    if let Some(lost) = lost {
        let wire::limits::LostUsage { attempts, tokens, cost } = lost;
        let most = match tokens {
            0 => "unknown".to_owned(),
            tokens => format!("up to {tokens} tokens{}", money(cost.0)),
        };
        lines.push(format!("lost       {most}: the usage of {attempts} attempts was not reported"));
    }
    if let Some(reserved) = reserved {
        let (tokens, cost) = (reserved.tokens, money(reserved.cost.0));
        lines.push(format!("reserved   {tokens} tokens{cost}"));
    }
    if let Some(budget) = budget {
        let limits =
            SpendingLimits { tokens: budget.tokens, money: budget.money.map(|money| money.0) };
        lines.push(format!("budget     {limits}; if exhausted: {}", budget.on_exhausted));
    }
    lines
}

fn node_line(node: &wire::Node, span: (Timestamp, Timestamp), width: usize, color: bool) -> String {
    let begin = node.scheduled_at.map(|at| at.0);
    let settled = node.settled_at.map(|at| at.0);
    let end = if node.status.0.is_settled() { settled } else { Some(span.1) };
    let (bar, took) = match (begin, end) {
        (Some(begin), Some(end)) => (bar(span, begin, end), end.since(begin).to_string()),
        _ => (" ".repeat(BAR), String::new()),
    };
    let attempts =
        if node.attempt > 1 { format!("{} attempts", node.attempt) } else { String::new() };
    let status = paint(node.status.0, color);
    let (id, note) = (pad(&escape_control(&node.id), width), escape_line(&note(node)));
    let line = format!("{id}  {status}  |{bar}| {took:>8}  {attempts}  {note}");
    line.trim_end().to_owned()
}

fn note(node: &wire::Node) -> String {
    let due = |wait: &wire::Wait| wait.due.map(|due| due.0.to_string()).unwrap_or_default();
    match (&node.wait, &node.failure, &node.branch) {
        (Some(wait), Some(failure), _) if wait.kind == "retry" => {
            format!("{}; again at {}", failure.message, due(wait))
        }
        (Some(wait), ..) if wait.kind == "child" => {
            format!("for execution {}", wait.name.as_deref().unwrap_or_default())
        }
        (Some(wait), ..) => match (&*wait.kind, &wait.name) {
            ("approval", Some(title)) => format!("for a decision: {title}"),
            ("async-operation", _) => "for its callback".to_owned(),
            ("breaker", Some(key)) => format!("for breaker {key} until {}", due(wait)),
            (_, Some(name)) => format!("for signal {name}"),
            (_, None) => format!("until {}", due(wait)),
        },
        (None, Some(failure), _) if node.status.0 != NodeStatus::Completed => {
            failure.message.clone()
        }
        (_, _, Some(branch)) => format!("branch {branch}"),
        _ if let Some(child) = &node.child => format!("execution {child}"),
        _ => match (node.iterations, &node.items) {
            (Some(count), _) => format!("iteration {count}"),
            (None, Some(items)) => progress(items),
            (None, None) => String::new(),
        },
    }
}

fn progress(items: &wire::execution::Items) -> String {
    let wire::execution::Items { count, done, failed, held, concurrency, .. } = items;
    let mut line = format!("{done} of {count} items");
    if *failed > 0 {
        line += &format!(", {failed} failed");
    }
    if let Some(wire::execution::MapHold { by, reason, .. }) = held {
        line += ", held";
        line += &by.as_ref().map_or_else(String::new, |by| format!(" by {by}"));
        line += &reason.as_ref().map_or_else(String::new, |reason| format!(" ({reason})"));
    }
    if let Some(concurrency) = concurrency {
        line += &format!(", {concurrency} at once");
    }
    line
}

/// A bar from `begin` to `end` in a line that spans the execution.
fn bar((from, to): (Timestamp, Timestamp), begin: Timestamp, end: Timestamp) -> String {
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
