//! The bodies of messages.

use waypost_core::event::{Event, RunEvent};
use waypost_core::frame::decode;
use waypost_core::json::Json;
use waypost_core::time::Timestamp;
use waypost_ports::outbox::OutboxMessage;
use waypost_ports::store::{Store, StoreError};

/// Bytes of an output in a message; of a larger one the message says only that it is left out.
pub(super) const OUTPUT_BYTES_MAX: usize = 256 * 1024;

/// The body of a message: the same text for every attempt. With the execution's output, if there is one
/// and the endpoint wants it.
pub(super) fn of(message: &OutboxMessage, output: Option<&Json>) -> String {
    let mut data = String::from_utf8_lossy(&message.data).into_owned();
    if let Some(output) = output
        && data.ends_with('}')
    {
        data.pop();
        match output.bytes() <= OUTPUT_BYTES_MAX {
            true => data.push_str(&format!(",\"output\":{output}}}")),
            false => data.push_str(",\"outputOmitted\":true}"),
        }
    }
    let (kind, at) = (message.kind.name(), message.at);
    format!("{{\"type\":\"{kind}\",\"timestamp\":\"{at}\",\"data\":{data}}}")
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
