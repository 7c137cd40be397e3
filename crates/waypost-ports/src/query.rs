//! Queries for people: lists and logs. Apart from the [`Store`](crate::store::Store), which serves
//! the engine; nothing here changes anything.

mod condition;
mod events;
mod filter;
mod waits;

use std::collections::BTreeMap;
use std::sync::Arc;

use waypost_core::expr::WORK_MAX;
use waypost_core::failure::Failure;
use waypost_core::id::{DefinitionHash, ExecutionNo, InstanceId};
use waypost_core::projection::ExecutionView;
use waypost_core::status::Status;
use waypost_core::time::{Millis, Timestamp};

use crate::store::{About, History, StoreError, StoredFrame};

pub use condition::{CONDITION_FIELDS, ConditionField, ListCondition};
pub use events::{EventRow, EventsRequest, UNREADABLE, read_events};
pub use filter::{Filter, Looked, PageBudget};
pub use waits::{WAITS_SCANNED_MAX, WaitCollector, WaitPage, WaitPlace, WaitRow, WaitsRequest};

/// The readers' interface to a store.
pub trait Query: Send + Sync {
    /// The execution of this key, or the newest one where none is named.
    fn find(&self, key: Option<&str>) -> Result<Option<ExecutionNo>, StoreError>;

    /// The submission under an idempotency key.
    fn submitted(&self, idempotency: &str) -> Result<Option<Submitted>, StoreError>;

    /// As [`Store::load`](crate::store::Store::load), but queued with the readers: however many
    /// there are, they delay no driver.
    fn look(&self, execution: ExecutionNo) -> Result<Option<History>, StoreError>;

    /// Has it not ended? The control row goes with the last frame.
    fn is_unfinished(&self, execution: ExecutionNo) -> Result<bool, StoreError>;

    /// A page of executions, newest first, from the projections.
    fn list(&self, request: &ListRequest) -> Result<ExecutionPage, StoreError>;

    /// A page of open waits of all executions, those of the newest executions first, from the projections.
    fn waits(&self, request: &WaitsRequest) -> Result<WaitPage, StoreError>;

    /// Events of one execution, oldest first, from the log.
    fn events(&self, request: &EventsRequest) -> Result<Vec<EventRow>, StoreError>;

    /// Frames of all executions in the order of their commits, after a position: the feed. Frames
    /// that commit later always come later.
    fn feed(&self, request: &FeedRequest) -> Result<Vec<FeedFrame>, StoreError>;

    /// About how many bytes of the log a read would take into memory, found without reading them: so
    /// that a caller can wait until there is room.
    fn weigh(&self, read: Read) -> Result<u64, StoreError>;

    /// Where the feed ends now.
    fn feed_end(&self) -> Result<FeedPosition, StoreError>;

    /// Definitions by name, and of one name the newest version first.
    fn definitions(&self, request: &DefinitionsRequest) -> Result<DefinitionPage, StoreError>;

    /// The current version of a workflow, without its content: read at every start that names no
    /// version, so that a deploy counts for every instance as soon as it has committed.
    fn current(&self, workflow: &str) -> Result<Option<DefinitionRow>, StoreError>;

    /// Instances that are alive, or own something still, by id.
    fn instances(&self) -> Result<Vec<InstanceRow>, StoreError>;

    /// Is this instance's lease valid? Answered ahead of queued readers.
    fn is_alive(&self, instance: InstanceId) -> Result<bool, StoreError> {
        Ok(self.instances()?.iter().any(|row| row.instance == instance && row.alive))
    }

    /// Executions that are ready or due and unclaimed. Called for each page of metrics.
    fn backlog(&self) -> Result<Backlog, StoreError>;

    /// How far the projections are behind the log.
    fn lag(&self) -> Result<ProjectionLag, StoreError>;

    /// Throws the projections away and derives them again; calls `progress` with frames done and
    /// frames in all.
    fn rebuild(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<u64, StoreError>;
}

/// A read, for [`Query::weigh`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Read {
    /// Everything that [`Query::look`] returns of an execution.
    State(ExecutionNo),
    /// The mail that waits for an execution, with something for each of its rows.
    Mail(ExecutionNo),
    /// The frames of a page of one execution's events.
    Events {
        execution: ExecutionNo,
        /// After this seq.
        after: u64,
        /// At most so many frames.
        limit: usize,
        /// The page ends with the frame that reaches so many bytes.
        bytes: usize,
    },
    /// The frames of a page of the feed.
    Feed(FeedRequest),
}

/// Bytes that [`Query::weigh`] counts for a row of mail besides its body.
pub const MAIL_ROW_BYTES: usize = 200;

/// A submission that was made under an idempotency key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Submitted {
    pub execution: ExecutionNo,
    pub digest: [u8; 32],
}

