//! Open waits of all executions, by page.

use std::sync::Arc;

use waypost_core::id::ExecutionNo;
use waypost_core::projection::WaitDetail;
use waypost_core::time::Timestamp;

use super::ProjectionLag;

/// Rows that one page of open waits scans: of a workflow with few waits, a page may be short.
pub const WAITS_SCANNED_MAX: usize = 10_000;

/// Rows that are read at a time.
const ROWS_AT_ONCE: usize = 500;

/// A place in the list of waits: an execution, and the event that opened a wait of it.
pub type WaitPlace = (ExecutionNo, u64);

/// Which open waits to list.
#[derive(Clone, Debug, Default)]
pub struct WaitsRequest {
    /// Of this kind, as rows have it.
    pub kind: Option<&'static str>,
    pub workflow: Option<String>,
    /// Behind this place in the list, for paging.
    pub before: Option<WaitPlace>,
    pub limit: usize,
}

/// A page of open waits, those of the newest executions first.
#[derive(Clone, Debug)]
pub struct WaitPage {
    pub rows: Vec<WaitRow>,
    /// The last wait that was looked at, if there may be more.
    pub next: Option<WaitRow>,
    pub lag: ProjectionLag,
}

/// An open wait.
#[derive(Clone, PartialEq, Debug)]
pub struct WaitRow {
    pub execution: ExecutionNo,
    /// The event that opened it.
    pub seq: u64,
    /// The execution's id.
    pub key: Arc<str>,
    pub workflow: Arc<str>,
    pub node: Arc<str>,
    pub kind: Arc<str>,
    pub since: Timestamp,
    /// When time ends it, as it must or as a timeout.
    pub due: Option<Timestamp>,
    pub detail: WaitDetail,
}

/// Collects a page: rows are read in portions until it is full, or enough were looked at.
pub struct WaitCollector<'r> {
    request: &'r WaitsRequest,
    found: Vec<WaitRow>,
    last: Option<WaitRow>,
    scanned: usize,
    at_end: bool,
}

impl<'r> WaitCollector<'r> {
    /// An empty page.
    pub fn new(request: &'r WaitsRequest) -> Self {
        Self { request, found: Vec::new(), last: None, scanned: 0, at_end: false }
    }

    /// The next portion: behind which place, and how many rows. None where the page is complete.
    pub fn wants(&self) -> Option<(WaitPlace, usize)> {
        let full = self.found.len() >= self.request.limit || self.scanned >= WAITS_SCANNED_MAX;
        if full || self.at_end {
            return None;
        }
        let last = self.last.as_ref().map(|row| (row.execution, row.seq));
        let before = last.or(self.request.before).unwrap_or((ExecutionNo(i64::MAX), 0));
        Some((before, ROWS_AT_ONCE))
    }

    /// Takes a portion, in the order of the list; fewer rows than wanted are the last ones.
    pub fn take(&mut self, rows: Vec<WaitRow>, wanted: usize) {
        self.at_end = rows.len() < wanted;
        for row in rows {
            if self.found.len() >= self.request.limit {
                self.at_end = false;
                return;
            }
            self.scanned += 1;
            let workflow = self.request.workflow.as_deref();
            if workflow.is_none_or(|name| *row.workflow == *name) {
                self.found.push(row.clone());
            }
            self.last = Some(row);
        }
    }

    /// The page, complete.
    pub fn page(self, lag: ProjectionLag) -> WaitPage {
        let next = self.last.filter(|_| !self.at_end);
        WaitPage { rows: self.found, next, lag }
    }
}
