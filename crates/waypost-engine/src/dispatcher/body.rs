//! The bodies of messages.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use waypost_core::event::{Event, RunEvent};
use waypost_core::frame::decode;
use waypost_core::id::WaitId;
use waypost_core::json::Json;
use waypost_core::time::Timestamp;
use waypost_ports::outbox::OutboxMessage;
use waypost_ports::store::{Store, StoreError};

use crate::links::{ApprovalLink, Links};

/// Bytes of an output in a message; of a larger one the message says only that it is left out.
pub(super) const OUTPUT_BYTES_MAX: usize = 256 * 1024;

/// The body of a message: the same text for every attempt. `more` are further fields of `data`, each after a
/// comma.
pub(super) fn of(message: &OutboxMessage, more: &str) -> String {
    let data = String::from_utf8_lossy(&message.data);
    let data = match data.strip_suffix('}') {
        Some(fields) => format!("{fields}{more}}}"),
        None => data.into_owned(),
    };
    let (kind, at) = (message.kind.name(), message.at);
    format!("{{\"type\":\"{kind}\",\"timestamp\":\"{at}\",\"data\":{data}}}")
}

/// Adds the output of the execution.
pub(super) fn add_output(more: &mut String, output: &Json) {
    match output.bytes() <= OUTPUT_BYTES_MAX {
        true => more.push_str(&format!(",\"output\":{output}")),
        false => more.push_str(",\"outputOmitted\":true"),
    }
}

/// The fields of a message about an approval that its links are made from.
#[derive(Deserialize)]
struct Asked {
    wait: String,
    #[serde(default)]
    approvers: Vec<Arc<str>>,
    due: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SentLink {
    approver: Arc<str>,
    url: String,
    expires_at: String,
}

/// Adds a link for each approver. Nothing in it depends on when it is sent.
pub(super) fn add_links(
    more: &mut String,
    message: &OutboxMessage,
    links: &Links,
    public_url: Option<&str>,
) {
    let Ok(asked) = serde_json::from_slice::<Asked>(&message.data) else { return };
    let (Some(base), Ok(wait)) = (public_url, asked.wait.parse::<WaitId>()) else { return };
    let due = asked.due.as_deref().and_then(Timestamp::parse);
    let expires_at = ApprovalLink::expiry(due, message.at);
    let approvers: BTreeSet<Arc<str>> = asked.approvers.into_iter().collect();
    let sent: Vec<SentLink> = approvers
        .into_iter()
        .filter_map(|approver| {
            let link = ApprovalLink { wait: wait.clone(), approver, expires_at };
            let url = link.url(links, base)?;
            Some(SentLink { approver: link.approver, url, expires_at: expires_at.to_string() })
        })
        .collect();
    let sent = serde_json::to_string(&sent).expect("links are text");
    more.push_str(&format!(",\"links\":{sent}"));
}

/// The body of a test.
pub(super) fn test(endpoint: &str, at: Timestamp) -> String {
    format!(
        "{{\"type\":\"webhook.test\",\"timestamp\":\"{at}\",\"data\":{{\"endpoint\":\"{endpoint}\"}}}}"
    )
}

/// The output of the execution that a message is about, from the event it is about.
pub(super) fn output(store: &dyn Store, message: &OutboxMessage) -> Result<Json, StoreError> {
    let frames = store.load_after(message.name.execution, message.frame_seq.saturating_sub(1))?;
    let frame = frames.into_iter().find(|frame| frame.header.first_seq == message.frame_seq);
    let Some(frame) = frame else { return Ok(Json::null()) };
    let body = frame.body.map_err(StoreError::Corrupt)?;
    let events = decode(&body).map_err(|error| StoreError::Corrupt(error.to_string()))?;
    let at = usize::try_from(message.name.seq.saturating_sub(message.frame_seq)).ok();
    Ok(match at.and_then(|at| events.into_iter().nth(at)) {
        Some(Event::Run(RunEvent::Completed { output })) => output,
        Some(Event::Run(RunEvent::Failed { output: Some(output), .. })) => output,
        _ => Json::null(),
    })
}
