//! Messages about nodes: what `notify` nodes say, approvals that wait for people, and attempts that remote
//! workers took.

use std::sync::Arc;

use serde::Serialize;

use super::data::{MessageData, short};
use super::{MessageKind, Outgoing};
use crate::event::{ApprovalWait, Event, NodeEvent, Wait};
use crate::id::WaitId;
use crate::json::Json;
use crate::kind::Behaviour;
use crate::path::segments;
use crate::plan::{Plan, PlanNode};
use crate::state::State;

/// Bytes of what a `notify` node says in a message; of more the message says only that it is left out.
pub const NOTE_BYTES_MAX: usize = 256 * 1024;

/// The kind of nodes that cause a message when they complete.
pub const NOTIFY: &str = "notify";

/// What a message says about a node.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum AboutNode<'a> {
    Note(Note<'a>),
    Approval(Approval<'a>),
    Handoff(Handoff<'a>),
}

/// What a `notify` node says.
#[derive(Serialize)]
pub(super) struct Note<'a> {
    node: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a Json>,
    #[serde(rename = "messageOmitted", skip_serializing_if = "std::ops::Not::not")]
    omitted: bool,
}

/// What an approval asks, and whom.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Approval<'a> {
    node: &'a str,
    /// The wait's id, by which it is decided.
    wait: String,
    title: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    /// Who may decide now; empty for anyone who may control executions.
    approvers: &'a [Arc<str>],
    /// Of those, who may since the escalation.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    escalated_to: &'a [Arc<str>],
    /// When it expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    due: Option<String>,
}

/// Which worker took an attempt.
#[derive(Serialize)]
pub(super) struct Handoff<'a> {
    node: &'a str,
    attempt: u32,
    worker: String,
}

/// Do nodes like this one cause messages?
pub fn announces(node: &PlanNode) -> bool {
    node.kind == NOTIFY || matches!(node.behaviour, Behaviour::Approval(_))
}

/// The messages of the nodes that a frame is about. Those about attempts that remote workers took only where
/// an endpoint asks for them (`handoffs`): other frames of nodes cause no message, and are cheap to append.
pub fn announce_nodes(
    plan: &Plan,
    events: &[Event],
    after: &State,
    handoffs: bool,
) -> Vec<Outgoing> {
    let first_seq = (after.seq + 1).saturating_sub(events.len() as u64);
    let message = |(seq, event): (u64, &Event)| {
        let Event::Node(event) = event else { return None };
        if let NodeEvent::Completed { node, output, .. } = event
            && is_notify(plan, node)
        {
            let null = Json::null();
            return Some(note(after, (seq, node), output.as_ref().unwrap_or(&null)));
        }
        if let NodeEvent::Waiting { node, message: Some(message), .. } = event {
            return Some(Outgoing { awaited: true, ..note(after, (seq, node), message) });
        }
        if let NodeEvent::Waiting { node, wait: Wait::Approval(approval), .. } = event {
            let kind = MessageKind::ApprovalRequested;
            return Some(asked(after, (seq, kind), (node, seq, approval)));
        }
        if let NodeEvent::Reminded { node, escalated, .. } = event {
            let kind = match escalated {
                false => MessageKind::ApprovalReminded,
                true => MessageKind::ApprovalEscalated,
            };
            // A wait that ends with the same frame has no one left to ask.
            let open = after.node(after.find(plan, node)?);
            let Some(Wait::Approval(approval)) = &open.wait else { return None };
            return Some(asked(after, (seq, kind), (node, open.wait_seq, approval)));
        }
        if let NodeEvent::Started { node, attempt, remote: Some(worker), .. } = event
            && handoffs
        {
            let handoff = Handoff { node, attempt: *attempt, worker: worker.to_string() };
            return Some(about(after, (seq, MessageKind::Handoff), AboutNode::Handoff(handoff)));
        }
        None
    };
    (first_seq..).zip(events).filter_map(message).collect()
}

fn note(after: &State, (seq, node): (u64, &str), message: &Json) -> Outgoing {
    let omitted = message.bytes() > NOTE_BYTES_MAX;
    let note = Note { node, message: (!omitted).then_some(message), omitted };
    about(after, (seq, MessageKind::Notified), AboutNode::Note(note))
}

fn asked(
    after: &State,
    (seq, kind): (u64, MessageKind),
    (node, wait, approval): (&str, u64, &ApprovalWait),
) -> Outgoing {
    let escalated = kind == MessageKind::ApprovalEscalated;
    let wait = WaitId { execution: after.created.key.clone(), seq: wait };
    let asked = Approval {
        node,
        wait: wait.to_string(),
        title: short(&approval.title),
        description: approval.description.as_deref().map(short),
        approvers: &approval.approvers,
        escalated_to: if escalated { &approval.escalate_to } else { &[] },
        due: approval.due.map(|due| due.to_string()),
    };
    about(after, (seq, kind), AboutNode::Approval(asked))
}

fn about(after: &State, (seq, kind): (u64, MessageKind), node: AboutNode<'_>) -> Outgoing {
    let created = &after.created;
    let data = MessageData::about_node(created, (seq, after.generation), node);
    Outgoing { seq, kind, workflow: Arc::clone(&created.workflow), data, awaited: false }
}

/// Does the node at this path send its message when it completes? Its scope may be closed already.
fn is_notify(plan: &Plan, path: &str) -> bool {
    let mut scope = plan.root();
    let mut steps = segments(path).peekable();
    while let Some(step) = steps.next() {
        let Some(node) = plan.find_in(scope, step.id) else { return false };
        if steps.peek().is_none() {
            let node = plan.node(node);
            return node.kind == NOTIFY && !matches!(node.behaviour, Behaviour::Notify(_));
        }
        let Some(body) = plan.body(node) else { return false };
        scope = body;
    }
    false
}
