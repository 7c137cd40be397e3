//! The progress of an execution: a line per node on a terminal, redrawn while it changes; one plain
//! line per change in a pipe.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::Arc;

use waypost_core::event::{
    CancelReason, Event, FailureEnd, NodeEvent, PauseReason, RunEvent, Wait,
};
use waypost_core::path::is_repeated;
use waypost_core::status::NodeStatus;
use waypost_core::time::Timestamp;

use crate::output::screen::{self, COLUMNS_ASSUMED, ROWS_ASSUMED};
use crate::output::{columns, escape_control, escape_painted, pad};

/// Most unfinished nodes that are drawn at once.
const LIVE_MAX: usize = 12;

/// Columns from which on a line shows the date as well as the time.
const COLUMNS_WITH_DATE: usize = 100;
/// How far a note is indented that does not fit behind its node.
const INDENT: &str = "    ";

/// Draws the progress of one execution.
pub struct Progress {
    /// Is standard output a terminal?
    live: bool,
    color: bool,
    nodes: BTreeMap<Arc<str>, NodeProgress>,
    /// Nodes that are not settled, in the order they appeared.
    open: Vec<Arc<str>>,
    /// Columns and rows of the terminal, read at every drawing.
    size: (usize, usize),
}

struct NodeProgress {
    status: NodeStatus,
    attempt: u32,
    since: Timestamp,
    note: String,
}

impl Progress {
    /// Progress on standard output.
    pub fn new(color: bool) -> Self {
        let live = std::io::stdout().is_terminal();
        Self { live, color, nodes: BTreeMap::new(), open: Vec::new(), size: size() }
    }

    /// Takes committed events.
    pub fn note<'a>(&mut self, at: Timestamp, events: impl IntoIterator<Item = &'a Event>) {
        self.size = size();
        let mut lines = Vec::new();
        for event in events {
            self.note_event(event, at, &mut lines);
        }
        self.redraw(&lines, at);
    }

    /// Prints a message about the watching, not about the execution.
    pub fn say(&mut self, at: Timestamp, text: &str) {
        self.size = size();
        self.redraw(&[format!("{}  {}", self.time(at), escape_control(text))], at);
    }

    fn note_event(&mut self, event: &Event, at: Timestamp, lines: &mut Vec<String>) {
        let event = match event {
            Event::Run(event) => {
                let line = line_of(event);
                lines.extend(
                    line.map(|text| format!("{}  {}", self.time(at), escape_control(&text))),
                );
                return;
            }
            Event::Node(event) => event,
        };
        let path = event.node();
        let Some((status, attempt, note)) = change(event) else { return };
        let node = self.nodes.entry(Arc::clone(path)).or_insert_with(|| {
            self.open.push(Arc::clone(path));
            NodeProgress { status, attempt: 1, since: at, note: String::new() }
        });
        let first_of_attempt = attempt.is_some_and(|attempt| attempt != node.attempt);
        if first_of_attempt || status == NodeStatus::Queued {
            node.since = at;
        }
        node.attempt = attempt.unwrap_or(node.attempt);
        node.status = status;
        node.note = escape_control(&note).into_owned();
        let failed = matches!(status, NodeStatus::Failed | NodeStatus::TimedOut);
        let worth_a_line = match event {
            // A loop may have any number of iterations: only their failures stay on the screen.
            _ if is_repeated(path) => failed,
            NodeEvent::BodyOpened { index: Some(2..), .. } => false,
            // In a pipe every state that lasts is a line; QUEUED and RUNNING of one commit are one.
            _ => status.is_settled() || (!self.live && status != NodeStatus::Queued),
        };
        if worth_a_line && let Some(node) = self.nodes.get(path) {
            lines.extend(self.lines(path, node, at));
        }
        if status.is_settled() {
            self.open.retain(|open| open != path);
            if is_repeated(path) {
                self.nodes.remove(path);
            }
        }
    }

    /// Prints lines that stay, and draws the open nodes below them.
    fn redraw(&self, lines: &[String], at: Timestamp) {
        let stays: String =
            lines.iter().map(|line| format!("{}\n", escape_painted(line))).collect();
        let mut live = Vec::new();
        if self.live {
            // All of them, the line for omitted nodes and the cursor's line must fit on the screen.
            let max = LIVE_MAX.min(self.size.1.saturating_sub(2)).max(1);
            let open = self.open.iter().filter_map(|path| Some((path, self.nodes.get(path)?)));
            live.extend(open.take(max).map(|(path, node)| {
                let line = format!("{} {}", self.head(path, node, at), node.note);
                escape_painted(line.trim_end()).into_owned()
            }));
            if self.open.len() > max {
                live.push(format!("… and {} more nodes", self.open.len() - max));
            }
        }
        screen::draw(&stays, &live);
    }

    /// A node that changed: one line, or two on a terminal where its note does not fit behind it.
    fn lines(&self, path: &str, node: &NodeProgress, at: Timestamp) -> Vec<String> {
        let head = self.head(path, node, at);
        let line = format!("{head} {}", node.note).trim_end().to_owned();
        match self.live && columns(&line) > self.size.0 && !node.note.is_empty() {
            true => vec![head.trim_end().to_owned(), format!("{INDENT}{}", node.note)],
            false => vec![line],
        }
    }

    /// The beginning of a node's line: all but its note.
    fn head(&self, path: &str, node: &NodeProgress, at: Timestamp) -> String {
        let took = at.since(node.since).to_string();
        let attempt = match node.status {
            NodeStatus::Skipped => String::new(),
            _ => format!("attempt {}", node.attempt),
        };
        let (path, status) = (pad(&escape_control(path), 20), paint(node.status, self.color));
        format!("{}  {path} {status} {attempt:<10} {took:<8}", self.time(at))
    }

    /// The time of a line; without its date on a terminal that has no room for it.
    fn time(&self, at: Timestamp) -> String {
        let time = at.to_string();
        match time.split_once('T') {
            Some((_, clock)) if self.live && self.size.0 < COLUMNS_WITH_DATE => {
                format!("{}Z", clock.chars().take("00:00:00".len()).collect::<String>())
            }
            _ => time,
        }
    }
}

