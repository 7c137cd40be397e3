//! Questions that people ask: lists and logs. Apart from the [`Store`](crate::store::Store), which
//! serves the engine; nothing here changes anything.

use std::collections::BTreeMap;
use std::sync::Arc;

use waypost_core::id::ExecutionId;
use waypost_core::json::Json;
use waypost_core::status::Status;
use waypost_core::time::Timestamp;

use crate::store::{StoreError, StoredFrame};

/// What readers ask of a store.
pub trait Query: Send + Sync {
    /// The execution of this key, or the newest one where none is named.
    fn find(&self, key: Option<&str>) -> Result<Option<ExecutionId>, StoreError>;

    /// A page of executions, newest first, from the projections.
    fn list(&self, request: &ListRequest) -> Result<ExecutionPage, StoreError>;

    /// Events of one execution, oldest first, from the log.
    fn events(&self, request: &EventsRequest) -> Result<Vec<EventRow>, StoreError>;

    /// How far the projections are behind the log.
    fn lag(&self) -> Result<ProjectionLag, StoreError>;

    /// Throws the projections away and derives them again; calls `progress` with frames done and
    /// frames in all.
    fn rebuild(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<u64, StoreError>;
}

/// Which executions to list.
#[derive(Clone, Debug, Default)]
pub struct ListRequest {
    /// Of this status.
    pub status: Option<Status>,
    /// Of this workflow.
    pub workflow: Option<String>,
    /// Older than this one, for paging.
    pub before: Option<ExecutionId>,
    /// At most so many.
    pub limit: usize,
}

/// A page of executions.
#[derive(Clone, Debug)]
pub struct ExecutionPage {
    /// The rows.
    pub rows: Vec<ExecutionRow>,
    /// Where the next page starts.
    pub next: Option<ExecutionId>,
    /// How far behind the log the rows may be.
    pub lag: ProjectionLag,
}

/// One row of a list.
#[derive(Clone, Debug)]
pub struct ExecutionRow {
    /// Its number.
    pub execution: ExecutionId,
    /// Its key.
    pub key: Arc<str>,
    /// The workflow.
    pub workflow: Arc<str>,
    /// Which version.
    pub version: u32,
    /// Where it stands.
    pub status: Status,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When it ended.
    pub completed_at: Option<Timestamp>,
    /// Nodes that have completed or failed.
    pub nodes_executed: u64,
    /// Why it failed.
    pub error: Option<String>,
    /// Where it stands in its graph.
    pub current_node: Option<String>,
    /// When it goes on by itself.
    pub resume_at: Option<Timestamp>,
}

/// How far the projections are behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProjectionLag {
    /// Frames not projected yet.
    pub frames: u64,
}

/// Which events to show.
#[derive(Clone, Debug)]
pub struct EventsRequest {
    /// Of which execution.
    pub execution: ExecutionId,
    /// Of this node.
    pub node: Option<String>,
    /// Of this type.
    pub kind: Option<String>,
    /// After this seq.
    pub after: u64,
    /// At most so many.
    pub limit: usize,
}

/// One event as readers see it.
#[derive(Clone, Debug)]
pub struct EventRow {
    /// Its position.
    pub seq: u64,
    /// The store's time of its frame.
    pub at: Timestamp,
    /// The ownership it was written under.
    pub epoch: u32,
    /// Its type.
    pub kind: String,
    /// The node it is about.
    pub node: Option<String>,
    /// The attempt it is about.
    pub attempt: Option<u32>,
    /// Everything it says, as an object.
    pub fields: Json,
}

/// The type of the row that stands for a frame which cannot be read.
pub const UNREADABLE: &str = "Unreadable";

/// Adds to `rows` those events of a frame that `request` asks for, up to its limit.
///
/// Events are read as any object with one key, so that a log written by a newer version can still
/// be shown. A frame that cannot be read gives one row of type [`UNREADABLE`]; the events around it
/// remain visible.
pub fn read_events(stored: &StoredFrame, request: &EventsRequest, rows: &mut Vec<EventRow>) {
    let header = &stored.header;
    if !may_match(stored, request) {
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
        if rows.len() >= request.limit {
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

/// Looks for the names that are asked for in the text of a frame: of a long log most frames need not
/// be parsed. A name that stands there by chance costs a parse, no more.
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

/// What an event is about, where it says so.
#[derive(Default, serde::Deserialize)]
struct Subject {
    #[serde(default)]
    node: Option<String>,
    #[serde(default)]
    attempt: Option<u32>,
}