/// Which executions to list.
#[derive(Clone, Debug, Default)]
pub struct ListRequest {
    /// Of one of these statuses; of any where there are none.
    pub statuses: Vec<Status>,
    pub workflow: Option<String>,
    /// Accepted at this time or later.
    pub since: Option<Timestamp>,
    /// Accepted before this time.
    pub until: Option<Timestamp>,
    /// With all of these labels.
    pub labels: BTreeMap<String, String>,
    /// With this text in its key, its error, a label or its input, whatever the case of its letters.
    pub text: Option<String>,
    /// For which this holds.
    pub condition: Option<Arc<ListCondition>>,
    /// Older than this one, for paging.
    pub before: Option<ExecutionNo>,
    pub limit: usize,
}

/// Rows that one page of a filtered list scans.
pub const SCANNED_MAX: usize = 100_000;

/// Bytes that one page of a filtered list scans: rows may have large inputs.
pub const SCANNED_BYTES_MAX: usize = 64 << 20;

/// Units of work that one page spends on its condition: about two seconds.
pub const CONDITION_WORK_MAX: u64 = 40 * WORK_MAX;

impl ListRequest {
    /// The same list, with the walk to it as short as its condition allows.
    pub fn narrowed(&self) -> Self {
        let mut narrowed = self.clone();
        if let Some(condition) = &self.condition {
            condition.narrow(&mut narrowed);
        }
        narrowed
    }
}

/// A page of executions.
#[derive(Clone, Debug)]
pub struct ExecutionPage {
    pub rows: Vec<ExecutionRow>,
    /// Where the next page starts. A page may have fewer rows than requested, or none, and still
    /// have a next one: a selective filter stops after [`SCANNED_MAX`] rows, after
    /// [`SCANNED_BYTES_MAX`], or after [`CONDITION_WORK_MAX`].
    pub next: Option<ExecutionNo>,
    pub lag: ProjectionLag,
}

/// One row of a list.
#[derive(Clone, Debug)]
pub struct ExecutionRow {
    pub execution: ExecutionNo,
    pub key: Arc<str>,
    pub workflow: Arc<str>,
    pub version: u32,
    pub created_at: Timestamp,
    pub labels: BTreeMap<String, String>,
    pub failure: Option<Failure>,
    /// When it continues without a message.
    pub resume_at: Option<Timestamp>,
    pub view: ExecutionView,
}

/// A place in the feed: after a frame. The order of places is the order of commits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct FeedPosition(pub u64);

/// Bytes of bodies after which a page of the feed ends, with the frame that reaches them.
pub const FEED_BYTES_MAX: usize = 1 << 20;

/// Which part of the feed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FeedRequest {
    pub after: FeedPosition,
    /// At most so many frames; fewer where they are large.
    pub limit: usize,
}

/// A frame of the feed.
#[derive(Clone, Debug)]
pub struct FeedFrame {
    pub position: FeedPosition,
    /// The key of its execution; empty where it was given none.
    pub key: Arc<str>,
    pub frame: StoredFrame,
}

/// Which definitions to list.
#[derive(Clone, Debug, Default)]
pub struct DefinitionsRequest {
    /// Every version of this workflow; the newest version of each where none is named.
    pub workflow: Option<String>,
    /// After this row of the same list, for paging.
    pub after: Option<(String, u32)>,
    pub limit: usize,
}

/// A page of definitions.
#[derive(Clone, Debug)]
pub struct DefinitionPage {
    pub rows: Vec<DefinitionRow>,
    pub more: bool,
}

/// A definition without its content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DefinitionRow {
    pub workflow: Arc<str>,
    /// From 1.
    pub version: u32,
    pub hash: DefinitionHash,
    /// When it was stored, if known.
    pub created_at: Option<Timestamp>,
    /// The version of the workflow that is current.
    pub current: u32,
}

/// An instance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InstanceRow {
    pub instance: InstanceId,
    /// When its lease ends, by the store's time; `None` when it has been ended.
    pub alive_until: Option<Timestamp>,
    pub alive: bool,
    /// The newest log format that it reads.
    pub fold: u16,
    pub owned: u64,
    pub about: About,
    /// How long ago its last sign of life was, by the store's time.
    pub silent: Option<Millis>,
}

/// A backlog is counted up to this many executions.
pub const BACKLOG_MAX: u64 = 100_000;

/// Executions that could continue and that no instance has claimed: due, or with mail.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Backlog {
    /// How many, up to [`BACKLOG_MAX`] of either kind.
    pub executions: u64,
    /// How late the one is that was due first; zero where none is due.
    pub oldest: Millis,
}

/// How far the projections are behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProjectionLag {
    /// Frames not projected yet.
    pub frames: u64,
    /// The store's time of the newest frame that the rows show; `None` where they show none.
    pub as_of: Option<Timestamp>,
}
