//! What a running execution looks like: a line per node on a terminal, redrawn while it changes;
//! one plain line per change in a pipe.

#![expect(clippy::print_stdout, reason = "this is where progress is printed")]

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::sync::Arc;

use waypost_core::event::{CancelReason, Event, FailureEnd, PauseReason, Wait};
use waypost_core::status::NodeStatus;
use waypost_core::time::Timestamp;

use crate::output::harmless;

/// Most unfinished nodes that are drawn at once.
const LIVE_MAX: usize = 12;

/// Draws the progress of one execution.
pub struct Progress {
    live: bool,
    color: bool,
    nodes: BTreeMap<Arc<str>, Node>,
    /// Nodes that are not settled, in the order they appeared.
    open: Vec<Arc<str>>,
    /// Lines on the screen that will be drawn again.
    drawn: usize,
}

struct Node {
    status: NodeStatus,
    attempt: u32,
    since: Timestamp,
    note: String,
}

impl Progress {
    /// Progress on standard output.
    pub fn new(color: bool) -> Self {
        let live = std::io::stdout().is_terminal();
        Self { live, color, nodes: BTreeMap::new(), open: Vec::new(), drawn: 0 }
    }

    /// Takes in what has become durable.
    pub fn note<'a>(&mut self, at: Timestamp, events: impl IntoIterator<Item = &'a Event>) {
        let mut lines = Vec::new();
        for event in events {
            self.note_event(event, at, &mut lines);
        }
        self.redraw(&lines, at);
    }

    /// Says something among the lines, about the watching and not about the execution.
    pub fn say(&mut self, at: Timestamp, text: &str) {
        self.redraw(&[format!("{at}  {text}")], at);
    }

    fn note_event(&mut self, event: &Event, at: Timestamp, lines: &mut Vec<String>) {
        let run_line = match event {
            Event::RunQueued { key, .. } => {
                Some(format!("waits for a slot of concurrency key {key:?}"))
            }
            Event::RunPauseRequested { .. } => Some("pause requested".to_owned()),
            Event::RunPaused { reason: PauseReason::User } => Some("paused by a user".to_owned()),
            Event::RunResumed { origin } if !origin.is_unknown() => Some("resumed".to_owned()),
            Event::RunQuarantined { reason } => Some(format!("set aside: {reason}")),
            Event::SignalReceived { name, .. } => Some(format!("signal {name} received")),
            Event::MessageIgnored { reason, .. } => Some(format!("request ignored: {reason}")),
            Event::RunEnding { .. } => Some("ending".to_owned()),
            _ => None,
        };
        if let Some(text) = run_line {
            lines.push(format!("{at}  {text}"));
        }
        let Some((path, status, attempt, note)) = change(event) else { return };
        let node = self.nodes.entry(Arc::clone(path)).or_insert_with(|| {
            self.open.push(Arc::clone(path));
            Node { status, attempt: 1, since: at, note: String::new() }
        });
        let first_of_attempt = attempt.is_some_and(|attempt| attempt != node.attempt);
        if first_of_attempt || status == NodeStatus::Queued {
            node.since = at;
        }
        node.attempt = attempt.unwrap_or(node.attempt);
        node.status = status;
        node.note = note;
        // In a pipe every state that lasts is a line; QUEUED and RUNNING of one commit are one.
        let worth_a_line = status.is_settled() || (!self.live && status != NodeStatus::Queued);
        if worth_a_line {
            lines.push(line(path, node, at, self.color));
        }
        if status.is_settled() {
            self.open.retain(|open| open != path);
        }
    }

    /// Prints lines that stay, and draws what is open below them.
    fn redraw(&mut self, lines: &[String], at: Timestamp) {
        let mut out = String::new();
        if self.live && self.drawn > 0 {
            // Up to the first line that was drawn, and clear from there.
            out.push_str(&format!("\x1b[{}A\x1b[J", self.drawn));
        }
        for line in lines {
            out.push_str(&harmless(line));
            out.push('\n');
        }
        self.drawn = 0;
        if self.live {
            for path in self.open.iter().take(LIVE_MAX) {
                if let Some(node) = self.nodes.get(path) {
                    out.push_str(&harmless(&line(path, node, at, self.color)));
                    out.push('\n');
                    self.drawn += 1;
                }
            }
            if self.open.len() > LIVE_MAX {
                out.push_str(&format!("… and {} more nodes\n", self.open.len() - LIVE_MAX));
                self.drawn += 1;
            }
        }
        print!("{out}");
        // Nothing can be done about a terminal that is gone; the execution goes on.
        std::io::stdout().flush().unwrap_or_default();
    }
}

/// What an event means for a node's line.
fn change(event: &Event) -> Option<(&Arc<str>, NodeStatus, Option<u32>, String)> {
    let none = String::new();
    Some(match event {
        Event::NodeScheduled { node, attempt, .. } => {
            (node, NodeStatus::Queued, Some(*attempt), none)
        }
        Event::NodeStarted { node, attempt, .. } => {
            (node, NodeStatus::Running, Some(*attempt), none)
        }
        Event::NodeCompleted { node, attempt, branch, .. } => {
            let note = branch.as_ref().map(|branch| format!("branch {branch}"));
            (node, NodeStatus::Completed, Some(*attempt), note.unwrap_or_default())
        }
        Event::NodeFailed { node, attempt, failure, end } => {
            let (status, note) = match end {
                FailureEnd::RetryAt(due) | FailureEnd::Abandoned(due) => {
                    (NodeStatus::Waiting, format!("{}; next attempt at {due}", failure.message))
                }
                FailureEnd::Final => (NodeStatus::Failed, failure.message.clone()),
                FailureEnd::TimedOut => (NodeStatus::TimedOut, failure.message.clone()),
            };
            (node, status, Some(*attempt), note)
        }
        Event::NodeWaiting { node, attempt, wait } => {
            let note = match wait {
                Wait::Delay { due } | Wait::Retry { due } => format!("until {due}"),
                Wait::Signal { name, due: None } => format!("for signal {name}"),
                Wait::Signal { name, due: Some(due) } => format!("for signal {name} until {due}"),
            };
            (node, NodeStatus::Waiting, Some(*attempt), note)
        }
        Event::NodeSkipped { node, .. } => (node, NodeStatus::Skipped, None, none),
        Event::NodeCancelled { node, reason } => {
            let note = match reason {
                CancelReason::Ending => none,
                CancelReason::Join => "a join fired without it".to_owned(),
                CancelReason::Grace => "it did not stop in time".to_owned(),
            };
            (node, NodeStatus::Cancelled, None, note)
        }
        _ => return None,
    })
}

fn line(path: &str, node: &Node, at: Timestamp, color: bool) -> String {
    let took = at.since(node.since).to_string();
    let attempt = match node.status {
        NodeStatus::Skipped => String::new(),
        _ => format!("attempt {}", node.attempt),
    };
    let status = paint(node.status, color);
    format!("{at}  {path:<20} {status} {attempt:<10} {took:<8} {}", node.note).trim_end().to_owned()
}

/// A status in its colour, padded to the longest one.
pub fn paint(status: NodeStatus, color: bool) -> String {
    let name = format!("{:<9}", status.name());
    let code = match status {
        NodeStatus::Completed => "32",
        NodeStatus::Failed | NodeStatus::TimedOut => "31",
        NodeStatus::Waiting => "33",
        NodeStatus::Running | NodeStatus::Queued => "36",
        NodeStatus::Pending | NodeStatus::Skipped | NodeStatus::Cancelled => "90",
    };
    if color { format!("\x1b[{code}m{name}\x1b[0m") } else { name }
}
