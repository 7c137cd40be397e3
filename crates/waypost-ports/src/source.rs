//! Sources of items: what polls and streams read.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use waypost_core::expr::Placeholder;
use waypost_core::failure::Failure;
use waypost_core::json::Json;
use waypost_core::time::Millis;
use waypost_core::trigger::{StreamCursor, StreamSource, StreamStart};

/// Bytes of one page.
pub const PAGE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// A page to read.
#[derive(Clone, Debug)]
pub struct PageRequest {
    /// Whose secrets may be used.
    pub workflow: Arc<str>,
    pub trigger: Arc<str>,
    /// The config of an `api-call`, without its secrets.
    pub config: Json,
    /// Where in the config the secrets belong.
    pub secrets: Vec<Placeholder>,
    /// The `ETag` of the page that was read last, if the answer may be that nothing has changed.
    pub etag: Option<String>,
    pub timeout: Millis,
}

/// A page as it came.
#[derive(Clone, Debug)]
pub struct SourcePage {
    pub status: u16,
    /// An object of texts, with names in lower case.
    pub headers: Json,
    pub body: Json,
}

impl SourcePage {
    /// Nothing has changed since the page with the `ETag` of the request.
    pub fn is_unchanged(&self) -> bool {
        self.status == 304
    }
}

/// The interface of polls to the network.
pub trait PageSource: Send + Sync {
    /// Reads a page, within the timeout of the request.
    fn read(&self, request: PageRequest) -> BoxFuture<'static, Result<SourcePage, Failure>>;
}

/// Entries of one page of a stream: so many are fired before its cursor moves.
pub const STREAM_PAGE_MAX: usize = 100;
/// Bytes of one entry of a stream.
pub const STREAM_ENTRY_BYTES_MAX: usize = 1024 * 1024;

/// The next page of a stream or a table.
#[derive(Clone, Debug)]
pub struct StreamRequest {
    /// Whose sources may be used.
    pub workflow: Arc<str>,
    pub source: StreamSource,
    pub cursor: StreamCursor,
    /// Where it begins if the cursor has no place and names no beginning.
    pub start: StreamStart,
    pub timeout: Millis,
}

impl StreamRequest {
    /// Where it begins if the cursor has no place.
    pub fn beginning(&self) -> StreamStart {
        self.cursor.from.as_deref().map_or_else(|| self.start.clone(), StreamStart::parse)
    }
}

/// A page of a stream.
#[derive(Clone, Debug, Default)]
pub struct StreamPage {
    /// The oldest first, at most [`STREAM_PAGE_MAX`].
    pub entries: Vec<StreamEntry>,
    /// After the page.
    pub cursor: StreamCursor,
    /// Is there more to be read at once?
    pub more: bool,
    /// Entries that were removed from the source before they could be read.
    pub removed: u64,
}

/// An entry of a stream, or a row of a table.
#[derive(Clone, PartialEq, Debug)]
pub struct StreamEntry {
    /// What identifies it, unless the trigger has a `key`.
    pub key: String,
    /// What it brings, or why it cannot be read.
    pub item: Result<Json, String>,
}

/// Why a page cannot be read.
#[derive(Clone, PartialEq, Debug)]
pub enum StreamFault {
    /// It may be read later.
    Failed(Failure),
    /// The source is not the one that the cursor is a place of: only a person can say where to go on.
    WentBack(String),
}

impl From<Failure> for StreamFault {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// The interface of stream triggers to the sources of the settings.
pub trait StreamReader: Send + Sync {
    /// Reads a page, within the timeout of the request. It does not wait for entries.
    fn read(&self, request: StreamRequest) -> BoxFuture<'static, Result<StreamPage, StreamFault>>;

    /// Marks the rows in the source that the cursor says are not marked yet. May be repeated.
    fn mark(&self, request: StreamRequest) -> BoxFuture<'static, Result<(), StreamFault>>;
}
