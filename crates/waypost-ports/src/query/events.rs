//! Events of one execution: the request of a reader, and reading them from stored frames.

use std::collections::BTreeMap;

use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_core::time::Timestamp;

use crate::store::StoredFrame;

/// Which events to show.
#[derive(Clone, Debug)]
pub struct EventsRequest {
    pub execution: ExecutionNo,
    pub node: Option<String>,
    /// Of this type.
    pub kind: Option<String>,
    /// After this seq.
    pub after: u64,
    pub limit: usize,
    /// Ends with the event that reaches so many bytes.
    pub bytes: usize,
}

impl EventsRequest {
    /// All events of an execution.
    pub fn all(execution: ExecutionNo) -> Self {
        Self { execution, node: None, kind: None, after: 0, limit: usize::MAX, bytes: usize::MAX }
    }

    /// Is a page of these rows complete, whatever else there is?
    pub fn is_full(&self, rows: &[EventRow]) -> bool {
        rows.len() >= self.limit || bytes_of(rows) >= self.bytes
    }
}

fn bytes_of(rows: &[EventRow]) -> usize {
    rows.iter().map(|row| row.fields.bytes()).sum()
}

/// One event as readers see it.
#[derive(Clone, Debug)]
pub struct EventRow {
    pub seq: u64,
    /// The store's time of its frame.
    pub at: Timestamp,
    /// The ownership it was written under.
    pub epoch: u32,
    pub kind: String,
    pub node: Option<String>,
    pub attempt: Option<u32>,
    /// Its content, as an object.
    pub fields: Json,
}

/// The type of the row for a frame that cannot be read.
pub const UNREADABLE: &str = "Unreadable";

/// Adds to `rows` those events of a frame that `request` selects, up to its limits.
///
/// Events are read as any object with one key, so that a log written by a newer version can still
/// be shown. A frame that cannot be read gives one row of type [`UNREADABLE`]; the events around it
/// remain visible.
pub fn read_events(stored: &StoredFrame, request: &EventsRequest, rows: &mut Vec<EventRow>) {
    let header = &stored.header;
    let mut bytes = bytes_of(rows);
    if rows.len() >= request.limit || bytes >= request.bytes || !may_match(stored, request) {
        return;
    }
    let events = match &stored.body {
        Ok(body) => serde_json::from_slice::<Vec<BTreeMap<String, Json>>>(body)
            .map_err(|error| error.to_string()),
        Err(reason) => Err(reason.clone()),
    };
    let events = events.unwrap_or_else(|reason| {
        let fields = serde_json::json!({ "reason": reason, "lastSeq": header.last_seq });
        vec![BTreeMap::from([(UNREADABLE.to_owned(), Json::from_value(&fields))])]
    });
    for (seq, event) in (header.first_seq..).zip(events) {
        let Some((kind, fields)) = event.into_iter().next() else { continue };
        if rows.len() >= request.limit || bytes >= request.bytes {
            return;
        }
        if seq <= request.after || request.kind.as_ref().is_some_and(|wanted| *wanted != kind) {
            continue;
        }
        let subject: Subject = serde_json::from_str(fields.text()).unwrap_or_default();
        if request.node.is_some() && request.node != subject.node {
            continue;
        }
        let Subject { node, attempt } = subject;
        bytes += fields.bytes();
        rows.push(EventRow {
            seq,
            at: stored.at,
            epoch: header.epoch,
            kind,
            node,
            attempt,
            fields,
        });
    }
}

/// Searches the text of a frame for the names in the request: most frames of a long log need not be
/// parsed. A name that is there by chance costs a parse, no more.
fn may_match(stored: &StoredFrame, request: &EventsRequest) -> bool {
    let Some(text) = stored.body.as_ref().ok().and_then(|body| str::from_utf8(body).ok()) else {
        return true;
    };
    let names = [&request.kind, &request.node];
    names.into_iter().flatten().all(|name| {
        let quoted = serde_json::to_string(name).unwrap_or_default();
        text.contains(&quoted) || request.kind.as_deref() == Some(UNREADABLE)
    })
}

/// The subject of an event, if it has one.
#[derive(Default, serde::Deserialize)]
struct Subject {
    #[serde(default)]
    node: Option<String>,
    #[serde(default)]
    attempt: Option<u32>,
}
