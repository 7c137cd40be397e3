//! Webhook endpoints and messages, from rows to the wire.

use waypost_ports::outbox::{EndpointRow, MessageRow, MessageState};

use crate::wire;
use crate::wire::payload::Time;

pub(crate) fn endpoint(row: &EndpointRow) -> wire::WebhookEndpoint {
    let endpoint = &row.endpoint;
    let description = &*endpoint.description;
    wire::WebhookEndpoint {
        id: endpoint.id.to_string(),
        url: endpoint.url.to_string(),
        workflow: endpoint.workflow.as_deref().map(str::to_owned),
        events: endpoint.kinds.iter().map(|kind| kind.name().to_owned()).collect(),
        description: Some(description).filter(|text| !text.is_empty()).map(str::to_owned),
        include_output: endpoint.with_output,
        include_links: endpoint.with_links,
        state: row.state.name().to_owned(),
        failures: row.health.failures,
        probe_at: row.health.probe_at.map(Time),
        former_secret_until: row.former.as_ref().map(|(_, until)| Time(*until)),
        created_at: Time(row.created_at),
    }
}

pub(crate) fn message(row: &MessageRow) -> wire::WebhookMessage {
    let message = &row.message;
    let data: serde_json::Value = serde_json::from_slice(&message.data).unwrap_or_default();
    let execution = data.get("execution").and_then(|id| id.as_str()).unwrap_or_default();
    let last = row.last.as_ref();
    wire::WebhookMessage {
        id: message.name.to_string(),
        endpoint: message.name.endpoint.to_string(),
        kind: message.kind.name().to_owned(),
        execution: execution.to_owned(),
        seq: message.name.seq,
        at: Time(message.at),
        state: row.state.name().to_owned(),
        attempts: row.attempts,
        due_at: (row.state == MessageState::Pending).then_some(Time(row.due)),
        settled_at: row.settled_at.map(Time),
        status: last.and_then(|last| last.status),
        took_ms: last.map(|last| last.took.0),
        reason: last.and_then(|last| last.reason.as_deref()).map(str::to_owned),
    }
}