/// Columns and rows of the terminal.
fn size() -> (usize, usize) {
    screen::size().unwrap_or((COLUMNS_ASSUMED, ROWS_ASSUMED))
}

/// The line of an event of the execution, where it is worth one.
fn line_of(event: &RunEvent) -> Option<String> {
    Some(match event {
        RunEvent::Queued { key, .. } => format!("waits for a permit of concurrency key {key:?}"),
        RunEvent::PauseRequested { .. } => "pause requested".to_owned(),
        RunEvent::BudgetExhausted { reason, .. } => reason.clone(),
        RunEvent::BudgetSet { limits, .. } => format!("the budget is {limits} now"),
        RunEvent::Paused { reason: PauseReason::User } => "paused".to_owned(),
        RunEvent::Resumed { origin, .. } if !origin.is_unknown() => "resumed".to_owned(),
        RunEvent::Quarantined { reason } => format!("quarantined: {reason}"),
        RunEvent::SignalReceived { name, .. } => format!("signal {name} received"),
        RunEvent::MessageIgnored { reason, .. } => format!("request ignored: {reason}"),
        RunEvent::Ending { .. } => "ending".to_owned(),
        _ => return None,
    })
}

/// What a node waits for.
fn awaited(wait: &Wait) -> String {
    match wait {
        Wait::Delay { due } | Wait::Retry { due } => format!("until {due}"),
        Wait::Signal { name, due: None } => format!("for signal {name}"),
        Wait::Signal { name, due: Some(due) } => format!("for signal {name} until {due}"),
        Wait::Approval(approval) => format!("for a decision: {}", approval.title),
        Wait::Signals { names, need, due } => {
            let until = due.map_or_else(String::new, |due| format!(" until {due}"));
            format!("for {need} of signals {}{until}", names.join(", "))
        }
        Wait::Callback { due: None, .. } => "for its callback".to_owned(),
        Wait::Callback { due: Some(due), .. } => format!("for its callback until {due}"),
        Wait::Breaker(of) => format!("for breaker {} until {}", of.key, of.due),
        Wait::Body | Wait::Child { .. } => String::new(),
    }
}

/// The change of a node's line by an event.
fn change(event: &NodeEvent) -> Option<(NodeStatus, Option<u32>, String)> {
    let none = String::new();
    Some(match event {
        NodeEvent::Scheduled { attempt, .. } => (NodeStatus::Queued, Some(*attempt), none),
        NodeEvent::Started { attempt, .. } => (NodeStatus::Running, Some(*attempt), none),
        NodeEvent::Completed { attempt, branch, .. } => {
            let note = branch.as_ref().map(|branch| format!("branch {branch}"));
            (NodeStatus::Completed, Some(*attempt), note.unwrap_or_default())
        }
        NodeEvent::Failed { attempt, failure, end, .. } => {
            let (status, note) = match end {
                FailureEnd::RetryAt(due) | FailureEnd::Abandoned(due) => {
                    (NodeStatus::Waiting, format!("{}; next attempt at {due}", failure.message))
                }
                FailureEnd::Final => (NodeStatus::Failed, failure.message.clone()),
                FailureEnd::TimedOut => (NodeStatus::TimedOut, failure.message.clone()),
            };
            (status, Some(*attempt), note)
        }
        NodeEvent::Waiting { attempt, wait, .. } => {
            let note = awaited(wait);
            (NodeStatus::Waiting, Some(*attempt), note)
        }
        NodeEvent::Reminded { attempt, escalated, .. } => {
            let note = if *escalated { "others may decide" } else { "reminder" };
            (NodeStatus::Waiting, Some(*attempt), note.to_owned())
        }
        NodeEvent::Signalled { attempt, which, .. } => {
            (NodeStatus::Waiting, Some(*attempt), format!("signal {} came", which + 1))
        }
        NodeEvent::BodyOpened { attempt, index, .. } => {
            let note = index.map(|index| format!("iteration {index}"));
            (NodeStatus::Waiting, Some(*attempt), note.unwrap_or_default())
        }
        NodeEvent::MapOpened { attempt, count, .. } => {
            (NodeStatus::Waiting, Some(*attempt), format!("{count} items"))
        }
        NodeEvent::ChildStarted { attempt, child, workflow, version, detached, .. } => {
            let status = if *detached { NodeStatus::Running } else { NodeStatus::Waiting };
            (status, Some(*attempt), format!("{workflow} v{version}: execution {child}"))
        }
        NodeEvent::ChildReopened { attempt, child, .. } => {
            (NodeStatus::Waiting, Some(*attempt), format!("execution {child} again"))
        }
        NodeEvent::SignalSent { attempt, receiver, signal, .. } => {
            let to = receiver.as_ref().map_or("all that wait for it", |receiver| receiver.as_str());
            (NodeStatus::Running, Some(*attempt), format!("signal {signal} to {to}"))
        }
        NodeEvent::Skipped { .. } => (NodeStatus::Skipped, None, none),
        NodeEvent::Cancelled { reason, .. } => {
            let note = match reason {
                CancelReason::Ending => none,
                CancelReason::Join => "a join fired without it".to_owned(),
                CancelReason::Grace => "it did not stop in time".to_owned(),
                CancelReason::Body => "the body that it is in is ending".to_owned(),
            };
            (NodeStatus::Cancelled, None, note)
        }
        _ => return None,
    })
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
